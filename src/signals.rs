//! The signals that stop the process: SIGTERM and SIGINT.

#[cfg(unix)]
pub(crate) use unix::Signals;

#[cfg(unix)]
mod unix {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// Listens from its creation. A signal between two calls of `next` is not lost.
    pub(crate) struct Signals(Vec<Signal>);

    impl Signals {
        /// Listens to SIGTERM and SIGINT.
        pub(crate) fn listen() -> std::io::Result<Self> {
            Self::to(&[SignalKind::terminate(), SignalKind::interrupt()])
        }

        /// Listens also to SIGHUP, which a closed terminal sends.
        pub(crate) fn listen_on_terminal() -> std::io::Result<Self> {
            Self::to(&[
                SignalKind::terminate(),
                SignalKind::interrupt(),
                SignalKind::hangup(),
            ])
        }

        /// Listens to these signals.
        fn to(kinds: &[SignalKind]) -> std::io::Result<Self> {
            kinds
                .iter()
                .map(|kind| signal(*kind))
                .collect::<Result<_, _>>()
                .map(Self)
        }

        /// Waits for the next signal.
        pub(crate) async fn next(&mut self) {
            poll_fn(|cx| {
                let came = self
                    .0
                    .iter_mut()
                    .any(|signal| signal.poll_recv(cx).is_ready());
                if came { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn listen_on_terminal() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        // An error means that the platform lacks this signal, so it never arrives.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
