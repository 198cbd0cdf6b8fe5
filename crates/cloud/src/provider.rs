//! The promises between the loops and a cloud.
//!
//! A provider implements [`CloudProvider`], and the areas that its cloud has. A loop whose area is
//! missing says so in the log, and the manager runs without it.
//!
//! For all calls:
//!
//! - Objects are those of the cache. Their `managedFields` are absent.
//! - Calls for different objects run at the same time. Calls for one Service may overlap too: a
//!   node that joins causes [`LoadBalancers::update`] while [`LoadBalancers::ensure`] runs.
//! - A call runs to its end when the manager stops, so it needs its own time limits.
//! - After a loss of the Lease, the last call may overlap with the first calls of the next leader.
//!   A call therefore describes the state to reach, and repeating it is harmless.
//!
//! Upstream: `cloud.go` of `k8s.io/cloud-provider`. The old interface `Instances`, which finds
//! machines by name, is absent.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, NodeAddress, Service};
use steersman_runtime::controller::ControllerContext;

/// The answer of a provider, which may take a while.
pub type CloudFuture<'a, T> = BoxFuture<'a, Result<T, CloudError>>;

/// A provider could not be connected. The manager ends with this error.
pub type ConnectError = Box<dyn Error + Send + Sync>;

/// A cloud.
pub trait CloudProvider: Send + Sync + 'static {
    /// Connects to the cloud. The manager calls it once, when it starts to lead.
    ///
    /// `--cloud-config` and `--cluster-name` are in `context.options`. Metrics go to
    /// `context.registry`, and caches of other objects come from `context.informers`.
    fn connect(context: &ControllerContext) -> Result<Self, ConnectError>
    where
        Self: Sized;

    /// Its name, for the log.
    fn name(&self) -> &str;

    /// The load balancers of the cloud.
    fn load_balancers(self: Arc<Self>) -> Option<Arc<dyn LoadBalancers>> {
        None
    }

    /// The routes of the cloud.
    fn routes(self: Arc<Self>) -> Option<Arc<dyn Routes>> {
        None
    }

    /// The machines of the cloud.
    fn instances(self: Arc<Self>) -> Option<Arc<dyn Instances>> {
        None
    }

    /// The zones of the cloud.
    fn zones(self: Arc<Self>) -> Option<Arc<dyn Zones>> {
        None
    }
}

/// Load balancers, one per Service of type `LoadBalancer` without a `loadBalancerClass`.
///
/// The loop sets a finalizer on the Service before the first `ensure`, and removes it after
/// `delete`. So a Service outlives its load balancer.
pub trait LoadBalancers: Send + Sync {
    /// The addresses of the load balancer; `None` if there is none. Changes nothing.
    fn get<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, Option<LoadBalancerStatus>>;

    /// Creates the load balancer, or changes it after `service` and `nodes`. Returns its addresses,
    /// which the loop writes into the status of the Service.
    ///
    /// `nodes` may be empty, and nodes in it may be not ready.
    fn ensure<'a>(
        &'a self,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
    ) -> CloudFuture<'a, LoadBalancerStatus>;

    /// Makes `nodes` the targets of the load balancer, and changes nothing else. After an error the
    /// loop calls `ensure`.
    fn update<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> CloudFuture<'a, ()>;

    /// Deletes the load balancer with all its parts. Succeeds also if there is none.
    ///
    /// `service` may be deleted already; its name and UID identify the load balancer.
    fn delete<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, ()>;
}

/// Routes to the pod addresses of nodes.
pub trait Routes: Send + Sync {
    /// All routes of this cluster. The loop deletes routes in `--cluster-cidr` that no node needs,
    /// so routes of other clusters and users stay out of this list.
    fn list(&self) -> CloudFuture<'_, Vec<Route>>;

    /// Creates `route`, whose name is empty. `name_hint` is the UID of the node, so both routes of
    /// a dual-stack node have the same hint. Up to 200 calls run at the same time.
    fn create<'a>(&'a self, name_hint: &'a str, route: &'a Route) -> CloudFuture<'a, ()>;

    /// Deletes a route that [`Routes::list`] returned.
    fn delete<'a>(&'a self, route: &'a Route) -> CloudFuture<'a, ()>;
}

/// A route to the pod addresses of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Route {
    /// Name that the provider chose.
    pub name: String,
    /// Name of the node; empty if the provider does not know it.
    pub target_node: String,
    /// Whether the route depends on the addresses of the node. The loop then replaces the route
    /// when they change. If the first listed route has it, deletions end before creations begin.
    pub enable_node_addresses: bool,
    /// The addresses of the node that the route leads to.
    pub target_node_addresses: Vec<NodeAddress>,
    /// The pod addresses, such as `10.244.1.0/24`. The text has to equal the one in `podCIDRs`.
    pub destination_cidr: String,
    /// Whether packets are dropped because the machine is gone. Such routes are deleted.
    pub blackhole: bool,
}

/// The machines behind nodes. The loop asks only about nodes that are not ready.
pub trait Instances: Send + Sync {
    /// Whether the machine exists, running or not. The loop deletes the Node if it does not, so a
    /// provider that is unsure returns an error.
    fn exists<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, bool>;

    /// Whether the machine exists and is shut down. The loop then taints the node.
    fn is_shut_down<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, bool>;
}

/// The places of machines, for loops that label new nodes. The loops of this crate do not label
/// nodes, which upstream's `cloud-node-controller` does.
pub trait Zones: Send + Sync {
    /// The place of the machine behind `node`.
    fn zone_of<'a>(&'a self, node: &'a Node) -> CloudFuture<'a, Zone>;
}

/// The place of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Value of the label `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Value of the label `topology.kubernetes.io/region`.
    pub region: String,
}

/// A provider did not do its work. The text ends up in Events, so it has no secrets and stays the
/// same from try to try.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// Another controller does this for the cluster. The loop leaves the Service alone.
    #[error("implemented by alternate to cloud provider")]
    ImplementedElsewhere,
    /// The work goes on in the cloud; the loop calls again after this time, without back-off.
    /// [`LoadBalancers`] may return it.
    #[error("{message}")]
    RetryAfter {
        /// The reason, for users.
        message: String,
        /// The time to wait.
        after: Duration,
    },
    /// Another client changed the same thing. A creation of a route is tried up to five times.
    #[error("{0}")]
    Conflict(#[source] Box<dyn Error + Send + Sync>),
    /// Any other failure. The loop tries again.
    #[error("{0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl CloudError {
    /// A failure with this cause, which may be a text.
    pub fn failed(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(cause.into())
    }
}
