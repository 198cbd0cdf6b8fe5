//! The Events of CronJobs. Decisions return them, and the sync records them.

use steersman_runtime::events::EventType;

/// An Event about a CronJob, with upstream's reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Notice {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind: EventType::Normal,
            reason,
            message,
        }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind: EventType::Warning,
            reason,
            message,
        }
    }
}
