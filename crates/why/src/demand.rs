//! Claims and requests of a pod, and its demands on nodes in words.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_values::quantity::Quantity;

use crate::Doc;

/// Names of nodes in one sentence.
const NAMES: usize = 5;

/// A demand of a pod that the scheduler's message is about.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// The end of a sentence.
    pub(crate) text: String,
    /// The people that can act, if the demand alone tells them; else empty.
    pub(crate) who: String,
}

impl From<String> for Demand {
    fn from(text: String) -> Self {
        Self {
            text,
            who: String::new(),
        }
    }
}

/// The names of the claims of `pod`, with those of its ephemeral volumes.
pub fn claim_names(pod: &Doc) -> Vec<String> {
    let volumes = pod.items("/spec/volumes").iter();
    let names =
        volumes.filter_map(
            |volume| match volume.pointer("/persistentVolumeClaim/claimName") {
                Some(claim) => claim.as_str().map(str::to_owned),
                None if volume.get("ephemeral").is_some() => {
                    let name = volume["name"].as_str().unwrap_or_default();
                    Some(format!("{}-{name}", pod.name()))
                }
                None => None,
            },
        );
    names.collect()
}

/// The terms of a required node affinity, in the syntax of `kubectl --selector`.
pub(crate) fn terms(required: &Value) -> String {
    let terms = required["nodeSelectorTerms"].as_array();
    let texts = terms.into_iter().flatten().map(term);
    texts.collect::<Vec<_>>().join(" or ")
}

/// A term of a node selector in the syntax of `kubectl --selector`.
pub(crate) fn term(term: &Value) -> String {
    let list = |field: &str| term[field].as_array().cloned().unwrap_or_default();
    let all = [list("matchExpressions"), list("matchFields")].concat();
    let texts = all.iter().map(|one| {
        let key = one["key"].as_str().unwrap_or_default();
        let values = one["values"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        let values = values.join(",");
        match one["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            "Gt" => format!("{key}>{values}"),
            "Lt" => format!("{key}<{values}"),
            other => format!("{key} {other} ({values})"),
        }
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The first of `names`, and the number of the others.
pub fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The resources in `Insufficient cpu, 2 Insufficient memory`.
pub(crate) fn insufficient(message: &str) -> impl Iterator<Item = &str> {
    message.split("Insufficient ").skip(1).map(|rest| {
        // Names of extended resources have dots: `example.com/gpu`.
        let end = rest.find([',', ';', ' ']).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    })
}

/// The request of a pod for `resource`.
pub(crate) fn requested(pod: &Doc, resource: &str) -> Option<Quantity> {
    total(pod, "requests", resource)
}

/// The amount of `resource` in the `list` of a pod, `requests` or `limits`: its own, else that of its containers or of a
/// larger init container. Upstream: `PodRequests` and `PodLimits` in `component-helpers/resource`.
pub fn total(pod: &Doc, list: &str, resource: &str) -> Option<Quantity> {
    let of = |container: &Value| quantity(&container["resources"][list][resource]);
    let own = pod.at("/spec").and_then(of);
    let (sidecars, inits): (Vec<&Value>, Vec<&Value>) = pod
        .items("/spec/initContainers")
        .iter()
        .partition(|container| container["restartPolicy"] == "Always");
    let containers = pod.items("/spec/containers").iter();
    let sum = containers
        .chain(sidecars)
        .filter_map(of)
        .reduce(Quantity::plus);
    let all = inits
        .into_iter()
        .filter_map(of)
        .chain(sum)
        .reduce(|one, other| if one < other { other } else { one });
    let overhead = pod
        .at("/spec/overhead")
        .and_then(|all| quantity(&all[resource]));
    let amount = own.or(all);
    // The overhead adds to a limit, and is none by itself.
    let overhead = overhead.filter(|_| amount.is_some() || list == "requests");
    amount.into_iter().chain(overhead).reduce(Quantity::plus)
}

/// The resources that `pod` requests: those of its own, of its containers, and of its overhead.
pub(crate) fn resources(pod: &Doc) -> BTreeSet<&str> {
    let containers = ["/spec/containers", "/spec/initContainers"];
    let containers = containers.iter().flat_map(|field| pod.items(field));
    let requests = containers.filter_map(|one| one.pointer("/resources/requests"));
    let own = pod.at("/spec/resources/requests");
    let all = requests.chain(own).chain(pod.at("/spec/overhead"));
    let names = all.filter_map(Value::as_object);
    names
        .flat_map(|all| all.keys().map(|name| &**name))
        .collect()
}

/// The host ports of a pod.
pub(crate) fn host_ports(pod: &Doc) -> Vec<i64> {
    let containers = pod.items("/spec/containers").iter();
    let ports = containers.filter_map(|container| container["ports"].as_array());
    ports
        .flatten()
        .filter_map(|port| port["hostPort"].as_i64())
        .collect()
}

/// The quantity in a field of an object.
pub fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?)
}
