//! Creations and deletions of pods that one sync has decided.
//!
//! Names stand for nodes to fill, and objects for pods to remove: a deletion needs the UID of its pod.

use std::sync::Arc;

use steersman_objects::Pod;

/// Maximum of pods that one sync creates, and maximum of pods that it deletes. Upstream:
/// `BurstReplicas`. Upstream chose 250 because more new pods at once overload image registries.
const BURST: usize = 250;

/// Pods to create and to delete.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Names of the nodes that get a pod.
    pub(super) create: Vec<Arc<str>>,
    /// Pods to delete.
    pub(super) delete: Vec<Arc<Pod>>,
}

impl Changes {
    /// Whether nothing is to be done, so that a rolling update may take its step.
    pub(super) fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    /// The first creations and deletions, as many as one sync may make. Later syncs decide about
    /// the rest again.
    pub(super) fn capped(&self) -> (&[Arc<str>], &[Arc<Pod>]) {
        let creations = self.create.len().min(BURST);
        let deletions = self.delete.len().min(BURST);
        (&self.create[..creations], &self.delete[..deletions])
    }
}
