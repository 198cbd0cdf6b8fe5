//! A provider whose cloud is in memory. It records its calls, and tests make them fail or wait.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use parking_lot::{Mutex, MutexGuard};
use steersman_runtime::controller::ControllerContext;
use tokio::sync::watch;

use crate::provider::{
    CloudError, CloudFuture, CloudProvider, ConnectError, Instances, LoadBalancers, Route, Routes,
};

/// The state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    Running,
    ShutDown,
    Deleted,
}

type Failure = fn() -> CloudError;

pub(crate) struct FakeCloud {
    state: Mutex<State>,
    held: watch::Sender<HashSet<&'static str>>,
}

#[derive(Default)]
struct State {
    calls: Vec<String>,
    /// Addresses by the names of Services.
    balancers: BTreeMap<String, String>,
    routes: Vec<Route>,
    machines: HashMap<String, Machine>,
    failures: HashMap<&'static str, VecDeque<Failure>>,
    missing: Vec<&'static str>,
}

impl Default for FakeCloud {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            held: watch::Sender::new(HashSet::new()),
        }
    }
}

/// The address of every load balancer.
pub(crate) const ADDRESS: &str = "1.2.3.4";

impl FakeCloud {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A cloud without this area.
    pub(crate) fn without(area: &'static str) -> Self {
        let cloud = Self::default();
        cloud.state().missing.push(area);
        cloud
    }

    /// The calls since the last call of this function.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }

    /// The changing calls so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Makes the next `times` calls of `call` fail.
    pub(crate) fn fail(&self, call: &'static str, times: usize, failure: Failure) {
        let failures = std::iter::repeat_n(failure, times);
        self.state()
            .failures
            .entry(call)
            .or_default()
            .extend(failures);
    }

    /// Makes calls of `call` wait until [`FakeCloud::release`].
    pub(crate) fn hold(&self, call: &'static str) {
        self.held.send_modify(|held| {
            held.insert(call);
        });
    }

    pub(crate) fn release(&self, call: &'static str) {
        self.held.send_modify(|held| {
            held.remove(call);
        });
    }

    pub(crate) fn balancers(&self) -> Vec<String> {
        self.state().balancers.keys().cloned().collect()
    }

    pub(crate) fn put_balancer(&self, name: &str) {
        let mut state = self.state();
        state.balancers.insert(name.to_owned(), ADDRESS.to_owned());
    }

    pub(crate) fn lose_balancer(&self, name: &str) {
        self.state().balancers.remove(name);
    }

    pub(crate) fn routes_now(&self) -> Vec<Route> {
        self.state().routes.clone()
    }

    pub(crate) fn put_routes(&self, routes: Vec<Route>) {
        self.state().routes = routes;
    }

    pub(crate) fn set_machine(&self, node: &str, machine: Machine) {
        self.state().machines.insert(node.to_owned(), machine);
    }

    /// Records a call, waits while it is held, and fails if a test wants that.
    async fn call(&self, call: &'static str, about: String) -> Result<(), CloudError> {
        self.state().calls.push(format!("{call} {about}"));
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(call)).await.unwrap();
        let failure = self
            .state()
            .failures
            .get_mut(call)
            .and_then(VecDeque::pop_front);
        failure.map_or(Ok(()), |failure| Err(failure()))
    }

    fn area<T>(self: Arc<Self>, name: &str, area: fn(Arc<Self>) -> T) -> Option<T> {
        let is_missing = self.state().missing.contains(&name);
        (!is_missing).then(|| area(self))
    }
}

impl CloudProvider for FakeCloud {
    fn connect(_: &ControllerContext) -> Result<Self, ConnectError> {
        Ok(Self::default())
    }

    fn name(&self) -> &str {
        "fake"
    }

    fn load_balancers(self: Arc<Self>) -> Option<Arc<dyn LoadBalancers>> {
        self.area("load balancers", |cloud| cloud)
    }

    fn routes(self: Arc<Self>) -> Option<Arc<dyn Routes>> {
        self.area("routes", |cloud| cloud)
    }

    fn instances(self: Arc<Self>) -> Option<Arc<dyn Instances>> {
        self.area("instances", |cloud| cloud)
    }
}

fn name(service: &Service) -> String {
    service.metadata.name.clone().unwrap()
}

/// `web a b`: a Service and its nodes.
fn with_nodes(service: &Service, nodes: &[Arc<Node>]) -> String {
    let mut names: Vec<&str> = nodes
        .iter()
        .map(|node| node.metadata.name.as_deref().unwrap())
        .collect();
    names.sort_unstable();
    std::iter::once(&*name(service))
        .chain(names)
        .collect::<Vec<_>>()
        .join(" ")
}

fn status(address: &str) -> LoadBalancerStatus {
    let ingress = LoadBalancerIngress {
        ip: Some(address.to_owned()),
        ..LoadBalancerIngress::default()
    };
    LoadBalancerStatus {
        ingress: Some(vec![ingress]),
    }
}

impl LoadBalancers for FakeCloud {
    fn get<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, Option<LoadBalancerStatus>> {
        Box::pin(async move {
            self.call("get", name(service)).await?;
            let state = self.state();
            Ok(state
                .balancers
                .get(&name(service))
                .map(|address| status(address)))
        })
    }

    fn ensure<'a>(
        &'a self,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
    ) -> CloudFuture<'a, LoadBalancerStatus> {
        Box::pin(async move {
            self.call("ensure", with_nodes(service, nodes)).await?;
            self.put_balancer(&name(service));
            Ok(status(ADDRESS))
        })
    }

    fn update<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> CloudFuture<'a, ()> {
        Box::pin(self.call("update", with_nodes(service, nodes)))
    }

    fn delete<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, ()> {
        Box::pin(async move {
            self.call("delete", name(service)).await?;
            self.state().balancers.remove(&name(service));
            Ok(())
        })
    }
}

impl Routes for FakeCloud {
    fn list(&self) -> CloudFuture<'_, Vec<Route>> {
        Box::pin(async {
            self.call("list", String::new()).await?;
            Ok(self.routes_now())
        })
    }

    fn create<'a>(&'a self, name_hint: &'a str, route: &'a Route) -> CloudFuture<'a, ()> {
        Box::pin(async move {
            let about = format!("{} {}", route.target_node, route.destination_cidr);
            self.call("create", about).await?;
            let name = format!("{name_hint}-{}", route.destination_cidr);
            self.state().routes.push(Route {
                name,
                ..route.clone()
            });
            Ok(())
        })
    }

    fn delete<'a>(&'a self, route: &'a Route) -> CloudFuture<'a, ()> {
        Box::pin(async move {
            let about = format!("{} {}", route.target_node, route.destination_cidr);
            self.call("delete", about).await?;
            self.state().routes.retain(|other| other.name != route.name);
            Ok(())
        })
    }
}

impl FakeCloud {
    async fn machine(&self, call: &'static str, node: &Node) -> Result<Machine, CloudError> {
        let name = node.metadata.name.clone().unwrap();
        self.call(call, name.clone()).await?;
        let machine = self.state().machines.get(&name).copied();
        Ok(machine.unwrap_or(Machine::Running))
    }
}

impl Instances for FakeCloud {
    fn exists<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, bool> {
        Box::pin(async { Ok(self.machine("exists", node).await? != Machine::Deleted) })
    }

    fn is_shut_down<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, bool> {
        Box::pin(async { Ok(self.machine("shut down", node).await? == Machine::ShutDown) })
    }
}
