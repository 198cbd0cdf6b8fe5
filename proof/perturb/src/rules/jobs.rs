//! Safety rules of Jobs: each pod counts once, and a Job has no more pods than it wants.

use serde_json::Value;

use super::{is_active, is_controlled_by};
use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// A Job has at most `parallelism` active pods, and at most one for each index.
pub const JOB_PODS: Rule = Rule {
    name: "a Job creates no surplus pod",
    check: surplus,
};
/// The counters of a Job never fall, and count no more pods than have ended.
pub const COUNTED_ONCE: Rule = Rule {
    name: "a Job counts each pod once",
    check: counted_once,
};
/// A finished pod keeps the tracking finalizer until the status of its Job counts it.
pub const TRACKED: Rule = Rule {
    name: "a finished pod is tracked until it is counted",
    check: tracked,
};

const CONTROLLER: &str = "job-controller";
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "/metadata/annotations/batch.kubernetes.io~1job-completion-index";

/// The Job that controls the pod.
fn job_of<'a>(state: &'a State, pod: &Value) -> Option<&'a Value> {
    state.all("jobs").find(|job| is_controlled_by(pod, job))
}

fn number(status: &Value, field: &str) -> u64 {
    status[field].as_u64().unwrap_or(0)
}

fn uncounted<'a>(status: &'a Value, field: &str) -> &'a [Value] {
    let pods = &status["uncountedTerminatedPods"][field];
    pods.as_array().map_or(&[], Vec::as_slice)
}

fn has_finalizer(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|names| names.iter().any(|name| name == FINALIZER))
}

fn surplus(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "pods" || change.kind != ChangeKind::Created || !change.is_by(CONTROLLER)
    {
        return Ok(());
    }
    let Some(job) = job_of(state, &change.object) else {
        return Ok(());
    };
    let active: Vec<&Value> = state
        .all("pods")
        .filter(|pod| is_active(pod) && is_controlled_by(pod, job))
        .collect();
    let index = change.object.pointer(INDEX);
    let same = active
        .iter()
        .filter(|pod| index.is_some() && pod.pointer(INDEX) == index);
    if same.count() > 1 {
        return Err(format!(
            "{} is the second active pod of index {index:?}",
            change.key
        ));
    }
    let parallelism = |job: &Value| job["spec"]["parallelism"].as_u64().unwrap_or(1);
    let most = state.recent_versions("jobs", job).map(parallelism).max();
    let most = most.unwrap_or_else(|| parallelism(job));
    if active.len() as u64 <= most {
        Ok(())
    } else {
        Err(format!(
            "{} is active pod {} of {most}",
            change.key,
            active.len()
        ))
    }
}

fn counted_once(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "jobs" || change.kind == ChangeKind::Deleted {
        return Ok(());
    }
    let job = &change.object;
    let status = &change.object["status"];
    if let Some(before) = change.before.as_deref() {
        let is_elastic = before["spec"]["completions"] != job["spec"]["completions"];
        for field in ["succeeded", "failed"] {
            let old = number(&before["status"], field);
            let new = number(status, field);
            if new < old && !is_elastic {
                return Err(format!(
                    "{} falls from {old} to {new} {field} pods",
                    change.key
                ));
            }
        }
    }
    // Scenarios do not delete succeeded pods, so they all exist.
    let succeeded = state
        .all("pods")
        .filter(|pod| pod["status"]["phase"] == "Succeeded" && is_controlled_by(pod, job));
    let counted = number(status, "succeeded") + uncounted(status, "succeeded").len() as u64;
    let ended = succeeded.count() as u64;
    if counted <= ended || !job["metadata"]["deletionTimestamp"].is_null() {
        Ok(())
    } else {
        Err(format!(
            "{} counts {counted} of {ended} succeeded pods",
            change.key
        ))
    }
}

fn tracked(state: &State, change: &Change) -> Result<(), String> {
    let Some(before) = change.before.as_deref().filter(|pod| has_finalizer(pod)) else {
        return Ok(());
    };
    let phase = before["status"]["phase"].as_str().unwrap_or_default();
    if &*change.plural != "pods"
        || change.kind != ChangeKind::Updated
        || has_finalizer(&change.object)
        || !matches!(phase, "Succeeded" | "Failed")
        || !change.is_by(CONTROLLER)
    {
        return Ok(());
    }
    let Some(job) =
        job_of(state, before).filter(|job| job["metadata"]["deletionTimestamp"].is_null())
    else {
        return Ok(());
    };
    let status = &job["status"];
    let uid = &before["metadata"]["uid"];
    let is_listed = ["succeeded", "failed"]
        .iter()
        .any(|field| uncounted(status, field).contains(uid));
    let is_index = || {
        let index = before.pointer(INDEX).and_then(Value::as_str)?;
        let text = status["completedIndexes"].as_str()?;
        let index: u64 = index.parse().ok()?;
        Some(text.split(',').any(|member| {
            let mut limits = member
                .split('-')
                .filter_map(|limit| limit.parse::<u64>().ok());
            let first = limits.next().unwrap_or(u64::MAX);
            (first..=limits.next().unwrap_or(first)).contains(&index)
        }))
    };
    if is_listed || (phase == "Succeeded" && is_index().unwrap_or(false)) {
        Ok(())
    } else {
        Err(format!(
            "{} loses its finalizer before it is counted",
            change.key
        ))
    }
}
