//! What becomes of the objects that were applied: all available, or the reason why not.

use std::fmt::Write;

use steersman_runtime::informer::Store;
use steersman_runtime::object::{Deployment, ObjectKey, Phase, Pod};

use super::progress::{State, assess};

/// Where the applied objects stand together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Something is still under way; the text says what.
    Pending(String),
    /// Everything is available.
    Available,
    /// Something cannot go on; the text says what.
    Impossible(String),
}

/// The objects whose availability counts.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Deployments.
    pub(super) deployments: Vec<ObjectKey>,
    /// Bare pods.
    pub(super) pods: Vec<ObjectKey>,
}

impl Applied {
    /// Judges all of them by what the caches show.
    pub(super) fn outcome(&self, deployments: &Store<Deployment>, pods: &Store<Pod>) -> Outcome {
        let mut pending = String::new();
        for key in &self.deployments {
            let Some(deployment) = deployments.get(key) else {
                note(&mut pending, &format!("deployment {key}: not there"));
                continue;
            };
            match assess(&deployment).state {
                State::Complete => {}
                State::Stuck(message) => return Outcome::Impossible(format!("deployment {key}: {message}")),
                State::Rolling(message) => note(&mut pending, &format!("deployment {key}: {message}")),
            }
        }
        for key in &self.pods {
            match pods.get(key) {
                Some(pod) if pod.phase == Phase::Failed => return Outcome::Impossible(format!("pod {key}: failed")),
                Some(pod) if pod.is_ready() || pod.phase == Phase::Succeeded => {}
                Some(_) => note(&mut pending, &format!("pod {key}: not ready")),
                None => note(&mut pending, &format!("pod {key}: not there")),
            }
        }
        if pending.is_empty() { Outcome::Available } else { Outcome::Pending(pending) }
    }
}

fn note(all: &mut String, line: &str) {
    let separator = if all.is_empty() { "" } else { "; " };
    write!(all, "{separator}{line}").expect("writing to a String cannot fail");
}
