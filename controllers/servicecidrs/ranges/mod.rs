//! Which ServiceCIDRs cover a range or an address, and whether a deleted one may go.
//!
//! A ServiceCIDR may go if each IP address of a Service remains in another one:
//!
//! - another ServiceCIDR contains each of its ranges, or
//! - each address in its ranges is in the range of another ServiceCIDR as well.
//!
//! Upstream: `pkg/api/servicecidr`, and `canDeleteCIDR` of the controller.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use steersman_objects::{IpAddress, Object, ObjectKey, ServiceCidr};
use steersman_values::cidr::{Cidr, Family, number};
use steersman_values::labels::{Labels, Selector};

/// Label of an IPAddress with the name of its manager.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// Label of an IPAddress with its family, `IPv4` or `IPv6`.
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
/// The manager that allocates cluster IPs: the API server.
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// The selector of the addresses that [`may_go`] reads.
pub(super) fn of_allocator() -> Selector {
    Selector::of_labels(&Labels::new([(MANAGED_BY, ALLOCATOR)]))
}

/// The ranges of `cidr`. The API server accepts no malformed ones.
fn prefixes(cidr: &ServiceCidr) -> impl Iterator<Item = Cidr> {
    let texts = cidr.spec.cidrs.iter();
    texts.filter_map(|text| Cidr::parse(text).ok())
}

/// The keys of the ServiceCIDRs that have an address in common with a range of `cidr`.
pub(super) fn overlapping(all: &[Arc<ServiceCidr>], cidr: &ServiceCidr) -> BTreeSet<ObjectKey> {
    let overlaps = |other: &&Arc<ServiceCidr>| {
        prefixes(other).any(|theirs| prefixes(cidr).any(|own| own.overlaps(&theirs)))
    };
    all.iter()
        .filter(overlaps)
        .map(|other| other.key())
        .collect()
}

/// The keys of the ServiceCIDRs that may have allocated the address `ip`; empty for an address of
/// another manager.
pub(super) fn containing(all: &[Arc<ServiceCidr>], ip: &IpAddress) -> BTreeSet<ObjectKey> {
    match allocated(ip) {
        Some(address) => with_address(all, address).map(|cidr| cidr.key()).collect(),
        None => BTreeSet::new(),
    }
}

/// True if each address in `cidr` remains in another ServiceCIDR after `cidr` is gone.
pub(super) fn may_go(all: &[Arc<ServiceCidr>], ips: &[Arc<IpAddress>], cidr: &ServiceCidr) -> bool {
    has_parents(all, cidr) || !ips.iter().any(|ip| is_only_in(all, ip, cidr))
}

/// True if each range of `cidr` is inside a range of another ServiceCIDR, or equal to one.
///
/// As upstream, ServiceCIDRs that are being deleted count as well.
fn has_parents(all: &[Arc<ServiceCidr>], cidr: &ServiceCidr) -> bool {
    prefixes(cidr).all(|own| {
        let is_other = |other: &&Arc<ServiceCidr>| other.meta.name != cidr.meta.name;
        let mut others = all.iter().filter(is_other);
        others.any(|other| prefixes(other).any(|theirs| theirs.contains(&own)))
    })
}

/// True if `ip` is a cluster IP with the family of a range of `cidr`, and is in no other
/// ServiceCIDR.
fn is_only_in(all: &[Arc<ServiceCidr>], ip: &IpAddress, cidr: &ServiceCidr) -> bool {
    let family = ip.meta.labels.get(FAMILY);
    let has_family = |own: Cidr| family.is_some_and(|label| *label == *own.family().as_str());
    if !prefixes(cidr).any(has_family) {
        return false;
    }
    let Some(address) = allocated(ip) else {
        return false;
    };
    let mut found = with_address(all, address);
    found
        .next()
        .is_some_and(|only| only.meta.name == cidr.meta.name)
        && found.next().is_none()
}

fn with_address(
    all: &[Arc<ServiceCidr>],
    address: IpAddr,
) -> impl Iterator<Item = &Arc<ServiceCidr>> {
    all.iter()
        .filter(move |cidr| prefixes(cidr).any(|prefix| can_allocate(prefix, address)))
}

/// True if the API server can allocate `address` from `prefix`. The network address and the last
/// address of an IPv4 range are excluded.
fn can_allocate(prefix: Cidr, address: IpAddr) -> bool {
    let number = number(address);
    let is_last = prefix.family() == Family::V4 && number == prefix.last();
    prefix.contains_address(address) && number != prefix.first() && !is_last
}

/// The address of `ip` if the API server allocated it for a Service.
fn allocated(ip: &IpAddress) -> Option<IpAddr> {
    let manager = ip.meta.labels.get(MANAGED_BY)?;
    if *manager != *ALLOCATOR {
        return None;
    }
    ip.meta.name.parse().ok()
}

#[cfg(test)]
mod tests;
