//! Keeps as many pods running as each ReplicationController asks for.
//!
//! A ReplicationController is an older form of a ReplicaSet. So this controller runs the code of
//! [`crate::replicaset`], with its own queue, expectations and own writes. The guarantees are the
//! same.
//!
//! Upstream: `pkg/controller/replication`, which converts ReplicationControllers to ReplicaSets and
//! back. Here the code is generic over both kinds ([`PodOwner`]). The differences are those of the
//! ReplicaSet controller. Upstream waits for its own writes only for ReplicaSets, so the metric of
//! skipped syncs does not count this controller.

#[cfg(test)]
mod tests;

use steersman_objects::{
    Document, Pod, ReplicaSetSpec, ReplicaSetStatus, ReplicationController, Uid,
};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use crate::replicaset::{self, Names, PodOwner};

/// The ReplicationController controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["replicationcontroller"],
    enabled_by_default: true,
    summary: "Keeps as many pods running as each ReplicationController asks for",
    identity: IDENTITY,
    reads: &[
        Read::by_controller::<ReplicationController>(),
        Read::by_controller::<Pod>(),
    ],
    rules: RULES,
    init,
};

const NAME: &str = "replicationcontroller-controller";

/// Name of its client and its service account, and source of its Events.
const IDENTITY: &str = "replication-controller";

const RULES: &[Rule] = &[
    Rule::new(&[""], &["replicationcontrollers"], &["get"]),
    Rule::new(&[""], &["replicationcontrollers/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&[""], &["replicationcontrollers/finalizers"], &["update"]),
    Rule::new(&[""], &["pods"], &["create", "delete", "patch"]),
    Rule::EVENTS,
];

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let names = Names {
        controller: NAME,
        component: IDENTITY,
        queue: "replicationmanager",
    };
    replicaset::build::<ReplicationController>(
        ctx,
        &names,
        ctx.options.workers("concurrent-rc-syncs"),
    )
}

impl PodOwner for ReplicationController {
    const REPORTS_TERMINATING: bool = false;
    const COUNTS_STALE_SYNCS: bool = false;

    fn spec(&self) -> &ReplicaSetSpec {
        &self.spec
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }

    fn document(&self) -> &Document {
        &self.document
    }

    /// `None`, even under a controller: upstream looks for related pods only for ReplicaSets.
    fn group(&self) -> Option<&Uid> {
        None
    }
}
