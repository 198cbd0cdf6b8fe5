//! Cells of pods. The column STATUS summarizes the pod in one word.
//!
//! The rules are those of upstream's `printPod`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, age_cell, age_since, list, name, number, or, text};

/// Status reason of pods on nodes that do not answer.
const NODE_LOST: &str = "NodeLost";

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let total = list(pod, "/spec/containers").len()
        + list(pod, "/spec/initContainers")
            .iter()
            .filter(|c| is_sidecar(c))
            .count();
    let restarts = match (summary.restarts.count, summary.restarts.last) {
        (count @ 1.., Some(last)) => format!("{count} ({} ago)", age_since(Some(&last), now)),
        (count, _) => count.to_string(),
    };
    vec![
        name(pod),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.status),
        json!(restarts),
        age_cell(pod, now),
        json!(or(text(pod, "/status/podIPs/0/ip"), NONE)),
        json!(or(text(pod, "/spec/nodeName"), NONE)),
        json!(or(text(pod, "/status/nominatedNodeName"), NONE)),
        json!(readiness_gates(pod)),
    ]
}

/// The word of the column STATUS, such as `Running` or `CrashLoopBackOff`.
pub fn status(pod: &Value) -> String {
    Summary::of(pod).status
}

/// Number of restarts, and the end of the latest run.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Value>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += number(status, "/restartCount");
        // Times are texts in UTC, so they sort like times.
        let finished = text(status, "/lastState/terminated/finishedAt");
        if !finished.is_empty()
            && self
                .last
                .as_ref()
                .and_then(Value::as_str)
                .is_none_or(|last| last < finished)
        {
            self.last = Some(json!(finished));
        }
    }
}

struct Summary {
    status: String,
    ready: usize,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let phase = text(pod, "/status/phase");
        let mut summary = Summary {
            status: or(text(pod, "/status/reason"), phase).to_owned(),
            ready: 0,
            restarts: Restarts::default(),
        };
        let is_gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if list(pod, "/status/conditions").iter().any(is_gated) {
            summary.status = "SchedulingGated".to_owned();
        }
        let initializing = summary.init_containers(pod);
        if !initializing || has_condition(pod, "Initialized") {
            summary.containers(pod);
        }
        let is_deleted = pod
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(|time| !time.is_null());
        if is_deleted && text(pod, "/status/reason") == NODE_LOST {
            summary.status = "Unknown".to_owned();
        } else if is_deleted && !["Succeeded", "Failed"].contains(&phase) {
            summary.status = "Terminating".to_owned();
        }
        summary
    }

    /// Reads the init containers up to the first unfinished one. Returns whether there is an
    /// unfinished one.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let specs = list(pod, "/spec/initContainers");
        let is_sidecar = |status: &Value| {
            specs
                .iter()
                .any(|c| c["name"] == status["name"] && is_sidecar(c))
        };
        let mut of_sidecars = Restarts::default();
        let mut current = None;
        for (index, status) in list(pod, "/status/initContainerStatuses")
            .iter()
            .enumerate()
        {
            self.restarts.add(status);
            if is_sidecar(status) {
                of_sidecars.add(status);
            }
            if status.pointer("/state/terminated/exitCode") == Some(&json!(0)) {
                continue;
            }
            if is_sidecar(status) && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            current = Some(match (outcome(status), waiting) {
                (Some(outcome), _) => format!("Init:{outcome}"),
                (None, "" | "PodInitializing") => format!("Init:{index}/{}", specs.len()),
                (None, waiting) => format!("Init:{waiting}"),
            });
            break;
        }
        let initializing = current.is_some();
        self.status = current.unwrap_or_else(|| std::mem::take(&mut self.status));
        if !initializing || has_condition(pod, "Initialized") {
            // After initialization, upstream counts the restarts of sidecars only.
            self.restarts = of_sidecars;
        }
        initializing
    }

    /// Reads the containers from last to first, so the first one with a reason decides.
    fn containers(&mut self, pod: &Value) {
        let mut has_running = false;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(outcome) = outcome(status) {
                self.status = outcome;
            } else if status["ready"] == true && status.pointer("/state/running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && has_running {
            self.status = if has_condition(pod, "Ready") {
                "Running"
            } else {
                "NotReady"
            }
            .to_owned();
        }
    }
}

/// The reason, signal or exit code of a terminated container.
fn outcome(status: &Value) -> Option<String> {
    let terminated = status
        .pointer("/state/terminated")
        .filter(|state| !state.is_null())?;
    Some(
        match (text(terminated, "/reason"), number(terminated, "/signal")) {
            ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
            ("", signal) => format!("Signal:{signal}"),
            (reason, _) => reason.to_owned(),
        },
    )
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    list(pod, "/status/conditions")
        .iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| has_condition(pod, text(gate, "/conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ready, Status and Restarts of a pod with `status`.
    fn shown(mut pod: Value, status: Value) -> [String; 3] {
        pod["status"] = status;
        let now = "2024-01-01T01:00:00Z".parse().unwrap();
        let cells = cells(&pod, now);
        [1, 2, 3].map(|column| cells[column].as_str().unwrap().to_owned())
    }

    #[test]
    fn the_status_is_the_most_specific_reason() {
        let plain = json!({"spec": {"containers": [{"name": "c"}]}});
        let with_init = json!({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]}});
        let sidecar = json!({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}});
        let two = json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}});
        let deleted = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "spec": {"containers": [{"name": "c"}]}});
        let running =
            json!({"name": "c", "ready": true, "restartCount": 0, "state": {"running": {}}});
        let completed = json!({"name": "d", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let init = |state: Value| json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 1, "state": state}]});
        let main = |state: Value| json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 0, "state": state}]});
        let cases = [
            (
                "phase",
                &plain,
                json!({"phase": "Pending"}),
                ["0/1", "Pending", "0"],
            ),
            (
                "reason",
                &plain,
                json!({"phase": "Failed", "reason": "Evicted"}),
                ["0/1", "Evicted", "0"],
            ),
            (
                "gated",
                &plain,
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
                ["0/1", "SchedulingGated", "0"],
            ),
            (
                "running",
                &plain,
                json!({"phase": "Running", "containerStatuses": [running]}),
                ["1/1", "Running", "0"],
            ),
            (
                "init waits",
                &with_init,
                init(json!({"waiting": {"reason": "ImagePullBackOff"}})),
                ["0/1", "Init:ImagePullBackOff", "1"],
            ),
            (
                "init runs",
                &with_init,
                init(json!({"running": {}})),
                ["0/1", "Init:0/2", "1"],
            ),
            (
                "init fails",
                &with_init,
                init(json!({"terminated": {"exitCode": 3}})),
                ["0/1", "Init:ExitCode:3", "1"],
            ),
            (
                "init is killed",
                &with_init,
                init(json!({"terminated": {"exitCode": 1, "signal": 9}})),
                ["0/1", "Init:Signal:9", "1"],
            ),
            (
                "init fails by name",
                &with_init,
                init(json!({"terminated": {"exitCode": 1, "reason": "Error"}})),
                ["0/1", "Init:Error", "1"],
            ),
            (
                "init is done",
                &with_init,
                init(json!({"terminated": {"exitCode": 0}})),
                ["0/1", "Pending", "0"],
            ),
            (
                "a started sidecar counts",
                &sidecar,
                json!({"phase": "Running", "containerStatuses": [running],
                    "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}}]}),
                ["2/2", "Running", "2"],
            ),
            (
                "waiting",
                &plain,
                main(json!({"waiting": {"reason": "CrashLoopBackOff"}})),
                ["0/1", "CrashLoopBackOff", "0"],
            ),
            (
                "exit code",
                &plain,
                main(json!({"terminated": {"exitCode": 2}})),
                ["0/1", "ExitCode:2", "0"],
            ),
            (
                "signal",
                &plain,
                main(json!({"terminated": {"exitCode": 2, "signal": 15}})),
                ["0/1", "Signal:15", "0"],
            ),
            (
                "half done",
                &two,
                json!({"phase": "Running", "containerStatuses": [completed, running]}),
                ["1/2", "NotReady", "0"],
            ),
            (
                "half done and ready",
                &two,
                json!({"phase": "Running", "containerStatuses": [completed, running], "conditions": [{"type": "Ready", "status": "True"}]}),
                ["1/2", "Running", "0"],
            ),
            (
                "terminating",
                &deleted,
                json!({"phase": "Running"}),
                ["0/1", "Terminating", "0"],
            ),
            (
                "finished before deletion",
                &deleted,
                json!({"phase": "Succeeded"}),
                ["0/1", "Succeeded", "0"],
            ),
            (
                "lost",
                &deleted,
                json!({"phase": "Running", "reason": "NodeLost"}),
                ["0/1", "Unknown", "0"],
            ),
        ];
        for (why, pod, status, expected) in cases {
            assert_eq!(shown(pod.clone(), status), expected, "{why}");
        }
    }

    #[test]
    fn restarts_show_the_time_of_the_latest_one() {
        let status = |count: i64, at: &str| json!({"restartCount": count, "state": {}, "lastState": {"terminated": {"finishedAt": at}}});
        let statuses = json!({"containerStatuses": [status(1, "2024-01-01T00:55:00Z"), status(2, "2024-01-01T00:10:00Z")]});
        assert_eq!(shown(json!({}), statuses)[2], "3 (5m ago)");
    }
}
