//! The words of Events and errors, as upstream has them.
//!
//! Upstream: `GenerateMsg` in `operation_executor.go`, and `reportMultiAttachError` in
//! `reconciler.go`.

use steersman_helpers::volume::CsiVolume;

use super::desired::PodRef;
use super::operations::Kind;

/// An attachment succeeded. Upstream's message ends with a blank.
///
/// It stays, because tools may compare messages.
pub(super) fn attached(volume: &str) -> String {
    format!("AttachVolume.Attach succeeded for volume {volume:?} ")
}

/// An attachment failed.
///
/// Upstream: `GenerateError`. The blank before the colon is upstream's.
pub(super) fn failed(volume: &str, why: &str) -> String {
    format!("AttachVolume.Attach failed for volume {volume:?} : {why}")
}

/// The attacher gave no answer in time.
///
/// Upstream: `waitForVolumeAttachDetachStatusWithLister`. Its detacher gets only the name of the
/// volume, so the driver is unknown there.
pub(super) fn timed_out(kind: Kind, volume: &CsiVolume) -> String {
    let (driver, verb) = match kind {
        Kind::Attach => (volume.driver.as_str(), "attach"),
        Kind::Detach => ("unknown", "detach"),
    };
    let handle = &volume.handle;
    format!(
        "timed out waiting for external-attacher of {driver} CSI driver to {verb} volume {handle}"
    )
}

/// Other nodes have a volume that only one node may have. `using` are the pods that want it there.
/// Names of pods in other namespaces stay secret.
///
/// Without such pods, they are gone already, and the volume has yet to leave their node. The message
/// has one text per pod, because each sees the names of its own namespace only.
pub(super) fn multi_attach(volume: &str, pod: &PodRef, using: &[&PodRef]) -> String {
    let prefix = format!("Multi-Attach error for volume {volume:?} Volume is already");
    if using.is_empty() {
        return format!(
            "{prefix} exclusively attached to one node and can't be attached to another"
        );
    }
    let is_near = |other: &&&PodRef| other.key.namespace == pod.key.namespace;
    let near: Vec<&str> = using
        .iter()
        .filter(is_near)
        .map(|pod| &*pod.key.name)
        .collect();
    let far = using.len() - near.len();
    let used = format!("{prefix} used by");
    match (&near[..], far) {
        ([], far) => format!("{used} {far} pod(s) in different namespaces"),
        (near, 0) => format!("{used} pod(s) {}", near.join(", ")),
        (near, far) => {
            let near = near.join(", ");
            format!("{used} pod(s) {near} and {far} pod(s) in different namespaces")
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::{ObjectKey, Uid};

    use super::*;

    /// Upstream's `Test_ReportMultiAttachError`.
    #[test]
    fn pods_learn_of_the_pods_of_other_nodes() {
        let pod = |(namespace, name): (&str, &str)| PodRef {
            key: ObjectKey::new(namespace, name),
            uid: Uid::new(name),
            resource_version: 1,
        };
        let waiting = pod(("ns1", "pod-1"));
        // (pods of other nodes, message)
        let cases: [(&[(&str, &str)], &str); 4] = [
            (
                &[],
                "exclusively attached to one node and can't be attached to another",
            ),
            (&[("ns1", "pod-2")], "used by pod(s) pod-2"),
            (
                &[("ns1", "pod-2"), ("ns2", "pod-3")],
                "used by pod(s) pod-2 and 1 pod(s) in different namespaces",
            ),
            (
                &[("ns2", "pod-3"), ("ns3", "pod-4")],
                "used by 2 pod(s) in different namespaces",
            ),
        ];
        for (using, expected) in cases {
            let using: Vec<PodRef> = using.iter().copied().map(pod).collect();
            let using: Vec<&PodRef> = using.iter().collect();
            let found = multi_attach("volume-name", &waiting, &using);
            let prefix = "Multi-Attach error for volume \"volume-name\" Volume is already";
            assert_eq!(found, format!("{prefix} {expected}"));
        }
    }
}
