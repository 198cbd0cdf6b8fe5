//! Keeps each PodGroup until all of its pods have finished or are gone.
//!
//! PodGroup and pod events -> queue of PodGroups -> sync -> PUT
//!
//! The controller runs only with the feature gate `GenericWorkload`. It removes finalizers and sets
//! none.
//!
//! Upstream: `pkg/controller/scheduling/podgroupprotection`.
//!
//! The admission plugin `PodGroupProtection` sets the finalizer. A PodGroup that was created while the
//! plugin was off stays without.

use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_objects::{Document, Object, ObjectKey, Pod, PodGroup};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Index, IndexKey, SharedInformer, Store};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_runtime::workqueue::WorkQueue;

use super::{Finalizers, Protected, Protection, SyncError, Use, WORKERS, list, protection};

/// The protection of PodGroups.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Keeps each PodGroup while it has unfinished pods, with the feature gate GenericWorkload",
    identity: NAME,
    reads: &[Read::of::<PodGroup>(), Read::of::<Pod>()],
    rules: &[
        Rule::new(&["scheduling.k8s.io"], &["podgroups"], &["update"]),
        Rule::new(&[""], &["pods"], &["list"]),
    ],
    init,
};

const NAME: &str = "podgroup-protection-controller";

impl Protected for PodGroup {
    const FINALIZER: &'static str = "scheduling.k8s.io/podgroup-protection";

    fn document(&self) -> &Document {
        &self.document
    }
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<PodGroup>::new(ctx, NAME, "podgroupprotection");
    let groups = keyed.objects().clone();
    let queue = keyed.queue();
    watch_groups(&groups, &queue);
    let pods = ctx.informers.shared::<Pod>();
    watch_pods(&pods, &queue);
    let client = ctx.client(DESCRIPTOR.identity);
    let syncer = PodGroups {
        active: by_group(&pods.store()),
        finalizers: Finalizers::new(client.clone(), keyed.tracked(&groups)),
        client,
    };
    Ok(keyed.boxed(WORKERS, syncer))
}

/// Queues deleted PodGroups with the finalizer. Upstream: `handlePodGroupUpdate`.
fn watch_groups(groups: &SharedInformer<PodGroup>, queue: &WorkQueue<ObjectKey>) {
    let queue = queue.clone();
    groups.add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => {
            if protection(&**object) == Protection::Holds {
                queue.add(object.key());
            }
        }
        Change::Deleted { .. } => {}
    });
}

/// Queues the PodGroups of pods that have finished or are gone. Upstream: `handlePodChange`.
///
/// A pod that starts or joins a PodGroup cannot free it, so such events are ignored.
fn watch_pods(pods: &SharedInformer<Pod>, queue: &WorkQueue<ObjectKey>) {
    let queue = queue.clone();
    pods.add_handler(move |change| {
        let add = |pod: &Pod| group_of(pod).into_iter().for_each(|group| queue.add(group));
        match change {
            Change::Added { object, .. } if object.is_finished() => add(object),
            Change::Added { .. } => {}
            Change::Updated { old, new } => {
                if new.is_finished() {
                    add(new);
                }
                // Another pod of this name hides the deletion of the old one.
                if old.meta.uid != new.meta.uid {
                    add(old);
                }
            }
            Change::Deleted { object, .. } => add(object),
        }
    });
}

/// The PodGroup of `pod`.
///
/// `None` for a pod outside of PodGroups. A pod can only name a PodGroup of its own namespace.
fn group_of(pod: &Pod) -> Option<ObjectKey> {
    let name = pod.spec.scheduling_group.pod_group_name.as_ref()?;
    Some(ObjectKey::new(&pod.meta.namespace, name))
}

/// The index of unfinished pods by PodGroup. Upstream: `addActivePodSchedulingGroupIndexer`.
///
/// The decision counts the entries of a key, so a finished pod leaves the index. Upstream:
/// `isPodTerminated` looks at the phase alone.
fn by_group(pods: &Store<Pod>) -> Index<Pod> {
    pods.add_index_over(
        "activePodSchedulingGroup",
        |old, new| old.is_finished() == new.is_finished() && Arc::ptr_eq(&old.spec, &new.spec),
        |pod| {
            let group = group_of(pod).filter(|_| !pod.is_finished());
            let key = group.map(|group| IndexKey::new(&group.to_string()));
            key.into_iter().collect()
        },
    )
}

/// Syncs PodGroups.
struct PodGroups {
    /// Unfinished pods by PodGroup.
    active: Index<Pod>,
    finalizers: Finalizers<PodGroup>,
    client: ApiClient,
}

impl PodGroups {
    /// The unfinished pods of the PodGroup. Upstream: `hasActivePods`, which trusts the index. A
    /// scheduler may have a new pod that the cache lacks, so the namespace is listed before the
    /// finalizer goes.
    async fn users(&self, key: &ObjectKey) -> Result<Use, SyncError> {
        if self.active.count(&key.to_string()) > 0 {
            return Ok(Use::Cached);
        }
        // Pods are filtered page by page, so a large namespace takes little memory.
        let is_user = |pod: &Pod| !pod.is_finished() && group_of(pod).as_ref() == Some(key);
        let live = list(&self.client, &key.namespace, is_user).await?;
        Ok(if live.objects.is_empty() {
            Use::None
        } else {
            Use::Uncached
        })
    }
}

impl ObjectSyncer for PodGroups {
    type Object = PodGroup;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, group: Arc<PodGroup>) -> Result<Requeue, SyncError> {
        // `settle` would set a missing finalizer, which upstream's controller never does here.
        if protection(&*group) != Protection::Holds {
            return Ok(Requeue::Never);
        }
        let users = self.users(key);
        self.finalizers.settle(key, &group, users).await
    }
}
