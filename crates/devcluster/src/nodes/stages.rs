//! The stages of a simulated pod's life, how long each lasts, and what ends it.
//!
//! Unscheduled -bind-> Starting -run-> Running -probe-> Settled; Terminating -remove-> gone, from anywhere.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_runtime::object::Phase;

use super::pod::SimPod;

/// What the containers of a pod do, as its annotation says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Start, get ready, stay so: pods without the annotation, or with an unknown value.
    Run,
    /// `fail`: exit with an error; crash-loops, or ends as Failed where restartPolicy is Never.
    Fail,
    /// `hang`: never start.
    Hang,
    /// `never-ready`: run, but the readiness probe never passes.
    NeverReady,
    /// `complete`: run, then exit with success.
    Complete,
}

impl Behaviour {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "fail" => Self::Fail,
            "hang" => Self::Hang,
            "never-ready" => Self::NeverReady,
            "complete" => Self::Complete,
            _ => Self::Run,
        }
    }
}

/// How long a pod stays in each stage before the node acts.
#[derive(Debug, Clone)]
pub struct Latency {
    /// From creation to binding.
    pub schedule: Duration,
    /// From binding to running containers.
    pub start: Duration,
    /// From running to ready (or failed, or complete).
    pub ready: Duration,
    /// From the deletion request to the end.
    pub terminate: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        let moment = Duration::from_millis(300);
        Self { schedule: Duration::ZERO, start: moment, ready: moment, terminate: moment }
    }
}

impl Latency {
    /// Everything takes this long together: half for starting, half for getting ready; ending takes as long.
    pub fn total(total: Duration) -> Self {
        Self { schedule: Duration::ZERO, start: total / 2, ready: total / 2, terminate: total }
    }

    /// How long `stage` lasts; `None` where nothing follows.
    pub(super) fn of(&self, stage: Stage) -> Option<Duration> {
        match stage {
            Stage::Unscheduled => Some(self.schedule),
            Stage::Starting => Some(self.start),
            Stage::Running => Some(self.ready),
            Stage::Terminating => Some(self.terminate),
            Stage::Settled => None,
        }
    }
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No node yet.
    Unscheduled,
    /// Bound, containers not started.
    Starting,
    /// Containers run, outcome open.
    Running,
    /// Nothing more to do.
    Settled,
    /// Deletion has begun.
    Terminating,
}

impl Stage {
    pub(super) fn of(pod: &SimPod) -> Self {
        let (view, behaviour) = (&pod.pod, pod.behaviour);
        if view.meta.is_terminating() {
            return Self::Terminating;
        }
        match view.phase {
            Phase::Succeeded | Phase::Failed => Self::Settled,
            _ if view.node.is_none() => {
                if pod.gated {
                    Self::Settled
                } else {
                    Self::Unscheduled
                }
            }
            Phase::Running if behaviour == Behaviour::NeverReady || view.is_ready() || pod.waiting => Self::Settled,
            Phase::Running => Self::Running,
            _ if behaviour == Behaviour::Hang && view.condition_types.len() > 1 => Self::Settled,
            _ => Self::Starting,
        }
    }
}

/// The state of the containers to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// Still being created.
    Creating,
    /// Running, readiness probe not passed.
    Unready,
    /// Running and ready.
    Ready,
    /// Exited with an error and waiting for a restart.
    CrashLooping,
    /// Exited with an error for good.
    Failed,
    /// Exited with success for good.
    Succeeded,
}

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Bind,
    Report(Health),
    Remove,
}

/// What ends the stage `pod` is in.
pub(super) fn next(pod: &SimPod) -> Action {
    match (Stage::of(pod), pod.behaviour) {
        (Stage::Unscheduled, _) => Action::Bind,
        (Stage::Starting, Behaviour::Hang) => Action::Report(Health::Creating),
        (Stage::Starting, _) => Action::Report(Health::Unready),
        (Stage::Running, Behaviour::Fail) if pod.never_restarts => Action::Report(Health::Failed),
        (Stage::Running, Behaviour::Fail) => Action::Report(Health::CrashLooping),
        (Stage::Running, Behaviour::Complete) => Action::Report(Health::Succeeded),
        (Stage::Running, _) => Action::Report(Health::Ready),
        (Stage::Terminating, _) if pod.pod.node.is_some() => Action::Remove,
        (Stage::Terminating | Stage::Settled, _) => Action::Nothing,
    }
}

/// A kubelet's last delete: no grace, this very pod.
pub(super) fn remove_options(pod: &SimPod) -> Value {
    json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod.pod.meta.uid.to_string() } })
}

#[cfg(test)]
mod tests {
    use steersman_runtime::object::Object;

    use super::*;

    fn pod(annotation: Option<&str>, node: Option<&str>, phase: &str, extra: Value) -> SimPod {
        let mut json = json!({
            "metadata": { "name": "p", "namespace": "d", "uid": "u", "annotations": {} },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
            "status": { "phase": phase }
        });
        if let Some(text) = annotation {
            json["metadata"]["annotations"][super::super::BEHAVIOUR] = text.into();
        }
        if let Some(node) = node {
            json["spec"]["nodeName"] = node.into();
        }
        json_patch::merge(&mut json, &extra);
        SimPod::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn each_stage_leads_to_one_action() {
        let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let gone = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let waiting = json!({ "status": { "containerStatuses": [{ "name": "c", "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] } });
        let (n, none) = (Some("n"), json!({}));
        // (why, annotation, node, phase, extra, action)
        let cases = [
            ("new", None, None, "Pending", none.clone(), Action::Bind),
            ("gated", None, None, "Pending", json!({ "spec": { "schedulingGates": [{ "name": "g" }] } }), Action::Nothing),
            ("bound", None, n, "Pending", none.clone(), Action::Report(Health::Unready)),
            ("running", None, n, "Running", none.clone(), Action::Report(Health::Ready)),
            ("ready", None, n, "Running", ready, Action::Nothing),
            ("failing", Some("fail"), n, "Running", none.clone(), Action::Report(Health::CrashLooping)),
            (
                "failing for good",
                Some("fail"),
                n,
                "Running",
                json!({ "spec": { "restartPolicy": "Never" } }),
                Action::Report(Health::Failed),
            ),
            ("crash-looping", Some("fail"), n, "Running", waiting, Action::Nothing),
            ("hanging", Some("hang"), n, "Pending", none.clone(), Action::Report(Health::Creating)),
            ("never ready", Some("never-ready"), n, "Running", none.clone(), Action::Nothing),
            ("completing", Some("complete"), n, "Running", none.clone(), Action::Report(Health::Succeeded)),
            ("complete", Some("complete"), n, "Succeeded", none.clone(), Action::Nothing),
            ("going", None, n, "Running", gone.clone(), Action::Remove),
            ("going before it was bound", None, None, "Pending", gone, Action::Nothing),
            ("unknown behaviour", Some("dance"), n, "Running", none, Action::Report(Health::Ready)),
        ];
        for (why, annotation, node, phase, extra, expected) in cases {
            assert_eq!(next(&pod(annotation, node, phase, extra)), expected, "{why}");
        }
    }
}
