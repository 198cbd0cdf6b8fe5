//! The stages of a simulated pod's life, as a table. Each row selects pods in one state, and has a
//! delay and an action of the node.
//!
//! unscheduled -bind-> pending -running-> running -ready-> ready -exit-> ended, if the containers
//! exit; any state -remove-> gone, once the pod is terminating
//!
//! The first matching row applies. Rows of the user precede those of `stages.yaml`, so they can
//! override any of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_objects::{Object, Phase};

use super::ending::back_off;
use super::pod::SimPod;

/// Durations of the built-in stages.
#[derive(Debug, Clone)]
pub struct Latency {
    /// From creation to binding.
    pub schedule: Duration,
    /// From binding to the start of the containers.
    pub start: Duration,
    /// From running to ready, failed or succeeded.
    pub ready: Duration,
    /// From the deletion request to the removal.
    pub terminate: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        let moment = Duration::from_millis(300);
        Self {
            schedule: Duration::ZERO,
            start: moment,
            ready: moment,
            terminate: moment,
        }
    }
}

impl Latency {
    /// Divides `total` between start and readiness, half each. Termination takes all of `total`.
    pub fn total(total: Duration) -> Self {
        Self {
            schedule: Duration::ZERO,
            start: total / 2,
            ready: total / 2,
            terminate: total,
        }
    }

    fn of(&self, state: State) -> Duration {
        match state {
            State::Unscheduled => self.schedule,
            State::Pending
            | State::Creating
            | State::Removed
            | State::Debugged
            | State::Changed => self.start,
            State::Running => self.ready,
            State::Stopping | State::Terminating | State::RestartingAll => self.terminate,
            State::Ready | State::Waiting | State::Ended => Duration::ZERO,
        }
    }
}

/// The state of a pod, as the simulation sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Without a node, and ready to be scheduled.
    Unscheduled,
    /// Bound, without a waiting container in its status.
    Pending,
    /// Bound, with a container that waits to be created.
    Creating,
    /// Containers run and are not ready.
    Running,
    /// Running and ready, as far as its containers have not ended.
    Ready,
    /// Running, with an ephemeral container that has not started yet.
    Debugged,
    /// Running, with a spec that its node has not acted on yet: other resources, another image.
    Changed,
    /// Running, with a container that waits for its restart.
    Waiting,
    /// A container has exited so that all containers restart.
    RestartingAll,
    /// Running, with containers that have all been removed, to start again.
    Removed,
    /// Being deleted and held by a finalizer, with containers that have not ended.
    Stopping,
    /// Being deleted, and bound to a node.
    Terminating,
    /// Succeeded or failed. Also pods that wait for another program, such as gated pods.
    Ended,
}

impl State {
    /// The state of a pod. Deletion and finished phases precede all other states.
    fn of(pod: &SimPod) -> Self {
        let view = &pod.pod;
        match view.phase {
            _ if view.meta.is_terminating() => match view.node {
                None => Self::Ended,
                Some(_) if pod.is_held && !view.is_finished() => Self::Stopping,
                Some(_) => Self::Terminating,
            },
            Phase::Succeeded | Phase::Failed => Self::Ended,
            _ if view.node.is_none() => {
                if pod.schedulable {
                    Self::Unscheduled
                } else {
                    Self::Ended
                }
            }
            _ if pod.is_restarting_all() => Self::RestartingAll,
            Phase::Running if pod.is_removed() => Self::Removed,
            Phase::Running if pod.is_debugged() => Self::Debugged,
            Phase::Running if pod.waiting => Self::Waiting,
            Phase::Running if pod.is_changed() => Self::Changed,
            Phase::Running if view.is_ready() && pod.unfulfilled_gates().is_none() => Self::Ready,
            Phase::Running if pod.has_ready_containers() && pod.tells_of_gates() => Self::Ready,
            // A kubelet repeats its report if another program has changed a condition.
            Phase::Running if pod.has_ready_containers() => Self::Running,
            Phase::Running if pod.is_settled() => Self::Ready,
            Phase::Running => Self::Running,
            _ if pod.waiting => Self::Creating,
            _ => Self::Pending,
        }
    }
}

/// The action of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "Word")]
pub(super) enum Action {
    /// No action. Later rows are not tried, so this row disables them.
    Nothing,
    /// Binds the pod to a node.
    Bind,
    /// Writes its status with this health.
    Report(Health),
    /// Ends its containers with their exit codes, and restarts them as its restart policy says.
    Exit,
    /// Ends its containers by a signal, without a restart.
    Stop,
    /// Fails its readiness probes.
    FailProbes,
    /// Starts its ephemeral containers.
    Debug,
    /// Resizes its containers, or starts them with another image.
    Change,
    /// Removes its containers, so that all of them start again.
    Reset,
    /// Deletes it without grace.
    Remove,
}

/// The state of the containers in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// Waiting to be created.
    Creating,
    /// Running; the readiness probe has not passed.
    Unready,
    /// Running and ready, as far as its containers have not ended.
    Ready,
    /// Exited with an error, waiting for a restart.
    CrashLooping,
    /// Exited with an error, without a restart.
    Failed,
    /// Exited with success, without a restart.
    Succeeded,
}

/// The name of an action in a table.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Nothing,
    Bind,
    Creating,
    Running,
    Ready,
    CrashLoop,
    Failed,
    Succeeded,
    Exit,
    Stopped,
    Unhealthy,
    Debug,
    Change,
    Reset,
    Remove,
}

impl From<Word> for Action {
    fn from(word: Word) -> Self {
        match word {
            Word::Nothing => Self::Nothing,
            Word::Bind => Self::Bind,
            Word::Creating => Self::Report(Health::Creating),
            Word::Running => Self::Report(Health::Unready),
            Word::Ready => Self::Report(Health::Ready),
            Word::CrashLoop => Self::Report(Health::CrashLooping),
            Word::Failed => Self::Report(Health::Failed),
            Word::Succeeded => Self::Report(Health::Succeeded),
            Word::Exit => Self::Exit,
            Word::Stopped => Self::Stop,
            Word::Unhealthy => Self::FailProbes,
            Word::Debug => Self::Debug,
            Word::Change => Self::Change,
            Word::Reset => Self::Reset,
            Word::Remove => Self::Remove,
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Stage {
    /// Name of the row, for readers of the table.
    name: String,
    state: State,
    /// Value of the behaviour annotation; without it, the row fits any value.
    behaviour: Option<String>,
    /// Labels that the pod must have.
    #[serde(default)]
    selector: BTreeMap<String, String>,
    restart_policy: Option<String>,
    /// Whether the containers of the pod exit by themselves; without it, the row fits both.
    ends: Option<bool>,
    #[serde(default, deserialize_with = "duration")]
    after: Option<Duration>,
    /// Upper limit of the random part of the delay.
    #[serde(default, deserialize_with = "duration")]
    jitter: Option<Duration>,
    pub(super) then: Action,
    /// Replaces the default reason of an ended container, or of one that waits for its creation.
    pub(super) reason: Option<String>,
    /// Replaces the default message of a waiting container.
    pub(super) message: Option<String>,
}

fn duration<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed: Result<SignedDuration, _> = text.parse();
    let fits = parsed
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok());
    fits.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("{text:?} is no duration such as 500ms or 1m30s"))
    })
}

impl Stage {
    fn fits(&self, state: State, pod: &SimPod) -> bool {
        self.state == state
            && self
                .behaviour
                .as_ref()
                .is_none_or(|wanted| **wanted == *pod.behaviour)
            && self
                .restart_policy
                .as_ref()
                .is_none_or(|wanted| **wanted == *pod.restart_policy)
            && self
                .ends
                .is_none_or(|wanted| wanted == pod.ending().is_some())
            && self.selector.iter().all(|(key, value)| {
                pod.meta()
                    .labels
                    .get(key)
                    .is_some_and(|found| found.as_str() == value)
            })
    }
}

/// The table of stages. Clones share it.
#[derive(Debug, Clone)]
pub struct Stages(Arc<[Stage]>);

/// A table is not valid YAML, or has an unknown state, action or key.
#[derive(Debug, thiserror::Error)]
#[error("table of stages: {0}")]
pub struct StagesError(String);

impl Default for Stages {
    fn default() -> Self {
        Self::parse(include_str!("stages.yaml"))
            .map(|rows| Self(rows.into()))
            .expect("the built-in table is tested")
    }
}

impl Stages {
    /// A table of the rows of a YAML document, followed by the built-in rows. `docs/devcluster.md`
    /// describes the format.
    ///
    /// ```
    /// use steersman_devcluster::nodes::Stages;
    ///
    /// let flaky = "stages: [{name: crash-later, state: ready, behaviour: flaky, after: 1m, then: crash-loop, reason: OOMKilled}]";
    /// assert!(Stages::with(flaky).is_ok());
    /// assert!(Stages::with("stages: [{name: x, state: asleep, then: ready}]").is_err());
    /// ```
    pub fn with(yaml: &str) -> Result<Self, StagesError> {
        let mut rows = Self::parse(yaml)?;
        rows.extend(Self::default().0.iter().cloned());
        Ok(Self(rows.into()))
    }

    fn parse(yaml: &str) -> Result<Vec<Stage>, StagesError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Document {
            stages: Vec<Stage>,
        }
        let document: Document = serde_saphyr::from_str(yaml)
            .map_err(|error| StagesError(error.without_snippet().to_string()))?;
        Ok(document.stages)
    }

    /// Position of the first row that fits `pod` in its present state. `None` if no row fits, or if
    /// its action is [`Action::Nothing`].
    pub(super) fn find(&self, pod: &SimPod) -> Option<usize> {
        let state = State::of(pod);
        self.0
            .iter()
            .position(|stage| stage.fits(state, pod))
            .filter(|&row| self.0[row].then != Action::Nothing)
    }

    /// The row at a position that [`Stages::find`] returned.
    pub(super) fn row(&self, position: usize) -> &Stage {
        &self.0[position]
    }

    /// Delay of `pod` in the row at a position. Without `after` it is the pod's own time, or else
    /// the one of `latency`. `random`, from 0 to 1, selects the part of the jitter.
    pub(super) fn delay(
        &self,
        position: usize,
        pod: &SimPod,
        latency: &Latency,
        random: f64,
    ) -> Duration {
        let row = &self.0[position];
        row.after
            .or_else(|| own_time(row.state, pod))
            .unwrap_or_else(|| latency.of(row.state))
            + row.jitter.unwrap_or_default().mul_f64(random)
    }

    /// Names of the rows, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|stage| stage.name.as_str())
    }
}

/// The time in a state that the pod itself defines: the run time of containers that exit, and the
/// back-off of their restart.
fn own_time(state: State, pod: &SimPod) -> Option<Duration> {
    if state == State::Creating {
        return pod.waiting_init().map(back_off);
    }
    let ending = pod.ending()?;
    match state {
        State::Ready => Some(ending.run_time),
        State::Waiting => Some(back_off(pod.pod.restarts)),
        _ => None,
    }
}

/// Options of a kubelet's final delete: no grace, and a UID precondition, which protects a new pod
/// of the same name.
pub(super) fn remove_options(pod: &SimPod) -> Value {
    json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod.pod.meta.uid.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: Option<&str>, node: Option<&str>, phase: &str, extra: &Value) -> SimPod {
        let mut json = json!({
            "metadata": { "name": "p", "namespace": "d", "uid": "u", "annotations": {}, "labels": { "app": "db" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
            "status": { "phase": phase }
        });
        if let Some(text) = annotation {
            json["metadata"]["annotations"][super::super::BEHAVIOUR] = text.into();
        }
        if let Some(node) = node {
            json["spec"]["nodeName"] = node.into();
        }
        json_patch::merge(&mut json, extra);
        SimPod::decode(json.to_string().as_bytes()).unwrap()
    }

    fn next(stages: &Stages, pod: &SimPod) -> Action {
        stages
            .find(pod)
            .map_or(Action::Nothing, |row| stages.row(row).then)
    }

    #[test]
    fn each_state_leads_to_one_action() {
        let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let gone = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let waiting = json!({ "status": { "containerStatuses": [{ "name": "c", "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] } });
        let gated = json!({ "spec": { "schedulingGates": [{ "name": "g" }] } });
        let scheduled_by = |name: &str| json!({ "spec": { "schedulerName": name } });
        let other_scheduler = scheduled_by("other-scheduler");
        let default_scheduler = scheduled_by("default-scheduler");
        let never = json!({ "spec": { "restartPolicy": "Never" } });
        let n = Some("n");
        let none = &json!({});
        // (why, annotation, node, phase, extra, action)
        let cases = [
            ("new", None, None, "Pending", none, Action::Bind),
            ("gated", None, None, "Pending", &gated, Action::Nothing),
            (
                "another scheduler's",
                None,
                None,
                "Pending",
                &other_scheduler,
                Action::Nothing,
            ),
            (
                "the default scheduler's",
                None,
                None,
                "Pending",
                &default_scheduler,
                Action::Bind,
            ),
            (
                "bound",
                None,
                n,
                "Pending",
                none,
                Action::Report(Health::Unready),
            ),
            (
                "running",
                None,
                n,
                "Running",
                none,
                Action::Report(Health::Ready),
            ),
            ("ready", None, n, "Running", &ready, Action::Nothing),
            ("failing", Some("fail"), n, "Running", none, Action::Exit),
            (
                "failing without restart",
                Some("fail"),
                n,
                "Running",
                &never,
                Action::Exit,
            ),
            (
                "crash-looping",
                Some("fail"),
                n,
                "Running",
                &waiting,
                Action::Report(Health::Unready),
            ),
            (
                "hanging",
                Some("hang"),
                n,
                "Pending",
                none,
                Action::Report(Health::Creating),
            ),
            (
                "creation reported, hanging",
                Some("hang"),
                n,
                "Pending",
                &waiting,
                Action::Nothing,
            ),
            (
                "creation reported, no longer hanging",
                None,
                n,
                "Pending",
                &waiting,
                Action::Report(Health::Unready),
            ),
            (
                "never ready",
                Some("never-ready"),
                n,
                "Running",
                none,
                Action::FailProbes,
            ),
            (
                "completing",
                Some("complete"),
                n,
                "Running",
                none,
                Action::Report(Health::Succeeded),
            ),
            (
                "complete",
                Some("complete"),
                n,
                "Succeeded",
                none,
                Action::Nothing,
            ),
            ("terminating", None, n, "Running", &gone, Action::Remove),
            (
                "terminating, not bound",
                None,
                None,
                "Pending",
                &gone,
                Action::Nothing,
            ),
            (
                "unknown behaviour",
                Some("dance"),
                n,
                "Running",
                none,
                Action::Report(Health::Ready),
            ),
        ];
        for (why, annotation, node, phase, extra, expected) in cases {
            assert_eq!(
                next(&Stages::default(), &pod(annotation, node, phase, extra)),
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn rows_of_the_user_come_first_and_apply_only_to_their_pods() {
        let stages = Stages::with(
            "stages:\n- {name: slow, state: running, behaviour: slow, after: 1m30s, jitter: 10s, then: ready}\n\
             - {name: hold, state: running, selector: {app: db}, then: nothing}\n",
        )
        .unwrap();
        assert_eq!(
            stages.names().take(3).collect::<Vec<_>>(),
            ["slow", "hold", "fail-at-once"]
        );
        let other = json!({ "metadata": { "labels": { "app": "web" } } });
        // (annotation, extra, action)
        let cases = [
            (None, &json!({}), Action::Nothing),
            (None, &other, Action::Report(Health::Ready)),
            (Some("slow"), &json!({}), Action::Report(Health::Ready)),
        ];
        for (annotation, extra, expected) in cases {
            assert_eq!(
                next(&stages, &pod(annotation, Some("n"), "Running", extra)),
                expected,
                "{annotation:?} {extra}"
            );
        }
        let latency = Latency::default();
        let web = pod(None, Some("n"), "Pending", &other);
        let delay = |row| stages.delay(row, &web, &latency, 0.5);
        assert_eq!(delay(0), Duration::from_secs(95));
        assert_eq!(delay(stages.find(&web).unwrap()), latency.start);
    }

    #[test]
    fn errors_of_a_wrong_table_name_the_line() {
        // (table, part of the error)
        let cases = [
            (
                "stages: [{name: a, state: asleep, then: ready}]",
                "unknown variant `asleep`",
            ),
            (
                "stages: [{name: a, state: ready, then: dance}]",
                "unknown variant `dance`",
            ),
            ("stages: [{name: a, state: ready}]", "missing field `then`"),
            (
                "stages: [{name: a, state: ready, then: ready, color: red}]",
                "unknown field `color`",
            ),
            (
                "stages: [{name: a, state: ready, then: ready, after: soon}]",
                "\"soon\" is no duration such as 500ms or 1m30s",
            ),
            (
                "stages: [{name: a, state: ready, then: ready, after: -1s}]",
                "\"-1s\" is no duration",
            ),
            ("stages: [", "table of stages: "),
        ];
        for (table, expected) in cases {
            let error = Stages::with(table).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("line 1"), "{error}");
        }
    }
}
