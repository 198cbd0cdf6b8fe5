//! Logs of the containers of simulated pods: the lines of an annotation, or else a line for the start of a
//! run, and one for its end.
//!
//! status of the pod -> the run that upstream would show -> lines -> text
//!
//! A simulated container writes nothing, so its status holds all that a log can tell. With `follow` the
//! answer goes on until the run ends. Upstream: `LogLocation` in `pkg/registry/core/pod/strategy.go`, and
//! `validateContainerLogStatus` in `pkg/kubelet/kubelet_pods.go`.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use serde_json::Value;

use super::{Answer, Body, Call, Content, Server};
use crate::containers::Container;
use crate::registry::Registered;
use crate::status::Status;

/// Lists of containers in a spec, and of their statuses.
const LISTS: [(&str, &str); 3] = [
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

/// How a log is shown.
struct Options {
    previous: bool,
    timestamps: bool,
    /// Bytes after which the log ends.
    limit: Option<usize>,
}

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
        let size = |name: &str| -> Result<Option<usize>, Status> {
            let number = call.query.number(name)?;
            Ok(number.and_then(|number| usize::try_from(number).ok()))
        };
        let options = Options {
            previous: is_on("previous"),
            timestamps: is_on("timestamps"),
            limit: size("limitBytes")?,
        };
        let run = Run::of(&pod, container, options.previous).map_err(Status::bad_request)?;
        let mut lines = run.lines(&pod, container);
        if let Some(last) = size("tailLines")? {
            lines.drain(..lines.len().saturating_sub(last));
        }
        let text = options.shown(&lines, 0);
        let is_full = options.limit.is_some_and(|limit| text.len() >= limit);
        let body = if is_on("follow") && run.is_going_on() && !is_full {
            let follower = Follower {
                pods: Arc::clone(&call.target.entry),
                key: call.target.key(),
                uid: pod["metadata"]["uid"].clone(),
                container: container.to_owned(),
                run,
                sent: text.len(),
                options,
            };
            let start = futures::stream::iter(Some(Bytes::from(text)));
            Body::stream(start.chain(futures::stream::once(follower.rest())))
        } else {
            Body::whole(text)
        };
        Ok(Answer {
            code: 200,
            content: Content::Text(body),
            warnings: Vec::new(),
        })
    }
}

impl Options {
    /// The text of the lines, after `sent` bytes of earlier ones.
    fn shown(&self, lines: &[(String, String)], sent: usize) -> String {
        let mut text = String::new();
        for (time, line) in lines {
            if self.timestamps {
                text.push_str(time);
                text.push(' ');
            }
            text.push_str(line);
            text.push('\n');
        }
        let Some(limit) = self.limit else { return text };
        let kept = &text.as_bytes()[..limit.saturating_sub(sent).min(text.len())];
        String::from_utf8_lossy(kept).into_owned()
    }
}

/// A client that follows the run of a container.
struct Follower {
    pods: Arc<Registered>,
    key: String,
    uid: Value,
    container: String,
    run: Run,
    /// The bytes that the client has.
    sent: usize,
    options: Options,
}

impl Follower {
    /// The lines after the present ones, once the run or the pod has ended.
    async fn rest(self) -> Bytes {
        let mut committed = self.pods.store.committed();
        loop {
            committed.borrow_and_update();
            let pod = self.pods.store.get(&self.key).map(|pod| pod.to_value());
            let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == self.uid) else {
                return Bytes::new();
            };
            // A run that ended long ago, or a newer one in its place, are other runs.
            let found = [false, true]
                .into_iter()
                .filter_map(|previous| Run::of(&pod, &self.container, previous).ok())
                .find(|run| run.started() == self.run.started());
            match found {
                Some(run) if run.is_going_on() => {}
                Some(run) => {
                    let known = self.run.lines(&pod, &self.container).len();
                    let lines = run.lines(&pod, &self.container);
                    let new = lines.get(known..).unwrap_or_default();
                    return Bytes::from(self.options.shown(new, self.sent));
                }
                None => return Bytes::new(),
            }
            if committed.changed().await.is_err() {
                return Bytes::new();
            }
        }
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

/// A run of a container, which a log shows.
struct Run {
    /// `running` or `terminated` of the container's state.
    state: Value,
    image: String,
    /// The first run is number 1.
    number: i64,
}

impl Run {
    /// The current or previous run of a container. The error is a kubelet's.
    fn of(pod: &Value, container: &str, previous: bool) -> Result<Self, String> {
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
        Ok(Self {
            state: run.clone(),
            image: status["image"].as_str().unwrap_or_default().to_owned(),
            number,
        })
    }

    fn started(&self) -> &Value {
        &self.state["startedAt"]
    }

    fn is_going_on(&self) -> bool {
        self.state["exitCode"].is_null()
    }

    /// The lines of its log, with their times: those of an annotation, or else its start and its end.
    fn lines(&self, pod: &Value, container: &str) -> Vec<(String, String)> {
        let text = |field: &str| self.state[field].as_str().unwrap_or_default().to_owned();
        if let Some(logs) = Container::new(pod, container).logs() {
            let line = |line: &str| (text("startedAt"), line.to_owned());
            return logs.lines().map(line).collect();
        }
        let start = format!(
            "simulated container {container} of image {}: start {}",
            self.image, self.number
        );
        let mut lines = vec![(text("startedAt"), start)];
        if let Some(code) = self.state["exitCode"].as_i64() {
            let end = format!("simulated container {container}: exit code {code}");
            lines.push((text("finishedAt"), end));
        }
        lines
    }
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
            let found = Run::of(&pod, "c", previous).map(|run| {
                let lines = run
                    .lines(&pod, "c")
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
