//! The state of a world: the records of Leases, and what each process knows, holds and has sent.

use crate::world::{Index, World};

/// The most processes of a world.
pub const PROCESSES: usize = 3;
/// The most Leases of a world.
pub const LEASES: usize = 3;

/// Everything that the next action depends on. Times are ages, so that equal situations are equal states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// The holder in the record of each Lease.
    pub holders: [Holder; LEASES],
    /// The processes.
    pub processes: [Process; PROCESSES],
}

/// The holder in the record of a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// None: the Lease is new or was released.
    Free,
    /// A replica that runs.
    Replica(u8),
    /// The replicas together. Only the common Lease has this holder.
    Group,
    /// Upstream's manager. Only the common Lease has this holder.
    Upstream,
    /// A process that has ended. The next start of it has another name.
    Gone,
}

impl Holder {
    /// The holder that `process` writes into `lease`.
    pub fn of(world: &World, process: Index, lease: Index) -> Self {
        if world.is_upstream(process) {
            Self::Upstream
        } else if world.common() == Some(lease) {
            Self::Group
        } else {
            Self::Replica(process as u8)
        }
    }
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// Whether it runs.
    pub phase: Phase,
    /// Whether its clock is a tick ahead of the others.
    pub ahead: bool,
    /// The number of replicas that it knows of.
    pub members: u8,
    /// What it knows of each Lease, and of the range that belongs to the Lease.
    pub places: [Place; LEASES],
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not started, or has ended.
    Down,
    /// It runs.
    Running,
    /// It runs, and gives up its Leases to end.
    Stopping,
    /// It is frozen. Its clock goes on.
    Paused,
}

/// What a process knows of one Lease and of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Whether the process holds the Lease.
    pub seat: Seat,
    /// The time since the process saw the record change, by its clock.
    pub seen: u8,
    /// The age of the process's cache of the range.
    pub cache: Cache,
    /// The write for this range that is under way, if any. It outlives its sender.
    pub write: Option<Write>,
}

/// Whether a process holds a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seat {
    /// It waits for the Lease.
    Candidate,
    /// It holds the Lease. `elapsed` is the time since its last renewal, by its clock.
    Holding {
        /// The time since the last renewal.
        elapsed: u8,
    },
    /// It has stopped the workers of the range, and renews the Lease until the range's requests have ended.
    Releasing {
        /// The time since the last renewal.
        elapsed: u8,
    },
}

/// The age of the cache of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cache {
    /// It has all objects of the range.
    Current,
    /// It lacks objects, all from after the start of the term.
    Behind,
    /// It may lack objects from before the start of the term, or of the process's own writes.
    Older,
}

/// A write on its way to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// Whether it is a creation or an update.
    pub kind: Kind,
    /// Whether the sender still runs, and waits for the answer.
    pub awaited: bool,
    /// Whether the term of the sender goes on.
    pub in_term: bool,
}

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A creation or deletion. `age` is the time since it was sent.
    Creation {
        /// The time since it was sent.
        age: u8,
    },
    /// An update. `newest` tells whether the object still has the version that the sender saw.
    Update {
        /// Whether the object is unchanged.
        newest: bool,
    },
}

impl State {
    /// The first state: no process runs, and no Lease has a holder.
    pub const START: Self = Self {
        holders: [Holder::Free; LEASES],
        processes: [Process::DOWN; PROCESSES],
    };

    /// The replicas that run, paused ones left out.
    pub fn running_replicas(&self, world: &World) -> usize {
        let replicas = &self.processes[..world.replicas];
        let is_running = |process: &&Process| process.phase == Phase::Running;
        replicas.iter().filter(is_running).count()
    }

    /// Whether `process` may write for `range`: its gate is open. A process whose term has run out is down.
    pub fn leads(&self, world: &World, process: Index, range: Index) -> bool {
        let places = &self.processes[process].places;
        let holds = |lease: Index| matches!(places[lease].seat, Seat::Holding { .. });
        if world.is_upstream(process) {
            return holds(world.ranges);
        }
        let needs_common = world.rules.common_lease;
        let has_common = world.common().is_none_or(holds) || !needs_common;
        holds(range) && has_common
    }
}

impl Process {
    /// A process that does not run.
    pub const DOWN: Self = Self {
        phase: Phase::Down,
        ahead: false,
        members: 1,
        places: [Place::EMPTY; LEASES],
    };

    /// Whether this process acts.
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Stopping)
    }

    /// The ranges for which this process has a seat.
    pub fn held(&self, world: &World) -> usize {
        let ranges = &self.places[..world.ranges];
        ranges
            .iter()
            .filter(|place| place.seat != Seat::Candidate)
            .count()
    }
}

impl Place {
    /// The place of a process that has just started.
    pub const EMPTY: Self = Self {
        seat: Seat::Candidate,
        seen: 0,
        cache: Cache::Behind,
        write: None,
    };

    /// Whether the sender of the write waits for its answer.
    pub fn awaits_answer(&self) -> bool {
        self.write.is_some_and(|write| write.awaited)
    }
}

impl Seat {
    /// The time since the last renewal, if the process holds the Lease.
    pub fn elapsed(self) -> Option<u8> {
        match self {
            Self::Candidate => None,
            Self::Holding { elapsed } | Self::Releasing { elapsed } => Some(elapsed),
        }
    }

    /// The same seat, `time` after the last renewal.
    pub fn after(self, time: u8) -> Self {
        match self {
            Self::Candidate => Self::Candidate,
            Self::Holding { .. } => Self::Holding { elapsed: time },
            Self::Releasing { .. } => Self::Releasing { elapsed: time },
        }
    }
}
