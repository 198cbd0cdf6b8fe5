//! The actions that a state allows.

use crate::action::{Action, LeaseWrite, List};
use crate::state::{Holder, OLD, Phase, Place, Process, Seat, State};
use crate::world::{Drain, Index, World, Writes};

/// All actions that can happen next in `state`.
pub fn actions(world: &World, state: &State) -> Vec<Action> {
    let mut found = vec![Action::Tick { drifting: None }];
    for process in world.processes() {
        of_clock(world, state, process, &mut found);
        of_life(world, state, process, &mut found);
        for lease in world.leases_of(process) {
            of_lease(world, state, process, lease, &mut found);
        }
        for range in 0..world.ranges {
            of_seat(world, state, process, range, &mut found);
            of_work(world, state, process, range, &mut found);
            of_network(state, process, range, &mut found);
        }
    }
    found
}

fn of_clock(world: &World, state: &State, process: Index, found: &mut Vec<Action>) {
    if world.drift && state.processes[process].phase != Phase::Down {
        found.push(Action::Tick {
            drifting: Some(process),
        });
    }
}

fn of_life(world: &World, state: &State, process: Index, found: &mut Vec<Action>) {
    match state.processes[process].phase {
        Phase::Down => found.push(Action::Start(process)),
        Phase::Running => {
            found.push(Action::Crash(process));
            found.push(Action::Pause(process));
            if !world.is_upstream(process) {
                found.push(Action::Stop(process));
                of_count(world, state, process, found);
            }
        }
        Phase::Stopping => {
            found.push(Action::Crash(process));
            found.push(Action::Pause(process));
        }
        Phase::Paused { .. } => {
            found.push(Action::Crash(process));
            found.push(Action::Resume(process));
        }
    }
}

/// The number of replicas matters only for a share of several ranges.
fn of_count(world: &World, state: &State, process: Index, found: &mut Vec<Action>) {
    let is_wrong = usize::from(state.processes[process].members) != state.running_replicas(world);
    if world.ranges > 1 && is_wrong {
        found.push(Action::Count(process));
    }
}

fn of_lease(world: &World, state: &State, process: Index, lease: Index, found: &mut Vec<Action>) {
    if may_take(world, state, process, lease) {
        found.extend(both(process, lease).map(Action::Take));
    }
    if may_renew(world, state, process, lease) {
        found.extend(both(process, lease).map(Action::Renew));
    }
}

/// The same write of a Lease, with its answer and without.
fn both(process: Index, lease: Index) -> [LeaseWrite; 2] {
    [true, false].map(|answered| LeaseWrite {
        process,
        lease,
        answered,
    })
}

fn may_take(world: &World, state: &State, process: Index, lease: Index) -> bool {
    let candidate = &state.processes[process];
    let place = &candidate.places[lease];
    let waits = candidate.phase == Phase::Running && place.seat == Seat::Candidate;
    let record = state.holders[lease];
    let own = Holder::of(world, process, lease);
    let is_silent = world.rules.expiry && place.seen >= world.durations.lease;
    let is_free = record == Holder::Free || record == own || is_silent;
    waits && is_free && (lease >= world.ranges || may_have_more(world, candidate))
}

/// Whether a replica may hold one more range.
fn may_have_more(world: &World, replica: &Process) -> bool {
    let is_in_group = match world.common() {
        Some(common) if world.rules.common_lease => {
            matches!(replica.places[common].seat, Seat::Holding { .. })
        }
        _ => true,
    };
    is_in_group && replica.held(world) < world.share(replica.members)
}

/// A renewal in the tick of another one changes nothing.
fn may_renew(world: &World, state: &State, process: Index, lease: Index) -> bool {
    let holder = &state.processes[process];
    let elapsed = holder.places[lease].seat.elapsed();
    let is_own = state.holders[lease] == Holder::of(world, process, lease);
    holder.is_active() && is_own && elapsed.is_some_and(|elapsed| elapsed > 0)
}

fn of_seat(world: &World, state: &State, process: Index, range: Index, found: &mut Vec<Action>) {
    let replica = &state.processes[process];
    let place = &replica.places[range];
    let has_too_many = replica.held(world) > world.share(replica.members);
    let works = matches!(place.seat, Seat::Holding { .. }) && replica.phase == Phase::Running;
    if works && has_too_many {
        found.push(Action::Yield(process, range));
    }
    let releases = matches!(place.seat, Seat::Releasing { .. }) && replica.is_active();
    if releases && is_drained(world, place) {
        found.push(Action::Release(process, range));
    }
}

/// Whether the requests have ended that a release waits for. Updates are safe without a wait, because the API server
/// refuses those that are too late.
fn is_drained(world: &World, place: &Place) -> bool {
    match world.rules.drain {
        Drain::Nothing => true,
        Drain::Answers => !place.awaits_answer(),
        Drain::Writes => !place.awaits_answer() && !place.has_creation(),
    }
}

fn of_work(world: &World, state: &State, process: Index, range: Index, found: &mut Vec<Action>) {
    let worker = &state.processes[process];
    let place = &worker.places[range];
    if worker.phase != Phase::Running || world.writes == Writes::None {
        return;
    }
    if !world.is_upstream(process) {
        of_cache(place, process, range, found);
    }
    if place.write.is_some() || !state.leads(world, process, range) {
        return;
    }
    // Upstream trusts its caches from the start.
    if world.is_upstream(process) || place.cache.is_fresh() {
        found.push(Action::Create(process, range));
    }
    if world.writes == Writes::All {
        found.push(Action::Update(process, range));
    }
}

fn of_cache(place: &Place, process: Index, range: Index, found: &mut Vec<Action>) {
    let list = |age: u8| List {
        process,
        range,
        age,
    };
    match place.cache.shown {
        0 => {}
        OLD => found.extend((0..OLD).map(list).map(Action::List)),
        _ => found.push(Action::Deliver(process, range)),
    }
}

fn of_network(state: &State, process: Index, range: Index, found: &mut Vec<Action>) {
    let sender = &state.processes[process];
    let place = &sender.places[range];
    if place.write.is_some() {
        found.push(Action::Arrive(process, range));
        found.push(Action::Lose(process, range));
    }
    // A frozen process gets the error after it goes on.
    if place.awaits_answer() && sender.is_active() {
        found.push(Action::Abandon(process, range));
    }
}
