//! Roll-outs of Deployments, StatefulSets and DaemonSets, and the progress of Jobs: their numbers,
//! their limits, and the pods that the limits allow.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use steersman_objects::{Deployment, IntOrPercent, Strategy};
use steersman_values::resource::{DAEMON_SETS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS};
use steersman_why::{ClientReader, Doc};

use super::asked::list;

/// The annotation with the revision of a Deployment and of its ReplicaSets.
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
/// The images of a pod template.
const CONTAINERS: &str = "/spec/template/spec/containers";

/// The reason of the condition `Progressing` after the end of a roll-out.
const ENDED: &str = "NewReplicaSetAvailable";

/// One workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rollout {
    kind: &'static str,
    resource: &'static str,
    namespace: String,
    name: String,
    /// `progressing`, `complete`, `failed`, `paused` or `suspended`.
    state: &'static str,
    /// The words of the controller about the state.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    revision: String,
    images: Vec<String>,
    desired: i64,
    /// Pods of the new revision, those of them that are ready, and that are available.
    new: i64,
    new_ready: i64,
    new_available: i64,
    /// Pods of older revisions.
    old: i64,
    /// The most pods, and the fewest available ones, that the strategy allows. `None` without limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fewest: Option<i64>,
    strategy: String,
    /// When the newest revision was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// When the roll-out is reported as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    /// The revisions with pods, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sets: Vec<Set>,
    /// Indexes of an indexed Job, and its failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobPart>,
}

/// A ReplicaSet of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Set {
    name: String,
    revision: i64,
    desired: i64,
    pods: i64,
    available: i64,
    images: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
}

/// The values that only Jobs have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobPart {
    active: i64,
    succeeded: i64,
    failed: i64,
    backoff_limit: i64,
    is_indexed: bool,
    completed_indexes: String,
    failed_indexes: String,
}

/// All workloads of `namespace`, or of the cluster if it is empty.
pub(super) async fn view(reader: &ClientReader, namespace: &str) -> Value {
    let kinds = [
        &DEPLOYMENTS,
        &REPLICA_SETS,
        &STATEFUL_SETS,
        &DAEMON_SETS,
        &JOBS,
    ];
    let reads = kinds.map(|of| list(reader, of, namespace, ""));
    let mut withheld = Vec::new();
    let mut lists = Vec::new();
    for (of, read) in kinds
        .into_iter()
        .zip(futures::future::join_all(reads).await)
    {
        lists.push(read.unwrap_or_else(|why| {
            withheld.push(format!("{}: {why}", of.plural));
            Vec::new()
        }));
    }
    let [deployments, sets, stateful, daemons, jobs] = &lists[..] else {
        return json!({ "items": [] });
    };
    let sets = by_owner(sets);
    let none = Vec::new();
    let mut items: Vec<Rollout> = deployments
        .iter()
        .map(|doc| deployment(doc, sets.get(doc.uid()).unwrap_or(&none)))
        .chain(stateful.iter().map(stateful_set))
        .chain(daemons.iter().map(daemon_set))
        .chain(jobs.iter().map(job))
        .collect();
    items.sort_by(|a, b| order(a).cmp(&order(b)));
    json!({ "items": items, "withheld": withheld })
}

/// Objects that need a look come first.
fn order(item: &Rollout) -> (usize, &str, &str, &str) {
    let states = ["failed", "progressing", "paused", "suspended", "complete"];
    let rank = states.iter().position(|state| *state == item.state);
    let rank = rank.unwrap_or(states.len());
    (rank, &item.namespace, &item.name, item.kind)
}

/// ReplicaSets by the UID of their controller.
fn by_owner(sets: &[Doc]) -> HashMap<String, Vec<Doc>> {
    let mut owned: HashMap<String, Vec<Doc>> = HashMap::new();
    for set in sets {
        let owners = set.items("/metadata/ownerReferences").iter();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        if let Some(uid) = controller.and_then(|owner| owner["uid"].as_str()) {
            owned.entry(uid.to_owned()).or_default().push(set.clone());
        }
    }
    owned
}

fn images(doc: &Doc) -> Vec<String> {
    let containers = doc.items(CONTAINERS).iter();
    containers
        .filter_map(|container| container["image"].as_str().map(str::to_owned))
        .collect()
}

fn number_or(doc: &Doc, pointer: &str, default: i64) -> i64 {
    doc.at(pointer).and_then(Value::as_i64).unwrap_or(default)
}

fn deployment(doc: &Doc, sets: &[Doc]) -> Rollout {
    let desired = number_or(doc, "/spec/replicas", 1);
    let revision = doc.text(REVISION).to_owned();
    let mut all: Vec<Set> = sets.iter().map(set).collect();
    all.sort_by_key(|set| std::cmp::Reverse(set.revision));
    let newest = all
        .first()
        .filter(|set| set.revision.to_string() == revision);
    let (new, new_ready, new_available) = newest.map_or((0, 0, 0), |newest| {
        let found = sets.iter().find(|set| set.name() == newest.name);
        let ready = found.map_or(0, |set| set.number("/status/readyReplicas"));
        (newest.pods, ready, newest.available)
    });
    let since = newest.and_then(|newest| newest.created);
    let old = all.iter().map(|set| set.pods).sum::<i64>() - new;
    let (state, message) = deployment_state(doc, desired);
    let (most, fewest, strategy) = limits(doc, desired);
    let deadline = (state == "progressing").then(|| deadline(doc)).flatten();
    // Old revisions without pods are history.
    let sets = all
        .into_iter()
        .enumerate()
        .filter(|(at, set)| *at == 0 || set.pods > 0 || set.desired > 0)
        .map(|(_, set)| set)
        .collect();
    Rollout {
        kind: "Deployment",
        resource: "deployments",
        namespace: doc.namespace().to_owned(),
        name: doc.name().to_owned(),
        state,
        message,
        revision,
        images: images(doc),
        desired,
        new,
        new_ready,
        new_available,
        old,
        most,
        fewest,
        strategy,
        since,
        deadline,
        sets: if state == "complete" {
            Vec::new()
        } else {
            sets
        },
        job: None,
    }
}

fn set(doc: &Doc) -> Set {
    Set {
        name: doc.name().to_owned(),
        revision: doc.text(REVISION).parse().unwrap_or_default(),
        desired: number_or(doc, "/spec/replicas", 1),
        pods: doc.number("/status/replicas"),
        available: doc.number("/status/availableReplicas"),
        images: images(doc),
        created: doc.time("/metadata/creationTimestamp"),
    }
}

fn deployment_state(doc: &Doc, desired: i64) -> (&'static str, String) {
    let progressing = doc.condition("Progressing");
    let is_observed =
        doc.number("/status/observedGeneration") >= doc.number("/metadata/generation");
    // The condition tells of the last roll-out that ended, while a complete one loses pods.
    let told = match (refused_pods(doc), &progressing) {
        (Some(refusal), _) => refusal,
        (None, Some(condition)) if condition.text("/reason") != ENDED => {
            condition.text("/message").to_owned()
        }
        _ => String::new(),
    };
    let has_failed = progressing
        .is_some_and(|condition| condition.text("/reason") == "ProgressDeadlineExceeded");
    let count = |name: &str| doc.number(&format!("/status/{name}"));
    let is_complete = count("updatedReplicas") == desired
        && count("replicas") == desired
        && count("availableReplicas") == desired;
    if doc.at("/spec/paused").is_some_and(|paused| *paused == true) {
        ("paused", "paused by its spec".to_owned())
    } else if !is_observed {
        let message = "the controller has not seen the latest spec";
        ("progressing", message.to_owned())
    } else if is_complete {
        ("complete", String::new())
    } else if has_failed {
        ("failed", told)
    } else {
        ("progressing", told)
    }
}

/// The most pods, the fewest available ones, and the strategy in words. The arithmetic is that of the
/// controller: surge rounds up, unavailability rounds down, and both zero means one unavailable pod.
fn limits(doc: &Doc, desired: i64) -> (Option<i64>, Option<i64>, String) {
    let Some(view) = doc.view::<Deployment>() else {
        return (None, None, String::new());
    };
    let Strategy::RollingUpdate {
        max_surge,
        max_unavailable,
    } = &view.spec.strategy
    else {
        return (
            Some(desired),
            None,
            "Recreate: old pods end first".to_owned(),
        );
    };
    let part = |of: &Option<IntOrPercent>, round: fn(f64) -> f64| {
        let of = of
            .clone()
            .unwrap_or_else(|| IntOrPercent::Percent("25%".to_owned()));
        of.of(view.spec.replicas, round).ok().map(i64::from)
    };
    let (Some(surge), Some(unavailable)) = (
        part(max_surge, f64::ceil),
        part(max_unavailable, f64::floor),
    ) else {
        return (None, None, "RollingUpdate".to_owned());
    };
    let unavailable = if surge == 0 && unavailable == 0 {
        1
    } else {
        unavailable
    };
    let words = format!("RollingUpdate: at most {surge} more, at most {unavailable} unavailable");
    (
        Some(desired + surge),
        Some((desired - unavailable).max(0)),
        words,
    )
}

/// The words of the API server about a pod that it refuses.
fn refused_pods(doc: &Doc) -> Option<String> {
    let condition = doc.condition("ReplicaFailure")?;
    (condition.text("/status") == "True").then(|| condition.text("/message").to_owned())
}

fn deadline(doc: &Doc) -> Option<Timestamp> {
    let seconds = number_or(doc, "/spec/progressDeadlineSeconds", 600);
    let progressing = doc.condition("Progressing")?;
    // No deadline runs after the end of a roll-out, even if pods are missing later.
    if progressing.text("/reason") == ENDED {
        return None;
    }
    let updated = progressing.time("/lastUpdateTime")?;
    // Kubernetes counts this value as no deadline.
    (seconds < i64::from(i32::MAX))
        .then(|| updated.checked_add(SignedDuration::from_secs(seconds)).ok())
        .flatten()
}

fn stateful_set(doc: &Doc) -> Rollout {
    let desired = number_or(doc, "/spec/replicas", 1);
    let partition = doc.number("/spec/updateStrategy/rollingUpdate/partition");
    let wanted = (desired - partition).max(0);
    let count = |name: &str| doc.number(&format!("/status/{name}"));
    let pods = count("replicas");
    let available = count("availableReplicas");
    let current = doc.text("/status/currentRevision");
    let update = doc.text("/status/updateRevision");
    let new = if current == update {
        pods
    } else {
        count("updatedReplicas")
    };
    let on_delete = doc.text("/spec/updateStrategy/type") == "OnDelete";
    let is_observed = count("observedGeneration") >= doc.number("/metadata/generation");
    let is_complete =
        is_observed && pods == desired && available >= desired && (new >= wanted || on_delete);
    let strategy = if on_delete {
        "OnDelete: a pod changes when it is deleted".to_owned()
    } else if partition > 0 {
        format!("RollingUpdate: ordinals below {partition} keep the old revision")
    } else {
        "RollingUpdate: one ordinal after the other, from the highest".to_owned()
    };
    let is_parallel = doc.text("/spec/podManagementPolicy") == "Parallel";
    Rollout {
        kind: "StatefulSet",
        resource: "statefulsets",
        namespace: doc.namespace().to_owned(),
        name: doc.name().to_owned(),
        state: state_of(is_complete),
        message: message_of(is_observed, is_complete, || {
            format!("{available} of {desired} pods are available")
        }),
        revision: hash_of(update, doc.name()),
        images: images(doc),
        desired,
        new,
        new_ready: count("readyReplicas").min(new),
        new_available: available.min(new),
        old: pods - new,
        most: Some(desired),
        fewest: (!is_parallel && !on_delete).then(|| (desired - 1).max(0)),
        strategy,
        ..Rollout::default()
    }
}

/// The state of a workload without conditions.
fn state_of(is_complete: bool) -> &'static str {
    if is_complete {
        "complete"
    } else {
        "progressing"
    }
}

/// The message of a workload without conditions; `progress` is that of one under way.
fn message_of(is_observed: bool, is_complete: bool, progress: impl FnOnce() -> String) -> String {
    if !is_observed {
        "the controller has not seen the latest spec".to_owned()
    } else if is_complete {
        String::new()
    } else {
        progress()
    }
}

/// A revision without the name that it begins with.
fn hash_of(revision: &str, name: &str) -> String {
    let hash = revision
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'));
    hash.unwrap_or(revision).to_owned()
}

fn daemon_set(doc: &Doc) -> Rollout {
    let count = |name: &str| doc.number(&format!("/status/{name}"));
    let desired = count("desiredNumberScheduled");
    let pods = count("currentNumberScheduled");
    let new = count("updatedNumberScheduled");
    let available = count("numberAvailable");
    let on_delete = doc.text("/spec/updateStrategy/type") == "OnDelete";
    let is_observed = count("observedGeneration") >= doc.number("/metadata/generation");
    let is_complete = is_observed && available >= desired && (new >= desired || on_delete);
    let limit = |name: &str, default: i64| {
        let value = doc.at(&format!("/spec/updateStrategy/rollingUpdate/{name}"));
        let given = match value {
            Some(Value::String(text)) => Some(IntOrPercent::Percent(text.clone())),
            Some(value) => value
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
                .map(IntOrPercent::Int),
            None => None,
        };
        let total = i32::try_from(desired).unwrap_or(i32::MAX);
        let of = given.and_then(|given| given.of(total, f64::ceil).ok());
        of.map_or(default, i64::from)
    };
    let surge = limit("maxSurge", 0);
    let unavailable = limit("maxUnavailable", 1);
    Rollout {
        kind: "DaemonSet",
        resource: "daemonsets",
        namespace: doc.namespace().to_owned(),
        name: doc.name().to_owned(),
        state: state_of(is_complete),
        message: message_of(is_observed, is_complete, || {
            format!("available on {available} of {desired} nodes")
        }),
        revision: doc
            .at("/metadata/annotations/deprecated.daemonset.template.generation")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        images: images(doc),
        desired,
        new,
        new_ready: count("numberReady").min(new),
        new_available: available.min(new),
        old: (pods - new).max(0),
        most: (!on_delete).then_some(desired + surge),
        fewest: (!on_delete).then_some((desired - unavailable).max(0)),
        strategy: if on_delete {
            "OnDelete: a pod changes when it is deleted".to_owned()
        } else {
            format!("RollingUpdate: at most {surge} more, at most {unavailable} unavailable")
        },
        ..Rollout::default()
    }
}

fn job(doc: &Doc) -> Rollout {
    let count = |name: &str| doc.number(&format!("/status/{name}"));
    let holds = |kind: &str| {
        let condition = doc.condition(kind);
        condition.filter(|condition| condition.text("/status") == "True")
    };
    let parallel = number_or(doc, "/spec/parallelism", 1);
    let desired = number_or(doc, "/spec/completions", parallel);
    let failed = holds("Failed");
    let is_suspended = doc.at("/spec/suspend").is_some_and(|value| *value == true);
    let state = if holds("Complete").is_some() {
        "complete"
    } else if failed.is_some() {
        "failed"
    } else if is_suspended {
        "suspended"
    } else {
        "progressing"
    };
    Rollout {
        kind: "Job",
        resource: "jobs",
        namespace: doc.namespace().to_owned(),
        name: doc.name().to_owned(),
        state,
        message: failed
            .map(|failed| failed.text("/message").to_owned())
            .unwrap_or_default(),
        images: images(doc),
        desired,
        new: count("active") + count("succeeded"),
        new_ready: count("ready") + count("succeeded"),
        new_available: count("succeeded"),
        strategy: format!("at most {parallel} pods at once"),
        since: doc.time("/status/startTime"),
        job: Some(JobPart {
            active: count("active"),
            succeeded: count("succeeded"),
            failed: count("failed"),
            backoff_limit: number_or(doc, "/spec/backoffLimit", 6),
            is_indexed: doc.text("/spec/completionMode") == "Indexed",
            completed_indexes: doc.text("/status/completedIndexes").to_owned(),
            failed_indexes: doc.text("/status/failedIndexes").to_owned(),
        }),
        ..Rollout::default()
    }
}

#[cfg(test)]
mod tests;
