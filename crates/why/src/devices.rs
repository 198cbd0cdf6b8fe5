//! The devices that a pod asks for by its resource claims. The message of the scheduler names neither claim nor driver.
//!
//! Upstream: the plugin `dynamicresources` of kube-scheduler.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_values::resource::{DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES};

use crate::demand::{Demand, listed};
use crate::{Doc, World, count, existing};

/// The demands of the claims of `pod`, if the scheduler's `message` is about them.
pub(crate) fn demands(world: &World, pod: &Doc, message: &str) -> Vec<Demand> {
    let words = ["device class", "cannot allocate", "resourceclaim"];
    if !words.iter().any(|words| message.contains(words)) {
        return Vec::new();
    }
    let names = claim_names(pod).into_iter();
    let claims = names.filter_map(|name| {
        let found = world.get(&RESOURCE_CLAIMS, pod.namespace(), &name);
        found
            .found()
            .filter(|claim| claim.at("/status/allocation").is_none())
    });
    claims.flat_map(|claim| of_claim(world, &claim)).collect()
}

/// The names of the claims of `pod`, with those that a controller made from a template.
fn claim_names(pod: &Doc) -> Vec<String> {
    let made = pod.items("/status/resourceClaimStatuses");
    let all = pod.items("/spec/resourceClaims").iter();
    let names = all.filter_map(|one| {
        let made = made.iter().find(|status| status["name"] == one["name"]);
        let made = made.and_then(|status| status["resourceClaimName"].as_str());
        made.or(one["resourceClaimName"].as_str())
    });
    names.map(str::to_owned).collect()
}

fn of_claim(world: &World, claim: &Doc) -> Vec<Demand> {
    let requests = claim.items("/spec/devices/requests").iter();
    let classes = requests.filter_map(|request| request["exactly"]["deviceClassName"].as_str());
    classes
        .filter_map(|class| of_class(world, claim, class))
        .collect()
}

fn of_class(world: &World, claim: &Doc, class: &str) -> Option<Demand> {
    let claim = claim.name();
    let found = world.get(&DEVICE_CLASSES, "", class);
    if found.is_absent() {
        let others = world.list(&DEVICE_CLASSES, "").unwrap_or_default();
        return Some(Demand {
            text: format!(
                "resource claim {claim} asks for DeviceClass {class}, which does not exist ({})",
                existing(others.iter().map(Doc::name))
            ),
            who: format!(
                "creator of DeviceClass {class}, such as the installer of its driver; or owner of the claim or its template"
            ),
        });
    }
    let found = found.found()?;
    let selectors = found.items("/spec/selectors").iter();
    let driver = selectors.filter_map(driver).next()?;
    let slices = world.list(&RESOURCE_SLICES, "")?.iter();
    let slices: Vec<&Doc> = slices
        .filter(|slice| slice.text("/spec/driver") == driver)
        .collect();
    let devices: usize = slices
        .iter()
        .map(|slice| slice.items("/spec/devices").len())
        .sum();
    let asks = format!("resource claim {claim} asks for a device of class {class}");
    if devices == 0 {
        return Some(Demand {
            text: format!("{asks}, and no ResourceSlice has a device of its driver {driver}"),
            who: format!(
                "operator of the driver {driver} (its DaemonSet), or administrator of the nodes"
            ),
        });
    }
    let nodes: BTreeSet<&str> = slices
        .iter()
        .map(|slice| slice.text("/spec/nodeName"))
        .filter(|node| !node.is_empty())
        .collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    Some(Demand {
        text: format!(
            "{asks}; its driver {driver} has {}{}, and none is free and fits",
            count(devices, "device"),
            if nodes.is_empty() {
                String::new()
            } else {
                format!(" on {}", listed(&nodes))
            }
        ),
        who: "owner of the claim or its template (fewer devices, other selectors), owners of other claims, or \
              administrator of the nodes (more devices)"
            .to_owned(),
    })
}

/// The driver in the CEL expression `device.driver == 'gpu.example.com'`.
fn driver(selector: &Value) -> Option<&str> {
    let expression = selector["cel"]["expression"].as_str()?;
    let (_, rest) = expression.split_once("device.driver")?;
    let rest = rest.trim_start().strip_prefix("==")?;
    rest.split(['"', '\'']).nth(1)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::{Explanation, Loaded, Need};

    fn told(class: Option<Value>, slices: Vec<Value>) -> String {
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
        let claim = json!({"metadata": {"name": "infer-gpu-x"}, "spec": {"devices": {"requests":
            [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}});
        let claim = Loaded::Objects(vec![Doc::new(claim)]);
        world.load(one(&RESOURCE_CLAIMS, "shop", "infer-gpu-x"), claim);
        let class = class.map(|class| Loaded::Objects(vec![Doc::new(class)]));
        world.load(
            one(&DEVICE_CLASSES, "", "gpu"),
            class.unwrap_or(Loaded::Absent),
        );
        world.load(all(&DEVICE_CLASSES), Loaded::Objects(Vec::new()));
        let slices = slices.into_iter().map(Doc::new).collect();
        world.load(all(&RESOURCE_SLICES), Loaded::Objects(slices));
        let pod = Doc::new(json!({
            "metadata": {"namespace": "shop", "name": "infer"},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
            "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "infer-gpu-x"}]},
        }));
        let demands = demands(&world, &pod, "cannot allocate all claims").into_iter();
        demands
            .map(|demand| demand.text)
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn the_missing_class_driver_or_device_of_a_claim_is_told() {
        assert!(
            told(None, Vec::new())
                .ends_with("DeviceClass gpu, which does not exist (there is none)")
        );
        let class = json!({"spec": {"selectors": [{"cel": {"expression": "device.driver == \"gpu.acme.io\""}}]}});
        assert!(
            told(Some(class.clone()), Vec::new())
                .ends_with("no ResourceSlice has a device of its driver gpu.acme.io")
        );
        let slice = |driver: &str| json!({"spec": {"driver": driver, "nodeName": "n1", "devices": [{"name": "a"}, {"name": "b"}]}});
        assert!(
            told(
                Some(class),
                vec![slice("gpu.acme.io"), slice("other.acme.io")]
            )
            .ends_with("its driver gpu.acme.io has 2 devices on n1, and none is free and fits")
        );
    }
}
