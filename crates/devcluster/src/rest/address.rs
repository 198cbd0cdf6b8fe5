//! Cluster addresses and node ports: which are held, and which come next.
//!
//! reservation (under the lock) -> commit -> held by the stored service; a reservation that leads
//! to no commit lapses

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard};

/// Where addresses come from, as refusals name it.
pub(super) const ADDRESS_RANGE: &str = "10.96.0.0/16";
/// The first address of the range, which no service gets but in a dry run.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
/// The last one, which no service gets.
const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 96, 255, 255);
const ADDRESSES: RangeInclusive<u32> =
    u32::from_be_bytes([10, 96, 0, 1])..=u32::from_be_bytes([10, 96, 255, 254]);
/// The first address is the API server's own.
const FIRST_ADDRESS: u32 = *ADDRESSES.start() + 1;
/// Where node ports come from.
pub(super) const PORTS: RangeInclusive<u32> = 30_000..=32_767;
/// The ports that upstream makes up in a dry run come after it.
const NO_PORT: u32 = 32_768;

/// What services hold. Numbers are handed out in order, starting over at the end: one that was
/// freed rests as long as there are others.
#[derive(Debug)]
pub(super) struct Addresses {
    pools: Mutex<Pools>,
}

#[derive(Debug)]
struct Pools {
    addresses: Pool,
    ports: Pool,
}

/// What one service holds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Holdings {
    pub(super) addresses: Vec<Ipv4Addr>,
    pub(super) ports: Vec<u32>,
}

/// Why a number cannot be had.
#[derive(Debug, PartialEq)]
pub(super) enum Unavailable {
    /// Of another network.
    Elsewhere,
    OutOfRange,
    Held,
}

/// All numbers of a range are held.
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
    /// Addresses that go on from where these are, held by other services.
    pub(super) fn fork(&self, held: impl Iterator<Item = Holdings>) -> Self {
        let fork = Self::default();
        {
            let (mut pools, own) = (fork.lock(), self.lock());
            (pools.addresses.next, pools.ports.next) = (own.addresses.next, own.ports.next);
        }
        held.for_each(|holdings| fork.change(&Holdings::default(), &holdings));
        fork
    }

    /// Nothing is reserved yet.
    pub(super) fn reserve(&self, dry_run: bool) -> Reservation<'_> {
        Reservation {
            of: self,
            holdings: Holdings::default(),
            guess: dry_run.then_some(NO_PORT),
        }
    }

    /// A service that held `old` now holds `new`.
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
        self.pools
            .lock()
            .expect("nothing panics while it holds the lock")
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

/// Numbers that nobody else gets until this is dropped; from its commit on the stored service holds
/// them itself.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    of: &'a Addresses,
    holdings: Holdings,
    /// In a dry run, which takes nothing that is free, the port that was last made up.
    guess: Option<u32>,
}

impl Reservation<'_> {
    /// The next address that is free.
    pub(super) fn next_address(&mut self) -> Result<Ipv4Addr, Full> {
        if self.guess.is_some() {
            return Ok(NETWORK);
        }
        let address = Ipv4Addr::from(self.of.lock().addresses.take()?);
        self.holdings.addresses.push(address);
        Ok(address)
    }

    /// This address and no other.
    pub(super) fn address(&mut self, address: Ipv4Addr) -> Result<(), Unavailable> {
        if !(NETWORK..=BROADCAST).contains(&address) {
            return Err(Unavailable::Elsewhere);
        }
        self.of.lock().addresses.claim(u32::from(address))?;
        self.holdings.addresses.push(address);
        Ok(())
    }

    /// The next port that is free.
    pub(super) fn next_port(&mut self) -> Result<u32, Full> {
        if let Some(last) = &mut self.guess {
            *last += 1;
            return Ok(*last);
        }
        let port = self.of.lock().ports.take()?;
        self.holdings.ports.push(port);
        Ok(port)
    }

    /// This port and no other. One service may have it for several protocols.
    pub(super) fn port(&mut self, port: u32) -> Result<(), Unavailable> {
        if !self.holdings.ports.contains(&port) {
            self.of.lock().ports.claim(port)?;
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

/// A range of numbers.
#[derive(Debug)]
struct Pool {
    range: RangeInclusive<u32>,
    next: u32,
    /// How often each is held: a reservation and the service it was for overlap, and services may
    /// be loaded that have the same.
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

    fn take(&mut self) -> Result<u32, Full> {
        let (first, last) = (*self.range.start(), *self.range.end());
        let mut order = (self.next..=last).chain(first..self.next);
        let found = order
            .find(|number| !self.held.contains_key(number))
            .ok_or(Full)?;
        self.next = if found == last { first } else { found + 1 };
        self.hold(found);
        Ok(found)
    }

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
    fn a_freed_number_comes_again_after_all_others() {
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
    fn a_number_is_held_until_all_who_hold_it_let_go() {
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
    fn a_reservation_lapses_unless_a_service_was_stored_with_it() {
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
    fn a_dry_run_takes_nothing() {
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
