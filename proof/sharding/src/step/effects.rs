//! The effects of each action.

use super::rules::Violation;
use crate::action::{Action, LeaseWrite};
use crate::state::{Holder, Kind, LEASES, Phase, Place, Process, Seat, Sender, State, Write};
use crate::world::{Index, World};

/// The state after `action`.
///
/// # Errors
///
/// A rule about decisions and writes that `action` violates.
pub fn apply(world: &World, state: &State, action: Action) -> Result<State, Violation> {
    let mut next = *state;
    match action {
        Action::Tick { drifting } => tick(world, &mut next, drifting),
        Action::Start(process) => next.processes[process].phase = Phase::Running,
        Action::Crash(process) => end(world, &mut next, process),
        Action::Pause(process) => pause(&mut next.processes[process]),
        Action::Resume(process) => resume(&mut next.processes[process]),
        Action::Stop(process) => stop(world, &mut next, process),
        Action::Count(process) => {
            next.processes[process].members = state.running_replicas(world) as u8;
        }
        Action::Take(write) => take(world, &mut next, write),
        Action::Renew(write) => renew(&mut next, write),
        Action::Yield(process, range) => release_later(&mut next, process, range),
        Action::Release(process, range) => release(world, &mut next, process, range),
        Action::List(list) => {
            let cache = &mut next.processes[list.process].places[list.range].cache;
            *cache = cache.at(list.age);
        }
        Action::Deliver(process, range) => {
            let cache = &mut next.processes[process].places[range].cache;
            *cache = cache.at(cache.shown - 1);
        }
        Action::Create(process, range) => create(world, &mut next, process, range)?,
        Action::Update(process, range) => {
            send(&mut next, process, range, Kind::Update { newest: true })
        }
        Action::Arrive(process, range) => arrive(world, &mut next, process, range)?,
        Action::Lose(process, range) => lose(world, &mut next, process, range),
        Action::Abandon(process, range) => abandon(&mut next, process, range),
    }
    Ok(next)
}

fn pause(process: &mut Process) {
    let stopping = process.phase == Phase::Stopping;
    process.phase = Phase::Paused { stopping };
}

fn resume(process: &mut Process) {
    process.phase = match process.phase {
        Phase::Paused { stopping: true } => Phase::Stopping,
        _ => Phase::Running,
    };
}

fn tick(world: &World, state: &mut State, drifting: Option<Index>) {
    for process in world.processes() {
        let time = local_time(&mut state.processes[process], drifting == Some(process));
        for lease in 0..LEASES {
            age(world, state, process, lease, time);
        }
        let is_over = |place: &Place| {
            let elapsed = place.seat.elapsed();
            elapsed.is_some_and(|elapsed| elapsed >= world.durations.term)
        };
        // A paused process would end as soon as it goes on, and its gate is closed by its clock.
        if state.processes[process].places.iter().any(is_over) {
            end(world, state, process);
        }
    }
}

/// Lets `time` pass for one place.
fn age(world: &World, state: &mut State, process: Index, lease: Index, time: u8) {
    let is_known = world.leases_of(process).contains(&lease);
    let is_held = state.holders[lease] != Holder::Free;
    let aging = &mut state.processes[process];
    let is_up = aging.phase != Phase::Down;
    let place = &mut aging.places[lease];
    let sent = place.write;
    place.write = sent.and_then(|write| older(world, write));
    let is_over = place.write.is_none();
    if is_over && sent.is_some_and(|write| settles(world, write)) {
        await_newest(place);
    }
    match place.seat.elapsed() {
        Some(elapsed) => place.seat = place.seat.after(elapsed + time),
        // The age of a record counts only for those who wait for it.
        None if is_known && is_held && is_up => {
            place.seen = (place.seen + time).min(world.durations.lease);
        }
        None => {}
    }
}

/// The ticks that pass on the clock of `process`.
fn local_time(process: &mut Process, drifts: bool) -> u8 {
    if !drifts {
        return 1;
    }
    process.ahead = !process.ahead;
    if process.ahead { 2 } else { 0 }
}

/// A write that is a tick older, unless its time is over.
fn older(world: &World, write: Write) -> Option<Write> {
    match write.kind {
        Kind::Creation { age } if age < world.durations.flight => Some(Write {
            kind: Kind::Creation { age: age + 1 },
            ..write
        }),
        Kind::Creation { .. } => None,
        Kind::Update { .. } => Some(write),
    }
}

/// Ends a process. Its writes stay under way, and its Leases name a holder that never comes back. The group outlives
/// each of its replicas.
fn end(world: &World, state: &mut State, process: Index) {
    for lease in world.leases_of(process) {
        let own = Holder::of(world, process, lease);
        if own != Holder::Group && state.holders[lease] == own {
            state.holders[lease] = Holder::Gone;
        }
    }
    let places = state.processes[process].places.map(|place| Place {
        write: place.write.map(|write| Write {
            sender: Sender::Gone,
            ..write
        }),
        ..Place::EMPTY
    });
    state.processes[process] = Process {
        places,
        ..Process::DOWN
    };
}

fn stop(world: &World, state: &mut State, process: Index) {
    state.processes[process].phase = Phase::Stopping;
    for range in 0..world.ranges {
        release_later(state, process, range);
    }
    end_if_idle(world, state, process);
}

fn release_later(state: &mut State, process: Index, range: Index) {
    let seat = &mut state.processes[process].places[range].seat;
    if let Some(elapsed) = seat.elapsed() {
        *seat = Seat::Releasing { elapsed };
    }
}

fn release(world: &World, state: &mut State, process: Index, range: Index) {
    store(world, state, range, Holder::Free);
    leave(&mut state.processes[process].places[range]);
    end_if_idle(world, state, process);
}

/// A process that stops ends after it has released its last range. The common Lease is left to expire.
fn end_if_idle(world: &World, state: &mut State, process: Index) {
    let stopping = &state.processes[process];
    if stopping.phase == Phase::Stopping && stopping.held(world) == 0 {
        end(world, state, process);
    }
}

fn leave(place: &mut Place) {
    place.seat = Seat::Candidate;
    place.cache = place.cache.idle();
}

fn take(world: &World, state: &mut State, write: LeaseWrite) {
    let holder = Holder::of(world, write.process, write.lease);
    store(world, state, write.lease, holder);
    if !write.answered {
        return;
    }
    let place = &mut state.processes[write.process].places[write.lease];
    place.seat = Seat::Holding { elapsed: 0 };
    if write.lease < world.ranges {
        // All objects so far are older than this version of the Lease.
        place.cache = place.cache.needing();
        if world.rules.lease_version {
            place.cache = place.cache.awaiting();
        }
    }
}

fn renew(state: &mut State, write: LeaseWrite) {
    observe(state, write.lease);
    if write.answered {
        let seat = &mut state.processes[write.process].places[write.lease].seat;
        *seat = seat.after(0);
    }
}

/// Writes `holder` into the record of a Lease. Writes under way are then from before this holder.
fn store(world: &World, state: &mut State, lease: Index, holder: Holder) {
    observe(state, lease);
    if std::mem::replace(&mut state.holders[lease], holder) == holder {
        return;
    }
    let ended = if lease < world.ranges {
        lease..lease + 1
    } else {
        0..world.ranges
    };
    for process in &mut state.processes {
        for place in &mut process.places[ended.clone()] {
            if let Some(write) = &mut place.write {
                write.unsucceeded = false;
            }
        }
    }
}

/// All candidates see a change of a record at once. One that sees it later only waits longer.
fn observe(state: &mut State, lease: Index) {
    for process in &mut state.processes {
        process.places[lease].seen = 0;
    }
}

fn create(world: &World, state: &mut State, process: Index, range: Index) -> Result<(), Violation> {
    let cache = &state.processes[process].places[range].cache;
    if !cache.is_complete() && !world.is_upstream(process) {
        return Err(Violation::StaleDecision(range));
    }
    send(state, process, range, Kind::Creation { age: 0 });
    Ok(())
}

fn send(state: &mut State, process: Index, range: Index, kind: Kind) {
    state.processes[process].places[range].write = Some(Write {
        kind,
        sender: Sender::Waits,
        unsucceeded: true,
    });
}

fn arrive(world: &World, state: &mut State, process: Index, range: Index) -> Result<(), Violation> {
    let Some(write) = state.processes[process].places[range].write.take() else {
        return Ok(());
    };
    match write.kind {
        Kind::Creation { .. } if !write.unsucceeded => Err(Violation::TwoWriters(range)),
        Kind::Creation { .. } => {
            outdate_caches(world, state, range);
            let place = &mut state.processes[process].places[range];
            need_own(place, write);
            let answered = write.sender == Sender::Waits && world.rules.own_versions;
            if answered || settles(world, write) {
                await_newest(place);
            }
            Ok(())
        }
        Kind::Update { newest: true } => {
            outdate_updates(state, range);
            Ok(())
        }
        Kind::Update { newest: false } if world.rules.precondition => Ok(()),
        Kind::Update { newest: false } => Err(Violation::LostUpdate(range)),
    }
}

fn lose(world: &World, state: &mut State, process: Index, range: Index) {
    let place = &mut state.processes[process].places[range];
    let lost = place.write.take();
    if lost.is_some_and(|write| settles(world, write)) {
        await_newest(place);
    }
}

fn abandon(state: &mut State, process: Index, range: Index) {
    if let Some(write) = &mut state.processes[process].places[range].write {
        write.sender = Sender::Doubts;
    }
}

/// Whether the sender reads live at the end of this write. Its wait and the read are one step with that end. A late
/// update does no harm, so only creations need it.
fn settles(world: &World, write: Write) -> bool {
    let is_open = write.sender == Sender::Doubts && write.is_creation();
    is_open && world.rules.open_results
}

/// The next decision waits for the newest version, if the process holds the range.
fn await_newest(place: &mut Place) {
    if place.seat != Seat::Candidate {
        place.cache = place.cache.awaiting();
    }
}

/// The next decision must see the object of an accepted creation, if its sender still holds the range.
fn need_own(place: &mut Place, write: Write) {
    if place.seat != Seat::Candidate && write.sender != Sender::Gone {
        place.cache = place.cache.needing();
    }
}

/// The new object is in none of the caches yet.
fn outdate_caches(world: &World, state: &mut State, range: Index) {
    for process in &mut state.processes[..world.replicas] {
        let cache = &mut process.places[range].cache;
        *cache = cache.outdated();
    }
}

/// The object has a new version, so updates under way are of an older one.
fn outdate_updates(state: &mut State, range: Index) {
    for process in &mut state.processes {
        if let Some(write) = &mut process.places[range].write
            && let Kind::Update { newest } = &mut write.kind
        {
            *newest = false;
        }
    }
}
