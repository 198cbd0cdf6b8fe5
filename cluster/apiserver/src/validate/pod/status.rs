//! Updates of the status of pods.
//!
//! Upstream: `ValidatePodStatusUpdate`.

use std::collections::HashSet;

use serde_json::Value;

use super::security::identity;
use super::update::fixed_annotations;
use super::{Errors, Path, addresses, at, formats, list, number, restart, text};
use crate::schema::internal;

static STATUS: Path<'static> = Path::new("status");
const NOT_NEGATIVE: &str = "must be a non-negative integer";
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// Checks an update of a pod's status.
pub(in super::super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let status = &new["status"];
    let before = &old["status"];
    fixed_annotations(new, old, errors);
    conditions(&STATUS.child("conditions"), status, errors);
    nominated_node(status, old, errors);
    let observed = number(status, "observedGeneration");
    if observed < 0 {
        errors.invalid(STATUS.child("observedGeneration"), observed, NOT_NEGATIVE);
    }
    if status["qosClass"] != before["qosClass"] {
        let class = status["qosClass"].clone();
        errors.invalid(STATUS.child("qosClass"), class, "field is immutable");
    }
    for (field, containers) in STATUSES {
        transitions(field, containers, new, old, errors);
    }
    resource_claims(&STATUS.child("resourceClaimStatuses"), new, errors);
    extended_resources(&STATUS.child("extendedResourceClaimStatus"), new, errors);
    ips("podIPs", status, before, errors);
    host_ips(status, before, errors);
    for (field, _) in STATUSES {
        users(
            &STATUS.child(field),
            list(status, field),
            at(new, "spec.os.name"),
            errors,
        );
    }
    for (field, containers) in STATUSES {
        let containers = list(&new["spec"], containers);
        health(field, list(status, field), containers, errors);
    }
}

fn conditions(path: &Path<'_>, status: &Value, errors: &mut Errors) {
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let path = path.index(index);
        let observed = number(condition, "observedGeneration");
        if observed < 0 {
            errors.invalid(path.child("observedGeneration"), observed, NOT_NEGATIVE);
        }
        let kind = text(condition, "type");
        // Upstream's path has the capital letter.
        errors.complaints(path.child("Type"), kind, formats::qualified_name(kind));
    }
}

fn nominated_node(status: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: Path<'static> = Path::new("status.nominatedNodeName");
    let node = text(status, "nominatedNodeName");
    if node.is_empty() || node == text(old, "status.nominatedNodeName") {
        return;
    }
    errors.complaints(FIELD, node, formats::subdomain(node));
    if !text(old, "spec.nodeName").is_empty() {
        errors.forbidden(
            FIELD,
            "may not be set on pods that are already bound to a node",
        );
    }
}

/// A container that ended can only run again if its policy says so.
fn transitions(field: &str, containers: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let spec = &old["spec"];
    let is_ephemeral = containers == "ephemeralContainers";
    if !is_ephemeral && restart::all_can_restart(spec) {
        return;
    }
    let path = STATUS.child(field);
    let statuses = list(&new["status"], field);
    for (index, before) in list(&old["status"], field).iter().enumerate() {
        let ended = &before["state"]["terminated"];
        let name = text(before, "name");
        let now = statuses
            .iter()
            .find(|status| text(status, "name") == name && status["state"]["terminated"].is_null());
        if ended.is_null() || now.is_none() {
            continue;
        }
        let container = list(spec, containers)
            .iter()
            .find(|container| text(container, "name") == name);
        let may_restart = !is_ephemeral
            && container.is_some_and(|container| {
                restart::restarts(container, spec, number(ended, "exitCode"))
            });
        if !may_restart {
            errors.forbidden(
                path.index(index).child("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

fn resource_claims(path: &Path<'_>, pod: &Value, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, status) in list(pod, "status.resourceClaimStatuses").iter().enumerate() {
        let path = path.index(index);
        let name = text(status, "name");
        let claims = list(pod, "spec.resourceClaims");
        if !claims.iter().any(|claim| text(claim, "name") == name) {
            errors.invalid(
                path.child("name"),
                name,
                "must match the name of an entry in `spec.resourceClaims`",
            );
        }
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        if let Some(claim) = status["resourceClaimName"].as_str() {
            errors.complaints(
                path.child("resourceClaimName"),
                claim,
                formats::subdomain(claim),
            );
        }
    }
}

fn extended_resources(path: &Path<'_>, pod: &Value, errors: &mut Errors) {
    let status = at(pod, "status.extendedResourceClaimStatus");
    if status.is_null() {
        return;
    }
    let mappings_path = path.child("requestMappings");
    let mappings = list(status, "requestMappings");
    if mappings.is_empty() {
        errors.required(mappings_path, "at least one request mapping is required");
    }
    let mut seen = HashSet::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let entry = mappings_path.index(index);
        let values = ["containerName", "resourceName", "requestName"].map(|f| text(mapping, f));
        let [container, resource, request] = values;
        let found = ["containers", "initContainers"]
            .iter()
            .flat_map(|name| list(&pod["spec"], name))
            .find(|candidate| text(candidate, "name") == container);
        match found {
            None => errors.invalid(
                entry.child("containerName"),
                container,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            ),
            Some(found) if found["resources"]["requests"][resource].is_null() => errors.invalid(
                entry.child("resourceName"),
                resource,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
            ),
            Some(_) => {}
        }
        errors.complaints(path.child("requestName"), request, formats::label(request));
        if !seen.insert(values) {
            errors.duplicate(entry.child("containerName"), container);
            errors.duplicate(entry.child("resourceName"), resource);
            errors.duplicate(entry.child("requestName"), request);
        }
    }
    match text(status, "resourceClaimName") {
        "" => errors.required(path.child("resourceClaimName"), ""),
        name => errors.complaints(
            path.child("resourceClaimName"),
            name,
            formats::subdomain(name),
        ),
    }
}

/// Checks addresses: new ones are strict, and there is one of each family.
fn ips(field: &str, status: &Value, before: &Value, errors: &mut Errors) {
    let path = STATUS.child(field);
    let entries = list(status, field);
    let known = list(before, field);
    for (index, entry) in entries.iter().enumerate() {
        let ip = text(entry, "ip");
        if !known.iter().any(|entry| text(entry, "ip") == ip) {
            addresses::check(path.index(index), ip, errors);
        }
    }
    if entries.len() > 1 {
        let is_dual = addresses::is_dual_stack(entries.iter().map(|entry| text(entry, "ip")));
        if !is_dual || entries.len() > 2 {
            errors.invalid(
                path,
                internal::form("core.PodIP", &status[field]),
                "may specify no more than one IP for each IP family",
            );
        }
    }
}

fn host_ips(status: &Value, before: &Value, errors: &mut Errors) {
    let Some(first) = list(status, "hostIPs").first() else {
        return;
    };
    let first = text(first, "ip");
    if first != text(status, "hostIP") {
        errors.invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`");
    }
    ips("hostIPs", status, before, errors);
}

/// Checks the users that containers run as.
fn users(path: &Path<'_>, statuses: &[Value], system: &Value, errors: &mut Errors) {
    for (index, status) in statuses.iter().enumerate() {
        let user = &status["user"]["linux"];
        if user.is_null() {
            continue;
        }
        let path = path.index(index);
        let path = path.child("user.linux");
        if system == "windows" {
            errors.forbidden(path, "cannot be set for a windows pod");
            continue;
        }
        identity(&path.child("uid"), &user["uid"], errors);
        identity(&path.child("gid"), &user["gid"], errors);
        let groups = path.child("supplementalGroups");
        for (index, group) in list(user, "supplementalGroups").iter().enumerate() {
            identity(&groups.index(index), group, errors);
        }
    }
}

/// Checks the health of allocated resources, which ephemeral containers do not have.
fn health(field: &str, statuses: &[Value], containers: &[Value], errors: &mut Errors) {
    let path = STATUS.child(field);
    for (index, status) in statuses.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("allocatedResourcesStatus");
        let allocated = list(status, "allocatedResourcesStatus");
        if field == "ephemeralContainerStatuses" {
            if !allocated.is_empty() {
                errors.forbidden(path, "must not be specified in container status");
            }
            continue;
        }
        let container = containers
            .iter()
            .find(|container| container["name"] == status["name"]);
        for (index, resource) in allocated.iter().enumerate() {
            let path = path.index(index);
            if let Some(container) = container {
                allocated_name(
                    &path.child("name"),
                    text(resource, "name"),
                    container,
                    errors,
                );
            }
            devices(
                &path.child("resources"),
                list(resource, "resources"),
                errors,
            );
        }
    }
}

fn allocated_name(path: &Path<'_>, name: &str, container: &Value, errors: &mut Errors) {
    let resources = &container["resources"];
    let (is_known, complaint) = match name.strip_prefix("claim:") {
        Some(claim) => (
            list(resources, "claims").iter().any(|known| {
                let name = text(known, "name");
                let request = text(known, "request");
                if request.is_empty() {
                    claim == name
                } else {
                    claim == format!("{name}/{request}")
                }
            }),
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
        ),
        None => (
            resources["requests"].get(name).is_some(),
            "must match one of the container's resource requests",
        ),
    };
    if !is_known {
        errors.invalid(path, name, complaint);
    }
}

fn devices(path: &Path<'_>, devices: &[Value], errors: &mut Errors) {
    const MESSAGE_BYTES: usize = 1024;
    let mut ids = HashSet::new();
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        errors.one_of(
            path.child("health"),
            text(device, "health"),
            &["Healthy", "Unhealthy", "Unknown"],
        );
        match device["message"].as_str() {
            Some("") => errors.required(path.child("message"), "must be non-empty if specified"),
            Some(message) if message.len() > MESSAGE_BYTES => {
                errors.too_long(path.child("message"), MESSAGE_BYTES);
            }
            _ => {}
        }
        let id = text(device, "resourceID");
        if !ids.insert(id) {
            errors.duplicate(path.child("resourceID"), id);
        }
    }
}
