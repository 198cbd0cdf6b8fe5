//! What a user does, which controllers answer it, and what must hold meanwhile.

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
    /// A change of mind is answered sooner or later, so the way there differs; only so many objects of a kind more than in the reference.
    UpTo(usize),
}

/// Something that holds at every instant.
#[derive(Clone, Copy)]
pub struct Rule {
    /// What it says.
    pub name: &'static str,
    /// The resource by which users say what is to hold. Where a change of theirs is never told, as no API server leaves it before the
    /// next list, nobody can keep to it; empty where that makes no difference.
    pub asked_by: &'static str,
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
    /// Deletes what the path names, with these options.
    Delete(String, Value),
    /// Waits until something is so.
    Until(&'static str, Condition),
    /// Lets time pass.
    Sleep(Duration),
}

impl Step {
    /// Waits until `holds`.
    pub fn until(what: &'static str, holds: impl Fn(&State) -> bool + Send + Sync + 'static) -> Self {
        Self::Until(what, Arc::new(holds))
    }
}
