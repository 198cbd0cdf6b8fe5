//! Operations beside the workers: provisioning, deletion and recycling.
//!
//! An operation runs once at a time. After a failure it rests for half a second, then for twice as
//! long after each further one. No timer starts it: the next sync of its object does. Upstream:
//! `pkg/util/goroutinemap`.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use steersman_client::{ApiError, Category};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::Retry;
use tokio::time::Instant;
use tracing::{Instrument, Span};

/// The rest after the first failure, and the longest rest.
///
/// Upstream: `initialDurationBeforeRetry` and `maxDurationBeforeRetry` of `exponentialbackoff`.
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(122);

/// The running operations, and those that rest.
pub(super) struct Operations {
    /// By name, which contains the UID of the object. A recreated object starts without a rest.
    states: Arc<Mutex<HashMap<String, State>>>,
    /// Owned here, so that no operation outlives its controller.
    tasks: Tasks,
    stop: CancellationToken,
}

/// The state of one operation. One that succeeded has none.
#[derive(Debug, Clone, Copy)]
enum State {
    /// It runs, after failures with this rest.
    ///
    /// `None` is the first run.
    Running(Option<Duration>),
    /// It failed at this time, and rests.
    ///
    /// The entry outlives the rest, since the next failure doubles it.
    Resting { since: Instant, rest: Duration },
}

impl Operations {
    pub(super) fn new() -> Self {
        Self {
            states: Arc::default(),
            tasks: Tasks::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Cancelled when the controller stops. Waits of operations end then.
    pub(super) fn stopped(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts `operation` as `name`, unless it runs or rests.
    ///
    /// Upstream: `scheduleOperation`, and `Run` of the map. A refusal is silent: the next sync tries
    /// again.
    pub(super) fn start<E: std::error::Error + Send + 'static>(
        &self,
        name: String,
        operation: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let mut states = lock(&self.states);
        let rest = match states.get(&name) {
            None => None,
            Some(State::Resting { since, rest }) if since.elapsed() >= *rest => Some(*rest),
            // It runs, or its rest is not over.
            Some(_) => return,
        };
        states.insert(name.clone(), State::Running(rest));
        drop(states);
        let mut run = Run {
            states: Arc::clone(&self.states),
            name: name.clone(),
            has_succeeded: false,
        };
        let run = async move {
            match operation.await {
                Ok(()) => run.succeed(),
                Err(error) => run.log(&error),
            }
        };
        // The log lines of an operation name the object of the sync that started it.
        self.tasks.spawn(name, run.instrument(Span::current()));
    }

    /// Forgets operations whose object is gone: no sync has tried them again after their rest.
    ///
    /// Upstream keeps them.
    pub(super) fn forget_abandoned(&self) {
        lock(&self.states).retain(|_, state| match state {
            State::Running(_) => true,
            State::Resting { since, rest } => since.elapsed() < *rest + LONGEST_REST,
        });
    }

    /// Ends the waits of all operations, and waits for their requests.
    ///
    /// A request that is under way is not cut off.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.join().await;
    }

    /// Aborts all operations, as the end of their process would.
    pub(super) fn abort(&self) {
        self.tasks.abort();
    }

    /// Waits for all operations.
    ///
    /// For at most a minute.
    pub(super) async fn join(&self) {
        self.tasks.join(Duration::from_secs(60)).await;
    }
}

/// A run of an operation. Its end is recorded when this is dropped, also after a panic.
struct Run {
    states: Arc<Mutex<HashMap<String, State>>>,
    name: String,
    has_succeeded: bool,
}

impl Run {
    fn succeed(&mut self) {
        self.has_succeeded = true;
    }

    /// A fenced operation is no failure: the next leader does it.
    fn log<E: std::error::Error + 'static>(&self, error: &E) {
        let request = ApiError::within(error);
        if request.is_some_and(ApiError::is_fenced) {
            return;
        }
        let operation = &*self.name;
        let category = Category::of(error).as_str();
        if Retry::after_request(request) == Retry::Quietly {
            tracing::debug!(operation, category, %error, "operation lost a race");
        } else {
            tracing::error!(operation, category, %error, "operation failed");
        }
    }
}

/// Without the record, a panic would leave the operation running for ever.
impl Drop for Run {
    fn drop(&mut self) {
        let mut states = lock(&self.states);
        let state = states.remove(&self.name);
        if self.has_succeeded {
            return;
        }
        // Upstream: `Update` of `ExponentialBackoff`.
        let rest = match state {
            Some(State::Running(Some(rest))) => (rest * 2).min(LONGEST_REST),
            _ => FIRST_REST,
        };
        let since = Instant::now();
        states.insert(
            std::mem::take(&mut self.name),
            State::Resting { since, rest },
        );
    }
}

fn lock(states: &Mutex<HashMap<String, State>>) -> MutexGuard<'_, HashMap<String, State>> {
    states.lock()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("refused")]
    struct Refused;

    /// Operations that fail or succeed, and the number of their runs.
    #[derive(Default)]
    struct Counted(Arc<AtomicUsize>);

    impl Counted {
        /// Starts the operation `delete-pv`, waits for its end, and returns the number of runs.
        async fn start(&self, operations: &Operations, result: Result<(), Refused>) -> usize {
            let runs = Arc::clone(&self.0);
            operations.start("delete-pv".to_owned(), async move {
                runs.fetch_add(1, Ordering::Relaxed);
                result
            });
            operations.join().await;
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failed_operations_rest_for_a_growing_time() {
        let operations = Operations::new();
        let counted = Counted::default();
        let mut runs = 0;
        for millis in [500, 1000, 2000, 4000] {
            runs += 1;
            assert_eq!(counted.start(&operations, Err(Refused)).await, runs);
            tokio::time::advance(Duration::from_millis(millis - 1)).await;
            assert_eq!(counted.start(&operations, Err(Refused)).await, runs);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(counted.start(&operations, Ok(())).await, runs + 1);
        assert_eq!(counted.start(&operations, Ok(())).await, runs + 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_operation_starts_no_second_time() {
        let operations = Operations::new();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        operations.start("recycle-pv".to_owned(), async move {
            ended.await.map_err(|_| Refused)
        });
        let second = Arc::new(AtomicUsize::new(0));
        let runs = Arc::clone(&second);
        operations.start("recycle-pv".to_owned(), async move {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Refused>(())
        });
        end.send(()).unwrap();
        operations.join().await;
        assert_eq!(second.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn operations_of_gone_objects_are_forgotten() {
        let operations = Operations::new();
        let counted = Counted::default();
        counted.start(&operations, Err(Refused)).await;
        operations.forget_abandoned();
        assert_eq!(lock(&operations.states).len(), 1);
        tokio::time::advance(LONGEST_REST + FIRST_REST).await;
        operations.forget_abandoned();
        assert_eq!(lock(&operations.states).len(), 0);
    }
}
