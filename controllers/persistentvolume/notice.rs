//! Events that a decision asks for.
//!
//! Decisions are pure, so they return the Event as data. Reasons and messages are upstream's, because
//! users and tools search for them.

use steersman_objects::{Object, ObjectReference};
use steersman_runtime::events::{EventRecorder, EventType};

/// An Event about the object of a sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    kind: EventType,
    reason: &'static str,
    /// The answer to `why` repeats it.
    pub(super) message: String,
}

impl Notice {
    /// The object waits for something that may still come.
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventType::Normal,
            reason,
            message: message.into(),
        }
    }

    /// A user or an administrator has to act.
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
