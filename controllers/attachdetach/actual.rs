//! The actual state: the volumes that nodes have or may have, and the lists for the status of nodes.
//!
//! An attachment is confirmed, or uncertain after a failed operation. Upstream:
//! `cache/actual_state_of_world.go`.
//!
//! The state follows from own operations and from the status of nodes. No storage system is asked; only
//! the regular check of `verify.rs` corrects it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::volume::Volume;
use steersman_objects::AttachedVolume;
use steersman_values::intern::Sym;
use tokio::time::Instant;

/// The actual state.
///
/// Upstream: `actualStateOfWorld`. A caller holds the lock of the world, so the maps agree with each
/// other.
#[derive(Debug, Default)]
pub(super) struct Actual {
    /// By unique name of the volume. A volume without nodes is dropped.
    volumes: HashMap<Sym, Attached>,
    /// The same pairs by node, so that the event of a node finds its volumes.
    by_node: HashMap<Sym, BTreeSet<Sym>>,
    /// Volumes that a node uses, as far as its kubelet has reported.
    ///
    /// Upstream: `inUseVolumes`. It is kept apart from attachments, since kubelets also report volumes
    /// that are never attached.
    in_use: HashMap<Sym, HashSet<Sym>>,
    /// Upstream: `nodesToUpdateStatusFor`. A node without an entry keeps the list in its status as it
    /// is.
    reports: HashMap<Sym, Report>,
}

/// A volume that some node has or may have.
#[derive(Debug, Default)]
struct Attached {
    /// Unknown for a volume of a node's status, until a pod wants it.
    volume: Option<Arc<Volume>>,
    /// Empty for CSI. Only the status of nodes has one, for plugins of older releases, and it is
    /// written back as it was.
    device_path: Box<str>,
    nodes: BTreeMap<Sym, Attachment>,
}

/// A volume on one node. Upstream: `nodeAttachedTo`.
#[derive(Debug, Default)]
struct Attachment {
    /// Upstream: `attachedConfirmed`. `false` after a failed operation, which may have had its effect
    /// all the same.
    is_confirmed: bool,
    /// First time at which no pod wanted it.
    ///
    /// Upstream: `detachRequestedTime`. The six minutes before a detach by force run from here, on a
    /// monotonic clock.
    unwanted_since: Option<Instant>,
}

/// `status.volumesAttached` of a node.
#[derive(Debug, Default)]
struct Report {
    /// A kubelet mounts a volume only while its node's status names it.
    volumes: BTreeSet<Sym>,
    /// Volumes that may be detached when the status lacks them.
    leaving: BTreeSet<Sym>,
}

impl Actual {
    /// The node has the volume, and reports it. `volume` is known unless the status of the node is
    /// the only source. True if the report changed.
    ///
    /// Upstream: `AddVolumeNode` with `isAttached`.
    pub(super) fn attached(&mut self, name: &Sym, node: &Sym, volume: Option<Arc<Volume>>) -> bool {
        if self.note(name, node, volume) {
            // Until the next status of the kubelet, the node counts as using the volume.
            let in_use = self.in_use.entry(node.clone()).or_default();
            in_use.insert(name.clone());
        }
        self.attachment(name, node).is_confirmed = true;
        let report = self.reports.entry(node.clone()).or_default();
        report.leaving.remove(name);
        report.volumes.insert(name.clone())
    }

    /// The node may have the volume. A kubelet uses no volume that the status of its node lacks, so
    /// one that was never confirmed is not in use; upstream waits for the kubelet to say so.
    ///
    /// Upstream: `MarkVolumeAsUncertain`. It does not touch the report: after a failed detach, the
    /// volume has left it already, and only a new confirmation brings it back.
    pub(super) fn uncertain(&mut self, name: &Sym, node: &Sym, volume: Option<Arc<Volume>>) {
        self.note(name, node, volume);
        self.attachment(name, node).is_confirmed = false;
    }

    /// True if the attachment is new.
    fn note(&mut self, name: &Sym, node: &Sym, volume: Option<Arc<Volume>>) -> bool {
        let attached = self.volumes.entry(name.clone()).or_default();
        // A failed detach knows only the name. The volume that was known before is kept for its access
        // modes.
        attached.volume = volume.or(attached.volume.take());
        let on_node = self.by_node.entry(node.clone()).or_default();
        on_node.insert(name.clone())
    }

    /// The entry of a volume on a node, which is made if it is absent.
    fn attachment(&mut self, name: &Sym, node: &Sym) -> &mut Attachment {
        let attached = self.volumes.entry(name.clone()).or_default();
        attached.nodes.entry(node.clone()).or_default()
    }

    /// Completes a volume of which the status of a node told only the name.
    ///
    /// A known volume stays: its pods decided on it.
    pub(super) fn learn(&mut self, volume: &Arc<Volume>) {
        if let Some(attached) = self.volumes.get_mut(&volume.unique_name) {
            attached.volume.get_or_insert_with(|| Arc::clone(volume));
        }
    }

    /// Sets the device path of a volume, as the status of a node has it.
    pub(super) fn set_device_path(&mut self, name: &Sym, path: &str) {
        if let Some(attached) = self.volumes.get_mut(name) {
            attached.device_path = path.into();
        }
    }

    /// The node has the volume no more. True if the report changed.
    ///
    /// Upstream: `DeleteVolumeNode`. Unknown pairs change nothing.
    pub(super) fn detached(&mut self, name: &Sym, node: &Sym) -> bool {
        if let Some(attached) = self.volumes.get_mut(name) {
            attached.nodes.remove(node);
            if attached.nodes.is_empty() {
                self.volumes.remove(name);
            }
        }
        if let Some(volumes) = self.by_node.get_mut(node) {
            volumes.remove(name);
            if volumes.is_empty() {
                self.by_node.remove(node);
            }
        }
        let report = self.reports.get_mut(node);
        report.is_some_and(|report| {
            report.leaving.remove(name);
            report.volumes.remove(name)
        })
    }

    /// Notes the volumes that a node uses. True if that is a change, also of a volume that counted as
    /// used since its attachment.
    ///
    /// Upstream: `SetVolumesMountedByNode`. The list replaces the assumption of `attached`: it has only
    /// volumes that the kubelet mounts.
    pub(super) fn set_in_use(&mut self, node: &Sym, volumes: &[Sym]) -> bool {
        let volumes: HashSet<Sym> = volumes.iter().cloned().collect();
        let before = if volumes.is_empty() {
            self.in_use.remove(node)
        } else {
            self.in_use.insert(node.clone(), volumes.clone())
        };
        before.unwrap_or_default() != volumes
    }

    /// Upstream: `MountedByNode`.
    pub(super) fn is_in_use(&self, name: &Sym, node: &Sym) -> bool {
        let volumes = self.in_use.get(node);
        volumes.is_some_and(|volumes| volumes.contains(name))
    }

    /// The time since which no pod wants the attachment, from the first call until
    /// [`wanted`](Self::wanted).
    ///
    /// Upstream: `SetDetachRequestTime`. Zero for an unknown attachment.
    pub(super) fn unwanted_for(&mut self, name: &Sym, node: &Sym, now: Instant) -> Duration {
        let nodes = self
            .volumes
            .get_mut(name)
            .map(|attached| &mut attached.nodes);
        let attachment = nodes.and_then(|nodes| nodes.get_mut(node));
        attachment.map_or(Duration::ZERO, |attachment| {
            now.duration_since(*attachment.unwanted_since.get_or_insert(now))
        })
    }

    /// A pod wants the attachment again.
    ///
    /// Upstream: `ResetDetachRequestTime`.
    pub(super) fn wanted(&mut self, name: &Sym, node: &Sym) {
        let nodes = self
            .volumes
            .get_mut(name)
            .map(|attached| &mut attached.nodes);
        if let Some(attachment) = nodes.and_then(|nodes| nodes.get_mut(node)) {
            attachment.unwanted_since = None;
        }
    }

    /// Whether the node surely has the volume.
    pub(super) fn is_confirmed(&self, name: &Sym, node: &Sym) -> bool {
        let nodes = self.volumes.get(name).map(|attached| &attached.nodes);
        let attachment = nodes.and_then(|nodes| nodes.get(node));
        attachment.is_some_and(|attachment| attachment.is_confirmed)
    }

    /// Whether the node has or may have the volume.
    pub(super) fn is_known(&self, name: &Sym, node: &Sym) -> bool {
        let nodes = self.volumes.get(name).map(|attached| &attached.nodes);
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    /// The nodes that have or may have a volume, sorted.
    pub(super) fn nodes_of(&self, name: &Sym) -> Vec<Sym> {
        let attached = self.volumes.get(name);
        attached.map_or_else(Vec::new, |attached| {
            attached.nodes.keys().cloned().collect()
        })
    }

    /// The nodes that surely have a volume, sorted.
    ///
    /// Upstream: `GetNodesForAttachedVolume`. Uncertain nodes do not exclude others, as upstream.
    pub(super) fn confirmed_nodes(&self, name: &Sym) -> Vec<Sym> {
        let nodes = self.volumes.get(name).map(|attached| &attached.nodes);
        let confirmed = nodes.into_iter().flatten().filter(|(_, a)| a.is_confirmed);
        confirmed.map(|(node, _)| node.clone()).collect()
    }

    /// The volume of this name; `None` while only the status of a node names it.
    pub(super) fn volume(&self, name: &Sym) -> Option<&Arc<Volume>> {
        self.volumes.get(name)?.volume.as_ref()
    }

    /// The volumes that a node has or may have, sorted.
    pub(super) fn volumes_on(&self, node: &Sym) -> Vec<Sym> {
        let volumes = self.by_node.get(node);
        volumes.map_or_else(Vec::new, |volumes| volumes.iter().cloned().collect())
    }

    /// The names of all volumes.
    pub(super) fn names(&self) -> impl Iterator<Item = &Sym> {
        self.volumes.keys()
    }

    /// All known volumes, once per node that has or may have them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values().flat_map(|attached| {
            let volume = attached.volume.iter();
            volume.flat_map(|volume| std::iter::repeat_n(volume, attached.nodes.len()))
        })
    }

    /// The known volumes with a confirmed attachment, by node.
    ///
    /// Upstream: `GetAttachedVolumesPerNode`. Volumes of which only the name is known are left out
    /// there as well.
    pub(super) fn confirmed(&self) -> BTreeMap<Sym, Vec<Arc<Volume>>> {
        let mut confirmed = BTreeMap::<_, Vec<_>>::new();
        for attached in self.volumes.values() {
            let Some(volume) = &attached.volume else {
                continue;
            };
            let nodes = attached.nodes.iter().filter(|(_, a)| a.is_confirmed);
            for (node, _) in nodes {
                let on_node = confirmed.entry(node.clone()).or_default();
                on_node.push(Arc::clone(volume));
            }
        }
        confirmed
    }

    /// Takes a volume off the report of a node, before it is detached. True if the status of the
    /// node may still name it.
    ///
    /// Upstream: `RemoveVolumeFromReportAsAttached`. The volume stays in `leaving` until the status of
    /// the node lacks it, so that no kubelet mounts it in between.
    pub(super) fn leave(&mut self, name: &Sym, node: &Sym) -> bool {
        let Some(report) = self.reports.get_mut(node) else {
            return false;
        };
        let is_reported = report.volumes.remove(name);
        if is_reported {
            report.leaving.insert(name.clone());
        }
        is_reported
    }

    /// Whether the status of the node may still name a volume that left its report.
    pub(super) fn is_leaving(&self, name: &Sym, node: &Sym) -> bool {
        let report = self.reports.get(node);
        report.is_some_and(|report| report.leaving.contains(name))
    }

    /// Puts a volume on the report of its node again, if it is confirmed there. True if that
    /// changed the report.
    ///
    /// Upstream: `AddVolumeToReportAsAttached`. An uncertain volume is not reported, since a kubelet
    /// would mount it.
    pub(super) fn report_again(&mut self, name: &Sym, node: &Sym) -> bool {
        self.is_confirmed(name, node) && self.attached(name, node, None)
    }

    /// `status.volumesAttached` of a node, sorted by name. `None` if nothing was ever attached there.
    ///
    /// Upstream: `GetVolumesToReportAttachedForNode`. A node whose last volume left has an empty list,
    /// and not `None`.
    pub(super) fn report(&self, node: &Sym) -> Option<Vec<AttachedVolume>> {
        let report = self.reports.get(node)?;
        let volume = |name: &Sym| AttachedVolume {
            name: name.clone(),
            device_path: self
                .volumes
                .get(name)
                .map_or_else(Box::default, |attached| attached.device_path.clone()),
        };
        Some(report.volumes.iter().map(volume).collect())
    }

    /// The status of a node has these volumes. If this controller knows one of them, it writes the
    /// list from now on, for example after a start with an older cache.
    pub(super) fn note_shown(&mut self, node: &Sym, shown: &[AttachedVolume]) {
        if shown.iter().any(|volume| self.is_known(&volume.name, node)) {
            self.reports.entry(node.clone()).or_default();
        }
    }

    /// The status of a node has exactly the volumes `shown`. Returns the volumes that may be
    /// detached now.
    ///
    /// The caller has just written the list, or has seen it in the cache after its own last write.
    pub(super) fn shown(&mut self, node: &Sym, shown: &[AttachedVolume]) -> Vec<Sym> {
        let Some(report) = self.reports.get_mut(node) else {
            return Vec::new();
        };
        let is_shown = |name: &Sym| shown.iter().any(|volume| volume.name == *name);
        let left: Vec<Sym> = report
            .leaving
            .iter()
            .filter(|name| !is_shown(name))
            .cloned()
            .collect();
        report.leaving.retain(is_shown);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubelet may use a volume and end that between two events of its node.
    #[test]
    fn the_end_of_an_assumed_use_is_a_change() {
        let volume = Sym::new("v");
        let node = Sym::new("n");
        let mut actual = Actual::default();
        assert!(!actual.set_in_use(&node, &[]));
        actual.attached(&volume, &node, None);
        assert!(actual.is_in_use(&volume, &node));
        assert!(actual.set_in_use(&node, &[]));
        assert!(!actual.is_in_use(&volume, &node) && !actual.set_in_use(&node, &[]));
    }
}
