//! The thread of the HTTPS server.
//!
//! The manager renews the Lease on its own thread. A stranger decides how much work the server does,
//! so the server has another one (docs/decisions/0008-one-thread.md).

use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The most threads for reads of files and verifications of certificates. They end when idle.
const MAX_BLOCKING_THREADS: usize = 4;

/// The number of steps of tasks between two looks at sockets. A scrape is a step of milliseconds; with
/// tokio's default of 61, a probe would wait for hundreds of them.
const EVENT_INTERVAL: u32 = 1;

/// A thread with a runtime of its own. A dropped `ServerThread` ends it with all of its tasks.
pub(crate) struct ServerThread {
    runtime: Handle,
    _stop: oneshot::Sender<()>,
}

impl ServerThread {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .event_interval(EVENT_INTERVAL)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("https-server".to_owned())
            .spawn(move || {
                // The sender is never used, so this waits for its drop.
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            _stop: stop,
        })
    }

    /// The runtime of the thread.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}
