//! Stand-ins for the sidecars of a CSI driver, which serves every class.
//!
//! claim or volume -> [`Driver::call`] (latency, failure) -> [`provisioner`] or [`resizer`] -> writes
//!
//! They send the requests of `external-provisioner` and `external-resizer`, and write their Events.
//! There is no storage behind them.

mod behaviour;
pub(super) mod provisioner;
pub(super) mod resizer;

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use steersman_objects::{Object, ObjectReference};
use steersman_runtime::events::{EventRecorder, EventType};
use tokio::time::Instant;

use self::behaviour::{Behaviour, Outcome};

/// The time from a failed call to the next one.
const RETRY: Duration = Duration::from_secs(10);

/// The driver: it remembers the start of each call.
#[derive(Default)]
pub(super) struct Driver {
    calls: Mutex<HashMap<String, Instant>>,
    journal: Option<EventRecorder>,
}

/// The state of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has succeeded.
    Done,
    /// Its state is to be asked for after this time.
    Later(Duration),
    /// It has failed; the next one follows after [`RETRY`].
    Failed(String),
    /// It never ends.
    Never,
}

impl Driver {
    /// A driver whose sidecars write Events to `journal`.
    pub(super) fn new(journal: Option<EventRecorder>) -> Self {
        Self {
            journal,
            ..Self::default()
        }
    }

    /// Begins the call `id`, or asks for its state. `annotations` select the behaviour, the first
    /// ones before the others.
    pub(super) fn call<'a>(
        &self,
        id: &str,
        annotations: impl IntoIterator<Item = &'a HashMap<String, String>> + Clone,
    ) -> Answer {
        let Behaviour { latency, outcome } = Behaviour::of(annotations);
        if outcome == Outcome::Silence {
            return Answer::Never;
        }
        let mut calls = self.calls.lock();
        let begun = *calls.entry(id.to_owned()).or_insert_with(Instant::now);
        let left = latency.saturating_sub(begun.elapsed());
        if !left.is_zero() {
            return Answer::Later(left);
        }
        calls.remove(id);
        match outcome {
            Outcome::Failure(message) => Answer::Failed(message),
            Outcome::Success | Outcome::Silence => Answer::Done,
        }
    }

    /// Writes an Event about `object`, if Events are wanted.
    pub(super) fn event<T: Object>(
        &self,
        object: &T,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if let Some(journal) = &self.journal {
            journal.event(ObjectReference::of(object), kind, reason, message);
        }
    }
}

impl Answer {
    /// The time until the caller has to come back. `None` after a success, and for a call without
    /// an end.
    pub(super) fn again(&self) -> Option<Duration> {
        match self {
            Self::Later(left) => Some(*left),
            Self::Failed(_) => Some(RETRY),
            Self::Done | Self::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_after_its_latency() {
        let of = |value: &str| {
            let key = "simulate.steersman.dev/volume-latency";
            HashMap::from([(key.to_owned(), value.to_owned())])
        };
        let driver = Driver::default();
        let slow = of("5s");
        let second = Duration::from_secs(1);
        assert_eq!(driver.call("a", [&slow]), Answer::Later(5 * second));
        tokio::time::advance(2 * second).await;
        assert_eq!(driver.call("a", [&slow]), Answer::Later(3 * second));
        assert_eq!(driver.call("b", [&slow]), Answer::Later(5 * second));
        tokio::time::advance(3 * second).await;
        assert_eq!(driver.call("a", [&slow]), Answer::Done);
        assert_eq!(driver.call("a", [&slow]), Answer::Later(5 * second));
        assert_eq!(driver.call("c", [&of("0s")]), Answer::Done);
    }
}
