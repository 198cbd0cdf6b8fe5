//! A manager for a cluster without a cloud: Services of type LoadBalancer get addresses of a list.
//!
//! A Service asks for an address in `spec.loadBalancerIP`. The file of `--cloud-config` has the
//! addresses, one per line. Try it with `cargo run --example cloud_manager -- --kubeconfig
//! ~/.kube/config --leader-elect=false --cloud-config=addresses.txt`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use parking_lot::Mutex;
use steersman::ControllerRegistry;
use steersman_cloud::{CloudError, CloudFuture, CloudProvider, ConnectError, LoadBalancers};
use steersman_runtime::controller::ControllerContext;

fn main() -> ExitCode {
    steersman::run(std::env::args().skip(1).collect(), controllers())
}

/// Steersman's controllers and the loops for this provider. Without routes and instances, the other
/// two loops stay off.
pub(crate) fn controllers() -> ControllerRegistry {
    steersman_cloud::controllers::<AddressList>()
        .into_iter()
        .fold(ControllerRegistry::builtin(), ControllerRegistry::with)
}

/// The addresses, each with the UID of the Service that has it.
struct AddressList(Mutex<BTreeMap<String, Option<String>>>);

impl CloudProvider for AddressList {
    fn connect(context: &ControllerContext) -> Result<Self, ConnectError> {
        let file = context.options.text("cloud-config");
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("--cloud-config={file}: {e}"))?;
        let addresses = text.lines().map(|line| (line.trim().to_owned(), None));
        Ok(Self(Mutex::new(addresses.collect())))
    }

    fn name(&self) -> &str {
        "address-list"
    }

    fn load_balancers(self: Arc<Self>) -> Option<Arc<dyn LoadBalancers>> {
        Some(self)
    }
}

impl AddressList {
    /// Gives the Service the address that it asks for.
    fn reserve(&self, service: &Service) -> Result<LoadBalancerStatus, CloudError> {
        let wish = service
            .spec
            .as_ref()
            .and_then(|spec| spec.load_balancer_ip.as_ref());
        let wish = wish.ok_or_else(|| CloudError::failed("spec.loadBalancerIP is not set"))?;
        let mut addresses = self.0.lock();
        let unknown = || CloudError::failed(format!("{wish} is not in the list"));
        let owner = addresses.get_mut(wish).ok_or_else(unknown)?;
        if owner.is_some() && *owner != service.metadata.uid {
            return Err(CloudError::failed(format!("{wish} is in use")));
        }
        owner.clone_from(&service.metadata.uid);
        // A real provider would now announce the address to the routers of the network.
        let ip = Some(wish.clone());
        let ingress = vec![LoadBalancerIngress {
            ip,
            ..Default::default()
        }];
        Ok(LoadBalancerStatus {
            ingress: Some(ingress),
        })
    }
}

impl LoadBalancers for AddressList {
    fn get<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, Option<LoadBalancerStatus>> {
        let status = service
            .status
            .as_ref()
            .and_then(|status| status.load_balancer.clone());
        Box::pin(async { Ok(status.filter(|status| status.ingress.is_some())) })
    }

    fn ensure<'a>(
        &'a self,
        service: &'a Service,
        _nodes: &'a [Arc<Node>],
    ) -> CloudFuture<'a, LoadBalancerStatus> {
        Box::pin(async { self.reserve(service) })
    }

    fn update<'a>(&'a self, _: &'a Service, _nodes: &'a [Arc<Node>]) -> CloudFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, service: &'a Service) -> CloudFuture<'a, ()> {
        let mut addresses = self.0.lock();
        for owner in addresses
            .values_mut()
            .filter(|owner| **owner == service.metadata.uid)
        {
            *owner = None;
        }
        Box::pin(async { Ok(()) })
    }
}
