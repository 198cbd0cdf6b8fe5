//! The trait of kinds that this controller can manage: ReplicaSets and ReplicationControllers.
//!
//! Both kinds have the same status and the same rules. The other files of this folder are generic
//! over the trait, so `replicationcontroller` runs the same code. Upstream instead converts
//! ReplicationControllers to ReplicaSets, in `pkg/controller/replication/conversion.go`.

use steersman_objects::{Document, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, Selects, Uid};
use steersman_values::labels::Labels;

/// A kind of object that asks for a number of pods of one template.
pub(crate) trait PodOwner: Selects {
    /// Whether the API of this kind has the field `status.terminatingReplicas`. ReplicationControllers lack
    /// it, and upstream turns it off for them by `EnableStatusTerminatingReplicas`.
    const REPORTS_TERMINATING: bool;
    /// Whether upstream's metric counts the syncs that wait for a stale cache. Upstream has this
    /// metric only for ReplicaSets.
    const COUNTS_STALE_SYNCS: bool;

    /// The spec.
    fn spec(&self) -> &ReplicaSetSpec;
    /// The status as served.
    fn status(&self) -> &ReplicaSetStatus;
    /// The served JSON of the object, for PUT requests.
    fn document(&self) -> &Document;
    /// UID of the controller that this object shares with related objects, such as the Deployment
    /// of several ReplicaSets. A scale-down spreads the remaining pods of this group over nodes. `None` means
    /// that the ranking knows no crowded nodes.
    fn group(&self) -> Option<&Uid>;

    /// Desired number of pods.
    fn replicas(&self) -> i32 {
        self.spec().replicas
    }

    /// Seconds for which a pod must be ready before it counts as available.
    fn min_ready_seconds(&self) -> i32 {
        self.spec().min_ready_seconds
    }

    /// Labels of new pods.
    fn template_labels(&self) -> &Labels {
        self.spec().template.labels()
    }
}

impl PodOwner for ReplicaSet {
    const REPORTS_TERMINATING: bool = true;
    const COUNTS_STALE_SYNCS: bool = true;

    fn spec(&self) -> &ReplicaSetSpec {
        &self.spec
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }

    fn document(&self) -> &Document {
        &self.document
    }

    // The Deployment, in general. Its old and new ReplicaSets then form one group.
    fn group(&self) -> Option<&Uid> {
        self.meta.controller().map(|reference| &reference.uid)
    }
}
