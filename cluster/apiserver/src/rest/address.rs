//! Allocates cluster IPs and node ports of Services.
//!
//! reservation (under the lock) -> commit -> allocated to the stored Service; a dropped reservation
//! frees numbers that no stored Service has
//!
//! Upstream's allocators are `pkg/registry/core/service/ipallocator` and `portallocator`. Numbers
//! are assigned in order here, so that tests repeat; upstream assigns at random.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use parking_lot::{Mutex, MutexGuard};
use steersman_values::cidr::{Cidr, Family};

/// The service CIDR 10.96.0.0/16, without another one.
const DEFAULT_NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const DEFAULT_LENGTH: u8 = 16;
/// Lengths of prefixes: kube-apiserver wants at least 8 and at most 2^20 addresses.
const LENGTHS: RangeInclusive<u8> = 12..=29;
/// The range of node ports.
pub(super) const PORTS: RangeInclusive<u32> = 30_000..=32_767;
/// Dry runs answer with invented ports above this number, as upstream's do.
const NO_PORT: u32 = 32_768;

/// The allocated numbers of all Services. Numbers are assigned in order and start over at the end
/// of the range. A freed number is therefore assigned after all others.
#[derive(Debug)]
pub(crate) struct Addresses {
    pools: Mutex<Pools>,
}

#[derive(Debug)]
struct Pools {
    /// The service CIDR. No Service gets its first and its last address.
    network: RangeInclusive<u32>,
    /// The same, in the form of error messages.
    cidr: Cidr,
    addresses: Pool,
    ports: Pool,
}

/// The numbers of one Service.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Holdings {
    pub(super) addresses: Vec<Ipv4Addr>,
    pub(super) ports: Vec<u32>,
}

/// The reason why a number cannot be allocated.
#[derive(Debug, PartialEq)]
pub(super) enum Unavailable {
    /// The address belongs to another network.
    Elsewhere,
    OutOfRange,
    Held,
}

/// A service CIDR that the server cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRangeError {
    /// Services have IPv4 addresses.
    #[error("Services have IPv4 addresses here, so {0} is no range for them")]
    Family(Cidr),
    /// Upstream: `validateClusterIPFlags` of `pkg/controlplane/apiserver/options`, and
    /// `ServiceIPRange` of `pkg/controlplane`.
    #[error("the mask of {0} must be /12 to /29")]
    Size(Cidr),
}

/// All numbers of a range are allocated.
#[derive(Debug, PartialEq)]
pub(super) struct Full;

impl Default for Addresses {
    fn default() -> Self {
        let cidr = Cidr::new(Family::V4, u128::from(DEFAULT_NETWORK), DEFAULT_LENGTH);
        Self {
            pools: Mutex::new(Pools::of(cidr)),
        }
    }
}

impl Addresses {
    /// Allocators for a fork: the same next numbers, and the allocations of the fork's own
    /// Services.
    pub(crate) fn fork(&self, held: impl Iterator<Item = Holdings>) -> Self {
        let fork = Self::default();
        {
            let mut pools = fork.lock();
            let own = self.lock();
            *pools = Pools::of(own.cidr);
            pools.addresses.next = own.addresses.next;
            pools.ports.next = own.ports.next;
        }
        held.for_each(|holdings| fork.change(&Holdings::default(), &holdings));
        fork
    }

    /// Replaces the service CIDR. No Service may exist.
    pub(crate) fn set_range(&self, cidr: Cidr) -> Result<(), ServiceRangeError> {
        if cidr.family() != Family::V4 {
            return Err(ServiceRangeError::Family(cidr));
        }
        if !LENGTHS.contains(&cidr.length()) {
            return Err(ServiceRangeError::Size(cidr));
        }
        *self.lock() = Pools::of(cidr);
        Ok(())
    }

    /// The service CIDR.
    pub(super) fn range(&self) -> Cidr {
        self.lock().cidr
    }

    /// The address of the Service `default/kubernetes`, which is the first one.
    pub(super) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(*self.lock().addresses.range.start())
    }

    /// An empty reservation.
    pub(super) fn reserve(&self, dry_run: bool) -> Reservation<'_> {
        Reservation {
            of: self,
            holdings: Holdings::default(),
            guess: dry_run.then_some(NO_PORT),
        }
    }

    /// Replaces the allocations of a Service. New numbers are held before old ones are freed, so a
    /// number in both stays allocated.
    pub(super) fn change(&self, old: &Holdings, new: &Holdings) {
        let mut pools = self.lock();
        for address in &new.addresses {
            pools.addresses.hold(u32::from(*address));
        }
        for port in &new.ports {
            pools.ports.hold(*port);
        }
        pools.release(old);
    }

    fn lock(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock()
    }
}

impl Pools {
    /// Free pools. The first address is left to the Service `default/kubernetes`.
    fn of(cidr: Cidr) -> Self {
        let bits = |number: u128| u32::try_from(number).expect("an IPv4 address has 32 bits");
        let network = bits(cidr.first())..=bits(cidr.last());
        let range = network.start() + 1..=network.end() - 1;
        let next = range.start() + 1;
        Self {
            network,
            cidr,
            addresses: Pool::new(range, next),
            ports: Pool::new(PORTS, *PORTS.start()),
        }
    }

    fn release(&mut self, holdings: &Holdings) {
        for address in &holdings.addresses {
            self.addresses.release(u32::from(*address));
        }
        for port in &holdings.ports {
            self.ports.release(*port);
        }
    }
}

/// Numbers that are held until this is dropped. A stored Service holds its numbers itself, from its
/// commit on.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    of: &'a Addresses,
    holdings: Holdings,
    /// The last invented port of a dry run, which allocates no free numbers.
    guess: Option<u32>,
}

impl Reservation<'_> {
    /// The service CIDR.
    pub(super) fn range(&self) -> Cidr {
        self.of.range()
    }

    /// Reserves the next free address.
    pub(super) fn next_address(&mut self) -> Result<Ipv4Addr, Full> {
        let mut pools = self.of.lock();
        // No Service gets the network address, but dry runs answer with it, as upstream's do.
        if self.guess.is_some() {
            return Ok(Ipv4Addr::from(*pools.network.start()));
        }
        let address = Ipv4Addr::from(pools.addresses.take()?);
        self.holdings.addresses.push(address);
        Ok(address)
    }

    /// Reserves this address. A dry run only asks for the range, so it takes held addresses, too.
    /// Upstream: `allocateService` of `pkg/registry/core/service/ipallocator`.
    pub(super) fn address(&mut self, address: Ipv4Addr) -> Result<(), Unavailable> {
        let mut pools = self.of.lock();
        if self.guess.is_some() {
            let is_in_range = pools.addresses.range.contains(&u32::from(address));
            return is_in_range.then_some(()).ok_or(Unavailable::OutOfRange);
        }
        if !pools.network.contains(&u32::from(address)) {
            return Err(Unavailable::Elsewhere);
        }
        pools.addresses.claim(u32::from(address))?;
        self.holdings.addresses.push(address);
        Ok(())
    }

    /// Reserves the next free port.
    pub(super) fn next_port(&mut self) -> Result<u32, Full> {
        if let Some(last) = &mut self.guess {
            *last += 1;
            return Ok(*last);
        }
        let port = self.of.lock().ports.take()?;
        self.holdings.ports.push(port);
        Ok(port)
    }

    /// Reserves this port. Ports of one Service may share it for several protocols. A dry run
    /// ignores the range. Upstream: `pkg/registry/core/service/portallocator/operation.go`.
    pub(super) fn port(&mut self, port: u32) -> Result<(), Unavailable> {
        if !self.holdings.ports.contains(&port) {
            match self.of.lock().ports.claim(port) {
                Err(Unavailable::OutOfRange) if self.guess.is_some() => return Ok(()),
                claimed => claimed?,
            }
            self.holdings.ports.push(port);
        }
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.of.lock().release(&self.holdings);
    }
}

/// A range of numbers with its allocations.
#[derive(Debug)]
struct Pool {
    range: RangeInclusive<u32>,
    next: u32,
    /// Number of holders. A reservation and its Service overlap, and loaded objects may share a
    /// number.
    held: HashMap<u32, u32>,
}

impl Pool {
    fn new(range: RangeInclusive<u32>, next: u32) -> Self {
        Self {
            range,
            next,
            held: HashMap::new(),
        }
    }

    /// Holds the next free number, in order from the number after the last one.
    fn take(&mut self) -> Result<u32, Full> {
        let first = *self.range.start();
        let last = *self.range.end();
        let mut order = (self.next..=last).chain(first..self.next);
        let found = order
            .find(|number| !self.held.contains_key(number))
            .ok_or(Full)?;
        self.next = if found == last { first } else { found + 1 };
        self.hold(found);
        Ok(found)
    }

    /// Holds this number.
    fn claim(&mut self, number: u32) -> Result<(), Unavailable> {
        if !self.range.contains(&number) {
            return Err(Unavailable::OutOfRange);
        }
        if self.held.contains_key(&number) {
            return Err(Unavailable::Held);
        }
        self.hold(number);
        Ok(())
    }

    fn hold(&mut self, number: u32) {
        *self.held.entry(number).or_default() += 1;
    }

    fn release(&mut self, number: u32) {
        if let Some(count) = self.held.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_number_is_assigned_after_all_others() {
        let mut pool = Pool::new(1..=3, 2);
        assert_eq!(
            (pool.take(), pool.take(), pool.take()),
            (Ok(2), Ok(3), Ok(1))
        );
        assert_eq!(pool.take(), Err(Full));
        pool.release(3);
        pool.release(1);
        assert_eq!(
            (pool.take(), pool.take(), pool.take()),
            (Ok(3), Ok(1), Err(Full))
        );
    }

    #[test]
    fn a_number_is_free_after_all_its_holders_release_it() {
        let mut pool = Pool::new(1..=3, 1);
        assert_eq!(pool.claim(4), Err(Unavailable::OutOfRange));
        assert_eq!(pool.claim(2), Ok(()));
        pool.hold(2);
        pool.release(2);
        assert_eq!(pool.claim(2), Err(Unavailable::Held));
        pool.release(2);
        pool.release(2);
        assert_eq!(pool.claim(2), Ok(()));
    }

    #[test]
    fn dropping_a_reservation_frees_numbers_without_a_service() {
        let addresses = Addresses::default();
        let wanted = Ipv4Addr::new(10, 96, 0, 9);
        let mut reservation = addresses.reserve(false);
        assert_eq!(
            (
                reservation.address(wanted),
                reservation.port(30_001),
                reservation.port(30_001)
            ),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(
            addresses.reserve(false).address(wanted),
            Err(Unavailable::Held)
        );
        drop(reservation);

        let mut reservation = addresses.reserve(false);
        assert_eq!(reservation.address(wanted), Ok(()));
        let holdings = Holdings {
            addresses: vec![wanted],
            ports: Vec::new(),
        };
        addresses.change(&Holdings::default(), &holdings);
        drop(reservation);
        assert_eq!(
            addresses.reserve(false).address(wanted),
            Err(Unavailable::Held)
        );
        addresses.change(&holdings, &Holdings::default());
        assert_eq!(addresses.reserve(false).address(wanted), Ok(()));
    }

    #[test]
    fn a_dry_run_allocates_no_numbers() {
        let addresses = Addresses::default();
        let mut tried = addresses.reserve(true);
        assert_eq!(
            (tried.next_address(), tried.next_port(), tried.next_port()),
            (Ok(Ipv4Addr::from(DEFAULT_NETWORK)), Ok(32_769), Ok(32_770))
        );
        let held = Holdings {
            addresses: vec![Ipv4Addr::from(DEFAULT_NETWORK + 1)],
            ports: Vec::new(),
        };
        addresses.change(&Holdings::default(), &held);
        assert_eq!(tried.address(held.addresses[0]), Ok(()));
        for outside in [DEFAULT_NETWORK, DEFAULT_NETWORK - 1] {
            let outside = Ipv4Addr::from(outside);
            assert_eq!(tried.address(outside), Err(Unavailable::OutOfRange));
        }
        drop(tried);
        let first = (Ok(Ipv4Addr::from(DEFAULT_NETWORK + 2)), Ok(*PORTS.start()));
        let mut reservation = addresses.reserve(false);
        assert_eq!((reservation.next_address(), reservation.next_port()), first);
    }

    #[test]
    fn a_fork_has_the_service_cidr_of_its_parent() {
        let addresses = Addresses::default();
        let cidr = |text: &str| Cidr::parse(text).unwrap();
        let refused = ["10.0.0.0/11", "10.0.0.0/30"].map(cidr);
        for cidr in refused {
            assert_eq!(
                addresses.set_range(cidr),
                Err(ServiceRangeError::Size(cidr))
            );
        }
        let other = cidr("fd00::/108");
        assert_eq!(
            addresses.set_range(other),
            Err(ServiceRangeError::Family(other))
        );
        addresses.set_range(cidr("10.0.0.0/24")).unwrap();
        let fork = addresses.fork(std::iter::empty());
        assert_eq!(fork.first(), Ipv4Addr::new(10, 0, 0, 1));
        let mut reservation = fork.reserve(false);
        assert_eq!(
            (
                reservation.next_address(),
                reservation.address(Ipv4Addr::new(10, 0, 0, 255)),
                reservation.address(Ipv4Addr::new(10, 96, 0, 9)),
            ),
            (
                Ok(Ipv4Addr::new(10, 0, 0, 2)),
                Err(Unavailable::OutOfRange),
                Err(Unavailable::Elsewhere)
            )
        );
    }
}
