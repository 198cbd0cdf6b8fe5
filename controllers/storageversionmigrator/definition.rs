//! The condition `StorageMigrating` of a CustomResourceDefinition, and its stored versions.
//!
//! Upstream: `markAsActive` and `finishCRDMigration` in `migrationrunner.go`.
//!
//! A CustomResourceDefinition may drop a version only after the version has left
//! `status.storedVersions`. Users wait for that, so the list is shortened only when all objects are
//! surely rewritten.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::{ApiClient, Target};
use steersman_objects::GroupResource;
use steersman_values::clock::whole_seconds;
use steersman_values::resource::CUSTOM_RESOURCE_DEFINITIONS;

use super::error::SyncError;

/// The field manager.
///
/// Upstream: `MigrationRunnerControllerName`. The applied fields belong to it, so a user sees the
/// writer.
const MANAGER: &str = "migration-runner-controller";

/// The condition.
///
/// It is `True` from the admission of a migration until its end.
const CONDITION: &str = "StorageMigrating";

/// The progress of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress<'a> {
    /// The migration with this name runs.
    Running(&'a str),
    /// All objects are in the storage version.
    Succeeded,
    /// Some objects may still have another version, so the stored versions stay.
    Failed,
}

/// Shows `progress` in the definition of `resource`. Resources without a definition are built in.
///
/// Upstream: `markAsActive` and `cleanupCRD`, with `crdForGroupResource`. A conflict fails the sync,
/// and the next one reads the definition again; upstream repeats both requests within the sync.
pub(super) async fn mark(
    client: &ApiClient,
    resource: &GroupResource,
    progress: &Progress<'_>,
    now: Timestamp,
) -> Result<(), SyncError> {
    let name = format!("{}.{}", resource.resource, resource.group);
    let target = Target {
        resource: &CUSTOM_RESOURCE_DEFINITIONS,
        namespace: None,
        name: Some(&name),
        subresource: None,
    };
    let definition: Value = match client.get(target).await {
        Ok(body) => serde_json::from_slice(&body).map_err(SyncError::Malformed)?,
        Err(error) if error.is_object_not_found() => return Ok(()),
        Err(error) => return Err(SyncError::Definition(error)),
    };
    if let Some(status) = status(&definition, progress, now) {
        let api_version = CUSTOM_RESOURCE_DEFINITIONS.api_version();
        // The resource version excludes a change of the definition since the read.
        let metadata = json!({
            "name": name, "resourceVersion": definition["metadata"]["resourceVersion"],
        });
        let configuration = json!({
            "kind": CUSTOM_RESOURCE_DEFINITIONS.kind, "apiVersion": api_version,
            "metadata": metadata, "status": status,
        });
        let applied = client.apply(target.status(), MANAGER, &configuration).await;
        applied.map_err(SyncError::DefinitionStatus)?;
    }
    Ok(())
}

/// The applied status; `None` if an earlier sync has ended the migration already.
///
/// Upstream: `finishCRDMigration`. Between admission and end, the generation in the condition tells
/// whether the definition is still the same one.
///
/// The stored versions become the one storage version only if the migration has succeeded and the
/// generation is the same. Upstream checks the generation only, so a failed migration also drops
/// versions there.
fn status(definition: &Value, progress: &Progress<'_>, now: Timestamp) -> Option<Value> {
    let generation = &definition["metadata"]["generation"];
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let current = conditions.find(|found| found["type"] == CONDITION);
    let is_running = matches!(progress, Progress::Running(_));
    // The status of the migration is written after this one. If that write fails, the next sync comes
    // here again, perhaps when the definition has changed already.
    if !is_running && current.is_some_and(|found| found["status"] == "False") {
        return None;
    }
    // After a change of the definition, objects may have been stored in another version.
    let is_same = current.is_some_and(|found| found["observedGeneration"] == *generation);
    let (reason, message) = match progress {
        Progress::Running(name) => ("MigrationRunning", format!("Migration {name} is running")),
        Progress::Succeeded if is_same => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated".to_owned(),
        ),
        Progress::Succeeded => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch".to_owned(),
        ),
        Progress::Failed => ("MigrationFailed", "The migration has failed".to_owned()),
    };
    let mut status = json!({"conditions": [{
        "type": CONDITION, "status": if is_running { "True" } else { "False" },
        "lastTransitionTime": whole_seconds(now).to_string(), "reason": reason, "message": message,
        "observedGeneration": generation,
    }]});
    let versions = definition["spec"]["versions"].as_array();
    let mut versions = versions.into_iter().flatten();
    if *progress == Progress::Succeeded
        && is_same
        && let Some(stored) = versions.find(|version| version["storage"] == true)
    {
        status["storedVersions"] = json!([stored["name"]]);
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(condition: Value) -> Value {
        json!({
            "metadata": {"generation": 2},
            "spec": {"versions": [
                {"name": "v1", "storage": false}, {"name": "v2", "storage": true},
            ]},
            "status": {"conditions": [{"type": "Established", "status": "True"}, condition]},
        })
    }

    #[test]
    fn stored_versions_change_after_a_success_in_the_same_generation() {
        let condition = |status: &str, generation: i64| json!({"type": CONDITION, "status": status, "observedGeneration": generation});
        let updated = "The migration has succeeded and the stored versions have been updated";
        let mismatch = "The migration has succeeded but the stored versions have not been updated due to a generation mismatch";
        // (case, condition, progress, message and stored versions)
        let cases = [
            (
                "start",
                Value::Null,
                Progress::Running("m"),
                Some(("Migration m is running", Value::Null)),
            ),
            (
                "start after an earlier migration",
                condition("False", 2),
                Progress::Running("m"),
                Some(("Migration m is running", Value::Null)),
            ),
            (
                "success",
                condition("True", 2),
                Progress::Succeeded,
                Some((updated, json!(["v2"]))),
            ),
            (
                "changed meanwhile",
                condition("True", 1),
                Progress::Succeeded,
                Some((mismatch, Value::Null)),
            ),
            (
                "created meanwhile",
                Value::Null,
                Progress::Succeeded,
                Some((mismatch, Value::Null)),
            ),
            (
                "failure",
                condition("True", 2),
                Progress::Failed,
                Some(("The migration has failed", Value::Null)),
            ),
            (
                "ended already",
                condition("False", 2),
                Progress::Succeeded,
                None,
            ),
        ];
        for (case, condition, progress, expected) in cases {
            let status = status(&definition(condition), &progress, Timestamp::UNIX_EPOCH);
            let found = status.as_ref().map(|status| {
                let message = &status["conditions"][0]["message"];
                (message.as_str().unwrap(), status["storedVersions"].clone())
            });
            assert_eq!(found, expected, "{case}");
        }
    }
}
