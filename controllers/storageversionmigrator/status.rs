//! The status of a migration: its conditions, and the PUT.
//!
//! A migration goes through `Running`, a resource version, then `Succeeded` or `Failed`, and at last
//! `Running` turns to `False`. Conditions of results stay.
//!
//! Without admission, up to 1.35, the resource version comes first, and the result ends `Running` in the same write.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::ApiClient;
use steersman_client::writes::{OnFailure, write_status};
use steersman_objects::{Object, StorageVersionMigration};
use steersman_runtime::consistency::TrackedCache;
use steersman_values::clock::{Clock, whole_seconds};

use super::error::SyncError;

/// The migration was admitted, and `False` after its end. Upstream: `MigrationRunning`.
pub(super) const RUNNING: &str = "Running";
/// All objects were rewritten. Upstream: `MigrationSucceeded`.
pub(super) const SUCCEEDED: &str = "Succeeded";
/// An object or the resource was refused. Upstream: `MigrationFailed`.
pub(super) const FAILED: &str = "Failed";

/// Whether the migration was admitted and has not been ended.
///
/// Upstream: `isRunning` in `migrationrunner.go`.
pub(super) fn is_running(migration: &StorageVersionMigration) -> bool {
    migration.status.conditions.is_true(RUNNING)
}

/// Whether the migration has a result.
///
/// Upstream: `isTerminal` in `migrationrunner.go`. Such a migration is never started again.
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
    ///
    /// Only the condition `Running` changes, to `False`. Upstream: `cleanupAdmission`.
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
    ///
    /// Upstream: `setStatusConditions` in `util.go` for `Add`. A condition of unknown status does not
    /// count there, so the list may get a second one of the type. In 1.34 one that is false does not count either, and the API
    /// server refuses the second one. Without admission, a result ends `Running`.
    fn make(
        self,
        status: &mut Value,
        migration: &StorageVersionMigration,
        admits: bool,
        now: Timestamp,
    ) {
        let time = migration.time_of_conditions();
        let now = whole_seconds(now).to_string();
        // A resource version needs no conditions, and an empty list would be one more difference.
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
                if conditions.iter().any(is_set) {
                    return;
                }
                let mut running = conditions.iter_mut();
                if let Some(running) = running.find(|found| found["type"] == RUNNING)
                    && !admits
                {
                    running["status"] = json!("False");
                }
                conditions.push(json!({
                    "type": kind, "status": "True", time: now,
                    "reason": reason, "message": message,
                }));
            }
            (Change::Complete, Some((conditions, now))) => {
                let mut running = conditions.iter_mut();
                if let Some(running) = running.find(|found| found["type"] == RUNNING) {
                    *running = json!({
                        "type": RUNNING, "status": "False",
                        "observedGeneration": migration.meta.generation,
                        time: now, "reason": "MigrationCompleted",
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
    /// The cache of migrations. The next sync of the same loop waits until the cache shows the write.
    pub(super) cache: TrackedCache,
    /// Whether [`runner`](super::runner) admits and ends migrations. Releases up to 1.35 lack it.
    pub(super) admits: bool,
}

impl Statuses {
    /// PUTs the changed status with the resource version of `migration`, and returns the stored migration. A conflict
    /// is an error: the other loops write the same status.
    pub(super) async fn write(
        &self,
        migration: &StorageVersionMigration,
        change: Change<'_>,
    ) -> Result<Arc<StorageVersionMigration>, SyncError> {
        let mut object = Value::Object(migration.document.to_object());
        let status = &mut object["status"];
        change.make(status, migration, self.admits, self.clock.now());
        let written = write_status::<StorageVersionMigration>(
            &self.client,
            &migration.meta,
            &migration.document,
            &*status,
            OnFailure::Return,
        );
        let written = written.await.map_err(SyncError::Status)?;
        let written = StorageVersionMigration::decode(&written).map_err(SyncError::Answer)?;
        let version = written.meta.resource_version;
        self.cache.wrote_at(&migration.key(), version);
        Ok(Arc::new(written))
    }
}
