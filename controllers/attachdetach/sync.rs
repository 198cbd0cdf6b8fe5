//! Syncs claims, volumes, nodes and drivers. All requests of the controller except those of
//! [`verify`](super::verify) are here.
//!
//! Upstream: `reconciler.go`, `statusupdater` and `csi_attacher.go`.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_client::live::{self, LiveError};
use steersman_client::writes::Delete;
use steersman_client::{ApiError, Category, PatchKind, Target};
use steersman_helpers::volume::Plugin;
use steersman_objects::{
    AttachedVolume, DecodeError, Node, Object, ObjectKey, Pod, Uid, VolumeAttachment,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::EventType;
use steersman_runtime::informer::Store;
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::desired::PodRef;
use super::operations::Force;
use super::start::RETRY;
use super::world::{Effect, Step, Surroundings, is_out_of_service};
use super::{Shared, Work};
use crate::storage_metrics::Finished;

/// The status of a node could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The PATCH failed.
    ///
    /// The node comes back with back-off, up to 30 s. A volume that leaves is not detached before.
    #[error("update status.volumesAttached of the node: {0}")]
    Report(#[source] ApiError),
    /// The answer of the PATCH is no node.
    #[error("read the updated node: {0}")]
    Answer(#[source] DecodeError),
}

/// A VolumeAttachment was not deleted.
enum DetachError {
    /// The leadership has ended, so the volume counts neither as detached nor as failed to detach.
    Fenced,
    /// The message of upstream's detacher, or the reason to keep the VolumeAttachment.
    Failed(String),
}

impl From<String> for DetachError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl Syncer<Work> for Shared {
    type Error = SyncError;

    /// Only a node's PATCH can fail a sync. Failed operations of volumes have their own back-off.
    async fn sync(&self, work: &Work) -> Result<Requeue, SyncError> {
        match work {
            Work::Claim(claim) => {
                for pod in self.pods_by_claim.using(claim) {
                    self.pod_changed(&pod);
                }
                Ok(Requeue::Never)
            }
            Work::Volume(name) => Ok(self.sync_volume(name).await),
            Work::Node(name) => self.sync_node(name).await.map(|()| Requeue::Never),
            Work::Driver(driver) => {
                self.sync_driver(driver);
                Ok(Requeue::Never)
            }
        }
    }

    fn retry(&self, error: &SyncError, _failures: u32) -> Retry {
        Retry::after_request(ApiError::within(error))
    }
}

impl Shared {
    /// Takes the steps of a volume until it has to wait.
    ///
    /// The lock is released before each request. Events meanwhile queue the volume again, and the next
    /// step sees them.
    async fn sync_volume(&self, name: &Sym) -> Requeue {
        loop {
            if let Err(error) = self.drop_gone_pods(name).await {
                let category = Category::of(&error).as_str();
                tracing::error!(volume = &**name, category, %error, "pods of the volume not read");
                return Requeue::After(RETRY);
            }
            let (step, effects) = {
                let mut world = self.world();
                let step = world.step(name, &self.surroundings());
                (step, world.take_effects())
            };
            // Effects of a step come before its request, as the PATCH has to come before a deletion.
            effects.into_iter().for_each(|effect| self.cause(effect));
            match step {
                Step::Wait(None) => return Requeue::Never,
                Step::Wait(Some(at)) => return Requeue::After(at.duration_since(Instant::now())),
                Step::Create { node, body } => {
                    let target = Target::collection::<VolumeAttachment>("");
                    let created = self.client.create(target, &body).await;
                    // The next leader attaches the volume. An Event about it would mislead users.
                    if created.as_ref().is_err_and(ApiError::is_fenced) {
                        self.world().abandon(name, &node);
                        return Requeue::After(RETRY);
                    }
                    let result = match created {
                        // The name follows from volume and node, so an existing object is the wanted
                        // one.
                        Err(error) if !error.is_already_exists() => Err(text_of(&error)),
                        _ => Ok(()),
                    };
                    self.world().created(name, &node, Instant::now(), result);
                }
                Step::Delete {
                    node,
                    attachment,
                    force,
                } => {
                    let result = match self.detach(name, &node, attachment, force).await {
                        Err(DetachError::Fenced) => {
                            self.world().abandon(name, &node);
                            return Requeue::After(RETRY);
                        }
                        Err(DetachError::Failed(why)) => Err(why),
                        Ok(()) => Ok(()),
                    };
                    self.world().deleted(name, &node, Instant::now(), result);
                }
            }
        }
    }

    /// The caches and the time of one step.
    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            nodes: &self.nodes,
            attachments: &self.attachments,
            now: Instant::now(),
            forces_on_timeout: self.forces_on_timeout,
        }
    }

    /// Performs the decisions of a step besides its request.
    fn cause(&self, effect: Effect) {
        match effect {
            Effect::Event {
                pod,
                succeeded,
                message,
            } => {
                let (kind, reason) = if succeeded {
                    (EventType::Normal, "SuccessfulAttachVolume")
                } else {
                    (EventType::Warning, "FailedAttachVolume")
                };
                self.recorder.event(pod.reference(), kind, reason, message);
            }
            Effect::Report(node) => self.queue.add(Work::Node(node)),
            Effect::Forced(force) => self.metrics.forced(force),
            Effect::Finished {
                plugin,
                kind,
                succeeded,
                is_migrated,
                took,
            } => self.metrics.operations.finished(&Finished {
                plugin: &plugin,
                operation: kind.name(),
                succeeded,
                is_migrated,
                took,
            }),
        }
    }

    /// Drops the pods that wait for the volume and are gone. The cache of a new leader may still show
    /// them.
    async fn drop_gone_pods(&self, name: &Sym) -> Result<(), LiveError> {
        if !self.pods_cache.predates_term() {
            return Ok(());
        }
        let waiting = self.world().waiting_pods(name);
        for PodRef { key, uid, .. } in waiting {
            let live = live::named::<Pod>(&self.lists, &key.namespace, &key.name).await?;
            let mut live = live.objects.iter();
            if !live.any(|pod| pod.meta.uid == uid && !pod.is_terminated()) {
                let volumes = self.world().desired.remove_pod(&uid);
                self.enqueue_volumes(volumes.into_iter().filter(|other| other != name));
            }
        }
        Ok(())
    }

    /// Deletes a VolumeAttachment, unless the live cluster still needs the volume on the node.
    ///
    /// Upstream: `verifyVolumeIsSafeToDetach`, then `Detach` of the CSI plugin. A new leader checks the
    /// pods first: a wanted volume stays even with force.
    async fn detach(
        &self,
        name: &Sym,
        node: &Sym,
        attachment: Option<(Box<str>, Option<Uid>)>,
        force: Force,
    ) -> Result<(), DetachError> {
        self.check_pods(name, node).await?;
        self.check_use(name, node, force).await?;
        self.delete(attachment).await
    }

    /// Fails if a pod on the node wants the volume. The caches of a new leader may lack the pod, its
    /// claim or its volume.
    ///
    /// Upstream has no such check. The list is of one node, so it is short.
    async fn check_pods(&self, name: &Sym, node: &Sym) -> Result<(), String> {
        let seen = [&self.pods_cache, &self.claims_cache, &self.volumes_cache];
        if !seen.into_iter().any(TrackedCache::predates_term) {
            return Ok(());
        }
        let on_node = format!("spec.nodeName={node}");
        let live = live::with_fields::<Pod>(&self.lists, "", &on_node).await;
        let live = live.map_err(|error| error.to_string())?;
        let wants = |pod: &Pod| {
            let mut volumes = pod.volumes.iter();
            volumes.any(|volume| match self.resolver.resolve(&pod.meta, volume) {
                Ok(found) => found.is_some_and(|found| found.unique_name == *name),
                // The caches of claims and volumes may be as old.
                Err(_) => true,
            })
        };
        let mut pods = live.objects.iter();
        match pods.find(|pod| !pod.is_terminated() && wants(pod)) {
            Some(pod) => Err(format!("pod {} may want the volume", pod.key())),
            None => Ok(()),
        }
    }

    /// Fails if the live node uses the volume. A detach by force does not ask, unless the cache may
    /// lack the end of the taint.
    ///
    /// A node that is gone uses nothing. The error about `volumesInUse` is upstream's.
    async fn check_use(&self, name: &Sym, node: &Sym, force: Force) -> Result<(), String> {
        let is_sure = match force {
            Force::No => false,
            // Upstream does not ask the node either; see `verifySafeToDetach` in `reconcile`.
            Force::Timeout => true,
            Force::OutOfService => !self.nodes_cache.predates_term(),
        };
        if is_sure {
            return Ok(());
        }
        match live::object::<Node>(&self.client, "", node).await {
            Ok(Some(live)) => {
                let is_forced = force == Force::OutOfService && is_out_of_service(&live);
                if live.status.volumes_in_use.contains(name) && !is_forced {
                    return Err(
                        "volume is still in use by node, according to Node status".to_owned()
                    );
                }
                // The cache at the start lacked the volume. Its update is on the way.
                let mut attached = live.status.volumes_attached.iter();
                if attached.any(|attached| attached.name == *name) {
                    return Err("volume is still in status.volumesAttached of node".to_owned());
                }
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(LiveError::Request(error)) => Err(text_of(&error)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Deletes a VolumeAttachment. One that is gone already is a success.
    ///
    /// Upstream: `Detach`, which names no UID. A new VolumeAttachment of the name must not go with the
    /// old one.
    async fn delete(&self, attachment: Option<(Box<str>, Option<Uid>)>) -> Result<(), DetachError> {
        let Some((name, uid)) = attachment else {
            return Ok(());
        };
        let target = Target::named::<VolumeAttachment>("", &name);
        let deleted = match &uid {
            Some(uid) => self.client.delete(target, &Delete::uid(uid)).await,
            // The name follows from volume and node, so an unseen object of the name is the one.
            None => self.client.delete(target, &json!({})).await,
        };
        match deleted {
            Ok(_) => Ok(()),
            Err(error) if error.is_object_not_found() => Ok(()),
            // The cache lacks the VolumeAttachment, because the present leader has deleted it.
            Err(error) if error.is_fenced() && uid.is_none() => Ok(()),
            Err(error) if error.is_fenced() => Err(DetachError::Fenced),
            Err(error) => {
                let error = text_of(&error);
                Err(DetachError::Failed(format!(
                    "kubernetes.io/csi: detacher.Detach failed to delete VolumeAttachment [{name}]: {error}"
                )))
            }
        }
    }

    /// Writes `status.volumesAttached` of a node, if it differs from the report.
    ///
    /// Upstream: `UpdateNodeStatusForNode` and `processNodeVolumes`. A node without a report needs
    /// nothing, and so does a deleted one.
    async fn sync_node(&self, name: &Sym) -> Result<(), SyncError> {
        let again = Work::Node(name.clone());
        // A cache without the last PATCH would show volumes as reported that have left.
        let ready = self.consistency.ready_or_requeue(name, &self.queue, again);
        if ready.is_err() {
            return Ok(());
        }
        let report = self.world().actual.report(name);
        let Some(report) = report else {
            return Ok(());
        };
        let Some(node) = self.node(name) else {
            return Ok(());
        };
        if !is_shown(&node, &report) {
            self.patch_node(name, &node, &report).await?;
        }
        // These may be detached now: no kubelet mounts them from here on.
        let left = self.world().actual.shown(name, &report);
        self.enqueue_volumes(left);
        Ok(())
    }

    /// Upstream: `updateNodeStatus`. The list is replaced as a whole, since this controller is its only
    /// writer. The UID keeps the list of a deleted node from its successor.
    async fn patch_node(
        &self,
        name: &Sym,
        node: &Node,
        report: &[AttachedVolume],
    ) -> Result<(), SyncError> {
        let target = Target::of::<Node>(&node.meta).status();
        let body = report_body(&node.meta.uid, report);
        let patched = self.client.patch(target, PatchKind::Strategic, &body).await;
        let answer = patched.map_err(SyncError::Report)?;
        let recorded = self.nodes_cache.wrote_answer(name, &answer);
        recorded.map_err(SyncError::Answer)
    }

    fn node(&self, name: &Sym) -> Option<Arc<Node>> {
        get(&self.nodes, name)
    }

    /// Attaches the volumes of a driver that needs attachments now, or forgets to do so.
    ///
    /// Upstream: the populator, which looks at all volumes each minute. A change of a driver is rare,
    /// so all pods are processed again.
    fn sync_driver(&self, driver: &Sym) {
        let skips = get(&self.drivers, driver).is_some_and(|driver| driver.skips_attach());
        if skips {
            let is_of_driver = |volume: &steersman_helpers::volume::Volume| matches!(&volume.plugin, Plugin::Csi(csi) if csi.driver == *driver);
            let volumes = self.world().desired.remove_volumes(is_of_driver);
            self.enqueue_volumes(volumes);
        } else {
            for pod in self.pods.list() {
                self.pod_changed(&pod);
            }
        }
    }
}

fn get<T: Object>(store: &Store<T>, name: &Sym) -> Option<Arc<T>> {
    store.get(&ObjectKey::new("", name))
}

/// Whether the status of the node has exactly the volumes of the report, in any order.
fn is_shown(node: &Node, report: &[AttachedVolume]) -> bool {
    let shown = &node.status.volumes_attached;
    shown.len() == report.len() && report.iter().all(|volume| shown.contains(volume))
}

/// `volumesAttached` has no merge key, so the patch contains the complete list.
fn report_body(uid: &Uid, report: &[AttachedVolume]) -> Value {
    let volume =
        |volume: &AttachedVolume| json!({"name": volume.name, "devicePath": volume.device_path});
    let volumes: Vec<Value> = report.iter().map(volume).collect();
    // Upstream's patch removes an empty list.
    let volumes = if volumes.is_empty() {
        Value::Null
    } else {
        json!(volumes)
    };
    json!({"metadata": {"uid": uid.to_string()}, "status": {"volumesAttached": volumes}})
}

/// The words of the API server, without the request.
///
/// Upstream puts these into its own messages.
fn text_of(error: &ApiError) -> String {
    let message = error.status().and_then(|status| status.message.clone());
    message.unwrap_or_else(|| error.to_string())
}
