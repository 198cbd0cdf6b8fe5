//! The quotas that a change enqueues.
//!
//! A changed quota is enqueued itself. A change of a counted object enqueues the quotas of its
//! namespace that limit the type. Upstream: `replenishQuota` and `DefaultUpdateFilter`.

use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::quota::{
    Counted, is_claim_replenished, is_pod_replenished, is_service_replenished, service_usage,
};
use steersman_objects::{Object, ObjectKey, ResourceQuota};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::workqueue::{ImmediateQueue, WorkQueue};
use tokio::time::Instant;

use super::priority::is_missing_usage;
use super::releases::Releases;
use super::status;
use super::types::Types;
use super::usage::Usage;

/// Time from the addition of an object to the count of its quotas. The API server has raised the
/// usage before it stores an object. A sync before its watch event may have lowered the usage
/// again. The count only raises the usage, since further objects may be on the way. Upstream
/// ignores additions.
const RECOUNT: Duration = Duration::from_secs(1);

/// Time from a change of the usage to the count of its quota. The last count may have found no
/// difference, because the cache showed the object and not yet its charge. An object is stored long
/// before this time, so the count does not lower a charge whose object is on the way.
const RECHECK: Duration = Duration::from_secs(30);

/// Enqueues quotas.
///
/// A quota can be in both queues. Its two syncs may then overlap, and the later write meets a
/// conflict.
pub(super) struct Replenisher {
    pub(super) quotas: Store<ResourceQuota>,
    pub(super) types: Arc<Types>,
    pub(super) primary: WorkQueue<ObjectKey>,
    pub(super) releases: Arc<Releases>,
    /// The queue of quotas whose usage is missing.
    pub(super) priority: WorkQueue<ObjectKey>,
    /// Upstream's queue of changes of objects, for its metrics.
    pub(super) changes: ImmediateQueue,
}

/// The effect of a change on the usage of quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The usage may be lower. Upstream replenishes in this case alone.
    Released,
    /// The usage may be higher. The API server has charged it.
    Charged,
    /// None.
    None,
}

impl Replenisher {
    /// Enqueues a new or changed quota.
    ///
    /// The new limits or the resync also let the count lower the usage. Upstream: `addQuota`.
    fn enqueue(&self, quota: &ResourceQuota) {
        let queue = if is_missing_usage(quota, &self.types) {
            &self.priority
        } else {
            &self.primary
        };
        self.releases.expect(&quota.key(), Instant::now());
        queue.add(quota.key());
    }

    /// Counts a quota after [`RECHECK`].
    fn recheck(&self, quota: ObjectKey) {
        self.releases.expect(&quota, Instant::now() + RECHECK);
        self.primary.add_after(quota, RECHECK);
    }

    /// Enqueues the quotas in `namespace` that count objects of the type `of`. Upstream:
    /// `replenishQuota`.
    pub(super) fn replenish(&self, of: &Counted, namespace: &str, effect: Effect) {
        if effect == Effect::None {
            return;
        }
        let began = Instant::now();
        for quota in self.limiting(of, namespace) {
            if effect == Effect::Charged {
                self.primary.add_after(quota, RECOUNT);
            } else {
                self.releases.expect(&quota, began);
                self.primary.add(quota);
            }
        }
        if effect == Effect::Released {
            self.changes.processed(began.elapsed());
        }
    }

    /// The quotas in `namespace` that limit objects of the type `of`. The cached status may lack the
    /// first count, so `spec` decides as well; upstream misses such changes until the next resync.
    fn limiting(&self, of: &Counted, namespace: &str) -> Vec<ObjectKey> {
        let quotas = self.quotas.in_namespace(namespace);
        if quotas.is_empty() {
            return Vec::new();
        }
        let devices = self.types.devices();
        let limits = |quota: &&Arc<ResourceQuota>| {
            let counted = quota.status.hard.iter().flat_map(|hard| hard.keys());
            let mut limited = counted.chain(quota.spec.hard.keys());
            limited.any(|name| of.handles(name, &devices))
        };
        quotas
            .iter()
            .filter(limits)
            .map(|quota| quota.key())
            .collect()
    }

    /// Enqueues all quotas that limit one of these types, which were not counted before. Upstream
    /// waits for `enqueueAll`.
    pub(super) fn count_first(&self, types: &[Counted]) {
        let devices = self.types.devices();
        for quota in self.quotas.list() {
            let mut limited = quota.spec.hard.keys();
            let is_limited = |of: &Counted, name: &str| of.handles(name, &devices);
            if limited.any(|name| types.iter().any(|of| is_limited(of, name))) {
                self.enqueue(&quota);
            }
        }
    }
}

/// Registers the handlers of quotas, and of the types whose usage follows from views.
///
/// The informers outlive the controller, so their handlers must not keep it alive.
pub(super) fn register(
    replenisher: &Arc<Replenisher>,
    quotas: &SharedInformer<ResourceQuota>,
    usage: &Usage,
) {
    let own = Arc::downgrade(replenisher);
    quotas.add_handler(move |change| {
        let Some(own) = own.upgrade() else { return };
        match change {
            Change::Added { object, .. } => own.enqueue(object),
            Change::Updated { old, new } if status::limits(old) != status::limits(new) => {
                own.enqueue(new);
            }
            // The last count may have seen the objects, and not this change.
            Change::Updated { old, new } if old.status.used != new.status.used => {
                own.recheck(new.key());
            }
            Change::Updated { .. } => {}
            // The sync finds no quota, and only cleans up.
            Change::Deleted { object, .. } => own.primary.add(object.key()),
        }
    });
    let clock = usage.clock.clone();
    follow(replenisher, &usage.pods, move |old, new| {
        if is_pod_replenished(old, new, clock.now()) {
            Effect::Released
        } else if Arc::ptr_eq(&old.spec, &new.spec) {
            Effect::None
        } else {
            Effect::Charged
        }
    });
    follow(replenisher, &usage.services, |old, new| {
        if is_service_replenished(old, new) {
            Effect::Released
        } else if service_usage(old) == service_usage(new) {
            Effect::None
        } else {
            Effect::Charged
        }
    });
    let counting = usage.claim_counting;
    follow(replenisher, &usage.claims, move |old, new| {
        if is_claim_replenished(old, new, counting) {
            Effect::Released
        } else if old.spec.resources == new.spec.resources {
            Effect::None
        } else {
            Effect::Charged
        }
    });
    // Upstream's filter names three types, so updates of others are ignored. Their additions and
    // deletions count.
    follow(replenisher, &usage.device_claims, |_, _| Effect::None);
}

/// Registers the handler of one type. `update` is the effect of an update.
fn follow<T: Object>(
    replenisher: &Arc<Replenisher>,
    informer: &SharedInformer<T>,
    update: impl Fn(&T, &T) -> Effect + Send + Sync + 'static,
) {
    let replenisher = Arc::downgrade(replenisher);
    let of = Counted::new(&T::RESOURCE.group, &T::RESOURCE.plural);
    informer.add_handler(move |change| {
        let Some(replenisher) = replenisher.upgrade() else {
            return;
        };
        let effect = match &change {
            // The quotas of an initial list are queued themselves, and their first sync counts all
            // objects.
            Change::Added { initial: true, .. } => Effect::None,
            Change::Added { .. } => Effect::Charged,
            Change::Updated { old, new } => update(old, new),
            Change::Deleted { .. } => Effect::Released,
        };
        replenisher.replenish(&of, &change.object().meta().namespace, effect);
    });
}

/// Enqueues all quotas at once and then every `period`. Zero disables it. Never returns.
///
/// A quota without usage is in the queue of such quotas already. Upstream adds it to the other queue
/// as well, and one of the two syncs then meets a conflict.
pub(super) async fn resync(replenisher: Arc<Replenisher>, period: Duration) {
    if period.is_zero() {
        tracing::info!("periodic quota controller resync disabled");
        std::future::pending::<()>().await;
    }
    loop {
        for quota in replenisher.quotas.list() {
            replenisher.enqueue(&quota);
        }
        tokio::time::sleep(period).await;
    }
}
