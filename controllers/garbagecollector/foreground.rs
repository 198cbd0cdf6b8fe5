//! When an object that waits for its dependents has waited long enough.

use super::graph::{NodeKey, NodeView};

/// What an object that is deleted in the foreground does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing holds it any more: its finalizer goes.
    Finish,
    /// It waits; these dependents are to be looked at, the others are waiting themselves.
    WaitFor(Vec<NodeKey>),
}

/// `blocking` are the dependents whose reference blocks the deletion.
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
