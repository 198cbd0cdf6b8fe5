//! IP families and linked cluster IPs of Services, in a cluster whose addresses are IPv4.
//!
//! Upstream: `normalizeClusterIPs` and `initIPFamilyFields` in `pkg/registry/core/service/storage`.

use serde_json::{Map, Value, json};
use steersman_releases::Release;

use crate::apimachinery::addresses;
use crate::apimachinery::errors::{Errors, list, text};
use crate::fielderror::FieldError;
use crate::validate;

const POLICY: &str = "spec.ipFamilyPolicy";
const SINGLE: &str = "SingleStack";
const DUAL: &str = "RequireDualStack";

/// The family of the cluster's addresses.
const FAMILY: &str = "IPv4";
const OTHER_FAMILY: &str = "IPv6";

/// `clusterIPs` follows a client that knows only `clusterIP`.
pub(super) fn link_addresses(service: &mut Value, old: Option<&Value>) {
    let address = text(service, "spec.clusterIP").to_owned();
    let known = list(service, "spec.clusterIPs").to_vec();
    let linked = match old {
        None if known.is_empty() && !address.is_empty() => Some(json!([address])),
        None => None,
        Some(old) => {
            let before = list(old, "spec.clusterIPs");
            let is_same = address == text(old, "spec.clusterIP");
            if is_same && known.is_empty() && !before.is_empty() {
                Some(json!(before))
            } else if is_same || known != before {
                None
            } else if address.is_empty() {
                Some(Value::Null)
            } else {
                Some(json!([address]))
            }
        }
    };
    if let Some(linked) = linked
        && let Some(spec) = service["spec"].as_object_mut()
    {
        set(spec, "clusterIPs", linked);
    }
}

/// Sets the policy and the families that a Service lacks. The errors are those of addresses, families
/// and policies that contradict each other.
pub(super) fn complete(
    release: Release,
    service: &mut Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut errors = Errors::of(release);
    if text(service, "spec.type") != "ExternalName" && !old.is_some_and(|old| prefers(service, old))
    {
        choose_policy(service, old);
        errors.extend(validate::service_addresses(release, service, old));
        if errors.len() == 0 {
            choose_families(service, old, &mut errors);
        }
    }
    errors.into_list()
}

/// Whether an update keeps the families of a Service that takes those of the cluster.
fn prefers(new: &Value, old: &Value) -> bool {
    let is_preferred = |service: &Value| text(service, POLICY) == "PreferDualStack";
    is_preferred(new)
        && (old["spec"]["ipFamilyPolicy"].is_null() || is_preferred(old))
        && text(new, "spec.type") == text(old, "spec.type")
        && ["spec.clusterIPs", "spec.ipFamilies"]
            .iter()
            .all(|field| list(new, field) == list(old, field))
}

fn choose_policy(service: &mut Value, old: Option<&Value>) {
    if !service["spec"]["ipFamilyPolicy"].is_null() {
        return;
    }
    let before = old.map_or("", |old| text(old, POLICY));
    let policy = match before {
        "" if accepts_all(service) => DUAL,
        "" => SINGLE,
        before => before,
    };
    service["spec"]["ipFamilyPolicy"] = Value::from(policy);
}

/// Whether the endpoints of a Service can have any family: it is headless and selects no pods.
fn accepts_all(service: &Value) -> bool {
    let selector = service["spec"]["selector"].as_object();
    text(service, "spec.clusterIP") == "None" && selector.is_none_or(Map::is_empty)
}

fn choose_families(service: &mut Value, old: Option<&Value>, errors: &mut Errors) {
    let policy = text(service, POLICY).to_owned();
    let is_single = policy == SINGLE;
    if let Some(old) = old {
        release_second(service, old, &policy, errors);
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if is_single && list(&service["spec"], field).len() == 2 {
            let why = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.invalid(POLICY, policy.as_str(), why);
        }
    }
    let mut families = list(service, "spec.ipFamilies").to_vec();
    families_of_addresses(service, &mut families, errors);
    if errors.len() > 0 {
        return;
    }
    if accepts_all(service) {
        if families.is_empty() {
            families.push(json!(FAMILY));
        }
        if families.len() < 2 && !is_single {
            let other = if families[0] == FAMILY {
                OTHER_FAMILY
            } else {
                FAMILY
            };
            families.push(json!(other));
        }
    } else {
        if policy == DUAL {
            let why = "this cluster is not configured for dual-stack services";
            errors.invalid(POLICY, policy, why);
        }
        for (index, family) in families
            .iter()
            .enumerate()
            .filter(|(_, family)| *family != FAMILY)
        {
            let field = format!("spec.ipFamilies[{index}]");
            errors.invalid(field, family.clone(), "not configured on this cluster");
        }
        if families.is_empty() {
            families.push(json!(FAMILY));
        }
    }
    service["spec"]["ipFamilies"] = Value::from(families);
}

/// A Service that becomes single-stack releases the entries that the update left unchanged. Other policies
/// keep both entries.
fn release_second(service: &mut Value, old: &Value, policy: &str, errors: &mut Errors) {
    let kinds = [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")];
    for (field, what) in kinds {
        let now = list(&service["spec"], field);
        let before = list(&old["spec"], field);
        if policy == SINGLE {
            if now == before && now.len() > 1 {
                service["spec"][field] = json!([now[0]]);
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid(POLICY, policy, why);
        }
    }
}

/// Adds the families of the addresses that have none.
fn families_of_addresses(service: &Value, families: &mut Vec<Value>, errors: &mut Errors) {
    let addresses = list(service, "spec.clusterIPs");
    let is_address = |address: &&Value| **address != "None";
    for (index, address) in addresses.iter().take_while(is_address).enumerate() {
        if index < families.len() {
            continue;
        }
        let parsed = address.as_str().and_then(addresses::sloppy);
        if parsed.is_some_and(|address| address.is_ipv6()) {
            errors.invalid(
                format!("spec.clusterIPs[{index}]"),
                addresses.to_vec(),
                format!("{OTHER_FAMILY} is not configured on this cluster"),
            )
        } else {
            families.push(json!(FAMILY))
        }
    }
}

fn set(spec: &mut Map<String, Value>, field: &str, value: Value) {
    match value {
        Value::Null => drop(spec.remove(field)),
        value => drop(spec.insert(field.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy and the families after a write, or the errors.
    fn completed(old: Option<Value>, new: Value) -> Value {
        let in_service = |spec: Value| json!({"metadata": {"name": "s"}, "spec": spec});
        let old = old.map(in_service);
        let mut service = in_service(new);
        link_addresses(&mut service, old.as_ref());
        let errors = complete(Release::DEFAULT, &mut service, old.as_ref());
        if errors.is_empty() {
            json!([
                service["spec"]["ipFamilyPolicy"],
                service["spec"]["ipFamilies"]
            ])
        } else {
            errors
                .iter()
                .map(|error| Value::from(error.to_string()))
                .collect()
        }
    }

    #[test]
    fn a_service_without_families_gets_those_of_the_cluster() {
        let cases = [
            (
                json!({"clusterIP": "None"}),
                json!([DUAL, ["IPv4", "IPv6"]]),
            ),
            (
                json!({"clusterIP": "None", "selector": {}}),
                json!([DUAL, ["IPv4", "IPv6"]]),
            ),
            (
                json!({"clusterIP": "None", "selector": {"a": "b"}}),
                json!([SINGLE, ["IPv4"]]),
            ),
            (
                json!({"clusterIP": "None", "ipFamilyPolicy": SINGLE}),
                json!([SINGLE, ["IPv4"]]),
            ),
            (
                json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}),
                json!([DUAL, ["IPv6", "IPv4"]]),
            ),
            (json!({}), json!([SINGLE, ["IPv4"]])),
            (
                json!({"ipFamilyPolicy": "PreferDualStack"}),
                json!(["PreferDualStack", ["IPv4"]]),
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(completed(None, spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn families_that_the_cluster_lacks_are_refused() {
        let headless = json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": DUAL, "ipFamilies": ["IPv4", "IPv6"]});
        let mut selecting = headless.clone();
        selecting["selector"] = json!({"a": "b"});
        let found = completed(Some(headless), selecting);
        assert_eq!(
            found,
            json!([
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
                "spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster",
            ])
        );
        let found = completed(None, json!({"clusterIP": "fd00::1"}));
        let why = "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster";
        assert_eq!(found, json!([why]));
    }
}
