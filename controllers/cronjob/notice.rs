//! The Events of CronJobs. Decisions return them, and the sync records them.
//!
//! So a table of cases can check them, and the order of Events is that of the decision.

use steersman_runtime::events::EventType;

/// An Event about a CronJob, with upstream's reason and message. `kind`, `reason` and `message` are those of
/// the Event; only warnings are logged as well.
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
