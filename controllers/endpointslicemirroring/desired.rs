//! The endpoints of the slices that mirror an Endpoints object.
//!
//! The subsets are brought into their canonical form first. Each subset gives two groups, one per
//! address type. Subsets with equal ports share their groups.
//!
//! Upstream: `desiredCalc` and `addressToEndpoint` of `pkg/controller/endpointslicemirroring`.

use std::collections::HashMap;

use steersman_helpers::endpointslice::{AddressType, PortOrder, Ports, addresses, repack};
use steersman_objects::{
    Addresses, Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlicePort,
    EndpointSubset,
};

/// The endpoints with one address type and equal ports. May be empty. An empty group deletes the
/// slices of its ports and type.
pub(super) struct Group {
    pub(super) family: AddressType,
    pub(super) ports: Ports,
    pub(super) endpoints: Vec<Endpoint>,
}

/// The desired groups, and the numbers of addresses that they lack. The Events and one metric tell
/// both numbers to users.
#[derive(Default)]
pub(super) struct Desired {
    pub(super) groups: Vec<Group>,
    /// Texts that are no addresses.
    pub(super) invalid: usize,
    /// Addresses beyond the maximum of a subset, and invalid ones.
    pub(super) skipped: usize,
}

/// The endpoints for `subsets`, at most `max` of each subset. Ready addresses come first.
///
/// The maximum counts both address types together, and invalid addresses do not count. Upstream:
/// the first half of `reconcile`.
pub(super) fn desired(subsets: &[EndpointSubset], max: usize, order: PortOrder) -> Desired {
    let mut desired = Desired::default();
    let mut positions = HashMap::new();
    for subset in repack(subsets, order) {
        let ports = Ports::new(subset.ports.iter().map(port).collect(), order);
        // Both groups exist even if a subset has one family. The empty one deletes slices of the
        // other family.
        let [v4, v6] = [AddressType::IPv4, AddressType::IPv6].map(|family| {
            *positions.entry((family, ports.clone())).or_insert_with(|| {
                desired.groups.push(Group {
                    family,
                    ports: ports.clone(),
                    endpoints: Vec::new(),
                });
                desired.groups.len() - 1
            })
        });
        let total = subset.addresses.len() + subset.not_ready_addresses.len();
        let mut added = 0;
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .into_iter()
            .map(|address| (address, false));
        for (address, is_ready) in ready.chain(not_ready) {
            if added >= max {
                break;
            }
            match endpoint(address, is_ready) {
                Some((AddressType::IPv4, endpoint)) => desired.groups[v4].endpoints.push(endpoint),
                Some((AddressType::IPv6, endpoint)) => desired.groups[v6].endpoints.push(endpoint),
                None => {
                    desired.invalid += 1;
                    continue;
                }
            }
            added += 1;
        }
        // As upstream: invalid addresses count as skipped, too.
        desired.skipped += total - added;
    }
    desired
}

/// Upstream: `epPortsToEpsPorts`.
fn port(port: &EndpointPort) -> EndpointSlicePort {
    EndpointSlicePort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// The endpoint for `address`; `None` if its text is no address. Upstream: `addressToEndpoint`.
fn endpoint(address: EndpointAddress, is_ready: bool) -> Option<(AddressType, Endpoint)> {
    let ip = addresses::parse(&address.ip)?;
    // The text is written in its usual form, since users may write leading zeros. `serving`,
    // `terminating` and `zone` stay unset, because Endpoints do not tell them.
    let endpoint = Endpoint {
        addresses: Addresses::new([ip.to_string().as_str()]),
        conditions: EndpointConditions {
            ready: Some(is_ready),
            ..EndpointConditions::default()
        },
        hostname: Some(address.hostname).filter(|hostname| !hostname.is_empty()),
        target_ref: address.target_ref,
        node_name: address.node_name,
        ..Endpoint::default()
    };
    Some((AddressType::of(ip), endpoint))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn subset(ready: &[&str], not_ready: &[&str], port: i32) -> Value {
        let list = |ips: &[&str]| ips.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>();
        json!({
            "addresses": list(ready), "notReadyAddresses": list(not_ready),
            "ports": [{"name": "p", "port": port, "protocol": "TCP"}],
        })
    }

    #[test]
    fn addresses_are_mirrored_up_to_the_maximum() {
        // (why, subsets, maximum, addresses by group, invalid, skipped)
        let cases: [(&str, Value, usize, &[&[&str]], usize, usize); 7] = [
            ("no subsets", json!([]), 10, &[], 0, 0),
            (
                "one family",
                json!([subset(&["10.0.0.1"], &[], 80)]),
                10,
                &[&["10.0.0.1"], &[]],
                0,
                0,
            ),
            (
                "both families, the ready ones first",
                json!([subset(&["10.0.0.2", "fd00::1"], &["10.0.0.1"], 80)]),
                10,
                &[&["10.0.0.2", "10.0.0.1"], &["fd00::1"]],
                0,
                0,
            ),
            (
                "the maximum counts both families",
                json!([subset(&["10.0.0.1", "10.0.0.2", "fd00::1"], &[], 80)]),
                2,
                &[&["10.0.0.1", "10.0.0.2"], &[]],
                0,
                1,
            ),
            (
                "invalid addresses do not count",
                json!([subset(&["10.0.0.1", "None", "x"], &["10.0.0.2"], 80)]),
                2,
                &[&["10.0.0.1", "10.0.0.2"], &[]],
                2,
                2,
            ),
            (
                "the maximum counts for each subset",
                json!([
                    subset(&["10.0.0.1", "10.0.0.2"], &[], 80),
                    subset(&["10.0.0.3", "10.0.0.4"], &[], 81)
                ]),
                1,
                &[&["10.0.0.1"], &["10.0.0.3"], &[], &[]],
                0,
                2,
            ),
            (
                "canonical texts",
                json!([subset(&["010.0.0.1"], &[], 80)]),
                10,
                &[&["10.0.0.1"], &[]],
                0,
                0,
            ),
        ];
        for (why, subsets, max, groups, invalid, skipped) in cases {
            let subsets: Vec<EndpointSubset> = serde_json::from_value(subsets).unwrap();
            let found = desired(&subsets, max, PortOrder::default());
            let addresses = |group: &Group| -> Vec<String> {
                let endpoints = group.endpoints.iter();
                endpoints
                    .flat_map(|e| e.addresses.iter().map(str::to_owned))
                    .collect()
            };
            let mut found_groups: Vec<Vec<String>> = found.groups.iter().map(addresses).collect();
            let mut expected: Vec<Vec<String>> = groups
                .iter()
                .map(|group| group.iter().map(|ip| (*ip).to_owned()).collect())
                .collect();
            found_groups.sort();
            expected.sort();
            assert_eq!(found_groups, expected, "{why}");
            assert_eq!((found.invalid, found.skipped), (invalid, skipped), "{why}");
        }
    }

    /// Upstream: `TestAddressToEndpoint`.
    #[test]
    fn an_address_becomes_an_endpoint() {
        let target = json!({"kind": "Pod", "namespace": "default", "name": "a", "uid": "u", "resourceVersion": "7", "fieldPath": "x"});
        let address =
            json!({"ip": "10.1.2.3", "hostname": "foo", "nodeName": "n", "targetRef": target});
        let address: EndpointAddress = serde_json::from_value(address).unwrap();
        for ready in [true, false] {
            let (family, endpoint) = endpoint(address.clone(), ready).unwrap();
            assert_eq!(family, AddressType::IPv4);
            let expected = json!({
                "addresses": ["10.1.2.3"], "hostname": "foo", "conditions": {"ready": ready}, "targetRef": target,
                "nodeName": "n",
            });
            assert_eq!(serde_json::to_value(&endpoint).unwrap(), expected);
        }
    }
}
