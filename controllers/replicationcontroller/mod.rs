//! Keeps as many pods running as each ReplicationController asks for.
//!
//! A ReplicationController is an older form of a ReplicaSet, so this is the machinery of
//! [`crate::replicaset`] run a second time, with its own queue and its own memory of writes;
//! everything promised there holds here.
//!
//! Upstream: `pkg/controller/replication`, which converts to ReplicaSets and back. Here the
//! machinery takes both kinds as they are ([`PodOwner`]). Differences are those of the ReplicaSet
//! controller; of them, upstream has the wait for its own writes for ReplicaSets only, so its
//! metric counts none of these.

#[cfg(test)]
mod tests;

use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::object::{
    Document, Pod, ReplicaSetSpec, ReplicaSetStatus, ReplicationController, Uid,
};
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

/// Its client, its service account and the source of its Events.
const IDENTITY: &str = "replication-controller";

const RULES: &[Rule] = &[
    Rule::new(&[""], &["replicationcontrollers"], &["get"]),
    Rule::new(&[""], &["replicationcontrollers/status"], &["update"]),
    // Owner references that block deletion need it where OwnerReferencesPermissionEnforcement is
    // on.
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

    /// None, even under a controller: upstream looks for related ReplicaSets only.
    fn group(&self) -> Option<&Uid> {
        None
    }
}
