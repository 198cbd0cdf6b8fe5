//! The Events that a scheduler and kubelets write about pods.
//!
//! pod, its next status -> [`happenings`] (pure) -> recorder, which counts equal Events
//!
//! Upstream: `pkg/kubelet/events/event.go`, `pkg/kubelet/kuberuntime` and `pkg/kubelet/images`, with
//! their words.

use std::collections::HashSet;

use parking_lot::Mutex;
use serde_json::Value;
use steersman_client::ApiClient;
use steersman_objects::{Object, ObjectReference};
use steersman_releases::Release;
use steersman_runtime::events::{EventRecorder, EventType, Origin};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;

use super::pod::{Container, Reported, SimPod};
use super::resize::{self, ALL_EVENTS, COMPLETION_EVENT, Step};
use super::scheduler::Recorder;

/// Capacity of the queue of Events. All simulated kubelets share it.
const QUEUE: usize = 100_000;

/// Records the Events about pods.
pub(super) struct Journal {
    /// The Events of the scheduler.
    pub(super) scheduler: Recorder,
    kubelets: EventRecorder,
    /// Pairs of node and image that was pulled there.
    pulled: Mutex<HashSet<(Box<str>, Box<str>)>>,
}

/// An Event about a container.
#[derive(Debug)]
struct Happening<'a> {
    /// Its part of the pod, such as `spec.containers{main}`.
    part: String,
    what: What<'a>,
}

#[derive(Debug)]
enum What<'a> {
    /// The container started.
    Started(&'a Container),
    /// The restart of the container waits.
    BackOff(&'a Container),
    /// The container cannot be created, for this reason.
    Failed(&'a str),
}

impl Journal {
    pub(super) fn start(
        client: &ApiClient,
        clock: &Clock,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Self {
        let scheduler = Recorder::start(client, clock, tasks, stop);
        let client = client.clone();
        let clock = clock.clone();
        Self {
            scheduler,
            kubelets: EventRecorder::with_queue(QUEUE, "kubelet", client, clock, tasks, stop),
            pulled: Mutex::default(),
        }
    }

    /// A volume of the pod cannot be mounted.
    pub(super) fn failed_mount(&self, pod: &SimPod, message: &str) {
        self.record(
            pod,
            String::new(),
            EventType::Warning,
            "FailedMount",
            message.to_owned(),
        );
    }

    /// The readiness probe of each running container failed.
    pub(super) fn unhealthy(&self, pod: &SimPod) {
        for container in &pod.containers {
            let message = "Readiness probe failed: simulated".to_owned();
            let part = part("containers", container);
            self.record(pod, part, EventType::Warning, "Unhealthy", message);
        }
    }

    /// The containers of the pod are being stopped.
    pub(super) fn killing(&self, pod: &SimPod) {
        self.kill(pod, &lists(pod), |container| {
            format!("Stopping container {}", container.name)
        });
    }

    /// All containers but ephemeral ones are being removed, to start again.
    pub(super) fn removing(&self, pod: &SimPod) {
        let [inits, containers, _] = lists(pod);
        self.kill(pod, &[inits, containers], |_| "killing".to_owned());
    }

    fn kill(
        &self,
        pod: &SimPod,
        lists: &[(&str, &[Container])],
        message: impl Fn(&Container) -> String,
    ) {
        for (list, containers) in lists {
            for container in containers.iter().filter(|one| is_running(pod, one)) {
                let part = part(list, container);
                self.record(pod, part, EventType::Normal, "Killing", message(container));
            }
        }
    }

    /// A kubelet of `release` takes this step of a resize.
    pub(super) fn resized(&self, pod: &SimPod, step: &Step, release: Release) {
        let (kind, reason, word) = match step {
            Step::Actuate if release >= COMPLETION_EVENT => {
                (EventType::Normal, "ResizeCompleted", "completed".to_owned())
            }
            _ if release < ALL_EVENTS => return,
            Step::Allocate => (EventType::Normal, "ResizeStarted", "started".to_owned()),
            Step::Wait(refusal) if resize::is_told(pod, refusal) => return,
            Step::Wait(refusal) => {
                let reason = if refusal.is_infeasible() {
                    "ResizeInfeasible"
                } else {
                    "ResizeDeferred"
                };
                (EventType::Warning, reason, refusal.word(release))
            }
            Step::Actuate | Step::Refresh => return,
        };
        let summary = resize::summary(pod, step, release);
        let message = format!("Pod resize {word}: {summary}");
        self.record(pod, String::new(), kind, reason, message);
    }

    /// The pod gets the status of this patch.
    pub(super) fn reported(&self, pod: &SimPod, patch: &Value) {
        for Happening { part, what } in happenings(pod, &patch["status"]) {
            let normal = |reason, message| {
                self.record(pod, part.clone(), EventType::Normal, reason, message);
            };
            let warning = |reason, message| {
                self.record(pod, part.clone(), EventType::Warning, reason, message);
            };
            match what {
                What::Started(container) => {
                    let image = &container.image;
                    if self.must_pull(pod, container) {
                        normal("Pulling", format!("Pulling image {image:?}"));
                        let message = format!(
                            "Successfully pulled image {image:?} in 0s (0s including waiting). Image size: 0 bytes."
                        );
                        normal("Pulled", message);
                    } else {
                        let message = format!(
                            "Container image {image:?} already present on machine and can be accessed by the pod"
                        );
                        normal("Pulled", message);
                    }
                    normal("Created", "Container created".to_owned());
                    normal("Started", "Container started".to_owned());
                }
                What::BackOff(container) => {
                    let meta = pod.meta();
                    let message = format!(
                        "Back-off restarting failed container {} in pod {}_{}({})",
                        container.name, meta.name, meta.namespace, meta.uid
                    );
                    warning("BackOff", message);
                }
                What::Failed(why) => warning("Failed", format!("Error: {why}")),
            }
        }
    }

    /// Whether the image of a container is pulled now. Afterwards it is on the node.
    fn must_pull(&self, pod: &SimPod, container: &Container) -> bool {
        let node = pod.pod.node.as_deref().unwrap_or_default();
        let image = (Box::from(node), Box::from(&*container.image));
        let mut pulled = self.pulled.lock();
        pulled.insert(image) || container.always_pulls()
    }

    fn record(
        &self,
        pod: &SimPod,
        field_path: String,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        let origin = Origin {
            host: pod.pod.node.as_deref().unwrap_or_default().to_owned(),
            field_path,
        };
        let object = ObjectReference::of(pod);
        self.kubelets
            .event_from(origin, object, kind, reason, message);
    }
}

/// The lists of containers of a pod, by the name of the field.
fn lists(pod: &SimPod) -> [(&'static str, &[Container]); 3] {
    [
        ("initContainers", &pod.init_containers),
        ("containers", &pod.containers),
        ("ephemeralContainers", &pod.ephemeral_containers),
    ]
}

fn part(list: &str, container: &Container) -> String {
    format!("spec.{list}{{{}}}", container.name)
}

fn is_running(pod: &SimPod, container: &Container) -> bool {
    let before = pod.reported_of(&container.name);
    before.and_then(Reported::running_since).is_some()
}

/// The Events between the last status of a pod and the next one.
fn happenings<'a>(pod: &'a SimPod, status: &'a Value) -> Vec<Happening<'a>> {
    let mut found = Vec::new();
    for (list, containers) in lists(pod) {
        let field = match list {
            "initContainers" => "initContainerStatuses",
            "containers" => "containerStatuses",
            _ => "ephemeralContainerStatuses",
        };
        let statuses = status[field].as_array().into_iter().flatten();
        for next in statuses {
            let name = next["name"].as_str().unwrap_or_default();
            let Some(container) = containers.iter().find(|one| one.name == name) else {
                continue;
            };
            let mut add = |what| {
                let part = part(list, container);
                found.push(Happening { part, what });
            };
            let before = pod.reported_of(name);
            let state = &next["state"];
            let restarts = next["restartCount"].as_i64().unwrap_or_default();
            let restarted = before.is_some_and(|before| restarts > before.restart_count.into());
            let was_running = before.and_then(Reported::running_since).is_some();
            let had_ended = before.is_some_and(|before| before.ended().is_some());
            // A container that ends at once started before.
            let has_run = state["running"].is_object() || state["terminated"].is_object();
            if has_run && !had_ended && (!was_running || restarted) {
                add(What::Started(container));
            }
            let waiting = &state["waiting"];
            let why = waiting["message"].as_str();
            match (waiting["reason"].as_str(), why) {
                (Some("CrashLoopBackOff"), _) => add(What::BackOff(container)),
                (Some("CreateContainerConfigError"), Some(why)) => add(What::Failed(why)),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: &Value, restarts: i64) -> SimPod {
        let status = json!({"name": "c", "state": state, "restartCount": restarts});
        let json = json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "containerStatuses": [status]}
        });
        SimPod::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn changes_of_containers_are_events() {
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let creating = json!({"waiting": {"reason": "ContainerCreating"}});
        let looping = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "m"}});
        let wrong =
            json!({"waiting": {"reason": "CreateContainerConfigError", "message": "no map"}});
        let ended = json!({"terminated": {"exitCode": 0}});
        // (why, state and restarts before and afterwards, names of the events)
        let cases = [
            ("start", (&creating, 0), (&running, 0), "started"),
            ("readiness", (&running, 0), (&running, 0), ""),
            ("restart at once", (&running, 0), (&running, 1), "started"),
            ("back-off", (&running, 1), (&looping, 1), "back-off"),
            ("restart", (&looping, 1), (&running, 2), "started"),
            ("configuration", (&creating, 0), (&wrong, 0), "no map"),
            ("end", (&running, 0), (&ended, 0), ""),
            ("end at once", (&creating, 0), (&ended, 0), "started"),
            ("ended before", (&ended, 0), (&ended, 0), ""),
        ];
        for (why, (state, restarts), (next, count), expected) in cases {
            let pod = pod(state, restarts);
            let next = json!({"name": "c", "state": next, "restartCount": count});
            let status = json!({"containerStatuses": [next]});
            let found: Vec<&str> = happenings(&pod, &status)
                .iter()
                .map(|happening| match happening.what {
                    What::Started(_) => "started",
                    What::BackOff(_) => "back-off",
                    What::Failed(why) => why,
                })
                .collect();
            assert_eq!(found.join(" "), expected, "{why}");
        }
    }
}
