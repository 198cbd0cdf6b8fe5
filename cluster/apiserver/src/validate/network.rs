//! Ingresses, IngressClasses, NetworkPolicies, ServiceCIDRs and IPAddresses.
//!
//! Upstream is `pkg/apis/networking/validation`.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::pod::port_number;
use super::{formats, selector};
use crate::apimachinery::addresses::{self, Network};

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Parts of a path that clients and proxies may rewrite.
const AMBIGUOUS_PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const AMBIGUOUS_ENDS: [&str; 2] = ["/..", "/."];

/// The name of an IngressClass, before the field existed.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Longest name of an ingress controller.
const CONTROLLER: usize = 250;

/// Checks of a new Ingress only: the annotation and the field name the same class.
pub(super) fn ingress_class_agrees(object: &Value, errors: &mut Errors) {
    let annotation = at(object, "metadata.annotations").get(CLASS_ANNOTATION);
    let Some(annotation) = annotation.and_then(Value::as_str) else {
        return;
    };
    let Some(class) = at(object, "spec.ingressClassName").as_str() else {
        return;
    };
    if annotation != class {
        errors.invalid(
            format!("annotations.{CLASS_ANNOTATION}"),
            annotation,
            "must match `ingressClassName` when both are specified",
        );
    }
}

pub(super) fn ingress(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let rules = list(spec, "rules");
    let backend = at(spec, "defaultBackend");
    if rules.is_empty() && backend.is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.invalid("spec", at(spec, "rules").clone(), why);
    }
    if !backend.is_null() {
        ingress_backend("spec.defaultBackend", backend, errors);
    }
    for (index, rule) in rules.iter().enumerate() {
        let field = format!("spec.rules[{index}]");
        let host = text(rule, "host");
        if !host.is_empty() {
            if host.parse::<std::net::IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                errors.invalid(format!("{field}.host"), host, why);
            }
            errors.complaints(format!("{field}.host"), host, host_complaints(host));
        }
        if !at(rule, "http").is_null() {
            let paths = list(rule, "http.paths");
            if paths.is_empty() {
                errors.required(format!("{field}.http.paths"), "");
            }
            for (index, path) in paths.iter().enumerate() {
                ingress_path(&format!("{field}.http.paths[{index}]"), path, errors);
            }
        }
    }
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let field = format!("spec.tls[{index}]");
        for (index, host) in list(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or("");
            let complaints = host_complaints(host);
            errors.complaints(format!("{field}.hosts[{index}]"), host, complaints);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            let complaints = formats::subdomain(secret);
            errors.complaints(format!("{field}.secretName"), secret, complaints);
        }
    }
    if let Some(class) = at(spec, "ingressClassName").as_str() {
        errors.complaints("spec.ingressClassName", class, formats::subdomain(class));
    }
}

fn host_complaints(host: &str) -> Vec<String> {
    if host.contains('*') {
        formats::wildcard_subdomain(host)
    } else {
        formats::subdomain(host)
    }
}

fn ingress_path(field: &str, path: &Value, errors: &mut Errors) {
    let at_path = format!("{field}.path");
    let value = text(path, "path");
    let Some(kind) = at(path, "pathType").as_str() else {
        errors.required(format!("{field}.pathType"), "pathType must be specified");
        return;
    };
    match kind {
        "Exact" | "Prefix" => {
            if !value.starts_with('/') {
                errors.invalid(&at_path, value, "must be an absolute path");
            }
            for part in AMBIGUOUS_PARTS.iter().filter(|part| value.contains(**part)) {
                errors.invalid(&at_path, value, format!("must not contain '{part}'"));
            }
            for end in AMBIGUOUS_ENDS.iter().filter(|end| value.ends_with(**end)) {
                errors.invalid(&at_path, value, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !value.is_empty() && !value.starts_with('/') {
                errors.invalid(&at_path, value, "must be an absolute path");
            }
        }
        other => errors.not_supported(
            format!("{field}.pathType"),
            other,
            &["Exact", "ImplementationSpecific", "Prefix"],
        ),
    }
    ingress_backend(&format!("{field}.backend"), at(path, "backend"), errors);
}

/// A backend is a Service with a port, or another object of the namespace.
fn ingress_backend(field: &str, backend: &Value, errors: &mut Errors) {
    let resource = at(backend, "resource");
    let service = at(backend, "service");
    match (resource.is_null(), service.is_null()) {
        (false, false) => {
            errors.invalid(field, "", "cannot set both resource and service backends");
        }
        (true, true) => errors.invalid(field, "", "resource or service backend is required"),
        (false, true) => reference(&format!("{field}.resource"), resource, errors),
        (true, false) => {
            let name = text(service, "name");
            let is_relaxed = errors.release().enables("RelaxedServiceNameValidation");
            let format = if is_relaxed {
                formats::label
            } else {
                formats::dns_label
            };
            errors.required_format(format!("{field}.service.name"), name, format);
            let port = text(service, "port.name");
            match (port, at(service, "port.number").as_i64().unwrap_or(0)) {
                ("", 0) => errors.required(field, "port name or number is required"),
                ("", number) => {
                    port_number(format!("{field}.service.port.number"), number, errors);
                }
                (_, 0) => {
                    let complaints = formats::port_name(port);
                    errors.complaints(format!("{field}.service.port.name"), port, complaints);
                }
                _ => errors.invalid(field, "", "cannot set both port name & port number"),
            }
        }
    }
}

/// A reference to any object of the same namespace.
fn reference(field: &str, reference: &Value, errors: &mut Errors) {
    if let Some(group) = at(reference, "apiGroup").as_str() {
        let complaints = formats::subdomain(group);
        errors.complaints(format!("{field}.apiGroup"), group, complaints);
    }
    for name in ["kind", "name"] {
        let value = text(reference, name);
        errors.required_format(format!("{field}.{name}"), value, formats::path_segment);
    }
}

pub(super) fn ingress_class(object: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.parameters";
    let controller = text(object, "spec.controller");
    if controller.len() > CONTROLLER {
        errors.too_long("spec.controller", CONTROLLER);
    }
    domain_prefixed_path("spec.controller", controller, errors);
    let parameters = at(object, FIELD);
    if parameters.is_null() {
        return;
    }
    reference(FIELD, parameters, errors);
    let field = format!("{FIELD}.namespace");
    let namespace = at(parameters, "namespace");
    match (at(parameters, "scope").as_str(), namespace.as_str()) {
        (None, _) => errors.required(format!("{FIELD}.scope"), ""),
        (Some("Namespace"), None) => {
            errors.required(field, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(name)) => errors.complaints(&field, name, formats::label(name)),
        (Some("Cluster"), Some(_)) => {
            errors.forbidden(field, "`parameters.scope` is set to 'Cluster'");
        }
        (Some("Cluster"), None) => {}
        (Some(scope), _) => {
            errors.not_supported(format!("{FIELD}.scope"), scope, &["Cluster", "Namespace"]);
        }
    }
}

/// A path that begins with the domain of its owner, such as `example.com/ingress`.
fn domain_prefixed_path(field: &str, value: &str, errors: &mut Errors) {
    match value.split_once('/') {
        _ if value.is_empty() => errors.required(field, ""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            errors.complaints(field, domain, formats::subdomain(domain));
            errors.complaints(field, path, formats::http_path(path));
        }
        _ => errors.invalid(
            field,
            value,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
    }
}

pub(super) fn policy(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = at(object, "spec");
    selector::check("spec.podSelector", at(spec, "podSelector"), errors);
    let known = old.map(|old| cidrs(at(old, "spec"))).unwrap_or_default();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let field = format!("spec.{direction}[{index}]");
            for (index, port) in list(rule, "ports").iter().enumerate() {
                policy_port(&format!("{field}.ports[{index}]"), port, errors);
            }
            for (index, peer) in list(rule, peers).iter().enumerate() {
                policy_peer(&format!("{field}.{peers}[{index}]"), peer, &known, errors);
            }
        }
    }
    let types = list(spec, "policyTypes");
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        errors.invalid("spec.policyTypes", types.to_vec(), why);
        return;
    }
    for (index, kind) in types.iter().enumerate() {
        let kind = kind.as_str().unwrap_or("");
        let field = format!("spec.policyTypes[{index}]");
        errors.one_of(field, kind, &["Ingress", "Egress"]);
    }
}

/// All CIDRs of a policy. Stored ones stay allowed, wherever an update puts them.
fn cidrs(spec: &Value) -> Vec<&str> {
    let peers = [("ingress", "from"), ("egress", "to")];
    peers
        .into_iter()
        .flat_map(|(direction, peers)| list(spec, direction).iter().map(move |r| list(r, peers)))
        .flatten()
        .flat_map(|peer| {
            let except = list(peer, "ipBlock.except")
                .iter()
                .filter_map(Value::as_str);
            at(peer, "ipBlock.cidr").as_str().into_iter().chain(except)
        })
        .collect()
}

fn policy_port(field: &str, port: &Value, errors: &mut Errors) {
    if let Some(protocol) = at(port, "protocol").as_str() {
        errors.one_of(format!("{field}.protocol"), protocol, &PROTOCOLS);
    }
    let at_port = format!("{field}.port");
    let at_end = format!("{field}.endPort");
    let end = at(port, "endPort").as_i64();
    match (at(port, "port"), end) {
        (Value::Number(number), _) => {
            let number = number.as_i64().unwrap_or(0);
            port_number(at_port, number, errors);
            if let Some(end) = end {
                if end < number {
                    errors.invalid(&at_end, number, "must be greater than or equal to `port`");
                }
                port_number(at_end, end, errors);
            }
        }
        (Value::String(name), _) => {
            if let Some(end) = end {
                errors.invalid(
                    at_end,
                    end,
                    "may not be specified when `port` is non-numeric",
                );
            }
            errors.complaints(&at_port, name, formats::port_name(name));
        }
        (_, Some(end)) => {
            errors.invalid(
                at_end,
                end,
                "may not be specified when `port` is not specified",
            );
        }
        _ => {}
    }
}

fn policy_peer(field: &str, peer: &Value, known: &[&str], errors: &mut Errors) {
    let mut peers = 0;
    for name in ["podSelector", "namespaceSelector"] {
        let value = at(peer, name);
        if !value.is_null() {
            peers += 1;
            selector::check(&format!("{field}.{name}"), value, errors);
        }
    }
    let block = at(peer, "ipBlock");
    if block.is_null() {
        if peers == 0 {
            errors.required(field, "must specify a peer");
        }
        return;
    }
    address_block(&format!("{field}.ipBlock"), block, known, errors);
    if peers > 0 {
        errors.forbidden(field, "may not specify both ipBlock and another peer");
    }
}

fn address_block(field: &str, block: &Value, known: &[&str], errors: &mut Errors) {
    let text_of = text(block, "cidr");
    if text_of.is_empty() {
        errors.required(format!("{field}.cidr"), "");
        return;
    }
    let check = |field: String, text: &str, errors: &mut Errors| {
        if !known.contains(&text) {
            addresses::check_network(&field, text, errors);
        }
        Network::sloppy(text)
    };
    let Some(all) = check(format!("{field}.cidr"), text_of, errors) else {
        return;
    };
    for (index, except) in list(block, "except").iter().enumerate() {
        let except = except.as_str().unwrap_or("");
        let field = format!("{field}.except[{index}]");
        let part = check(field.clone(), except, errors);
        if part.is_some_and(|part| !all.strictly_contains(part)) {
            errors.invalid(field, except, "must be a strict subset of `cidr`");
        }
    }
}

pub(super) fn service_cidr(object: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.cidrs";
    let cidrs = list(object, FIELD);
    match cidrs.len() {
        0 => return errors.required(FIELD, "at least one CIDR required"),
        1 | 2 => {}
        _ => {
            let shown = serde_json::json!({ "CIDRs": cidrs });
            return errors.invalid(FIELD, shown, "may only hold up to 2 values");
        }
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        let cidr = cidr.as_str().unwrap_or("");
        let complaints = addresses::canonical_network_complaints(cidr);
        errors.complaints(format!("{FIELD}[{index}]"), cidr, complaints);
    }
    let families: Vec<_> = cidrs
        .iter()
        .filter_map(|cidr| Network::sloppy(cidr.as_str()?).map(Network::is_ipv4))
        .collect();
    if let [one, other] = families[..]
        && one == other
    {
        errors.invalid(
            FIELD,
            cidrs.to_vec(),
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        );
    }
}

/// A ServiceCIDR keeps its range. A second one may be added.
pub(super) fn service_cidr_update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.cidrs";
    const IMMUTABLE: &str = "field is immutable";
    let after = list(new, FIELD);
    let before = list(old, FIELD);
    let is_extended = (before.len(), after.len()) == (1, 2);
    if after.len() != before.len() && !is_extended {
        errors.invalid(FIELD, at(new, FIELD).clone(), IMMUTABLE);
        return;
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        if before != after {
            errors.invalid(format!("{FIELD}[{index}]"), after.clone(), IMMUTABLE);
        }
    }
    if is_extended {
        service_cidr(new, errors);
    }
}

pub(super) fn ip_address(object: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.parentRef";
    let parent = at(object, FIELD);
    if parent.is_null() {
        errors.required(FIELD, "");
        return;
    }
    let group = text(parent, "group");
    if !group.is_empty() {
        errors.complaints(format!("{FIELD}.group"), group, formats::subdomain(group));
    }
    for name in ["resource", "name"] {
        let value = text(parent, name);
        errors.required_format(format!("{FIELD}.{name}"), value, formats::path_segment);
    }
    let namespace = text(parent, "namespace");
    let complaints = formats::path_segment(namespace);
    errors.complaints(format!("{FIELD}.namespace"), namespace, complaints);
}
