//! References to objects of other namespaces, which a ReferenceGrant of Gateway API has to allow there.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_values::resource::ResourceType;
use steersman_why::{Doc, Reason, World, conditions};

const GROUP: &str = "gateway.networking.k8s.io";
const GRANT: &str = "ReferenceGrant";

/// An object of another namespace that a spec names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

/// Names the references that no grant allows, in the `reason` of the condition `one`.
pub(super) fn name_missing(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    one: &conditions::Found<'_>,
    reason: &mut Reason,
) {
    if one.reason() != "RefNotPermitted" {
        return;
    }
    let Some(grant) = world.resource(GROUP, GRANT).found() else {
        return;
    };
    let mut owners = BTreeSet::new();
    let mut said = Vec::new();
    for target in targets(doc) {
        let Some(grants) = world.list(&grant, &target.namespace) else {
            continue;
        };
        if grants.iter().any(|grant| allows(grant, of, doc, &target)) {
            continue;
        }
        let Target {
            kind,
            namespace,
            name,
            ..
        } = &target;
        said.push(format!(
            "no {GRANT} in {namespace} allows {} of {} to use {kind} {name} ({})",
            of.kind,
            doc.namespace(),
            known(grants)
        ));
        owners.insert(format!(
            "owner of namespace {namespace} (a {GRANT} from {} of namespace {} to {kind} {name})",
            of.kind,
            doc.namespace()
        ));
    }
    if !said.is_empty() {
        reason.message = format!(
            "{}; {}",
            reason.message.trim_end_matches('.'),
            said.join("; ")
        );
        reason.who = owners.into_iter().collect::<Vec<_>>().join("; ");
    }
}

/// The grants of a namespace with the namespaces that they allow.
fn known(grants: &[Doc]) -> String {
    let each = grants.iter().map(|grant| {
        let from = grant.items("/spec/from").iter().map(|from| {
            let text = |field: &str| from[field].as_str().unwrap_or_default();
            format!("{} of {}", text("kind"), text("namespace"))
        });
        let from = from.collect::<Vec<_>>().join(", ");
        format!("{} allows {from}", grant.name())
    });
    match &each.collect::<Vec<_>>()[..] {
        [] => "there is none".to_owned(),
        each => each.join("; "),
    }
}

/// Whether `grant` allows `doc` of type `of` to name `target`.
fn allows(grant: &Doc, of: &ResourceType, doc: &Doc, target: &Target) -> bool {
    let is = |value: &Value, text: &str| value.as_str().unwrap_or_default() == text;
    let is_from = |from: &Value| {
        is(&from["group"], &of.group)
            && is(&from["kind"], &of.kind)
            && is(&from["namespace"], doc.namespace())
    };
    let is_to = |to: &Value| {
        let is_name = to["name"].as_str().is_none_or(|name| name == target.name);
        is(&to["group"], &target.group) && is(&to["kind"], &target.kind) && is_name
    };
    grant.items("/spec/from").iter().any(is_from) && grant.items("/spec/to").iter().any(is_to)
}

/// The references of the spec to objects of other namespaces. A route may name a Gateway elsewhere as its parent:
/// the Gateway decides that.
fn targets(doc: &Doc) -> BTreeSet<Target> {
    let mut found = BTreeSet::new();
    if let Some(spec) = doc.at("/spec") {
        collect(spec, "", doc.namespace(), &mut found);
    }
    found
}

fn collect(value: &Value, field: &str, own: &str, found: &mut BTreeSet<Target>) {
    match value {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            if let Some((name, namespace)) = text("name").zip(text("namespace"))
                && namespace != own
            {
                let kind = match field {
                    "certificateRefs" => "Secret",
                    _ => "Service",
                };
                found.insert(Target {
                    group: text("group").unwrap_or_default().to_owned(),
                    kind: text("kind").unwrap_or(kind).to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                });
            }
            let fields = fields.iter().filter(|(name, _)| *name != "parentRefs");
            for (name, value) in fields {
                collect(value, name, own, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, field, own, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use steersman_values::resource::PODS;

    #[test]
    fn references_to_other_namespaces_need_a_grant_for_their_kind_and_namespace() {
        let route = Doc::new(json!({"metadata": {"namespace": "shop"}, "spec": {
            "parentRefs": [{"name": "public", "namespace": "edge"}],
            "rules": [{"backendRefs": [{"name": "own"}, {"name": "api", "namespace": "bank", "kind": "Service"}]}],
        }}));
        let targets = targets(&route);
        let target = targets.first().unwrap();
        assert_eq!(targets.len(), 1);
        assert_eq!((&*target.name, &*target.namespace), ("api", "bank"));
        let of = ResourceType {
            group: GROUP.into(),
            kind: "HTTPRoute".into(),
            ..PODS.clone()
        };
        let is_allowed = |kind: &str, namespace: &str, name: Value| {
            let grant = Doc::new(json!({"spec": {
                "from": [{"group": GROUP, "kind": kind, "namespace": namespace}],
                "to": [{"group": "", "kind": "Service", "name": name}],
            }}));
            allows(&grant, &of, &route, target)
        };
        assert!(is_allowed("HTTPRoute", "shop", Value::Null));
        assert!(is_allowed("HTTPRoute", "shop", json!("api")));
        assert!(!is_allowed("HTTPRoute", "shop", json!("other")));
        assert!(!is_allowed("HTTPRoute", "web", Value::Null));
        assert!(!is_allowed("GRPCRoute", "shop", Value::Null));
    }
}
