//! Resources of containers and pods, and resource claims.
//!
//! Upstream: `validateResourceRequirements`, `validatePodResources` and `validatePodResourceClaims`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::context::Pod;
use super::restart::is_sidecar;
use super::{Errors, Path, annotations, formats, list, text};
use crate::schema::internal;
use crate::schema::quantity::Quantity;
use crate::validate::resource_names::{
    self, HUGE_PAGES, check_of_container, is_counted, is_native,
};

type NameCheck = fn(&Path<'_>, &str, &mut Errors);

/// Whether pods can request more of a resource than a node has.
fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn pod_resource_name(field: &Path<'_>, name: &str, errors: &mut Errors) {
    let before = errors.len();
    resource_names::check(field, name, errors);
    let is_supported = ["cpu", "memory"].contains(&name) || name.starts_with(HUGE_PAGES);
    if errors.len() == before && !is_supported {
        errors.not_supported(field, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Checks that an amount is not negative, and an integer where only those make sense.
/// Upstream: `ValidateResourceQuantityValue`.
pub(in super::super) fn amount(
    path: &Path<'_>,
    name: &str,
    text: &str,
    amount: Quantity,
    errors: &mut Errors,
) {
    if amount.is_negative() {
        errors.invalid(path, text, "must be greater than or equal to 0");
    }
    if !amount.is_integer() && is_counted(name) {
        errors.invalid(path, text, "must be an integer");
    }
}

/// The named amounts of an object.
fn amounts(object: &Value) -> impl Iterator<Item = (&str, &str, Quantity)> {
    object
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            let text = value.as_str()?;
            Some((name.as_str(), text, Quantity::parse(text)?))
        })
}

fn huge_pages(path: &Path<'_>, name: &str, text: &str, amount: Quantity, errors: &mut Errors) {
    let size = Quantity::parse(&name[HUGE_PAGES.len()..])
        .filter(|size| size.is_integer() && size.units() > 0);
    if size.is_none_or(|size| amount.units() % size.units() != 0) {
        let detail = format!("{text} is not positive integer multiple of {name}");
        errors.invalid(path, text, detail);
    }
}

/// Checks the resources of a container. `claims` are the resource claims of its pod.
pub(super) fn of_container(
    path: &Path<'_>,
    requirements: &Value,
    claims: &[&str],
    errors: &mut Errors,
) {
    if requirements
        .as_object()
        .is_none_or(|fields| fields.is_empty())
    {
        return;
    }
    check(path, requirements, check_of_container, errors);
    claim_names(
        &path.child("claims"),
        list(requirements, "claims"),
        claims,
        errors,
    );
}

/// Checks the resources that a runtime needs beyond the containers.
pub(in super::super) fn overhead(path: &Path<'_>, limits: &Value, errors: &mut Errors) {
    check(
        path,
        &serde_json::json!({ "limits": limits }),
        check_of_container,
        errors,
    );
}

fn check(path: &Path<'_>, requirements: &Value, name_check: NameCheck, errors: &mut Errors) {
    let limits_path = path.child("limits");
    let requests_path = path.child("requests");
    let limits = &requirements["limits"];
    let requests = &requirements["requests"];
    let mut has_huge_pages = false;
    let mut has_basic = false;
    let mut each = |path: &Path<'_>, name: &str, text: &str, value, errors: &mut Errors| {
        name_check(path, name, errors);
        amount(path, name, text, value, errors);
        has_basic |= ["cpu", "memory"].contains(&name);
        has_huge_pages |= name.starts_with(HUGE_PAGES);
    };
    for (name, text, value) in amounts(limits) {
        let path = limits_path.key(name);
        each(&path, name, text, value, errors);
        if name.starts_with(HUGE_PAGES) {
            huge_pages(&path, name, text, value, errors);
        }
    }
    for (name, given, value) in amounts(requests) {
        let path = requests_path.key(name);
        each(&path, name, given, value, errors);
        let limit = text_of(limits, name).and_then(|text| Some((text, Quantity::parse(text)?)));
        match limit {
            Some((limit, most)) if value != most && !allows_overcommit(name) => errors.invalid(
                requests_path,
                given,
                format!("must be equal to {name} limit of {limit}"),
            ),
            Some((limit, most)) if value > most => errors.invalid(
                requests_path,
                given,
                format!("must be less than or equal to {name} limit of {limit}"),
            ),
            None if !allows_overcommit(name) => errors.required(
                limits_path,
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
        if name.starts_with(HUGE_PAGES) {
            huge_pages(&path, name, given, value, errors);
        }
    }
    if has_huge_pages && !has_basic {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn text_of<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// Checks the claims that a container uses. Upstream: `validateResourceClaimNames`.
fn claim_names(path: &Path<'_>, claims: &[Value], of_pod: &[&str], errors: &mut Errors) {
    let mut used = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let name = text(claim, "name");
        let request = text(claim, "request");
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        if used.contains(name) {
            errors.duplicate(path, name);
        } else {
            let key = if request.is_empty() {
                name.to_owned()
            } else {
                errors.complaints(path.child("request"), request, formats::label(request));
                format!("{name}/{request}")
            };
            if used.contains(&key) {
                errors.duplicate(path, key.as_str());
            } else if request.is_empty() {
                let is_same =
                    |used: &&String| used.split_once('/').is_some_and(|(of, _)| of == name);
                for _ in used.iter().filter(is_same) {
                    errors.duplicate(path, name);
                }
            }
            used.insert(key);
        }
        if !of_pod.contains(&name) {
            const MUST: &str = "must be one of the names in pod.spec.resourceClaims";
            let known: BTreeSet<&str> = of_pod.iter().copied().collect();
            let known: Vec<&str> = known.into_iter().collect();
            let detail = if known.is_empty() {
                format!("{MUST} which is empty")
            } else {
                format!("{MUST}: {}", known.join(", "))
            };
            errors.not_found_among(path, name, detail);
        }
    }
}

/// Checks the resource claims of a pod, and returns their names.
pub(super) fn pod_claims<'a>(
    path: &Path<'_>,
    spec: &'a Value,
    metadata: Option<&Value>,
    errors: &mut Errors,
) -> Vec<&'a str> {
    let mut names = Vec::new();
    let is_static =
        metadata.is_some_and(|metadata| !annotations::mirror(&metadata["annotations"]).is_null());
    for (index, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let path = path.index(index);
        let name = text(claim, "name");
        if is_static {
            errors.forbidden("", "static pods do not support resource claims");
        } else {
            pod_claim(&path, claim, names.contains(&name), errors);
        }
        if !name.is_empty() {
            names.push(name);
        }
    }
    names
}

fn pod_claim(path: &Path<'_>, claim: &Value, is_duplicate: bool, errors: &mut Errors) {
    match text(claim, "name") {
        "" => errors.required(path.child("name"), ""),
        name if is_duplicate => errors.duplicate(path.child("name"), name),
        name => errors.complaints(path.child("name"), name, formats::label(name)),
    }
    let own = &claim["resourceClaimName"];
    let template = &claim["resourceClaimTemplateName"];
    if !own.is_null() && !template.is_null() {
        errors.invalid(
            path,
            internal::form("core.PodResourceClaim", claim),
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        );
    }
    if own.is_null() && template.is_null() {
        errors.invalid(
            path,
            internal::form("core.PodResourceClaim", claim),
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        );
    }
    for field in ["resourceClaimName", "resourceClaimTemplateName"] {
        if let Some(name) = claim[field].as_str() {
            errors.complaints(path.child(field), name, formats::subdomain(name));
        }
    }
}

/// Checks the resources of a whole pod.
pub(super) fn of_pod(spec_path: &Path<'_>, pod: &Pod<'_>, errors: &mut Errors) {
    let resources = &pod.spec["resources"];
    if resources.is_null() {
        return;
    }
    let path = spec_path.child("resources");
    if pod.spec["os"]["name"] == "windows" {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    let claims = &resources["claims"];
    if !claims.is_null() {
        errors.forbidden(
            path.child("claims"),
            "claims may not be set for Resources at pod-level",
        );
    }
    check(&path, resources, pod_resource_name, errors);
    claim_names(
        &path.child("claims"),
        list(resources, "claims"),
        &pod.claims,
        errors,
    );
    consistency(&path, pod.spec, resources, errors);
}

/// The containers of a pod fit into its own resources. Upstream: `validatePodResourceConsistency`.
fn consistency(path: &Path<'_>, spec: &Value, resources: &Value, errors: &mut Errors) {
    let sides = [("requests", true), ("limits", false)];
    for (side, all) in sides {
        let side_path = path.child(side);
        for (name, sum) in aggregate(spec, side) {
            let whole = text_of(&resources[side], name);
            let Some((whole, most)) = whole.and_then(|text| Some((text, Quantity::parse(text)?)))
            else {
                continue;
            };
            if (all || name.starts_with(HUGE_PAGES)) && sum > most {
                let sum = sum.canonical();
                errors.invalid(
                    side_path.key(name),
                    whole,
                    format!("must be greater than or equal to aggregate container {side} of {sum}"),
                );
            }
        }
    }
    let containers = path.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (name, text, limit) in amounts(&container["resources"]["limits"]) {
            if let Some(whole) = text_of(&resources["limits"], name)
                && Quantity::parse(whole).is_some_and(|most| limit > most)
            {
                let detail = format!("must be less than or equal to pod limits of {whole}");
                errors.invalid(
                    containers.index(index).key(name).child("limits"),
                    text,
                    detail,
                );
            }
        }
    }
}

/// The largest sum of requests of the containers of a pod, by resource. Init containers run one
/// after the other, and sidecars all the time. Upstream: `AggregateContainerRequests`.
fn aggregate<'a>(spec: &'a Value, side: &str) -> BTreeMap<&'a str, Quantity> {
    let add = |sums: &mut BTreeMap<&'a str, Quantity>, container: &'a Value| {
        for (name, _, amount) in amounts(&container["resources"][side]) {
            let sum = sums.entry(name).or_insert(Quantity::whole(0));
            *sum = sum.plus(amount);
        }
    };
    let mut sums = BTreeMap::new();
    for container in list(spec, "containers") {
        add(&mut sums, container);
    }
    let mut sidecars = BTreeMap::new();
    let mut most = BTreeMap::<&str, Quantity>::new();
    for container in list(spec, "initContainers") {
        let running = if is_sidecar(container) {
            add(&mut sums, container);
            add(&mut sidecars, container);
            sidecars.clone()
        } else {
            let mut running = sidecars.clone();
            add(&mut running, container);
            running
        };
        for (name, amount) in running {
            let highest = most.entry(name).or_insert(amount);
            if amount > *highest {
                *highest = amount;
            }
        }
    }
    for (name, amount) in most {
        let sum = sums.entry(name).or_insert(amount);
        if amount > *sum {
            *sum = amount;
        }
    }
    sums
}
