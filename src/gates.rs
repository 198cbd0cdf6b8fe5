//! What decides whether a write still goes out, from winning the Lease to the end of the process.
//!
//! controllers: while we lead and nobody asked us to stop. Events: while we lead, and after an
//! orderly end of all other writes.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_runtime::client::WriteGate;
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

/// The gates of one time at work. Without an election we always lead.
pub(crate) struct Gates {
    election: Option<Arc<dyn WriteGate>>,
    stop: CancellationToken,
    abandon: CancellationToken,
    done: CancellationToken,
}

impl Gates {
    /// Gates within `election` that close with `stop`.
    pub(crate) fn new(election: Option<Arc<dyn WriteGate>>, stop: &CancellationToken) -> Self {
        Self {
            election,
            stop: stop.child_token(),
            abandon: CancellationToken::new(),
            done: CancellationToken::new(),
        }
    }

    /// For controllers.
    pub(crate) fn writes(&self) -> Arc<dyn WriteGate> {
        Arc::new(Work {
            election: self.election.clone(),
            stop: self.stop.clone(),
            abandon: self.abandon.clone(),
        })
    }

    /// For Events, which are told to the end.
    pub(crate) fn events(&self) -> Arc<dyn WriteGate> {
        Arc::new(Telling {
            election: self.election.clone(),
            done: self.done.clone(),
        })
    }

    /// Controllers begin no further write.
    pub(crate) fn close(&self) {
        self.stop.cancel();
    }

    /// Controllers begin no further write, and those that were sent are not waited for.
    pub(crate) fn abandon(&self) {
        self.close();
        self.abandon.cancel();
    }

    /// No write of a controller is under way any more, and we led until now: Events no longer
    /// depend on the Lease.
    pub(crate) fn work_is_done(&self) {
        if self
            .election
            .as_ref()
            .is_none_or(|election| election.is_open())
        {
            self.done.cancel();
        }
    }
}

struct Work {
    election: Option<Arc<dyn WriteGate>>,
    stop: CancellationToken,
    abandon: CancellationToken,
}

impl WriteGate for Work {
    fn is_open(&self) -> bool {
        !self.stop.is_cancelled()
            && self
                .election
                .as_ref()
                .is_none_or(|election| election.is_open())
    }

    fn open_until(&self) -> Option<Instant> {
        self.election.as_ref()?.open_until()
    }

    fn closing(&self) -> BoxFuture<'_, ()> {
        self.stop.cancelled().boxed()
    }

    fn abandoning(&self) -> BoxFuture<'_, ()> {
        self.abandon.cancelled().boxed()
    }
}

struct Telling {
    election: Option<Arc<dyn WriteGate>>,
    done: CancellationToken,
}

impl WriteGate for Telling {
    fn is_open(&self) -> bool {
        self.done.is_cancelled()
            || self
                .election
                .as_ref()
                .is_none_or(|election| election.is_open())
    }

    fn open_until(&self) -> Option<Instant> {
        if self.done.is_cancelled() {
            None
        } else {
            self.election.as_ref()?.open_until()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Lease(AtomicBool);

    impl WriteGate for Lease {
        fn is_open(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_stop_closes_the_gate_of_controllers_and_an_orderly_end_keeps_that_of_events_open() {
        // (why, we lead, stopped, work done, then the Lease is given up, controllers may write,
        // events may be written)
        let cases = [
            ("standby", false, false, false, false, false, false),
            ("leader", true, false, false, false, true, true),
            ("asked to stop", true, true, false, false, false, true),
            ("stopped", true, true, true, false, false, true),
            (
                "stopped, without the Lease",
                true,
                true,
                true,
                true,
                false,
                true,
            ),
            ("the Lease is lost", true, false, false, true, false, false),
            (
                "done after the Lease was lost",
                false,
                true,
                true,
                false,
                false,
                false,
            ),
        ];
        for (why, leads, stopped, done, given_up, writes, events) in cases {
            let (lease, stop) = (
                Arc::new(Lease(AtomicBool::new(leads))),
                CancellationToken::new(),
            );
            let gates = Gates::new(Some(Arc::clone(&lease) as Arc<dyn WriteGate>), &stop);
            if stopped {
                stop.cancel();
            }
            if done {
                gates.work_is_done();
            }
            if given_up {
                lease.0.store(false, Ordering::Relaxed);
            }
            let found = (
                gates.writes().is_open(),
                gates.events().is_open(),
                gates.writes().closing().now_or_never().is_some(),
            );
            assert_eq!(found, (writes, events, stopped), "{why}");
        }
    }

    #[test]
    fn without_an_election_only_the_stop_counts() {
        let stop = CancellationToken::new();
        let gates = Gates::new(None, &stop);
        assert!(gates.writes().is_open() && gates.events().is_open());
        gates.close();
        assert!(!gates.writes().is_open() && gates.events().is_open());
        assert!(
            !stop.is_cancelled(),
            "a controller that ended does not stop the process"
        );
    }
}
