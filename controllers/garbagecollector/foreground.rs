//! Foreground deletion: the next step for an owner that waits for its dependents.
//!
//! Upstream: `processDeletingDependentsItem` in `garbagecollector.go`.

use super::graph::{NodeKey, NodeView};

/// The next step of a foreground deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// No dependent blocks the deletion: the finalizer is removed.
    Finish,
    /// The owner waits. These dependents are enqueued; the others already wait for their own
    /// dependents.
    WaitFor(Vec<NodeKey>),
}

/// The next step, given the dependents with `blockOwnerDeletion` in their reference. Dependents
/// with a reference that does not block are left: they are deleted after the owner, as in a
/// background deletion.
pub(super) fn next(blocking: &[NodeView]) -> Step {
    if blocking.is_empty() {
        return Step::Finish;
    }
    Step::WaitFor(
        blocking
            .iter()
            .filter(|node| !node.deleting_dependents)
            .map(|node| node.key.clone())
            .collect(),
    )
}
