//! Why a container does not run: its image, its configuration, or its own end.

use jiff::Timestamp;
use serde_json::Value;
use steersman_values::resource::{NODES, SECRETS};

use super::{KUBELET, RESTARTED, START, exit, name, probes};
use crate::defaults::{Bound, Origin};
use crate::{Code, Doc, Explanation, Reason, World, warning};

pub(super) struct Waits;

/// The reason of one container; `Err` if it waits without a cause of its own.
pub(super) fn container(is_init: bool, status: &Value) -> Option<Result<Reason, Waits>> {
    let kind = if is_init {
        "init container"
    } else {
        "container"
    };
    let name = name(status);
    let waiting = status.pointer("/state/waiting");
    let last = status.pointer("/lastState/terminated");
    if let Some(waiting) = waiting {
        let why = waiting["reason"].as_str().unwrap_or_default();
        let said = waiting["message"].as_str().unwrap_or_default();
        let image = status["image"].as_str().unwrap_or_default();
        let (code, message, who) = match why {
            "ErrImageNeverPull" => (
                Code::ImagePull,
                format!("{kind} {name}: image {image:?} is not on the node ({why}): {said}"),
                "owner of the pod template (imagePullPolicy), or administrator of the node (the image)",
            ),
            "ImagePullBackOff"
            | "ErrImagePull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "RegistryUnavailable" => (
                Code::ImagePull,
                format!("{kind} {name}: image {image:?} cannot be pulled ({why}): {said}"),
                "owner of the pod template, or of the registry and its pull secret",
            ),
            "CrashLoopBackOff" => {
                let end = last.map(exit).unwrap_or_else(|| said.to_owned());
                return Some(Ok(crash(kind, status, &end)));
            }
            "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "PreStartHookError"
            | "PostStartHookError" => (
                Code::ContainerConfig,
                format!("{kind} {name} cannot be started ({why}): {said}"),
                if said.contains("runAsNonRoot") {
                    "owner of the pod template (runAsUser), or of the image (its user)"
                } else {
                    "owner of the pod template, or of the ConfigMap or Secret that it names"
                },
            ),
            _ => return Some(Err(Waits)),
        };
        return Some(Ok(Reason::new(code, KUBELET, message).who(who)));
    }
    if let Some(end) = status.pointer("/state/terminated")
        && end["exitCode"] != 0
    {
        return Some(Ok(crash(kind, status, &exit(end))));
    }
    if is_init && status.pointer("/state/running").is_some() && status["started"] != true {
        return Some(Err(Waits));
    }
    None
}

/// A container whose program ended with an error. One that runs between two restarts, one that waits
/// for its restart and one that has just ended have the same reason.
fn crash(kind: &str, status: &Value, end: &str) -> Reason {
    let name = name(status);
    let (restarts, logs) = match status["restartCount"].as_u64() {
        None | Some(0) => (String::new(), "kubectl logs"),
        Some(1) => (format!("{RESTARTED}once"), "kubectl logs --previous"),
        Some(count) => (
            format!("{RESTARTED}{count} times"),
            "kubectl logs --previous",
        ),
    };
    // The runtime could not start the program, so there are no logs.
    let never_ran = ["(StartError)", "(ContainerCannotRun)"]
        .iter()
        .any(|why| end.contains(why));
    let who = if never_ran {
        "owner of the pod template (command, args), or of the image".to_owned()
    } else {
        format!("owner of the container's program ({logs})")
    };
    let message = format!("{kind} {name} {end}{restarts}");
    Reason::new(Code::ContainerCrash, KUBELET, message).who(who)
}

/// Exit codes of a program that SIGTERM or SIGKILL ended.
const KILLED: [i64; 2] = [143, 137];

/// The failing probe for which the kubelet ends the container again and again. Its program has not crashed.
pub(super) fn killed_by_probe(world: &World, doc: &Doc, status: &Value) -> Option<Reason> {
    let ends = ["/state/terminated", "/lastState/terminated"];
    let end = ends.iter().find_map(|at| status.pointer(at))?;
    let code = end["exitCode"].as_i64()?;
    if !KILLED.contains(&code) || end["reason"] == "OOMKilled" {
        return None;
    }
    let name = name(status);
    let field = format!("spec.containers{{{name}}}");
    let events = world.events(doc);
    let (probe, event) = events.iter().find_map(|event| {
        let is_about = matches!(event.text("/involvedObject/fieldPath"), path if path.is_empty() || path == field);
        let message = event.text("/message");
        let probes = [("Liveness", "livenessProbe"), ("Startup", "startupProbe")];
        let probe = probes
            .into_iter()
            .find(|(kind, _)| message.starts_with(&format!("{kind} probe failed")))?;
        (is_about && event.text("/reason") == "Unhealthy").then_some((probe.1, event))
    })?;
    let restarts = status["restartCount"].as_u64().unwrap_or_default();
    let said = event.text("/message").trim();
    let target = probes::told(doc, Some(name), said);
    let message = format!(
        "container {name} is ended by the kubelet, because its {probe} fails (exit code {code}, {restarts} restarts): \
         {said}{target}"
    );
    let reason = Reason::new(Code::ProbeKills, KUBELET, message);
    Some(reason.who(format!(
        "owner of the pod template ({probe}: its path, port, timeout and initial delay), or of the container's program"
    )))
}

/// The crash before the last restart of a container that is not ready yet. An older one says nothing
/// about today: the kubelet forgets the restarts of a container that runs for ten minutes.
pub(super) fn crashed_before(status: &Value, now: Timestamp) -> Option<Reason> {
    let end = status.pointer("/lastState/terminated")?;
    let at: Timestamp = end["finishedAt"].as_str()?.parse().ok()?;
    let is_recent = now.duration_since(at) < START * 10;
    (is_recent && end["exitCode"] != 0 && status["ready"] != true)
        .then(|| crash("container", status, &exit(end)))
}

/// The reason if one container of a Job's pod has ended and another one goes on: the pod ends with its last
/// container, such as a sidecar that is no init container.
pub(super) fn kept_running(world: &World, doc: &Doc) -> Option<Reason> {
    let mut owners = doc.items("/metadata/ownerReferences").iter();
    if !owners.any(|owner| owner["kind"] == "Job" && owner["controller"] == true) {
        return None;
    }
    let statuses = doc.items("/status/containerStatuses");
    let names = |is_one: fn(&Value) -> bool| -> Vec<&str> {
        let found = statuses.iter().filter(|status| is_one(status));
        found.map(name).collect()
    };
    let ended = names(|status| {
        status
            .pointer("/state/terminated/exitCode")
            .is_some_and(|code| *code == 0)
    });
    let running = names(|status| status.pointer("/state/running").is_some());
    if ended.is_empty() || running.is_empty() {
        return None;
    }
    let ends = statuses.iter().filter_map(|status| {
        let at = status.pointer("/state/terminated/finishedAt")?;
        at.as_str()?.parse::<Timestamp>().ok()
    });
    let since = ends.max();
    let running = running.join(", ");
    let message = format!(
        "container {} has ended with exit code 0, and container {running} still runs, so the pod does not end",
        ended.join(", ")
    );
    let is_new = since.is_none_or(|at| world.now.duration_since(at) < START);
    let reason = if is_new {
        Reason::new(Code::JobPodsActive, KUBELET, message)
    } else {
        let who = format!(
            "owner of the Job's pod template ({running} as an init container with restartPolicy Always), or of the \
             program that adds it"
        );
        Reason::new(Code::SidecarRuns, KUBELET, message).who(who)
    };
    Some(reason.since(since))
}

/// `message` with `clause` before its number of restarts.
pub(super) fn before_restarts(message: &str, clause: &str) -> String {
    let restarts = message.find(RESTARTED).unwrap_or(message.len());
    let (end, restarts) = message.split_at(restarts);
    format!("{end}{clause}{restarts}")
}

/// Names the memory limits at which containers were killed.
pub(super) fn out_of_memory(world: &World, doc: &Doc, answer: &mut Explanation) {
    let main = doc.items("/spec/containers").iter();
    let containers = main.chain(doc.items("/spec/initContainers"));
    for container in containers {
        let limit = &container["resources"]["limits"]["memory"];
        let Some(amount) = limit.as_str() else {
            continue;
        };
        let name = name(container);
        let start = format!("container {name} ");
        for reason in &mut answer.reasons {
            let is_killed = reason.code == Code::ContainerCrash
                && reason.message.contains("(OOMKilled)")
                && reason
                    .message
                    .trim_start_matches("init ")
                    .starts_with(&start);
            if is_killed {
                let mut clause = format!(" at its memory limit of {amount}");
                reason.who =
                    format!("owner of the pod template (limits.memory of container {name})");
                let origin = Origin::of(world, doc, name, Bound::Limit, ("memory", limit));
                if let Some(origin) = origin {
                    clause = format!("{clause}, which is {}", origin.words());
                    reason.who = format!("{}, or {}", reason.who, origin.who());
                }
                reason.message = before_restarts(&reason.message, &clause);
            }
        }
    }
}

/// Words of container runtimes and of kernels about an image for other machines.
const OTHER_PLATFORM: [&str; 4] = [
    "no match for platform in manifest",
    "no matching manifest for",
    "no image found in image index for architecture",
    WRONG_FORMAT,
];
/// The words of a kernel about a program that it cannot run: one for other machines, or a script without its first line.
const WRONG_FORMAT: &str = "exec format error";

/// Names the node and its architecture in the reasons of images that have no variant for it.
pub(super) fn platform(world: &World, doc: &Doc, answer: &mut Explanation) {
    let reasons = answer.reasons.iter_mut();
    let is_meant = |reason: &&mut Reason| {
        let mut words = OTHER_PLATFORM.iter();
        words.any(|words| reason.message.contains(words))
    };
    for reason in reasons.filter(is_meant) {
        name_platform(world, doc, reason);
    }
}

fn name_platform(world: &World, doc: &Doc, reason: &mut Reason) {
    let node = doc.text("/spec/nodeName");
    let found = world.get(&NODES, "", node).found();
    let platform = found.as_ref().and_then(|node| {
        let system = node.label("kubernetes.io/os").unwrap_or("linux");
        let architecture = node.label("kubernetes.io/arch")?;
        Some(format!("{system}/{architecture}"))
    });
    let platform = platform.unwrap_or_else(|| "the platform of the node".to_owned());
    let other = if reason.message.contains(WRONG_FORMAT) {
        " the program is a script without #!, or one for other machines;"
    } else {
        ""
    };
    let clause = format!(";{other} node {node} is {platform}");
    reason.message = before_restarts(&reason.message, &clause);
    reason.who = format!(
        "owner of the image (a build for {platform}), or owner of the pod template (nodeSelector kubernetes.io/arch)"
    );
}

/// Names the image pull secrets that the kubelet could not read. It then pulls without credentials.
pub(super) fn pull_secrets(world: &World, doc: &Doc, answer: &mut Explanation) {
    let mut pulls = answer.reasons.iter_mut();
    let Some(pull) = pulls.find(|reason| reason.code == Code::ImagePull) else {
        return;
    };
    let Some(event) = warning(world, doc, &["FailedToRetrieveImagePullSecret"]) else {
        refused_credentials(world, doc, pull);
        return;
    };
    let Some((_, rest)) = event.message.split_once('(') else {
        return;
    };
    let secrets: Vec<String> = rest
        .split(')')
        .next()
        .unwrap_or_default()
        .split(", ")
        .map(|secret| format!("{}/{secret}", doc.namespace()))
        .collect();
    let secrets = secrets.join(", ");
    pull.message = format!(
        "{}; Secret {secrets} of imagePullSecrets cannot be read, so the pull has no credentials",
        pull.message.trim_end_matches('.')
    );
    pull.who =
        format!("creator of Secret {secrets}, or owner of the pod template (imagePullSecrets)");
}

/// Names the image pull secrets of a pull that the registry refuses. They may lack the registry, or the image.
fn refused_credentials(world: &World, doc: &Doc, pull: &mut Reason) {
    let refusals = ["authoriz", "unauthenticated", "denied"];
    let said = pull.message.to_lowercase();
    if !refusals.iter().any(|refusal| said.contains(refusal)) {
        return;
    }
    let secrets = doc.items("/spec/imagePullSecrets").iter();
    let names: Vec<&str> = secrets
        .filter_map(|secret| secret["name"].as_str())
        .collect();
    let is_absent = |name: &&&str| world.get(&SECRETS, doc.namespace(), name).is_absent();
    if let Some(absent) = names.iter().find(is_absent) {
        pull.message = format!(
            "{}; Secret {}/{absent} of imagePullSecrets cannot be read, because it does not exist, so the pull lacks its credentials",
            pull.message.trim_end_matches('.'),
            doc.namespace()
        );
        pull.who = format!(
            "creator of Secret {}/{absent}, or owner of the pod template (imagePullSecrets)",
            doc.namespace()
        );
        return;
    }
    let secrets: Vec<String> = names
        .iter()
        .map(|secret| format!("{}/{secret}", doc.namespace()))
        .collect();
    let secrets = secrets.join(", ");
    let message = pull.message.trim_end_matches('.');
    if secrets.is_empty() {
        pull.message = format!("{message}; the pod has no imagePullSecrets");
        pull.who = "owner of the pod template or of its ServiceAccount (imagePullSecrets), or of the registry"
            .to_owned();
    } else {
        pull.message = format!("{message}; the credentials are those of Secret {secrets}");
        pull.who = format!(
            "owner of Secret {secrets} (an entry for the image's registry), or of the registry"
        );
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;
    use steersman_values::resource::{PODS, ResourceType};

    use super::*;
    use crate::{Loaded, Need};

    #[test]
    fn a_container_between_two_crashes_has_the_reason_of_the_last_one() {
        let status = |ready: bool, code: i32| {
            json!({
                "name": "app", "restartCount": 2, "ready": ready, "state": {"running": {}},
                "lastState": {"terminated": {
                    "exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z",
                }},
            })
        };
        let after = |minutes: i64| {
            let ended: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            ended + SignedDuration::from_mins(minutes)
        };
        let crash = crashed_before(&status(false, 3), after(9)).unwrap();
        assert_eq!(crash.code, Code::ContainerCrash);
        assert_eq!(
            crash.message,
            "container app ended with exit code 3 (Error); it was restarted 2 times"
        );
        for (status, now) in [
            (status(false, 3), after(10)),
            (status(true, 3), after(9)),
            (status(false, 0), after(9)),
        ] {
            assert_eq!(
                crashed_before(&status, now).map(|crash| crash.message),
                None
            );
        }
    }

    #[test]
    fn restarts_of_a_crashing_container_are_counted_in_words() {
        let texts = [Some(1), Some(12), None].map(|restarts| {
            let status = json!({
                "name": "app", "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
            });
            let Some(Ok(reason)) = container(false, &status) else {
                panic!("a crash is a reason");
            };
            reason.message.rsplit("; ").next().unwrap().to_owned()
        });
        assert_eq!(
            texts,
            [
                "it was restarted once",
                "it was restarted 12 times",
                "container app ended with exit code 1 (Error)"
            ]
        );
    }

    #[test]
    fn an_image_for_other_machines_names_the_node_and_its_platform() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let need = Need::Object {
            of: NODES.clone(),
            namespace: String::new(),
            name: "node-1".to_owned(),
        };
        let node = json!({"metadata": {"labels": {"kubernetes.io/arch": "arm64"}}});
        world.load(need, Loaded::Objects(vec![Doc::new(node)]));
        let pod = Doc::new(json!({"spec": {"nodeName": "node-1"}}));
        let told = |message: &str| {
            let mut answer = Explanation::new(pod.subject(&PODS), "");
            answer.add(Reason::new(Code::ContainerCrash, KUBELET, message));
            platform(&world, &pod, &mut answer);
            answer.reasons.remove(0)
        };
        let crash =
            told("container app ended: exec /app: exec format error; it was restarted 2 times");
        assert_eq!(
            crash.message,
            "container app ended: exec /app: exec format error; the program is a script without #!, or one for other \
             machines; node node-1 is linux/arm64; it was restarted 2 times"
        );
        assert!(
            crash
                .who
                .starts_with("owner of the image (a build for linux/arm64)")
        );
        let pull = told("no match for platform in manifest: not found");
        assert!(
            pull.message
                .ends_with("not found; node node-1 is linux/arm64")
        );
        let other = told("container app ended: exec /app: no such file");
        assert_eq!(
            (&*other.message, &*other.who),
            ("container app ended: exec /app: no such file", "")
        );
    }
}
