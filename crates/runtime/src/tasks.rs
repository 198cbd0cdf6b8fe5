//! Owned tasks: whoever starts one waits for it, and shutdown can say which still run.

use std::future::Future;
use std::time::Duration;

pub use tokio_util::sync::CancellationToken;

/// The tasks of one owner. Dropping it aborts them.
#[derive(Debug, Default)]
pub struct Tasks {}

impl Tasks {
    /// Starts `future` as a task called `name`. A panic in it is logged with the name and counted; other tasks go on.
    pub fn spawn(&self, _name: impl Into<String>, _future: impl Future<Output = ()> + Send + 'static) {
        todo!("helper: queue")
    }

    /// Names of the tasks that still run, sorted.
    pub fn running(&self) -> Vec<String> {
        todo!("helper: queue")
    }

    /// Waits until all have ended. Every `report_every` the names of those that still run are logged.
    pub async fn join(&self, _report_every: Duration) {
        todo!("helper: queue")
    }
}
