//! The state of a pod, as scheduler and kubelet report it.
//!
//! Both are other components, so this ends with their own words: conditions, container states and
//! Events.

mod awaited;
mod claims;
mod container;
mod evicted;
mod files;
mod groups;
mod policies;
mod probes;
mod produced;
mod readiness;
mod scheduling;
mod start;

use jiff::SignedDuration;
use serde_json::Value;

use crate::{Code, Doc, Explanation, Reason, World};

pub use claims::{USER_CONTROLLER, name_user};
pub use evicted::evicted;
pub use groups::unavailable;
pub use produced::produced;

/// The kubelet's words after the name of a CSI driver without a plugin on the node.
pub const UNREGISTERED_DRIVER: &str = " not found in the list of registered CSI drivers";

const KUBELET: &str = "kubelet";

/// Time after which a pod that only starts is worth a look.
const START: SignedDuration = SignedDuration::from_secs(60);

/// Names of pods or nodes in one text.
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
        "Failed" => {
            failed(doc, answer);
            policies::name_closed(world, doc, answer);
        }
        _ if doc.text("/spec/nodeName").is_empty() => scheduling::unscheduled(world, doc, answer),
        _ => {
            on_node(world, doc, answer);
            container::out_of_memory(world, doc, answer);
            container::pull_secrets(world, doc, answer);
            container::platform(world, doc, answer);
            files::name_missing(world, doc, answer);
            policies::name_closed(world, doc, answer);
            produced::follow(world, doc, answer);
            awaited::follow(world, doc, answer);
        }
    }
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
        match container::container(is_init, status) {
            Some(Ok(reason)) => {
                let reason = container::killed_by_probe(world, doc, status).unwrap_or(reason);
                answer.add(
                    reason.since(
                        doc.condition("Ready")
                            .and_then(|ready| ready.time("/lastTransitionTime")),
                    ),
                );
            }
            Some(Err(container::Waits)) => waits = true,
            None => {}
        }
    }
    if answer.reasons.iter().any(|reason| reason.by == KUBELET) {
        return;
    }
    let has_statuses = !doc.items("/status/containerStatuses").is_empty();
    if let Some(reason) = start::silent_node(world, doc) {
        answer.add(reason);
    } else if waits || !has_statuses {
        let reason = start::blocked_start(world, doc);
        let known = answer.causes().count();
        if reason.message.contains("PVC is not bound") {
            scheduling::follow_claims(world, doc, answer);
        }
        // The cause of an unbound claim says more than the kubelet.
        if answer.causes().count() == known {
            answer.add(reason);
        }
    } else if let Some(reason) = container::kept_running(world, doc) {
        answer.add(reason);
    } else if doc
        .condition("Ready")
        .is_none_or(|ready| ready.text("/status") != "True")
    {
        readiness::unready(world, doc, answer);
    }
}

fn failed(doc: &Doc, answer: &mut Explanation) {
    let end = ended(doc);
    // The kubelet, or a controller, tells its own reason for a pod that it has ended.
    let is_own = doc.text("/status/message").is_empty() && doc.text("/status/reason").is_empty();
    let who = match &end {
        _ if evicted::is_evicted(doc) => evicted::who(doc),
        Some(_) if is_own => {
            "owner of the container's program (kubectl logs), or of the pod template".to_owned()
        }
        _ => "owner of the pod template".to_owned(),
    };
    let said = match doc.text("/status/message") {
        "" => end.unwrap_or_else(|| "the pod has failed".to_owned()),
        message => message.to_owned(),
    };
    let message = match doc.text("/status/reason") {
        "" => said,
        reason => format!("{reason}: {said}"),
    };
    answer.add(Reason::new(Code::PodFailed, KUBELET, message).who(who));
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

fn starting(message: &str) -> Reason {
    Reason::new(Code::PodStarting, KUBELET, message)
}
