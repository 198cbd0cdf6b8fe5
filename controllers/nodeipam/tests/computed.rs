//! Every case `controller` of `testdata/node-cidrs.json`, on the allocations without requests.
//!
//! Upstream computed the cases. Two of them show faults that are mended here, and have other
//! answers in [`MENDED`].

use prometheus::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_objects::{Node, Object};
use steersman_options::Options;

use crate::nodeipam::allocations::Allocations;
use crate::nodeipam::config::Ranges;
use crate::nodeipam::metrics::IpamMetrics;
use crate::nodeipam::sync::patch_of;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    #[serde(rename = "clusterCIDR")]
    cluster: String,
    #[serde(rename = "serviceClusterIPRange")]
    services: String,
    #[serde(rename = "nodeCIDRMaskSize")]
    mask: Option<i64>,
    #[serde(rename = "nodeCIDRMaskSizeIPv4")]
    mask_v4: Option<i64>,
    #[serde(rename = "nodeCIDRMaskSizeIPv6")]
    mask_v6: Option<i64>,
    #[serde(default)]
    existing_nodes: Vec<Existing>,
    effective_mask_sizes: Option<Vec<u8>>,
    init_error: Option<String>,
    error_stage: Option<String>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Existing {
    name: String,
    #[serde(rename = "podCIDRs", default)]
    cidrs: Vec<String>,
}

#[derive(Deserialize)]
struct Step {
    node: String,
    action: String,
    #[serde(rename = "podCIDRs", default)]
    cidrs: Vec<String>,
    patch: Option<String>,
    error: Option<String>,
}

/// A case, the number of a step from 0, and our answer: blocks or an error.
const MENDED: [(&str, usize, Result<&str, &str>); 3] = [
    // The blocks of the first cluster CIDR are given back.
    (
        "dual-stack: IPv6 exhausted leaks an IPv4 block per attempt",
        4,
        Err(
            "failed to allocate cidr from cluster cidr at idx:1: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range",
        ),
    ),
    // The second of two nodes with one block still has it.
    (
        "two nodes with the same block: both occupied, one delete frees it",
        3,
        Ok("10.0.1.0/24"),
    ),
    (
        "two nodes with the same block: both occupied, one delete frees it",
        4,
        Err(
            "failed to allocate cidr from cluster cidr at idx:0: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range",
        ),
    ),
];

fn node(name: &str, cidrs: &[String]) -> Node {
    let node = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs},
    });
    Node::decode(node.to_string().as_bytes()).unwrap()
}

fn ranges(case: &Case) -> Result<Ranges, String> {
    let mut options = Options::default();
    options.set("allocate-node-cidrs", "true").unwrap();
    options.set("cluster-cidr", &case.cluster).unwrap();
    options
        .set("service-cluster-ip-range", &case.services)
        .unwrap();
    let masks = [
        ("node-cidr-mask-size", case.mask),
        ("node-cidr-mask-size-ipv4", case.mask_v4),
        ("node-cidr-mask-size-ipv6", case.mask_v6),
    ];
    for (flag, mask) in masks {
        options
            .set(flag, &mask.unwrap_or_default().to_string())
            .unwrap();
    }
    Ranges::from_flags(&options)
        .map(Option::unwrap)
        .map_err(|error| error.to_string())
}

fn start(case: &Case) -> Result<Allocations, String> {
    let ranges = ranges(case)?;
    if let Some(masks) = &case.effective_mask_sizes {
        assert_eq!(&ranges.node_masks, masks, "{}", case.name);
    }
    let metrics = IpamMetrics::register(&Registry::new()).unwrap();
    let mut allocations = Allocations::new(&ranges, &metrics);
    let existing = case.existing_nodes.iter();
    let existing: Vec<Node> = existing.map(|e| node(&e.name, &e.cidrs)).collect();
    allocations
        .hold_listed(&existing, 0)
        .map_err(|error| error.to_string())?;
    existing.iter().for_each(|node| allocations.observe(node));
    allocations.forget_listed();
    Ok(allocations)
}

/// A sync of a node that has `cidrs` already, with an accepted PATCH: blocks and body.
fn sync(
    allocations: &mut Allocations,
    name: &str,
    cidrs: &[String],
) -> Result<(Vec<String>, Option<Value>), String> {
    let before = node(name, cidrs);
    allocations.observe(&before);
    if !cidrs.is_empty() {
        let fits = allocations.check(&before);
        return fits
            .map(|()| (cidrs.to_vec(), None))
            .map_err(|error| error.to_string());
    }
    let key = before.key();
    let blocks = allocations.reserve(&key, &before.meta.uid);
    let blocks = blocks.map_err(|e| e.to_string())?;
    let blocks: Vec<String> = blocks.unwrap().iter().map(ToString::to_string).collect();
    allocations.confirmed(&key);
    let after = node(name, &blocks);
    allocations.observe(&after);
    allocations.settled(&key, Some(&after));
    let patch = patch_of(&blocks);
    Ok((blocks, Some(patch)))
}

#[test]
fn every_case_that_upstream_computed() {
    #[derive(Deserialize)]
    struct Data {
        controller: Vec<Case>,
    }
    let data = include_str!("../testdata/node-cidrs.json");
    let Data { controller } = serde_json::from_str(data).unwrap();
    assert_eq!(controller.len(), 40);
    for case in controller {
        let name = &case.name;
        // The options reject three ranges before the controller is built.
        if case.error_stage.as_deref() == Some("options validation") {
            assert_eq!(case.services.split(',').count(), 3, "{name}");
            continue;
        }
        let mut allocations = match (start(&case), &case.init_error) {
            (Err(error), Some(expected)) => {
                assert_eq!(&error, expected, "{name}");
                continue;
            }
            (allocations, _) => allocations.unwrap(),
        };
        let mut known = std::collections::HashMap::new();
        for (at, step) in case.steps.iter().enumerate() {
            let mended = MENDED
                .iter()
                .find(|(of, of_step, _)| of == name && *of_step == at);
            let of_node = known.entry(step.node.clone());
            if step.action == "delete" {
                of_node.insert_entry(Vec::new());
                let before = node(&step.node, &step.cidrs);
                allocations.forget(&before.key());
                let error = allocations.check(&before).err();
                let error = error.map(|error| error.at_release());
                assert_eq!(error, step.error, "{name} {at}");
                continue;
            }
            // A node that is not patched came with its blocks.
            let own = if step.patch.is_none() && !step.cidrs.is_empty() {
                step.cidrs.clone()
            } else {
                of_node.or_default().clone()
            };
            let found = sync(&mut allocations, &step.node, &own);
            let blocks = found.as_ref().map(|(blocks, _)| blocks.clone());
            if let Some((_, _, expected)) = mended {
                let expected = expected.map(|block| vec![block.to_owned()]);
                assert_eq!(blocks.map_err(|e| &**e), expected, "{name} {at}");
            } else if let Some(error) = &step.error {
                assert_eq!(blocks.as_ref().map_err(|e| *e), Err(error), "{name} {at}");
            } else {
                let (blocks, patch) = found.unwrap();
                let expected = step
                    .patch
                    .as_deref()
                    .map(|p| serde_json::from_str(p).unwrap());
                assert_eq!((&blocks, &patch), (&step.cidrs, &expected), "{name} {at}");
                known.insert(step.node.clone(), blocks);
            }
        }
    }
}
