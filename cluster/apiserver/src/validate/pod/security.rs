//! Security contexts of pods and containers.
//!
//! Upstream: `ValidateSecurityContext` and `validatePodSpecSecurityContext`.

use std::collections::HashSet;

use serde_json::Value;

use super::mounts::local_descending;
use super::{Errors, Path, each_container, is_true, list, text, windows};
use crate::schema::internal;

const LOCALHOST_PROFILE_BYTES: usize = 4095;
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Kernel parameters that belong to the IPC namespace of a pod.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// Checks the security context of a pod.
pub(super) fn pod(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let context = &spec["securityContext"];
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(&path.child(field), &context[field], errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        identity(&groups.index(index), group, errors);
    }
    if is_true(spec, "hostPID") && is_true(spec, "shareProcessNamespace") {
        errors.invalid(
            path.child("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    sysctls(&path.child("sysctls"), spec, errors);
    one_of(
        path,
        context,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
        errors,
    );
    seccomp(
        &path.child("seccompProfile"),
        &context["seccompProfile"],
        errors,
    );
    windows::options(
        &path.child("windowsOptions"),
        &context["windowsOptions"],
        errors,
    );
    app_armor(
        &path.child("appArmorProfile"),
        &context["appArmorProfile"],
        errors,
    );
    one_of(
        path,
        context,
        "supplementalGroupsPolicy",
        &["Merge", "Strict"],
        errors,
    );
    // The other policy is behind a gate that is off.
    one_of(path, context, "seLinuxChangePolicy", &["Recursive"], errors);
}

fn one_of(path: &Path<'_>, context: &Value, field: &str, known: &[&str], errors: &mut Errors) {
    if let Some(value) = context[field].as_str() {
        errors.one_of(path.child(field), value, known);
    }
}

/// Checks the number of a user or group.
pub(super) fn identity(path: &Path<'_>, id: &Value, errors: &mut Errors) {
    if let Some(id) = id
        .as_i64()
        .filter(|id| !(0..=i64::from(i32::MAX)).contains(id))
    {
        let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
        errors.invalid(path, id, detail);
    }
}

fn sysctls(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    const FORM: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut names = HashSet::new();
    for (index, sysctl) in list(&spec["securityContext"], "sysctls").iter().enumerate() {
        let path = path.index(index);
        let path = path.child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.required(path, "");
        } else if !is_sysctl(name) {
            errors.invalid(path, name, FORM);
        } else if names.contains(name) {
            errors.duplicate(path, name);
        }
        let dotted = dotted(name);
        if is_true(spec, "hostNetwork") && dotted.starts_with("net.") {
            errors.invalid(
                path,
                name,
                "may not be specified when 'hostNetwork' is true",
            );
        } else if is_true(spec, "hostIPC")
            && (IPC_SYSCTLS.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue."))
        {
            errors.invalid(path, name, "may not be specified when 'hostIPC' is true");
        }
        names.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            part.starts_with(|c: char| c.is_ascii() && is_letter(c as u8))
                && part.ends_with(|c: char| c.is_ascii() && is_letter(c as u8))
                && part
                    .bytes()
                    .all(|byte| is_letter(byte) || matches!(byte, b'-' | b'_'))
        })
}

/// The form of a kernel parameter with dots, up to a wildcard. If the first separator is a slash,
/// dots and slashes are exchanged.
fn dotted(name: &str) -> String {
    let name = name.split_once('*').map_or(name, |(prefix, _)| prefix);
    if name
        .find(['.', '/'])
        .is_none_or(|at| name.as_bytes()[at] == b'.')
    {
        return name.to_owned();
    }
    let exchange = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(exchange).collect()
}

/// Checks a profile of seccomp.
fn seccomp(path: &Path<'_>, profile: &Value, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let kind = text(profile, "type");
    if kind.is_empty() {
        errors.required(
            path.child("type"),
            "type is required when seccompProfile is set",
        );
    } else {
        errors.one_of(path.child("type"), kind, &PROFILE_TYPES);
    }
    let path = path.child("localhostProfile");
    match profile["localhostProfile"].as_str() {
        None if kind == "Localhost" => {
            errors.required(path, "must be set when seccomp type is Localhost");
        }
        Some(file) if kind == "Localhost" => local_descending(&path, file, errors),
        Some(_) => errors.invalid(
            path,
            internal::form("core.SeccompProfile", profile),
            "can only be set when seccomp type is Localhost",
        ),
        None => {}
    }
}

/// Checks a profile of AppArmor.
fn app_armor(path: &Path<'_>, profile: &Value, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let file_path = path.child("localhostProfile");
    let file = &profile["localhostProfile"];
    match (text(profile, "type"), file.as_str()) {
        ("Localhost", None) => {
            errors.required(file_path, "must be set when AppArmor type is Localhost");
        }
        ("Localhost", Some(file)) => {
            if file.trim() != file {
                errors.invalid(file_path, file, "must not be padded with whitespace");
            } else if file.is_empty() {
                errors.required(file_path, "must be set when AppArmor type is Localhost");
            }
            if file.len() > LOCALHOST_PROFILE_BYTES {
                errors.too_long(file_path, LOCALHOST_PROFILE_BYTES);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(file)) => errors.invalid(
            file_path,
            file,
            "can only be set when AppArmor type is Localhost",
        ),
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(
            path.child("type"),
            "type is required when appArmorProfile is set",
        ),
        (other, _) => errors.not_supported(path.child("type"), other, &PROFILE_TYPES),
    }
}

/// Checks the security context of a container.
pub(super) fn container(path: &Path<'_>, context: &Value, host_users: bool, errors: &mut Errors) {
    if context.as_object().is_none_or(|fields| fields.is_empty()) {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        identity(&path.child(field), &context[field], errors);
    }
    if let Some(mount) = context["procMount"].as_str() {
        errors.one_of(path.child("procMount"), mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(
                path.child("procMount"),
                mount,
                "`hostUsers` must be false to use `Unmasked`",
            );
        }
    }
    seccomp(
        &path.child("seccompProfile"),
        &context["seccompProfile"],
        errors,
    );
    if context["allowPrivilegeEscalation"] == false {
        let mut conflict = |detail: &str| {
            errors.invalid(
                path,
                internal::form("core.SecurityContext", context),
                detail,
            )
        };
        if is_true(context, "privileged") {
            conflict("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        let added = list(&context["capabilities"], "add");
        for _ in added
            .iter()
            .filter(|capability| **capability == "CAP_SYS_ADMIN")
        {
            conflict(
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
    windows::options(
        &path.child("windowsOptions"),
        &context["windowsOptions"],
        errors,
    );
    app_armor(
        &path.child("appArmorProfile"),
        &context["appArmorProfile"],
        errors,
    );
}

/// A pod with users of its own cannot use namespaces of the host.
pub(super) fn host_users(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    const WHY: &str = "when `hostUsers` is false";
    if spec["hostUsers"] != false {
        return;
    }
    // Upstream spells the second and the third field with a capital letter.
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if is_true(spec, field) {
            errors.forbidden(path.child(shown), WHY);
        }
    }
    each_container(path, spec, |path, container| {
        if !list(container, "volumeDevices").is_empty() {
            errors.forbidden(path.child("volumeDevices"), WHY);
        }
    });
}
