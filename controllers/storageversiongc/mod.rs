//! Removes the entries of API servers that are gone from StorageVersions.
//!
//! deleted identity Lease -> queue of Leases -> entries of that server in all StorageVersions
//! changed StorageVersion -> queue of StorageVersions -> its entries without a Lease
//!
//! Each API server of a cluster has an identity Lease in `kube-system`. A StorageVersion without
//! entries is deleted. The controller runs only with the feature gate `StorageVersionAPI`.
//!
//! Upstream: `pkg/controller/storageversiongc`. Differences:
//!
//! - A Lease that cannot be read leads to a retry. Upstream then removes the entry of a live server.
//! - Deletions carry UID and resource version, so that a new entry survives.

mod status;
mod sync;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;

use steersman_objects::{Lease, Object, ObjectKey, StorageVersion};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::sync::{OfLeases, OfStorageVersions, StorageVersions, is_identity};

/// The garbage collector of StorageVersions.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["storage-version-gc"],
    enabled_by_default: true,
    summary: "Removes API servers that are gone from StorageVersions, with the feature gate StorageVersionAPI",
    identity: "storage-version-garbage-collector",
    reads: &[Read::of::<StorageVersion>(), Read::of::<Lease>()],
    rules: &[
        Rule::new(&["coordination.k8s.io"], &["leases"], &["get"]),
        Rule::new(
            &["internal.apiserver.k8s.io"],
            &["storageversions"],
            &["get", "list", "delete"],
        ),
        Rule::new(
            &["internal.apiserver.k8s.io"],
            &["storageversions/status"],
            &["update"],
        ),
    ],
    init,
};

const NAME: &str = "storageversion-garbage-collector-controller";

/// Workers of each queue, as upstream.
///
/// One is enough: API servers come and go rarely. Both loops may write one StorageVersion at a time,
/// and the resource version then makes the later write fail and repeat.
const WORKERS: usize = 1;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<StorageVersion>::new(
        ctx,
        NAME,
        "storage_version_garbage_collector_storageversions",
    );
    let gone = WorkQueue::new(
        "storage_version_garbage_collector_leases",
        &ctx.queue_metrics,
    );
    let versions = keyed.objects().clone();
    let leases = ctx.informers.shared::<Lease>();
    let queue = gone.clone();
    // Upstream: `onDeleteLease`. The last known labels decide, since the Lease is gone.
    leases.add_handler(move |change| {
        if let Change::Deleted { object, .. } = change
            && is_identity(object)
        {
            queue.add(object.key());
        }
    });
    let queue = keyed.queue();
    let cached = leases.store();
    // Upstream: `enqueueStorageVersion`. The cache only selects candidates; the sync reads each Lease
    // from the API server. Most StorageVersions have live servers only, and cause no request.
    versions.add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => {
            let is_live = |server: &str| {
                let lease = cached.get(&ObjectKey::new(sync::NAMESPACE, server));
                lease.is_some_and(|lease| is_identity(&lease))
            };
            let mut entries = object.status.storage_versions.iter();
            if !entries.all(|entry| is_live(&entry.api_server_id)) {
                queue.add(object.key());
            }
        }
        Change::Deleted { .. } => {}
    });
    let shared = Arc::new(StorageVersions {
        client: ctx.client(DESCRIPTOR.identity),
        clock: ctx.clock.clone(),
        cache: keyed.tracked(&versions),
    });
    let queue = keyed.queue();
    Ok(Box::new(StorageVersionGc {
        versions: (queue, keyed.runner(OfStorageVersions(Arc::clone(&shared)))),
        leases: (gone, Arc::new(OfLeases(shared))),
    }))
}

/// The two loops.
///
/// Each loop has its queue, and a failure of one does not delay the other.
struct StorageVersionGc {
    versions: (WorkQueue<ObjectKey>, Arc<Runner<OfStorageVersions>>),
    leases: (WorkQueue<ObjectKey>, Arc<OfLeases>),
}

impl Controller for StorageVersionGc {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            versions: (versions, of_versions),
            leases: (leases, of_leases),
        } = *self;
        Box::pin(async move {
            tokio::join!(
                run_workers(NAME, versions, WORKERS, of_versions, stop.clone()),
                run_workers(NAME, leases, WORKERS, of_leases, stop),
            );
        })
    }
}
