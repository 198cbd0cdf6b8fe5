//! The state of a world: the records of Leases, and what each process knows, holds and has sent.

use crate::world::{Index, World};

/// The most processes of a world.
pub const PROCESSES: usize = 3;
/// The most Leases of a world.
pub const LEASES: usize = 3;
/// The age of a version that is unknown, or older than the ages that a state tells apart.
pub const OLD: u8 = 2;

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
    Paused {
        /// Whether it was giving up its Leases.
        stopping: bool,
    },
}

/// What a process knows of one Lease and of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Whether the process holds the Lease.
    pub seat: Seat,
    /// The time since the process saw the record change, by its clock.
    pub seen: u8,
    /// The process's cache of the range.
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

/// The cache of a range, and the versions that it must reach. The age of a version is the number of creations that the
/// API server has accepted for the range since then, or [`OLD`]. A range has objects from before the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cache {
    /// The age of the version that the cache shows. A cache with the age [`OLD`] needs a list.
    pub shown: u8,
    /// The age of the version that the cache must reach before the next decision, as far as the process knows. [`OLD`]
    /// once it is reached.
    pub known: u8,
    /// The age of the last object from before the term or from the process itself, as it truly is. [`OLD`] once the
    /// cache has it.
    pub needed: u8,
}

/// A write on its way to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// Whether it is a creation or an update.
    pub kind: Kind,
    /// What the sender knows of it.
    pub sender: Sender,
    /// Whether the record has had no other holder since it was sent.
    pub unsucceeded: bool,
}

/// What the sender of a write knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The sender waits for the answer.
    Waits,
    /// The sender got an error, which leaves the result open.
    Doubts,
    /// The sender has ended.
    Gone,
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
    /// The first state: all processes are down, and all Leases are free.
    pub const START: Self = Self {
        holders: [Holder::Free; LEASES],
        processes: [Process::DOWN; PROCESSES],
    };

    /// The number of replicas that run. Those that are paused or that stop are left out.
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
        cache: Cache::EMPTY,
        write: None,
    };

    /// Whether the sender of the write waits for its answer.
    pub fn awaits_answer(&self) -> bool {
        self.write
            .is_some_and(|write| write.sender == Sender::Waits)
    }

    /// Whether a creation is under way.
    pub fn has_creation(&self) -> bool {
        self.write.is_some_and(Write::is_creation)
    }
}

impl Write {
    /// Whether it is a creation.
    pub fn is_creation(self) -> bool {
        matches!(self.kind, Kind::Creation { .. })
    }
}

impl Cache {
    /// The cache of a process that has just started.
    pub const EMPTY: Self = Self {
        shown: OLD,
        known: OLD,
        needed: OLD,
    };

    /// Whether the cache has reached all versions that its process knows of. The guard of decisions.
    pub fn is_fresh(&self) -> bool {
        self.shown < OLD && self.known == OLD
    }

    /// Whether the cache has all objects that a decision must see.
    pub fn is_complete(&self) -> bool {
        self.shown < OLD && self.needed == OLD
    }

    /// The same cache after the API server has accepted a creation.
    #[must_use]
    pub fn outdated(self) -> Self {
        let older = |age: u8| (age + 1).min(OLD);
        Self {
            shown: older(self.shown),
            known: older(self.known),
            needed: older(self.needed),
        }
    }

    /// The same cache at a version of the age `shown`.
    #[must_use]
    pub fn at(self, shown: u8) -> Self {
        Self { shown, ..self }.settled()
    }

    /// The same cache after its process has learned the newest version. The next decision waits for it.
    #[must_use]
    pub fn awaiting(self) -> Self {
        Self { known: 0, ..self }.settled()
    }

    /// The same cache after the newest object has become one that a decision must see.
    #[must_use]
    pub fn needing(self) -> Self {
        Self { needed: 0, ..self }.settled()
    }

    /// The same cache in a process that does not hold the range: only its version counts.
    #[must_use]
    pub fn idle(self) -> Self {
        Self {
            shown: self.shown,
            ..Self::EMPTY
        }
    }

    /// Forgets the versions that the cache has reached, since it never loses them. Equal situations are then equal
    /// states.
    fn settled(self) -> Self {
        let unless_reached = |age: u8| if self.shown <= age { OLD } else { age };
        Self {
            shown: self.shown,
            known: unless_reached(self.known),
            needed: unless_reached(self.needed),
        }
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
