//! Services.
//!
//! Upstream: `validateService` and `ValidateServiceUpdate` in `pkg/apis/core/validation`, and
//! `pkg/api/service/warnings.go`.

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_releases::Release;

use super::errors::{Errors, at, list, text};
use super::pod::{self, PROTOCOLS};
use super::{formats, meta};
use crate::apimachinery::addresses;
use crate::apimachinery::path::Path;
use crate::fielderror::FieldError;
use crate::schema::internal;

mod addressing;

static SPEC: Path<'static> = Path::new("spec");
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const MAX_AFFINITY_SECONDS: i64 = 86_400;

/// Errors of the addresses and families of a Service.
pub(crate) fn addresses(release: Release, service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::of(release);
    addressing::check(&service["spec"], old, &mut errors);
    errors.into_list()
}

/// Checks a Service. An update passes the old one, whose sloppy addresses may stay.
pub(super) fn check(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &service["spec"];
    let annotations = at(service, "metadata.annotations");
    if let Some(hints) = annotations[HINTS].as_str()
        && let Some(mode) = annotations[TOPOLOGY_MODE].as_str()
        && hints != mode
    {
        errors.invalid(
            format!("metadata.annotations[{TOPOLOGY_MODE}]"),
            mode,
            format!("must match annotations[{HINTS}] when both are specified"),
        );
    }
    let kind = text(spec, "type");
    let is_headless = addressing::is_headless(spec);
    if list(spec, "ports").is_empty() && !is_headless && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless => errors.invalid(
            "spec.clusterIPs[0]",
            "None",
            format!("may not be set to 'None' for {kind} services"),
        ),
        "ExternalName" => external_name(spec, errors),
        _ => {}
    }
    ports(spec, errors);
    meta::labels("spec.selector", &spec["selector"], errors);
    session_affinity(spec, errors);
    addressing::check(spec, old, errors);
    external_ips(spec, old, errors);
    errors.choice(
        "spec.type",
        kind,
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    port_numbers(spec, errors);
    source_ranges(service, old, errors);
    load_balancer(spec, errors);
    traffic(spec, errors);
}

fn external_name(spec: &Value, errors: &mut Errors) {
    const WHY: &str = "may not be set for ExternalName services";
    for field in ["clusterIPs", "ipFamilies"] {
        if !list(spec, field).is_empty() {
            errors.forbidden(SPEC.child(field), WHY);
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        errors.forbidden("spec.ipFamilyPolicy", WHY);
    }
    let name = text(spec, "externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.required("spec.externalName", ""),
        name => errors.complaints("spec.externalName", name, formats::subdomain(name)),
    }
}

fn ports(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("ports");
    let ports = list(spec, "ports");
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        match text(port, "name") {
            "" if ports.len() > 1 => errors.required(path.child("name"), ""),
            "" => {}
            name => {
                errors.complaints(path.child("name"), name, formats::label(name));
                if !names.insert(name) {
                    errors.duplicate(path.child("name"), name);
                }
            }
        }
        let number = port["port"].as_i64().unwrap_or(0);
        pod::port_number(path.child("port"), number, errors);
        errors.choice(path.child("protocol"), text(port, "protocol"), &PROTOCOLS);
        pod::port_number_or_name(&path.child("targetPort"), &port["targetPort"], errors);
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.complaints(
                path.child("appProtocol"),
                protocol,
                formats::qualified_name(protocol),
            );
        }
    }
}

/// Checks that ports and node ports are used once per protocol.
fn port_numbers(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("ports");
    let ports = list(spec, "ports");
    let node_port = |port: &Value| port["nodePort"].as_i64().filter(|number| *number != 0);
    if text(spec, "type") == "ClusterIP" {
        for (index, _) in ports
            .iter()
            .enumerate()
            .filter(|(_, port)| node_port(port).is_some())
        {
            errors.forbidden(
                path.index(index).child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            );
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        if let Some(number) = node_port(port)
            && !seen.insert((text(port, "protocol"), number))
        {
            errors.duplicate(path.index(index).child("nodePort"), number);
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let protocol = text(port, "protocol");
        let number = port["port"].as_i64();
        if !seen.insert((protocol, number)) {
            let key = json!({"protocol": protocol, "port": number});
            errors.duplicate(path.index(index), internal::form("core.ServicePort", &key));
        }
    }
}

fn session_affinity(spec: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.sessionAffinityConfig";
    const WHEN: &str = "when session affinity type is ClientIP";
    let affinity = text(spec, "sessionAffinity");
    let config = &spec["sessionAffinityConfig"];
    errors.choice("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    let client = &config["clientIP"];
    match affinity {
        "ClientIP" if config.is_null() => errors.required(FIELD, WHEN),
        "ClientIP" if client.is_null() => errors.required(format!("{FIELD}.clientIP"), WHEN),
        "ClientIP" => {
            let field = format!("{FIELD}.clientIP.timeoutSeconds");
            match client["timeoutSeconds"].as_i64() {
                None => errors.required(field, WHEN),
                Some(seconds) if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds) => errors.invalid(
                    field,
                    seconds,
                    format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"),
                ),
                Some(_) => {}
            }
        }
        "None" if !config.is_null() => {
            errors.forbidden(FIELD, "must not be set when session affinity is None")
        }
        _ => {}
    }
}

fn external_ips(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = SPEC.child("externalIPs");
    let known = old.map_or(&[][..], |old| list(old, "spec.externalIPs"));
    for (index, ip) in list(spec, "externalIPs").iter().enumerate() {
        let path = path.index(index);
        let text = ip.as_str().unwrap_or_default();
        let before = errors.len();
        if !known.contains(ip) {
            addresses::check(path, text, errors);
        }
        if errors.len() == before {
            addresses::check_reachable(&path, text, errors);
        }
    }
}

fn source_ranges(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    // Upstream's path has the capital letter.
    const FIELD: Path<'static> = Path::new("spec.LoadBalancerSourceRanges");
    let spec = &service["spec"];
    let is_load_balancer = text(spec, "type") == "LoadBalancer";
    let ranges = list(spec, "loadBalancerSourceRanges");
    let trimmed = |range: &Value| range.as_str().unwrap_or_default().trim().to_owned();
    if !ranges.is_empty() {
        if !is_load_balancer {
            errors.forbidden(FIELD, ONLY_LOAD_BALANCER);
        }
        let known = old.map_or(&[][..], |old| list(old, "spec.loadBalancerSourceRanges"));
        let known: Vec<String> = known.iter().map(trimmed).collect();
        for (index, range) in ranges.iter().map(trimmed).enumerate() {
            if !known.contains(&range) {
                addresses::check_network(FIELD.index(index), &range, errors);
            }
        }
        return;
    }
    let annotation = |service: &Value| {
        let value = &at(service, "metadata.annotations")[SOURCE_RANGES];
        value.as_str().map(str::to_owned)
    };
    let Some(given) = annotation(service) else {
        return;
    };
    let field = format!("metadata.annotations[{SOURCE_RANGES}]");
    if !is_load_balancer {
        errors.forbidden(&field, ONLY_LOAD_BALANCER);
    }
    if old.and_then(annotation).as_deref() != Some(&given) && !given.trim().is_empty() {
        for range in given.trim().split(',') {
            addresses::check_network(&field, range.trim(), errors);
        }
    }
}

fn load_balancer(spec: &Value, errors: &mut Errors) {
    let is_load_balancer = text(spec, "type") == "LoadBalancer";
    let allocates = &spec["allocateLoadBalancerNodePorts"];
    if !allocates.is_null() && !is_load_balancer {
        errors.forbidden("spec.allocateLoadBalancerNodePorts", ONLY_LOAD_BALANCER);
    }
    if is_load_balancer && allocates.is_null() {
        errors.required("allocateLoadBalancerNodePorts", "");
    }
    load_balancer_class(spec, errors);
}

fn load_balancer_class(spec: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.loadBalancerClass";
    match spec["loadBalancerClass"].as_str() {
        None => {}
        Some(class) if text(spec, "type") == "LoadBalancer" => {
            errors.complaints(FIELD, class, formats::qualified_name(class));
        }
        Some(_) => errors.forbidden(FIELD, ONLY_LOAD_BALANCER),
    }
}

/// Whether the load balancer asks nodes for their health.
fn needs_health_check(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn traffic(spec: &Value, errors: &mut Errors) {
    const HEALTH: &str = "spec.healthCheckNodePort";
    let kind = text(spec, "type");
    let policy = text(spec, "externalTrafficPolicy");
    let is_external = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !list(spec, "externalIPs").is_empty());
    if is_external {
        errors.choice("spec.externalTrafficPolicy", policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.invalid(
            "spec.externalTrafficPolicy",
            policy,
            "may only be set for externally-accessible services",
        );
    }
    match (
        needs_health_check(spec),
        spec["healthCheckNodePort"].as_i64().unwrap_or(0),
    ) {
        (false, 0) => {}
        (false, port) => errors.invalid(
            HEALTH,
            port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
        (true, 0) => errors.required(HEALTH, ""),
        (true, port) => pod::port_number(HEALTH, port, errors),
    }
    match spec["internalTrafficPolicy"].as_str() {
        None if matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") => {
            errors.required("spec.internalTrafficPolicy", "");
        }
        None => {}
        Some(policy) => errors.one_of("spec.internalTrafficPolicy", policy, &["Cluster", "Local"]),
    }
    if let Some(distribution) = spec["trafficDistribution"].as_str() {
        errors.one_of(
            "spec.trafficDistribution",
            distribution,
            &["PreferClose", "PreferSameZone", "PreferSameNode"],
        );
    }
}

/// Checks an update. Upstream looks at the changed fields before it looks at the whole.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let spec = &new["spec"];
    let before = &old["spec"];
    addressing::update(spec, before, errors);
    let is_load_balancer = |spec: &Value| text(spec, "type") == "LoadBalancer";
    let class = &spec["loadBalancerClass"];
    if is_load_balancer(spec) && is_load_balancer(before) && *class != before["loadBalancerClass"] {
        errors.invalid(
            "spec.loadBalancerClass",
            class.clone(),
            "may not change once set",
        );
    }
    load_balancer_class(spec, errors);
    if needs_health_check(spec)
        && needs_health_check(before)
        && spec["healthCheckNodePort"] != before["healthCheckNodePort"]
    {
        errors.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
    check(new, Some(old), errors);
}

/// Checks an update of the status. Upstream: `ValidateLoadBalancerStatus`.
pub(super) fn status_update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: Path<'static> = Path::new("status.loadBalancer.ingress");
    let ingress = list(new, "status.loadBalancer.ingress");
    if text(new, "spec.type") != "LoadBalancer" && !ingress.is_empty() {
        return errors.forbidden(FIELD, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let known = list(old, "status.loadBalancer.ingress");
    for (index, point) in ingress.iter().enumerate() {
        let path = FIELD.index(index);
        let ip = text(point, "ip");
        let name = text(point, "hostname");
        if !ip.is_empty() && !known.iter().any(|known| text(known, "ip") == ip) {
            addresses::check(path.child("ip"), ip, errors);
        }
        match point["ipMode"].as_str() {
            None if ip.is_empty() => {}
            None => errors.required(path.child("ipMode"), "must be specified when `ip` is set"),
            Some(_) if ip.is_empty() => errors.forbidden(
                path.child("ipMode"),
                "may not be specified when `ip` is not set",
            ),
            Some(mode) => errors.one_of(path.child("ipMode"), mode, &["Proxy", "VIP"]),
        }
        if !name.is_empty() {
            errors.complaints(path.child("hostname"), name, formats::subdomain(name));
            if addresses::sloppy(name).is_some() {
                errors.invalid(
                    path.child("hostname"),
                    name,
                    "must be a DNS name, not an IP address",
                );
            }
        }
    }
}

/// Warnings about a Service.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let kind = text(spec, "type");
    let external_ips = list(spec, "externalIPs");
    let is_headless = kind == "ClusterIP" && text(spec, "clusterIP") == "None";
    let mut warnings = Vec::new();
    let mut warn = |applies: bool, message: &str| {
        if applies {
            warnings.push(message.to_owned());
        }
    };
    warn(
        !at(service, "metadata.annotations")[HINTS].is_null(),
        &format!("annotation {HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"),
    );
    let odd_ips = |field: &str| -> Vec<String> {
        let path = SPEC.child(field);
        let ips = list(spec, field)
            .iter()
            .filter_map(Value::as_str)
            .enumerate();
        ips.filter_map(|(index, ip)| addresses::warning(path.index(index), ip))
            .collect()
    };
    if !matches!(text(spec, "clusterIP"), "" | "None") {
        odd_ips("clusterIPs")
            .iter()
            .for_each(|message| warn(true, message));
    }
    warn(
        is_headless && !text(spec, "loadBalancerIP").is_empty(),
        "spec.loadBalancerIP is ignored for headless services",
    );
    warn(
        is_headless && !external_ips.is_empty(),
        "spec.externalIPs is ignored for headless services",
    );
    warn(
        is_headless && text(spec, "sessionAffinity") != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    odd_ips("externalIPs")
        .iter()
        .for_each(|message| warn(true, message));
    warn(
        !external_ips.is_empty() && !is_headless && kind != "ExternalName",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    let balancer = text(spec, "loadBalancerIP");
    if let Some(message) = addresses::warning("spec.loadBalancerIP", balancer) {
        warn(true, &message);
    }
    let ranges = SPEC.child("loadBalancerSourceRanges");
    for (index, range) in list(spec, "loadBalancerSourceRanges").iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        for message in addresses::network_warnings(ranges.index(index), range) {
            warn(true, &message);
        }
    }
    warn(
        kind == "ExternalName" && !external_ips.is_empty(),
        "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
    );
    warn(
        kind != "ExternalName" && !text(spec, "externalName").is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    warn(
        text(spec, "trafficDistribution") == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    warnings
}
