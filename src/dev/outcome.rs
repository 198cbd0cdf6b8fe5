//! What becomes of the objects that were applied: all available, or the reason why not.

use std::fmt::Write;

use steersman_runtime::informer::{InformerFactory, SharedInformer};
use steersman_runtime::object::{Deployment, Object, ObjectKey, Phase, Pod, ReplicaSet, ReplicationController};

use super::progress::{State, assess, assess_replicas};

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

/// What the outcome is judged by.
pub(super) struct Caches {
    pub(super) deployments: SharedInformer<Deployment>,
    pub(super) replica_sets: SharedInformer<ReplicaSet>,
    pub(super) replication_controllers: SharedInformer<ReplicationController>,
    pub(super) pods: SharedInformer<Pod>,
}

impl Caches {
    /// The caches of `informers`.
    pub(super) fn of(informers: &InformerFactory) -> Self {
        Self {
            deployments: informers.shared(),
            replica_sets: informers.shared(),
            replication_controllers: informers.shared(),
            pods: informers.shared(),
        }
    }
}

/// The objects whose availability counts.
#[derive(Debug, Default)]
pub(super) struct Applied {
    deployments: Vec<ObjectKey>,
    replica_sets: Vec<ObjectKey>,
    replication_controllers: Vec<ObjectKey>,
    pods: Vec<ObjectKey>,
}

impl Applied {
    /// Adds an object. False when the availability of its kind is unknown.
    pub(super) fn add(&mut self, kind: &str, key: ObjectKey) -> bool {
        let keys = match kind {
            "Deployment" => &mut self.deployments,
            "ReplicaSet" => &mut self.replica_sets,
            "ReplicationController" => &mut self.replication_controllers,
            "Pod" => &mut self.pods,
            _ => return false,
        };
        keys.push(key);
        true
    }

    /// Judges all of them by what the caches show.
    pub(super) fn outcome(&self, caches: &Caches) -> Outcome {
        let mut pending = String::new();
        let impossible = judge(&caches.deployments, &self.deployments, &mut pending, |d| assess(d).state)
            .or_else(|| judge(&caches.replica_sets, &self.replica_sets, &mut pending, assess_replicas))
            .or_else(|| judge(&caches.replication_controllers, &self.replication_controllers, &mut pending, assess_replicas))
            .or_else(|| judge(&caches.pods, &self.pods, &mut pending, assess_pod));
        match impossible {
            Some(reason) => Outcome::Impossible(reason),
            None if pending.is_empty() => Outcome::Available,
            None => Outcome::Pending(pending),
        }
    }
}

/// The first of `keys` that cannot become available, and why; those that are not yet are noted in `pending`.
fn judge<T: Object>(
    cache: &SharedInformer<T>,
    keys: &[ObjectKey],
    pending: &mut String,
    assess: impl Fn(&T) -> State,
) -> Option<String> {
    let kind = T::RESOURCE.kind.to_ascii_lowercase();
    let objects = cache.store();
    for key in keys {
        match objects.get(key).map(|object| assess(&object)) {
            Some(State::Complete) => {}
            Some(State::Stuck(why)) => return Some(format!("{kind} {key}: {why}")),
            Some(State::Rolling(what)) => note(pending, &format!("{kind} {key}: {what}")),
            None => note(pending, &format!("{kind} {key}: not there")),
        }
    }
    None
}

fn assess_pod(pod: &Pod) -> State {
    match pod.phase {
        Phase::Failed => State::Stuck("failed".to_owned()),
        Phase::Succeeded => State::Complete,
        _ if pod.is_ready() => State::Complete,
        _ => State::Rolling("not ready".to_owned()),
    }
}

fn note(all: &mut String, line: &str) {
    let separator = if all.is_empty() { "" } else { "; " };
    write!(all, "{separator}{line}").expect("writing to a String cannot fail");
}
