//! Why a pod with running containers is not ready.

use super::container::{crashed_before, killed_by_probe};
use super::{KUBELET, START, probes, starting};
use crate::{Code, Doc, Explanation, Reason, World, warning};

/// The reasons why a pod with running containers is not ready.
pub(super) fn unready(world: &World, doc: &Doc, answer: &mut Explanation) {
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
        let said = event.message.trim();
        let message = format!("{said}{}", probes::told(doc, None, said));
        let mut reason = Reason::new(Code::PodNotReady, KUBELET, message)
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
