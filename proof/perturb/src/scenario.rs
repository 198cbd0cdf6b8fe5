//! A scenario: the actions of a user, the controllers that run, and the rules that must hold
//! meanwhile. It names no faults; plans add those.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_client::Category;
use steersman_runtime::controller::{ControllerContext, Descriptor};

use crate::history::{Change, State};
use crate::logs::LoggedError;

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
    /// Objects that exist before the first manager starts, UIDs included.
    pub before: fn() -> Vec<Value>,
    /// Actions and waits of the user, in order.
    pub steps: fn() -> Vec<Step>,
    /// Allowed difference of creations and deletions from the reference run.
    pub churn: Churn,
    /// Log errors that are expected in this scenario, with or without a fault.
    pub errors: &'static [AllowedError],
    /// Rules that hold after every change.
    pub rules: &'static [Rule],
    /// Rules that hold in the final state.
    pub final_rules: &'static [FinalRule],
    /// Families of metrics whose samples in the final state equal those of the reference run.
    pub gauges: &'static [&'static str],
}

impl Scenario {
    /// A scenario without steps, rules and controllers. Others set only their own fields.
    pub const BLANK: Self = Self {
        controller: "",
        name: "",
        controllers: &[],
        configure: |context| context,
        nodes: 0,
        before: Vec::new,
        steps: Vec::new,
        churn: Churn::None,
        errors: &[],
        rules: &[],
        final_rules: &[],
        gauges: &[],
    };

    /// `controller/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.controller, self.name)
    }

    /// Whether the controller with the canonical name `name` runs.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.controllers.iter().any(|one| one.name == name)
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

/// Log errors that a scenario expects, or that a fault explains: their category, their source, and
/// their largest number in one run.
///
/// The category is that of the failed request, or the name of a decision. Only a log call without a
/// category is known by its message, which must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedError {
    what: What,
    source: Option<&'static str>,
    pub(crate) most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Category(Category),
    Message(&'static str),
}

/// The source of errors of the tasks that send Events. They are outside the spans of controllers.
pub const EVENT_SENDER: &str = "steersman_runtime::events::sender";

impl AllowedError {
    /// Allows `most` errors of a category, from all sources.
    ///
    /// # Panics
    /// For [`Category::Decision`], which says nothing about the error: use
    /// [`AllowedError::with_message`].
    pub const fn of(category: Category, most: usize) -> Self {
        assert!(
            !matches!(category, Category::Decision),
            "errors without a failed request are allowed by message"
        );
        Self {
            what: What::Category(category),
            source: None,
            most,
        }
    }

    /// Allows `most` errors that report no failed request and have this message.
    pub const fn with_message(message: &'static str, most: usize) -> Self {
        Self {
            what: What::Message(message),
            source: None,
            most,
        }
    }

    /// The same for one source only: the name of a controller, or the module of a log call outside
    /// controllers.
    #[must_use]
    pub const fn from(self, source: &'static str) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }

    /// Whether `error` is one of these errors.
    pub(crate) fn allows(&self, error: &LoggedError) -> bool {
        let is_source = self.source.is_none_or(|source| source == error.source);
        is_source
            && match self.what {
                What::Category(category) => error.category == category.as_str(),
                What::Message(message) => {
                    error.category == Category::Decision.as_str() && error.message == message
                }
            }
    }
}

/// A safety rule, checked after every change of the cluster.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The rule as a sentence; failures print it.
    pub name: &'static str,
    /// Checks one change and the state after it; the error names the violation.
    pub check: fn(&State, &Change) -> Result<(), String>,
}

/// A rule that is checked once, in the final state. It also guards the reference run, with which the
/// final states of the other runs are compared.
#[derive(Clone, Copy)]
pub struct FinalRule {
    /// The rule as a sentence; failures print it.
    pub name: &'static str,
    /// Checks the final state; the error names the violation.
    pub check: fn(&State) -> Result<(), String>,
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
    /// Applies merge patches to objects that the function chooses from the state: their paths and
    /// the patches.
    PatchChosen(fn(&State) -> Vec<(String, Value)>),
    /// Replaces the object at the path.
    Replace(String, Value),
    /// Deletes the object at the path, with these `DeleteOptions`.
    Delete(String, Value),
    /// Evicts the pods in the namespace `default` that have this value of the label `app` when the
    /// step begins. The user repeats each eviction until the API server accepts it, as
    /// `kubectl drain` does.
    Evict(&'static str),
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
