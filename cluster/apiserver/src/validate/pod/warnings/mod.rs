//! Warnings about pods and pod templates that are valid, but probably mistakes of the client.
//!
//! Upstream is `pkg/api/pod/warnings.go`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::annotations::{APP_ARMOR, SECCOMP_OF_CONTAINER, has_profiles};
use super::{CONTAINERS, Path, addresses, at, each_container, formats, list, number, text};
use crate::validate::{claim, fraction};

mod nodes;
mod overlaps;

pub(in super::super) use nodes::{deprecated_label, selector_terms};

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// Volume sources that no node supports any more: the field, the field in the warning, the warning.
const OLD_VOLUMES: [(&str, &str, &str); 7] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
];
const OLD_CEPH: [&str; 2] = ["cephfs", "rbd"];
const CEPH: &str = "deprecated in v1.28, non-functional in v1.31+";

/// Warnings about a new pod.
pub(in super::super) fn of_pod(pod: &Value) -> Vec<String> {
    let name = at(pod, "metadata.name").as_str().unwrap_or_default();
    let mut warnings = Vec::new();
    if has_profiles(at(pod, "metadata.annotations")) {
        // Upstream copies these annotations to fields before it looks for other warnings.
        each_container(&Path::new("spec"), &pod["spec"], |_, container| {
            let path = Path::new("metadata.annotations");
            app_armor(&path, pod, container, &mut warnings);
        });
    }
    let problems = formats::label(name);
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
    collect(&Path::new(""), pod, false, &mut warnings);
    warnings
}

/// The warning about a workload whose name gives names of pods that are no labels.
pub(in super::super) fn of_name(object: &Value) -> Option<String> {
    let problems = formats::label(at(object, "metadata.name").as_str().unwrap_or_default());
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Warnings about the pod template at `field`.
pub(in super::super) fn of_template(field: &str, template: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if !template.is_null() {
        collect(&Path::new(field), template, true, &mut warnings);
    }
    warnings
}

fn collect(path: &Path<'_>, pod: &Value, is_template: bool, warnings: &mut Vec<String>) {
    let spec_path = path.child("spec");
    let spec = &pod["spec"];
    let metadata_path = path.child("metadata");
    let annotations_path = metadata_path.child("annotations");
    let annotations = at(pod, "metadata.annotations");
    nodes::collect(&spec_path, spec, warnings);
    for (key, message) in OLD_ANNOTATIONS {
        if !annotations[key].is_null() {
            warnings.push(format!("{}: {message}", annotations_path.key(key)));
        }
    }
    volumes(&spec_path.child("volumes"), spec, warnings);
    repeated(&spec_path, spec, warnings);
    fractions(&spec_path.child("overhead"), &spec["overhead"], warnings);
    if !annotations[SECCOMP_OF_POD].is_null() && spec["securityContext"]["seccompProfile"].is_null()
    {
        warnings.push(format!(
            "{}: {SECCOMP}",
            annotations_path.key(SECCOMP_OF_POD)
        ));
    }
    let has_profiles = has_profiles(annotations);
    each_container(&spec_path, spec, |path, container| {
        if has_profiles {
            let key = format!("{SECCOMP_OF_CONTAINER}{}", text(container, "name"));
            let own = &container["securityContext"]["seccompProfile"];
            if own.is_null() && !annotations[&key].is_null() {
                warnings.push(format!("{}: {SECCOMP}", annotations_path.key(&key)));
            }
            if is_template {
                app_armor(&annotations_path, pod, container, warnings);
            }
        }
        let resources = path.child("resources");
        let amounts = &container["resources"];
        for name in ["memory", "ephemeral-storage"] {
            for side in ["limits", "requests"] {
                let path = resources.child(side);
                fraction::warn(&path.key(name), &amounts[side][name], warnings);
            }
        }
        variables(&path.child("env"), list(container, "env"), warnings);
    });
    ports(&spec_path, spec, warnings);
    if number(spec, "terminationGracePeriodSeconds") < 0 {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            spec_path.child("terminationGracePeriodSeconds")
        ));
    }
    null_selectors(&spec_path.child("affinity"), &spec["affinity"], warnings);
    let servers = spec_path.child("dnsConfig.nameservers");
    for (index, server) in list(&spec["dnsConfig"], "nameservers").iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        warnings.extend(addresses::warning(servers.index(index), server));
    }
    let aliases = spec_path.child("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        warnings.extend(addresses::warning(aliases.index(index).child("ip"), ip));
    }
}

fn volumes(path: &Path<'_>, spec: &Value, warnings: &mut Vec<String>) {
    let volumes = list(spec, "volumes");
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        for (field, shown, message) in OLD_VOLUMES {
            if !volume[field].is_null() {
                warnings.push(format!("{}: {message}", path.child(shown)));
            }
        }
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        if !template.is_null() {
            let path = path.child("ephemeral.volumeClaimTemplate.spec");
            warnings.extend(claim::warnings(&path, &template["spec"]));
        }
        for field in OLD_CEPH.iter().filter(|field| !volume[**field].is_null()) {
            warnings.push(format!("{}: {CEPH}", path.child(field)));
        }
    }
    overlaps::collect(volumes, warnings);
}

/// Host aliases and pull secrets that a pod lists twice.
fn repeated(path: &Path<'_>, spec: &Value, warnings: &mut Vec<String>) {
    for (field, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let path = path.child(field);
        let mut seen = HashSet::new();
        for (index, item) in list(spec, field).iter().enumerate() {
            let value = text(item, key);
            if !seen.insert(value) {
                let path = path.index(index);
                warnings.push(format!("{}: duplicate {key} {value:?}", path.child(key)));
            }
        }
    }
    let path = path.child("imagePullSecrets");
    for (index, item) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(item, "name").is_empty() {
            let path = path.index(index);
            warnings.push(format!("{}: invalid empty name \"\"", path.child("name")));
        }
    }
}

fn fractions(path: &Path<'_>, amounts: &Value, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        fraction::warn(&path.key(name), &amounts[name], warnings);
    }
}

/// Warns about the annotation of a container with its AppArmor profile, unless a field agrees.
fn app_armor(path: &Path<'_>, pod: &Value, container: &Value, warnings: &mut Vec<String>) {
    let key = format!("{APP_ARMOR}{}", text(container, "name"));
    let Some(profile) = at(pod, "metadata.annotations")[&key].as_str() else {
        return;
    };
    let of_pod = &pod["spec"]["securityContext"]["appArmorProfile"];
    let agrees = app_armor_field(profile).is_some_and(|field| field == *of_pod);
    if container["securityContext"]["appArmorProfile"].is_null() && !agrees {
        warnings.push(format!(
            "{}: deprecated since v1.30; use the \"appArmorProfile\" field instead",
            path.key(&key)
        ));
    }
}

/// The field that says the same as an annotation about AppArmor.
fn app_armor_field(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(serde_json::json!({"type": "Unconfined"})),
        "runtime/default" => Some(serde_json::json!({"type": "RuntimeDefault"})),
        other => {
            let file = other
                .strip_prefix("localhost/")
                .filter(|file| !file.is_empty())?;
            Some(serde_json::json!({"type": "Localhost", "localhostProfile": file}))
        }
    }
}

/// Warns about variables that hide others. A variable may extend the value of an earlier one.
fn variables(path: &Path<'_>, variables: &[Value], warnings: &mut Vec<String>) {
    let mut names = HashSet::new();
    for (index, variable) in variables.iter().enumerate() {
        let name = text(variable, "name");
        let value = text(variable, "value");
        if names.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let extends = value.contains(&reference) && value != reference;
        if !extends || !variable["valueFrom"].is_null() {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                path.index(index)
            ));
        }
    }
}

/// A port of a container, and where it is.
struct Port<'a> {
    containers: &'static str,
    container: usize,
    index: usize,
    value: &'a Value,
}

impl<'a> Port<'a> {
    fn all(spec: &'a Value) -> impl Iterator<Item = Self> {
        let containers = CONTAINERS.into_iter().flat_map(|name| {
            let containers = list(spec, name).iter().enumerate();
            containers.map(move |(at, container)| (name, at, container))
        });
        containers.flat_map(|(name, at, container)| {
            let ports = list(container, "ports").iter().enumerate();
            ports.map(move |(index, value)| Self {
                containers: name,
                container: at,
                index,
                value,
            })
        })
    }

    /// The path of the port in a pod whose spec is at `spec`.
    fn path(&self, spec: &Path<'_>) -> String {
        let containers = spec.child(self.containers);
        let container = containers.index(self.container);
        container.child("ports").index(self.index).to_string()
    }
}

fn ports(spec_path: &Path<'_>, spec: &Value, warnings: &mut Vec<String>) {
    let mut all: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::new();
    for port in Port::all(spec) {
        let value = port.value;
        let on_host = number(value, "hostPort");
        let number = number(value, "containerPort");
        let protocol = text(value, "protocol");
        let ip = text(value, "hostIP");
        if !ip.is_empty() && on_host == 0 {
            let path = port.path(spec_path);
            let name = text(value, "name");
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"
            ));
        }
        let others = all.entry((number, protocol)).or_default();
        for other in others.iter() {
            if let Some(how) = clash((ip, on_host), other.value) {
                let path = port.path(spec_path);
                let other = other.path(spec_path);
                warnings.push(format!("{path}: {how} port definition with {other}"));
            }
        }
        others.push(port);
    }
    let mut names: HashMap<&str, Port<'_>> = HashMap::new();
    for port in Port::all(spec) {
        let name = text(port.value, "name");
        if name.is_empty() {
            continue;
        }
        match names.get(name) {
            Some(other) => {
                let path = port.path(spec_path);
                let other = other.path(spec_path);
                warnings.push(format!(
                    "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
                ));
            }
            None => drop(names.insert(name, port)),
        }
    }
}

/// How a port clashes with another one of the same number and protocol.
fn clash((ip, on_host): (&str, i64), other: &Value) -> Option<&'static str> {
    let other_ip = text(other, "hostIP");
    let other_on_host = number(other, "hostPort");
    if ip == other_ip && on_host == other_on_host {
        Some("duplicate")
    } else if on_host == 0 || other_on_host == 0 {
        Some("overlapping")
    } else if on_host == other_on_host && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// Warns about terms that match no pod.
fn null_selectors(path: &Path<'_>, affinity: &Value, warnings: &mut Vec<String>) {
    const MESSAGE: &str = "a null labelSelector results in matching no pod";
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(kind);
        for (field, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                "podAffinityTerm",
            ),
        ] {
            let path = path.child(field);
            for (index, term) in list(&affinity[kind], field).iter().enumerate() {
                let path = path.index(index);
                let (term, path) = if inner.is_empty() {
                    (term, path)
                } else {
                    (&term[inner], path.child(inner))
                };
                if term["labelSelector"].is_null() {
                    warnings.push(format!("{}: {MESSAGE}", path.child("labelSelector")));
                }
            }
        }
    }
}
