//! The outcome of applied objects: all are available, or the reason for the first that cannot be.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::nodes::FAILURES;
use steersman_devcluster::tables::pod_status;
use steersman_objects::{Deployment, Object, ObjectKey, Pod, ReplicaSet, ReplicationController};
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer};

use super::progress::{
    State, assess, assess_claim, assess_cron_job, assess_daemon_set, assess_job, assess_pod,
    assess_replicas, assess_stateful_set,
};
use super::served::{Claims, CronJobs, DaemonSets, Jobs, Served, StatefulSets};

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
    pub(super) kind: &'static str,
    pub(super) key: ObjectKey,
    pub(super) why: String,
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
        notes.extend(pods.iter().find_map(|pod| failed_mount(pod, cluster)));
        notes.extend(unbound_claim(&pods, cluster));
        if self.kind == "PersistentVolumeClaim" {
            let claims = cluster.objects("persistentvolumeclaims");
            let claim = claims.iter().find(|claim| self.is(claim));
            notes.extend(claim.and_then(|claim| lacking_class(claim, cluster)));
        }
        // Pods that exist explain themselves; the warnings are about those that do not.
        // The PersistentVolume binder warns of a missing class in the same words.
        let warning = latest_warning(&owners, cluster).filter(|warning| !notes.contains(warning));
        notes.extend(warning);
        if notes.is_empty() {
            self.to_string()
        } else {
            format!("{self} ({})", notes.join(", "))
        }
    }

    fn is(&self, object: &Value) -> bool {
        object["metadata"]["name"] == *self.key.name
            && object["metadata"]["namespace"] == *self.key.namespace
    }

    /// The pods of the object and of the ReplicaSets it owns, and the UIDs of these owners.
    fn pods(&self, cluster: &DevCluster) -> (Vec<Value>, Vec<Value>) {
        let is_it = |object: &&Value| self.is(object);
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
    let waiting = listed("initContainerStatuses")
        .chain(listed("containerStatuses"))
        .map(|container| &container["state"]["waiting"])
        .find(|waiting| waiting["reason"] != "CrashLoopBackOff" && !waiting["message"].is_null())
        .map(|waiting| &waiting["message"]);
    let message = unscheduled.or(waiting)?.as_str()?;
    // Preemption has never more to say.
    let message = message.split(" no new claims").next().unwrap_or(message);
    Some(message.trim_end_matches('.').to_owned())
}

/// The latest message about a volume of a pod that cannot be mounted, while the pod is pending.
fn failed_mount(pod: &Value, cluster: &DevCluster) -> Option<String> {
    if pod["status"]["phase"] != "Pending" {
        return None;
    }
    let events = cluster.objects("events");
    let mut about = events.iter().filter(|event| {
        event["reason"] == "FailedMount" && event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    });
    Some(about.next_back()?["message"].as_str()?.to_owned())
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
    let name = claim["metadata"]["name"].as_str().unwrap_or_default();
    let lacking = lacking_class(claim, cluster);
    Some(match lacking {
        Some(lacking) => format!("claim {name} is not bound: {lacking}"),
        None => format!("claim {name} is not bound"),
    })
}

/// The reason of an unbound claim, if its class is the cause.
fn lacking_class(claim: &Value, cluster: &DevCluster) -> Option<String> {
    let class = claim["spec"]["storageClassName"]
        .as_str()
        .unwrap_or_default();
    if class.is_empty() {
        return Some("it has no storage class".to_owned());
    }
    let classes = cluster.objects("storageclasses");
    let mut names = classes.iter().map(|known| &known["metadata"]["name"]);
    (!names.any(|known| known == class))
        .then(|| format!("storageclass.storage.k8s.io {class:?} not found"))
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
    pub(super) claims: SharedInformer<Served<Claims>>,
    pub(super) pods: SharedInformer<Pod>,
    /// The Jobs that have completed, also those that are gone since.
    finished: Arc<Mutex<HashSet<ObjectKey>>>,
}

impl Caches {
    /// The caches of `informers`.
    pub(super) fn of(informers: &InformerFactory) -> Self {
        let jobs = informers.shared::<Served<Jobs>>();
        let finished: Arc<Mutex<HashSet<ObjectKey>>> = Arc::default();
        let noted = Arc::clone(&finished);
        jobs.add_handler(move |change| {
            let (Change::Added { object, .. } | Change::Updated { new: object, .. }) = change
            else {
                return;
            };
            if assess_job(object).state == State::Complete {
                noted.lock().insert(object.key());
            } else {
                noted.lock().remove(&object.key());
            }
        });
        Self {
            finished,
            deployments: informers.shared(),
            replica_sets: informers.shared(),
            replication_controllers: informers.shared(),
            stateful_sets: informers.shared(),
            daemon_sets: informers.shared(),
            jobs,
            cron_jobs: informers.shared(),
            claims: informers.shared(),
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
    claims: Vec<ObjectKey>,
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
            "PersistentVolumeClaim" => &mut self.claims,
            "Pod" => &mut self.pods,
            _ => return,
        };
        keys.push(key);
    }

    /// Determines the outcome from the caches. `cluster` has the fields that the caches lack.
    pub(super) fn outcome(&self, caches: &Caches, cluster: &DevCluster) -> Outcome {
        let mut pending = Vec::new();
        for Verdict { object, state } in self.verdicts(caches, cluster) {
            match state {
                State::Complete | State::Scheduled(_) => {}
                State::Stuck(_) => return Outcome::Impossible(object),
                State::Rolling(_) | State::Paused(_) => pending.push(object),
            }
        }
        if pending.is_empty() {
            Outcome::Available
        } else {
            Outcome::Pending(pending)
        }
    }

    /// The state of each applied object, by kind.
    pub(super) fn verdicts(&self, caches: &Caches, cluster: &DevCluster) -> Vec<Verdict> {
        let mut all = Vec::new();
        let finished = caches.finished.lock();
        judge(&mut all, &caches.deployments, &self.deployments, |d| {
            assess(d).state
        });
        judge(
            &mut all,
            &caches.replica_sets,
            &self.replica_sets,
            assess_replicas,
        );
        let keys = &self.replication_controllers;
        judge(
            &mut all,
            &caches.replication_controllers,
            keys,
            assess_replicas,
        );
        judge(&mut all, &caches.stateful_sets, &self.stateful_sets, |s| {
            assess_stateful_set(s).state
        });
        judge(&mut all, &caches.daemon_sets, &self.daemon_sets, |d| {
            assess_daemon_set(d).state
        });
        // A Job may be removed by its TTL before anybody looks.
        let jobs: Vec<ObjectKey> = self
            .jobs
            .iter()
            .filter(|key| !finished.contains(*key))
            .cloned()
            .collect();
        judge(&mut all, &caches.jobs, &jobs, |j| assess_job(j).state);
        let done = self.jobs.iter().filter(|key| finished.contains(*key));
        all.extend(done.map(|key| Verdict {
            object: Unavailable {
                kind: &<Served<Jobs> as Object>::RESOURCE.kind,
                key: key.clone(),
                why: String::new(),
            },
            state: State::Complete,
        }));
        judge(&mut all, &caches.cron_jobs, &self.cron_jobs, |c| {
            assess_cron_job(c).state
        });
        judge(
            &mut all,
            &caches.claims,
            &self.claims,
            |claim| match assess_claim(claim) {
                State::Rolling(_) if waits_for_pod(claim, cluster) => State::Complete,
                state => state,
            },
        );
        judge(&mut all, &caches.pods, &self.pods, |pod| {
            assess_pod(pod, || crash_loops(pod, cluster))
        });
        all
    }
}

/// The state of one applied object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The object, with the reason if it is not available.
    pub(super) object: Unavailable,
    pub(super) state: State,
}

/// Adds the states of the objects `keys` to `all`.
fn judge<T: Object>(
    all: &mut Vec<Verdict>,
    cache: &SharedInformer<T>,
    keys: &[ObjectKey],
    assess: impl Fn(&T) -> State,
) {
    let objects = cache.store();
    for key in keys {
        let found = objects.get(key).map(|object| assess(&object));
        let state = found.unwrap_or_else(|| State::Rolling("not there".to_owned()));
        let why = match &state {
            State::Complete | State::Scheduled(_) => String::new(),
            State::Stuck(why) | State::Rolling(why) => why.clone(),
            State::Paused(what) => format!("paused, {what}"),
        };
        let object = Unavailable {
            kind: &T::RESOURCE.kind,
            key: key.clone(),
            why,
        };
        all.push(Verdict { object, state });
    }
}

/// Whether the class of a claim binds it for its first pod only.
fn waits_for_pod(claim: &Served<Claims>, cluster: &DevCluster) -> bool {
    let classes = cluster.objects("storageclasses");
    let class = classes
        .iter()
        .find(|class| class["metadata"]["name"] == claim.spec["storageClassName"]);
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// Whether a container of the pod waits for a restart that will fail again. A simulated container
/// that has failed once fails always, unless an annotation limits its failures.
fn crash_loops(pod: &Pod, cluster: &DevCluster) -> bool {
    let pods = cluster.objects("pods");
    let uid = pod.meta.uid.to_string();
    let Some(pod) = pods.iter().find(|pod| pod["metadata"]["uid"] == uid) else {
        return false;
    };
    let listed = |field: &str| pod["status"][field].as_array().into_iter().flatten();
    let is_limited = pod["metadata"]["annotations"][FAILURES].is_string();
    !is_limited
        && listed("containerStatuses")
            .chain(listed("initContainerStatuses"))
            .any(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff")
}
