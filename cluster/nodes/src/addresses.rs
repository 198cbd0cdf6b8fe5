//! Addresses of simulated pods: the next free one of each range of the node.
//!
//! node's ranges, taken addresses -> [`Addresses::assign`]; informer of pods -> taken addresses
//!
//! As with the plugin `host-local` of CNI, an address returns after all others of its range, so
//! that clients with an old address reach no other pod soon.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::{Object, Uid};
use steersman_runtime::informer::{Change, SharedInformer};

use super::pod::SimPod;

/// Position of the first address of pods in a range, after those of the network and its gateway.
const FIRST: u128 = 2;

/// The assigned addresses. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses(Arc<Mutex<Assigned>>);

#[derive(Debug, Default)]
struct Assigned {
    of: HashMap<Uid, Vec<IpAddr>>,
    taken: HashMap<IpAddr, Uid>,
    /// The position of the latest address of each range.
    latest: HashMap<Range, u128>,
    /// The number of addresses that belong to no range.
    outside: u32,
}

impl Addresses {
    /// Keeps track of the pods that have addresses.
    pub(super) fn follow(&self, pods: &SharedInformer<SimPod>) {
        let addresses = self.clone();
        pods.add_handler(move |change| match change {
            Change::Added { object: pod, .. } | Change::Updated { new: pod, .. } => {
                let uid = &pod.meta().uid;
                let seen = pod.addresses();
                if pod.pod.is_finished() {
                    addresses.release(uid);
                } else if !seen.is_empty() && !pod.constraints.host_network {
                    addresses.assigned().take(uid, &seen);
                }
            }
            Change::Deleted { object: pod, .. } => addresses.release(&pod.meta().uid),
        });
    }

    /// The addresses of a pod on a node with these ranges. A repeated call returns the same ones.
    /// Without a free address in the ranges, the pod gets one of 10.244.0.0/16.
    pub(super) fn assign(&self, pod: &Uid, ranges: &[Box<str>]) -> Vec<IpAddr> {
        let mut assigned = self.assigned();
        if let Some(known) = assigned.of.get(pod) {
            return known.clone();
        }
        let ranges = ranges.iter().filter_map(|range| Range::parse(range));
        let mut addresses: Vec<IpAddr> = ranges.filter_map(|r| assigned.next_of(r)).collect();
        if addresses.is_empty() {
            addresses.push(assigned.next_outside());
        }
        assigned.take(pod, &addresses);
        addresses
    }

    /// Frees the addresses of a pod.
    pub(super) fn release(&self, pod: &Uid) {
        let mut assigned = self.assigned();
        for address in assigned.of.remove(pod).into_iter().flatten() {
            if assigned.taken.get(&address) == Some(pod) {
                assigned.taken.remove(&address);
            }
        }
    }

    fn assigned(&self) -> MutexGuard<'_, Assigned> {
        self.0.lock()
    }
}

impl Assigned {
    fn take(&mut self, pod: &Uid, addresses: &[IpAddr]) {
        if self.of.get(pod).is_some_and(|known| *known == addresses) {
            return;
        }
        self.of.insert(pod.clone(), addresses.to_vec());
        let taken = addresses.iter().map(|address| (*address, pod.clone()));
        self.taken.extend(taken);
    }

    /// The next free address of `range`; `None` if it is full.
    fn next_of(&mut self, range: Range) -> Option<IpAddr> {
        let size = range.size();
        let mut position = self.latest.get(&range).copied().unwrap_or(size);
        // One more try than there are taken addresses finds a free one, if there is any.
        let tries = size.min(self.taken.len() as u128 + 1);
        for _ in 0..tries {
            position = if position + 1 < size { position + 1 } else { 0 };
            let address = range.address(position);
            if !self.taken.contains_key(&address) {
                self.latest.insert(range, position);
                return Some(address);
            }
        }
        None
    }

    /// An address for a pod on a node without a range. They repeat after 65,000 pods.
    fn next_outside(&mut self) -> IpAddr {
        self.outside = self.outside % 65_000 + 1;
        Ipv4Addr::from_bits(Ipv4Addr::new(10, 244, 0, 0).to_bits() + self.outside).into()
    }
}

/// A range of pod addresses, in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Range {
    network: IpAddr,
    prefix: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (network, prefix) = text.split_once('/')?;
        let network: IpAddr = network.parse().ok()?;
        let prefix: u32 = prefix.parse().ok()?;
        (prefix <= Self::bits(network)).then_some(Self { network, prefix })
    }

    fn bits(address: IpAddr) -> u32 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// Number of addresses for pods. The last address of an IPv4 range is for broadcasts.
    fn size(self) -> u128 {
        let all = 1_u128
            .checked_shl(Self::bits(self.network) - self.prefix)
            .unwrap_or(u128::MAX);
        all.saturating_sub(FIRST + u128::from(self.network.is_ipv4()))
    }

    /// The address at a position below [`Range::size`].
    fn address(self, position: u128) -> IpAddr {
        let offset = FIRST + position;
        match self.network {
            IpAddr::V4(network) => {
                // The position is in the range, so it fits.
                let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                Ipv4Addr::from_bits(network.to_bits().wrapping_add(offset)).into()
            }
            IpAddr::V6(network) => {
                Ipv6Addr::from_bits(network.to_bits().wrapping_add(offset)).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(addresses: &Addresses, pod: &str, ranges: &[&str]) -> String {
        let ranges: Vec<Box<str>> = ranges.iter().map(|range| (*range).into()).collect();
        let found = addresses.assign(&Uid::new(pod), &ranges);
        let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
        found.join(" ")
    }

    #[test]
    fn pods_get_the_next_free_address_of_each_range() {
        let addresses = Addresses::default();
        let both = ["10.128.4.0/29", "fd00:10:0:4::/64"];
        // (pod, its end before, addresses)
        let cases = [
            ("a", None, "10.128.4.2 fd00:10:0:4::2"),
            ("b", None, "10.128.4.3 fd00:10:0:4::3"),
            ("a", None, "10.128.4.2 fd00:10:0:4::2"),
            ("c", Some("a"), "10.128.4.4 fd00:10:0:4::4"),
            ("d", None, "10.128.4.5 fd00:10:0:4::5"),
            ("e", None, "10.128.4.6 fd00:10:0:4::6"),
            ("f", None, "10.128.4.2 fd00:10:0:4::7"),
            // The IPv4 range is full.
            ("g", None, "fd00:10:0:4::8"),
            ("h", Some("b"), "10.128.4.3 fd00:10:0:4::9"),
        ];
        for (pod, ended, expected) in cases {
            ended
                .iter()
                .for_each(|pod| addresses.release(&Uid::new(pod)));
            assert_eq!(assign(&addresses, pod, &both), expected, "{pod}");
        }
    }

    #[test]
    fn pods_without_a_free_address_in_a_range_get_another_one() {
        let addresses = Addresses::default();
        // (pod, ranges, address)
        let cases: [(&str, &[&str], &str); 5] = [
            ("a", &[], "10.244.0.1"),
            ("b", &["10.0.0.0/30"], "10.0.0.2"),
            ("c", &["10.0.0.0/30"], "10.244.0.2"),
            ("d", &["10.0.0.0/32"], "10.244.0.3"),
            ("e", &["10.0.0.0/33", "10.0.0.0", "x/8"], "10.244.0.4"),
        ];
        for (pod, ranges, expected) in cases {
            assert_eq!(assign(&addresses, pod, ranges), expected, "{pod}");
        }
    }

    #[test]
    fn a_seen_address_is_taken() {
        let addresses = Addresses::default();
        let seen = ["10.0.0.2".parse().unwrap()];
        addresses.assigned().take(&Uid::new("a"), &seen);
        assert_eq!(assign(&addresses, "b", &["10.0.0.0/24"]), "10.0.0.3");
        // Another pod reported the address, too; the end of the first one does not free it.
        addresses.assigned().take(&Uid::new("c"), &seen);
        addresses.release(&Uid::new("a"));
        assert_eq!(assign(&addresses, "d", &["10.0.0.0/30"]), "10.244.0.1");
    }
}
