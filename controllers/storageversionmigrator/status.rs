//! The status of a migration: its conditions, and the PUT.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::ApiClient;
use steersman_client::writes::{OnFailure, write_status};
use steersman_objects::{Object, StorageVersionMigration};
use steersman_runtime::consistency::TrackedCache;
use steersman_values::clock::{Clock, whole_seconds};

use super::error::SyncError;

pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

/// Whether the migration was admitted and has not been ended.
pub(super) fn is_running(migration: &StorageVersionMigration) -> bool {
    migration.status.conditions.is_true(RUNNING)
}

/// Whether the migration has a result.
pub(super) fn is_terminal(migration: &StorageVersionMigration) -> bool {
    let conditions = &migration.status.conditions;
    conditions.is_true(SUCCEEDED) || conditions.is_true(FAILED)
}

/// A change of the status.
pub(super) enum Change<'a> {
    /// Adds a condition that holds, unless the status has one of its type.
    Add {
        kind: &'static str,
        reason: &'static str,
        message: &'a str,
    },
    /// Ends the migration.
    Complete,
    /// Sets the version up to which objects are rewritten.
    Version(&'a str),
}

impl Change<'_> {
    /// The failure of a migration.
    pub(super) fn fail(message: &str) -> Change<'_> {
        Change::Add {
            kind: FAILED,
            reason: "StorageVersionMigrationFailed",
            message,
        }
    }

    /// Changes `status`.
    fn make(self, status: &mut Value, generation: i64, now: Timestamp) {
        let now = whole_seconds(now).to_string();
        if !status["conditions"].is_array() && !matches!(self, Change::Version(_)) {
            status["conditions"] = json!([]);
        }
        let conditions = status["conditions"].as_array_mut().map(|list| (list, now));
        match (self, conditions) {
            (Change::Version(version), _) => status["resourceVersion"] = json!(version),
            (
                Change::Add {
                    kind,
                    reason,
                    message,
                },
                Some((conditions, now)),
            ) => {
                let is_set = |found: &Value| {
                    found["type"] == kind
                        && (found["status"] == "True" || found["status"] == "False")
                };
                if !conditions.iter().any(is_set) {
                    conditions.push(json!({
                        "type": kind, "status": "True", "lastTransitionTime": now,
                        "reason": reason, "message": message,
                    }));
                }
            }
            (Change::Complete, Some((conditions, now))) => {
                let mut running = conditions.iter_mut();
                if let Some(running) = running.find(|found| found["type"] == RUNNING) {
                    *running = json!({
                        "type": RUNNING, "status": "False", "observedGeneration": generation,
                        "lastTransitionTime": now, "reason": "MigrationCompleted",
                        "message": "Migration completed",
                    });
                }
            }
            (_, None) => {}
        }
    }
}

/// Writes the status of migrations.
pub(super) struct Statuses {
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) cache: TrackedCache,
}

impl Statuses {
    pub(super) async fn write(
        &self,
        migration: &StorageVersionMigration,
        change: Change<'_>,
    ) -> Result<(), SyncError> {
        let mut object = Value::Object(migration.document.to_object());
        let status = &mut object["status"];
        change.make(status, migration.meta.generation, self.clock.now());
        let written = write_status::<StorageVersionMigration>(
            &self.client,
            &migration.meta,
            &migration.document,
            &*status,
            OnFailure::Return,
        );
        let written = written.await.map_err(SyncError::Status)?;
        let recorded = self.cache.wrote_answer(&migration.key(), &written);
        recorded.map_err(SyncError::Answer)
    }
}
