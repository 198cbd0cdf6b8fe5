//! Containers that admission adds to pods. A ResourceQuota that demands requests refuses such a pod, even if
//! its template has all of them.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_values::labels::{Labels, Selector, WireSelector};
use steersman_values::resource::{NAMESPACES, ResourceType};
use steersman_why::{Code, Doc, Explanation, Reason, World};

const GROUP: &str = "admissionregistration.k8s.io";
const POLICY: &str = "MutatingAdmissionPolicy";
const BINDING: &str = "MutatingAdmissionPolicyBinding";
const WEBHOOK: &str = "MutatingWebhookConfiguration";
/// Types of workloads whose template stays as it is.
const FIXED: [&str; 2] = ["replicasets", "jobs"];

/// Names the policies and webhooks that may have added the containers that a quota refuses and that the template
/// of `doc` lacks.
pub(super) fn name_injectors(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    answer: &mut Explanation,
) {
    let Some(template) = doc.at("/spec/template") else {
        return;
    };
    for reason in &mut answer.reasons {
        if reason.code != Code::QuotaDemands || !is_current(of, doc, reason) {
            continue;
        }
        let refused = refused(&reason.message);
        let known = containers(template);
        let added: Vec<&str> = refused
            .iter()
            .map(String::as_str)
            .filter(|name| !known.contains(name))
            .collect();
        if added.is_empty() {
            continue;
        }
        let has_own = added.len() < refused.len();
        let (said, mut who) = told(world, doc.namespace(), template, &added);
        if has_own {
            who = format!("{}; and {who}", reason.who);
        }
        reason.message = format!("{}; {said}", reason.message);
        reason.who = who;
    }
}

/// Whether the refusal is about the template that `doc` has now.
fn is_current(of: &ResourceType, doc: &Doc, reason: &Reason) -> bool {
    let is_later = match (reason.last_try, doc.changed()) {
        (Some(last), Some(changed)) => last >= changed,
        _ => false,
    };
    FIXED.contains(&&*of.plural) || is_later
}

/// The containers in `must specify limits.memory for: a,b; requests.cpu for: a`.
fn refused(message: &str) -> BTreeSet<String> {
    let Some((_, list)) = message.split_once("must specify ") else {
        return BTreeSet::new();
    };
    let names = list.split("; ").filter_map(|one| one.split_once(" for: "));
    names
        .flat_map(|(_, names)| names.split(','))
        .filter_map(|name| name.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn containers(template: &Value) -> Vec<&str> {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let lists = lists
        .iter()
        .filter_map(|at| template.pointer(at)?.as_array());
    lists
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect()
}

/// The policies and webhooks that may have added the containers `added`, and the people that can act.
fn told(world: &World, namespace: &str, template: &Value, added: &[&str]) -> (String, String) {
    let names = added.join(", ");
    let (containers, are, adds) = match added {
        [_] => ("container", "is", "it"),
        _ => ("containers", "are", "them"),
    };
    let begin =
        format!("{containers} {names} {are} not in the pod template, so admission adds {adds}");
    let namespace_owner = format!("owner of namespace {namespace} (a LimitRange with defaults)");
    let candidates = candidates(world, namespace, template);
    let all_named = |one: &&Candidate| added.iter().all(|name| one.has(name));
    let certain: Vec<&Candidate> = candidates.iter().filter(all_named).collect();
    let list = |all: &[&Candidate]| -> String {
        let names: Vec<&str> = all.iter().map(|one| &*one.name).collect();
        names.join(", ")
    };
    let all: Vec<&Candidate> = candidates.iter().collect();
    let (message, by) = match (&certain[..], &all[..]) {
        ([], []) => (begin, "the policy or webhook that adds it".to_owned()),
        ([], all) => {
            let by = list(all);
            (
                format!("{begin}; mutating admission of {namespace}: {by}"),
                by,
            )
        }
        (certain, _) => {
            let by = list(certain);
            (format!("{begin}: {by} has {adds} in its mutations"), by)
        }
    };
    let who = format!("operator of {by} (resources of {containers} {names}), or {namespace_owner}");
    (message, who)
}

/// A policy or a webhook that changes new pods.
struct Candidate {
    name: String,
    /// The mutations as text. Those of a webhook are not known.
    mutations: String,
}

impl Candidate {
    /// Whether the mutations have the text `name` in quotes.
    fn has(&self, name: &str) -> bool {
        let quotes = [format!("\\\"{name}\\\""), format!("'{name}'")];
        quotes.iter().any(|quoted| self.mutations.contains(quoted))
    }
}

/// The policies and webhooks that match pods of `template`, as far as selectors tell. Conditions are not
/// evaluated.
fn candidates(world: &World, namespace: &str, template: &Value) -> Vec<Candidate> {
    let named = world.get(&NAMESPACES, "", namespace).found();
    let scope = Scope {
        namespace: named.map(|doc| labels(doc.at("/metadata/labels"))),
        pod: labels(template.pointer("/metadata/labels")),
    };
    let list = |kind: &str| {
        let of = world.resource(GROUP, kind).found()?;
        world.list(&of, "").map(<[Doc]>::to_vec)
    };
    let policies = list(POLICY).unwrap_or_default();
    let bindings = list(BINDING);
    let webhooks = list(WEBHOOK).unwrap_or_default();
    let is_bound = |policy: &Doc| {
        let binds = |binding: &Doc| {
            let resources = binding.at("/spec/matchResources");
            let is_match =
                resources.is_none_or(|resources| scope.matches(resources, "resourceRules"));
            binding.text("/spec/policyName") == policy.name() && is_match
        };
        // Bindings that the caller may not read prove nothing.
        bindings
            .as_ref()
            .is_none_or(|bindings| bindings.iter().any(binds))
    };
    let is_policy = |policy: &&Doc| {
        let constraints = policy.at("/spec/matchConstraints");
        constraints.is_some_and(|rules| scope.matches(rules, "resourceRules")) && is_bound(policy)
    };
    let policies = policies.iter().filter(is_policy).map(|policy| Candidate {
        name: format!("{POLICY} {}", policy.name()),
        mutations: policy
            .at("/spec/mutations")
            .map(Value::to_string)
            .unwrap_or_default(),
    });
    let is_webhook = |doc: &&Doc| {
        let mut webhooks = doc.items("/webhooks").iter();
        webhooks.any(|webhook| scope.matches(webhook, "rules"))
    };
    let webhooks = webhooks.iter().filter(is_webhook).map(|doc| Candidate {
        name: format!("{WEBHOOK} {}", doc.name()),
        mutations: String::new(),
    });
    policies.chain(webhooks).collect()
}

fn labels(value: Option<&Value>) -> Labels {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    Labels::new(pairs.filter_map(|(key, value)| Some((&**key, value.as_str()?))))
}

/// The labels by which admission selects the pods of a template.
struct Scope {
    /// `None` if the caller may not read the namespace.
    namespace: Option<Labels>,
    pod: Labels,
}

impl Scope {
    /// Whether `criteria` match the creation of the pods. The field `rules` has the rules.
    ///
    /// Upstream: `Matches` in `admission/plugin/policy/matching`.
    fn matches(&self, criteria: &Value, rules: &str) -> bool {
        let any = |field: &str| {
            let rules = criteria[field].as_array();
            rules.is_some_and(|rules| rules.iter().any(covers))
        };
        // A policy or binding without rules matches all resources, and a webhook without rules matches none.
        let is_open =
            rules == "resourceRules" && criteria[rules].as_array().is_none_or(Vec::is_empty);
        (is_open || any(rules)) && !any("excludeResourceRules") && self.selects(criteria)
    }

    /// Whether both selectors of `criteria` match.
    fn selects(&self, criteria: &Value) -> bool {
        let namespace = match &self.namespace {
            Some(labels) => is_selected(&criteria["namespaceSelector"], labels),
            None => is_everything(&criteria["namespaceSelector"]),
        };
        namespace && is_selected(&criteria["objectSelector"], &self.pod)
    }
}

/// Whether `rule` covers the creation of any pod.
fn covers(rule: &Value) -> bool {
    let has = |field: &str, wanted: &[&str]| {
        let list = rule[field].as_array().into_iter().flatten();
        let mut texts = list.filter_map(Value::as_str);
        texts.any(|text| wanted.contains(&text))
    };
    let has_names = rule["resourceNames"]
        .as_array()
        .is_some_and(|names| !names.is_empty());
    has("apiGroups", &["", "*"])
        && has("apiVersions", &["v1", "*"])
        && has("operations", &["CREATE", "*"])
        && has("resources", &["pods", "*", "*/*"])
        && rule["scope"] != "Cluster"
        && !has_names
}

/// Whether the selector has no requirement.
fn is_everything(selector: &Value) -> bool {
    parsed(selector).is_some_and(|selector| selector.is_everything())
}

fn is_selected(selector: &Value, labels: &Labels) -> bool {
    parsed(selector).is_some_and(|selector| selector.matches(labels))
}

/// The parsed selector. One that is missing selects all. `None` if it is invalid.
fn parsed(selector: &Value) -> Option<Selector> {
    let wire: Option<WireSelector> = serde_json::from_value(selector.clone()).ok()?;
    Selector::parse(Some(&wire.unwrap_or_default())).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::resource::{PODS, REPLICA_SETS, STATEFUL_SETS};
    use steersman_why::{Loaded, Need, Subject};

    use super::*;

    const REFUSAL: &str = "pods \"api-x\" is forbidden: failed quota: team: must specify limits.memory for: mesh-proxy; requests.cpu for: main,mesh-proxy";

    fn type_of(kind: &'static str) -> ResourceType {
        ResourceType {
            group: GROUP.into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()).into(),
            namespaced: false,
            ..PODS.clone()
        }
    }

    fn rule() -> Value {
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]})
    }

    fn policy(name: &str, container: &str, namespaces: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {"resourceRules": [rule()], "namespaceSelector": namespaces},
            "mutations": [{"jsonPatch": {"expression": format!("name: \"{container}\"")}}]}})
    }

    /// The reason for [`REFUSAL`] of an object of type `of` with the container `own` in its template.
    fn named(of: &ResourceType, own: &str, objects: &[(&str, Value)]) -> Reason {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(jiff::Timestamp::UNIX_EPOCH, None, none);
        for kind in [POLICY, BINDING, WEBHOOK] {
            let of = type_of(kind);
            let typed = Need::Type {
                group: GROUP.to_owned(),
                name: kind.to_owned(),
            };
            world.load(typed, Loaded::Type(Some(of.clone())));
            let list = Need::List {
                of,
                namespace: String::new(),
                fields: String::new(),
            };
            let of_kind = objects.iter().filter(|(one, _)| *one == kind);
            let docs = of_kind.map(|(_, object)| Doc::new(object.clone()));
            world.load(list, Loaded::Objects(docs.collect()));
        }
        let namespace = Need::Object {
            of: NAMESPACES.clone(),
            namespace: String::new(),
            name: "shop".to_owned(),
        };
        let doc = json!({"metadata": {"name": "shop", "labels": {"mesh": "on"}}});
        world.load(namespace, Loaded::Objects(vec![Doc::new(doc)]));
        let doc = json!({
            "metadata": {"namespace": "shop", "creationTimestamp": "2026-11-28T11:00:00Z"},
            "spec": {"template": {"spec": {"containers": [{"name": own}]}}},
        });
        let mut answer = Explanation::new(Subject::new(of, "shop", "api"), "");
        let reason = Reason::new(Code::QuotaDemands, "", REFUSAL).who("owner of the template");
        answer.add(reason);
        name_injectors(&world, of, &Doc::new(doc), &mut answer);
        answer.reasons.remove(0)
    }

    #[test]
    fn containers_that_the_template_lacks_are_those_of_admission() {
        let on = json!({"matchLabels": {"mesh": "on"}});
        let off = json!({"matchLabels": {"mesh": "off"}});
        let binding = |of: &str| (BINDING, json!({"spec": {"policyName": of}}));
        let hook = |rules: Value| {
            (
                WEBHOOK,
                json!({"metadata": {"name": "hook"}, "webhooks": [{"rules": rules}]}),
            )
        };
        let mesh = (POLICY, policy("mesh", "mesh-proxy", &on));
        // (why, objects, part of the message, part of the one that can act)
        let cases = [
            (
                "nothing matches",
                vec![
                    hook(json!([])),
                    (POLICY, policy("off", "mesh-proxy", &off)),
                    binding("off"),
                ],
                "so admission adds it",
                "policy or webhook that adds it",
            ),
            (
                "a policy has the container",
                vec![mesh.clone(), binding("mesh"), hook(json!([rule()]))],
                "adds it: MutatingAdmissionPolicy mesh has it in its mutations",
                "operator of MutatingAdmissionPolicy mesh (resources of container mesh-proxy)",
            ),
            (
                "a policy without a binding",
                vec![mesh.clone(), hook(json!([rule()]))],
                "mutating admission of shop: MutatingWebhookConfiguration hook",
                "operator of MutatingWebhookConfiguration hook",
            ),
            (
                "several candidates",
                vec![
                    (POLICY, policy("other", "x", &on)),
                    binding("other"),
                    hook(json!([rule()])),
                ],
                "MutatingAdmissionPolicy other, MutatingWebhookConfiguration hook",
                "owner of namespace shop (a LimitRange with defaults)",
            ),
        ];
        for (why, objects, message, who) in cases {
            let reason = named(&REPLICA_SETS, "main", &objects);
            assert!(reason.message.starts_with(REFUSAL), "{why}");
            assert!(
                reason.message.contains(message),
                "{why}: {}",
                reason.message
            );
            assert!(reason.who.contains(who), "{why}: {}", reason.who);
            // The container of the template lacks a request, too.
            assert!(
                reason.who.starts_with("owner of the template; and"),
                "{why}"
            );
        }
        let own = named(&REPLICA_SETS, "mesh-proxy", &[]);
        assert!(
            own.message.contains("container main is not in"),
            "{}",
            own.message
        );
        // The refusal may be about an earlier template.
        assert_eq!(named(&STATEFUL_SETS, "main", &[]).message, REFUSAL);
    }

    #[test]
    fn rules_cover_pods_by_all_of_their_parts() {
        assert!(covers(&rule()));
        let changed = |field: &str, value: Value| {
            let mut rule = rule();
            rule[field] = value;
            covers(&rule)
        };
        assert!(changed("apiGroups", json!(["*"])));
        assert!(changed("resources", json!(["*/*"])));
        assert!(!changed("apiGroups", json!(["apps"])));
        assert!(!changed("resources", json!(["pods/exec"])));
        assert!(!changed("operations", json!(["UPDATE"])));
        assert!(!changed("resourceNames", json!(["a"])));
        assert!(!changed("scope", json!("Cluster")));
    }

    #[test]
    fn a_namespace_that_nobody_read_is_selected_by_no_label() {
        let unread = Scope {
            namespace: None,
            pod: Labels::default(),
        };
        assert!(unread.selects(&json!({})));
        assert!(unread.selects(&json!({"namespaceSelector": {}})));
        assert!(!unread.selects(&json!({"namespaceSelector": {"matchLabels": {"a": "b"}}})));
        assert!(!unread.selects(&json!({"objectSelector": {"matchLabels": {"a": "b"}}})));
    }
}
