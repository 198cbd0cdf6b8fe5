//! Calls of webhooks: those that a write waits for, and the answers so far.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The calls of one request of a client.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) answers: HashMap<Key, Result<Answer, String>>,
    pub(super) pending: Option<Call>,
    /// Random texts, which must not change when the write is handled again.
    drawn: HashMap<String, String>,
}

/// Identifies a call, so that each one is made once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) webhook: String,
    pub(super) round: usize,
    pub(super) operation: &'static str,
    pub(super) object: String,
    /// The resource version of the old object. After a lost race the webhook is asked again.
    pub(super) version: String,
}

/// A call that a write waits for.
#[derive(Debug)]
pub(crate) struct Call {
    pub(super) key: Key,
    pub(super) kind: Kind,
    pub(super) webhook: Value,
    /// The request for the webhook, without its UID.
    pub(super) request: Value,
}

impl Calls {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that the last attempt of the write needs.
    pub(crate) fn pending(&self) -> Option<Call> {
        self.state().pending.take()
    }

    /// The text that `draw` makes, the same one for each `purpose`.
    pub(crate) fn drawn(&self, purpose: &str, draw: impl FnOnce() -> String) -> String {
        let mut state = self.state();
        let drawn = state.drawn.entry(purpose.to_owned());
        drawn.or_insert_with(draw).clone()
    }
}

/// The two kinds of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// A valid answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// A `Status` that explains a refusal; null without one.
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
    /// A JSON patch.
    pub(super) patch: Option<Value>,
}
