//! The locks where threads meet: those of the standard library; or, with the feature `shuttle`, those of a scheduler that tries many
//! orders in which threads can pass them. Only tests called `interleavings` run under that scheduler.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Tells a story of threads in many orders: at random, and with few changes of thread in unlikely places.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) fn in_every_order(story: impl Fn() + Clone + Send + Sync + 'static) {
    const ORDERS: usize = 3_000;
    // Queues ask for a runtime when they are made.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    shuttle::check_random(story.clone(), ORDERS);
    shuttle::check_pct(story, ORDERS, 3);
}
