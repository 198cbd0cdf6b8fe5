//! Shows the answered writes of a client to a witness, with the sync that caused each.
//!
//! [`within_sync`] around a sync -> write -> [`Write`] -> [`Witness`]
//!
//! The key of the sync travels with its task, because a request does not name the object for which
//! a controller sends it.

use std::fmt;
use std::sync::Arc;

tokio::task_local! {
    static SYNC: Option<Arc<str>>;
}

/// Runs `sync`. Its writes tell the witness `key`, the object that the sync is about.
pub fn within_sync<F: Future>(
    key: Option<Arc<str>>,
    sync: F,
) -> impl Future<Output = F::Output> + use<F> {
    SYNC.scope(key, sync)
}

/// A write with its final answer.
#[derive(Debug)]
pub struct Write<'a> {
    /// The user agent, whose end is the name of the client.
    pub client: &'a str,
    /// The method.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The status code; `None` without an answer.
    pub code: Option<u16>,
    /// The body of the answer.
    pub answer: &'a [u8],
    /// The key of the sync; `None` outside a sync.
    pub sync: Option<Arc<str>>,
}

/// Gets every write of some clients. It must return at once.
#[derive(Clone)]
pub struct Witness(Arc<dyn Fn(Write<'_>) + Send + Sync>);

impl Witness {
    /// A witness that hands each write to `tell`.
    pub fn new(tell: impl Fn(Write<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Shows `write`, with the key of the current sync.
    pub(super) fn show(&self, write: Write<'_>) {
        let sync = SYNC.try_with(Clone::clone).ok().flatten();
        (self.0)(Write { sync, ..write });
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
