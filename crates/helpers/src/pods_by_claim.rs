//! Pods by the claims of their volumes.
//!
//! Upstream: `PodPVCIndex` in `pkg/controller/volume/common`.

use std::sync::Arc;

use steersman_objects::{ObjectKey, Pod, PodVolume, VolumeSource};
use steersman_runtime::informer::{Index, IndexKey, Store};

/// Finds the pods that use a claim. Cheap to clone.
#[derive(Clone)]
pub struct PodsByClaim {
    index: Index<Pod>,
}

impl PodsByClaim {
    /// Adds the index to `pods` and reads from it.
    pub fn of(pods: &Store<Pod>) -> Self {
        let is_same = |old: &Pod, new: &Pod| old.volumes.ptr_eq(&new.volumes);
        Self {
            index: pods.add_index_over("pod-pvc-index", is_same, values),
        }
    }

    /// The pods with a volume of the claim `claim`, also for a claim that does not exist yet, sorted
    /// by name.
    pub fn using(&self, claim: &ObjectKey) -> Vec<Arc<Pod>> {
        let mut pods = self.index.get(&claim.to_string());
        pods.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        pods
    }
}

/// The names of the claims of `pod`, in the order of its volumes. The claim of an `ephemeral` volume
/// has the name `<pod>-<volume>`.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = String> {
    pod.volumes
        .iter()
        .filter_map(|volume| claim_of(pod, volume))
}

/// The name of the claim of one volume of `pod`; `None` for a volume without a claim.
pub fn claim_of(pod: &Pod, volume: &PodVolume) -> Option<String> {
    match &volume.source {
        VolumeSource::Claim(name) => Some(name.to_string()),
        VolumeSource::Ephemeral(_) => Some(format!("{}-{}", pod.meta.name, volume.name)),
        VolumeSource::InlineCsi(_) | VolumeSource::Inline { .. } => None,
    }
}

fn values(pod: &Pod) -> Vec<IndexKey> {
    let namespace = &pod.meta.namespace;
    claims_of(pod)
        .map(|claim| IndexKey::new(&format!("{namespace}/{claim}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::Object;

    use super::*;

    #[test]
    fn pods_are_found_by_claims_and_ephemeral_volumes() {
        let pod = |name: &str, volume: serde_json::Value| {
            let pod = json!({
                "metadata": {"name": name, "namespace": "n"},
                "spec": {"volumes": [volume, {"name": "cfg", "configMap": {"name": "x"}}]},
            });
            Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap())
        };
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
        let scratch = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}});
        let pods = [
            pod("b", claim.clone()),
            pod("a", claim),
            pod("web", scratch),
        ];
        let index = PodsByClaim::of(&pods.into_iter().collect());
        let names = |claim: &str| -> Vec<String> {
            let found = index.using(&ObjectKey::new("n", claim));
            found.iter().map(|pod| pod.meta.name.to_string()).collect()
        };
        assert_eq!(names("data"), ["a", "b"]);
        assert_eq!(names("web-scratch"), ["web"]);
        assert_eq!(names("x"), [""; 0]);
    }
}
