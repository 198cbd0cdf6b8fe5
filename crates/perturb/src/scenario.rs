//! What a user does, which controllers answer it, and what must hold meanwhile.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_runtime::controller::{ControllerContext, Descriptor};

use crate::film::{Frame, State};

/// A story that has one end, whatever goes wrong on the way.
pub struct Scenario {
    /// The controller it is about, as its alias.
    pub controller: &'static str,
    /// What happens, in one or two words.
    pub name: &'static str,
    /// The controllers that run.
    pub controllers: &'static [Descriptor],
    /// Configuration for them.
    pub configure: fn(ControllerContext) -> ControllerContext,
    /// Simulated nodes.
    pub nodes: usize,
    /// What is done, in order.
    pub steps: fn() -> Vec<Step>,
    /// How far creations and deletions may differ from the reference.
    pub churn: Churn,
    /// Parts of the error lines that belong to the story.
    pub errors: &'static [&'static str],
    /// What holds at every instant.
    pub rules: &'static [Rule],
}

impl Scenario {
    /// `controller/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.controller, self.name)
    }
}

/// How far creations and deletions may differ from the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Churn {
    /// Not at all.
    None,
    /// The way there depends on when somebody hears of something: so many more or fewer of these
    /// resources, and of no other.
    Within(&'static [(&'static str, RangeInclusive<i32>)]),
}

/// Something that holds at every instant.
#[derive(Clone, Copy)]
pub struct Rule {
    /// What it says.
    pub name: &'static str,
    /// Looks at one change and the state after it; an error says what is wrong.
    pub check: fn(&State, &Frame) -> Result<(), String>,
}

/// Whether a state is what somebody waits for.
pub(crate) type Condition = Arc<dyn Fn(&State) -> bool + Send + Sync>;

/// What a user does next.
#[derive(Clone)]
pub enum Step {
    /// Creates an object.
    Create(Value),
    /// Stores an object just as it is, with a UID that others can name.
    Load(Value),
    /// Applies a merge patch to what the path names.
    Patch(String, Value),
    /// Replaces what the path names.
    Replace(String, Value),
    /// Deletes what the path names, with these options.
    Delete(String, Value),
    /// Waits until something is so.
    Until(&'static str, Condition),
    /// Lets time pass.
    Sleep(Duration),
}

impl Step {
    /// Waits until `holds`.
    pub fn until(
        what: &'static str,
        holds: impl Fn(&State) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Until(what, Arc::new(holds))
    }
}
