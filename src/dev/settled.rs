//! Waits until a new cluster takes pods.
//!
//! The API server taints new nodes, and the node lifecycle controller removes the taint. Until then
//! DaemonSets want no pods, so that an applied DaemonSet would seem complete. The API server refuses
//! pods until the service account controller has made the account of their namespace.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_client::ApiClient;
use steersman_objects::{Namespace, Node, Object, ObjectKey, ServiceAccount};
use steersman_runtime::informer::{Change, InformerFactory, Store};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::sync::Notify;

/// The taint of new nodes.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Period of the log line that names informers that have not stopped yet.
const REPORT: Duration = Duration::from_secs(5);

/// Waits until no node has the taint of new nodes, and each namespace has its account.
pub(super) async fn cluster_takes_pods(client: ApiClient) -> Result<(), prometheus::Error> {
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    let informers = InformerFactory::new(client, Duration::ZERO, &Registry::new())?;
    let changed = Arc::new(Notify::new());
    let nodes = store::<Node>(&informers, &changed);
    let accounts = store::<ServiceAccount>(&informers, &changed);
    let namespaces = store::<Namespace>(&informers, &changed);
    informers.start(&tasks, &stop);
    informers.wait_synced(&stop).await;
    let is_tainted = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == *NOT_READY);
    // Each object is looked at until it is ready, so that the work does not grow with the square of
    // their number.
    for node in nodes.list() {
        while nodes.get(&node.key()).is_some_and(|node| is_tainted(&node)) {
            changed.notified().await;
        }
    }
    for namespace in namespaces.list() {
        let account = ObjectKey::new(&namespace.meta.name, "default");
        while accounts.get(&account).is_none() {
            changed.notified().await;
        }
    }
    stop.cancel();
    tasks.join(REPORT).await;
    Ok(())
}

/// The cache of `T`; a change of it wakes `changed`.
fn store<T: Object>(informers: &InformerFactory, changed: &Arc<Notify>) -> Store<T> {
    let informer = informers.shared::<T>();
    let wake = Arc::clone(changed);
    informer.add_handler(move |_: Change<'_, T>| wake.notify_one());
    informer.store()
}
