//! The trigger of a ScaledObject of KEDA that fails. Its condition tells only that triggers do not work; an Event tells
//! why, and neither tells the credentials.

use serde_json::Value;
use steersman_values::resource::ResourceType;
use steersman_why::{Code, Doc, Reason, World, warning};

const GROUP: &str = "keda.sh";

/// The reason of a failing trigger of `doc`, with the credentials of its triggers.
pub(super) fn failed(world: &World, of: &ResourceType, doc: &Doc) -> Option<Reason> {
    if of.group != GROUP {
        return None;
    }
    let event = warning(world, doc, &["KEDAScalerFailed"])?;
    let mut message = format!("{}: {}", event.reason, event.message.trim());
    let mut owners = Vec::new();
    for trigger in doc.items("/spec/triggers") {
        if let Some((text, owner)) = credentials(world, doc, trigger) {
            message = format!("{message}; {text}");
            owners.extend(owner);
        }
    }
    owners.push(format!(
        "owner of {} or of the source of its trigger",
        doc.subject(of).long()
    ));
    let mut reason = Reason::new(Code::MetricsFailed, event.from, message)
        .who(owners.join(", or "))
        .since(event.first);
    reason.last_try = event.at;
    reason.attempts = event.count;
    Some(reason)
}

/// The object with the credentials of `trigger`, and the owner of its Secret.
fn credentials(world: &World, doc: &Doc, trigger: &Value) -> Option<(String, Option<String>)> {
    let name = trigger["authenticationRef"]["name"].as_str()?;
    let kind = trigger["authenticationRef"]["kind"]
        .as_str()
        .unwrap_or("TriggerAuthentication");
    let begin = format!(
        "trigger {} uses {kind} {name}",
        trigger["type"].as_str().unwrap_or_default()
    );
    let of = world.resource(GROUP, kind).found()?;
    let namespace = if of.namespaced { doc.namespace() } else { "" };
    let found = world.get(&of, namespace, name);
    if found.is_absent() {
        let who = format!("creator of {kind} {name}");
        return Some((format!("{begin}, which does not exist"), Some(who)));
    }
    let found = found.found()?;
    let secret = found.items("/spec/secretTargetRef").first();
    let secret = secret.and_then(|secret| secret["name"].as_str());
    let Some(secret) = secret else {
        return Some((begin, None));
    };
    // The Secret of a cluster-scoped object is in the namespace of KEDA.
    let place = match namespace {
        "" => secret.to_owned(),
        namespace => format!("{namespace}/{secret}"),
    };
    let who = format!("owner of Secret {place}");
    Some((format!("{begin}, with Secret {place}"), Some(who)))
}
