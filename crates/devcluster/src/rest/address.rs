//! Addresses and ports for services.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::fielderror::{FieldError, Problem};
use crate::store::Object;

/// First address of the service range 10.96.0.0/16; .0.1 is the API server's.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 96, 0, 2]);
const ADDRESSES: u32 = (1 << 16) - 3;
const FIRST_PORT: u32 = 30_000;
const PORTS: u32 = 2_768;

/// Hands out addresses in order and starts over at the end; what is freed is not reused before, and what a service has is passed over.
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
    /// Completes the spec of a service: cluster addresses, and node ports where its type has them. Tells which it asks for although
    /// another of `services` has them.
    pub(super) fn assign(&self, service: &mut Value, services: &[Arc<Object>]) -> Vec<FieldError> {
        let taken = Taken::by(services);
        let mut errors = Vec::new();
        let kind = service["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
        let Some(spec) = service["spec"].as_object_mut() else { return errors };
        if kind != "ExternalName" {
            let given = spec.get("clusterIP").and_then(Value::as_str).filter(|address| !address.is_empty());
            if let Some(given) = given.filter(|given| taken.addresses.contains(*given)) {
                let why = format!("failed to allocate IP {given}: provided IP is already allocated");
                errors.push(FieldError { field: "spec.clusterIPs".to_owned(), problem: Problem::Invalid(json!([given]), why) });
            }
            let address = given.map_or_else(|| self.next_address(&taken), str::to_owned);
            spec.insert("clusterIP".to_owned(), Value::from(address.as_str()));
            spec.entry("clusterIPs").or_insert_with(|| json!([address]));
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer")
            && let Some(ports) = spec.get_mut("ports").and_then(Value::as_array_mut)
        {
            for (index, port) in ports.iter_mut().filter_map(Value::as_object_mut).enumerate() {
                let given = port.get("nodePort").and_then(Value::as_u64);
                if let Some(given) = given.filter(|given| taken.ports.contains(given)) {
                    let problem = Problem::Invalid(given.into(), "provided port is already allocated".to_owned());
                    errors.push(FieldError { field: format!("spec.ports[{index}].nodePort"), problem });
                }
                port.entry("nodePort").or_insert_with(|| Value::from(self.next_port(&taken)));
            }
        }
        errors
    }

    /// The next that is free; where none is, one that is not.
    fn next_address(&self, taken: &Taken) -> String {
        let next = || FIRST_ADDRESS + self.addresses.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
        let mut tried = (0..ADDRESSES).map(|_| Ipv4Addr::from(next()).to_string());
        tried.find(|address| !taken.addresses.contains(address)).unwrap_or_else(|| Ipv4Addr::from(next()).to_string())
    }

    /// The same for ports.
    fn next_port(&self, taken: &Taken) -> u32 {
        let next = || FIRST_PORT + self.ports.fetch_add(1, Ordering::Relaxed) % PORTS;
        (0..PORTS).map(|_| next()).find(|port| !taken.ports.contains(&u64::from(*port))).unwrap_or_else(next)
    }
}

/// What services have.
#[derive(Default)]
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<u64>,
}

impl Taken {
    fn by(services: &[Arc<Object>]) -> Self {
        let mut taken = Self::default();
        for service in services {
            let spec = &service.to_value()["spec"];
            let address = spec["clusterIP"].as_str().filter(|address| !matches!(*address, "" | "None"));
            taken.addresses.extend(address.map(str::to_owned));
            taken.ports.extend(spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_u64()));
        }
        taken
    }
}
