//! The ports of a slice. All endpoints of a slice have the same ports.
//!
//! Upstream: `PortMapKey` of `k8s.io/endpointslice/util`.

use std::fmt;
use std::sync::Arc;

use steersman_objects::EndpointSlicePort;

use super::hash::{Pointer, PortOrder};

/// A list of ports in the order of their hashes. Slices are written in this order. Two slices with
/// equal ports in any order have equal lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ports(Arc<[EndpointSlicePort]>);

impl Ports {
    /// The list with the entries `ports`. Only lists of the same `order` can be compared.
    pub fn new(mut ports: Vec<EndpointSlicePort>, order: PortOrder) -> Self {
        // One port needs no hash, and most Services have one port.
        if ports.len() > 1 {
            ports.sort_by_cached_key(|port| port_hash(port, order));
        }
        Self(ports.into())
    }
}

impl std::ops::Deref for Ports {
    type Target = [EndpointSlicePort];
    fn deref(&self) -> &[EndpointSlicePort] {
        &self.0
    }
}

fn port_hash(port: &EndpointSlicePort, order: PortOrder) -> u128 {
    order.hash(format_args!("(v1.EndpointPort){}", Dump(port)))
}

/// A port as Go dumps it.
struct Dump<'a>(&'a EndpointSlicePort);

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.0;
        write!(
            f,
            "{{Name:{} Protocol:{} Port:{} AppProtocol:{}}}",
            Pointer("string", port.name.as_ref()),
            Pointer("v1.Protocol", port.protocol.as_ref()),
            Pointer("int32", port.port.as_ref()),
            Pointer("string", port.app_protocol.as_ref()),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_releases::Release;

    use super::*;

    fn port(json: &Value) -> EndpointSlicePort {
        serde_json::from_value(json.clone()).unwrap()
    }

    #[test]
    fn ports_are_hashed_like_upstream() {
        // (port, FNV-1a, MD5)
        let cases = [
            (
                json!({"name": "http", "port": 8080, "protocol": "TCP"}),
                0x0e87_4d56_7709_0ee5_c32a_fa85_f637_c347,
                0x3a66_8b0e_210f_1dc6_528e_2da1_91cd_41d4,
            ),
            (
                json!({"name": "", "port": 53, "protocol": "UDP", "appProtocol": "kubernetes.io/h2c"}),
                0x32d2_507b_122b_36c0_ad29_913a_efd4_a37c,
                0x1c5d_e46f_124a_3ad2_5464_d5d1_b3c1_4a76,
            ),
        ];
        for (json, fnv, md5) in cases {
            let port = port(&json);
            assert_eq!(port_hash(&port, PortOrder::Fnv128a), fnv, "{json}");
            assert_eq!(port_hash(&port, PortOrder::Md5), md5, "{json}");
        }
    }

    #[test]
    fn the_order_of_equal_ports_does_not_matter() {
        let [http, dns] = [
            json!({"name": "http", "port": 8080, "protocol": "TCP"}),
            json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        ]
        .map(|json| port(&json));
        for order in [PortOrder::Md5, PortOrder::Fnv128a] {
            let list = |ports: &[&EndpointSlicePort]| {
                Ports::new(ports.iter().copied().cloned().collect(), order)
            };
            let one = list(&[&http, &dns]);
            assert_eq!(one, list(&[&dns, &http]));
            assert_ne!(one, list(&[&http]));
            assert_eq!(Ports::default(), list(&[]));
        }
    }

    #[test]
    fn releases_before_1_35_order_ports_by_md5() {
        let [https, grpc] = [("https", 8443), ("grpc", 50051)]
            .map(|(name, number)| port(&json!({"name": name, "port": number, "protocol": "TCP"})));
        // (minor release, names in order)
        let cases = [
            (33, ["grpc", "https"]),
            (34, ["grpc", "https"]),
            (35, ["https", "grpc"]),
            (36, ["https", "grpc"]),
        ];
        for (release, expected) in cases {
            let order = PortOrder::of(Release::of_minor(release));
            let ports = Ports::new(vec![https.clone(), grpc.clone()], order);
            let names = ports.iter().filter_map(|port| port.name.as_deref());
            assert_eq!(names.collect::<Vec<_>>(), expected, "{release}");
        }
    }
}
