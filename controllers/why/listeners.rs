//! Listeners of a Gateway to which a route may not attach, by the rules of their `allowedRoutes`. The condition of the
//! route tells neither the listener nor the rule.
//!
//! Upstream: `AllowedRoutes` of Gateway API. Without a rule, a listener takes routes of the namespace of its Gateway.

use serde::Deserialize;
use serde_json::Value;
use steersman_objects::Namespace;
use steersman_values::labels::{Selector, WireSelector};
use steersman_values::resource::{NAMESPACES, ResourceType};
use steersman_why::{Doc, Reason, World, conditions};

const GROUP: &str = "gateway.networking.k8s.io";
/// The reason of the condition `Accepted` of a route that no listener takes.
const REFUSED: &str = "NotAllowedByListeners";
/// Listeners in one sentence.
const SHOWN: usize = 3;

/// The rule of a listener that does not take a route.
struct Rule {
    text: String,
    /// The people beside the owner of the Gateway that can act.
    who: String,
}

/// Names the listeners that do not take the route `doc`, and their rules, in the `reason` of the condition `one`.
pub(super) fn name_rules(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    one: &conditions::Found<'_>,
    reason: &mut Reason,
) {
    if one.reason() != REFUSED {
        return;
    }
    let Some(gateway) = gateway(world, doc, one.parent()) else {
        return;
    };
    let meant = meant(&gateway, one.parent());
    let rules = meant.iter();
    let rules = rules.filter_map(|listener| rule(world, of, doc, &gateway, listener));
    let rules: Vec<Rule> = rules.collect();
    let Some(first) = rules.first() else {
        return;
    };
    let shown = rules.iter().take(SHOWN).map(|rule| &*rule.text);
    reason.message = format!(
        "{}; {}",
        reason.message.trim_end_matches('.'),
        shown.collect::<Vec<_>>().join("; ")
    );
    // Another listener may refuse the route for another reason.
    if rules.len() == meant.len() {
        reason.who = format!(
            "owner of Gateway {}/{} (allowedRoutes){}",
            gateway.namespace(),
            gateway.name(),
            first.who
        );
    }
}

/// The Gateway that `parent` names, a reference of the route `doc`.
fn gateway(world: &World, doc: &Doc, parent: &Value) -> Option<Doc> {
    let text = |field: &str| parent[field].as_str().filter(|text| !text.is_empty());
    if text("kind").is_some_and(|kind| kind != "Gateway") {
        return None;
    }
    let of = world.resource(GROUP, "Gateway").found()?;
    let namespace = text("namespace").unwrap_or(doc.namespace());
    world.get(&of, namespace, text("name")?).found()
}

/// The listeners of `gateway` that `parent` means: all without a section and a port.
fn meant<'d>(gateway: &'d Doc, parent: &Value) -> Vec<&'d Value> {
    let is_same = |wanted: &Value, found: &Value| wanted.is_null() || wanted == found;
    let listeners = gateway.items("/spec/listeners").iter();
    let meant = listeners.filter(|listener| {
        is_same(&parent["sectionName"], &listener["name"])
            && is_same(&parent["port"], &listener["port"])
    });
    meant.collect()
}

/// The rule by which `listener` of `gateway` does not take the route `doc` of type `of`. `None` if it takes the route,
/// and if that is unknown.
fn rule(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    gateway: &Doc,
    listener: &Value,
) -> Option<Rule> {
    let name = listener["name"].as_str()?;
    let allowed = &listener["allowedRoutes"];
    let kinds = allowed["kinds"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = kinds.filter_map(|kind| kind["kind"].as_str()).collect();
    let from = &allowed["namespaces"]["from"];
    let own = doc.namespace();
    let rule = |takes: String, who: String| {
        let text = format!("listener {name} takes {takes}");
        Some(Rule { text, who })
    };
    if !kinds.is_empty() && !kinds.contains(&&*of.kind) {
        let takes = format!("{} alone (allowedRoutes.kinds)", kinds.join(", "));
        return rule(takes, String::new());
    }
    match from.as_str().unwrap_or("Same") {
        "Same" if gateway.namespace() != own => rule(
            format!(
                "routes of namespace {} alone (allowedRoutes.namespaces.from: Same)",
                gateway.namespace()
            ),
            String::new(),
        ),
        "None" => rule(
            "routes of no namespace (allowedRoutes.namespaces.from: None)".to_owned(),
            String::new(),
        ),
        "Selector" => {
            let wire = WireSelector::deserialize(&allowed["namespaces"]["selector"]).ok()?;
            let selector = Selector::parse(Some(&wire)).ok()?;
            let namespace = world.get(&NAMESPACES, "", own).found()?;
            let view = namespace.view::<Namespace>()?;
            if selector.matches(&view.meta.labels) {
                return None;
            }
            let takes = format!(
                "routes of namespaces with {selector} alone (allowedRoutes.namespaces.from: Selector), and namespace {own} \
                 is none of them"
            );
            let who = format!(", or owner of namespace {own} (its labels)");
            rule(takes, who)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use steersman_values::resource::PODS;
    use steersman_why::{Code, Explanation, Loaded, Need};

    fn of_kind(kind: &'static str, plural: &'static str) -> ResourceType {
        ResourceType {
            group: GROUP.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            ..PODS.clone()
        }
    }

    /// The reason of a route in namespace `web` about a Gateway of namespace `edge` with these listeners.
    fn told(listeners: &Value, parent: &Value, because: &str) -> Reason {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(jiff::Timestamp::UNIX_EPOCH, None, none);
        let gateways = of_kind("Gateway", "gateways");
        let typed = Need::Type {
            group: GROUP.to_owned(),
            name: "Gateway".to_owned(),
        };
        world.load(typed, Loaded::Type(Some(gateways.clone())));
        let objects = [
            (gateways, "edge", "public", json!({"listeners": listeners})),
            (NAMESPACES.clone(), "", "web", json!({})),
        ];
        for (of, namespace, name, spec) in objects {
            let metadata = json!({"namespace": namespace, "name": name, "labels": {"team": "web"}});
            let doc = Doc::new(json!({"metadata": metadata, "spec": spec}));
            let need = Need::Object {
                of,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            world.load(need, Loaded::Objects(vec![doc]));
        }
        let route = Doc::new(json!({
            "metadata": {"namespace": "web", "name": "shop"},
            "status": {"parents": [{"parentRef": parent, "conditions": [
                {"type": "Accepted", "status": "False", "reason": because, "message": "refused."},
            ]}]},
        }));
        let found = conditions::all(&route);
        let mut reason = Reason::new(Code::ConditionBad, "", "refused.").who("before");
        let of = of_kind("HTTPRoute", "httproutes");
        name_rules(&world, &of, &route, &found[0], &mut reason);
        reason
    }

    fn listener(name: &str, allowed: Value) -> Value {
        json!({"name": name, "port": 80, "allowedRoutes": allowed})
    }

    #[test]
    fn the_rule_of_a_listener_that_does_not_take_a_route_is_told() {
        let selector = |team: &str| json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": team}}}});
        // (allowedRoutes, clause)
        let cases = [
            (
                Value::Null,
                "listener http takes routes of namespace edge alone (allowedRoutes.namespaces.from: Same)",
            ),
            (
                json!({"namespaces": {"from": "None"}}),
                "listener http takes routes of no namespace (allowedRoutes.namespaces.from: None)",
            ),
            (
                selector("bank"),
                "listener http takes routes of namespaces with team=bank alone (allowedRoutes.namespaces.from: Selector), and \
                 namespace web is none of them",
            ),
            (
                json!({"namespaces": {"from": "All"}, "kinds": [{"kind": "GRPCRoute"}]}),
                "listener http takes GRPCRoute alone (allowedRoutes.kinds)",
            ),
            (selector("web"), ""),
            (
                json!({"namespaces": {"from": "All"}, "kinds": [{"kind": "HTTPRoute"}]}),
                "",
            ),
        ];
        let parent = json!({"name": "public", "namespace": "edge"});
        for (allowed, clause) in cases {
            let reason = told(&json!([listener("http", allowed)]), &parent, REFUSED);
            if clause.is_empty() {
                assert_eq!((&*reason.message, &*reason.who), ("refused.", "before"));
            } else {
                assert_eq!(reason.message, format!("refused; {clause}"));
                assert!(
                    reason
                        .who
                        .starts_with("owner of Gateway edge/public (allowedRoutes)")
                );
                assert_eq!(
                    reason.who.contains("namespace web"),
                    clause.contains("Selector")
                );
            }
        }
    }

    #[test]
    fn only_the_listeners_of_the_reference_are_told() {
        let open = listener("open", json!({"namespaces": {"from": "All"}}));
        let listeners = json!([listener("http", Value::Null), open]);
        let named = |section: Value, because: &str| {
            let parent = json!({"name": "public", "namespace": "edge", "sectionName": section});
            told(&listeners, &parent, because)
        };
        // The listener `open` has another reason.
        let all = named(Value::Null, REFUSED);
        assert!(all.message.contains("listener http takes"));
        assert_eq!(all.who, "before");
        assert_eq!(named(json!("open"), REFUSED).message, "refused.");
        assert!(
            named(json!("http"), REFUSED)
                .who
                .contains("Gateway edge/public")
        );
        assert_eq!(named(json!("http"), "NoMatchingParent").message, "refused.");
    }
}
