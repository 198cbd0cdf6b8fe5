//! The sets that a change enqueues.
//!
//! A change of a set enqueues it. A change of a pod enqueues its controller, and a change of an
//! orphan enqueues all sets that may adopt it. The end of a claim enqueues its set.
//!
//! Upstream has no handler of claims. A pod that waits for the deletion of an old claim, or that
//! lost its claim, waits there for another event.
//!
//! Revisions have no handler, as upstream: only this controller changes them.

use std::sync::Arc;
use std::time::Duration;

use steersman_objects::{Object, ObjectKey, PersistentVolumeClaim, Pod, StatefulSet};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::owner::{DependentEvent, dependent_events};
use steersman_runtime::workqueue::WorkQueue;

use super::identity::{claim_name, ordinal};

/// Registers the handlers of sets, pods and claims.
pub(super) fn register(
    sets: &SharedInformer<StatefulSet>,
    pods: &SharedInformer<Pod>,
    claims: &SharedInformer<PersistentVolumeClaim>,
    queue: &WorkQueue<ObjectKey>,
) {
    let handlers = Arc::new(Handlers {
        sets: sets.store(),
        queue: queue.clone(),
    });
    let of_sets = Arc::clone(&handlers);
    let of_pods = Arc::clone(&handlers);
    // Own writes of the status come here, too. A sync without a difference sends nothing.
    sets.add_handler(move |change| of_sets.queue.add(change.object().key()));
    pods.add_handler(move |change| of_pods.pod_changed(&change));
    claims.add_handler(move |change| handlers.claim_changed(&change));
}

/// The handlers, and the objects that they act on.
struct Handlers {
    sets: Store<StatefulSet>,
    queue: WorkQueue<ObjectKey>,
}

impl Handlers {
    /// Enqueues the sets that a change of a pod concerns. Upstream: `addPod`, `updatePod` and `deletePod`.
    fn pod_changed(&self, change: &Change<'_, Pod>) {
        dependent_events(&self.sets, change, |event| {
            let set = event.owner();
            self.queue.add(set.key());
            // A pod becomes available without a change of an object, so a delayed key replaces the
            // event.
            let seconds = u64::try_from(set.spec.min_ready_seconds).unwrap_or(0);
            if seconds > 0 && matches!(event, DependentEvent::Updated(_)) && becomes_ready(change) {
                self.queue
                    .add_after(set.key(), Duration::from_secs(seconds));
            }
        });
    }

    /// Enqueues the set of a claim that is gone. Only deletions count, since the set itself creates its
    /// claims.
    fn claim_changed(&self, change: &Change<'_, PersistentVolumeClaim>) {
        let Change::Deleted { object: claim, .. } = change else {
            return;
        };
        // A claim may have no owner, so its name leads to the set.
        for set in self.sets.in_namespace(&claim.meta.namespace) {
            if is_claim_of(&set, &claim.meta.name) {
                self.queue.add(set.key());
            }
        }
    }
}

fn becomes_ready(change: &Change<'_, Pod>) -> bool {
    matches!(change, Change::Updated { old, new } if !old.is_ready() && new.is_ready())
}

/// Whether `claim` is the name of a claim of a pod of `set`.
///
/// Names may be ambiguous: `a-b-0` can be of template `a` and set `b`, or of others. A needless sync does no
/// harm.
fn is_claim_of(set: &StatefulSet, claim: &str) -> bool {
    let Some(ordinal) = ordinal(claim) else {
        return false;
    };
    let templates = &set.spec.claim_templates;
    templates
        .iter()
        .any(|template| claim_name(&set.meta.name, template, ordinal) == claim)
}

#[cfg(test)]
mod tests;
