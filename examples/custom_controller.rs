//! A manager with a controller of one's own: one line in `main`, everything else as in Steersman.
//!
//! The controller says in the log when a pod keeps restarting. Try it with `cargo run --example
//! custom_controller -- --kubeconfig ~/.kube/config --leader-elect=false
//! --controllers=restart-reporter`.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use steersman::ControllerRegistry;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::object::{Object, ObjectKey, Pod};
use steersman_runtime::reads::Read;
use steersman_runtime::workers::{Keyed, Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;

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

/// Restarts from which on a pod is worth a line.
const MANY: i32 = 5;

struct RestartReporter {
    pods: Store<Pod>,
}

fn init(context: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let informer = context.informers.shared::<Pod>();
    let queue = WorkQueue::new("restart_reporter", &context.queue_metrics);
    let keys = queue.clone();
    informer.add_handler(move |change| match change {
        Change::Added { object, .. } => keys.add(object.key()),
        Change::Updated { old, new } if old.restarts != new.restarts => keys.add(new.key()),
        Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    Ok(Keyed::boxed(
        "restart-reporter-controller",
        queue,
        1,
        Arc::new(RestartReporter {
            pods: informer.store(),
        }),
    ))
}

impl Syncer for RestartReporter {
    type Error = Infallible;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Infallible> {
        match self.pods.get(key) {
            Some(pod) if pod.restarts >= MANY => {
                tracing::warn!(pod = %key, restarts = pod.restarts, "this pod keeps restarting");
                Ok(Requeue::After(Duration::from_secs(3600)))
            }
            _ => Ok(Requeue::Never),
        }
    }
}
