//! Cells of core kinds other than workloads: ConfigMaps, Secrets, Nodes, Services, Events and more.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, age_cell, age_since, labels, list, name, number, or, text};

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let keys = entries(object, "/data") + entries(object, "/binaryData");
    vec![name(object), json!(keys), age_cell(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/type")),
        json!(entries(object, "/data")),
        age_cell(object, now),
    ]
}

fn entries(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, |entries| entries.len())
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/spec/holderIdentity")),
        age_cell(object, now),
    ]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/status/phase")),
        age_cell(object, now),
    ]
}

pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = object["globalDefault"] == true;
    let policy = json!(text(object, "/preemptionPolicy"));
    vec![
        name(object),
        json!(number(object, "/value")),
        json!(is_default),
        age_cell(object, now),
        policy,
    ]
}

/// Usage and limit of each resource. The limits of containers have a column of their own.
pub(super) fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let hard = object
        .pointer("/status/hard")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut hard: Vec<_> = hard
        .map(|(name, amount)| (name.as_str(), amount.as_str().unwrap_or("0")))
        .collect();
    hard.sort_unstable();
    let (limits, requests): (Vec<_>, Vec<_>) = hard
        .into_iter()
        .partition(|(name, _)| name.starts_with("limits."));
    let shown = |part: Vec<(&str, &str)>| {
        let used = |name: &str| object["status"]["used"][name].as_str().unwrap_or("0");
        let shown: Vec<String> = part
            .iter()
            .map(|(name, hard)| format!("{name}: {}/{hard}", used(name)))
            .collect();
        json!(shown.join(", "))
    };
    vec![
        name(object),
        shown(requests),
        shown(limits),
        age_cell(object, now),
    ]
}

pub(super) fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |pointer: &str| match object.pointer(pointer) {
        None | Some(Value::Null) => json!("N/A"),
        Some(Value::String(percent)) => json!(percent),
        Some(count) => json!(count.to_string()),
    };
    let least = limit("/spec/minAvailable");
    let most = limit("/spec/maxUnavailable");
    vec![
        name(object),
        least,
        most,
        json!(number(object, "/status/disruptionsAllowed")),
        age_cell(object, now),
    ]
}

pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let address = |kind: &str| {
        let found = list(object, "/status/addresses")
            .iter()
            .find(|address| address["type"] == kind);
        json!(found.map_or(NONE, |address| text(address, "/address")))
    };
    let info = |field: &str| {
        json!(or(
            text(object, &format!("/status/nodeInfo/{field}")),
            "<unknown>"
        ))
    };
    vec![
        name(object),
        json!(node_status(object)),
        json!(node_roles(object)),
        age_cell(object, now),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// Readiness of a node, and whether it is cordoned.
fn node_status(node: &Value) -> String {
    let ready = list(node, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == "Ready");
    let status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    if cordoned {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

/// Roles of a node, from both forms of labels: `node-role.kubernetes.io/ROLE`, and
/// `kubernetes.io/role` with the role as value.
fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                None if key == "kubernetes.io/role" => value.as_str(),
                role => role,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(&roles.join(","), NONE).to_owned()
}

/// Reads times and counts of both API groups, those of a series first.
pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = |pointers: &[&str]| {
        let time = pointers
            .iter()
            .filter_map(|pointer| object.pointer(pointer))
            .find(|time| !time.is_null());
        json!(age_since(time, now))
    };
    let series = object.get("series").filter(|series| !series.is_null());
    let count = match (series, number(object, "/count")) {
        (Some(series), _) => number(series, "/count"),
        (None, 0) => 1,
        (None, count) => count,
    };
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let target = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        age(&[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/firstTimestamp",
            "/eventTime",
        ]),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(event_source(object)),
        json!(text(object, "/message").trim()),
        age(&["/firstTimestamp", "/eventTime"]),
        json!(count),
        name(object),
    ]
}

/// Reporter of an Event. The deprecated fields have priority over the new ones.
fn event_source(event: &Value) -> String {
    let component = or(
        text(event, "/source/component"),
        text(event, "/reportingComponent"),
    );
    match or(
        text(event, "/source/host"),
        text(event, "/reportingInstance"),
    ) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let kind = text(object, "/spec/type");
    vec![
        name(object),
        json!(kind),
        json!(or(
            text(object, "/spec/clusterIPs/0"),
            or(text(object, "/spec/clusterIP"), NONE)
        )),
        json!(external_address(object, kind)),
        json!(service_ports(object)),
        age_cell(object, now),
        json!(labels(object.pointer("/spec/selector"))),
    ]
}

/// External addresses of a Service. A load balancer without one is `<pending>`.
fn external_address(service: &Value, kind: &str) -> String {
    let join = |addresses: Vec<&str>| addresses.join(",");
    let external = join(
        list(service, "/spec/externalIPs")
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    );
    let balanced = list(service, "/status/loadBalancer/ingress").iter();
    let balanced = join(
        balanced
            .map(|ingress| or(text(ingress, "/ip"), text(ingress, "/hostname")))
            .collect(),
    );
    match kind {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" if balanced.is_empty() && external.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => join(
            [balanced.as_str(), external.as_str()]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect(),
        ),
        _ => or(&external, NONE).to_owned(),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let number = super::number(port, "/port");
        let protocol = text(port, "/protocol");
        match super::number(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), NONE).to_owned()
}

/// The first three addresses, and the number of further ones.
pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    const SHOWN: usize = 3;
    let mut addresses = Vec::new();
    for subset in list(object, "/subsets") {
        let ports = list(subset, "/ports");
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            if ports.is_empty() {
                addresses.push(ip.to_owned());
            }
            addresses.extend(
                ports
                    .iter()
                    .map(|port| format!("{ip}:{}", number(port, "/port"))),
            );
        }
    }
    let more = addresses.len().saturating_sub(SHOWN);
    addresses.truncate(SHOWN);
    let mut shown = or(&addresses.join(","), NONE).to_owned();
    if more > 0 {
        shown = format!("{shown} + {more} more...");
    }
    vec![name(object), json!(shown), age_cell(object, now)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2024-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn nodes_show_readiness_and_roles() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        // (node, status, roles)
        let cases = [
            (
                json!({"status": ready, "spec": {"unschedulable": true}}),
                "Ready,SchedulingDisabled",
                "<none>",
            ),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
                "NotReady",
                "<none>",
            ),
            (
                json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/a": "", "kubernetes.io/role": "z"}}}),
                "Unknown",
                "a,worker,z",
            ),
        ];
        for (object, status, roles) in cases {
            let cells = node(&object, now());
            assert_eq!(
                (&cells[1], &cells[2]),
                (&json!(status), &json!(roles)),
                "{object}"
            );
        }
    }

    #[test]
    fn services_show_external_addresses_and_ports() {
        // (service, external address, ports)
        let cases = [
            (
                json!({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}),
                "<none>",
                "80/TCP",
            ),
            (
                json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}),
                "<none>",
                "80:30080/TCP",
            ),
            (json!({"type": "LoadBalancer"}), "<pending>", "<none>"),
            (
                json!({"type": "ExternalName", "externalName": "x.y"}),
                "x.y",
                "<none>",
            ),
            (
                json!({"type": "ClusterIP", "externalIPs": ["1.1.1.1", "2.2.2.2"]}),
                "1.1.1.1,2.2.2.2",
                "<none>",
            ),
        ];
        for (spec, external, ports) in cases {
            let cells = service(&json!({"spec": spec}), now());
            assert_eq!(
                (&cells[3], &cells[4]),
                (&json!(external), &json!(ports)),
                "{spec}"
            );
        }
    }

    #[test]
    fn events_show_first_and_last_occurrence() {
        let early = "2024-01-01T00:00:00Z";
        let late = "2024-01-01T00:59:00Z";
        // (event, last seen, first seen, count)
        let cases = [
            (
                json!({"firstTimestamp": early, "lastTimestamp": late, "count": 3}),
                "60s",
                "60m",
                3,
            ),
            (json!({"firstTimestamp": early}), "60m", "60m", 1),
            (json!({"eventTime": late}), "60s", "60s", 1),
            (
                json!({"eventTime": early, "series": {"count": 9, "lastObservedTime": late}}),
                "60s",
                "60m",
                9,
            ),
            (json!({"firstTimestamp": null}), "<unknown>", "<unknown>", 1),
        ];
        for (object, last, first, count) in cases {
            let cells = event(&object, now());
            assert_eq!(
                (&cells[0], &cells[7], &cells[8]),
                (&json!(last), &json!(first), &json!(count)),
                "{object}"
            );
        }
    }

    #[test]
    fn quotas_show_limits_in_their_own_column() {
        let hard = json!({"pods": "2", "limits.cpu": "4", "cpu": "1"});
        let object = json!({"status": {"hard": hard, "used": {"pods": "1", "cpu": "500m"}}});
        assert_eq!(
            quota(&object, now())[1..3],
            [json!("cpu: 500m/1, pods: 1/2"), json!("limits.cpu: 0/4")]
        );
    }

    #[test]
    fn endpoints_show_their_first_addresses() {
        let object = json!({"subsets": [{"addresses": [{"ip": "a"}, {"ip": "b"}], "ports": [{"port": 1}, {"port": 2}]}]});
        assert_eq!(endpoints(&object, now())[1], "a:1,a:2,b:1 + 1 more...");
    }
}
