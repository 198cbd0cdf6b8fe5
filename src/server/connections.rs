//! The open connections, a limited number of them.
//!
//! Each connection takes memory, and each costs a stranger little. So beyond the limit, a new
//! connection ends the oldest one. A probe is done long before it is the oldest; a scraper that
//! keeps its connection opens another one.

use std::collections::VecDeque;
use std::future::Future;

use tokio::task::{AbortHandle, JoinSet};

/// Maximum number of open connections.
const MAX: usize = 1024;

/// The tasks of the open connections. Dropping it ends them.
#[derive(Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// Connections in the order of their start.
    order: VecDeque<AbortHandle>,
}

impl Connections {
    /// Runs a connection in its own task.
    pub(super) fn spawn(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        if self.order.len() >= MAX
            && let Some(oldest) = self.order.pop_front()
        {
            tracing::debug!(limit = MAX, "too many connections, closing the oldest one");
            oldest.abort();
        }
        self.order.push_back(self.tasks.spawn(connection));
    }

    /// Waits for the end of a connection. Waits forever without connections.
    pub(super) async fn ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending().await
        }
        // A handle keeps the memory of its task.
        self.order.retain(|connection| !connection.is_finished());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    #[tokio::test]
    async fn beyond_the_limit_the_oldest_open_connection_ends() {
        let mut connections = Connections::default();
        let idle = Arc::new(Semaphore::new(0));
        let mut ends = Vec::new();
        // Connections that have ended do not count.
        for _ in 0..MAX {
            connections.spawn(async {});
        }
        for _ in 0..MAX {
            connections.ended().await;
        }
        for _ in 0..MAX + 2 {
            let (open, end) = oneshot::channel::<()>();
            let idle = Arc::clone(&idle);
            connections.spawn(async move {
                let _open = open;
                let _ = idle.acquire().await;
            });
            ends.push(end);
        }
        connections.ended().await;
        connections.ended().await;
        let is_open = |end: &mut oneshot::Receiver<()>| {
            matches!(end.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        };
        let open: Vec<bool> = ends.iter_mut().map(is_open).collect();
        assert_eq!(open.iter().position(|open| *open), Some(2));
        assert!(open[2..].iter().all(|open| *open));
        assert_eq!(
            (connections.tasks.len(), connections.order.len()),
            (MAX, MAX)
        );
    }
}
