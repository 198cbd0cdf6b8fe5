//! Where threads meet: the locks and tasks of the standard library and Tokio; or, with the feature
//! `shuttle`, those of a scheduler that tries many orders in which threads can pass them. Only
//! tests called `interleavings` run under that scheduler.
//!
//! What is Tokio's own (`Semaphore`, `Notify`, `watch`, cancellation tokens) is opaque to it:
//! another thread may run before and after a call of it, but not within. Waiting is seen, as it
//! ends with a waker.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) use tokio::runtime::Handle;
    pub(crate) use tokio::task::AbortHandle;
    pub(crate) use tokio::time::sleep_until;
}

#[cfg(not(feature = "shuttle"))]
pub(crate) use real::*;

#[cfg(feature = "shuttle")]
mod ordered {
    use std::time::Duration;

    pub(crate) use shuttle::future::AbortHandle;
    use shuttle::future::{JoinHandle, spawn, yield_now};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    #[cfg(test)]
    use shuttle::{
        Config, Runner,
        scheduler::{PctScheduler, RandomScheduler},
    };
    use tokio::time::Instant;

    /// Stands for a runtime.
    pub(crate) struct Handle;

    impl Handle {
        pub(crate) fn current() -> Self {
            Self
        }

        pub(crate) fn spawn(
            &self,
            task: impl Future<Output = ()> + Send + 'static,
        ) -> JoinHandle<()> {
            spawn(task)
        }
    }

    /// Time passes whenever the scheduler wants it to.
    pub(crate) async fn sleep_until(deadline: Instant) {
        yield_now().await;
        pass(deadline.saturating_duration_since(Instant::now())).await;
    }

    /// Lets time pass for everybody.
    pub(crate) async fn pass(time: Duration) {
        if !time.is_zero() {
            tokio::time::advance(time).await;
        }
    }

    /// Tells a story of threads in many orders: at random, and with few changes of thread in
    /// unlikely places. Time stands still but for [`sleep_until`] and [`pass`].
    #[cfg(test)]
    pub(crate) fn in_many_orders(story: impl Fn() + Clone + Send + Sync + 'static) {
        const ORDERS: usize = 3_000;
        let mut config = Config::new();
        // Futures in futures need more than the default in an unoptimised build.
        config.stack_size = 0x40000;
        // Of each kind; a slow machine sees fewer orders.
        config.max_time = Some(Duration::from_secs(4));
        // Instants are those of a runtime whose clock is paused.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let _inside = runtime.enter();
        Runner::new(RandomScheduler::new(ORDERS), config.clone()).run(story.clone());
        Runner::new(PctScheduler::new(3, ORDERS), config).run(story);
    }
}

#[cfg(feature = "shuttle")]
pub(crate) use ordered::*;
