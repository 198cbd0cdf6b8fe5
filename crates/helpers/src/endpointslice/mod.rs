//! The parts that the controllers of Endpoints and EndpointSlices share.
//!
//! - change of a pod -> [`ServicesByPod`] -> keys of Services
//! - Service -> [`PodsByLabel`] -> pods -> [`pods`] (membership, ports, hostname), [`addresses`]
//! - EndpointSlices: [`Ports`] and [`EndpointKey`] group and identify endpoints, [`SlicesByService`]
//!   finds the slices of a Service, [`SliceWriter`] sends the writes, [`WrittenSlices`] tells own
//!   writes from foreign ones
//!
//! The indexes replace scans of whole namespaces, which upstream does for each change of a pod and
//! for each sync. Upstream: `k8s.io/endpointslice` with its package `util`, and
//! `pkg/api/v1/endpoints`.

pub mod addresses;
mod body;
mod endpoints_subsets;
mod hash;
mod identity;
mod pod_changes;
pub mod pods;
mod pods_by_label;
mod ports;
mod selectors;
mod slice_changes;
mod totals;
mod trigger_time;
mod writer;
mod written;

use std::fmt;

pub use body::{NewSlice, SliceBody, generate_name};
pub use endpoints_subsets::repack;
pub use hash::PortOrder;
pub use identity::{EndpointKey, is_unchanged};
pub use pod_changes::ServicesByPod;
pub use pods_by_label::PodsByLabel;
pub use ports::Ports;
pub use slice_changes::{SliceChanges, SlicesByService};
pub use totals::{SliceCount, SliceTotals, Totals};
pub use trigger_time::TriggerTimes;
pub use writer::{SliceWriteError, SliceWriter, SliceWrites};
pub use written::WrittenSlices;

/// Label of a slice with the name of its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice with the name of the controller that manages it.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Label of slices and Endpoints of a Service without a cluster IP. Its value is empty.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation with the time of the change of a pod or Service that led to a write.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The type of the addresses of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressType {
    /// `IPv4`.
    IPv4,
    /// `IPv6`.
    IPv6,
}

impl AddressType {
    /// The text of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
        }
    }

    /// The type of `address`.
    pub fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() {
            Self::IPv4
        } else {
            Self::IPv6
        }
    }
}

impl fmt::Display for AddressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
