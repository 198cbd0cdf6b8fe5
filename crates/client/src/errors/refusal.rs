//! A write that an invariant refused. docs/invariants.md lists the invariants.

use std::fmt;

/// A decision that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant in snake case, as metrics and logs show it.
    pub invariant: &'static str,
    /// The decision, with its numbers.
    pub decision: String,
}

impl Violation {
    /// `Ok` if `holds`. Otherwise `decision` tells the refused decision.
    pub fn unless(
        holds: bool,
        invariant: &'static str,
        decision: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        if holds {
            return Ok(());
        }
        Err(Self {
            invariant,
            decision: decision(),
        })
    }
}

/// A write that an invariant refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Resource and name of the object of the decision.
    pub object: String,
    /// The broken invariant.
    pub violation: Violation,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, violation } = self;
        let Violation {
            invariant,
            decision,
        } = violation;
        write!(
            f,
            "{object}: not written, the decision breaks the invariant {invariant}: {decision}"
        )
    }
}
