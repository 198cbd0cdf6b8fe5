//! Admission of resizes: LimitRanges, and the plugins NodeDeclaredFeatureValidator and PodResizeValidator.
//!
//! A bound pod is resized only by a Linux node that declares the features of the change, and only within the
//! node's allocatable amounts. Before 1.36 the kubelet alone decides. Upstream:
//! `plugin/pkg/admission/nodedeclaredfeatures` and `plugin/pkg/admission/podresize`.

use serde::Deserialize;
use serde_json::Value;
use steersman_helpers::scheduling::amounts::{Amounts, requests};
use steersman_objects::{PodSpec, ResourceList};
use steersman_releases::Release;

use super::is_terminating;
use crate::Server;
use crate::route::Target;
use crate::status::Status;

/// The feature of nodes that resize pods as a whole.
const POD_LEVEL: &str = "InPlacePodLevelResourcesVerticalScaling";
/// The feature of nodes that resize init containers.
const INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";

/// The first release with PodResizeValidator. Kubelets before it report that a resize is infeasible.
const VALIDATED_SINCE: Release = Release::of_minor(36);

impl Server {
    /// 403 for a resize that violates a LimitRange.
    pub(crate) fn permit_resize(
        &self,
        target: &Target,
        pod: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        if is_terminating(old) {
            return Ok(());
        }
        self.permit_by_limits(target, pod)
    }

    /// Runs the plugins that ask the node of a pod about a change of the spec. 403 if one of them refuses.
    pub(crate) fn permit_on_node(
        &self,
        target: &Target,
        pod: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        let part = target.subresource.map(|part| part.name);
        let is_resize = part == Some("resize");
        let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if name.is_empty() || part.is_some() && !is_resize {
            return Ok(());
        }
        let refused = |why: &str| Status::forbidden(target.resource().named(), &target.name, why);
        let checked = self.check_features(name, pod, old);
        checked.map_err(|why| refused(&why))?;
        if !is_resize || self.release() < VALIDATED_SINCE {
            return Ok(());
        }
        let node = self.node(name).map_err(|why| refused(&why))?;
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

    /// Checks that the node of a pod declares the features of the change.
    fn check_features(&self, name: &str, pod: &Value, old: &Value) -> Result<(), String> {
        let needed = needed_features(pod, old);
        if needed.is_empty() || !self.release().enables("NodeDeclaredFeatures") {
            return Ok(());
        }
        let node = self.node(name)?;
        let declared = node["status"]["declaredFeatures"].as_array();
        let is_declared =
            |name: &&str| declared.is_some_and(|all| all.iter().any(|one| one == name));
        let lacking: Vec<&str> = needed
            .into_iter()
            .filter(|name| !is_declared(name))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        Err(format!(
            "pod update requires features {} which are not available on node {name:?}",
            lacking.join(", ")
        ))
    }

    fn node(&self, name: &str) -> Result<Value, String> {
        let node = self.find_object("nodes", name);
        let node = node.ok_or_else(|| format!("node {name:?} not found"))?;
        Ok(node.to_value())
    }
}

/// The features that the change needs, sorted.
fn needed_features(pod: &Value, old: &Value) -> Vec<&'static str> {
    let spec = &pod["spec"];
    let before = &old["spec"];
    let inits = |spec: &'_ Value| -> Vec<Value> {
        let inits = spec["initContainers"].as_array();
        inits.cloned().unwrap_or_default()
    };
    let is_other_init = |(now, before): (Value, Value)| {
        before["restartPolicy"] != "Always" && now["resources"] != before["resources"]
    };
    let needs_init = inits(spec)
        .into_iter()
        .zip(inits(before))
        .any(is_other_init);
    let needed = [
        (POD_LEVEL, spec["resources"] != before["resources"]),
        (INIT_CONTAINERS, needs_init),
    ];
    let needed = needed.into_iter().filter(|(_, is_needed)| *is_needed);
    needed.map(|(name, _)| name).collect()
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
