//! Which requests a policy or webhook is about: rules, selectors, equivalent versions.
//!
//! Upstream: `pkg/admission/plugin/policy/matching` and `pkg/admission/plugin/webhook/predicates`
//! of `k8s.io/apiserver`.

use std::sync::Arc;

use serde_json::Value;

use super::request::{Operation, Request};
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::selectors::selects_labels;

/// The resource in whose version a policy wants to see the objects.
pub(super) type Matched = Arc<Registered>;

impl Server {
    /// The resource in which `criteria` (`MatchResources`, or a webhook) matches the request. The
    /// error tells that a namespace is missing.
    pub(super) fn matched(
        &self,
        request: &Request<'_>,
        criteria: &Value,
        rules: &str,
    ) -> Result<Option<Matched>, String> {
        if !selects_object(request, &criteria["objectSelector"]) {
            return Ok(None);
        }
        let equivalent = criteria["matchPolicy"] != "Exact";
        if self
            .rule_matches(request, list(criteria, "excludeResourceRules"), equivalent)
            .is_some()
        {
            return Ok(None);
        }
        let rules = list(criteria, rules);
        let matched = if rules.is_empty() {
            Some(request.target.entry.clone())
        } else {
            self.rule_matches(request, rules, equivalent)
        };
        let Some(matched) = matched else {
            return Ok(None);
        };
        let selected = self.selects_namespace(request, &criteria["namespaceSelector"])?;
        Ok(selected.then_some(matched))
    }

    /// The resource that one of the rules names: the requested one, or the same objects in another
    /// version.
    fn rule_matches(
        &self,
        request: &Request<'_>,
        rules: &[Value],
        equivalent: bool,
    ) -> Option<Matched> {
        let entry = &request.target.entry;
        let fits = |resource: &Resource| {
            let mut rules = rules.iter();
            rules.any(|rule| rule_fits(request, rule, resource))
        };
        if fits(&entry.resource) {
            return Some(entry.clone());
        }
        let others = || self.registry.resources_of(&entry.store);
        if equivalent && !rules.is_empty() {
            others().into_iter().find(|other| fits(&other.resource))
        } else {
            None
        }
    }

    /// Whether the namespace of the request fits a selector. Objects outside of namespaces fit
    /// every selector; a Namespace has its own labels.
    fn selects_namespace(&self, request: &Request<'_>, selector: &Value) -> Result<bool, String> {
        if selector.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(true);
        }
        if request.target.resource().is("Namespace") {
            let object = request.object.or(request.old);
            return Ok(object.is_some_and(|object| selects_value(selector, object)));
        }
        let namespace = request.namespace();
        if namespace.is_empty() {
            return Ok(true);
        }
        match self.find_object("namespaces", namespace) {
            Some(found) => Ok(selects_labels(selector, |key| found.label(key))),
            None => Err(format!("namespaces \"{namespace}\" not found")),
        }
    }
}

fn selects_object(request: &Request<'_>, selector: &Value) -> bool {
    selector.as_object().is_none_or(serde_json::Map::is_empty)
        || [request.object, request.old]
            .into_iter()
            .flatten()
            .any(|object| selects_value(selector, object))
}

fn selects_value(selector: &Value, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    selects_labels(selector, |key| labels.get(key).and_then(Value::as_str))
}

fn rule_fits(request: &Request<'_>, rule: &Value, resource: &Resource) -> bool {
    let has = |field: &str, wanted: &str| {
        list(rule, field)
            .iter()
            .any(|entry| entry == "*" || entry == wanted)
    };
    let in_scope = match text(rule, "scope") {
        "Namespaced" => resource.namespaced,
        "Cluster" => !resource.namespaced,
        _ => true,
    };
    let names = list(rule, "resourceNames");
    in_scope
        && has("operations", request.operation.as_str())
        && has("apiGroups", &resource.group)
        && has("apiVersions", &resource.version)
        && list(rule, "resources")
            .iter()
            .filter_map(Value::as_str)
            .any(|pattern| resource_fits(pattern, &resource.plural, request.subresource()))
        && (names.is_empty() || names.iter().any(|name| name == request.name))
}

/// Patterns are `pods`, `pods/status`, `pods/*`, `*/status`, `*` (no subresources) and `*/*`.
fn resource_fits(pattern: &str, resource: &str, subresource: &str) -> bool {
    let (wanted, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    (wanted == "*" || wanted == resource) && (part == "*" || part == subresource)
}

/// Whether the configuration of admission itself is written, which no policy and no webhook may
/// prevent.
pub(super) fn is_exempt(request: &Request<'_>) -> bool {
    request.target.resource().group == "admissionregistration.k8s.io"
        || (request.operation == Operation::Create && request.target.resource().verbs == ["create"])
}

#[cfg(test)]
mod tests {
    use super::resource_fits;

    /// Upstream: `webhook/predicates/rules/rules_test.go`.
    #[test]
    fn patterns_of_resources_include_subresources_only_if_they_say_so() {
        let cases = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/*", "pods", "", true),
            ("pods/*", "pods", "status", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/*", "pods", "status", true),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "", false),
            ("services", "pods", "", false),
        ];
        for (pattern, resource, part, fits) in cases {
            assert_eq!(
                resource_fits(pattern, resource, part),
                fits,
                "{pattern} {resource}/{part}"
            );
        }
    }
}
