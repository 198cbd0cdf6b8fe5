//! The rules that hold in each state and for each write.

use std::fmt;

use crate::state::{Holder, Seat, State};
use crate::world::{Index, World};

/// A rule that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Two processes may write for one range.
    TwoHolders(Index),
    /// A process holds a Lease that names another holder.
    RecordDisagrees(Index),
    /// The API server accepts a creation after its sender's Lease was released or taken.
    TwoWriters(Index),
    /// The API server accepts an update of an object that has changed since.
    LostUpdate(Index),
    /// A holder decides by a cache that lacks an object from before its Lease, or an own one.
    StaleDecision(Index),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders(range) => write!(f, "two processes may write for range {range}"),
            Self::RecordDisagrees(lease) => write!(f, "Lease {lease} names another holder"),
            Self::TwoWriters(range) => {
                write!(
                    f,
                    "range {range} accepts a creation after its sender's Lease was released or taken"
                )
            }
            Self::LostUpdate(range) => write!(f, "range {range} loses an update"),
            Self::StaleDecision(range) => {
                write!(
                    f,
                    "the holder of range {range} decides by a cache that lacks objects"
                )
            }
        }
    }
}

/// Checks the rules about holders.
///
/// # Errors
///
/// The first rule that does not hold in `state`.
pub fn check(world: &World, state: &State) -> Result<(), Violation> {
    for range in 0..world.ranges {
        if leaders(world, state, range).count() > 1 {
            return Err(Violation::TwoHolders(range));
        }
    }
    for process in world.processes() {
        for lease in world.leases_of(process) {
            check_record(world, state, process, lease)?;
        }
    }
    Ok(())
}

fn check_record(
    world: &World,
    state: &State,
    process: Index,
    lease: Index,
) -> Result<(), Violation> {
    let has_seat = state.processes[process].places[lease].seat != Seat::Candidate;
    if has_seat && state.holders[lease] != Holder::of(world, process, lease) {
        return Err(Violation::RecordDisagrees(lease));
    }
    Ok(())
}

fn leaders<'a>(
    world: &'a World,
    state: &'a State,
    range: Index,
) -> impl Iterator<Item = Index> + 'a {
    world
        .processes()
        .filter(move |process| state.leads(world, *process, range))
}

/// Whether each range has a holder that acts. Upstream's manager is the holder of all ranges.
pub fn is_served(world: &World, state: &State) -> bool {
    let has_holder = |range: Index| {
        leaders(world, state, range).any(|process| state.processes[process].is_active())
    };
    (0..world.ranges).all(has_holder)
}
