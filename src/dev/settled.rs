//! Waits until new nodes take pods.
//!
//! The API server taints new nodes, and the node lifecycle controller removes the taint. Until then
//! DaemonSets want no pods, so that an applied DaemonSet would seem complete.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_runtime::client::ApiClient;
use steersman_runtime::informer::{Change, InformerFactory};
use steersman_runtime::object::{Node, Object};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::sync::Notify;

/// The taint of new nodes.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Period of the log line that names informers that have not stopped yet.
const REPORT: Duration = Duration::from_secs(5);

/// Waits until no node has the taint of new nodes.
pub(super) async fn nodes_take_pods(client: ApiClient) -> Result<(), prometheus::Error> {
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    let informers = InformerFactory::new(client, Duration::ZERO, &Registry::new())?;
    let nodes = informers.shared::<Node>();
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    nodes.add_handler(move |_: Change<'_, Node>| wake.notify_one());
    informers.start(&tasks, &stop);
    informers.wait_synced(&stop).await;
    let nodes = nodes.store();
    let is_tainted = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == *NOT_READY);
    // Each node is looked at until it is ready, so that the work does not grow with the square of
    // their number.
    for node in nodes.list() {
        while nodes.get(&node.key()).is_some_and(|node| is_tainted(&node)) {
            changed.notified().await;
        }
    }
    stop.cancel();
    tasks.join(REPORT).await;
    Ok(())
}
