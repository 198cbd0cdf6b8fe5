//! The claims of a pod without a volume, and the class that gives them none. The message of the scheduler names neither.
//!
//! Upstream: the plugin `volumebinding` of kube-scheduler.

use serde_json::Value;
use steersman_objects::Node;
use steersman_objects::scheduling::NodeSelector;
use steersman_values::resource::{
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, ResourceType, STORAGE_CLASSES,
};

use crate::demand::{Demand, claim_names, terms};
use crate::site::Site;
use crate::{Doc, World, count};

/// The provisioner of a class whose volumes people make. Upstream: `NotSupportedProvisioner`.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The demands of the unbound claims of `pod`.
pub(crate) fn demands(world: &World, pod: &Doc, site: Option<&Site<'_>>) -> Vec<Demand> {
    let claims = claim_names(pod).into_iter();
    let unbound = claims.filter_map(|name| {
        let of: &ResourceType = &PERSISTENT_VOLUME_CLAIMS;
        let claim = world.get(of, pod.namespace(), &name).found()?;
        claim.text("/spec/volumeName").is_empty().then_some(claim)
    });
    unbound
        .filter_map(|claim| demand(world, &claim, site))
        .collect()
}

fn demand(world: &World, claim: &Doc, site: Option<&Site<'_>>) -> Option<Demand> {
    let name = claim.text("/spec/storageClassName");
    let class = world.get(&STORAGE_CLASSES, "", name).found()?;
    let claim = claim.name();
    if class.text("/provisioner") == NO_PROVISIONER {
        let volumes = world.list(&PERSISTENT_VOLUMES, "")?.iter();
        let free = volumes.filter(|volume| {
            let is_free = volume.text("/status/phase") == "Available";
            is_free && volume.text("/spec/storageClassName") == name
        });
        let free = free.count();
        return Some(Demand {
            text: format!(
                "class {name} of claim {claim} has no provisioner, and of its {} none fits",
                count(free, "available PersistentVolume")
            ),
            who: format!("creator of PersistentVolumes of class {name}, or owner of claim {claim}"),
        });
    }
    let allowed = class.at("/allowedTopologies").and_then(Value::as_array)?;
    let required = selector(allowed);
    let nodes = site?.nodes;
    let selector: NodeSelector = serde_json::from_value(required.clone()).ok()?;
    let reaches = |node: &Doc| {
        let view = node.view::<Node>();
        view.is_some_and(|view| selector.matches(&view))
    };
    if nodes.iter().any(reaches) {
        return None;
    }
    Some(Demand {
        text: format!(
            "class {name} of claim {claim} makes volumes for nodes with {} (allowedTopologies), which no node has",
            terms(&required)
        ),
        who: format!(
            "owner of StorageClass {name} (allowedTopologies), or administrator of the nodes (their labels)"
        ),
    })
}

/// The terms of `allowedTopologies` as a required node affinity.
fn selector(allowed: &[Value]) -> Value {
    let expression = |one: &Value| serde_json::json!({"key": one["key"], "operator": "In", "values": one["values"]});
    let term = |term: &Value| {
        let all = term["matchLabelExpressions"].as_array();
        let all: Vec<Value> = all.into_iter().flatten().map(expression).collect();
        serde_json::json!({"matchExpressions": all})
    };
    let terms: Vec<Value> = allowed.iter().map(term).collect();
    serde_json::json!({"nodeSelectorTerms": terms})
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::NODES;

    use super::*;
    use crate::{Explanation, Loaded, Need};

    fn told(class: Value, zone: &str) -> Vec<String> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let one = |of: &ResourceType, namespace: &str, name: &str| Need::Object {
            of: of.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let all = |of: &ResourceType| Need::List {
            of: of.clone(),
            namespace: String::new(),
            fields: String::new(),
        };
        let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "zonal"}});
        let node = json!({"metadata": {"name": "n", "labels": {"zone": zone}}});
        let volume =
            json!({"spec": {"storageClassName": "zonal"}, "status": {"phase": "Available"}});
        let loads = [
            (one(&PERSISTENT_VOLUME_CLAIMS, "shop", "data"), claim),
            (one(&STORAGE_CLASSES, "", "zonal"), class),
            (all(&NODES), node),
            (all(&PERSISTENT_VOLUMES), volume),
        ];
        for (need, value) in loads {
            world.load(need, Loaded::Objects(vec![Doc::new(value)]));
        }
        let pod = Doc::new(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]},
        }));
        let site = Site::of(&world, &pod);
        let demands = demands(&world, &pod, site.as_ref()).into_iter();
        demands.map(|demand| demand.text).collect()
    }

    #[test]
    fn the_class_of_an_unbound_claim_tells_why_no_node_fits() {
        let zonal = json!({
            "provisioner": "ebs.example.com",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
        });
        assert_eq!(
            told(zonal.clone(), "c"),
            [
                "class zonal of claim data makes volumes for nodes with zone in (a,b) (allowedTopologies), which no node has"
            ]
        );
        assert!(told(zonal, "a").is_empty());
        let local = json!({"provisioner": NO_PROVISIONER});
        assert_eq!(
            told(local, "a"),
            [
                "class zonal of claim data has no provisioner, and of its 1 available PersistentVolume none fits"
            ]
        );
    }
}
