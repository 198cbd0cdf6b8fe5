//! One reason.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Code;

const SEE: &str = "see ";

/// One reason why an object does not move, with the component that knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The code, for tools.
    pub code: Code,
    /// The reason in one sentence.
    pub message: String,
    /// Numbers and names of the sentence, for tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Value>,
    /// The component that decides, such as `replicaset-controller` or `kube-scheduler`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The person or program that can change it; empty if waiting suffices, or if an answer below names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub who: String,
    /// Start of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_try: Option<Timestamp>,
    /// The next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Timestamp>,
    /// Number of attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Reason {
    /// The reason `code` with this sentence, known by the component `by`.
    pub fn new(code: Code, by: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            fields: BTreeMap::new(),
            by: by.into(),
            who: String::new(),
            since: None,
            last_try: None,
            next_try: None,
            attempts: 0,
        }
    }

    /// The message in one line, for people. Output of probes and programs often has many lines: a first one
    /// with the failure, and a last one with its reason. The last one of `mount` only names its log.
    pub fn line(&self) -> String {
        let lines = self.message.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with("dmesg(1)"));
        let first = lines.next().unwrap_or_default();
        match (lines.next(), lines.next_back()) {
            (None, _) => first.to_owned(),
            (Some(last), None) => format!("{first} {last}"),
            (Some(_), Some(last)) => format!("{first} [...] {last}"),
        }
    }

    /// The actor of a reason that other answers explain. It is left out if they stand below the reason.
    pub fn see(other: &str) -> String {
        format!("{SEE}{other}")
    }

    /// Whether other answers explain the reason.
    pub(crate) fn is_pointer(&self) -> bool {
        self.who.starts_with(SEE)
    }

    /// The same with a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The same with the person or program that can act.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = who.into();
        self
    }

    /// The same with its start.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since.or(self.since);
        self
    }

    /// The same with its next attempt.
    #[must_use]
    pub fn next(mut self, next: Option<Timestamp>) -> Self {
        self.next_try = next.or(self.next_try);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_many_lines_keeps_its_first_and_its_last_one() {
        let cases = [
            ("", ""),
            ("a quota", "a quota"),
            ("probe failed:\n  exit 1\n", "probe failed: exit 1"),
            (
                "failed\ncommand: mount\nOutput: bad option\n  dmesg(1) may have more",
                "failed [...] Output: bad option",
            ),
            (
                "probe failed:\n\n* check A\n* check B\n\nno such host\n",
                "probe failed: [...] no such host",
            ),
        ];
        for (message, line) in cases {
            assert_eq!(Reason::new(Code::PodNotReady, "", message).line(), line);
        }
    }
}
