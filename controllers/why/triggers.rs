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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::{EVENTS, PODS};
    use steersman_why::{Explanation, Loaded, Need};

    use super::*;

    fn type_of(kind: &'static str, namespaced: bool) -> ResourceType {
        ResourceType {
            group: GROUP.into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()).into(),
            namespaced,
            ..PODS.clone()
        }
    }

    /// The reason of a ScaledObject of `group` with this reference of its trigger, and an Event with this reason.
    /// `objects` exist.
    fn told(
        group: &'static str,
        event: &str,
        reference: Value,
        objects: &[(&'static str, Value)],
    ) -> Option<Reason> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let doc = Doc::new(json!({
            "metadata": {"namespace": "shop", "name": "mails", "uid": "u1"},
            "spec": {"triggers": [{"type": "rabbitmq", "authenticationRef": reference}]},
        }));
        let events = Need::List {
            of: EVENTS.clone(),
            namespace: "shop".to_owned(),
            fields: "involvedObject.uid=u1".to_owned(),
        };
        let event = json!({"type": "Warning", "reason": event, "message": "cannot log in\n", "count": 3, "source": {"component": "keda-operator"}});
        world.load(events, Loaded::Objects(vec![Doc::new(event)]));
        for (kind, namespaced) in [
            ("TriggerAuthentication", true),
            ("ClusterTriggerAuthentication", false),
        ] {
            let of = type_of(kind, namespaced);
            let typed = Need::Type {
                group: GROUP.to_owned(),
                name: kind.to_owned(),
            };
            world.load(typed, Loaded::Type(Some(of.clone())));
            let object = Need::Object {
                of,
                namespace: if namespaced { "shop" } else { "" }.to_owned(),
                name: "login".to_owned(),
            };
            let found = objects.iter().find(|(other, _)| *other == kind);
            let outcome = found.map_or(Loaded::Absent, |(_, object)| {
                Loaded::Objects(vec![Doc::new(object.clone())])
            });
            world.load(object, outcome);
        }
        let of = ResourceType {
            group: group.into(),
            ..type_of("ScaledObject", true)
        };
        failed(&world, &of, &doc)
    }

    #[test]
    fn a_failing_trigger_is_told_with_its_credentials() {
        let secret = json!({"spec": {"secretTargetRef": [{"name": "rabbit", "key": "host"}]}});
        let of_cluster = json!({"name": "login", "kind": "ClusterTriggerAuthentication"});
        // (reference, objects, end of the message, start of the one that can act)
        let cases = [
            (
                json!({"name": "login"}),
                vec![("TriggerAuthentication", secret.clone())],
                "trigger rabbitmq uses TriggerAuthentication login, with Secret shop/rabbit",
                "owner of Secret shop/rabbit, or owner of ",
            ),
            (
                of_cluster,
                vec![("ClusterTriggerAuthentication", secret)],
                "trigger rabbitmq uses ClusterTriggerAuthentication login, with Secret rabbit",
                "owner of Secret rabbit, or ",
            ),
            (
                json!({"name": "login"}),
                vec![(
                    "TriggerAuthentication",
                    json!({"spec": {"podIdentity": {"provider": "aws"}}}),
                )],
                "trigger rabbitmq uses TriggerAuthentication login",
                "owner of scaledobject shop/mails",
            ),
            (
                json!({"name": "login"}),
                vec![],
                "TriggerAuthentication login, which does not exist",
                "creator of TriggerAuthentication login, or owner of ",
            ),
            (
                Value::Null,
                vec![],
                "KEDAScalerFailed: cannot log in",
                "owner of scaledobject shop/mails or of the source",
            ),
        ];
        for (reference, objects, message, who) in cases {
            let reason = told(GROUP, "KEDAScalerFailed", reference, &objects).unwrap();
            assert!(
                reason.message.ends_with(message),
                "{message}: {}",
                reason.message
            );
            assert!(reason.who.starts_with(who), "{who}: {}", reason.who);
            assert_eq!((&*reason.by, reason.attempts), ("keda-operator", 3));
        }
        assert_eq!(told("other.sh", "KEDAScalerFailed", Value::Null, &[]), None);
        assert_eq!(told(GROUP, "KEDAScalersStarted", Value::Null, &[]), None);
    }
}
