//! The outcome of applied objects: all are available, or the reason for the first that cannot be.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::tables::pod_status;
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use steersman_runtime::object::{
    Deployment, Object, ObjectKey, Phase, Pod, ReplicaSet, ReplicationController,
};

use super::progress::{State, assess, assess_replicas};

/// The common state of all applied objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// These objects are not available yet.
    Pending(Vec<Unavailable>),
    /// All objects are available.
    Available,
    /// This object cannot become available.
    Impossible(Unavailable),
}

/// An object that is not available, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unavailable {
    kind: &'static str,
    key: ObjectKey,
    why: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.kind.to_ascii_lowercase(),
            self.key,
            self.why
        )
    }
}

impl Unavailable {
    /// The text with the states of the object's pods, as `kubectl get pods` shows them. They
    /// usually name the cause.
    pub(super) fn explain(&self, cluster: &DevCluster) -> String {
        let states = self.pod_states(cluster);
        if states.is_empty() {
            self.to_string()
        } else {
            format!("{self} ({})", states.join(", "))
        }
    }

    /// The number of pods in each state, of the object and of the ReplicaSets it owns.
    fn pod_states(&self, cluster: &DevCluster) -> Vec<String> {
        let is_it = |object: &&Value| {
            object["metadata"]["name"] == *self.key.name
                && object["metadata"]["namespace"] == *self.key.namespace
        };
        let pods = cluster.objects("pods");
        if self.kind == "Pod" {
            return pods.iter().find(is_it).map(state).into_iter().collect();
        }
        let plural = format!("{}s", self.kind.to_ascii_lowercase());
        let mut owners: Vec<Value> = cluster
            .objects(&plural)
            .iter()
            .find(is_it)
            .map(|object| object["metadata"]["uid"].clone())
            .into_iter()
            .collect();
        let sets = cluster.objects("replicasets");
        let owned_sets: Vec<Value> = sets
            .iter()
            .filter(|set| is_owned(set, &owners))
            .map(|set| set["metadata"]["uid"].clone())
            .collect();
        owners.extend(owned_sets);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| is_owned(pod, &owners)) {
            *counts.entry(state(pod)).or_default() += 1;
        }
        counts
            .iter()
            .map(|(state, count)| format!("{count} {state}"))
            .collect()
    }
}

fn is_owned(object: &Value, owners: &[Value]) -> bool {
    object["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .is_some_and(|uid| owners.iter().any(|owner| owner == uid))
}

/// The state of a pod as in the column STATUS of `kubectl get pods`, with a remark for unready
/// pods.
fn state(pod: &Value) -> String {
    let status = pod_status(pod);
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let ready = pod["status"]["conditions"]
        .as_array()
        .is_some_and(|conditions| conditions.iter().any(is_ready));
    if status == "Running" && !ready {
        "Running but not ready".to_owned()
    } else {
        status
    }
}

/// The caches that determine the outcome.
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

/// The applied objects to check for availability.
#[derive(Debug, Default)]
pub(super) struct Applied {
    deployments: Vec<ObjectKey>,
    replica_sets: Vec<ObjectKey>,
    replication_controllers: Vec<ObjectKey>,
    pods: Vec<ObjectKey>,
}

impl Applied {
    /// Adds an object. Returns false if the availability of its kind is unknown.
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

    /// Determines the outcome from the caches.
    pub(super) fn outcome(&self, caches: &Caches) -> Outcome {
        let mut pending = Vec::new();
        let impossible = assess_all(&caches.deployments, &self.deployments, &mut pending, |d| {
            assess(d).state
        })
        .or_else(|| {
            assess_all(
                &caches.replica_sets,
                &self.replica_sets,
                &mut pending,
                assess_replicas,
            )
        })
        .or_else(|| {
            assess_all(
                &caches.replication_controllers,
                &self.replication_controllers,
                &mut pending,
                assess_replicas,
            )
        })
        .or_else(|| assess_all(&caches.pods, &self.pods, &mut pending, assess_pod));
        match impossible {
            Some(missing) => Outcome::Impossible(missing),
            None if pending.is_empty() => Outcome::Available,
            None => Outcome::Pending(pending),
        }
    }
}

/// Returns the first of `keys` that cannot become available. Adds objects that are not available
/// yet to `pending`.
fn assess_all<T: Object>(
    cache: &SharedInformer<T>,
    keys: &[ObjectKey],
    pending: &mut Vec<Unavailable>,
    assess: impl Fn(&T) -> State,
) -> Option<Unavailable> {
    let objects = cache.store();
    for key in keys {
        let missing = |why: String| Unavailable {
            kind: &T::RESOURCE.kind,
            key: key.clone(),
            why,
        };
        match objects.get(key).map(|object| assess(&object)) {
            Some(State::Complete) => {}
            Some(State::Stuck(why)) => return Some(missing(why)),
            Some(State::Rolling(what)) => pending.push(missing(what)),
            Some(State::Paused(what)) => pending.push(missing(format!("paused, {what}"))),
            None => pending.push(missing("not there".to_owned())),
        }
    }
    None
}

/// Assesses a pod of its own, without a controller.
fn assess_pod(pod: &Pod) -> State {
    match pod.phase {
        Phase::Failed => State::Stuck("failed".to_owned()),
        Phase::Succeeded => State::Complete,
        _ if pod.is_ready() => State::Complete,
        // A simulated container that has failed once fails always.
        _ if pod.restarts > 0 => State::Stuck("does not stay up".to_owned()),
        _ => State::Rolling("not ready".to_owned()),
    }
}
