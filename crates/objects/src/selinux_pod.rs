//! The view of a pod for the SELinux warning controller: its volumes and their mounts, and the SELinux
//! options of its containers.
//!
//! It is a view of its own, because no other controller reads these fields, and that controller is
//! off by default. Where it runs, pods are watched twice. Upstream: `k8s.io/api/core/v1`.

use serde::Deserialize;
use serde::de::Deserializer;

use steersman_values::intern::{SharedSlice, Sym};
use steersman_values::resource::PODS;

use super::pod::{PodVolume, shared_volumes};
use crate::view;

view! {
    /// A pod with its SELinux options.
    pub struct SelinuxPod: PODS {
        /// `spec`.
        pub spec: SelinuxPodSpec,
        /// `status`.
        pub status: SelinuxPodStatus,
    }

    /// `spec` of the pod.
    pub struct SelinuxPodSpec {
        /// Volumes that controllers attach.
        pub volumes: AttachableVolumes,
        /// Options for all containers.
        pub security_context: PodSecurityContext,
        /// Init containers.
        pub init_containers: Vec<SelinuxContainer>,
        /// Containers.
        pub containers: Vec<SelinuxContainer>,
        /// Ephemeral containers.
        pub ephemeral_containers: Vec<SelinuxContainer>,
    }

    /// Options for all containers of a pod.
    pub struct PodSecurityContext {
        /// SELinux options.
        #[serde(rename = "seLinuxOptions")]
        pub se_linux_options: Option<SelinuxOptions>,
        /// `MountOption` or `Recursive`.
        #[serde(rename = "seLinuxChangePolicy")]
        pub se_linux_change_policy: Option<Sym>,
    }

    /// A container of the pod.
    pub struct SelinuxContainer {
        /// Its mounts.
        pub volume_mounts: Vec<VolumeMount>,
        /// Its options.
        pub security_context: ContainerSecurityContext,
    }

    /// A mount of a volume.
    pub struct VolumeMount {
        /// Name of the volume.
        pub name: Sym,
    }

    /// Options of a container.
    pub struct ContainerSecurityContext {
        /// SELinux options; they replace those of the pod.
        #[serde(rename = "seLinuxOptions")]
        pub se_linux_options: Option<SelinuxOptions>,
    }

    /// The parts of an SELinux label.
    pub struct SelinuxOptions {
        /// User.
        pub user: Sym,
        /// Role.
        pub role: Sym,
        /// Type.
        #[serde(rename = "type")]
        pub kind: Sym,
        /// Level.
        pub level: Sym,
    }

    /// `status` of the pod.
    pub struct SelinuxPodStatus {
        /// Phase; empty when unset.
        pub phase: Sym,
    }
}

/// The volumes of a pod that controllers attach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachableVolumes(pub SharedSlice<PodVolume>);

impl<'de> Deserialize<'de> for AttachableVolumes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        shared_volumes(deserializer).map(Self)
    }
}

impl SelinuxPod {
    /// Whether all containers have ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }

    /// All containers: init containers, containers, ephemeral containers.
    pub fn containers(&self) -> impl Iterator<Item = &SelinuxContainer> {
        let spec = &self.spec;
        spec.init_containers
            .iter()
            .chain(&spec.containers)
            .chain(&spec.ephemeral_containers)
    }
}
