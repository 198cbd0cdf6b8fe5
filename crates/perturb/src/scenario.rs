//! A scenario: the actions of a user, the controllers that run, and the rules that must hold
//! meanwhile. It names no faults; plans add those.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_runtime::controller::{ControllerContext, Descriptor};

use crate::history::{Change, State};

/// User actions with one final state, which must be the same under every fault.
pub struct Scenario {
    /// Alias of the controller under test.
    pub controller: &'static str,
    /// Name of the scenario among those of its controller, in one or two words.
    pub name: &'static str,
    /// The controllers that run.
    pub controllers: &'static [Descriptor],
    /// Sets flags of the controllers.
    pub configure: fn(ControllerContext) -> ControllerContext,
    /// Number of simulated nodes.
    pub nodes: usize,
    /// Actions and waits of the user, in order.
    pub steps: fn() -> Vec<Step>,
    /// Allowed difference of creations and deletions from the reference run.
    pub churn: Churn,
    /// Texts of error lines that are expected in this scenario, with or without a fault.
    pub errors: &'static [&'static str],
    /// Rules that hold after every change.
    pub rules: &'static [Rule],
}

impl Scenario {
    /// `controller/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.controller, self.name)
    }
}

/// Allowed difference of creations and deletions from the reference run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Churn {
    /// The numbers are equal.
    None,
    /// The numbers depend on the instant at which a controller sees a change of the spec. The
    /// listed resources may differ by these ranges, all others are equal.
    Within(&'static [(&'static str, RangeInclusive<i32>)]),
}

/// A safety rule, checked after every change of the cluster.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The rule as a sentence; failures print it.
    pub name: &'static str,
    /// Checks one change and the state after it; the error names the violation.
    pub check: fn(&State, &Change) -> Result<(), String>,
}

/// Whether the cluster is in the state that a user waits for.
pub(crate) type Condition = Arc<dyn Fn(&State) -> bool + Send + Sync>;

/// One action or wait of the user.
#[derive(Clone)]
pub enum Step {
    /// Creates an object.
    Create(Value),
    /// Stores an object unchanged, UID included, so that other objects can refer to the UID.
    Load(Value),
    /// Applies a merge patch to the object at the path.
    Patch(String, Value),
    /// Replaces the object at the path.
    Replace(String, Value),
    /// Deletes the object at the path, with these `DeleteOptions`.
    Delete(String, Value),
    /// Waits until the condition holds; failures print the name of the state.
    Until(&'static str, Condition),
    /// Waits for a fixed time.
    Sleep(Duration),
}

impl Step {
    /// Waits until `holds`; `state` names the state in failures.
    pub fn until(
        state: &'static str,
        holds: impl Fn(&State) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Until(state, Arc::new(holds))
    }
}
