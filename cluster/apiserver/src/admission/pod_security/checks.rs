//! The checks of the pod security standards, one table row each, by level and version.
//!
//! Reasons, details and versions equal upstream's, because users see them in refusals and warnings.
//! Upstream: `k8s.io/pod-security-admission/policy`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Level;

/// A violation: its reason, such as `host namespaces`, and the offending fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: &'static str,
    detail: String,
}

/// One row of the table.
struct Check {
    id: &'static str,
    level: Level,
    /// Minor number of the first version of the standards with this check.
    since: u8,
    /// Id of the check of the lower level that this check replaces; may be empty.
    replaces: &'static str,
    run: fn(&Pod<'_>, u8) -> Option<Violation>,
}

const fn baseline(
    id: &'static str,
    since: u8,
    run: fn(&Pod<'_>, u8) -> Option<Violation>,
) -> Check {
    Check {
        id,
        level: Level::Baseline,
        since,
        replaces: "",
        run,
    }
}

const fn restricted(
    id: &'static str,
    since: u8,
    replaces: &'static str,
    run: fn(&Pod<'_>, u8) -> Option<Violation>,
) -> Check {
    Check {
        id,
        level: Level::Restricted,
        since,
        replaces,
        run,
    }
}

/// The checks, in the order in which upstream reports their violations.
// One line per check keeps this readable as a table.
#[rustfmt::skip]
const CHECKS: &[Check] = &[
    baseline("appArmorProfile", 0, app_armor_profile),
    baseline("capabilities_baseline", 0, default_capabilities),
    baseline("hostNamespaces", 0, host_namespaces),
    baseline("hostPathVolumes", 0, host_path_volumes),
    baseline("hostPorts", 0, host_ports),
    baseline("hostProbesAndHostLifecycle", 34, probe_hosts),
    baseline("privileged", 0, privileged),
    baseline("procMount", 0, proc_mount_outside_user_namespaces),
    baseline("seLinuxOptions", 0, se_linux_options),
    baseline("seccompProfile_baseline", 19, seccomp_profile),
    baseline("sysctls", 0, sysctls),
    baseline("windowsHostProcess", 0, windows_host_process),
    restricted("allowPrivilegeEscalation", 8, "", privilege_escalation),
    restricted("capabilities_restricted", 22, "capabilities_baseline", dropped_capabilities),
    restricted("procMount_restricted", 35, "procMount", proc_mount),
    restricted("restrictedVolumes", 0, "hostPathVolumes", restricted_volumes),
    restricted("runAsNonRoot", 0, "", run_as_non_root),
    restricted("runAsUser", 23, "", run_as_user),
    restricted("seccompProfile_restricted", 19, "seccompProfile_baseline", required_seccomp_profile),
];

/// All violations of `level` in the standards of version 1.`minor`, for a pod or a pod template.
pub(super) fn violations(level: Level, minor: u8, pod: &Value) -> Vec<Violation> {
    let pod = Pod {
        metadata: &pod["metadata"],
        spec: &pod["spec"],
    };
    let active: Vec<&Check> = CHECKS
        .iter()
        .filter(|check| check.level <= level && check.since <= minor)
        .collect();
    let replaced: BTreeSet<&str> = active.iter().map(|check| check.replaces).collect();
    active
        .into_iter()
        .filter(|check| !replaced.contains(check.id))
        .filter_map(|check| (check.run)(&pod, minor))
        .collect()
}

/// All violations with details in one line.
pub(super) fn detailed(violations: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The parts of a pod or pod template that checks read.
struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    fn security(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    /// All containers in the order of upstream's visitor: init, regular, ephemeral.
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| items(&self.spec[list]))
    }

    /// Names of the containers for which `is_bad` is true.
    fn containers_that(&self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(is_bad)
            .map(|container| text(&container["name"]))
            .collect()
    }

    /// Since 1.25, some checks do not apply to Windows pods.
    fn is_for_windows(&self, minor: u8) -> bool {
        minor >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Since 1.35, user namespaces lift some checks of the user and of `/proc`.
    fn has_user_namespace(&self, minor: u8) -> bool {
        minor >= 35 && self.spec["hostUsers"] == false
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn found(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    items
        .into_iter()
        .map(|item| format!("\"{item}\""))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `container "a"`, `containers "a", "b"`.
fn named(containers: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", containers.len()),
        quoted(containers.iter().copied())
    )
}

/// Which of pod and containers set a field, as text; `None` if none of them does.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let containers = (!containers.is_empty()).then(|| named(containers));
    let parts: Vec<String> = pod
        .then(|| "pod".to_owned())
        .into_iter()
        .chain(containers)
        .collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

fn app_armor_profile(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values = BTreeSet::new();
    let mut is_bad = |security: &Value| {
        let profile = &security["appArmorProfile"];
        let bad = !profile.is_null()
            && !["RuntimeDefault", "Localhost"].contains(&text(&profile["type"]));
        if bad {
            values.insert(text(&profile["type"]).to_owned());
        }
        bad
    };
    let by_pod = is_bad(pod.security());
    let containers = pod.containers_that(|container| is_bad(&container["securityContext"]));
    let annotations = pod.metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten();
    let mut annotations: Vec<String> = annotations
        .map(|(key, value)| (key, text(value)))
        .filter(|(key, value)| {
            key.starts_with(PREFIX)
                && !value.is_empty()
                && *value != "runtime/default"
                && !value.starts_with("localhost/")
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    annotations.sort();
    let by_annotations = (!annotations.is_empty())
        .then(|| plural("annotation", "annotations", annotations.len()).to_owned());
    let by: Vec<String> = setters(by_pod, &containers)
        .into_iter()
        .chain(by_annotations)
        .collect();
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let list = quoted(values.iter().map(String::as_str));
    if by.is_empty() {
        None
    } else {
        found(
            reason,
            format!(
                "{} must not set AppArmor profile type to {list}",
                by.join(" and ")
            ),
        )
    }
}

/// Names of the containers that add capabilities outside `allowed`, and these capabilities.
fn adding<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut forbidden = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let added = items(&container["securityContext"]["capabilities"]["add"]).map(text);
        let bad: Vec<&str> = added
            .filter(|capability| !allowed.contains(capability))
            .collect();
        forbidden.extend(bad.iter().copied());
        !bad.is_empty()
    });
    (containers, forbidden)
}

fn must_not_add(containers: &[&str], forbidden: BTreeSet<&str>) -> String {
    format!(
        "{} must not include {} in securityContext.capabilities.add",
        named(containers),
        quoted(forbidden)
    )
}

fn default_capabilities(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    const DEFAULT: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let (containers, forbidden) = adding(pod, &DEFAULT);
    if containers.is_empty() {
        None
    } else {
        found(
            "non-default capabilities",
            must_not_add(&containers, forbidden),
        )
    }
}

fn dropped_capabilities(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    if pod.is_for_windows(minor) {
        return None;
    }
    let drops_all = |container: &Value| {
        items(&container["securityContext"]["capabilities"]["drop"]).any(|drop| drop == "ALL")
    };
    let keeping = pod.containers_that(|container| !drops_all(container));
    let (containers, forbidden) = adding(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            named(&keeping)
        ));
    }
    if !containers.is_empty() {
        details.push(must_not_add(&containers, forbidden));
    }
    if details.is_empty() {
        None
    } else {
        found("unrestricted capabilities", details.join("; "))
    }
}

fn host_namespaces(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| pod.spec[*field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() {
        None
    } else {
        found("host namespaces", shared.join(", "))
    }
}

fn host_path_volumes(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let volumes = items(&pod.spec["volumes"]).filter(|volume| !volume["hostPath"].is_null());
    let volumes: Vec<&str> = volumes.map(|volume| text(&volume["name"])).collect();
    let detail = || {
        format!(
            "{} {}",
            plural("volume", "volumes", volumes.len()),
            quoted(volumes.iter().copied())
        )
    };
    if volumes.is_empty() {
        None
    } else {
        found("hostPath volumes", detail())
    }
}

fn host_ports(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let mut used = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let ports = items(&container["ports"])
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0);
        let ports: Vec<String> = ports.map(|port| port.to_string()).collect();
        let bad = !ports.is_empty();
        used.extend(ports);
        bad
    });
    if containers.is_empty() {
        return None;
    }
    let uses = plural("uses", "use", containers.len());
    let ports = plural("hostPort", "hostPorts", used.len());
    let list = used.into_iter().collect::<Vec<_>>().join(", ");
    found(
        "hostPort",
        format!("{} {uses} {ports} {list}", named(&containers)),
    )
}

fn probe_hosts(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let mut hosts = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let probes =
            ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
        let handlers = ["postStart", "preStop"].map(|handler| &container["lifecycle"][handler]);
        let named = probes
            .into_iter()
            .chain(handlers)
            .flat_map(|handler| ["httpGet", "tcpSocket"].map(|how| &handler[how]["host"]));
        let named: Vec<&str> = named.map(text).filter(|host| !host.is_empty()).collect();
        hosts.extend(named.iter().copied());
        !named.is_empty()
    });
    if containers.is_empty() {
        return None;
    }
    let containers: Vec<&str> = containers
        .into_iter()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let uses = plural("uses", "use", containers.len());
    let noun = plural(
        "probe or lifecycle host",
        "probe or lifecycle hosts",
        hosts.len(),
    );
    found(
        "probe or lifecycle host",
        format!("{} {uses} {noun} {}", named(&containers), quoted(hosts)),
    )
}

fn privileged(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let containers =
        pod.containers_that(|container| container["securityContext"]["privileged"] == true);
    let detail = || {
        format!(
            "{} must not set securityContext.privileged=true",
            named(&containers)
        )
    };
    if containers.is_empty() {
        None
    } else {
        found("privileged", detail())
    }
}

/// User namespaces make an unmasked `/proc` safe at level baseline, but not at restricted.
fn proc_mount_outside_user_namespaces(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    if pod.has_user_namespace(minor) {
        None
    } else {
        proc_mount(pod, minor)
    }
}

fn proc_mount(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let kind = container["securityContext"]["procMount"]
            .as_str()
            .filter(|kind| *kind != "Default");
        kinds.extend(kind);
        kind.is_some()
    });
    let detail = |kinds| {
        format!(
            "{} must not set securityContext.procMount to {}",
            named(&containers),
            quoted(kinds)
        )
    };
    if containers.is_empty() {
        None
    } else {
        found("procMount", detail(kinds))
    }
}

fn se_linux_options(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let mut user = false;
    let mut role = false;
    let mut is_bad = |security: &Value| {
        let options = &security["seLinuxOptions"];
        let kind = text(&options["type"]);
        let good_type = ["", "container_t", "container_init_t", "container_kvm_t"].contains(&kind)
            || minor >= 31 && kind == "container_engine_t";
        if !good_type {
            types.insert(kind.to_owned());
        }
        let [sets_user, sets_role] =
            ["user", "role"].map(|field| !text(&options[field]).is_empty());
        user |= sets_user;
        role |= sets_role;
        !good_type || sets_user || sets_role
    };
    let by_pod = is_bad(pod.security());
    let containers = pod.containers_that(|container| is_bad(&container["securityContext"]));
    let by = setters(by_pod, &containers)?;
    let mut parts = Vec::new();
    if !types.is_empty() {
        parts.push(format!(
            "{} {}",
            plural("type", "types", types.len()),
            quoted(types.iter().map(String::as_str))
        ));
    }
    parts.extend(user.then(|| "user may not be set".to_owned()));
    parts.extend(role.then(|| "role may not be set".to_owned()));
    found(
        "seLinuxOptions",
        format!(
            "{by} set forbidden securityContext.seLinuxOptions: {}",
            parts.join("; ")
        ),
    )
}

fn is_seccomp_profile(profile: &Value) -> bool {
    ["RuntimeDefault", "Localhost"].contains(&text(&profile["type"]))
}

fn seccomp_profile(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut is_bad = |security: &Value| {
        let profile = &security["seccompProfile"];
        let bad = !profile.is_null() && !is_seccomp_profile(profile);
        if bad {
            kinds.insert(text(&profile["type"]).to_owned());
        }
        bad
    };
    let by_pod = is_bad(pod.security());
    let containers = pod.containers_that(|container| is_bad(&container["securityContext"]));
    let by = setters(by_pod, &containers)?;
    let list = quoted(kinds.iter().map(String::as_str));
    found(
        "seccompProfile",
        format!("{by} must not set securityContext.seccompProfile.type to {list}"),
    )
}

/// At level restricted, a missing profile is a violation, too. The pod's profile applies to all
/// containers without their own.
fn required_seccomp_profile(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    if pod.is_for_windows(minor) {
        return None;
    }
    if let Some(violation) = seccomp_profile(pod, minor) {
        return Some(violation);
    }
    if is_seccomp_profile(&pod.security()["seccompProfile"]) {
        return None;
    }
    let without =
        pod.containers_that(|container| container["securityContext"]["seccompProfile"].is_null());
    let detail = || {
        let named = named(&without);
        format!(
            "pod or {named} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        )
    };
    if without.is_empty() {
        None
    } else {
        found("seccompProfile", detail())
    }
}

/// Namespaced kernel parameters that cannot affect other pods, with the first minor version of the
/// standards that allows them.
const SAFE_SYSCTLS: [(&str, u8); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    let is_safe = |name: &str| {
        SAFE_SYSCTLS
            .iter()
            .any(|(safe, since)| *safe == name && *since <= minor)
    };
    let set = items(&pod.security()["sysctls"]).map(|sysctl| text(&sysctl["name"]));
    let unsafe_ones: Vec<&str> = set.filter(|name| !is_safe(name)).collect();
    if unsafe_ones.is_empty() {
        None
    } else {
        found("forbidden sysctls", unsafe_ones.join(", "))
    }
}

fn windows_host_process(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    let is_bad = |security: &Value| security["windowsOptions"]["hostProcess"] == true;
    let containers = pod.containers_that(|container| is_bad(&container["securityContext"]));
    let by = setters(is_bad(pod.security()), &containers)?;
    found(
        "hostProcess",
        format!("{by} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

fn privilege_escalation(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    if pod.is_for_windows(minor) {
        return None;
    }
    let containers = pod.containers_that(|container| {
        container["securityContext"]["allowPrivilegeEscalation"] != false
    });
    let detail = || {
        format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            named(&containers)
        )
    };
    if containers.is_empty() {
        None
    } else {
        found("allowPrivilegeEscalation != false", detail())
    }
}

fn restricted_volumes(pod: &Pod<'_>, _: u8) -> Option<Violation> {
    const GOOD: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let mut kinds = BTreeSet::new();
    let mut volumes = Vec::new();
    for volume in items(&pod.spec["volumes"]) {
        let sources = volume.as_object().into_iter().flatten();
        let mut sources = sources
            .filter(|(field, source)| *field != "name" && !source.is_null())
            .map(|(field, _)| field.as_str());
        if sources.clone().any(|source| GOOD.contains(&source)) {
            continue;
        }
        volumes.push(text(&volume["name"]));
        kinds.insert(sources.next().unwrap_or("unknown"));
    }
    if volumes.is_empty() {
        return None;
    }
    let noun = plural(
        "restricted volume type",
        "restricted volume types",
        kinds.len(),
    );
    let subject = plural("volume", "volumes", volumes.len());
    let uses = plural("uses", "use", volumes.len());
    found(
        "restricted volume types",
        format!(
            "{subject} {} {uses} {noun} {}",
            quoted(volumes),
            quoted(kinds)
        ),
    )
}

/// An explicit `false` is reported first. A missing value is a violation only without a `true` at
/// pod level.
fn run_as_non_root(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_user_namespace(minor) {
        return None;
    }
    let pod_value = &pod.security()["runAsNonRoot"];
    let containers =
        pod.containers_that(|container| container["securityContext"]["runAsNonRoot"] == false);
    if let Some(by) = setters(*pod_value == false, &containers) {
        return found(
            REASON,
            format!("{by} must not set securityContext.runAsNonRoot=false"),
        );
    }
    if *pod_value == true {
        return None;
    }
    let unset =
        pod.containers_that(|container| container["securityContext"]["runAsNonRoot"].is_null());
    let detail = || {
        format!(
            "pod or {} must set securityContext.runAsNonRoot=true",
            named(&unset)
        )
    };
    if unset.is_empty() {
        None
    } else {
        found(REASON, detail())
    }
}

fn run_as_user(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    if pod.has_user_namespace(minor) {
        return None;
    }
    let containers =
        pod.containers_that(|container| container["securityContext"]["runAsUser"] == 0);
    let by = setters(pod.security()["runAsUser"] == 0, &containers)?;
    found("runAsUser=0", format!("{by} must not set runAsUser=0"))
}
