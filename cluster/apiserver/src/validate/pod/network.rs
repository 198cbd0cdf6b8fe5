//! Host network, DNS, host names and host aliases of pods.
//!
//! Upstream: `validatePodHostNetworkDeps`, `validatePodDNSConfig`, `validatePodHostName` and
//! `ValidateHostAliases`.

use serde_json::Value;

use super::{Errors, Path, addresses, formats, is_true, list, number, text};

const NAMESERVERS: usize = 3;
const SEARCH_PATHS: usize = 32;
const SEARCH_CHARACTERS: usize = 2048;
const HOST_NAME_BYTES: usize = 64;

/// With the network of the host, ports of the container are ports of the host. In a template the
/// latter may be missing.
pub(super) fn host_ports(path: &Path<'_>, spec: &Value, is_pod: bool, errors: &mut Errors) {
    if !is_true(spec, "hostNetwork") {
        return;
    }
    let containers = path.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        let path = containers.index(index);
        let path = path.child("ports");
        for (index, port) in list(container, "ports").iter().enumerate() {
            let on_host = number(port, "hostPort");
            if (is_pod || on_host != 0) && on_host != number(port, "containerPort") {
                errors.invalid(
                    path.index(index).child("hostPort"),
                    on_host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

/// Checks where a pod gets its DNS settings from.
pub(super) fn dns_policy(path: &Path<'_>, policy: &str, errors: &mut Errors) {
    errors.choice(
        path,
        policy,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
}

/// Checks the DNS settings of a pod.
pub(super) fn dns_config(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let config = &spec["dnsConfig"];
    let nameservers = list(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if nameservers.is_empty() {
            return errors.required(
                path.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
        }
    }
    if config.is_null() {
        return;
    }
    let servers_path = path.child("nameservers");
    if nameservers.len() > NAMESERVERS {
        errors.invalid(
            servers_path,
            nameservers.to_vec(),
            format!("must not have more than {NAMESERVERS} nameservers"),
        );
    }
    for (index, server) in nameservers.iter().enumerate() {
        addresses::check(
            servers_path.index(index),
            server.as_str().unwrap_or_default(),
            errors,
        );
    }
    searches(&path.child("searches"), list(config, "searches"), errors);
    let options = path.child("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(options.index(index), "must not be empty");
        }
    }
}

fn searches(path: &Path<'_>, searches: &[Value], errors: &mut Errors) {
    let texts: Vec<&str> = searches.iter().filter_map(Value::as_str).collect();
    if texts.len() > SEARCH_PATHS {
        let detail = format!("must not have more than {SEARCH_PATHS} search paths");
        errors.invalid(path, searches.to_vec(), detail);
    }
    if texts.join(" ").len() > SEARCH_CHARACTERS {
        let detail = format!(
            "must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.invalid(path, searches.to_vec(), detail);
    }
    for (index, search) in texts.iter().enumerate().filter(|(_, text)| **text != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.complaints(
            path.index(index),
            search,
            formats::subdomain_with_underscore(search),
        );
    }
}

/// Checks a host name that replaces the one of the pod.
pub(super) fn host_name_override(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let Some(name) = spec["hostnameOverride"].as_str() else {
        return;
    };
    if is_true(spec, "setHostnameAsFQDN") {
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if is_true(spec, "hostNetwork") {
        errors.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOST_NAME_BYTES {
        errors.too_long(path, HOST_NAME_BYTES);
    }
    errors.complaints(path, name, formats::subdomain(name));
}

/// Checks additional entries of the hosts file.
pub(super) fn host_aliases(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.index(index);
        addresses::check(path.child("ip"), text(alias, "ip"), errors);
        let names = path.child("hostnames");
        for (index, name) in list(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            errors.complaints(names.index(index), name, formats::subdomain(name));
        }
    }
}
