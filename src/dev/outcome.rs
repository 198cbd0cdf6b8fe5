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

use super::progress::{
    State, assess, assess_cron_job, assess_daemon_set, assess_job, assess_replicas,
    assess_stateful_set,
};
use super::served::{CronJobs, DaemonSets, Jobs, Served, StatefulSets};

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
    /// The text with the states of the object's pods, as `kubectl get pods` shows them. The reasons
    /// of waiting pods and the latest warning about the object follow, and usually name the cause.
    pub(super) fn explain(&self, cluster: &DevCluster) -> String {
        let (pods, owners) = self.pods(cluster);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for pod in &pods {
            *counts.entry(state(pod)).or_default() += 1;
        }
        let mut notes: Vec<String> = match (self.kind, &pods[..]) {
            ("Pod", [pod]) => vec![state(pod)],
            _ => counts
                .iter()
                .map(|(state, count)| format!("{count} {state}"))
                .collect(),
        };
        notes.extend(pods.iter().find_map(reason_to_wait));
        notes.extend(unbound_claim(&pods, cluster));
        // Pods that exist explain themselves; the warnings are about those that do not.
        notes.extend(latest_warning(&owners, cluster));
        if notes.is_empty() {
            self.to_string()
        } else {
            format!("{self} ({})", notes.join(", "))
        }
    }

    /// The pods of the object and of the ReplicaSets it owns, and the UIDs of these owners.
    fn pods(&self, cluster: &DevCluster) -> (Vec<Value>, Vec<Value>) {
        let is_it = |object: &&Value| {
            object["metadata"]["name"] == *self.key.name
                && object["metadata"]["namespace"] == *self.key.namespace
        };
        let pods = cluster.objects("pods");
        if self.kind == "Pod" {
            return (
                pods.iter().find(is_it).cloned().into_iter().collect(),
                Vec::new(),
            );
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
        let owned = pods.into_iter().filter(|pod| is_owned(pod, &owners));
        (owned.collect(), owners)
    }
}

/// The reason of a waiting pod: it fits no node, or its containers have a configuration error.
fn reason_to_wait(pod: &Value) -> Option<String> {
    let listed = |field: &str| pod["status"][field].as_array().into_iter().flatten();
    let unscheduled = listed("conditions")
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
        .map(|condition| &condition["message"]);
    // The state of the pod says already that it crashes.
    let waiting = listed("containerStatuses")
        .map(|container| &container["state"]["waiting"])
        .find(|waiting| waiting["reason"] != "CrashLoopBackOff" && !waiting["message"].is_null())
        .map(|waiting| &waiting["message"]);
    let message = unscheduled.or(waiting)?.as_str()?;
    // Preemption has never more to say.
    let message = message.split(" no new claims").next().unwrap_or(message);
    Some(message.trim_end_matches('.').to_owned())
}

/// The first claim of the pods that is not bound, with the class that it lacks.
fn unbound_claim(pods: &[Value], cluster: &DevCluster) -> Option<String> {
    let volumes = |pod: &Value| -> Vec<(Value, Value)> {
        let volumes = pod["spec"]["volumes"].as_array();
        let names = volumes.into_iter().flatten().map(|volume| {
            let name = volume["persistentVolumeClaim"]["claimName"].clone();
            (pod["metadata"]["namespace"].clone(), name)
        });
        names.collect()
    };
    let used: Vec<(Value, Value)> = pods.iter().flat_map(volumes).collect();
    let claims = cluster.objects("persistentvolumeclaims");
    let claim = claims.iter().find(|claim| {
        let metadata = &claim["metadata"];
        let key = (metadata["namespace"].clone(), metadata["name"].clone());
        claim["status"]["phase"] != "Bound" && used.contains(&key)
    })?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, class) = (
        text(&claim["metadata"]["name"]),
        text(&claim["spec"]["storageClassName"]),
    );
    let classes = cluster.objects("storageclasses");
    let is_known = classes
        .iter()
        .any(|known| known["metadata"]["name"] == *class);
    let why = match is_known {
        _ if class.is_empty() => " without a storage class".to_owned(),
        true => String::new(),
        false => format!(": storageclass.storage.k8s.io {class:?} not found"),
    };
    Some(format!("claim {name} is not bound{why}"))
}

/// The message of the latest Warning Event about one of the objects with these UIDs.
fn latest_warning(owners: &[Value], cluster: &DevCluster) -> Option<String> {
    let events = cluster.objects("events");
    let latest = events
        .iter()
        .filter(|event| event["type"] == "Warning")
        .filter(|event| owners.contains(&event["involvedObject"]["uid"]))
        .max_by_key(|event| event["lastTimestamp"].as_str())?;
    Some(latest["message"].as_str()?.to_owned())
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
    pub(super) stateful_sets: SharedInformer<Served<StatefulSets>>,
    pub(super) daemon_sets: SharedInformer<Served<DaemonSets>>,
    pub(super) jobs: SharedInformer<Served<Jobs>>,
    pub(super) cron_jobs: SharedInformer<Served<CronJobs>>,
    pub(super) pods: SharedInformer<Pod>,
}

impl Caches {
    /// The caches of `informers`.
    pub(super) fn of(informers: &InformerFactory) -> Self {
        Self {
            deployments: informers.shared(),
            replica_sets: informers.shared(),
            replication_controllers: informers.shared(),
            stateful_sets: informers.shared(),
            daemon_sets: informers.shared(),
            jobs: informers.shared(),
            cron_jobs: informers.shared(),
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
    stateful_sets: Vec<ObjectKey>,
    daemon_sets: Vec<ObjectKey>,
    jobs: Vec<ObjectKey>,
    cron_jobs: Vec<ObjectKey>,
    pods: Vec<ObjectKey>,
}

impl Applied {
    /// Adds an object. Objects of other kinds count as available.
    pub(super) fn add(&mut self, kind: &str, key: ObjectKey) {
        let keys = match kind {
            "Deployment" => &mut self.deployments,
            "ReplicaSet" => &mut self.replica_sets,
            "ReplicationController" => &mut self.replication_controllers,
            "StatefulSet" => &mut self.stateful_sets,
            "DaemonSet" => &mut self.daemon_sets,
            "Job" => &mut self.jobs,
            "CronJob" => &mut self.cron_jobs,
            "Pod" => &mut self.pods,
            _ => return,
        };
        keys.push(key);
    }

    /// Determines the outcome from the caches.
    pub(super) fn outcome(&self, caches: &Caches) -> Outcome {
        let mut pending = Vec::new();
        let all = &mut pending;
        let impossible = assess_all(&caches.deployments, &self.deployments, all, |d| {
            assess(d).state
        })
        .or_else(|| {
            let keys = &self.replica_sets;
            assess_all(&caches.replica_sets, keys, all, assess_replicas)
        })
        .or_else(|| {
            let keys = &self.replication_controllers;
            assess_all(&caches.replication_controllers, keys, all, assess_replicas)
        })
        .or_else(|| {
            let keys = &self.stateful_sets;
            assess_all(&caches.stateful_sets, keys, all, |s| {
                assess_stateful_set(s).state
            })
        })
        .or_else(|| {
            let keys = &self.daemon_sets;
            assess_all(&caches.daemon_sets, keys, all, |d| {
                assess_daemon_set(d).state
            })
        })
        .or_else(|| assess_all(&caches.jobs, &self.jobs, all, |j| assess_job(j).state))
        .or_else(|| {
            let keys = &self.cron_jobs;
            assess_all(&caches.cron_jobs, keys, all, |c| assess_cron_job(c).state)
        })
        .or_else(|| assess_all(&caches.pods, &self.pods, all, assess_pod));
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
