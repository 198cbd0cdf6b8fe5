//! `restartPolicyRules` of a container: actions by the exit code.

use serde::Deserialize;

/// The reason of containers that have been removed to start again.
pub(super) const REMOVED: &str = "RestartingAllContainers";

/// A rule about exit codes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RuleWire")]
pub(super) struct Rule {
    pub(super) action: Action,
    /// Whether the rule applies to all codes but these.
    is_negated: bool,
    codes: Box<[i32]>,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Action {
    Restart,
    RestartAllContainers,
    /// An action that newer API servers know. The restart policy decides.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleWire {
    action: Action,
    #[serde(default)]
    exit_codes: CodesWire,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CodesWire {
    operator: Box<str>,
    values: Box<[i32]>,
}

impl From<RuleWire> for Rule {
    fn from(wire: RuleWire) -> Self {
        let is_negated = match &*wire.exit_codes.operator {
            "NotIn" => true,
            "In" => false,
            // A rule without a known operator fits no code.
            _ => {
                return Self {
                    action: wire.action,
                    is_negated: false,
                    codes: Box::default(),
                };
            }
        };
        Self {
            action: wire.action,
            is_negated,
            codes: wire.exit_codes.values,
        }
    }
}

impl Rule {
    /// Whether the rule applies to an exit with this code.
    pub(super) fn fits(&self, code: i32) -> bool {
        self.codes.contains(&code) != self.is_negated
    }
}
