//! Admission of resizes: LimitRanges, and the plugins NodeDeclaredFeatureValidator and PodResizeValidator.
//!
//! A bound pod is resized only by a Linux node that declares the features of the change, and only within the
//! node's allocatable amounts. Upstream: `plugin/pkg/admission/nodedeclaredfeatures` and
//! `plugin/pkg/admission/podresize`.

use serde::Deserialize;
use serde_json::Value;
use steersman_helpers::scheduling::amounts::{Amounts, requests};
use steersman_objects::{PodSpec, ResourceList};

use crate::Server;
use crate::route::Target;
use crate::status::Status;

/// The feature of nodes that resize pods as a whole.
const POD_LEVEL: &str = "InPlacePodLevelResourcesVerticalScaling";
/// The feature of nodes that resize init containers.
const INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";

impl Server {
    /// Runs the validating plugins on a resize. 403 if one of them refuses.
    pub(crate) fn permit_resize(
        &self,
        target: &Target,
        pod: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        self.permit_by_limits(target, pod)?;
        let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if name.is_empty() || pod["spec"] == old["spec"] {
            return Ok(());
        }
        let refused = |why: &str| Status::forbidden(target.resource().named(), &target.name, why);
        let nodes = self
            .registry
            .find("", "v1", "nodes")
            .expect("nodes are built in");
        let missing = || refused(&format!("node {name:?} not found"));
        let node = nodes.store.get(name).ok_or_else(missing)?.to_value();
        let lacking = lacking_features(pod, old, &node);
        if !lacking.is_empty() {
            return Err(refused(&format!(
                "pod update requires features {} which are not available on node {name:?}",
                lacking.join(", ")
            )));
        }
        let system = node["metadata"]["labels"]["kubernetes.io/os"].as_str();
        if let Some(other) = system.filter(|system| *system != "linux") {
            let why =
                format!("pod resize is only supported on linux nodes, node {name:?} is {other:?}");
            return Err(refused(&why).caused_by("UnsupportedPlatform"));
        }
        match shortage(pod, &node) {
            Some(why) => Err(refused(&why).caused_by("NodeCapacity")),
            None => Ok(()),
        }
    }
}

/// The features that the change needs and the node does not declare.
fn lacking_features(pod: &Value, old: &Value, node: &Value) -> Vec<&'static str> {
    let spec = &pod["spec"];
    let before = &old["spec"];
    let inits = |spec: &Value| {
        spec["initContainers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let is_other_init = |(now, before): (Value, Value)| {
        before["restartPolicy"] != "Always" && now["resources"] != before["resources"]
    };
    let needs_init = || {
        inits(spec)
            .into_iter()
            .zip(inits(before))
            .any(is_other_init)
    };
    let needed = [
        (POD_LEVEL, spec["resources"] != before["resources"]),
        (INIT_CONTAINERS, needs_init()),
    ];
    let declared = node["status"]["declaredFeatures"].as_array();
    let is_declared = |name: &str| declared.is_some_and(|all| all.iter().any(|one| one == name));
    needed
        .into_iter()
        .filter(|(name, is_needed)| *is_needed && !is_declared(name))
        .map(|(name, _)| name)
        .collect()
}

/// The amounts of the pod that exceed those of the whole node.
fn shortage(pod: &Value, node: &Value) -> Option<String> {
    // Objects that passed validation have these types.
    let spec = PodSpec::deserialize(&pod["spec"]).unwrap_or_default();
    let allocatable = ResourceList::deserialize(&node["status"]["allocatable"]).unwrap_or_default();
    let wanted = requests(&spec);
    let had = Amounts::of(&allocatable);
    // Amounts are thousandths; memory is shown in bytes.
    let excess = [("cpu", 1), ("memory", 1000)].map(|(name, unit)| {
        let of = |amounts: &Amounts| amounts.get(name).unwrap_or_default() / unit;
        let wanted = of(&wanted);
        let had = of(&had);
        (wanted > had).then(|| format!("{name}, requested: {wanted}, allocatable: {had}"))
    });
    let excess: Vec<String> = excess.into_iter().flatten().collect();
    (!excess.is_empty()).then(|| {
        format!(
            "node didn't have enough allocatable resources: {}",
            excess.join("; ")
        )
    })
}
