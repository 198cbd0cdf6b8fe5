//! NetworkPolicies that close the port of a destination. The network drops such packets, and the program tells only that
//! its time ran out.
//!
//! Peers are not judged: a rule that opens the port to any of them counts.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_objects::Pod;
use steersman_values::labels::{Selector, WireSelector};
use steersman_values::resource::{ENDPOINT_SLICES, SERVICES};

use super::container::before_restarts;
use crate::{Code, Doc, Explanation, World};

/// The port of DNS.
const DNS: i64 = 53;
/// Ports of the pods behind it, in several distributions.
const OF_DNS_PODS: [i64; 3] = [1053, 5353, 8053];

/// A destination that did not answer.
#[derive(Debug, PartialEq, Eq)]
struct Target<'m> {
    /// Address; empty if the program does not tell it.
    address: &'m str,
    port: i64,
    protocol: &'static str,
}

/// Names the policies of `doc`, a pod, in the reasons of `answer` about a destination that they close.
pub(super) fn name_closed(world: &World, doc: &Doc, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        let is_end = matches!(reason.code, Code::ContainerCrash | Code::PodFailed);
        let Some(target) = target(&reason.message).filter(|_| is_end) else {
            continue;
        };
        let Some(policies) = closing(world, doc, &target) else {
            continue;
        };
        let names = policies.join(", ");
        let port = format!("{}/{}", target.port, target.protocol);
        let clause = format!(
            "; the NetworkPolicies of the pod close its egress, and none of them ({names}) opens port {port}"
        );
        reason.message = before_restarts(&reason.message, &clause);
        reason.who = format!(
            "owner of NetworkPolicy {names} in {} (egress to port {port})",
            doc.namespace()
        );
    }
}

/// The destination in the words of a program whose time ran out: `lookup db on 10.96.0.10:53: ... i/o timeout`, `dial tcp
/// 10.0.0.7:5432: i/o timeout`.
fn target(message: &str) -> Option<Target<'_>> {
    let dns = |address| Target {
        address,
        port: DNS,
        protocol: "UDP",
    };
    if ["Temporary failure in name resolution", "EAI_AGAIN"]
        .iter()
        .any(|words| message.contains(words))
    {
        return Some(dns(""));
    }
    if !message.contains("i/o timeout") && !message.contains("connection timed out") {
        return None;
    }
    // Go writes `dial tcp: lookup`, without an address, if it does not know the address yet.
    if let Some((_, rest)) = message.split_once("dial tcp ") {
        let (address, port) = endpoint(rest)?;
        return Some(Target {
            address,
            port,
            protocol: "TCP",
        });
    }
    let (_, rest) = message.split_once("lookup ")?;
    let Some((_, server)) = rest.split_once(" on ") else {
        return Some(dns(""));
    };
    let (address, port) = endpoint(server)?;
    (port == DNS).then(|| dns(address))
}

/// Address and port in the first word of `text`: `10.0.0.7:5432: i/o timeout`, `[fd00::7]:53: read udp`.
fn endpoint(text: &str) -> Option<(&str, i64)> {
    let word = text.split_whitespace().next()?;
    let (address, port) = word.trim_end_matches(':').rsplit_once(':')?;
    Some((address.trim_matches(['[', ']']), port.parse().ok()?))
}

/// The policies that select `doc` for its egress, if none of them opens the port of `target`.
fn closing(world: &World, doc: &Doc, target: &Target<'_>) -> Option<Vec<String>> {
    let of = world
        .resource("networking.k8s.io", "networkpolicies")
        .found()?;
    // Most networks leave pods on the network of their node alone.
    let is_on_host = doc.at("/spec/hostNetwork") == Some(&Value::Bool(true));
    let view = doc.view::<Pod>().filter(|_| !is_on_host)?;
    let selects = |policy: &&Doc| {
        let wire: Option<WireSelector> = policy
            .at("/spec/podSelector")
            .and_then(|selector| serde_json::from_value(selector.clone()).ok());
        let selector = Selector::parse(wire.as_ref()).ok();
        let is_of_egress = policy.texts("/spec/policyTypes").contains(&"Egress");
        is_of_egress && selector.is_some_and(|selector| selector.matches(&view.meta.labels))
    };
    let policies = world.list(&of, doc.namespace())?.iter();
    let policies: Vec<&Doc> = policies.filter(selects).collect();
    if policies.is_empty() {
        return None;
    }
    let ports = ports(world, target)?;
    let mut rules = policies
        .iter()
        .flat_map(|policy| policy.items("/spec/egress"));
    if rules.any(|rule| opens(rule, target.protocol, &ports)) {
        return None;
    }
    Some(
        policies
            .iter()
            .map(|policy| policy.name().to_owned())
            .collect(),
    )
}

/// The ports of `target`, with those of the pods behind it if it is a Service: networks check policies before or after the
/// choice of a pod. `None` if they are unknown.
fn ports(world: &World, target: &Target<'_>) -> Option<BTreeSet<i64>> {
    let mut ports = BTreeSet::from([target.port]);
    if target.port == DNS {
        ports.extend(OF_DNS_PODS);
    }
    let is_it = |service: &&Doc| service.texts("/spec/clusterIPs").contains(&target.address);
    let Some(service) = world.list(&SERVICES, "")?.iter().find(is_it) else {
        return Some(ports);
    };
    let slices = world.list(&ENDPOINT_SLICES, service.namespace())?.iter();
    let own =
        slices.filter(|slice| slice.label("kubernetes.io/service-name") == Some(service.name()));
    let found = own.flat_map(|slice| slice.items("/ports"));
    ports.extend(found.filter_map(|port| port["port"].as_i64()));
    Some(ports)
}

/// Whether an egress `rule` opens one of `ports`. A rule without ports opens all; one with a name is not judged.
fn opens(rule: &Value, protocol: &str, ports: &BTreeSet<i64>) -> bool {
    let opened = rule["ports"].as_array().map(Vec::as_slice);
    let opened = opened.unwrap_or_default();
    let is_open = |one: &Value| {
        let is_protocol = one["protocol"].as_str().unwrap_or("TCP") == protocol;
        is_protocol
            && match &one["port"] {
                Value::Number(first) => {
                    let first = first.as_i64().unwrap_or_default();
                    let last = one["endPort"].as_i64().unwrap_or(first);
                    ports.range(first..=last.max(first)).next().is_some()
                }
                _ => true,
            }
    };
    opened.is_empty() || opened.iter().any(is_open)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_destination_is_read_from_the_words_of_a_program() {
        // (message, address, port, protocol)
        let cases = [
            (
                "FATAL: lookup order-db on 10.96.0.10:53: read udp 10.1.0.2:5->10.96.0.10:53: i/o timeout",
                Some(("10.96.0.10", 53, "UDP")),
            ),
            (
                "dial tcp 10.0.0.7:5432: i/o timeout",
                Some(("10.0.0.7", 5432, "TCP")),
            ),
            (
                "dial tcp: lookup order-db: i/o timeout",
                Some(("", 53, "UDP")),
            ),
            (
                "dial tcp [fd00::7]:5432: i/o timeout",
                Some(("fd00::7", 5432, "TCP")),
            ),
            (
                "could not translate host name \"db\": Temporary failure in name resolution",
                Some(("", 53, "UDP")),
            ),
            (
                "dial tcp: lookup order-db on [fd00::53]:53: read udp: i/o timeout",
                Some(("fd00::53", 53, "UDP")),
            ),
            (
                "lookup of the session failed: dial tcp 10.0.0.7:5432: i/o timeout",
                Some(("10.0.0.7", 5432, "TCP")),
            ),
            ("dial tcp 10.0.0.7:5432: connect: connection refused", None),
            ("lookup db on 10.96.0.10:53: no such host", None),
            ("read tcp: i/o timeout", None),
        ];
        for (message, expected) in cases {
            let found = target(message);
            let found = found.map(|one| (one.address, one.port, one.protocol));
            assert_eq!(found, expected, "{message}");
        }
    }

    #[test]
    fn a_rule_opens_ports_by_number_range_and_default() {
        let ports = BTreeSet::from([53]);
        // (ports of the rule, opens)
        let cases = [
            (json!(null), true),
            (json!([]), true),
            (json!([{"protocol": "TCP", "port": 53}]), false),
            (json!([{"port": 53}]), false),
            (json!([{"protocol": "UDP", "port": 53}]), true),
            (
                json!([{"protocol": "UDP", "port": 50, "endPort": 60}]),
                true,
            ),
            (
                json!([{"protocol": "UDP", "port": 54, "endPort": 60}]),
                false,
            ),
            (json!([{"protocol": "UDP"}]), true),
            (json!([{"protocol": "UDP", "port": "dns"}]), true),
        ];
        for (of_rule, expected) in cases {
            let rule = json!({"ports": of_rule});
            assert_eq!(opens(&rule, "UDP", &ports), expected, "{rule}");
        }
    }
}
