//! Rewrites all objects of a resource, so that etcd has them in the storage version.
//!
//! StorageVersionMigration -> [`runner`] admits one per resource -> [`resource_version`] sets the
//! version up to which objects are rewritten -> [`migrate`] applies an empty configuration to each of
//! them -> [`runner`] ends it, and updates the stored versions of a CustomResourceDefinition
//!
//! The controller runs only with the feature gate `StorageVersionMigrator`.
//!
//! Releases up to 1.35 have no [`runner`]: all migrations are run at once, and the result ends them.
//!
//! Upstream: `pkg/controller/storageversionmigrator`. Differences:
//!
//! - Objects are listed page by page. Upstream reads them from the cache of the garbage collector.
//! - The stored versions of a CustomResourceDefinition change only after a success, and only while the
//!   condition `StorageMigrating` is true. Upstream also drops versions after a failure.

mod definition;
mod error;
mod migrate;
mod resource_version;
mod runner;
mod status;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;

use steersman_client::discovery::RestMapper;
use steersman_objects::{GroupResource, Object, ObjectKey, StorageVersionMigration};
use steersman_options::features::IN_ORDER_INFORMERS;
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, INFORMERS, InitError,
};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::migrate::Migrator;
use self::resource_version::ResourceVersions;
use self::runner::MigrationRunner;
use self::status::Statuses;

/// The storage version migrator.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["svm"],
    enabled_by_default: true,
    summary: "Rewrites objects in their storage version, with the feature gate StorageVersionMigrator",
    identity: NAME,
    reads: &[Read::of::<StorageVersionMigration>()],
    rules: &[
        // Up to 1.36. The API server takes the apply of a deleted object as a creation, and refuses its UID.
        Rule::new(&["*"], &["*"], &["list", "create", "patch"]),
        Rule::new(
            &["apiextensions.k8s.io"],
            &["customresourcedefinitions"],
            &["get"],
        ),
        Rule::new(
            &["apiextensions.k8s.io"],
            &["customresourcedefinitions/status"],
            &["patch"],
        ),
        Rule::new(
            &["storagemigration.k8s.io"],
            &["storageversionmigrations/status"],
            &["update"],
        ),
    ],
    init,
};

/// Name of the controller, of a queue and of the field manager.
const NAME: &str = "storage-version-migrator-controller";

/// Upstream gives this name to the queues of two loops.
///
/// Both queues thus share the series of that name.
const QUEUE: &str = "resource-version-controller";

/// Migrations that run at the same time, as upstream.
const WORKERS: usize = 5;

/// Workers of the other loops.
///
/// Upstream starts one for each.
const SINGLE: usize = 1;

/// Limits of its client, as multiples of the configured ones, as upstream.
///
/// Each object costs a request, so the usual rate would make large migrations slow. Upstream:
/// `newSVMController` in `cmd/kube-controller-manager/app/storageversionmigrator.go`.
const QPS_FACTOR: f32 = 20.0;
const BURST_FACTOR: u32 = 100;

/// A part of the manager that upstream's controller needs is off.
#[derive(Debug, thiserror::Error)]
enum Missing {
    /// Upstream lists objects from the cache of the garbage collector.
    #[error("storage version migrator requires garbage collector")]
    Collector,
    /// Upstream compares the version of a migration with that of a cache.
    #[error("storage version migrator requires the InOrderInformers feature gate to be enabled")]
    InOrderInformers,
}

/// The conditions are upstream's, so that one set of flags starts both managers.
fn check(ctx: &ControllerContext) -> Result<(), Missing> {
    if !ctx.options.bool("enable-garbage-collector") {
        return Err(Missing::Collector);
    }
    if ctx.release.checks_storage_migrations() && !ctx.features.is_on(IN_ORDER_INFORMERS) {
        return Err(Missing::InOrderInformers);
    }
    Ok(())
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    check(ctx).map_err(|missing| InitError {
        controller: NAME,
        source: missing.into(),
    })?;
    let client = ctx.client(NAME).rethrottled(QPS_FACTOR, BURST_FACTOR);
    let mut versions = Keyed::<StorageVersionMigration>::new(ctx, NAME, QUEUE);
    let mut migrations = Keyed::<StorageVersionMigration>::new(ctx, NAME, NAME);
    let resources = WorkQueue::new(QUEUE, &ctx.queue_metrics);
    let cached = migrations.objects().clone();
    let queues = [versions.queue(), migrations.queue()];
    let of_resources = resources.clone();
    let admits = ctx.release.admits_storage_migrations();
    // The deletion of a running migration has to admit the next one of its resource. Each of the other
    // two loops leaves a key whose migration is not in its phase.
    cached.add_handler(move |change| {
        let migration = match change {
            Change::Added { object, .. } | Change::Updated { new: object, .. } => {
                queues.iter().for_each(|queue| queue.add(object.key()));
                object
            }
            Change::Deleted { object, .. } => object,
        };
        if admits {
            of_resources.add(migration.spec.resource.clone());
        }
    });
    let mapper = Arc::new(RestMapper::new(client.clone()));
    let statuses = |keyed: &mut Keyed<StorageVersionMigration>| Statuses {
        client: ctx.client(NAME),
        clock: ctx.clock.clone(),
        cache: keyed.tracked(&cached),
        admits,
    };
    let checks = ctx.release.checks_storage_migrations();
    let runner = MigrationRunner {
        migrations: cached.store(),
        client: client.clone(),
        lists: ctx.client(INFORMERS),
        // The migrator waits until the cache shows the write.
        statuses: statuses(&mut migrations),
    };
    let resource_versions = ResourceVersions {
        client: client.clone(),
        mapper: Arc::clone(&mapper),
        statuses: statuses(&mut versions),
        checks,
    };
    let migrator = Migrator {
        client,
        mapper,
        statuses: statuses(&mut migrations),
        checks,
        patches: ctx.release.migrates_storage_by_merge_patches(),
    };
    Ok(Box::new(StorageVersionMigrator {
        resources: (resources, Arc::new(runner)),
        versions: (versions.queue(), versions.runner(resource_versions)),
        migrations: (migrations.queue(), migrations.runner(migrator)),
    }))
}

/// The three loops.
///
/// They communicate only through the status of migrations, so a restart continues in any phase.
struct StorageVersionMigrator {
    resources: (WorkQueue<GroupResource>, Arc<MigrationRunner>),
    versions: (WorkQueue<ObjectKey>, Arc<Runner<ResourceVersions>>),
    migrations: (WorkQueue<ObjectKey>, Arc<Runner<Migrator>>),
}

impl Controller for StorageVersionMigrator {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            resources,
            versions,
            migrations,
        } = *self;
        Box::pin(async move {
            tokio::join!(
                run_workers(NAME, resources.0, SINGLE, resources.1, stop.clone()),
                run_workers(NAME, versions.0, SINGLE, versions.1, stop.clone()),
                run_workers(NAME, migrations.0, WORKERS, migrations.1, stop),
            );
        })
    }
}
