//! What can happen next in a world.

use std::fmt;

use crate::world::{Index, World};

/// One step of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A tick passes on all clocks. The clock of `drifting` goes two ticks or none.
    Tick {
        /// The process whose clock goes at another rate.
        drifting: Option<Index>,
    },
    /// A process starts.
    Start(Index),
    /// A process ends at once. Its writes stay under way.
    Crash(Index),
    /// A process freezes.
    Pause(Index),
    /// A frozen process goes on.
    Resume(Index),
    /// A process is asked to end, and stops its workers.
    Stop(Index),
    /// A replica counts the replicas by their Leases of members.
    Count(Index),
    /// A process takes a Lease.
    Take(LeaseWrite),
    /// A process renews a Lease.
    Renew(LeaseWrite),
    /// A replica with more than its share stops the workers of a range.
    Yield(Index, Index),
    /// A replica gives up the Lease of a range.
    Release(Index, Index),
    /// A replica lists a range.
    List(List),
    /// The watch of a replica brings the next object of a range.
    Deliver(Index, Index),
    /// A process sends a creation for a range.
    Create(Index, Index),
    /// A process sends an update for a range.
    Update(Index, Index),
    /// The API server handles the write of a process for a range.
    Arrive(Index, Index),
    /// The write of a process for a range is lost or refused. A sender that waits for the answer learns it.
    Lose(Index, Index),
    /// The sender of a write gets an error that leaves the result open. The write goes on.
    Abandon(Index, Index),
}

/// A list of a range. An API server may answer it from a watch cache that is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// The process that lists.
    pub process: Index,
    /// The range.
    pub range: Index,
    /// The age of the version of the list.
    pub age: u8,
}

/// A write of a Lease, which the API server handles at once. A term begins when its request is sent, so a later
/// answer only shortens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The process that writes.
    pub process: Index,
    /// The Lease.
    pub lease: Index,
    /// Whether the process gets the answer.
    pub answered: bool,
}

impl Action {
    /// Whether this action is a fault, a request of an operator, or a drift of a clock. Some way without such actions
    /// must lead to a holder of each range.
    pub fn is_from_outside(&self) -> bool {
        match self {
            Self::Start(_) | Self::Crash(_) | Self::Pause(_) | Self::Resume(_) | Self::Stop(_) => {
                true
            }
            Self::Tick { drifting } => drifting.is_some(),
            Self::Take(write) | Self::Renew(write) => !write.answered,
            Self::Lose(..) | Self::Abandon(..) => true,
            _ => false,
        }
    }

    /// The action in words.
    pub fn describe<'a>(&'a self, world: &'a World) -> impl fmt::Display + 'a {
        Described {
            action: self,
            world,
        }
    }
}

struct Described<'a> {
    action: &'a Action,
    world: &'a World,
}

impl Described<'_> {
    fn process(&self, process: Index) -> String {
        if self.world.is_upstream(process) {
            return "upstream's manager".to_owned();
        }
        format!("replica {process}")
    }

    fn lease(&self, lease: Index) -> String {
        if self.world.common() == Some(lease) {
            return "the common Lease".to_owned();
        }
        format!("the Lease of range {lease}")
    }

    fn lease_write(&self, verb: &str, write: &LeaseWrite) -> String {
        let process = self.process(write.process);
        let lease = self.lease(write.lease);
        let end = if write.answered {
            ""
        } else {
            ", and the answer is lost"
        };
        format!("{process} {verb} {lease}{end}")
    }

    fn list(&self, list: &List) -> String {
        let process = self.process(list.process);
        let range = list.range;
        let end = if list.age == 0 {
            ""
        } else {
            " without its last object"
        };
        format!("{process} lists range {range}{end}")
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |process: &Index| self.process(*process);
        match self.action {
            Action::Tick { drifting: None } => write!(f, "a tick passes"),
            Action::Tick {
                drifting: Some(process),
            } => write!(
                f,
                "a tick passes, and the clock of {} drifts",
                named(process)
            ),
            Action::Start(process) => write!(f, "{} starts", named(process)),
            Action::Crash(process) => write!(f, "{} crashes", named(process)),
            Action::Pause(process) => write!(f, "{} freezes", named(process)),
            Action::Resume(process) => write!(f, "{} goes on", named(process)),
            Action::Stop(process) => write!(f, "{} is asked to stop", named(process)),
            Action::Count(process) => write!(f, "{} counts the replicas", named(process)),
            Action::Take(write) => write!(f, "{}", self.lease_write("takes", write)),
            Action::Renew(write) => write!(f, "{}", self.lease_write("renews", write)),
            Action::Yield(process, range) => {
                write!(f, "{} stops its workers of range {range}", named(process))
            }
            Action::Release(process, lease) => {
                write!(f, "{} releases {}", named(process), self.lease(*lease))
            }
            Action::List(list) => write!(f, "{}", self.list(list)),
            Action::Deliver(process, range) => {
                write!(
                    f,
                    "the watch of {} brings an object of range {range}",
                    named(process)
                )
            }
            Action::Create(process, range) => {
                write!(f, "{} sends a creation for range {range}", named(process))
            }
            Action::Update(process, range) => {
                write!(f, "{} sends an update for range {range}", named(process))
            }
            Action::Arrive(process, range) => {
                write!(
                    f,
                    "the write of {} for range {range} arrives",
                    named(process)
                )
            }
            Action::Lose(process, range) => {
                write!(
                    f,
                    "the write of {} for range {range} is lost",
                    named(process)
                )
            }
            Action::Abandon(process, range) => {
                write!(
                    f,
                    "{} gets an error for its write for range {range}, which goes on",
                    named(process)
                )
            }
        }
    }
}
