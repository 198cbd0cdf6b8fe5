//! Usage of Services: their node ports and load balancers.
//!
//! Upstream: `pkg/quota/v1/evaluator/core/services.go`.

use steersman_objects::Service;
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;

/// The usage of a Service.
pub fn service_usage(service: &Service) -> Amounts {
    let spec = &service.spec;
    let is_balanced = spec.service_type == *"LoadBalancer";
    let ports = match &*spec.service_type {
        "NodePort" => spec.ports.len(),
        // Node ports are counted before they are allocated, so the intent decides.
        "LoadBalancer" if spec.allocate_load_balancer_node_ports != Some(false) => spec.ports.len(),
        "LoadBalancer" => spec.ports.iter().filter(|port| port.node_port != 0).count(),
        _ => 0,
    };
    let amounts = [
        ("count/services", 1),
        ("services", 1),
        ("services.loadbalancers", i64::from(is_balanced)),
        (
            "services.nodeports",
            i64::try_from(ports).unwrap_or(i64::MAX),
        ),
    ];
    amounts
        .map(|(name, number)| (Sym::new(name), Quantity::whole(number)))
        .into_iter()
        .collect()
}

/// Whether the update may release quota: the Service changed between `NodePort`, `LoadBalancer` and
/// the types without node ports. Upstream: `DefaultUpdateFilter`.
pub fn is_service_replenished(old: &Service, new: &Service) -> bool {
    let counted = |service: &Service| match &*service.spec.service_type {
        "NodePort" => 1,
        "LoadBalancer" => 2,
        _ => 0,
    };
    counted(old) != counted(new)
}
