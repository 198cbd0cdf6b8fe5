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

/// The service CIDR, in the form of error messages.
pub(super) const ADDRESS_RANGE: &str = "10.96.0.0/16";
/// The network address. No Service gets it, but dry runs answer with it, as upstream's do.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
/// The broadcast address, which no Service gets.
const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 96, 255, 255);
const ADDRESSES: RangeInclusive<u32> =
    u32::from_be_bytes([10, 96, 0, 1])..=u32::from_be_bytes([10, 96, 255, 254]);
/// Follows the address of the Service `default/kubernetes`.
const FIRST_ADDRESS: u32 = *ADDRESSES.start() + 1;
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

/// All numbers of a range are allocated.
#[derive(Debug, PartialEq)]
pub(super) struct Full;

impl Default for Addresses {
    fn default() -> Self {
        let pools = Pools {
            addresses: Pool::new(ADDRESSES, FIRST_ADDRESS),
            ports: Pool::new(PORTS, *PORTS.start()),
        };
        Self {
            pools: Mutex::new(pools),
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
            (pools.addresses.next, pools.ports.next) = (own.addresses.next, own.ports.next);
        }
        held.for_each(|holdings| fork.change(&Holdings::default(), &holdings));
        fork
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
    /// Reserves the next free address.
    pub(super) fn next_address(&mut self) -> Result<Ipv4Addr, Full> {
        if self.guess.is_some() {
            return Ok(NETWORK);
        }
        let address = Ipv4Addr::from(self.of.lock().addresses.take()?);
        self.holdings.addresses.push(address);
        Ok(address)
    }

    /// Reserves this address.
    pub(super) fn address(&mut self, address: Ipv4Addr) -> Result<(), Unavailable> {
        if !(NETWORK..=BROADCAST).contains(&address) {
            return Err(Unavailable::Elsewhere);
        }
        self.of.lock().addresses.claim(u32::from(address))?;
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
            (Ok(NETWORK), Ok(32_769), Ok(32_770))
        );
        drop(tried);
        let first = (Ok(Ipv4Addr::from(FIRST_ADDRESS)), Ok(*PORTS.start()));
        let mut reservation = addresses.reserve(false);
        assert_eq!((reservation.next_address(), reservation.next_port()), first);
    }
}
