//! Events about objects, correlated and sent as upstream's recorder does.

use crate::client::ApiClient;
use crate::clock::Clock;
use crate::object::ObjectReference;
use crate::tasks::{CancellationToken, Tasks};

/// Type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Something did not.
    Warning,
}

/// Records Events of one component. Cheap to clone; never blocks; what does not fit its queue of 1000 is dropped with a log line.
#[derive(Clone)]
pub struct EventRecorder {}

impl EventRecorder {
    /// A recorder for `component` (`deployment-controller`) that sends through `client`, from a task of `tasks`, until `stop`; what
    /// is queued then is still sent, within two seconds.
    pub fn start(_component: &'static str, _client: ApiClient, _clock: Clock, _tasks: &Tasks, _stop: &CancellationToken) -> Self {
        todo!("helper: events")
    }

    /// Says `message` about `object`.
    pub fn event(&self, _object: ObjectReference, _kind: EventType, _reason: &'static str, _message: String) {
        todo!("helper: events")
    }
}
