//! What this machinery asks of a kind whose objects keep a number of pods.
//!
//! ReplicaSets are one such kind; a ReplicationController is another, with the same status and the
//! same rules, which is why nothing else in this folder names a kind.

use steersman_runtime::labels::Labels;
use steersman_runtime::object::{
    Document, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, Selects, Uid,
};

/// A kind of object that keeps a number of equal pods.
pub(crate) trait PodOwner: Selects {
    /// Whether the API has `status.terminatingReplicas`.
    const REPORTS_TERMINATING: bool;
    /// Whether syncs that wait for a stale cache are counted in upstream's metric.
    const COUNTS_STALE_SYNCS: bool;

    /// Its spec.
    fn spec(&self) -> &ReplicaSetSpec;
    /// Its status as served.
    fn status(&self) -> &ReplicaSetStatus;
    /// The object as served.
    fn document(&self) -> &Document;
    /// Controller that it shares with others of its kind, whose pods should not crowd on one node
    /// when some of them go.
    fn group(&self) -> Option<&Uid>;

    /// Wanted pods.
    fn replicas(&self) -> i32 {
        self.spec().replicas
    }

    /// Seconds a pod must be ready to count as available.
    fn min_ready_seconds(&self) -> i32 {
        self.spec().min_ready_seconds
    }

    /// Labels of the pods it creates.
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

    fn group(&self) -> Option<&Uid> {
        self.meta.controller().map(|reference| &reference.uid)
    }
}
