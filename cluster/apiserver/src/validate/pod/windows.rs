//! Options of Windows, and the operating system of a pod.
//!
//! Upstream: `validateWindowsSecurityContextOptions`, `validateWindowsHostProcessPod`,
//! `validateOS`, `validateLinux` and `validateWindows`.

use serde_json::Value;

use super::{Errors, Path, each_container, formats, is_true, text};

const SPEC_KIB: usize = 64;
const DOMAIN_CHARACTERS: usize = 256;
const USER_CHARACTERS: usize = 104;
const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

/// Fields of a pod that Windows lacks: the object in the spec that has it, the field, and the path
/// in errors.
const OF_POD: [(&str, &str); 15] = [
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
];

/// Fields of a container's security context that Windows lacks.
const OF_CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks the options of Windows in a security context.
pub(super) fn options(path: &Path<'_>, options: &Value, errors: &mut Errors) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        errors.complaints(
            path.child("gmsaCredentialSpecName"),
            name,
            formats::subdomain(name),
        );
    }
    if let Some(spec) = options["gmsaCredentialSpec"].as_str() {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > SPEC_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {SPEC_KIB} KiB");
            errors.invalid(path, spec, detail);
        }
    }
    if let Some(name) = options["runAsUserName"].as_str() {
        for complaint in user_name(name) {
            errors.invalid(path.child("runAsUserName"), name, complaint);
        }
    }
}

/// Complaints about a user with an optional domain.
fn user_name(name: &str) -> Vec<String> {
    let only = |complaint: &str| vec![format!("runAsUserName {complaint}")];
    if name.is_empty() {
        return only("cannot be an empty string");
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return only("cannot contain control characters");
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>()[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return only("cannot contain more than one backslash"),
    };
    let mut complaints = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_CHARACTERS {
            complaints.push(format!(
                "runAsUserName's Domain length must be under {DOMAIN_CHARACTERS} characters"
            ));
        }
        if !is_net_bios(domain) && !is_dns_domain(domain) {
            complaints.push(
                "runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned(),
            );
        }
    }
    if user.is_empty() {
        complaints.push("runAsUserName's User cannot be empty".to_owned());
    } else {
        if user.len() > USER_CHARACTERS {
            complaints.push(format!(
                "runAsUserName's User length must not be longer than {USER_CHARACTERS} characters"
            ));
        }
        if user.bytes().all(|byte| matches!(byte, b'.' | b' ')) {
            complaints
                .push("runAsUserName's User cannot contain only periods or spaces".to_owned());
        }
    }
    if user.contains([
        '"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']',
    ]) {
        complaints.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
                .to_owned(),
        );
    }
    complaints
}

fn is_net_bios(domain: &str) -> bool {
    let reserved = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(reserved)
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

/// Either all containers of a pod are processes of the host, or none is.
pub(super) fn host_process(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let of_pod = spec["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let mut containers = 0;
    let mut processes = 0;
    each_container(path, spec, |path, container| {
        containers += 1;
        let own = container["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
        if let Some(of_pod) = of_pod
            && let Some(own) = own
            && of_pod != own
        {
            let detail = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            let path = path.child("securityContext.windowsOptions.hostProcess");
            errors.invalid(path, own, detail);
        }
        processes += usize::from(own.or(of_pod) == Some(true));
    });
    if processes == 0 {
        return;
    }
    if processes != containers {
        errors.invalid(
            path,
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        );
    }
    if !is_true(spec, "hostNetwork") {
        errors.invalid(
            path.child("hostNetwork"),
            false,
            "hostNetwork must be true if pod contains any hostProcess containers",
        );
    }
}

/// Checks the operating system, and that the pod has no options of another one.
pub(super) fn operating_system(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let system = &spec["os"];
    if system.is_null() {
        return;
    }
    match text(system, "name") {
        "" => errors.required(path.child("os.name"), ""),
        "linux" => linux(path, spec, errors),
        "windows" => windows(path, spec, errors),
        other => errors.not_supported(path.child("os"), other, &["linux", "windows"]),
    }
}

fn linux(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let mut check = |path: &Path<'_>, object: &Value| {
        if !object["securityContext"]["windowsOptions"].is_null() {
            errors.forbidden(
                path.child("securityContext.windowsOptions"),
                "windows options cannot be set for a linux pod",
            );
        }
    };
    check(path, spec);
    each_container(path, spec, check);
}

fn windows(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let context = path.child("securityContext");
    for (object, field) in OF_POD {
        let (path, value) = if object.is_empty() {
            (path.child(field), &spec[field])
        } else {
            (context.child(field), &spec[object][field])
        };
        let is_unset = match field {
            "hostPID" | "hostIPC" => *value != true,
            "sysctls" => value.as_array().is_none_or(Vec::is_empty),
            _ => value.is_null(),
        };
        if !is_unset {
            errors.forbidden(path, NOT_ON_WINDOWS);
        }
    }
    each_container(path, spec, |path, container| {
        let context = path.child("securityContext");
        for field in OF_CONTAINER {
            if !container["securityContext"][field].is_null() {
                errors.forbidden(context.child(field), NOT_ON_WINDOWS);
            }
        }
    });
}
