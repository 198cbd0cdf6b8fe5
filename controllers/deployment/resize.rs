//! A change of one ReplicaSet's size, together with its size annotations.
//!
//! The annotations state the Deployment's size at that time; proportional scaling
//! (`scaling.rs`) reads them. Upstream: `scaleReplicaSet` in `sync.go`.
//!
//! By these annotations, the next sync tells a scaling event from a rollout.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_objects::{Deployment, ReplicaSet};

use super::annotations;
use super::document::set_annotations;

/// The size that a ReplicaSet should get.
#[derive(Debug, Clone)]
pub(super) struct Resize {
    /// The ReplicaSet, as the cache shows it.
    pub(super) set: Arc<ReplicaSet>,
    /// The desired size. At least 0.
    pub(super) to: i32,
    /// Whether outdated size annotations alone cause a write. Otherwise only a change of size
    /// updates them.
    pub(super) forced: bool,
}

impl Resize {
    /// A resize that is written only if the size differs.
    pub(super) fn lazy(set: &Arc<ReplicaSet>, to: i32) -> Self {
        Self {
            set: Arc::clone(set),
            to,
            forced: false,
        }
    }

    /// A resize that is written if the size or the annotations differ.
    pub(super) fn forced(set: &Arc<ReplicaSet>, to: i32) -> Self {
        Self {
            set: Arc::clone(set),
            to,
            forced: true,
        }
    }

    /// Whether the size changes.
    pub(super) fn changes_size(&self) -> bool {
        self.set.spec.replicas != self.to
    }

    /// Whether a write is needed, given the owner `d`. Upstream: the conditions of `scaleReplicaSet`. A
    /// forced resize with current annotations is no write, so a sync without change stays silent.
    pub(super) fn is_due(&self, d: &Deployment) -> bool {
        self.changes_size() || self.forced && !annotations::sizes_are_current(d, &self.set)
    }

    /// The body of the PUT.
    pub(super) fn object(&self, d: &Deployment) -> Map<String, Value> {
        let mut object = self.set.document.to_object();
        set_annotations(&mut object, annotations::sizes(d));
        object["spec"]["replicas"] = self.to.into();
        object
    }

    /// The message of the Event; `None` if the size does not change. The text is upstream's, since users and
    /// tools match it.
    pub(super) fn message(&self) -> Option<String> {
        let from = self.set.spec.replicas;
        let direction = match from.cmp(&self.to) {
            Ordering::Equal => return None,
            Ordering::Less => "up",
            Ordering::Greater => "down",
        };
        Some(format!(
            "Scaled {direction} replica set {} from {from} to {}",
            self.set.meta.name, self.to
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
    use crate::testing::{deployment, replica_set};

    #[test]
    fn stale_annotations_are_written_with_a_new_size_or_when_forced() {
        let d = deployment("web").replicas(4).rolling(1, 0).build();
        let set = |size: i32, max: &str| {
            Arc::new(
                replica_set("web-1")
                    .replicas(size)
                    .annotation(DESIRED_REPLICAS, "4")
                    .annotation(MAX_REPLICAS, max)
                    .build(),
            )
        };
        // (why, resize, due)
        let cases = [
            ("size differs", Resize::lazy(&set(3, "5"), 4), true),
            ("nothing differs", Resize::lazy(&set(4, "5"), 4), false),
            (
                "only annotations differ",
                Resize::lazy(&set(4, "9"), 4),
                false,
            ),
            (
                "only annotations differ, forced",
                Resize::forced(&set(4, "9"), 4),
                true,
            ),
            (
                "nothing differs, forced",
                Resize::forced(&set(4, "5"), 4),
                false,
            ),
        ];
        for (why, resize, due) in cases {
            assert_eq!(resize.is_due(&d), due, "{why}");
        }
    }

    #[test]
    fn a_resize_changes_the_size_and_its_annotations_and_keeps_the_rest() {
        let d = deployment("web").replicas(4).rolling(1, 0).build();
        let rs = replica_set("web-1")
            .replicas(3)
            .annotation("team", "a")
            .spec("unknownField", "kept")
            .build();
        let object = Resize::lazy(&Arc::new(rs), 2).object(&d);
        assert_eq!(object["spec"]["replicas"], 2);
        assert_eq!(object["spec"]["unknownField"], "kept");
        assert_eq!(object["metadata"]["annotations"]["team"], "a");
        assert_eq!(object["metadata"]["annotations"][DESIRED_REPLICAS], "4");
        assert_eq!(object["metadata"]["annotations"][MAX_REPLICAS], "5");
    }

    #[test]
    fn the_event_states_both_sizes() {
        let set = Arc::new(replica_set("web-1").replicas(3).build());
        // (to, message)
        let cases = [
            (5, Some("Scaled up replica set web-1 from 3 to 5")),
            (0, Some("Scaled down replica set web-1 from 3 to 0")),
            (3, None),
        ];
        for (to, message) in cases {
            assert_eq!(Resize::forced(&set, to).message().as_deref(), message);
        }
    }
}
