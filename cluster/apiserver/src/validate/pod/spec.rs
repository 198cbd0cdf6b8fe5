//! Pod specs, of pods and of pod templates.
//!
//! Upstream: `ValidatePodSpec`.

use serde_json::Value;

use super::context::Pod;
use super::{
    Errors, Path, affinity, containers, env, ephemeral, formats, list, meta, network, placement,
    resources, security, text, volumes, windows,
};

/// Checks a spec. `metadata` is that of a pod; templates pass none.
pub(super) fn check(path: &Path<'_>, spec: &Value, metadata: Option<&Value>, errors: &mut Errors) {
    let grace_seconds = spec["terminationGracePeriodSeconds"].as_i64();
    if grace_seconds.is_none() {
        errors.required(path.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = volumes::check(&path.child("volumes"), spec, metadata, errors);
    let claims_path = path.child("resourceClaims");
    let claims = resources::pod_claims(&claims_path, spec, metadata, errors);
    let pod = Pod {
        spec,
        volumes,
        claims,
        grace_seconds,
        host_users: spec["hostUsers"] != false,
    };
    containers::regular(&path.child("containers"), &pod, errors);
    containers::init(&path.child("initContainers"), &pod, errors);
    ephemeral::check(&path.child("ephemeralContainers"), &pod, errors);
    resources::of_pod(path, &pod, errors);
    network::host_ports(path, spec, metadata.is_some(), errors);
    let restart = text(spec, "restartPolicy");
    errors.choice(
        path.child("restartPolicy"),
        restart,
        &["Always", "OnFailure", "Never"],
    );
    network::dns_policy(&path.child("dnsPolicy"), text(spec, "dnsPolicy"), errors);
    meta::labels(path.child("nodeSelector"), &spec["nodeSelector"], errors);
    security::pod(&path.child("securityContext"), spec, errors);
    affinity::check(&path.child("affinity"), &spec["affinity"], errors);
    network::dns_config(&path.child("dnsConfig"), spec, errors);
    placement::gates(path, spec, errors);
    placement::spread(&path.child("topologySpreadConstraints"), spec, errors);
    windows::host_process(path, spec, errors);
    security::host_users(path, spec, errors);
    network::host_name_override(&path.child("hostnameOverride"), spec, errors);
    names(path, spec, errors);
    if !spec["overhead"].is_null() {
        let limits = &spec["overhead"];
        resources::overhead(&path.child("overhead"), limits, errors);
    }
    windows::operating_system(path, spec, errors);
    env::file_volumes(path, spec, errors);
}

/// Fields with one value, most of them names.
fn names(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let named = |field: &str, format: fn(&str) -> Vec<String>, errors: &mut Errors| {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.complaints(path.child(field), value, format(value));
        }
    };
    named("serviceAccountName", formats::subdomain, errors);
    named("nodeName", formats::subdomain, errors);
    active_deadline(
        &path.child("activeDeadlineSeconds"),
        &spec["activeDeadlineSeconds"],
        errors,
    );
    named("hostname", formats::label, errors);
    named("subdomain", formats::label, errors);
    placement::tolerations(
        &path.child("tolerations"),
        list(spec, "tolerations"),
        errors,
    );
    network::host_aliases(&path.child("hostAliases"), spec, errors);
    named("priorityClassName", formats::subdomain, errors);
    if let Some(class) = spec["runtimeClassName"].as_str() {
        errors.complaints(
            path.child("runtimeClassName"),
            class,
            formats::subdomain(class),
        );
    }
    if let Some(policy) = spec["preemptionPolicy"].as_str() {
        errors.choice(
            path.child("preemptionPolicy"),
            policy,
            &["PreemptLowerPriority", "Never"],
        );
    }
}

/// Checks the longest time that a pod can run.
fn active_deadline(path: &Path<'_>, deadline: &Value, errors: &mut Errors) {
    if let Some(seconds) = deadline
        .as_i64()
        .filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds))
    {
        let detail = format!("must be between 1 and {}, inclusive", i32::MAX);
        errors.invalid(path, seconds, detail);
    }
}
