//! The loops of cloud-controller-manager, over a [`CloudProvider`] of the user.
//!
//! - [`service`]: load balancers for Services of type `LoadBalancer`
//! - [`route`]: routes to the pod addresses of nodes
//! - [`lifecycle`]: nodes whose instances were deleted or shut down
//!
//! kube-controller-manager has these three only by name, and so does `steersman`. A program that
//! adds [`controllers`] to its table runs them beside all other controllers:
//!
//! ```ignore
//! let table = steersman_cloud::controllers::<MyCloud>()
//!     .into_iter()
//!     .fold(ControllerRegistry::builtin(), ControllerRegistry::with);
//! steersman::run(std::env::args().skip(1).collect(), table)
//! ```
//!
//! `examples/cloud_manager.rs` is a whole manager on one page.
//!
//! Upstream: `staging/src/k8s.io/cloud-provider`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

pub mod lifecycle;
pub mod provider;
pub mod route;
mod served;
pub mod service;
mod shared;
#[cfg(test)]
mod testing;

use steersman_runtime::controller::Descriptor;

pub use provider::{
    CloudError, CloudFuture, CloudProvider, ConnectError, Instances, LoadBalancers, Route, Routes,
    Zone, Zones,
};
pub use shared::share;

/// The three loops over the provider `P`, in alphabetical order of their names.
///
/// The manager connects the provider once, when it builds the first of them. All three share it.
pub fn controllers<P: CloudProvider>() -> [Descriptor; 3] {
    [
        lifecycle::descriptor::<P>(),
        route::descriptor::<P>(),
        service::descriptor::<P>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cloud::FakeCloud;

    #[test]
    fn names_aliases_and_clients_are_those_of_upstream() {
        let found = controllers::<FakeCloud>().map(|d| (d.name, d.aliases, d.identity));
        let expected: [(&str, &[&str], &str); 3] = [
            (
                "cloud-node-lifecycle-controller",
                &["cloud-node-lifecycle"],
                "node-controller",
            ),
            ("node-route-controller", &["route"], "route-controller"),
            ("service-lb-controller", &["service"], "service-controller"),
        ];
        assert_eq!(found, expected);
    }
}
