//! Locks and task handles, which tests can replace.
//!
//! By default these are the types of `parking_lot` and Tokio. With the feature `shuttle`
//! they are Shuttle's: its scheduler tries many orders in which threads take locks. Only tests
//! called `interleavings` run under that scheduler.
//!
//! Shuttle does not see inside Tokio's `Semaphore`, `Notify`, `watch` and cancellation tokens. It
//! may run another thread before and after a call of them, but not in the middle. It does see a
//! task that waits for one of them, because the wait ends with a waker.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub use tokio::runtime::Handle;
    pub use tokio::task::AbortHandle;
    pub use tokio::time::sleep_until;
}

#[cfg(not(feature = "shuttle"))]
pub use real::*;

#[cfg(feature = "shuttle")]
mod ordered {
    use std::sync::PoisonError;
    use std::time::Duration;

    pub use shuttle::future::AbortHandle;
    use shuttle::future::{JoinHandle, spawn, yield_now};
    pub use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    use shuttle::{
        Config, Runner,
        scheduler::{PctScheduler, RandomScheduler},
    };
    use tokio::time::Instant;

    /// As `parking_lot::Mutex`: a panic of a holder does not poison it.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// As `parking_lot::RwLock`: a panic of a holder does not poison it.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub const fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Replaces Tokio's runtime handle; tasks start under Shuttle.
    pub struct Handle;

    impl Handle {
        pub fn current() -> Self {
            Self
        }

        pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
            spawn(task)
        }
    }

    /// Sleeps until `deadline`. The scheduler decides when this happens: the paused clock jumps to
    /// `deadline` as soon as this task runs again.
    pub async fn sleep_until(deadline: Instant) {
        yield_now().await;
        pass(deadline.saturating_duration_since(Instant::now())).await;
    }

    /// Advances the paused clock, which all tasks share, by `time`.
    pub async fn pass(time: Duration) {
        if !time.is_zero() {
            tokio::time::advance(time).await;
        }
    }

    /// Runs a test with threads in many orders of its steps.
    ///
    /// One scheduler picks random orders. The other (PCT) switches threads only a few times, at
    /// unlikely places, and so finds rare races. Only [`sleep_until`] and [`pass`] advance the
    /// clock.
    pub fn in_many_orders(test: impl Fn() + Clone + Send + Sync + 'static) {
        const ORDERS: usize = 3_000;
        let mut config = Config::new();
        // Nested futures of an unoptimised build need more stack than Shuttle's default.
        config.stack_size = 0x40000;
        // The limit for each of the two schedulers. A slow machine tries fewer orders.
        config.max_time = Some(Duration::from_secs(4));
        // `Instant::now` needs a Tokio runtime; its clock is paused, so that orders are repeatable.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let _inside = runtime.enter();
        Runner::new(RandomScheduler::new(ORDERS), config.clone()).run(test.clone());
        Runner::new(PctScheduler::new(3, ORDERS), config).run(test);
    }
}

#[cfg(feature = "shuttle")]
pub use ordered::*;
