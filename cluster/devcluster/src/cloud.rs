//! A cloud in memory, for the loops of `steersman-cloud`.
//!
//! - Each Service of type `LoadBalancer` gets an address of 192.0.2.0/24.
//! - Routes are a list.
//! - A machine is in the state that the annotation [`MACHINE`] of its Node names. Without it, the
//!   machine runs. Simulated nodes follow the same annotation.
//!
//! A new process finds the addresses of its predecessor in the status of the Services.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use parking_lot::{Mutex, MutexGuard};
use steersman_cloud::{
    CloudError, CloudFuture, CloudProvider, ConnectError, Instances, LoadBalancers, Route, Routes,
    Zone, Zones,
};
use steersman_nodes::{MACHINE, Machine};
use steersman_runtime::controller::ControllerContext;

/// Annotation on a Service. With the value `fails`, its load balancer cannot be created.
pub const BALANCER: &str = "simulate.steersman.dev/cloud";

/// The addresses of load balancers are 192.0.2.1 to 192.0.2.254, the first range for
/// documentation.
const NETWORK: [u8; 3] = [192, 0, 2];

/// The cloud. Clones of an `Arc` of it share all state.
#[derive(Debug, Default)]
pub struct SimulatedCloud(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Addresses by the UIDs of Services.
    balancers: BTreeMap<String, Ipv4Addr>,
    routes: Vec<Route>,
}

impl SimulatedCloud {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// The address of the load balancer of this Service: the one that it has, else the first free
    /// one.
    fn address(&mut self, service: &Service) -> Option<Ipv4Addr> {
        let uid = uid(service);
        if let Some(known) = self.balancers.get(uid) {
            return Some(*known);
        }
        let is_free = |address: &Ipv4Addr| self.balancers.values().all(|taken| taken != address);
        let address = served(service).filter(is_free).or_else(|| {
            let [a, b, c] = NETWORK;
            (1..=254).map(|d| Ipv4Addr::new(a, b, c, d)).find(is_free)
        })?;
        self.balancers.insert(uid.to_owned(), address);
        Some(address)
    }
}

fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}

/// The address in the status, if it is one of this cloud.
fn served(service: &Service) -> Option<Ipv4Addr> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    let address = status.ingress.as_ref()?.first()?.ip.as_ref()?;
    let address: Ipv4Addr = address.parse().ok()?;
    address.octets().starts_with(&NETWORK).then_some(address)
}

fn status(address: Ipv4Addr) -> LoadBalancerStatus {
    let ingress = LoadBalancerIngress {
        ip: Some(address.to_string()),
        // The API server sets this default, and equal lists need no write.
        ip_mode: Some("VIP".to_owned()),
        ..LoadBalancerIngress::default()
    };
    LoadBalancerStatus {
        ingress: Some(vec![ingress]),
    }
}

fn machine(node: &Node) -> Machine {
    let annotations = node.metadata.annotations.as_ref();
    Machine::of(
        annotations
            .and_then(|all| all.get(MACHINE))
            .map(String::as_str),
    )
}

impl CloudProvider for SimulatedCloud {
    fn connect(_: &ControllerContext) -> Result<Self, ConnectError> {
        Ok(Self::default())
    }

    fn name(&self) -> &str {
        "simulated"
    }

    fn load_balancers(self: Arc<Self>) -> Option<Arc<dyn LoadBalancers>> {
        Some(self)
    }

    fn routes(self: Arc<Self>) -> Option<Arc<dyn Routes>> {
        Some(self)
    }

    fn instances(self: Arc<Self>) -> Option<Arc<dyn Instances>> {
        Some(self)
    }

    fn zones(self: Arc<Self>) -> Option<Arc<dyn Zones>> {
        Some(self)
    }
}

impl LoadBalancers for SimulatedCloud {
    fn get<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, Option<LoadBalancerStatus>> {
        let known = self.state().balancers.get(uid(service)).copied();
        let address = known.or_else(|| served(service));
        Box::pin(async move { Ok(address.map(status)) })
    }

    fn ensure<'a>(
        &'a self,
        service: &'a Service,
        _nodes: &'a [Arc<Node>],
    ) -> CloudFuture<'a, LoadBalancerStatus> {
        Box::pin(async move {
            let annotations = service.metadata.annotations.as_ref();
            let wish = annotations.and_then(|annotations| annotations.get(BALANCER));
            if wish.is_some_and(|wish| wish == "fails") {
                return Err(CloudError::failed("the simulated cloud is out of order"));
            }
            let address = self.state().address(service);
            let exhausted = || CloudError::failed("all addresses of 192.0.2.0/24 are in use");
            address.map(status).ok_or_else(exhausted)
        })
    }

    fn update<'a>(&'a self, _service: &'a Service, _nodes: &'a [Arc<Node>]) -> CloudFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, ()> {
        self.state().balancers.remove(uid(service));
        Box::pin(async { Ok(()) })
    }
}

impl Routes for SimulatedCloud {
    fn list(&self) -> CloudFuture<'_, Vec<Route>> {
        Box::pin(async { Ok(self.state().routes.clone()) })
    }

    fn create<'a>(&'a self, name_hint: &'a str, route: &'a Route) -> CloudFuture<'a, ()> {
        let name = format!("{name_hint}-{}", route.destination_cidr);
        let mut state = self.state();
        state.routes.retain(|other| other.name != name);
        state.routes.push(Route {
            name,
            enable_node_addresses: true,
            ..route.clone()
        });
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, route: &'a Route) -> CloudFuture<'a, ()> {
        self.state().routes.retain(|other| other.name != route.name);
        Box::pin(async { Ok(()) })
    }
}

impl Instances for SimulatedCloud {
    fn exists<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, bool> {
        Box::pin(async { Ok(machine(node) != Machine::Deleted) })
    }

    fn is_shut_down<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, bool> {
        Box::pin(async { Ok(machine(node) == Machine::ShutDown) })
    }
}

impl Zones for SimulatedCloud {
    /// The labels of the node, or one zone for all nodes without labels.
    fn zone_of<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, Zone> {
        Box::pin(async {
            let label = |key: &str, otherwise: &str| {
                let labels = node.metadata.labels.as_ref();
                let found = labels.and_then(|labels| labels.get(key)).cloned();
                found.unwrap_or_else(|| otherwise.to_owned())
            };
            Ok(Zone {
                zone: label("topology.kubernetes.io/zone", "simulated-a"),
                region: label("topology.kubernetes.io/region", "simulated"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(uid: &str, ip: Option<&str>) -> Service {
        let ingress = ip.map(|ip| json!([{"ip": ip}]));
        let json = json!({
            "metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": ingress}},
        });
        serde_json::from_value(json).unwrap()
    }

    fn node(metadata: Value) -> Node {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    async fn address(cloud: &SimulatedCloud, service: &Service) -> Result<String, String> {
        let ensured = cloud.ensure(service, &[]).await;
        let status = ensured.map_err(|error| error.to_string())?;
        Ok(status.ingress.unwrap()[0].ip.clone().unwrap())
    }

    #[tokio::test]
    async fn services_keep_their_addresses_and_free_ones_are_given_again() {
        let cloud = SimulatedCloud::default();
        let one = service("1", None);
        let two = service("2", Some("192.0.2.1"));
        assert_eq!(address(&cloud, &one).await.unwrap(), "192.0.2.1");
        assert_eq!(
            address(&cloud, &two).await.unwrap(),
            "192.0.2.2",
            "its own is taken"
        );
        assert_eq!(address(&cloud, &one).await.unwrap(), "192.0.2.1");
        let old = service("3", Some("192.0.2.77"));
        assert!(LoadBalancers::get(&cloud, &old).await.unwrap().is_some());
        assert_eq!(
            address(&cloud, &old).await.unwrap(),
            "192.0.2.77",
            "as before a restart"
        );
        let foreign = service("4", Some("203.0.113.9"));
        assert!(
            LoadBalancers::get(&cloud, &foreign)
                .await
                .unwrap()
                .is_none()
        );
        assert_eq!(address(&cloud, &foreign).await.unwrap(), "192.0.2.3");
        LoadBalancers::delete(&cloud, &one).await.unwrap();
        LoadBalancers::delete(&cloud, &one).await.unwrap();
        assert_eq!(
            address(&cloud, &service("5", None)).await.unwrap(),
            "192.0.2.1"
        );
        for number in 6..=255 {
            assert!(
                address(&cloud, &service(&number.to_string(), None))
                    .await
                    .is_ok()
            );
        }
        assert_eq!(
            address(&cloud, &service("last", None)).await.unwrap_err(),
            "all addresses of 192.0.2.0/24 are in use"
        );
    }

    #[tokio::test]
    async fn annotations_decide_about_machines_and_failures() {
        let cloud = SimulatedCloud::default();
        // (annotation, exists, shut down)
        let cases = [
            (None, true, false),
            (Some("shutdown"), true, true),
            (Some("deleted"), false, false),
        ];
        for (value, exists, is_shut_down) in cases {
            let node = node(json!({"annotations": value.map(|value| json!({MACHINE: value}))}));
            assert_eq!(cloud.exists(&node).await.unwrap(), exists, "{value:?}");
            assert_eq!(
                cloud.is_shut_down(&node).await.unwrap(),
                is_shut_down,
                "{value:?}"
            );
        }
        let mut failing = service("1", None);
        failing.metadata.annotations = Some([(BALANCER.to_owned(), "fails".to_owned())].into());
        assert_eq!(
            address(&cloud, &failing).await.unwrap_err(),
            "the simulated cloud is out of order"
        );
        let labels = json!({"labels": {"topology.kubernetes.io/zone": "b"}});
        let zone = cloud.zone_of(&node(labels)).await.unwrap();
        assert_eq!((&*zone.zone, &*zone.region), ("b", "simulated"));
    }

    #[tokio::test]
    async fn a_route_is_created_once() {
        let cloud = SimulatedCloud::default();
        let route = |node: &str, range: &str| Route {
            target_node: node.to_owned(),
            destination_cidr: range.to_owned(),
            ..Route::default()
        };
        for (node, range) in [
            ("a", "10.0.0.0/24"),
            ("a", "10.0.0.0/24"),
            ("b", "10.0.1.0/24"),
        ] {
            cloud.create(node, &route(node, range)).await.unwrap();
        }
        let routes = cloud.list().await.unwrap();
        let names: Vec<&str> = routes.iter().map(|route| &*route.name).collect();
        assert_eq!(names, ["a-10.0.0.0/24", "b-10.0.1.0/24"]);
        Routes::delete(&cloud, &routes[0]).await.unwrap();
        assert_eq!(cloud.list().await.unwrap(), routes[1..]);
    }
}
