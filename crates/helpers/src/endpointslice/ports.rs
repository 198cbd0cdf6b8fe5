//! The ports of a slice. All endpoints of a slice have the same ports.
//!
//! Upstream: `PortMapKey` of `k8s.io/endpointslice/util`.

use std::fmt;
use std::sync::Arc;

use steersman_objects::EndpointSlicePort;

use super::hash::{Pointer, hash};

/// A list of ports in the order of their hashes. Slices are written in this order. Two slices with
/// equal ports in any order have equal lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ports(Arc<[EndpointSlicePort]>);

impl Ports {
    /// The list with the entries `ports`.
    pub fn new(mut ports: Vec<EndpointSlicePort>) -> Self {
        // One port needs no hash, and most Services have one port.
        if ports.len() > 1 {
            ports.sort_by_cached_key(port_hash);
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

fn port_hash(port: &EndpointSlicePort) -> u128 {
    hash(format_args!("(v1.EndpointPort){}", Dump(port)))
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

    use super::*;

    fn port(json: &Value) -> EndpointSlicePort {
        serde_json::from_value(json.clone()).unwrap()
    }

    #[test]
    fn ports_are_hashed_like_upstream() {
        // (port, hash)
        let cases = [
            (
                json!({"name": "http", "port": 8080, "protocol": "TCP"}),
                0x0e87_4d56_7709_0ee5_c32a_fa85_f637_c347,
            ),
            (
                json!({"name": "", "port": 53, "protocol": "UDP", "appProtocol": "kubernetes.io/h2c"}),
                0x32d2_507b_122b_36c0_ad29_913a_efd4_a37c,
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(port_hash(&port(&json)), expected, "{json}");
        }
    }

    #[test]
    fn the_order_of_equal_ports_does_not_matter() {
        let [http, dns] = [
            json!({"name": "http", "port": 8080, "protocol": "TCP"}),
            json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        ]
        .map(|json| port(&json));
        let [one, other] =
            [[&http, &dns], [&dns, &http]].map(|ports| Ports::new(ports.map(Clone::clone).into()));
        assert_eq!(one, other);
        assert_ne!(one, Ports::new(vec![http]));
        assert_eq!(Ports::default(), Ports::new(vec![]));
    }
}
