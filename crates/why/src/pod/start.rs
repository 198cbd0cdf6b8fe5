//! Why the containers of a pod do not start: its node, a volume, the sandbox, or an init container.

use serde_json::Value;
use steersman_values::resource::{NODES, PODS, VOLUME_ATTACHMENTS};

use super::{KUBELET, START, UNREGISTERED_DRIVER, awaited, claims, name, starting};
use crate::{Code, Doc, Reason, World, warning};

pub(super) fn silent_node(world: &World, doc: &Doc) -> Option<Reason> {
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
pub(super) fn blocked_start(world: &World, doc: &Doc) -> Reason {
    let volume = warning(
        world,
        doc,
        &["FailedMount", "FailedAttachVolume", "FailedMapVolume"],
    );
    let volume = volume.filter(|event| !is_over(world, doc, &event.message));
    let sandbox = warning(world, doc, &["FailedCreatePodSandBox"]);
    let mount_owner = volume
        .as_ref()
        .map(|event| owner_of_mount(&event.message, doc.text("/spec/nodeName")))
        .unwrap_or_default();
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
        (Some(event), _) => (Code::VolumeMount, event, &*mount_owner),
        (None, Some(event)) => (
            Code::SandboxFailed,
            event,
            "operator of the network plug-in or container runtime",
        ),
        (None, None) => {
            let started = doc
                .time("/status/startTime")
                .or(doc.time("/metadata/creationTimestamp"));
            let running = awaited::running(doc);
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
                    let message = awaited::still_runs(name(status));
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
    match claims::multi_attached(&event.message) {
        Some(volume) => claims::name_user(world, doc, volume, reason),
        None => name_node(world, doc, reason),
    }
}

/// The condition of node-problem-detector about a file system that the kernel has made read-only.
const READ_ONLY: &str = "ReadonlyFilesystem";

/// Names the node in the `reason` of a failed sandbox, and a file system of the node that is read-only.
fn name_node(world: &World, doc: &Doc, mut reason: Reason) -> Reason {
    let node = doc.text("/spec/nodeName");
    let is_sandbox = reason.code == Code::SandboxFailed;
    let is_read_only = reason.message.contains("read-only file system");
    if is_sandbox {
        reason.message = format!("{}; the node is {node}", reason.message);
    }
    if !is_read_only {
        return reason;
    }
    let found = world.get(&NODES, "", node).found();
    let condition = found.and_then(|node| node.condition(READ_ONLY));
    let condition = condition.filter(|condition| condition.text("/status") == "True");
    if let Some(condition) = &condition {
        reason.message = format!(
            "{}; {READ_ONLY} of {node} is True ({}): {}",
            reason.message,
            condition.text("/reason"),
            condition.text("/message")
        );
    }
    // A volume may be read-only on purpose.
    if is_sandbox || condition.is_some() {
        reason.who = format!("administrator of node {node} (its disk and file system)");
    }
    reason
}

/// The one that can mend a failed mount on `node`, by words of the kubelet and of `mount`.
fn owner_of_mount(message: &str, node: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let driver = message
        .split_once(UNREGISTERED_DRIVER)
        .and_then(|(start, _)| start.rsplit(' ').next());
    if let Some(driver) = driver {
        format!("operator of the CSI driver {driver} (its plugin on node {node})")
    } else if has(&["configmap \"", "secret \""]) && message.contains("not found") {
        "creator of this ConfigMap or Secret, or owner of the pod template (volumes)".to_owned()
    } else if message.contains("serviceaccounts \"") && message.contains("not found") {
        "creator of this ServiceAccount, or owner of the pod template (serviceAccountName)"
            .to_owned()
    } else if message.contains("IAM role must be associated with service account") {
        "owner of the ServiceAccount in these words (its role in the cloud), or of the pod template (serviceAccountName)"
            .to_owned()
    } else if message.contains("hostPath type check failed") {
        format!("owner of the pod template (hostPath), or administrator of node {node}")
    } else if has(&["/sbin/mount.", "unknown filesystem type"]) {
        format!(
            "administrator of node {node} (programs that mount this file system, such as nfs-common)"
        )
    } else if has(&[
        "access denied by server",
        "timed out",
        "No route to host",
        "Connection refused",
    ]) {
        "operator of the file server, or of the network between it and the node".to_owned()
    } else {
        "owner of the volume, Secret or ConfigMap".to_owned()
    }
}

/// Whether the conflict of a Multi-Attach error is over. The controller tells it once for each pod, so the
/// age of the Event says nothing.
fn is_over(world: &World, doc: &Doc, message: &str) -> bool {
    let Some(volume) = claims::multi_attached(message) else {
        return false;
    };
    if let Some((_, pods)) = message.split_once("used by pod(s) ") {
        let mut pods = pods.split(", ");
        if pods.all(|pod| world.get(&PODS, doc.namespace(), pod).is_absent()) {
            return true;
        }
    }
    let attachments = world.list(&VOLUME_ATTACHMENTS, "").unwrap_or_default();
    let mut nodes = attachments
        .iter()
        .filter(|at| at.text("/spec/source/persistentVolumeName") == volume)
        .map(|at| at.text("/spec/nodeName"))
        .peekable();
    nodes.peek().is_some() && nodes.all(|node| node == doc.text("/spec/nodeName"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::{Explanation, Loaded, Need};

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
