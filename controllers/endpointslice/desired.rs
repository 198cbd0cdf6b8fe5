//! The endpoints that a Service should have, grouped by their ports.
//!
//! Pods of one template share their spec in the cache. The ports are therefore resolved once per
//! template, not once per pod.
//!
//! Upstream: `reconcileByAddressType`, `podToEndpoint` and `getEndpointPorts` of
//! `k8s.io/endpointslice`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use steersman_helpers::endpointslice::{AddressType, PortOrder, Ports, addresses, pods};
use steersman_objects::{
    Addresses, Endpoint, EndpointConditions, EndpointSlicePort, Node, ObjectKey, Pod, PodSpec,
    Service, TargetRef,
};
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;

/// Label of a node with the name of its zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// The endpoints with equal ports. May be empty: a pod without an address of the family still has
/// ports.
pub(super) struct Group {
    pub(super) ports: Ports,
    pub(super) endpoints: Vec<Endpoint>,
}

/// The desired endpoints of one address type.
pub(super) struct Desired {
    /// Groups in the order of their first pods.
    pub(super) groups: Vec<Group>,
    /// Pods that are left out, because their node is not in the cache.
    pub(super) without_node: Vec<MissingNode>,
}

/// A pod on a node that is not in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingNode {
    pub(super) pod: Arc<str>,
    /// Name of the node; empty for an unscheduled pod.
    pub(super) node: Sym,
}

/// The nodes of pods, each looked up once per sync.
pub(super) struct Nodes<'a> {
    store: &'a Store<Node>,
    /// `None` records that the cache lacks the node. Unless `add` brings it, the node stays missing
    /// for the whole sync, so that both families have the same pods.
    known: HashMap<Sym, Option<Place>>,
}

/// The location of a node in the cache.
#[derive(Clone)]
struct Place {
    /// Zone; unset if the label is missing or empty.
    zone: Option<Sym>,
}

impl Place {
    /// An empty label counts as no zone, as in upstream's `podToEndpoint`.
    fn of(node: &Node) -> Self {
        let zone = node.meta.labels.get(ZONE).filter(|zone| !zone.is_empty());
        Self {
            zone: zone.cloned(),
        }
    }
}

impl<'a> Nodes<'a> {
    pub(super) fn new(store: &'a Store<Node>) -> Self {
        Self {
            store,
            known: HashMap::new(),
        }
    }

    /// The names of the nodes of `pods` that are unknown, for pods that are endpoints.
    pub(super) fn missing(&mut self, pods: &[Arc<Pod>]) -> BTreeSet<Sym> {
        let endpoints = pods.iter().filter(|pod| pods::is_endpoint(pod, true));
        let names = endpoints.filter_map(|pod| pod.node.clone());
        names.filter(|name| self.place(name).is_none()).collect()
    }

    /// Adds a node that the cache lacks.
    pub(super) fn add(&mut self, node: &Node) {
        let name = Sym::new(&node.meta.name);
        self.known.insert(name, Some(Place::of(node)));
    }

    /// The location of `node`. `None` if the cache lacks it, and for the empty name of an
    /// unscheduled pod.
    fn place(&mut self, node: &Sym) -> Option<Place> {
        let store = self.store;
        let look_up = || Some(Place::of(&*store.get(&ObjectKey::new("", node))?));
        self.known
            .entry(node.clone())
            .or_insert_with(look_up)
            .clone()
    }
}

/// The form of the slices of one address type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) family: AddressType,
    /// Maximum of endpoints per slice.
    pub(super) max: usize,
    /// The order of ports within a slice. It decides whether two lists of ports are equal.
    pub(super) order: PortOrder,
}

/// The desired endpoints of `service` for slices of `form`, in the order of `pods`.
///
/// Terminating pods are included, since a proxy sends them traffic if no ready endpoint is left.
/// Pods on a missing node are left out, and the sync fails afterwards. If the Service publishes
/// addresses that are not ready, such pods stay in, because its user asked for every address.
/// Upstream: `reconcileByAddressType`.
pub(super) fn desired(
    service: &Service,
    pods: &[Arc<Pod>],
    nodes: &mut Nodes<'_>,
    form: Form,
) -> Desired {
    let mut groups = Groups::default();
    let mut without_node = Vec::new();
    for pod in pods.iter().filter(|pod| pods::is_endpoint(pod, true)) {
        // The group exists before the checks below, as in upstream. Without endpoints, it keeps an
        // empty slice with its ports, which would be deleted otherwise.
        let group = groups.of(service, &pod.spec, form.order);
        let node = pod.node.clone().unwrap_or_default();
        let place = nodes.place(&node);
        if place.is_none() && !service.spec.publish_not_ready_addresses {
            without_node.push(MissingNode {
                pod: Arc::clone(&pod.meta.name),
                node,
            });
            continue;
        }
        let zone = place.and_then(|place| place.zone);
        let endpoint = endpoint(service, pod, zone, form.family);
        group.endpoints.extend(endpoint);
    }
    Desired {
        groups: groups.list,
        without_node,
    }
}

/// Groups by ports, and by the specs that have these ports.
#[derive(Default)]
struct Groups {
    list: Vec<Group>,
    by_ports: HashMap<Ports, usize>,
    /// The keys are addresses of specs. The pods of the sync keep their specs alive, so no address
    /// is used for two specs.
    by_spec: HashMap<*const PodSpec, usize>,
}

impl Groups {
    /// The group of pods with `spec`. It exists from now on.
    fn of(&mut self, service: &Service, spec: &Arc<PodSpec>, order: PortOrder) -> &mut Group {
        let Self {
            list,
            by_ports,
            by_spec,
        } = self;
        let position = *by_spec.entry(Arc::as_ptr(spec)).or_insert_with(|| {
            let ports = ports(service, spec, order);
            *by_ports.entry(ports.clone()).or_insert_with(|| {
                list.push(Group {
                    ports,
                    endpoints: Vec::new(),
                });
                list.len() - 1
            })
        });
        &mut list[position]
    }
}

/// The ports of endpoints with `spec`. A named port that the pods lack is left out. A headless
/// Service may have no ports at all; its endpoints are for DNS alone. Upstream: `getEndpointPorts`.
fn ports(service: &Service, spec: &PodSpec, order: PortOrder) -> Ports {
    let ports = service.spec.ports.iter().filter_map(|port| {
        Some(EndpointSlicePort {
            port: Some(pods::target_port(spec, port)?),
            name: Some(port.name.clone()),
            protocol: Some(port.protocol.clone()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    Ports::new(ports.collect(), order)
}

/// The endpoint of `pod`; `None` without an address of `family`. A text that is no address is left
/// out. Upstream: `podToEndpoint` and `getEndpointAddresses`.
fn endpoint(
    service: &Service,
    pod: &Pod,
    zone: Option<Sym>,
    family: AddressType,
) -> Option<Endpoint> {
    let parsed = pod.ips().filter_map(addresses::parse);
    let mut addresses: Vec<String> = parsed
        .filter(|address| AddressType::of(*address) == family)
        .map(|address| address.to_string())
        .collect();
    if addresses.is_empty() {
        return None;
    }
    // The addresses are part of the identity of an endpoint. Upstream's `hashEndpoint` sorts them
    // in place.
    addresses.sort_unstable();
    // `ready` is false for a terminating pod, since consumers that know only `ready` must not use
    // it. `serving` tells the readiness of the pod alone.
    let serving = pod.is_ready();
    let terminating = pod.meta.is_terminating();
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    Some(Endpoint {
        addresses: Addresses::new(addresses.iter().map(String::as_str)),
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: pods::hostname(pod, service).map(Box::from),
        target_ref: Some(TargetRef::new(
            Sym::new("Pod"),
            pod.meta.namespace.clone(),
            Arc::clone(&pod.meta.name),
            pod.meta.uid.clone(),
        )),
        node_name: pod.node.clone(),
        zone,
        hints: None,
    })
}
