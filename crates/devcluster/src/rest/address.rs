//! Addresses and ports for services.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

/// First address of the service range 10.96.0.0/16; .0.1 is the API server's.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 96, 0, 2]);
const ADDRESSES: u32 = (1 << 16) - 3;
const FIRST_PORT: u32 = 30_000;
const PORTS: u32 = 2_768;

/// Hands out addresses in order and starts over at the end; what is freed is not reused before.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    addresses: AtomicU32,
    ports: AtomicU32,
}

impl Clone for Addresses {
    fn clone(&self) -> Self {
        let copy = |counter: &AtomicU32| AtomicU32::new(counter.load(Ordering::Relaxed));
        Self { addresses: copy(&self.addresses), ports: copy(&self.ports) }
    }
}

impl Addresses {
    /// Completes the spec of a service: cluster addresses, and node ports where its type has them.
    pub(super) fn assign(&self, service: &mut Value) {
        let kind = service["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
        let Some(spec) = service["spec"].as_object_mut() else { return };
        if kind != "ExternalName" {
            let given = spec.get("clusterIP").and_then(Value::as_str).filter(|address| !address.is_empty());
            let address = given.map_or_else(|| self.next_address().to_string(), str::to_owned);
            spec.insert("clusterIP".to_owned(), Value::from(address.as_str()));
            spec.entry("clusterIPs").or_insert_with(|| json!([address]));
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer")
            && let Some(ports) = spec.get_mut("ports").and_then(Value::as_array_mut)
        {
            for port in ports.iter_mut().filter_map(Value::as_object_mut) {
                port.entry("nodePort").or_insert_with(|| Value::from(self.next_port()));
            }
        }
    }

    fn next_address(&self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_ADDRESS + self.addresses.fetch_add(1, Ordering::Relaxed) % ADDRESSES)
    }

    fn next_port(&self) -> u32 {
        FIRST_PORT + self.ports.fetch_add(1, Ordering::Relaxed) % PORTS
    }
}
