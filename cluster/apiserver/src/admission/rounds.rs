//! Repeated mutations: policies and webhooks can ask to see the changes that later ones make.
//!
//! Upstream: `pkg/admission/reinvocation.go` and `reinvocationcontext.go` of both plugins in
//! `k8s.io/apiserver`.

use std::collections::HashSet;

use serde_json::Value;

/// The calls of one plugin, which has at most two rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    is_second: bool,
    /// The object was changed, so there is a second round.
    changed: bool,
    /// The mutators that were called since the last change, and want to see the next one.
    waiting: HashSet<String>,
    /// The mutators of the second round.
    due: HashSet<String>,
    /// The object after the first round.
    output: Value,
}

impl Rounds {
    pub(super) fn begin(&mut self, object: &Value) {
        if self.is_second && self.output != *object {
            self.due.extend(self.waiting.drain());
        }
    }

    /// Whether the mutator takes no part in this round.
    pub(super) fn skips(&self, mutator: &str) -> bool {
        self.is_second && !self.due.contains(mutator)
    }

    /// Notes a change by a mutator, which itself is not waiting yet.
    pub(super) fn change(&mut self) {
        self.changed = true;
        self.due.extend(self.waiting.drain());
    }

    /// Notes that a called mutator wants to see later changes.
    pub(super) fn wait(&mut self, mutator: String) {
        self.waiting.insert(mutator);
    }

    pub(super) fn end(&mut self, object: &Value) {
        self.output = object.clone();
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    pub(super) fn repeat(&mut self) {
        self.is_second = true;
    }
}
