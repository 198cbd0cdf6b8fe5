//! The objects that register an admission webhook. Refusals name the webhook, and people edit the object.

use serde_json::Value;
use steersman_why::{Code, Doc, Explanation, World};

const GROUP: &str = "admissionregistration.k8s.io";
const KINDS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Names the configurations of the webhooks that refused the writes in `answer`.
pub(super) fn name_configurations(world: &World, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        let is_webhook = matches!(reason.code, Code::WebhookRefused | Code::WebhookUnreachable);
        let webhook = reason.fields.get("webhook").and_then(Value::as_str);
        let Some(webhook) = webhook.filter(|_| is_webhook) else {
            continue;
        };
        let found = configurations(world, webhook);
        if !found.is_empty() {
            let objects = found.join(", ");
            reason.who = format!("{} ({objects})", reason.who);
            reason
                .fields
                .insert("configuration".to_owned(), objects.into());
        }
    }
}

fn configurations(world: &World, webhook: &str) -> Vec<String> {
    let mut found = Vec::new();
    for kind in KINDS {
        let of = world.resource(GROUP, kind).found();
        let all = of.and_then(|of| world.list(&of, "")).unwrap_or_default();
        let registers = |doc: &&Doc| {
            let mut webhooks = doc.items("/webhooks").iter();
            webhooks.any(|one| one["name"] == webhook)
        };
        let names = all.iter().filter(registers);
        found.extend(names.map(|doc| format!("{kind} {}", doc.name())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use steersman_values::resource::{PODS, ResourceType};
    use steersman_why::{Loaded, Need, Reason, Subject};

    #[test]
    fn a_refusal_names_the_configuration_of_its_webhook() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(jiff::Timestamp::UNIX_EPOCH, None, none);
        for (kind, name, webhook) in [
            (KINDS[0], "sidecars", "inject.example.com"),
            (KINDS[1], "labels", "labels.example.com"),
        ] {
            let of = ResourceType {
                group: GROUP.into(),
                kind: kind.into(),
                plural: format!("{}s", kind.to_lowercase()).into(),
                namespaced: false,
                ..PODS.clone()
            };
            let typed = Need::Type {
                group: GROUP.to_owned(),
                name: kind.to_owned(),
            };
            world.load(typed, Loaded::Type(Some(of.clone())));
            let all = Need::List {
                of,
                namespace: String::new(),
                fields: String::new(),
            };
            let doc = json!({"metadata": {"name": name}, "webhooks": [{"name": webhook}]});
            world.load(all, Loaded::Objects(vec![Doc::new(doc)]));
        }
        let who_of = |code, webhook: &str| {
            let mut answer = Explanation::new(Subject::new(&PODS, "", ""), "");
            answer.add(
                Reason::new(code, "", "")
                    .field("webhook", webhook)
                    .who("operator"),
            );
            name_configurations(&world, &mut answer);
            answer.reasons.remove(0).who
        };
        let cases = [
            (
                Code::WebhookRefused,
                "labels.example.com",
                "operator (ValidatingWebhookConfiguration labels)",
            ),
            (
                Code::WebhookUnreachable,
                "inject.example.com",
                "operator (MutatingWebhookConfiguration sidecars)",
            ),
            (Code::WebhookRefused, "unknown.example.com", "operator"),
            (Code::PolicyRefused, "labels.example.com", "operator"),
        ];
        for (code, webhook, expected) in cases {
            assert_eq!(who_of(code, webhook), expected, "{code:?} {webhook}");
        }
    }
}
