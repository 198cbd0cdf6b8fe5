//! The state of all volumes, and the next step of one of them.
//!
//! desired, actual, operations, caches, time -> [`World::step`] -> a request, or a time to look again
//!
//! No method performs IO. A step first finishes or continues the operations of the volume, then
//! detaches it from nodes without a pod that wants it, then attaches it. Upstream: `reconcile` in
//! `reconciler.go` and `operation_generator.go`, which visit all volumes every 100 ms.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_helpers::volume::{CsiVolume, Plugin, Volume};
use steersman_objects::{Node, ObjectKey, Uid, VolumeAttachment};
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::actual::Actual;
use super::attachment::{self, Answer};
use super::desired::{Desired, PodRef};
use super::messages;
use super::operations::{Force, Kind, Operation, Operations, Phase, TIMEOUT};

/// Time for which a kubelet may unmount a volume. Upstream: `ReconcilerMaxWaitForUnmountDuration`.
///
/// A kubelet that is cut off may still write to the volume, so a shorter wait risks its data.
const MAX_WAIT: Duration = Duration::from_secs(6 * 60);
/// Taint of a node that is out of service.
///
/// Upstream: `TaintNodeOutOfService`.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The state of all volumes.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) desired: Desired,
    pub(super) actual: Actual,
    pub(super) operations: Operations,
    /// Volumes by the names of VolumeAttachments whose answer they wait for.
    ///
    /// The names are hashes, so an event cannot tell its volume.
    attachments: HashMap<Box<str>, Sym>,
    /// Filled by steps, and taken by the caller after each of them.
    effects: Vec<Effect>,
    /// Whether the state is complete. Before, events change nothing.
    pub(super) is_started: bool,
}

/// The caches and the time that a step depends on.
///
/// A step reads nothing else, so tests can set all of it.
pub(super) struct Surroundings<'a> {
    pub(super) nodes: &'a Store<Node>,
    pub(super) attachments: &'a Store<VolumeAttachment>,
    pub(super) now: Instant,
    /// Whether a volume is detached from an unhealthy node after [`MAX_WAIT`].
    pub(super) forces_on_timeout: bool,
}

/// The next step of a volume.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing until an event, or until this time.
    ///
    /// An event of a pod, the node or the VolumeAttachment queues the volume again.
    Wait(Option<Instant>),
    /// Create this VolumeAttachment.
    ///
    /// No live check precedes: a VolumeAttachment that exists already is as good.
    Create {
        /// The node of the operation.
        node: Sym,
        /// The object.
        body: Value,
    },
    /// Delete a VolumeAttachment.
    Delete {
        /// The node of the operation.
        node: Sym,
        /// Name of the attachment, and its UID if the cache has it. `None` for plugins without
        /// attachments.
        attachment: Option<(Box<str>, Option<Uid>)>,
        /// Whether a volume in use may be detached.
        force: Force,
    },
}

/// A consequence of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The pod gets an Event about the attachment of its volume.
    Event {
        pod: PodRef,
        succeeded: bool,
        message: String,
    },
    /// The volumes that a node has attached changed.
    Report(Sym),
    /// A volume is detached that its node may still use.
    ///
    /// For the metric.
    Forced(Force),
    /// An operation ended.
    Finished {
        plugin: String,
        kind: Kind,
        succeeded: bool,
        /// Whether the volume was translated from an in-tree source to CSI.
        is_migrated: bool,
        took: Duration,
    },
}

/// Whether a volume that no pod wants may leave its node.
///
/// `recall.rs` makes an answer for users from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Now, possibly although the node may use it.
    Now(Force),
    /// The node reports the volume in use. A node that is not ready loses it by force at this time.
    InUse {
        /// The time; `None` if force is over or switched off.
        forced_at: Option<Instant>,
    },
}

/// The earliest of the times at which a volume needs another look.
#[derive(Default)]
struct Wake(Option<Instant>);

impl Wake {
    fn at(&mut self, time: Instant) {
        self.0 = Some(self.0.map_or(time, |earlier| earlier.min(time)));
    }
}

impl Surroundings<'_> {
    /// The cached node. An absent one counts as not ready.
    pub(super) fn node(&self, name: &Sym) -> Option<Arc<Node>> {
        self.nodes.get(&ObjectKey::new("", name))
    }

    /// The cached VolumeAttachment of a volume on a node.
    fn attachment(&self, volume: &CsiVolume, node: &Sym) -> Option<Arc<VolumeAttachment>> {
        let name = attachment::name(volume, node);
        self.attachments.get(&ObjectKey::new("", &name))
    }
}

/// Whether a node has the taint of a node out of service, with any effect.
///
/// Upstream: `hasOutOfServiceTaint`.
pub(super) fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.taints.iter();
    taints.any(|taint| taint.key == *OUT_OF_SERVICE)
}

/// The CSI volume with this unique name; `None` for volumes of other plugins.
///
/// A volume of a node's status is known by name only. Its name contains driver and handle, so it can be
/// detached without its PersistentVolume. Upstream: `SplitUniqueName`, then `Detach`.
fn csi(name: &Sym, volume: Option<&Arc<Volume>>) -> Option<CsiVolume> {
    match volume.map(|volume| &volume.plugin) {
        Some(Plugin::Csi(csi)) => Some(csi.clone()),
        Some(Plugin::FibreChannel | Plugin::Iscsi) => None,
        None => CsiVolume::of_unique_name(name),
    }
}

/// Whether a plugin can detach a volume of which only the name is known.
///
/// Upstream: `FindAttachablePluginByName`. A volume of another plugin stays in the status of its node;
/// upstream tries to detach it again and again.
fn has_plugin(name: &Sym) -> bool {
    ["csi", "fc", "iscsi"].iter().any(|plugin| {
        let rest = name.strip_prefix("kubernetes.io/");
        let rest = rest.and_then(|rest| rest.strip_prefix(plugin));
        rest.is_some_and(|rest| rest.starts_with('/'))
    })
}

impl World {
    /// The consequences of all steps since the last call.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether the volumes of pods on this node are attached.
    pub(super) fn manages(&self, node: &Sym) -> bool {
        self.is_started && self.desired.manages(node)
    }

    /// Gives attachments that only the status of a node names the volumes that pods want there.
    ///
    /// Upstream: the second half of `populateDesiredStateOfWorld`.
    pub(super) fn learn_volumes(&mut self) {
        for wanted in self.desired.all() {
            self.actual.learn(&wanted.volume);
        }
    }

    /// The volume that waits for the answer in this VolumeAttachment.
    pub(super) fn waits_for(&self, attachment: &str) -> Option<&Sym> {
        self.attachments.get(attachment)
    }

    /// The pods that want the volume on nodes that do not surely have it.
    ///
    /// A new leader confirms them by live reads before it attaches the volume.
    pub(super) fn waiting_pods(&self, name: &Sym) -> Vec<PodRef> {
        let mut nodes = self.desired.nodes_of(name);
        nodes.retain(|node| !self.actual.is_confirmed(name, node));
        self.desired.pods_on(name, &nodes).cloned().collect()
    }

    /// The next step of a volume. The caller performs it, and tells the result to
    /// [`created`](Self::created) or [`deleted`](Self::deleted).
    ///
    /// Detaching comes before attaching, as upstream: a pod that moved to another node needs its volume
    /// there.
    pub(super) fn step(&mut self, name: &Sym, around: &Surroundings<'_>) -> Step {
        let mut wake = Wake::default();
        for node in self.operations.nodes_of(name) {
            if let Some(step) = self.advance(name, &node, around, &mut wake) {
                return step;
            }
        }
        for node in self.actual.nodes_of(name) {
            if !self.desired.wants(name, &node)
                && self.start_detach(name, &node, around, &mut wake)
                && let Some(step) = self.advance(name, &node, around, &mut wake)
            {
                return step;
            }
        }
        for node in self.desired.nodes_of(name) {
            // An attachment that has failed before fails again at once. The second round finds the
            // end of its back-off.
            while self.start_attach(name, &node, around, &mut wake) {
                if let Some(step) = self.advance(name, &node, around, &mut wake) {
                    return step;
                }
            }
        }
        // The volume is gone from both states, so its back-off has no meaning.
        if self.actual.nodes_of(name).is_empty() && self.desired.nodes_of(name).is_empty() {
            self.operations.forget(name);
        }
        Step::Wait(wake.0)
    }

    /// Continues an operation. `None` while it waits, and after its end.
    ///
    /// Each phase either ends here, or needs a request, or waits. A phase that ends continues with the
    /// next one at once, so an answer that is there already costs no further wake-up.
    fn advance(
        &mut self,
        name: &Sym,
        node: &Sym,
        around: &Surroundings<'_>,
        wake: &mut Wake,
    ) -> Option<Step> {
        let operation = self.operations.get(name, node)?.clone();
        let csi = csi(name, operation.volume.as_ref());
        let cached = csi.as_ref().and_then(|csi| around.attachment(csi, node));
        match (operation.phase, csi) {
            // Fibre Channel and `iSCSI` have no attacher: each node reaches the volume by itself.
            (Phase::Create, None) => self.succeed(name, node, around.now),
            (Phase::Create, Some(csi)) if cached.is_none() => {
                let attachment = attachment::name(&csi, node);
                let volume = operation.volume.as_ref()?;
                let body = attachment::body(&attachment, volume, &csi.driver, node);
                let node = node.clone();
                return Some(Step::Create { node, body });
            }
            (Phase::Create, Some(_)) => {
                self.operations
                    .set_phase(name, node, Phase::Answer, operation.deadline);
                return self.advance(name, node, around, wake);
            }
            // A pod wants the volume again before anything was deleted. Upstream detaches it first.
            (Phase::Report, _) if self.desired.wants(name, node) => {
                self.operations.end(name, node);
                if self.actual.report_again(name, node) {
                    self.effects.push(Effect::Report(node.clone()));
                }
            }
            (Phase::Report, _) => {
                // The status of a node that is gone needs no update.
                if around.node(node).is_none() || !self.actual.is_leaving(name, node) {
                    // Counted here and not at the start: until now, the pod might have come back.
                    if operation.force != Force::No {
                        self.effects.push(Effect::Forced(operation.force));
                    }
                    self.operations
                        .set_phase(name, node, Phase::Delete, operation.deadline);
                    return self.advance(name, node, around, wake);
                }
            }
            // From here on, a detach ends even if a pod wants the volume again.
            (Phase::Delete, csi) => {
                let uid = cached.map(|cached| cached.meta.uid.clone());
                let attachment = csi.map(|csi| (attachment::name(&csi, node).into(), uid));
                return Some(Step::Delete {
                    node: node.clone(),
                    attachment,
                    force: operation.force,
                });
            }
            (Phase::Answer, csi) => {
                let answer = match operation.kind {
                    Kind::Attach => attachment::attach_answer(cached.as_deref()),
                    Kind::Detach => attachment::detach_answer(cached.as_deref()),
                };
                match (answer, csi) {
                    // The answer comes before the deadline check, since a late answer is an answer.
                    (Answer::Done, _) => self.succeed(name, node, around.now),
                    (Answer::Failed(why), _) => self.fail(name, node, around.now, why),
                    (Answer::Pending, Some(csi)) if around.now >= operation.deadline => {
                        let why = messages::timed_out(operation.kind, &csi);
                        self.fail(name, node, around.now, &why);
                    }
                    (Answer::Pending, _) => wake.at(operation.deadline),
                }
            }
        }
        None
    }

    /// Starts to detach a volume that no pod of the node wants, if that is safe or forced.
    ///
    /// Upstream: the first loop of `reconcile`. True if an operation has started. The order: a running
    /// operation, the back-off, then the use by the node, whose clock starts with the first look.
    fn start_detach(
        &mut self,
        name: &Sym,
        node: &Sym,
        around: &Surroundings<'_>,
        wake: &mut Wake,
    ) -> bool {
        let volume = self.actual.volume(name).cloned();
        if volume.is_none() && !has_plugin(name) {
            tracing::debug!(volume = &**name, node = &**node, "no volume plugin matched");
            return false;
        }
        // Upstream: `IsMultiAttachAllowed`, which is true without a spec.
        let is_multi_attach = volume.as_ref().is_none_or(|volume| volume.is_multi_attach);
        if self.operations.is_busy(name, node, is_multi_attach) {
            return false;
        }
        let scope = is_multi_attach.then(|| node.clone());
        let csi = csi(name, volume.as_ref());
        let is_gone = |csi: &CsiVolume| around.attachment(csi, node).is_none();
        let kind = Kind::Detach;
        let now = around.now;
        let is_detached = csi.as_ref().is_some_and(is_gone);
        let waits = self
            .operations
            .waits_until(name, &scope, kind, now, is_detached);
        if let Some(until) = waits {
            wake.at(until);
            return false;
        }
        let force = match self.may_leave(name, node, around) {
            Leave::Now(force) => force,
            Leave::InUse { forced_at } => {
                if let Some(at) = forced_at {
                    wake.at(at);
                }
                return false;
            }
        };
        let mut operation = Operation::new(kind, volume, now);
        operation.force = force;
        if self.actual.leave(name, node) {
            self.effects.push(Effect::Report(node.clone()));
        }
        self.start(name, node, operation, csi.as_ref());
        true
    }

    /// Whether a volume that no pod of the node wants may be detached.
    ///
    /// Upstream: the middle of the first loop of `reconcile`. A node that is gone is not ready. The
    /// taint forces at once, also a ready node.
    pub(super) fn may_leave(&mut self, name: &Sym, node: &Sym, around: &Surroundings<'_>) -> Leave {
        let now = around.now;
        let unwanted = self.actual.unwanted_for(name, node, now);
        let known = around.node(node);
        let is_over = unwanted > MAX_WAIT;
        let times_out = is_over && around.forces_on_timeout;
        let is_healthy = known.as_deref().is_some_and(Node::is_ready);
        let is_out_of_service = known.as_deref().is_some_and(is_out_of_service);
        let is_forced = (times_out && !is_healthy) || is_out_of_service;
        if self.actual.is_in_use(name, node) && !is_forced {
            // Upstream forces after more than six minutes, so the next look is a millisecond later.
            let left = MAX_WAIT.saturating_sub(unwanted) + Duration::from_millis(1);
            return Leave::InUse {
                forced_at: (!is_over).then(|| now + left),
            };
        }
        // The reason counts as a timeout even for a volume out of use, as upstream: the node is not
        // asked.
        Leave::Now(if times_out {
            Force::Timeout
        } else if is_out_of_service {
            Force::OutOfService
        } else {
            Force::No
        })
    }

    /// The volume of the VolumeAttachment called `attachment`, if this node has or may have it.
    ///
    /// The name is a hash, so all volumes of the node are compared. Only users ask for this.
    pub(super) fn volume_of(&self, attachment: &str, node: &Sym) -> Option<Sym> {
        let on_node = self.actual.volumes_on(node).into_iter();
        on_node.into_iter().find(|name| {
            let csi = csi(name, self.actual.volume(name));
            csi.is_some_and(|csi| attachment::name(&csi, node) == attachment)
        })
    }

    /// Starts to attach a volume that a pod of the node wants, if no other node excludes that.
    ///
    /// Upstream: `attachDesiredVolumes`. True if an operation has started.
    fn start_attach(
        &mut self,
        name: &Sym,
        node: &Sym,
        around: &Surroundings<'_>,
        wake: &mut Wake,
    ) -> bool {
        let Some(wanted) = self.desired.get(name, node) else {
            return false;
        };
        let volume = Arc::clone(&wanted.volume);
        if self.operations.is_busy(name, node, volume.is_multi_attach) {
            return false;
        }
        if self.actual.is_confirmed(name, node) {
            self.actual.wanted(name, node);
            // A detach of a former leader may have ended after it took the volume off the report.
            if self.actual.report_again(name, node) {
                self.effects.push(Effect::Report(node.clone()));
            }
            return false;
        }
        // Two nodes that write to one file system destroy it.
        if !volume.is_multi_attach {
            let others = self.actual.confirmed_nodes(name);
            if !others.is_empty() {
                self.report_multi_attach(name, node, &others);
                return false;
            }
        }
        let scope = volume.is_multi_attach.then(|| node.clone());
        let csi = csi(name, Some(&volume));
        let is_attached = |csi: &CsiVolume| {
            let cached = around.attachment(csi, node);
            attachment::attach_answer(cached.as_deref()) == Answer::Done
        };
        let kind = Kind::Attach;
        let now = around.now;
        let is_attached = csi.as_ref().is_some_and(is_attached);
        let waits = self
            .operations
            .waits_until(name, &scope, kind, now, is_attached);
        if let Some(until) = waits {
            wake.at(until);
            return false;
        }
        let mut operation = Operation::new(kind, Some(volume), now);
        operation.pods = wanted.pods.values().cloned().collect();
        self.start(name, node, operation, csi.as_ref());
        true
    }

    /// Notes an operation, and the VolumeAttachment whose events concern it.
    fn start(&mut self, name: &Sym, node: &Sym, operation: Operation, csi: Option<&CsiVolume>) {
        tracing::debug!(volume = &**name, node = &**node, kind = ?operation.kind, force = ?operation.force, "operation started");
        if let Some(csi) = csi {
            let attachment = attachment::name(csi, node).into();
            self.attachments.insert(attachment, name.clone());
        }
        self.operations.start(name, node, operation);
    }

    /// Tells the pods once that other nodes have their volume.
    ///
    /// Upstream: `reportMultiAttachError`. The pods wait without a further Event until the volume has
    /// left the other nodes.
    fn report_multi_attach(&mut self, name: &Sym, node: &Sym, others: &[Sym]) {
        let Some(wanted) = self.desired.get(name, node) else {
            return;
        };
        if wanted.multi_attach_reported {
            return;
        }
        let using: Vec<&PodRef> = self.desired.pods_on(name, others).collect();
        let events = wanted.pods.values().map(|pod| Effect::Event {
            pod: pod.clone(),
            succeeded: false,
            message: messages::multi_attach(&wanted.volume.name, pod, &using),
        });
        let events: Vec<Effect> = events.collect();
        self.effects.extend(events);
        self.desired.note_multi_attach(name, node);
    }

    /// The POST of the VolumeAttachment ended. An attachment that existed already is a success.
    ///
    /// Upstream: the middle of `Attach`. The two minutes of the attacher begin here.
    pub(super) fn created(
        &mut self,
        name: &Sym,
        node: &Sym,
        now: Instant,
        result: Result<(), String>,
    ) {
        match result {
            Ok(()) => self
                .operations
                .set_phase(name, node, Phase::Answer, now + TIMEOUT),
            Err(error) => {
                let why = format!("kubernetes.io/csi: attacher.Attach failed: {error}");
                self.fail(name, node, now, &why);
            }
        }
    }

    /// The check of the node and the DELETE of the VolumeAttachment ended.
    ///
    /// Without an attachment, nothing has to answer.
    pub(super) fn deleted(
        &mut self,
        name: &Sym,
        node: &Sym,
        now: Instant,
        result: Result<(), String>,
    ) {
        let has_attachment = self
            .operations
            .get(name, node)
            .is_some_and(|operation| csi(name, operation.volume.as_ref()).is_some());
        match result {
            Ok(()) if has_attachment => {
                self.operations
                    .set_phase(name, node, Phase::Answer, now + TIMEOUT);
            }
            Ok(()) => self.succeed(name, node, now),
            Err(error) => self.fail(name, node, now, &error),
        }
    }

    /// Drops an operation whose request was refused because the leadership has ended.
    ///
    /// The next leader goes on, so neither a back-off nor an Event follows.
    pub(super) fn abandon(&mut self, name: &Sym, node: &Sym) {
        self.operations.end(name, node);
    }

    /// Ends an operation: the actual state changes, and so does the report of the node. Upstream: the
    /// ends of `GenerateAttachVolumeFunc` and `GenerateDetachVolumeFunc`.
    fn succeed(&mut self, name: &Sym, node: &Sym, now: Instant) {
        let Some(operation) = self.operations.end(name, node) else {
            return;
        };
        self.operations.succeeded(name, &scope(&operation, node));
        if let Some(csi) = csi(name, operation.volume.as_ref()) {
            self.attachments.remove(&*attachment::name(&csi, node));
        }
        self.finish(name, &operation, true, now);
        let changed = match operation.kind {
            Kind::Attach => {
                let volume = operation.volume.as_ref();
                let name_of = volume.map_or("", |volume| &volume.name);
                let message = messages::attached(name_of);
                self.tell(&operation.pods, true, &message);
                self.actual.attached(name, node, operation.volume)
            }
            Kind::Detach => self.actual.detached(name, node),
        };
        if changed {
            self.effects.push(Effect::Report(node.clone()));
        }
    }

    /// The volume becomes uncertain on the node, since the request may have had its effect. Pods hear
    /// only of failed attachments, as upstream.
    fn fail(&mut self, name: &Sym, node: &Sym, now: Instant, why: &str) {
        let Some(operation) = self.operations.end(name, node) else {
            return;
        };
        let kind = operation.kind;
        self.operations
            .failed(name, scope(&operation, node), kind, operation.phase, now);
        self.finish(name, &operation, false, now);
        match kind {
            Kind::Attach => {
                let volume = operation.volume.as_ref();
                let message = messages::failed(volume.map_or("", |volume| &volume.name), why);
                self.tell(&operation.pods, false, &message);
                self.actual.uncertain(name, node, operation.volume);
            }
            Kind::Detach => {
                tracing::debug!(
                    volume = &**name,
                    node = &**node,
                    why,
                    "DetachVolume.Detach failed"
                );
                // It stays off the report, so no kubelet mounts it. Only a new attachment brings it
                // back.
                self.actual.uncertain(name, node, None);
            }
        }
    }

    /// One Event for each pod.
    fn tell(&mut self, pods: &[PodRef], succeeded: bool, message: &str) {
        self.effects.extend(pods.iter().map(|pod| Effect::Event {
            pod: pod.clone(),
            succeeded,
            message: message.to_owned(),
        }));
    }

    /// For the metric. It has the plugin's name also if only the name of the volume is known.
    fn finish(&mut self, name: &Sym, operation: &Operation, succeeded: bool, now: Instant) {
        self.effects.push(Effect::Finished {
            plugin: operation.plugin(name),
            kind: operation.kind,
            succeeded,
            is_migrated: operation
                .volume
                .as_ref()
                .is_some_and(|volume| volume.is_migrated),
            took: now.duration_since(operation.began),
        });
    }
}

/// The scope of the back-off of an operation.
///
/// `None` is the whole cluster: a volume for one node has one back-off, whichever node failed.
fn scope(operation: &Operation, node: &Sym) -> Option<Sym> {
    let volume = operation.volume.as_ref();
    let is_multi_attach = volume.is_none_or(|volume| volume.is_multi_attach);
    is_multi_attach.then(|| node.clone())
}
