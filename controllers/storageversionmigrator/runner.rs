//! Admits one migration per resource at a time, and ends those with a result.
//!
//! Upstream: `migrationrunner.go`.
//!
//! Two migrations of one resource at once would both change the stored versions at their end. The first
//! of these changes would be wrong about the second migration.

use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_client::live;
use steersman_objects::{GroupResource, StorageVersionMigration};
use steersman_runtime::informer::Store;
use steersman_runtime::workers::{Requeue, Syncer};

use super::definition::{self, Progress};
use super::error::SyncError;
use super::status::{Change, RUNNING, SUCCEEDED, Statuses, is_running, is_terminal};

/// Syncs resources.
pub(super) struct MigrationRunner {
    pub(super) migrations: Store<StorageVersionMigration>,
    pub(super) client: ApiClient,
    /// Reads migrations in place of the cache, with the rights of the informers.
    pub(super) lists: ApiClient,
    pub(super) statuses: Statuses,
}

/// The steps for the migrations of one resource.
#[derive(Debug, Default)]
struct Plan {
    /// Running migrations with a result.
    ended: Vec<Arc<StorageVersionMigration>>,
    /// The next migration to run.
    next: Option<Arc<StorageVersionMigration>>,
}

/// The plan for the migrations of one resource: the oldest one runs next, unless one is running.
///
/// Upstream: `getSVMsForResource` and `compareSVM`. Names decide between equal ages. Failed and
/// succeeded migrations that never ran stay as they are.
fn plan(migrations: impl Iterator<Item = Arc<StorageVersionMigration>>) -> Plan {
    let mut plan = Plan::default();
    let mut is_busy = false;
    let age = |migration: &StorageVersionMigration| {
        (migration.meta.created, Arc::clone(&migration.meta.name))
    };
    for migration in migrations {
        match (is_running(&migration), is_terminal(&migration)) {
            (true, true) => plan.ended.push(migration),
            (true, false) => is_busy = true,
            (false, true) => {}
            (false, false) => {
                let is_older = |next: &Arc<_>| age(&migration) < age(next);
                if plan.next.as_ref().is_none_or(is_older) {
                    plan.next = Some(migration);
                }
            }
        }
    }
    if is_busy {
        plan.next = None;
    }
    plan
}

impl Syncer<GroupResource> for MigrationRunner {
    type Error = SyncError;

    /// Ended migrations come first, as upstream, so their definition is settled before the next
    /// migration marks it again. The migration after a just ended one is admitted in the same sync.
    async fn sync(&self, resource: &GroupResource) -> Result<Requeue, SyncError> {
        let all = self.migrations.list().into_iter();
        let plan = plan(all.filter(|migration| migration.spec.resource == *resource));
        for migration in plan.ended {
            let progress = if migration.status.conditions.is_true(SUCCEEDED) {
                Progress::Succeeded
            } else {
                Progress::Failed
            };
            // The definition is marked before the migration. `Complete` takes the migration out of the
            // next plan, and a definition that is still marked would stay so.
            self.mark(resource, &progress).await?;
            self.statuses.write(&migration, Change::Complete).await?;
        }
        if let Some(migration) = plan.next {
            // A cache may still show a migration without its end, which would begin again and clear
            // the stored versions. The event of a later version queues the resource again.
            if !self.is_current(&migration).await? {
                return Ok(Requeue::Never);
            }
            let progress = Progress::Running(&migration.meta.name);
            self.mark(resource, &progress).await?;
            let admitted = Change::Add {
                kind: RUNNING,
                reason: "MigrationRunning",
                message: "The migration is running",
            };
            self.statuses.write(&migration, admitted).await?;
        }
        Ok(Requeue::Never)
    }
}

impl MigrationRunner {
    /// Whether the API server has this version of `migration`. One that is gone is not current either.
    async fn is_current(&self, migration: &StorageVersionMigration) -> Result<bool, SyncError> {
        let meta = &migration.meta;
        let lists = &self.lists;
        let live = live::named::<StorageVersionMigration>(lists, "", &meta.name).await;
        let live = live.map_err(SyncError::Live)?.objects;
        Ok(live
            .first()
            .is_some_and(|live| live.meta.resource_version == meta.resource_version))
    }

    /// Shows the progress in the CustomResourceDefinition of the resource, if it has one.
    async fn mark(
        &self,
        resource: &GroupResource,
        progress: &Progress<'_>,
    ) -> Result<(), SyncError> {
        let now = self.statuses.clock.now();
        definition::mark(&self.client, resource, progress, now).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    fn migration(name: &str, created: u8, conditions: &[&str]) -> Arc<StorageVersionMigration> {
        let conditions = conditions.iter();
        let conditions: Vec<_> = conditions
            .map(|kind| json!({"type": kind, "status": "True"}))
            .collect();
        let json = json!({
            "metadata": {
                "name": name, "uid": name, "resourceVersion": "1",
                "creationTimestamp": format!("2026-01-01T00:00:{created:02}Z"),
            },
            "status": {"conditions": conditions},
        });
        Arc::new(StorageVersionMigration::decode(json.to_string().as_bytes()).unwrap())
    }

    /// Upstream: `TestCustomResourceController_Sync`.
    #[test]
    fn the_oldest_migration_runs_next() {
        let waiting = &[][..];
        let running = &[RUNNING][..];
        let done = &[RUNNING, SUCCEEDED][..];
        // (case, migrations, ended, next)
        #[allow(clippy::type_complexity, reason = "a table of cases")]
        let cases: [(&str, &[(&str, u8, &[&str])], &[&str], Option<&str>); 7] = [
            ("none", &[], &[], None),
            ("one", &[("a", 1, waiting)], &[], Some("a")),
            (
                "the oldest",
                &[("a", 2, waiting), ("b", 1, waiting)],
                &[],
                Some("b"),
            ),
            (
                "of the same age",
                &[("b", 1, waiting), ("a", 1, waiting)],
                &[],
                Some("a"),
            ),
            (
                "one is running, found later",
                &[("a", 1, waiting), ("b", 2, running)],
                &[],
                None,
            ),
            (
                "one is running, found earlier",
                &[("b", 2, running), ("a", 1, waiting)],
                &[],
                None,
            ),
            (
                "one has ended",
                &[("a", 1, done), ("b", 2, waiting), ("c", 0, &[SUCCEEDED])],
                &["a"],
                Some("b"),
            ),
        ];
        for (case, migrations, ended, next) in cases {
            let migrations = migrations.iter();
            let plan = plan(
                migrations.map(|(name, created, conditions)| migration(name, *created, conditions)),
            );
            let names: Vec<&str> = plan.ended.iter().map(|found| &*found.meta.name).collect();
            assert_eq!(names, ended, "{case}");
            let found = plan.next.as_ref().map(|found| &*found.meta.name);
            assert_eq!(found, next, "{case}");
        }
    }
}
