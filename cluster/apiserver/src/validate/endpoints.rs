//! Endpoints and EndpointSlices.
//!
//! Upstream is `pkg/apis/discovery/validation`, and `ValidateEndpoints` of
//! `pkg/apis/core/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::formats;
use super::pod::port_number;
use crate::apimachinery::addresses;
use crate::apimachinery::path::Path;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;
const MAX_HINTS: usize = 8;

/// An EndpointSlice. v1 drops the deprecated topology. An update may keep endpoints that older versions accepted.
pub(super) fn slice(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let kind = text(object, "addressType");
    if kind.is_empty() {
        errors.required("addressType", "");
    } else {
        errors.one_of("addressType", kind, &["FQDN", "IPv4", "IPv6"]);
    }
    slice_ports(list(object, "ports"), errors);
    if old.is_none_or(|old| at(old, "endpoints") != at(object, "endpoints")) {
        endpoints(kind, list(object, "endpoints"), errors);
    }
}

fn slice_ports(ports: &[Value], errors: &mut Errors) {
    if ports.len() > MAX_PORTS {
        return errors.too_many("ports", ports.len(), MAX_PORTS);
    }
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("ports[{index}].{name}");
        let name = text(port, "name");
        if !name.is_empty() {
            errors.complaints(field("name"), name, formats::label(name));
        }
        if !names.insert(name) {
            errors.duplicate(field("name"), name);
        }
        errors.one_of(field("protocol"), text(port, "protocol"), &PROTOCOLS);
        app_protocol(&field("appProtocol"), port, errors);
    }
}

fn app_protocol(field: &str, port: &Value, errors: &mut Errors) {
    if let Some(protocol) = at(port, "appProtocol").as_str() {
        errors.complaints(field, protocol, formats::qualified_name(protocol));
    }
}

fn endpoints(kind: &str, endpoints: &[Value], errors: &mut Errors) {
    if endpoints.len() > MAX_ENDPOINTS {
        return errors.too_many("endpoints", endpoints.len(), MAX_ENDPOINTS);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let field = |name: &str| format!("endpoints[{index}].{name}");
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            errors.required(field("addresses"), "must contain at least 1 address");
        } else if addresses.len() > MAX_ADDRESSES {
            errors.too_many(field("addresses"), addresses.len(), MAX_ADDRESSES);
        }
        for (index, address) in addresses.iter().enumerate() {
            let address = address.as_str().unwrap_or("");
            slice_address(kind, &field("addresses"), index, address, errors);
        }
        node_name(&field("nodeName"), at(endpoint, "nodeName"), errors);
        if let Some(hostname) = at(endpoint, "hostname").as_str() {
            errors.complaints(field("hostname"), hostname, formats::label(hostname));
        }
        hints(&field("hints"), at(endpoint, "hints"), errors);
    }
}

fn node_name(field: &str, name: &Value, errors: &mut Errors) {
    if let Some(name) = name.as_str() {
        errors.complaints(field, name, formats::subdomain(name));
    }
}

fn slice_address(kind: &str, field: &str, index: usize, address: &str, errors: &mut Errors) {
    let own = format!("{field}[{index}]");
    let (complaints, family) = match kind {
        "IPv4" => (
            addresses::complaints(address, errors),
            "must be an IPv4 address",
        ),
        "IPv6" => (
            addresses::canonical_complaints(address),
            "must be an IPv6 address",
        ),
        "FQDN" => return domain_name(&own, address, errors),
        _ => return,
    };
    if !complaints.is_empty() {
        return errors.complaints(&own, address, complaints);
    }
    if address.contains(':') == (kind == "IPv4") {
        errors.invalid(field, address, family);
    }
    addresses::check_reachable(&Path::new(&own), address, errors);
}

/// A domain name with at least two labels. It may end in a dot.
fn domain_name(field: &str, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(field, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let complaints = formats::subdomain(name);
    if !complaints.is_empty() {
        errors.invalid(field, name, complaints.join(","));
    } else if !name.contains('.') {
        errors.invalid(
            field,
            name,
            "should be a domain with at least two segments separated by dots",
        );
    }
}

type Format = fn(&str) -> Vec<String>;

fn hints(field: &str, hints: &Value, errors: &mut Errors) {
    let kinds: [(&str, Format); 2] = [
        ("forZones", formats::label_value),
        ("forNodes", formats::subdomain),
    ];
    for (name, format) in kinds {
        let hints = list(hints, name);
        if hints.len() > MAX_HINTS {
            return errors.too_many(format!("{field}.{name}"), hints.len(), MAX_HINTS);
        }
        let mut seen = HashSet::new();
        for (index, hint) in hints.iter().enumerate() {
            let field = format!("{field}.{name}[{index}].name");
            let value = text(hint, "name");
            if !seen.insert(value) {
                errors.duplicate(field.as_str(), value);
            }
            errors.complaints(&field, value, format(value));
        }
    }
}

/// Endpoints. An update may keep subsets that older versions accepted.
pub(super) fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    if old.is_some_and(|old| at(old, "subsets") == at(object, "subsets")) {
        return;
    }
    for (index, subset) in list(object, "subsets").iter().enumerate() {
        let field = format!("subsets[{index}]");
        let groups = ["addresses", "notReadyAddresses"];
        if groups.iter().all(|group| list(subset, group).is_empty()) {
            errors.required(&field, "must specify `addresses` or `notReadyAddresses`");
        }
        for group in groups {
            for (index, address) in list(subset, group).iter().enumerate() {
                endpoint_address(&format!("{field}.{group}[{index}]"), address, errors);
            }
        }
        let ports = list(subset, "ports");
        for (index, port) in ports.iter().enumerate() {
            let field = |name: &str| format!("{field}.ports[{index}].{name}");
            match text(port, "name") {
                "" if ports.len() > 1 => errors.required(field("name"), ""),
                "" => {}
                name => errors.complaints(field("name"), name, formats::label(name)),
            }
            let number = at(port, "port").as_i64().unwrap_or(0);
            port_number(field("port"), number, errors);
            errors.one_of(field("protocol"), text(port, "protocol"), &PROTOCOLS);
            app_protocol(&field("appProtocol"), port, errors);
        }
    }
}

fn endpoint_address(field: &str, address: &Value, errors: &mut Errors) {
    let at_ip = format!("{field}.ip");
    let ip = text(address, "ip");
    addresses::check(&at_ip, ip, errors);
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        let complaints = formats::label(hostname);
        errors.complaints(format!("{field}.hostname"), hostname, complaints);
    }
    node_name(
        &format!("{field}.nodeName"),
        at(address, "nodeName"),
        errors,
    );
    addresses::check_reachable(&Path::new(&at_ip), ip, errors);
}
