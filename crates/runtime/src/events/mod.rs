//! Records Events about objects, with upstream's names, counts and limits.
//!
//! event() -> queue of 1000 -> [`correlator`] (combine, count, drop spam) -> [`sender`] (POST or
//! PATCH, retries)
//!
//! [`EventRecorder::event`] returns at once, so slow writes of Events do not delay a sync. Events
//! are best effort: a full queue drops them. Upstream: `client-go/tools/record`.

mod correlator;
mod sender;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use steersman_client::ApiClient;
use steersman_objects::{ObjectKey, ObjectReference};
use steersman_values::clock::Clock;

use crate::tasks::{CancellationToken, Tasks};

/// The `tracing` target of the log line of each Event. It is separate, so that a filter can hide
/// these lines.
pub const OCCURRED: &str = "steersman_runtime::events::occurred";

/// Capacity of the queue of Events to send. Upstream: `maxQueuedEvents`.
const QUEUE: usize = 1000;

/// Type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something happened as expected.
    Normal,
    /// Something failed.
    Warning,
}

impl EventType {
    /// The value of an Event's field `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A name for an Event about the object named `object`, which no other Event of this process has.
/// For recorders of `events.k8s.io`.
pub fn unique_name(object: &str, at: Timestamp) -> String {
    correlator::unique_name(object, at)
}

/// Records the Events of one component. Cheap to clone.
///
/// It never blocks. If its queue of 1000 is full, it drops the Event and logs that.
#[derive(Clone)]
pub struct EventRecorder {
    /// Its receiver is the task of the sender.
    queue: mpsc::Sender<Occurrence>,
    clock: Clock,
}

/// The parts of an Event that only kubelets set. Both may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Node of the reporting component: `source.host`.
    pub host: String,
    /// Part of the object: `involvedObject.fieldPath`, such as `spec.containers{main}`.
    pub field_path: String,
}

/// An Event before correlation. It has the time of the occurrence, so that a slow queue does not
/// shift it.
#[derive(Debug, Clone)]
struct Occurrence {
    object: ObjectReference,
    origin: Origin,
    kind: EventType,
    reason: Cow<'static, str>,
    message: String,
    at: Timestamp,
}

impl EventRecorder {
    /// Starts a recorder for `component`, such as `deployment-controller`.
    ///
    /// It sends Events through `client` from a task of `tasks`, until `stop` is cancelled. It then
    /// has two seconds to send the queued Events.
    pub fn start(
        component: &'static str,
        client: ApiClient,
        clock: Clock,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Self {
        Self::with_queue(QUEUE, component, client, clock, tasks, stop)
    }

    /// As [`start`](Self::start), with another capacity of the queue. One recorder then serves many
    /// simulated components, each of which has a queue in a real cluster.
    pub fn with_queue(
        capacity: usize,
        component: &'static str,
        client: ApiClient,
        clock: Clock,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Self {
        let (queue, occurrences) = mpsc::channel(capacity);
        let sender = sender::Sender::new(component, client, clock.clone(), stop.clone());
        tasks.spawn(format!("events of {component}"), sender.run(occurrences));
        Self { queue, clock }
    }

    /// Records an Event about `object`. Identical and similar Events are combined later.
    pub fn event(
        &self,
        object: ObjectReference,
        kind: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        self.event_from(Origin::default(), object, kind, reason, message);
    }

    /// As [`event`](Self::event), with the parts that kubelets set.
    pub fn event_from(
        &self,
        origin: Origin,
        object: ObjectReference,
        kind: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        let reason = reason.into();
        // Upstream's `GetReference` fails for such objects. The API server would refuse the Event.
        if object.kind.is_empty() || object.api_version.is_empty() {
            return tracing::error!(
                ?object,
                reason = &*reason,
                message,
                "event about an object without kind, dropped"
            );
        }
        let name = ObjectKey::new(&object.namespace, &object.name);
        let of = &*object.kind;
        let kind_of = kind.as_str();
        // Also for Events that are dropped later. Upstream: `StartStructuredLogging`.
        tracing::debug!(target: OCCURRED, object = %name, kind = of, r#type = kind_of, reason = &*reason, message, "Event occurred");
        match self.queue.try_send(Occurrence {
            object,
            origin,
            kind,
            reason,
            message,
            at: self.clock.now(),
        }) {
            Ok(()) => {}
            Err(TrySendError::Full(dropped)) => {
                tracing::error!(object = ?dropped.object, reason = &*dropped.reason, message = dropped.message, "too many queued events, dropped event");
            }
            Err(TrySendError::Closed(dropped)) => {
                tracing::debug!(object = ?dropped.object, reason = &*dropped.reason, "event after the shutdown of its recorder, dropped");
            }
        }
    }
}
