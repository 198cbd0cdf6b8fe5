//! SELinux labels: the label of a mount, and conflicts of two labels.
//!
//! Upstream: `translator` of the controller, and `GetMountSELinuxLabel` in `pkg/volume/util`.
//!
//! No node is asked for its defaults, and all nodes count as enabled for SELinux: a manager may run on
//! another distribution than its nodes. Upstream says so about `ControllerSELinuxTranslator`.

use std::collections::BTreeSet;

use steersman_objects::{SelinuxOptions, SelinuxPod};

/// The effect of the pod's labels on one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    /// `user:role:type:level`; empty for a volume that is not mounted with a label.
    ///
    /// The text is no valid label if a part is missing. It only serves comparisons and messages.
    pub(super) label: String,
    /// `MountOption` or `Recursive`.
    ///
    /// The effective one: `Recursive` if no label goes into the mount.
    pub(super) policy: String,
}

/// Containers of one pod mount a volume with different labels.
///
/// Upstream: `MultipleSELinuxLabelsError`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("multiple SELinux labels found for one volume")]
pub(super) struct SeveralLabels;

/// The policy of a volume whose files are labelled one by one.
const RECURSIVE: &str = "Recursive";

/// The names of the volumes that containers of the pod mount, sorted. Block devices do not count.
///
/// Upstream: `GetPodVolumeNames`. A volume that no container mounts gets no label.
pub(super) fn mounted(pod: &SelinuxPod) -> BTreeSet<&str> {
    let mounts = pod
        .containers()
        .flat_map(|container| &container.volume_mounts);
    mounts.map(|mount| mount.name.as_str()).collect()
}

/// The use of the volume `name` by a pod. `is_supported` tells whether the plugin of the volume
/// mounts with a label.
///
/// Upstream: `GetMountSELinuxLabel` and the policy in `syncVolume`. The check for several labels comes
/// first, and also covers volumes that are never mounted with a label.
pub(super) fn of_volume(
    pod: &SelinuxPod,
    name: &str,
    is_supported: bool,
) -> Result<Use, SeveralLabels> {
    let context = &pod.spec.security_context;
    let mounts_it = pod.containers().filter(|container| {
        container
            .volume_mounts
            .iter()
            .any(|mount| mount.name == *name)
    });
    // The options of a container replace those of its pod as a whole. A container without either is
    // left out, since the runtime chooses its label.
    let labels = mounts_it.filter_map(|container| {
        let own = container.security_context.se_linux_options.as_ref();
        own.or(context.se_linux_options.as_ref()).map(label)
    });
    let mut labels: BTreeSet<String> = labels.collect();
    let label = labels.pop_first().unwrap_or_default();
    if !labels.is_empty() {
        return Err(SeveralLabels);
    }
    let policy = context.se_linux_change_policy.as_deref();
    let policy = policy.unwrap_or("MountOption");
    let label = if is_supported && policy != RECURSIVE {
        label
    } else {
        String::new()
    };
    // An empty label cannot go into the mount, so the runtime would label each file.
    let policy = if is_supported && !label.is_empty() {
        policy
    } else {
        RECURSIVE
    };
    Ok(Use {
        policy: policy.to_owned(),
        label,
    })
}

/// The label of these options. Options without a part are no label.
///
/// Upstream: `SELinuxOptionsToFileLabel`.
fn label(options: &SelinuxOptions) -> String {
    let SelinuxOptions {
        user,
        role,
        kind,
        level,
    } = options;
    match format!("{user}:{role}:{kind}:{level}") {
        empty if empty == ":::" => String::new(),
        label => label,
    }
}

/// Whether two pods with these labels cannot use one volume on one node. The container runtime
/// replaces an empty user, role or type, so it fits all others; an empty level does not.
///
/// Upstream: `ConflictsParsed`. So `:::s0:c1` fits `user:role:type:s0:c1`, but conflicts with an empty
/// label.
pub(super) fn conflict(one: &str, other: &str) -> bool {
    let one = parts(one);
    let other = parts(other);
    let differ = |index: usize| {
        let one = one[index];
        let other = other[index];
        one != other && (index == 3 || (!one.is_empty() && !other.is_empty()))
    };
    (0..4).any(differ)
}

/// User, role, type and level. The level may have colons itself. Upstream: `ParseSELinuxLabel`.
fn parts(label: &str) -> [&str; 4] {
    let mut parts = label.splitn(4, ':');
    [(); 4].map(|()| parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    /// Upstream's `TestLabelsConflict` and `TestOptionsToFileLabel`.
    #[test]
    fn labels_conflict_by_their_parts() {
        let cases = [
            ("", "", false),
            (
                "system_u:system_r:container_t:s0:c1,c2",
                "system_u:system_r:container_t:s0:c1,c2",
                false,
            ),
            (
                "system_u:system_r:container_t:s0:c1,c2",
                "system_u:system_r:container_t:s0:c98,c99",
                true,
            ),
            (
                ":::s0:c1,c2",
                "system_u:system_r:container_t:s0:c1,c2",
                false,
            ),
            (":::s0:c1,c2", ":::s0:c98,c99", true),
            ("a_u:::s0", "b_u:::s0", true),
            (":a_r::s0", ":b_r::s0", true),
            ("::a_t:s0", "::b_t:s0", true),
            ("::a_t:s0", ":::s0", false),
            (":::s0", "", true),
            ("", "::container_t:", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(conflict(one, other), expected, "{one:?} {other:?}");
            assert_eq!(conflict(other, one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn the_label_of_a_mount_is_that_of_its_containers() {
        let level = |level: &str| json!({"seLinuxOptions": {"level": level}});
        let mounts = json!([{"name": "v"}]);
        let container =
            |context: Value| json!({"volumeMounts": mounts, "securityContext": context});
        let policy = json!({"seLinuxOptions": {"level": "s0"}, "seLinuxChangePolicy": "Recursive"});
        let unused = json!({"securityContext": level("s9")});
        // (pod's context, containers, supported, label and policy)
        let cases = [
            (
                json!(null),
                vec![container(json!(null))],
                true,
                Some(("", "Recursive")),
            ),
            (
                level("s0"),
                vec![container(json!(null))],
                true,
                Some((":::s0", "MountOption")),
            ),
            (
                level("s0"),
                vec![container(level("s1"))],
                true,
                Some((":::s1", "MountOption")),
            ),
            (
                level("s0"),
                vec![container(json!(null)), unused],
                true,
                Some((":::s0", "MountOption")),
            ),
            (
                json!(null),
                vec![container(level("s0")), container(level("s1"))],
                true,
                None,
            ),
            (
                json!(null),
                vec![container(level("s0")), container(json!(null))],
                true,
                Some((":::s0", "MountOption")),
            ),
            (
                policy,
                vec![container(json!(null))],
                true,
                Some(("", "Recursive")),
            ),
            (
                level("s0"),
                vec![container(json!(null))],
                false,
                Some(("", "Recursive")),
            ),
        ];
        for (context, containers, is_supported, expected) in cases {
            let spec = json!({"securityContext": context, "containers": containers});
            let pod = json!({"metadata": {"name": "p"}, "spec": spec});
            let pod = SelinuxPod::decode(pod.to_string().as_bytes()).unwrap();
            let found = of_volume(&pod, "v", is_supported).ok();
            let expected = expected.map(|(label, policy)| Use {
                label: label.to_owned(),
                policy: policy.to_owned(),
            });
            assert_eq!(found, expected, "{spec}");
            assert_eq!(mounted(&pod).into_iter().collect::<Vec<_>>(), ["v"]);
        }
    }
}
