//! The objects that register an admission webhook. Refusals name the webhook, and people edit the object.

use serde_json::Value;
use steersman_objects::Service;
use steersman_values::intern::Sym;
use steersman_values::resource::{DAEMON_SETS, NAMESPACES, REPLICA_SETS, SERVICES, STATEFUL_SETS};
use steersman_why::{Code, Doc, Explanation, World, warning};

const GROUP: &str = "admissionregistration.k8s.io";
const KINDS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Names the configurations of the webhooks that refused the writes in `answer`, and follows the Services of
/// those that cannot be called.
pub(super) fn name_configurations(world: &World, answer: &mut Explanation) {
    let mut called = Vec::new();
    for reason in &mut answer.reasons {
        let is_webhook = matches!(reason.code, Code::WebhookRefused | Code::WebhookUnreachable);
        let webhook = reason.fields.get("webhook").and_then(Value::as_str);
        let Some(webhook) = webhook.filter(|_| is_webhook) else {
            continue;
        };
        let found = configurations(world, webhook);
        if !found.is_empty() {
            let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
            let objects = names.join(", ");
            let mut services = found.iter().filter_map(|(_, service)| service.as_ref());
            let refuses_itself = services.find_map(|service| own_pods(world, service, webhook));
            let mut services = found.iter().filter_map(|(_, service)| service.as_ref());
            let gone =
                services.find(|(namespace, _)| world.get(&NAMESPACES, "", namespace).is_absent());
            if let Some((namespace, _)) = gone.filter(|_| reason.code == Code::WebhookUnreachable) {
                reason.message = format!(
                    "{}; namespace {namespace} of its Service does not exist, so {objects} is left over from a removed program",
                    reason.message
                );
                reason.who = format!(
                    "administrator of the cluster (delete {objects}, or install the program in {namespace} again)"
                );
            } else if let Some(pods) =
                refuses_itself.filter(|_| reason.code == Code::WebhookUnreachable)
            {
                reason.message = format!(
                    "{}; the webhook refuses its own pods, those of {pods}, so it cannot start by itself",
                    reason.message
                );
                reason.who = format!(
                    "owner of {objects} (delete it until the webhook runs, then exempt its namespace)"
                );
            } else {
                reason.who = format!("{} ({objects})", reason.who);
                if reason.code == Code::WebhookUnreachable {
                    called.extend(found.iter().filter_map(|(_, service)| service.clone()));
                }
            }
            reason
                .fields
                .insert("configuration".to_owned(), objects.into());
        }
    }
    called.dedup();
    for (namespace, name) in called {
        follow_service(world, &namespace, &name, answer);
    }
}

/// Follows a Service that a webhook is called by, if it stands still.
pub(super) fn follow_service(world: &World, namespace: &str, name: &str, answer: &mut Explanation) {
    if let Some(service) = world.get(&SERVICES, namespace, name).found() {
        let about = world.explain(&SERVICES, &service);
        if about.is_stuck() {
            answer.follow(about);
        }
    }
}

/// The workload behind `service` of a webhook, if its pods are refused by this webhook.
fn own_pods(world: &World, (namespace, name): &(String, String), webhook: &str) -> Option<String> {
    let service = world.get(&SERVICES, namespace, name).found()?;
    let selector = service.view::<Service>()?.spec.selector.clone();
    [&REPLICA_SETS, &STATEFUL_SETS, &DAEMON_SETS]
        .into_iter()
        .find_map(|of| {
            let all = world.list(of, namespace)?;
            let is_refused = |doc: &&Doc| {
                let labels = doc.at("/spec/template/metadata/labels");
                let has =
                    |(key, value): (&Sym, &Sym)| labels.is_some_and(|all| all[&**key] == **value);
                let is_behind = !selector.is_empty() && selector.iter().all(has);
                let call = format!("failed calling webhook \"{webhook}\"");
                is_behind
                    && warning(world, doc, &["FailedCreate"])
                        .is_some_and(|event| event.message.contains(&call))
            };
            let workload = all.iter().find(is_refused)?;
            let kind = of.kind.to_lowercase();
            Some(format!("{kind} {namespace}/{}", workload.name()))
        })
}

/// The configurations that register `webhook`, each with the Service that it calls.
fn configurations(world: &World, webhook: &str) -> Vec<(String, Option<(String, String)>)> {
    let mut found = Vec::new();
    for kind in KINDS {
        let of = world.resource(GROUP, kind).found();
        let all = of.and_then(|of| world.list(&of, "")).unwrap_or_default();
        for doc in all {
            let mut webhooks = doc.items("/webhooks").iter();
            let Some(one) = webhooks.find(|one| one["name"] == webhook) else {
                continue;
            };
            let text = |field: &str| {
                let at = one.pointer(&format!("/clientConfig/service/{field}"));
                at.and_then(Value::as_str).map(str::to_owned)
            };
            let service = text("namespace").zip(text("name"));
            found.push((format!("{kind} {}", doc.name()), service));
        }
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
