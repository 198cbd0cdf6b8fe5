//! The actions between which the explorer chooses.

use std::fmt;

/// One step of the cluster. All names are those of the run, which repeats with its seed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// The manager receives the next event of this watch.
    Deliver(String),
    /// The API server handles this request, and the manager receives the answer.
    Answer(String),
    /// The API server handles this write. The answer is still under way.
    Handle(String),
    /// The manager receives the answer of a handled write.
    Return(String),
    /// The API server handles this write, and its answer is lost.
    Lose(String),
    /// A kubelet, or another part of the cluster outside the manager, acts.
    Act(String),
    /// The user takes the step with this number.
    User(usize),
    /// Time passes until the manager sends a request.
    Wait,
    /// The manager crashes and starts again.
    Crash(Option<Lag>),
    /// The manager loses its Lease, and another one takes over.
    HandOver(Option<Lag>),
}

/// The part of a new leader's cache that is older than the API server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lag {
    /// Plural resource.
    pub(crate) resource: String,
    /// Number of latest changes of this resource that the cache lacks.
    pub(crate) changes: usize,
}

impl Action {
    /// Whether the bound of faults counts this action.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Self::Lose(_) | Self::Crash(_) | Self::HandOver(_))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver(watch) => write!(f, "deliver {watch}"),
            Self::Answer(request) => write!(f, "answer {request}"),
            Self::Handle(request) => write!(f, "handle {request}"),
            Self::Return(request) => write!(f, "return {request}"),
            Self::Lose(request) => write!(f, "lose {request}"),
            Self::Act(act) => f.write_str(act),
            Self::User(step) => write!(f, "user step {step}"),
            Self::Wait => f.write_str("wait"),
            Self::Crash(lag) => with_lag(f, "crash", lag.as_ref()),
            Self::HandOver(lag) => with_lag(f, "hand over", lag.as_ref()),
        }
    }
}

fn with_lag(f: &mut fmt::Formatter<'_>, action: &str, lag: Option<&Lag>) -> fmt::Result {
    match lag {
        None => f.write_str(action),
        Some(lag) => write!(
            f,
            "{action} without the last {} of {}",
            lag.changes, lag.resource
        ),
    }
}
