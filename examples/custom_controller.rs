//! A manager with an additional controller. `main` registers it with one line; everything else is
//! as in Steersman.
//!
//! The controller logs a warning when a pod keeps restarting. Try it with `cargo run --example
//! custom_controller -- --kubeconfig ~/.kube/config --leader-elect=false
//! --controllers=restart-reporter`.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use steersman::ControllerRegistry;
use steersman_objects::{Object, ObjectKey, Pod};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;

fn main() -> ExitCode {
    steersman::run(
        std::env::args().skip(1).collect(),
        ControllerRegistry::builtin().with(RESTART_REPORTER),
    )
}

const RESTART_REPORTER: Descriptor = Descriptor {
    name: "restart-reporter-controller",
    aliases: &["restart-reporter"],
    enabled_by_default: true,
    summary: "says which pods keep restarting",
    identity: "restart-reporter-controller",
    reads: &[Read::of::<Pod>()],
    rules: &[],
    init,
};

/// Number of restarts from which on a pod is reported.
const MANY: i32 = 5;

/// Reports pods that keep restarting.
struct RestartReporter;

/// Enqueues a pod whenever its number of restarts changes.
fn init(context: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let keyed = Keyed::<Pod>::new(context, "restart-reporter-controller", "restart_reporter");
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| match change {
        Change::Added { object, .. } => queue.add(object.key()),
        Change::Updated { old, new } if old.restarts != new.restarts => queue.add(new.key()),
        Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    Ok(keyed.boxed(1, RestartReporter))
}

impl ObjectSyncer for RestartReporter {
    type Object = Pod;
    type Error = Infallible;

    async fn sync(&self, key: &ObjectKey, pod: Arc<Pod>) -> Result<Requeue, Infallible> {
        if pod.restarts < MANY {
            return Ok(Requeue::Never);
        }
        tracing::warn!(pod = %key, restarts = pod.restarts, "this pod keeps restarting");
        // Report the pod again in an hour if it still restarts.
        Ok(Requeue::After(Duration::from_secs(3600)))
    }
}
