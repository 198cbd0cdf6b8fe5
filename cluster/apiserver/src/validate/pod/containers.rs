//! Containers and init containers.
//!
//! Upstream: `validateContainers`, `validateInitContainers` and `validateContainerCommon`.

use std::collections::HashSet;

use serde_json::Value;

use super::context::Pod;
use super::ports::{PROTOCOLS, port_number};
use super::{
    Errors, Path, env, formats, list, mounts, number, probes, resources, restart, security, text,
};

const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";

/// Checks the regular containers of a pod.
pub(super) fn regular(path: &Path<'_>, pod: &Pod<'_>, errors: &mut Errors) {
    let containers = list(pod.spec, "containers");
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut names = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        common(&path, container, pod, errors);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        probes::lifecycle(
            &path.child("lifecycle"),
            &container["lifecycle"],
            pod,
            errors,
        );
        probes::of_container(&path, container, pod, errors);
        restart::check(&path, container, errors);
    }
    host_port_conflicts(path, containers, errors);
}

/// Checks the init containers of a pod.
pub(super) fn init(path: &Path<'_>, pod: &Pod<'_>, errors: &mut Errors) {
    let containers = list(pod.spec, "initContainers");
    if containers.is_empty() {
        return;
    }
    let regular = list(pod.spec, "containers").iter();
    let mut names: HashSet<&str> = regular.map(|container| text(container, "name")).collect();
    for (index, container) in containers.iter().enumerate() {
        let all = path;
        let path = path.index(index);
        common(&path, container, pod, errors);
        restart::check_init(&path, container, errors);
        let name = text(container, "name");
        if names.contains(name) {
            errors.duplicate(path.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        host_port_conflicts(all, std::slice::from_ref(container), errors);
        if restart::is_sidecar(container) {
            probes::lifecycle(
                &path.child("lifecycle"),
                &container["lifecycle"],
                pod,
                errors,
            );
            probes::of_container(&path, container, pod, errors);
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if !container[field].is_null() {
                errors.forbidden(path.child(field), NOT_FOR_INIT);
            }
        }
        let policies = path.child("resizePolicy");
        for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
            if policy["restartPolicy"] == "RestartContainer" {
                errors.invalid(
                    policies.index(index).child("restartPolicy"),
                    "RestartContainer",
                    "must not be set to 'RestartContainer' for non-sidecar initContainers",
                );
            }
        }
    }
}

/// Checks the fields that all containers have.
pub(super) fn common(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    match text(container, "name") {
        "" => errors.required(path.child("name"), ""),
        name => errors.complaints(path.child("name"), name, formats::label(name)),
    }
    if text(container, "image").is_empty() {
        errors.required(path.child("image"), "");
    }
    errors.choice(
        path.child("terminationMessagePolicy"),
        text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(&path.child("ports"), list(container, "ports"), errors);
    env::variables(&path.child("env"), list(container, "env"), errors);
    env::sources(&path.child("envFrom"), list(container, "envFrom"), errors);
    mounts::check(path, container, pod, errors);
    pull_policy(
        &path.child("imagePullPolicy"),
        text(container, "imagePullPolicy"),
        errors,
    );
    resources::of_container(
        &path.child("resources"),
        &container["resources"],
        &pod.claims,
        errors,
    );
    resize_policies(&path.child("resizePolicy"), container, pod, errors);
    security::container(
        &path.child("securityContext"),
        &container["securityContext"],
        pod.host_users,
        errors,
    );
}

/// Checks when the node pulls an image.
pub(super) fn pull_policy(path: &Path<'_>, policy: &str, errors: &mut Errors) {
    errors.choice(path, policy, &["Always", "IfNotPresent", "Never"]);
}

/// The image of a pod's container has no blanks around it. Those of templates may have.
pub(super) fn unpadded_image(path: &Path<'_>, container: &Value, errors: &mut Errors) {
    let image = text(container, "image");
    if image.trim().len() != image.len() {
        errors.invalid(
            path.child("image"),
            image,
            "must not have leading or trailing whitespace",
        );
    }
}

fn ports(path: &Path<'_>, ports: &[Value], errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let complaints = formats::port_name(name);
            if complaints.is_empty() && !names.insert(name) {
                errors.duplicate(path.child("name"), name);
            }
            errors.complaints(path.child("name"), name, complaints);
        }
        match number(port, "containerPort") {
            0 => errors.required(path.child("containerPort"), ""),
            number => port_number(path.child("containerPort"), number, errors),
        }
        match number(port, "hostPort") {
            0 => {}
            number => port_number(path.child("hostPort"), number, errors),
        }
        errors.choice(path.child("protocol"), text(port, "protocol"), &PROTOCOLS);
    }
}

/// Two ports of the containers cannot use one port of the host.
fn host_port_conflicts(path: &Path<'_>, containers: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        let ports_path = path.child("ports");
        for (index, port) in list(container, "ports").iter().enumerate() {
            let on_host = number(port, "hostPort");
            if on_host == 0 {
                continue;
            }
            let protocol = text(port, "protocol");
            let ip = text(port, "hostIP");
            if !seen.insert((protocol, ip, on_host)) {
                errors.duplicate(
                    ports_path.index(index).child("hostPort"),
                    format!("{protocol}/{ip}/{on_host}"),
                );
            }
        }
    }
}

/// Checks the policies for a container whose resources change.
fn resize_policies(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    const RESOURCES: [&str; 2] = ["cpu", "memory"];
    const POLICIES: [&str; 2] = ["NotRequired", "RestartContainer"];
    let mut seen = HashSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let resource = text(policy, "resourceName");
        let restart = text(policy, "restartPolicy");
        if !seen.insert(resource) {
            errors.duplicate(path.index(index), resource);
        }
        errors.choice(path, resource, &RESOURCES);
        errors.choice(path, restart, &POLICIES);
        if text(pod.spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            errors.invalid(
                path,
                restart,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            );
        }
    }
}
