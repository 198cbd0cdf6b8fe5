//! Rolling updates: replaces pods of old templates, within the limits of the update strategy.
//!
//! Without surge, old pods are deleted, and a later sync creates the new ones in their place. With
//! surge, a node gets a new pod first, and its old pod is deleted when the new one is available.
//! Old pods that are not available are replaced beyond all limits, so that a broken template can be
//! replaced by a working one.
//!
//! Example: 3 nodes, `maxUnavailable` 1. The new pod on node a is not available, so the update
//! stops. The next template replaces the pod on a at once, and those on b and c one by one.
//!
//! Upstream: `rollingUpdate` in `update.go`. One difference: a DaemonSet with surge ignores old pods
//! on nodes that do not exist. Upstream's update fails until these pods are gone.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{DaemonSet, Pod};

use super::changes::Changes;
use super::layout::{Layout, OnNode};
use super::limits::{LimitError, resolve};
use super::placement::Placement;
use super::updated::Current;

/// The next step of the rolling update of `ds`.
///
/// The caller runs it only if [`super::manage`] has no work. So missing pods are made before old ones go.
pub(super) fn decide(
    ds: &DaemonSet,
    layout: &Layout,
    current: &Current,
    now: Timestamp,
) -> Result<Changes, LimitError> {
    let desired = layout.desired();
    let limits = resolve(&ds.spec.update_strategy, desired)?;
    let is_available = |pod: &Pod| pod.is_available(ds.spec.min_ready_seconds, now);
    // A node without pods matters only if it should have one.
    let has_part = |node: &OnNode<'_>| !node.is_empty() || node.placement == Some(Placement::Run);
    let nodes = layout.nodes().filter(has_part);
    let nodes = nodes.chain(layout.missing_nodes()).map(|node| {
        let pods = Pods::on(&node, current);
        (node, pods)
    });
    Ok(if limits.max_surge == 0 {
        replace(nodes, limits.max_unavailable, is_available)
    } else {
        surge(nodes, limits.max_surge, desired, is_available)
    })
}

/// The pods of one node that are not terminating.
enum Pods<'a> {
    /// Two pods of the current template, or two others. [`super::manage`] deletes one of them.
    Excess,
    /// At most one of each.
    Known {
        new: Option<&'a Arc<Pod>>,
        old: Option<&'a Arc<Pod>>,
    },
}

impl<'a> Pods<'a> {
    /// Upstream: `findUpdatedPodsOnNode`. Sorts the pods of `node` by their template. Terminating ones do not
    /// count, so their node lacks a pod.
    fn on(node: &OnNode<'a>, current: &Current) -> Self {
        let mut new = None;
        let mut old = None;
        for pod in node.remaining_pods() {
            let place = if current.is_updated(pod) {
                &mut new
            } else {
                &mut old
            };
            if place.replace(pod).is_some() {
                return Self::Excess;
            }
        }
        Self::Known { new, old }
    }
}

/// Deletes old pods, so that at most `max_unavailable` nodes lack an available pod.
///
/// Upstream: the first half of `rollingUpdate`. Old pods that are not available go first and count against
/// the limit, so they may use it up.
fn replace<'a>(
    nodes: impl Iterator<Item = (OnNode<'a>, Pods<'a>)>,
    max_unavailable: usize,
    is_available: impl Fn(&Pod) -> bool,
) -> Changes {
    let mut unavailable = 0_usize;
    let mut delete = Vec::new();
    let mut candidates = Vec::new();
    for (_, pods) in nodes {
        match pods {
            Pods::Known {
                new: None,
                old: Some(old),
            } if is_available(old) => candidates.push(old),
            Pods::Known {
                new: None,
                old: Some(old),
            } => {
                delete.push(Arc::clone(old));
                unavailable += 1;
            }
            Pods::Known {
                new: Some(new),
                old: None,
            } if is_available(new) => {}
            // The pod is missing or unavailable, or `manage` deletes one of several pods soon.
            _ => unavailable += 1,
        }
    }
    let more = max_unavailable.saturating_sub(unavailable);
    delete.extend(candidates.into_iter().take(more).cloned());
    Changes {
        create: Vec::new(),
        delete,
    }
}

/// Creates new pods beside available old ones, on at most `max_surge` nodes, and deletes old pods
/// beside available new ones.
///
/// Upstream: the second half of `rollingUpdate`. `desired` is the number of nodes that should run a pod.
fn surge<'a>(
    nodes: impl Iterator<Item = (OnNode<'a>, Pods<'a>)>,
    max_surge: usize,
    desired: usize,
    is_available: impl Fn(&Pod) -> bool,
) -> Changes {
    let mut changes = Changes::default();
    let mut surging = 0_usize;
    let mut available = 0_usize;
    let mut candidates = Vec::new();
    let mut unwanted = Vec::new();
    for (node, pods) in nodes {
        let Pods::Known { new, old } = pods else {
            surging += 1;
            continue;
        };
        // The old pod counts first, as it serves until the new one is available.
        let serving = old.or(new);
        if serving.is_some_and(|pod| is_available(pod)) {
            available += 1;
        }
        match (old, new) {
            // `manage` creates a missing pod.
            (None, _) => {}
            (Some(old), Some(new)) if is_available(new) => changes.delete.push(Arc::clone(old)),
            (Some(_), Some(_)) => surging += 1,
            (Some(old), None) => match (node.placement, is_available(old)) {
                (None, _) => {}
                (Some(Placement::Run), true) => candidates.push(Arc::clone(node.name)),
                (Some(Placement::Run), false) => changes.create.push(Arc::clone(node.name)),
                (Some(_), true) => unwanted.push(Arc::clone(old)),
                (Some(_), false) => changes.delete.push(Arc::clone(old)),
            },
        }
    }
    // A pod that its node should not run serves until a pod on another node is available.
    let surplus = available.saturating_sub(desired);
    changes.delete.extend(unwanted.into_iter().take(surplus));
    let more = max_surge.saturating_sub(surging);
    changes.create.extend(candidates.into_iter().take(more));
    changes
}
