//! Logs of the containers of simulated pods: the lines of an annotation, or else a line for the start of a
//! run, and one for its end.
//!
//! status of the pod -> the run that upstream would show -> lines -> text
//!
//! A simulated container writes nothing, so its status holds all that a log can tell. The answer ends
//! at once, also with `follow`. Upstream: `LogLocation` in `pkg/registry/core/pod/strategy.go`, and
//! `validateContainerLogStatus` in `pkg/kubelet/kubelet_pods.go`.

use serde_json::Value;

use super::{Answer, Body, Call, Content, Server};
use crate::containers::Container;
use crate::status::Status;

/// Lists of containers in a spec, and of their statuses.
const LISTS: [(&str, &str); 3] = [
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

impl Server {
    /// Logs of a pod; empty before it is bound.
    pub(super) fn log(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let pod = self.existing(call.target)?.to_value();
        let container = container(&pod, call.query.text("container"))?;
        if matches!(pod["spec"]["nodeName"].as_str(), None | Some("")) {
            return Ok(Answer {
                code: 204,
                content: Content::Body(Body::Whole(None)),
                warnings: Vec::new(),
            });
        }
        let is_on = |flag: &str| call.query.flag(flag) == Some(true);
        let mut lines = lines(&pod, container, is_on("previous")).map_err(Status::bad_request)?;
        if let Some(text) = Container::new(&pod, container).logs()
            && let [(start, _), ..] = &lines[..]
        {
            let line = |line: &str| (start.clone(), line.to_owned());
            lines = text.lines().map(line).collect();
        }
        let last = call.query.number("tailLines")?;
        if let Some(last) = last.and_then(|last| usize::try_from(last).ok()) {
            lines.drain(..lines.len().saturating_sub(last));
        }
        let mut text = String::new();
        for (time, line) in lines {
            if is_on("timestamps") {
                text.push_str(&time);
                text.push(' ');
            }
            text.push_str(&line);
            text.push('\n');
        }
        let limit = call.query.number("limitBytes")?;
        if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) {
            let kept = &text.as_bytes()[..limit.min(text.len())];
            text = String::from_utf8_lossy(kept).into_owned();
        }
        Ok(Answer {
            code: 200,
            content: Content::Text(text),
            warnings: Vec::new(),
        })
    }
}

/// The container with this name, or the only one without a name.
pub(super) fn container<'a>(pod: &'a Value, name: &'a str) -> Result<&'a str, Status> {
    let of = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let names = |list: &str| -> Vec<&'a str> {
        let names = of(list).filter_map(|container| container["name"].as_str());
        names.collect()
    };
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    // Upstream visits init containers first.
    let order = ["initContainers", "containers", "ephemeralContainers"];
    let all = order.map(names).concat();
    match (name, &names("containers")[..]) {
        ("", [only]) => Ok(only),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (name, _) if all.contains(&name) => Ok(name),
        (name, _) => Err(Status::bad_request(format!(
            "container {name} is not valid for pod {pod_name}"
        ))),
    }
}

/// The lines of a container's current or previous run, with their times. The error is a kubelet's.
fn lines(pod: &Value, container: &str, previous: bool) -> Result<Vec<(String, String)>, String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let statuses = LISTS.map(|(_, list)| pod["status"][list].as_array());
    let status = statuses
        .into_iter()
        .flatten()
        .flatten()
        .find(|status| status["name"] == container)
        .ok_or_else(|| format!("container {container:?} in pod {name:?} is not available"))?;
    let state = &status["state"];
    let last = &status["lastState"]["terminated"];
    let restarts = status["restartCount"].as_i64().unwrap_or_default();
    let (run, number) = match (&state["running"], &state["terminated"]) {
        _ if previous && last.is_null() => {
            return Err(format!(
                "previous terminated container {container:?} in pod {name:?} not found"
            ));
        }
        // A container that waits has not started again after its last end.
        _ if previous => (last, restarts + i64::from(state["waiting"].is_object())),
        (running @ Value::Object(_), _) => (running, restarts + 1),
        (_, ended @ Value::Object(_)) => (ended, restarts + 1),
        _ if !last.is_null() => (last, restarts + 1),
        _ => {
            let reason = state["waiting"]["reason"].as_str().unwrap_or_default();
            return Err(format!(
                "container {container:?} in pod {name:?} is waiting to start: {reason}"
            ));
        }
    };
    let text = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
    let image = status["image"].as_str().unwrap_or_default();
    let start = format!("simulated container {container} of image {image}: start {number}");
    let mut lines = vec![(text("startedAt"), start)];
    if let Some(code) = run["exitCode"].as_i64() {
        let end = format!("simulated container {container}: exit code {code}");
        lines.push((text("finishedAt"), end));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_log_shows_the_run_that_a_kubelet_would_show() {
        let running = json!({"running": {"startedAt": "t2"}});
        let ended = json!({"terminated": {"startedAt": "t0", "finishedAt": "t1", "exitCode": 3}});
        let looping = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let creating = json!({"waiting": {"reason": "ContainerCreating"}});
        let first = "t2 simulated container c of image i: start 1";
        let second = "t2 simulated container c of image i: start 2";
        let crash =
            "t0 simulated container c of image i: start 1, t1 simulated container c: exit code 3";
        // (state, last state, restarts, previous, log or error)
        let cases = [
            (&running, json!({}), 0, false, Ok(first)),
            (&running, ended.clone(), 1, false, Ok(second)),
            (&running, ended.clone(), 1, true, Ok(crash)),
            (&ended, json!({}), 0, false, Ok(crash)),
            (&looping, ended.clone(), 0, false, Ok(crash)),
            (
                &creating,
                json!({}),
                0,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                &running,
                json!({}),
                0,
                true,
                Err("previous terminated container \"c\" in pod \"p\" not found"),
            ),
        ];
        for (state, last, restarts, previous, expected) in cases {
            let status = json!({"name": "c", "image": "i", "state": state, "lastState": last, "restartCount": restarts});
            let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}});
            let found = lines(&pod, "c", previous).map(|lines| {
                let lines = lines
                    .into_iter()
                    .map(|(time, line)| format!("{time} {line}"));
                lines.collect::<Vec<_>>().join(", ")
            });
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
    }

    #[test]
    fn the_container_of_a_log_is_named_or_the_only_one() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]
        }});
        let message = |name| container(&pod, name).unwrap_err().message;
        assert_eq!(container(&pod, "i").ok(), Some("i"));
        assert_eq!(
            message(""),
            "a container name must be specified for pod p, choose one of: [i a b]"
        );
        assert_eq!(message("z"), "container z is not valid for pod p");
    }
}
