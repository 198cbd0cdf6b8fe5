//! Events about objects, correlated and sent as upstream's recorder does.
//!
//! event() -> queue of 1000 -> [`correlator`] (combine, count, drop spam) -> [`sender`] (POST or
//! PATCH, retries)

mod correlator;
mod lru;
mod sender;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::client::ApiClient;
use crate::clock::Clock;
use crate::object::{ObjectKey, ObjectReference};
use crate::tasks::{CancellationToken, Tasks};

/// Target of the log line of each Event, for those who want a verbosity of its own.
pub const OCCURRED: &str = "steersman_runtime::events::occurred";

/// Events that may wait to be sent.
const QUEUE: usize = 1000;

/// Type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Something did not.
    Warning,
}

impl EventType {
    /// As in `type` of an Event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Records Events of one component. Cheap to clone; never blocks; what does not fit its queue of
/// 1000 is dropped with a log line.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
    clock: Clock,
}

/// Something that happened to an object, before correlation.
#[derive(Debug, Clone)]
struct Occurrence {
    object: ObjectReference,
    kind: EventType,
    reason: &'static str,
    message: String,
    at: Timestamp,
}

impl EventRecorder {
    /// A recorder for `component` (`deployment-controller`) that sends through `client`, from a
    /// task of `tasks`, until `stop`; what is queued then is still sent, within two seconds.
    pub fn start(
        component: &'static str,
        client: ApiClient,
        clock: Clock,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Self {
        let (queue, occurrences) = mpsc::channel(QUEUE);
        let sender = sender::Sender::new(component, client, clock.clone(), stop.clone());
        tasks.spawn(format!("events of {component}"), sender.run(occurrences));
        Self { queue, clock }
    }

    /// Says `message` about `object`.
    pub fn event(
        &self,
        object: ObjectReference,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if object.kind.is_empty() || object.api_version.is_empty() {
            return tracing::error!(
                ?object,
                reason,
                message,
                "event about an object without kind, dropped"
            );
        }
        let name = ObjectKey::new(&object.namespace, &object.name);
        let (of, kind_of) = (&*object.kind, kind.as_str());
        tracing::debug!(target: OCCURRED, object = %name, kind = of, r#type = kind_of, reason, message, "Event occurred");
        match self.queue.try_send(Occurrence {
            object,
            kind,
            reason,
            message,
            at: self.clock.now(),
        }) {
            Ok(()) => {}
            Err(TrySendError::Full(dropped)) => {
                tracing::error!(object = ?dropped.object, reason, message = dropped.message, "too many queued events, dropped event");
            }
            Err(TrySendError::Closed(dropped)) => {
                tracing::debug!(object = ?dropped.object, reason, "event after the end of its recorder, dropped");
            }
        }
    }
}
