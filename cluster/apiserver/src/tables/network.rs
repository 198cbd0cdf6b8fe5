//! Cells of Ingresses, IngressClasses, NetworkPolicies and EndpointSlices.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, age_cell, list, name, name_of_class, or, shortened, text, workloads};

/// Most hosts, ports or addresses in a cell.
const SHOWN: usize = 3;

const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Port 443 appears if any TLS section exists, as in upstream.
pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let hosts = list(object, "/spec/rules")
        .iter()
        .map(|rule| text(rule, "/host"))
        .filter(|host| !host.is_empty());
    let hosts = shortened(&hosts.map(str::to_owned).collect::<Vec<_>>(), SHOWN, ",");
    let points = list(object, "/status/loadBalancer/ingress").iter();
    let addresses: BTreeSet<&str> = points
        .map(|point| or(text(point, "/ip"), text(point, "/hostname")))
        .collect();
    let addresses: Vec<&str> = addresses
        .into_iter()
        .filter(|address| !address.is_empty())
        .collect();
    let ports = if list(object, "/spec/tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        name(object),
        json!(or(text(object, "/spec/ingressClassName"), NONE)),
        json!(or(&hosts, "*")),
        json!(addresses.join(",")),
        json!(ports),
        age_cell(object, now),
    ]
}

pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match object
        .pointer("/spec/parameters")
        .filter(|parameters| parameters.is_object())
    {
        None => NONE.to_owned(),
        Some(parameters) => {
            let group = parameters["apiGroup"]
                .as_str()
                .map_or(String::new(), |group| format!(".{group}"));
            format!(
                "{}{group}/{}",
                text(parameters, "/kind"),
                text(parameters, "/name")
            )
        }
    };
    let controller = json!(text(object, "/spec/controller"));
    vec![
        name_of_class(object, DEFAULT_CLASS),
        controller,
        json!(parameters),
        age_cell(object, now),
    ]
}

pub(super) fn policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        workloads::label_selector(object.pointer("/spec/podSelector")),
        age_cell(object, now),
    ]
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or("*").to_owned(),
    };
    let ports: Vec<String> = list(object, "/ports").iter().map(port).collect();
    let endpoints = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"));
    let addresses: Vec<String> = endpoints
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let shown = |texts: &[String]| json!(or(&shortened(texts, SHOWN, ","), "<unset>"));
    vec![
        name(object),
        json!(text(object, "/addressType")),
        shown(&ports),
        shown(&addresses),
        age_cell(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingresses_show_hosts_addresses_and_ports() {
        let hosts =
            |hosts: &[&str]| -> Value { hosts.iter().map(|host| json!({"host": host})).collect() };
        // (ingress, class, hosts, address, ports)
        let cases = [
            (json!({}), "<none>", "*", "", "80"),
            (
                json!({"spec": {"ingressClassName": "c", "rules": hosts(&["a", "b", "c", "d", "e"])}}),
                "c",
                "a,b,c + 2 more...",
                "",
                "80",
            ),
            (
                json!({"spec": {"tls": [{}]}, "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "1.host"}]}}}),
                "<none>",
                "*",
                "1.host,2.2.2.2",
                "80, 443",
            ),
        ];
        for (object, class, hosts, address, ports) in cases {
            assert_eq!(
                ingress(&object, Timestamp::UNIX_EPOCH)[1..5],
                [class, hosts, address, ports].map(Value::from),
                "{object}"
            );
        }
    }

    #[test]
    fn slices_show_their_first_addresses() {
        let object = json!({
            "addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}],
            "endpoints": [{"addresses": ["1", "2"]}, {"addresses": ["3", "4"]}],
        });
        let cells = endpoint_slice(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(
            cells[1..4],
            ["IPv4", "80,x,*", "1,2,3 + 1 more..."].map(Value::from)
        );
        assert_eq!(
            endpoint_slice(&json!({}), Timestamp::UNIX_EPOCH)[2..4],
            ["<unset>", "<unset>"].map(Value::from)
        );
    }
}
