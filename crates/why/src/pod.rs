//! The state of a pod, as scheduler and kubelet report it.
//!
//! Both are other components, so this ends with their own words: conditions, container states and
//! Events.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_objects::scheduling::NodeSelector;
use steersman_objects::{Node, Pod};
use steersman_values::resource::{
    NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS,
};

use crate::{Code, Doc, Explanation, Reason, World, placement, room, warning};

const SCHEDULER: &str = "kube-scheduler";
const KUBELET: &str = "kubelet";

/// Time after which a pod that only starts is worth a look.
const START: SignedDuration = SignedDuration::from_secs(60);

/// Groups of pods with the same reason in one answer.
const GROUPS: usize = 4;
/// Names in the text about such a group.
const NAMES: usize = 3;

/// Text before the number of restarts. Pods that crash for the same reason differ in the number.
const RESTARTED: &str = "; it was restarted ";

/// Text before the room on the only node of a pod. Pods of a DaemonSet wait for the same reason, each on
/// a node of its own.
const ONLY_NODE: &str = "; its only node ";

/// Adds the reasons why `doc`, a pod that is not being deleted, is not ready.
pub fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let phase = doc.text("/status/phase");
    let status = match doc.text("/status/reason") {
        "" => phase.to_owned(),
        reason => format!("{phase}, {reason}"),
    };
    answer.state = format!("is {status}");
    match phase {
        "Succeeded" => {}
        "Failed" => failed(doc, answer),
        _ if doc.text("/spec/nodeName").is_empty() => unscheduled(world, doc, answer),
        _ => {
            on_node(world, doc, answer);
            out_of_memory(doc, answer);
            pull_secrets(world, doc, answer);
        }
    }
}

/// Names the memory limits at which containers were killed.
fn out_of_memory(doc: &Doc, answer: &mut Explanation) {
    let main = doc.items("/spec/containers").iter();
    let containers = main.chain(doc.items("/spec/initContainers"));
    for container in containers {
        let Some(limit) = container
            .pointer("/resources/limits/memory")
            .and_then(Value::as_str)
        else {
            continue;
        };
        let start = format!("container {} ", name(container));
        for reason in &mut answer.reasons {
            let is_killed = reason.code == Code::ContainerCrash
                && reason.message.contains("(OOMKilled)")
                && reason
                    .message
                    .trim_start_matches("init ")
                    .starts_with(&start);
            if is_killed {
                let (end, restarts) = match reason.message.split_once(RESTARTED) {
                    Some((end, count)) => (end, format!("{RESTARTED}{count}")),
                    None => (&*reason.message, String::new()),
                };
                reason.message = format!("{end} at its memory limit of {limit}{restarts}");
                reason.who = format!(
                    "owner of the pod template (limits.memory of container {})",
                    name(container)
                );
            }
        }
    }
}

/// Names the image pull secrets that the kubelet could not read. It then pulls without credentials.
fn pull_secrets(world: &World, doc: &Doc, answer: &mut Explanation) {
    let mut pulls = answer.reasons.iter_mut();
    let Some(pull) = pulls.find(|reason| reason.code == Code::ImagePull) else {
        return;
    };
    let Some(event) = warning(world, doc, &["FailedToRetrieveImagePullSecret"]) else {
        refused_credentials(doc, pull);
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
fn refused_credentials(doc: &Doc, pull: &mut Reason) {
    let refusals = ["authoriz", "unauthenticated", "denied"];
    let said = pull.message.to_lowercase();
    if !refusals.iter().any(|refusal| said.contains(refusal)) {
        return;
    }
    let secrets = doc.items("/spec/imagePullSecrets").iter();
    let secrets = secrets.filter_map(|secret| secret["name"].as_str());
    let secrets: Vec<String> = secrets
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

fn failed(doc: &Doc, answer: &mut Explanation) {
    let said = match doc.text("/status/message") {
        "" => ended(doc).unwrap_or_else(|| "the pod has failed".to_owned()),
        message => message.to_owned(),
    };
    let message = match doc.text("/status/reason") {
        "" => said,
        reason => format!("{reason}: {said}"),
    };
    answer.add(Reason::new(Code::PodFailed, KUBELET, message).who("owner of the pod template"));
}

/// The end of the first container that failed.
fn ended(doc: &Doc) -> Option<String> {
    let statuses = doc.items("/status/containerStatuses").iter();
    let mut all = doc
        .items("/status/initContainerStatuses")
        .iter()
        .chain(statuses);
    all.find_map(|status| {
        let end = status.pointer("/state/terminated")?;
        (end["exitCode"] != 0).then(|| format!("container {} {}", name(status), exit(end)))
    })
}

fn name(status: &Value) -> &str {
    status["name"].as_str().unwrap_or_default()
}

fn exit(end: &Value) -> String {
    let code = &end["exitCode"];
    let reason = end["reason"].as_str().unwrap_or("Error");
    match end["message"].as_str().unwrap_or_default().lines().last() {
        Some(last) if !last.is_empty() => format!("ended with exit code {code} ({reason}): {last}"),
        _ => format!("ended with exit code {code} ({reason})"),
    }
}

fn unscheduled(world: &World, doc: &Doc, answer: &mut Explanation) {
    let gates: Vec<&str> = doc
        .items("/spec/schedulingGates")
        .iter()
        .filter_map(|gate| gate["name"].as_str())
        .collect();
    if !gates.is_empty() {
        let message = format!("scheduling gates hold the pod: {}", gates.join(", "));
        let who = "program that removes the gate; if none runs, owner of the pod template (schedulingGates)";
        let reason = Reason::new(Code::PodGated, SCHEDULER, message).who(who);
        answer.add(reason.since(doc.time("/metadata/creationTimestamp")));
        return;
    }
    let created = doc.time("/metadata/creationTimestamp");
    device_claims(world, doc, answer);
    match doc.condition("PodScheduled") {
        Some(condition) if condition.text("/status") == "False" => {
            let message = match condition.text("/message") {
                "" => condition.text("/reason"),
                message => message,
            };
            let known = answer.causes().count();
            claims(world, doc, answer);
            if message.contains("free ports") {
                ports(world, doc, answer);
            }
            let only = room::only_node(doc);
            let who = match only {
                _ if answer.causes().count() > known => "see the other causes".to_owned(),
                Some(node) => format!("owner of the pod template, or administrator of node {node}"),
                None => "owner of the pod template, or administrator of the nodes".to_owned(),
            };
            let demands = placement::demands(world, doc, message);
            let room = only.map(|node| room::told(world, doc, node, message));
            let mut message = nodes_in(message).to_owned();
            for demand in demands {
                message = format!("{}; {demand}", message.trim_end_matches('.'));
            }
            if let Some(room) = room {
                message = format!("{}{ONLY_NODE}{room}", message.trim_end_matches('.'));
            }
            let reason = Reason::new(Code::PodUnscheduled, SCHEDULER, message).who(who);
            answer.add(reason.since(condition.time("/lastTransitionTime")));
        }
        // The scheduler waits for the claims.
        _ if answer.has(Code::DeviceClaimMissing) => {}
        _ if created.is_some_and(|at| world.now.duration_since(at) > START) => {
            let scheduler = match doc.text("/spec/schedulerName") {
                "" => "default-scheduler",
                name => name,
            };
            let message = format!("no scheduler has looked at the pod; it asks for {scheduler:?}");
            let reason = Reason::new(Code::PodUnscheduled, SCHEDULER, message)
                .who(format!("operator of the scheduler {scheduler:?}"));
            answer.add(reason.since(created));
        }
        _ => answer.add(starting("the pod waits for the scheduler")),
    }
}

/// Adds the resource claims of the pod that do not exist, and the missing templates of others.
fn device_claims(world: &World, doc: &Doc, answer: &mut Explanation) {
    const GROUP: &str = "resource.k8s.io";
    for claim in doc.items("/spec/resourceClaims") {
        let named = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
        let (plural, kind, object) = match &*named("resourceClaimTemplateName") {
            "" => (
                "resourceclaims",
                "ResourceClaim",
                named("resourceClaimName"),
            ),
            template => (
                "resourceclaimtemplates",
                "ResourceClaimTemplate",
                template.to_owned(),
            ),
        };
        let Some(of) = world.resource(GROUP, plural).found() else {
            continue;
        };
        let namespace = doc.namespace();
        if world.get(&of, namespace, &object).is_absent() {
            let message = format!(
                "resource claim {} needs {kind} {namespace}/{object}, which does not exist",
                name(claim)
            );
            let reason = Reason::new(Code::DeviceClaimMissing, SCHEDULER, message)
                .who(format!("creator of {kind} {namespace}/{object}"));
            answer.add(reason.since(doc.time("/metadata/creationTimestamp")));
        }
    }
}

/// The host ports of a pod.
fn host_ports(pod: &Doc) -> Vec<i64> {
    let containers = pod.items("/spec/containers").iter();
    let ports = containers.filter_map(|container| container["ports"].as_array());
    ports
        .flatten()
        .filter_map(|port| port["hostPort"].as_i64())
        .collect()
}

/// Adds the pods that have a host port of `doc`, on its node if its affinity names one.
fn ports(world: &World, doc: &Doc, answer: &mut Explanation) {
    let wanted = host_ports(doc);
    let only = room::only_node(doc);
    let holders = world.list(&PODS, "").unwrap_or_default().iter();
    let holders = holders.filter(|pod| {
        let node = pod.text("/spec/nodeName");
        let is_over = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
        !node.is_empty() && !is_over && only.is_none_or(|only| node == only)
    });
    let taken = holders.filter_map(|pod| {
        let port = host_ports(pod)
            .into_iter()
            .find(|port| wanted.contains(port))?;
        Some((pod, port))
    });
    for (pod, port) in taken.take(NAMES) {
        let holder = format!("pod {}/{}", pod.namespace(), pod.name());
        let message = format!(
            "host port {port} of {} belongs to {holder}",
            pod.text("/spec/nodeName")
        );
        let who = format!("owner of {holder}, or of the pod template (hostPort)");
        answer.add(Reason::new(Code::PortTaken, SCHEDULER, message).who(who));
    }
}

/// The part of the scheduler's message that tells about nodes. The rest tells that an eviction of other
/// pods would not help.
fn nodes_in(message: &str) -> &str {
    ["no new claims to deallocate", "preemption: "]
        .iter()
        .filter_map(|rest| message.find(rest))
        .min()
        .map_or(message, |at| message[..at].trim_end_matches([' ', ',']))
}

/// Adds the nodes that reach the volume of `claim`, if its volume limits them.
fn reach(world: &World, claim: &Doc, answer: &mut Explanation) {
    let name = claim.text("/spec/volumeName");
    if name.is_empty() {
        return;
    }
    let Some(volume) = world.get(&PERSISTENT_VOLUMES, "", name).found() else {
        return;
    };
    let required = volume.at("/spec/nodeAffinity/required");
    let selector: Option<NodeSelector> =
        required.and_then(|required| serde_json::from_str(&required.to_string()).ok());
    let (Some(selector), Some(nodes)) = (selector, world.list(&NODES, "")) else {
        return;
    };
    let reaches = |node: &&Doc| {
        let view = node.view::<Node>();
        view.is_some_and(|view| selector.matches(&view))
    };
    let near: Vec<&Doc> = nodes.iter().filter(reaches).collect();
    let is_cordoned = |node: &Doc| node.at("/spec/unschedulable").is_some_and(|is| *is == true);
    let names: Vec<&str> = near.iter().take(NAMES).map(|node| node.name()).collect();
    let names = match near.len().saturating_sub(NAMES) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    };
    let bound = format!("claim {} is bound to volume {name}", claim.name());
    let (code, message, who) = if near.is_empty() {
        (
            Code::VolumeUnreachable,
            format!("{bound}, which no node reaches (spec.nodeAffinity of the volume)"),
            "administrator of the nodes, such as a node in the zone of the volume".to_owned(),
        )
    } else if near.iter().all(|node| is_cordoned(node)) {
        (
            Code::VolumeUnreachable,
            format!("{bound}, and the nodes that reach it are cordoned: {names}"),
            format!(
                "administrator of the nodes (kubectl uncordon {})",
                near[0].name()
            ),
        )
    } else {
        let message = format!("{bound}, which these nodes alone reach: {names}");
        (Code::VolumeTopology, message, String::new())
    };
    answer.add(Reason::new(code, SCHEDULER, message).who(who));
}

/// Follows the claims of the pod that stand still themselves.
fn claims(world: &World, doc: &Doc, answer: &mut Explanation) {
    let namespace = doc.namespace();
    let pod = doc.name();
    for volume in doc.items("/spec/volumes") {
        let claim = match volume.pointer("/persistentVolumeClaim/claimName") {
            Some(name) => name.as_str().unwrap_or_default().to_owned(),
            None if volume.get("ephemeral").is_some() => format!("{pod}-{}", name(volume)),
            None => continue,
        };
        let found = world.get(&PERSISTENT_VOLUME_CLAIMS, namespace, &claim);
        if found.is_absent() {
            let message = format!("the pod's claim {claim} does not exist");
            let reason = Reason::new(Code::ClaimPending, SCHEDULER, message).who(format!(
                "creator of PersistentVolumeClaim {namespace}/{claim}"
            ));
            answer.add(reason);
        }
        if let Some(claim) = found.found() {
            let about = world.explain(&PERSISTENT_VOLUME_CLAIMS, &claim);
            if about.is_stuck() {
                answer.follow(about);
            }
            reach(world, &claim, answer);
        }
    }
}

fn starting(message: &str) -> Reason {
    Reason::new(Code::PodStarting, KUBELET, message)
}

fn on_node(world: &World, doc: &Doc, answer: &mut Explanation) {
    let init = doc
        .items("/status/initContainerStatuses")
        .iter()
        .map(|status| (true, status));
    let main = doc
        .items("/status/containerStatuses")
        .iter()
        .map(|status| (false, status));
    let mut waits = false;
    for (is_init, status) in init.chain(main) {
        match container(is_init, status) {
            Some(Ok(reason)) => {
                let reason = killed_by_probe(world, doc, status).unwrap_or(reason);
                answer.add(
                    reason.since(
                        doc.condition("Ready")
                            .and_then(|ready| ready.time("/lastTransitionTime")),
                    ),
                );
            }
            Some(Err(Waits)) => waits = true,
            None => {}
        }
    }
    if answer.reasons.iter().any(|reason| reason.by == KUBELET) {
        return;
    }
    let has_statuses = !doc.items("/status/containerStatuses").is_empty();
    if let Some(reason) = silent_node(world, doc) {
        answer.add(reason);
    } else if waits || !has_statuses {
        let reason = blocked_start(world, doc);
        let known = answer.causes().count();
        if reason.message.contains("PVC is not bound") {
            claims(world, doc, answer);
        }
        // The cause of an unbound claim says more than the kubelet.
        if answer.causes().count() == known {
            answer.add(reason);
        }
    } else if let Some(reason) = kept_running(world, doc) {
        answer.add(reason);
    } else if doc
        .condition("Ready")
        .is_none_or(|ready| ready.text("/status") != "True")
    {
        unready(world, doc, answer);
    }
}

/// The reason if one container of a Job's pod has ended and another one goes on: the pod ends with its last
/// container, such as a sidecar that is no init container.
fn kept_running(world: &World, doc: &Doc) -> Option<Reason> {
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

struct Waits;

/// The reason of one container; `Err` if it waits without a cause of its own.
fn container(is_init: bool, status: &Value) -> Option<Result<Reason, Waits>> {
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
            "ImagePullBackOff"
            | "ErrImagePull"
            | "InvalidImageName"
            | "ErrImageNeverPull"
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
                "owner of the pod template, or of the ConfigMap or Secret that it names",
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
    let message = format!("{kind} {name} {end}{restarts}");
    Reason::new(Code::ContainerCrash, KUBELET, message)
        .who(format!("owner of the container's program ({logs})"))
}

/// Exit codes of a program that SIGTERM or SIGKILL ended.
const KILLED: [i64; 2] = [143, 137];

/// The failing probe for which the kubelet ends the container again and again. Its program has not crashed.
fn killed_by_probe(world: &World, doc: &Doc, status: &Value) -> Option<Reason> {
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
    let message = format!(
        "container {name} is ended by the kubelet, because its {probe} fails (exit code {code}, {restarts} restarts): {}",
        event.text("/message").trim()
    );
    let reason = Reason::new(Code::ProbeKills, KUBELET, message);
    Some(reason.who(format!(
        "owner of the pod template ({probe}: its path, port, timeout and initial delay), or of the container's program"
    )))
}

/// The crash before the last restart of a container that is not ready yet. An older one says nothing
/// about today: the kubelet forgets the restarts of a container that runs for ten minutes.
fn crashed_before(status: &Value, now: Timestamp) -> Option<Reason> {
    let end = status.pointer("/lastState/terminated")?;
    let at: Timestamp = end["finishedAt"].as_str()?.parse().ok()?;
    let is_recent = now.duration_since(at) < START * 10;
    (is_recent && end["exitCode"] != 0 && status["ready"] != true)
        .then(|| crash("container", status, &exit(end)))
}

fn silent_node(world: &World, doc: &Doc) -> Option<Reason> {
    let node = doc.text("/spec/nodeName");
    let found = world.get(&NODES, "", node);
    if found.is_absent() {
        let message = format!("the node {node} of the pod does not exist");
        return Some(
            Reason::new(Code::NodeNotReady, "node-lifecycle-controller", message)
                .who("administrator of the nodes"),
        );
    }
    let ready = found.found()?.condition("Ready")?;
    if ready.text("/status") == "True" {
        return None;
    }
    let message = format!("node {node} is not ready: {}", ready.text("/message"));
    let reason = Reason::new(Code::NodeNotReady, KUBELET, message)
        .who(format!("administrator of node {node}"));
    Some(reason.since(ready.time("/lastTransitionTime")))
}

/// The reason why containers do not start: a volume, the sandbox, an init container, or nothing.
fn blocked_start(world: &World, doc: &Doc) -> Reason {
    let volume = warning(
        world,
        doc,
        &["FailedMount", "FailedAttachVolume", "FailedMapVolume"],
    );
    let volume = volume.filter(|event| !is_over(world, doc, &event.message));
    let sandbox = warning(world, doc, &["FailedCreatePodSandBox"]);
    let (code, event, who) = match (volume, sandbox) {
        (Some(event), _)
            if event.reason == "FailedAttachVolume" && event.message.contains("Multi-Attach") =>
        {
            (
                Code::AttachedElsewhere,
                event,
                "owner of the other pod, or administrator of its node",
            )
        }
        (Some(event), _) if event.reason == "FailedAttachVolume" => {
            (Code::AttachPending, event, "operator of the storage driver")
        }
        (Some(event), _) => (
            Code::VolumeMount,
            event,
            "owner of the volume, Secret or ConfigMap",
        ),
        (None, Some(event)) => (
            Code::SandboxFailed,
            event,
            "operator of the network plug-in or container runtime",
        ),
        (None, None) => {
            let started = doc
                .time("/status/startTime")
                .or(doc.time("/metadata/creationTimestamp"));
            let init = doc.items("/status/initContainerStatuses").iter();
            let running = init
                .into_iter()
                .find(|status| status.pointer("/state/running").is_some());
            return match running {
                Some(status) => {
                    let since = status
                        .pointer("/state/running/startedAt")
                        .and_then(Value::as_str);
                    let since = since.and_then(|at| at.parse().ok()).or(started);
                    let is_long = since.is_some_and(|at| world.now.duration_since(at) > START * 5);
                    let code = if is_long {
                        Code::InitContainer
                    } else {
                        Code::PodStarting
                    };
                    let who = if is_long {
                        "owner of the init container"
                    } else {
                        ""
                    };
                    let message = format!("init container {} still runs", name(status));
                    Reason::new(code, KUBELET, message).who(who).since(since)
                }
                None => starting("the containers are being created").since(started),
            };
        }
    };
    let by = match &*event.from {
        "" => KUBELET,
        from => from,
    };
    let mut reason = Reason::new(code, by, event.message.trim())
        .who(who)
        .since(event.first);
    reason.last_try = event.at;
    reason.attempts = event.count;
    reason
}

/// Whether the conflict of a Multi-Attach error is over. The controller tells it once for each pod, so the
/// age of the Event says nothing.
fn is_over(world: &World, doc: &Doc, message: &str) -> bool {
    let Some((_, rest)) = message.split_once("Multi-Attach error for volume ") else {
        return false;
    };
    if let Some((_, pods)) = rest.split_once("used by pod(s) ") {
        let mut pods = pods.split(", ");
        if pods.all(|pod| world.get(&PODS, doc.namespace(), pod).is_absent()) {
            return true;
        }
    }
    let volume = rest.split('"').nth(1).unwrap_or_default();
    let attachments = world.list(&VOLUME_ATTACHMENTS, "").unwrap_or_default();
    let mut nodes = attachments
        .iter()
        .filter(|at| at.text("/spec/source/persistentVolumeName") == volume)
        .map(|at| at.text("/spec/nodeName"))
        .peekable();
    nodes.peek().is_some() && nodes.all(|node| node == doc.text("/spec/nodeName"))
}

/// `False, reason: message` of a condition, without the parts that it lacks.
fn gate_state(condition: &Doc) -> String {
    let parts = ["/reason", "/message"].map(|field| condition.text(field));
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let status = condition.text("/status");
    if parts.is_empty() {
        status.to_owned()
    } else {
        format!("{status}, {}", parts.join(": "))
    }
}

/// The reasons why a pod with running containers is not ready.
fn unready(world: &World, doc: &Doc, answer: &mut Explanation) {
    let ready = doc.condition("Ready");
    let since = ready
        .as_ref()
        .and_then(|ready| ready.time("/lastTransitionTime"));
    let mut gates = Vec::new();
    for gate in doc.items("/spec/readinessGates") {
        let kind = gate["conditionType"].as_str().unwrap_or_default();
        match doc.condition(kind) {
            Some(found) if found.text("/status") == "True" => {}
            Some(found) => gates.push((kind, gate_state(&found))),
            None => gates.push((kind, "no program has set it".to_owned())),
        }
    }
    let containers = doc.condition("ContainersReady");
    let containers_ready = containers.is_some_and(|condition| condition.text("/status") == "True");
    if containers_ready && !gates.is_empty() {
        let texts = gates
            .iter()
            .map(|(kind, state)| format!("{kind} ({state})"));
        let texts: Vec<String> = texts.collect();
        let message = format!("readiness gates are not fulfilled: {}", texts.join(", "));
        // The domain of a condition names the program that sets it.
        let by = gates[0].0.split('/').next().unwrap_or_default();
        let who = format!(
            "operator of the controller of {by}, or owner of the pod template (readinessGates)"
        );
        answer.add(
            Reason::new(Code::ReadinessGate, by, message)
                .who(who)
                .since(since),
        );
        return;
    }
    let statuses = doc.items("/status/containerStatuses").iter();
    if let Some(reason) = statuses
        .into_iter()
        .find_map(|status| killed_by_probe(world, doc, status))
    {
        answer.add(reason.since(since));
        return;
    }
    if let Some(event) = warning(world, doc, &["Unhealthy"]) {
        let mut reason = Reason::new(Code::PodNotReady, KUBELET, event.message.trim())
            .who("owner of the container's program and of its probes")
            .since(since.or(event.first));
        reason.last_try = event.at;
        reason.attempts = event.count;
        answer.add(reason);
        return;
    }
    if let Some(crash) = doc
        .items("/status/containerStatuses")
        .iter()
        .find_map(|status| crashed_before(status, world.now))
    {
        answer.add(crash.since(since));
        return;
    }
    let message = match ready.as_ref().map(|ready| ready.text("/message")) {
        None | Some("") => "the pod runs and is not ready",
        Some(message) => message,
    };
    let is_new = since.is_none_or(|at| world.now.duration_since(at) < START);
    if is_new {
        answer.add(starting(message).since(since));
    } else {
        let who = "owner of the container's program and of its probes";
        answer.add(
            Reason::new(Code::PodNotReady, KUBELET, message)
                .who(who)
                .since(since),
        );
    }
}

/// The answers about those of `pods` that are not available, grouped by their reasons.
pub fn unavailable(world: &World, pods: &[Doc], min_ready: i32) -> Vec<Explanation> {
    let mut groups: BTreeMap<String, (Explanation, Vec<String>)> = BTreeMap::new();
    for doc in pods {
        let Some(pod) = doc.view::<Pod>() else {
            continue;
        };
        if pod.is_available(min_ready, world.now) && !pod.meta.is_terminating() {
            continue;
        }
        let mut about = world.explain(&PODS, doc);
        if about.reasons.is_empty() && pod.is_ready() && !pod.meta.is_terminating() {
            let next = pod.next_availability_check(min_ready, world.now);
            let next = next.and_then(|delay| world.now.checked_add(delay).ok());
            let message = format!(
                "the pod is ready, and counts as available after {min_ready} s (minReadySeconds)"
            );
            about.add(Reason::new(Code::MinReadySeconds, "", message).next(next));
        }
        let key: Vec<String> = about
            .reasons
            .iter()
            .map(|reason| {
                let mut message = &*reason.message;
                for own in [RESTARTED, ONLY_NODE] {
                    message = message.split(own).next().unwrap_or_default();
                }
                format!("{:?} {}", reason.code, message.replace(doc.name(), ""))
            })
            .chain(about.waits_for.iter().map(|other| other.state.clone()))
            .collect();
        let group = groups.entry(key.join("\n")).or_insert((about, Vec::new()));
        group.1.push(doc.name().to_owned());
    }
    let mut all: Vec<_> = groups.into_values().collect();
    all.sort_by_key(|(about, names)| (!about.is_stuck(), std::cmp::Reverse(names.len())));
    let left_out = all.len().saturating_sub(GROUPS);
    all.truncate(GROUPS);
    let mut found: Vec<Explanation> = all
        .into_iter()
        .map(|(about, names)| of_group(about, &names))
        .collect();
    if left_out > 0
        && let Some(last) = found.last_mut()
    {
        let message = format!("{left_out} further groups of pods with other reasons are left out");
        last.add(Reason::new(Code::SeveralCauses, "", message));
    }
    found
}

fn of_group(mut about: Explanation, names: &[String]) -> Explanation {
    if names.len() > 1 {
        let others = names.len() - 1;
        let shown: Vec<&str> = names[1..]
            .iter()
            .take(NAMES - 1)
            .map(String::as_str)
            .collect();
        let more = others - shown.len();
        let rest = if more == 0 {
            String::new()
        } else {
            format!(" and {more} more")
        };
        about.state = format!(
            "{}; the same holds for {}{rest}",
            about.state,
            shown.join(", ")
        );
    }
    about
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::resource::ResourceType;

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
    fn a_multi_attach_error_is_over_without_its_pods_or_with_an_attachment_to_the_own_node() {
        const BY_PODS: &str =
            "Multi-Attach error for volume \"disk\" Volume is already used by pod(s) old, older";
        const BY_NODE: &str = "Multi-Attach error for volume \"disk\" Volume is already exclusively attached to one node and can't be attached to another";
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let is_over_with = |pod: bool, nodes: &[&str], message: &str| {
            let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
            for (name, is_there) in [("old", false), ("older", pod)] {
                let need = Need::Object {
                    of: PODS.clone(),
                    namespace: "shop".to_owned(),
                    name: name.to_owned(),
                };
                let outcome = if is_there {
                    Loaded::Objects(vec![Doc::new(json!({}))])
                } else {
                    Loaded::Absent
                };
                world.load(need, outcome);
            }
            let all = Need::List {
                of: VOLUME_ATTACHMENTS.clone(),
                namespace: String::new(),
                fields: String::new(),
            };
            let attachment = |node: &&str| {
                Doc::new(
                    json!({"spec": {"nodeName": node, "source": {"persistentVolumeName": "disk"}}}),
                )
            };
            world.load(all, Loaded::Objects(nodes.iter().map(attachment).collect()));
            let doc = Doc::new(
                json!({"metadata": {"namespace": "shop"}, "spec": {"nodeName": "node-b"}}),
            );
            is_over(&world, &doc, message)
        };
        let cases = [
            (true, &["node-a"][..], BY_PODS, false),
            (true, &[], BY_PODS, false),
            (false, &[], BY_PODS, true),
            (true, &["node-b"], BY_PODS, true),
            (false, &["node-a"], BY_NODE, false),
            (false, &["node-a", "node-b"], BY_NODE, false),
            (false, &["node-b"], BY_NODE, true),
            (false, &["node-b"], "AttachVolume.Attach failed", false),
        ];
        for (pod, nodes, message, expected) in cases {
            let found = is_over_with(pod, nodes, message);
            assert_eq!(found, expected, "{pod} {nodes:?} {message}");
        }
    }
}
