//! Tasks with an owner, which waits for them.
//!
//! Every task of the process belongs to a [`Tasks`]. At shutdown its owner can name the tasks that
//! still run. A panic ends only its own task; it is logged and counted. Upstream uses
//! `wait.Group` and `HandleCrash` of apimachinery for this.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::Notify;
pub use tokio_util::sync::CancellationToken;

use steersman_values::sync::{AbortHandle, Handle, Mutex, MutexGuard};

use crate::panics;

/// The tasks of one owner. A dropped `Tasks` aborts them.
#[derive(Default)]
pub struct Tasks {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when the last task has ended.
    ended: Notify,
    panics: Panics,
}

/// The number of tasks that panicked, of this owner and of the owners made by [`Tasks::beside`].
#[derive(Clone)]
struct Panics(IntCounter);

#[derive(Default)]
struct State {
    /// The number of the last task. Names may repeat, so numbers tell tasks apart.
    next: u64,
    /// Tasks that were started and have not ended.
    running: BTreeMap<u64, Running>,
}

struct Running {
    name: Arc<str>,
    /// `None` between the registration and the start of the task, and after [`Tasks::abort`].
    abort: Option<AbortHandle>,
}

/// Removes a task from the list when dropped. So it covers each end of a task: normal, by a panic,
/// by an abort, or with the runtime.
struct Registration {
    shared: Arc<Shared>,
    id: u64,
}

impl Tasks {
    /// An empty list of tasks for another owner, with the panic counter of this one.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            shared: Arc::new(Shared {
                panics: self.shared.panics.clone(),
                ..Shared::default()
            }),
        }
    }

    /// Starts `future` as a task called `name`. A panic in it is logged with the name and counted;
    /// other tasks continue.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn spawn(
        &self,
        name: impl Into<String>,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let name: Arc<str> = name.into().into();
        let id = {
            let mut state = self.shared.lock();
            state.next += 1;
            let id = state.next;
            state.running.insert(
                id,
                Running {
                    name: Arc::clone(&name),
                    abort: None,
                },
            );
            id
        };
        let registration = Registration {
            shared: Arc::clone(&self.shared),
            id,
        };
        // The lock is free here: a runtime that shuts down drops the future inside `spawn`, and the
        // drop of `registration` takes the lock. Registered before it is spawned, because a short
        // task may end before `spawn` returns.
        let task = Handle::current().spawn(async move {
            let registration = registration;
            if let Err(panic) = panics::catch(future).await {
                registration.shared.panics.0.inc();
                tracing::error!(task = &*name, %panic, "task panicked");
            }
        });
        // A task that has ended already is no longer in the list.
        if let Some(running) = self.shared.lock().running.get_mut(&id) {
            running.abort = Some(task.abort_handle());
        }
    }

    /// Names of the tasks that still run, sorted. A name appears once per task.
    pub fn running(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .shared
            .lock()
            .running
            .values()
            .map(|r| r.name.to_string())
            .collect();
        names.sort_unstable();
        names
    }

    /// The counter of tasks that panicked (`steersman_task_panics_total`). The caller registers it.
    pub fn panics(&self) -> IntCounter {
        self.shared.panics.0.clone()
    }

    /// Aborts all tasks. Each ends at its current `await`, without clean-up code.
    pub fn abort(&self) {
        let running: Vec<_> = self
            .shared
            .lock()
            .running
            .values_mut()
            .filter_map(|r| r.abort.take())
            .collect();
        // Without the lock: an abort may drop a registration, which takes it.
        for task in running {
            task.abort();
        }
    }

    /// Waits until all tasks have ended. Logs the names of running tasks every `report_every`. New
    /// tasks may start meanwhile, and are waited for as well.
    pub async fn join(&self, report_every: Duration) {
        loop {
            // Before the check, so that an end between the two is not missed.
            let ended = self.shared.ended.notified();
            if self.shared.lock().running.is_empty() {
                return;
            }
            if tokio::time::timeout(report_every, ended).await.is_err() {
                tracing::info!(tasks = ?self.running(), "waiting for tasks to end");
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.running()).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Default for Panics {
    fn default() -> Self {
        let counter = IntCounter::new(
            "steersman_task_panics_total",
            "[ALPHA] Tasks of the process that ended in a panic.",
        );
        Self(counter.expect("the name is a valid metric name"))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.running.remove(&self.id);
        if state.running.is_empty() {
            self.shared.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn join_waits_for_every_task_and_running_names_them() {
        let tasks = Tasks::default();
        for (name, seconds) in [("slow", 20), ("fast", 1), ("instant", 0)] {
            tasks.spawn(name, tokio::time::sleep(Duration::from_secs(seconds)));
        }
        assert_eq!(tasks.running(), ["fast", "instant", "slow"]);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(tasks.running(), ["slow"]);
        let started = tokio::time::Instant::now();
        tasks.join(REPORT).await;
        assert_eq!(started.elapsed().as_secs(), 18);
        assert!(tasks.running().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_counted_and_other_tasks_continue() {
        let tasks = Tasks::default();
        let beside = tasks.beside();
        beside.spawn("also bad", async { panic!("as planned") });
        beside.join(REPORT).await;
        tasks.spawn("bad", async { panic!("as planned") });
        let (done, finished) = tokio::sync::oneshot::channel();
        tasks.spawn("good", async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = done.send(());
        });
        tasks.join(REPORT).await;
        assert_eq!(tasks.panics().get(), 2);
        assert!(finished.await.is_ok(), "the other task has finished");
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_owner_aborts_its_tasks() {
        let tasks = Tasks::default();
        let (kept, dropped) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("endless", async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        drop(tasks);
        let end = tokio::time::timeout(Duration::from_secs(1), dropped).await;
        assert!(end.expect("the task is aborted").is_err());
    }

    #[tokio::test]
    async fn join_returns_at_once_without_tasks() {
        Tasks::default().join(REPORT).await;
    }
}
