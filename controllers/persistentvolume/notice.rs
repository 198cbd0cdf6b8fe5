//! Events that a decision asks for.

use steersman_objects::{Object, ObjectReference};
use steersman_runtime::events::{EventRecorder, EventType};

/// An Event about the object of a sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    kind: EventType,
    reason: &'static str,
    pub(super) message: String,
}

impl Notice {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventType::Normal,
            reason,
            message: message.into(),
        }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventType::Warning,
            ..Self::normal(reason, message)
        }
    }

    /// Records the Event about `object`.
    pub(super) fn record<T: Object>(self, recorder: &EventRecorder, object: &T) {
        let Self {
            kind,
            reason,
            message,
        } = self;
        recorder.event(ObjectReference::of(object), kind, reason, message);
    }
}
