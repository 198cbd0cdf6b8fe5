//! Makes ResourceClaims for pods that name a template, and frees the claims that pods have left.
//!
//! events of pods, claims and templates -> queue -> [`pods`]: POST of claims ([`making`]), status of
//! the pod, reservations; [`release`]: reservations of pods that are over, allocation, finalizer,
//! DELETE
//!
//! With the feature gate `DRAWorkloadResourceClaims`, PodGroups have claims as well, which their pods
//! share ([`groups`]).
//!
//! Guarantees:
//!
//! - A claim stays allocated and keeps its reservation while the pod of the reservation may run.
//! - A pod gets one claim per template that it names, also after lost answers and changes of leader.
//!
//! Schedulers allocate claims, and reserve them for the pods that they bind.
//!
//! Upstream: `pkg/controller/resourceclaim`. Differences:
//!
//! - Finished pods get neither claims nor reservations. Upstream reserves shared claims for them again
//!   and again (kubernetes/kubernetes#141274).
//! - The status of a pod keeps the entries of its other claims (kubernetes/kubernetes#138407).
//! - A pod whose name another one has in the cache is read from the API server before its claims are
//!   freed: the cache may be older than the pod.
//! - Deletions carry the UID and the resource version of the claim, and status applies the UID of
//!   the pod or the PodGroup.
//! - After a lost answer, and as a new leader with older caches, the controller reads the pod and
//!   lists the claims of the namespace before it makes one.

mod create;
mod deleted;
mod error;
mod groups;
mod handlers;
mod holder;
mod key;
mod making;
mod metrics;
mod needs;
mod pods;
mod release;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_client::ApiClient;
use steersman_objects::{Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};
use steersman_options::features;
use steersman_releases::Release;
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, INFORMERS, InitError,
};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::{Index, SharedInformer, Store};
use steersman_runtime::owner::ByController;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::{Requeue, Syncer, run_workers};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::intern::Sym;

use self::deleted::Deleted;
use self::error::SyncError;
use self::groups::Groups;
use self::key::Key;
use self::metrics::ClaimMetrics;

/// The ResourceClaim controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[IDENTITY],
    enabled_by_default: true,
    summary: "Makes ResourceClaims from the templates that pods name, and frees those of finished pods",
    identity: IDENTITY,
    reads: &[
        Read::of::<Pod>(),
        Read::by_controller::<ResourceClaim>(),
        Read::of::<ResourceClaimTemplate>(),
        Read::of::<PodGroup>().with_gate(features::DRA_WORKLOAD_RESOURCE_CLAIMS),
    ],
    rules: &[
        // A pod is read before its reservation goes, if the cache lacks it.
        Rule::new(&[""], &["pods"], &["get"]),
        // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
        // references of 1.34 and older.
        Rule::new(&[""], &["pods/finalizers"], &["update"]),
        Rule::new(&[""], &["pods/status"], &["patch"]),
        Rule::new(
            &[GROUP],
            &["resourceclaims"],
            &["create", "delete", "list", "update"],
        ),
        Rule::new(
            &[GROUP],
            // API servers from 1.36 on ask for `binding` before a write of `allocation` or `reservedFor`.
            &["resourceclaims/binding", "resourceclaims/status"],
            &["update"],
        ),
        Rule::new(&["scheduling.k8s.io"], &["podgroups"], &["get"])
            .with_gate(features::DRA_WORKLOAD_RESOURCE_CLAIMS),
        Rule::new(&["scheduling.k8s.io"], &["podgroups/status"], &["patch"])
            .with_gate(features::DRA_WORKLOAD_RESOURCE_CLAIMS),
        Rule::EVENTS,
    ],
    init,
};

const NAME: &str = "resourceclaim-controller";

/// Name of its client.
const IDENTITY: &str = "resource-claim-controller";

/// Source of its Events, and name of its queue.
const COMPONENT: &str = "resource_claim";

/// API group of the claims.
const GROUP: &str = "resource.k8s.io";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let pods = ctx.informers.shared::<Pod>();
    let claims = ctx.informers.shared::<ResourceClaim>();
    let templates = ctx.informers.shared::<ResourceClaimTemplate>();
    let metrics = ClaimMetrics::register(&ctx.registry, claims.store(), ctx.release);
    let metrics = metrics.map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let client = ctx.client(IDENTITY);
    let consistency = ConsistencyStore::new(ctx.term_start_rv);
    let has_groups = ctx.features.is_on(features::DRA_WORKLOAD_RESOURCE_CLAIMS);
    let groups = has_groups.then(|| ctx.informers.shared::<PodGroup>());
    let shared = Arc::new(Shared {
        groups: groups
            .as_ref()
            .map(|groups| Groups::new(groups, &pods.store(), &consistency)),
        pods_by_claim: pods
            .store()
            .add_index("podResourceClaim", handlers::claims_of),
        pods_by_template: pods
            .store()
            .add_index("podResourceClaimTemplate", handlers::templates_of),
        claims: ByController::of(&claims.store()),
        pods: pods.store(),
        templates: templates.store(),
        queue: WorkQueue::new(COMPONENT, &ctx.queue_metrics),
        deleted: Deleted::default(),
        claims_cache: consistency.track(claims.versioned()),
        pods_cache: consistency.track(pods.versioned()),
        templates_cache: consistency.track(templates.versioned()),
        consistency,
        unseen: Mutex::default(),
        recorder: ctx.recorder(COMPONENT, client.clone()),
        client,
        lists: ctx.client(INFORMERS),
        metrics,
        release: ctx.release,
        has_admin_access: ctx.features.is_on(features::DRA_ADMIN_ACCESS),
        has_prioritized_lists: ctx.features.is_on(features::DRA_PRIORITIZED_LIST),
    });
    handlers::register(&shared, &pods, &claims, &templates, groups.as_ref());
    Ok(Box::new(ResourceClaimController {
        shared,
        groups,
        claims,
        templates,
        workers: ctx.options.workers("concurrent-resourceclaim-syncs"),
    }))
}

/// The state that handlers and workers share.
struct Shared {
    pods: Store<Pod>,
    /// Pods by namespace and name of the ResourceClaims that they use.
    pods_by_claim: Index<Pod>,
    /// Pods by namespace and name of the templates that they name.
    pods_by_template: Index<Pod>,
    /// By UID of the controller: the claims that were made for a pod or a PodGroup.
    claims: ByController<ResourceClaim>,
    templates: Store<ResourceClaimTemplate>,
    /// PodGroups. Only with the feature gate `DRAWorkloadResourceClaims`.
    groups: Option<Groups>,
    queue: WorkQueue<Key>,
    /// Spares the read of pods that are known to be gone.
    deleted: Deleted,
    /// Own writes by key. A sync waits until the caches show those of its key.
    consistency: ConsistencyStore<Key>,
    claims_cache: TrackedCache<Key>,
    pods_cache: TrackedCache<Key>,
    /// Tells whether the cache of templates may lack changes from before the leadership term.
    templates_cache: TrackedCache<Key>,
    /// The creations of claims, by pod or PodGroup and name within it, until the cache has shown the
    /// claim. The answer of a creation may be lost, and so may its watch event.
    unseen: Mutex<HashMap<Key, HashSet<Sym>>>,
    recorder: EventRecorder,
    client: ApiClient,
    /// Reads in place of caches, with the rights of the informers.
    lists: ApiClient,
    metrics: ClaimMetrics,
    release: Release,
    /// The feature gate `DRAAdminAccess`.
    has_admin_access: bool,
    /// The feature gate `DRAPrioritizedList`.
    has_prioritized_lists: bool,
}

impl Shared {
    fn unseen(&self) -> MutexGuard<'_, HashMap<Key, HashSet<Sym>>> {
        self.unseen.lock()
    }

    /// The cache shows the claim of a pod or a PodGroup.
    fn seen(&self, holder: &Key, claim: &Sym) {
        let mut unseen = self.unseen();
        if let Some(claims) = unseen.get_mut(holder) {
            claims.remove(claim);
            if claims.is_empty() {
                unseen.remove(holder);
            }
        }
    }

    /// Drops the records about a pod or a PodGroup.
    fn forget(&self, holder: &Key) {
        self.consistency.clear(holder);
        self.unseen().remove(holder);
    }
}

/// Upstream: `syncHandler`.
impl Syncer<Key> for Shared {
    type Error = SyncError;

    async fn sync(&self, key: &Key) -> Result<Requeue, SyncError> {
        // If a cache is behind, the key comes back as soon as it has caught up.
        let ready = self
            .consistency
            .ready_or_requeue(key, &self.queue, key.clone());
        if ready.is_ok() {
            match key {
                Key::Pod(pod) => self.sync_pod(pod).await?,
                Key::Group(group) => self.sync_group(group).await?,
                Key::Claim(claim) => self.sync_claim(claim).await?,
            }
        }
        Ok(Requeue::Never)
    }
}

/// The queue and its workers.
struct ResourceClaimController {
    shared: Arc<Shared>,
    claims: SharedInformer<ResourceClaim>,
    templates: SharedInformer<ResourceClaimTemplate>,
    groups: Option<SharedInformer<PodGroup>>,
    workers: usize,
}

impl Controller for ResourceClaimController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // An API server may lack these types. Then this controller alone waits.
            let synced = async {
                self.claims.wait_synced().await;
                self.templates.wait_synced().await;
                if let Some(groups) = &self.groups {
                    groups.wait_synced().await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = synced => {}
            }
            let queue = self.shared.queue.clone();
            run_workers(NAME, queue, self.workers, self.shared, stop).await;
        })
    }
}
