//! Rules of the controllers of networks: blocks of nodes, ranges of Services, Endpoints.

use serde_json::Value;

use super::{is_active, is_ready};
use crate::history::{Change, ChangeKind, State, key_of};
use crate::scenario::Rule;

/// No two nodes have the same range of pod addresses.
pub const OWN_BLOCK: Rule = Rule {
    name: "each node has its own range of pod addresses",
    check: own_block,
};
/// A ServiceCIDR is removed only if no address is left without one. The scenarios use ranges whose
/// texts end in `.0/24`.
pub const COVERED_ADDRESS: Rule = Rule {
    name: "each address of a Service is in a ServiceCIDR",
    check: covered_address,
};
/// A pod that is ready throughout stays in the Endpoints of its Services.
pub const READY_STAYS: Rule = Rule {
    name: "a ready pod stays in the Endpoints of its Service",
    check: ready_stays,
};

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn own_block(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "nodes" || change.kind == ChangeKind::Deleted {
        return Ok(());
    }
    let blocks = |node: &Value| -> Vec<String> {
        texts(&node["spec"]["podCIDRs"])
            .map(str::to_owned)
            .collect()
    };
    let own = blocks(&change.object);
    let others = state
        .all("nodes")
        .filter(|node| key_of(node) != *change.key);
    for other in others {
        if let Some(shared) = blocks(other).iter().find(|block| own.contains(block)) {
            return Err(format!(
                "{} and {} have {shared}",
                change.key,
                key_of(other)
            ));
        }
    }
    Ok(())
}

fn covered_address(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "servicecidrs" || change.kind != ChangeKind::Deleted {
        return Ok(());
    }
    let prefixes: Vec<&str> = state
        .all("servicecidrs")
        .flat_map(|cidr| texts(&cidr["spec"]["cidrs"]))
        .filter_map(|cidr| cidr.strip_suffix("0/24"))
        .collect();
    for address in state.all("ipaddresses").map(key_of) {
        if !prefixes.iter().any(|prefix| address.starts_with(prefix)) {
            return Err(format!("{} is gone, and {address} is left", change.key));
        }
    }
    Ok(())
}

fn ready_stays(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "endpoints" || !change.is_by("endpoint-controller") {
        return Ok(());
    }
    let Some(service) = state.get("services", &change.key) else {
        return Ok(());
    };
    let selects = |pod: &Value| {
        let selector = service["spec"]["selector"].as_object();
        let has =
            |(key, value): (&String, &Value)| pod["metadata"]["labels"].get(key) == Some(value);
        selector.is_some_and(|selector| selector.iter().all(has))
    };
    let before = change.before.as_deref().map(addresses).unwrap_or_default();
    let after = match change.kind {
        ChangeKind::Deleted => Vec::new(),
        _ => addresses(&change.object),
    };
    for gone in before.iter().filter(|address| !after.contains(address)) {
        let pods = state.all("pods");
        let mut with_address = pods.filter(|pod| pod["status"]["podIP"] == **gone);
        let is_endpoint = |pod: &Value| is_active(pod) && is_ready(pod) && selects(pod);
        if with_address.any(|pod| state.recent_versions("pods", pod).all(is_endpoint)) {
            return Err(format!("{} lacks the ready {gone}", change.key));
        }
    }
    Ok(())
}

/// The ready addresses of an Endpoints object.
fn addresses(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let lists = subsets.filter_map(|subset| subset["addresses"].as_array());
    let ip = |address: &Value| address["ip"].as_str().unwrap_or_default().to_owned();
    lists.flatten().map(ip).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object};
    use super::*;

    #[test]
    fn nodes_share_no_block() {
        let node = |name: &str, blocks: &[&str]| {
            let mut node = object(name, json!({ "podCIDRs": blocks }));
            node["metadata"]["namespace"] = json!("");
            node
        };
        let case = |why, blocks: &[&str], kind, breaks| {
            let world = vec![
                ("nodes", node("a", &["10.0.0.0/24", "fd00::/64"])),
                ("nodes", node("b", &[])),
            ];
            (
                why,
                world,
                "node-controller",
                "nodes",
                kind,
                node("b", blocks),
                breaks,
            )
        };
        check(
            OWN_BLOCK,
            [
                case(
                    "another block",
                    &["10.0.1.0/24"],
                    ChangeKind::Updated,
                    false,
                ),
                case(
                    "the same block",
                    &["10.0.0.0/24"],
                    ChangeKind::Updated,
                    true,
                ),
                case(
                    "the same second block",
                    &["10.0.1.0/24", "fd00::/64"],
                    ChangeKind::Updated,
                    true,
                ),
                case("deleted", &["10.0.0.0/24"], ChangeKind::Deleted, false),
            ],
        );
    }
}
