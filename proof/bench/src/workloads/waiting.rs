//! Waits of the loads for the caches of their objects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use steersman_client::ApiError;
use steersman_objects::Object;
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use tokio::sync::Notify;

/// Requests in flight at once.
const AT_ONCE: usize = 16;
/// A check walks all objects of a type. The pause before the next one is this many times as long, so that
/// the benchmark does not measure itself.
const PAUSE_PER_CHECK: u32 = 20;
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Sends `count` requests.
pub(crate) async fn each<F>(count: usize, send: impl Fn(usize) -> F) -> Result<()>
where
    F: Future<Output = Result<(), ApiError>>,
{
    stream::iter((0..count).map(send))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
        .context("change the objects of the load")
}

/// Waits until `holds`. A change of a cache wakes `changed`.
pub(crate) async fn wait(changed: &Notify, holds: impl Fn() -> bool) -> Result<()> {
    let until = async {
        let mut began = Instant::now();
        while !holds() {
            let pause = (began.elapsed() * PAUSE_PER_CHECK).min(LONGEST_PAUSE);
            changed.notified().await;
            tokio::time::sleep(pause).await;
            began = Instant::now();
        }
    };
    // A busy machine with two cores rolls out 50,000 pods in this time.
    tokio::time::timeout(Duration::from_secs(3_600), until)
        .await
        .context("not settled after an hour")
}

/// The informer of `T`, whose changes wake `changed`.
pub(crate) fn watched<T: Object>(
    informers: &InformerFactory,
    changed: &Arc<Notify>,
) -> SharedInformer<T> {
    let informer = informers.shared::<T>();
    let wake = Arc::clone(changed);
    informer.add_handler(move |_| wake.notify_one());
    informer
}
