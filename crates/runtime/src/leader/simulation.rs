//! Simulates three state machines and one Lease under faults: clocks run at different rates,
//! processes pause, and requests and answers are late or lost.
//!
//! The simulation knows the true time, so it can test disagreeing clocks. `tests/election` runs
//! whole electors with one common clock. `docs/leader-election.md` defines the invariants under the
//! names used here.
//!
//! As upstream's election, the invariants need clock rates that differ by less than lease duration
//! / renew deadline. One test exceeds this limit: it proves that the simulation finds two leaders.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::lease::Lease;
use super::state::{Election, Input, Next, Outcome, State};

const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_millis(4_400);
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const CANDIDATES: usize = 3;

/// Microseconds of true time.
type Time = u64;

const SECOND: Time = 1_000_000;

/// Probabilities of the injected faults, and the error of clocks.
#[derive(Clone, Copy)]
struct FaultRates {
    /// The largest difference between the rate of a clock and 1.
    drift: f64,
    /// Probability that a request is lost, and that an answer is lost.
    loss: f64,
    /// Probability that a message is late by seconds.
    late: f64,
    /// Probability that a process pauses at an event.
    pauses: f64,
    /// Probability that a leader releases the Lease after a renewal.
    releases: f64,
}

/// The largest clock error that the election tolerates. The slowest leader stops after 10 s / 0.82
/// = 12.2 s. The fastest standby takes the Lease after 15 s / 1.18 = 12.7 s.
const DRIFT: f64 = 0.18;

/// The longest delay of a message that is not late.
const MAX_DELAY: Time = SECOND / 5;

/// All faults, with the largest clock error.
const FAULTS: FaultRates = FaultRates {
    drift: DRIFT,
    loss: 0.12,
    late: 0.1,
    pauses: 0.004,
    releases: 0.02,
};
const NO_FAULTS: FaultRates = FaultRates {
    drift: 0.0,
    loss: 0.0,
    late: 0.0,
    pauses: 0.0,
    releases: 0.0,
};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A candidate makes an attempt.
    Wake,
    /// A request arrives at the server. With `answer_lost`, its answer is lost.
    Request {
        number: u64,
        write: Option<String>,
        answer_lost: bool,
    },
    /// An answer arrives: 200 with the Lease, 404, or 409.
    Answer {
        number: u64,
        code: u16,
        lease: String,
    },
    /// The candidate's time limit for the request is over.
    Timeout { number: u64 },
}

struct Candidate {
    election: Election,
    name: String,
    start: Instant,
    rate: f64,
    /// The end of the current or last pause of the process.
    paused_until: Time,
    /// Number of the pending request, and true if it is a write.
    waiting_for: Option<(u64, bool)>,
    /// The candidate releases the Lease, or has released it.
    releasing: bool,
    has_led: bool,
    /// The candidate led and does not lead any more.
    is_done: bool,
    /// When a new process replaces this one, if it has ended.
    restart_at: Option<Time>,
}

impl Candidate {
    fn local(&self, now: Time) -> Instant {
        self.start + Duration::from_micros((now as f64 * self.rate) as u64)
    }

    /// The true time in which the candidate's clock advances by `time`.
    fn pause(&self, time: Duration) -> Time {
        (time.as_micros() as f64 / self.rate) as Time
    }

    fn leads(&self, now: Time) -> bool {
        matches!(self.election.state(), State::Leading { until } if self.local(now) < until)
    }
}

struct World {
    random: StdRng,
    rates: FaultRates,
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64, usize, Event)>>,
    issued: u64,
    started_processes: usize,
    candidates: Vec<Candidate>,
    stored: Option<Value>,
    /// Time and holder of each revision of the Lease. The first entry is revision 1.
    history: Vec<(Time, String)>,
    terms: usize,
}

impl World {
    fn new(seed: u64, rates: FaultRates) -> Self {
        let mut world = Self {
            random: StdRng::seed_from_u64(seed),
            rates,
            now: 0,
            queue: BinaryHeap::new(),
            issued: 0,
            started_processes: 0,
            candidates: Vec::new(),
            stored: None,
            history: Vec::new(),
            terms: 0,
        };
        for _ in 0..CANDIDATES {
            let candidate = world.start_process();
            world.candidates.push(candidate);
        }
        (0..CANDIDATES).for_each(|index| world.later(index, SECOND, Event::Wake));
        world
    }

    fn start_process(&mut self) -> Candidate {
        self.started_processes += 1;
        let name = format!("candidate-{}", self.started_processes);
        let drift = self.rates.drift;
        Candidate {
            election: Election::new(name.clone(), LEASE, DEADLINE),
            name,
            start: Instant::now() + Duration::from_secs(self.random.random_range(0..1000)),
            rate: 1.0 + self.random.random_range(-drift..=drift),
            paused_until: 0,
            waiting_for: None,
            releasing: false,
            has_led: false,
            is_done: false,
            restart_at: None,
        }
    }

    fn later(&mut self, index: usize, after: Time, event: Event) {
        self.issued += 1;
        self.queue
            .push(Reverse((self.now + after, self.issued, index, event)));
    }

    fn chance(&mut self, likely: f64) -> bool {
        self.random.random_bool(likely)
    }

    /// Draws the delay of a message.
    fn delay(&mut self) -> Time {
        let late = self.rates.late;
        let limit = if self.chance(late) {
            12 * SECOND
        } else {
            MAX_DELAY
        };
        self.random.random_range(1000..limit)
    }

    fn run(&mut self, until: Time) -> Result<(), String> {
        while let Some(Reverse((at, _, index, event))) = self.queue.pop() {
            if at > until {
                self.queue.push(Reverse((at, 0, index, event)));
                self.now = until;
                return Ok(());
            }
            self.now = self.now.max(at);
            let to_process = !matches!(event, Event::Request { .. });
            if to_process && self.candidates[index].paused_until > self.now {
                let wait = self.candidates[index].paused_until - self.now;
                self.later(index, wait, event);
                continue;
            }
            let pauses = self.rates.pauses;
            if to_process && self.chance(pauses) {
                self.candidates[index].paused_until =
                    self.now + self.random.random_range(SECOND..40 * SECOND);
            }
            // A term may have ended since the last event.
            self.check()?;
            self.handle(index, event);
            self.check()?;
        }
        Ok(())
    }

    fn handle(&mut self, index: usize, event: Event) {
        match event {
            Event::Wake => {
                if self.candidates[index]
                    .restart_at
                    .is_some_and(|at| at <= self.now)
                {
                    self.candidates[index] = self.start_process();
                }
                if self.candidates[index].waiting_for.is_none() && !self.candidates[index].releasing
                {
                    self.step(index, Input::Attempt);
                }
            }
            Event::Request {
                number,
                write,
                answer_lost,
            } => {
                let (code, lease) = self.serve(write);
                if !answer_lost {
                    let delay = self.delay();
                    self.later(
                        index,
                        delay,
                        Event::Answer {
                            number,
                            code,
                            lease,
                        },
                    );
                }
            }
            Event::Answer {
                number,
                code,
                lease,
            } => {
                let Some((_, writes)) = self.candidates[index]
                    .waiting_for
                    .take_if(|(waiting, _)| *waiting == number)
                else {
                    return;
                };
                let lease = || Lease::decode(lease.as_bytes()).unwrap();
                let input = match (code, writes) {
                    (200, true) => Input::Written(lease()),
                    (200, false) => Input::Found(lease()),
                    (404, false) => Input::Missing,
                    (_, true) => Input::NotWritten,
                    (_, false) => Input::Unreadable,
                };
                self.step(index, input);
            }
            Event::Timeout { number } => {
                let Some((_, writes)) = self.candidates[index]
                    .waiting_for
                    .take_if(|(waiting, _)| *waiting == number)
                else {
                    return;
                };
                self.step(
                    index,
                    if writes {
                        Input::NotWritten
                    } else {
                        Input::Unreadable
                    },
                );
            }
        }
    }

    /// The API server: one Lease with optimistic concurrency.
    fn serve(&mut self, write: Option<String>) -> (u16, String) {
        let Some(write) = write else {
            return self
                .stored
                .as_ref()
                .map_or((404, String::new()), |lease| (200, lease.to_string()));
        };
        let mut written: Value = serde_json::from_str(&write).unwrap();
        let current = self
            .stored
            .as_ref()
            .map(|lease| &lease["metadata"]["resourceVersion"]);
        let based_on = written["metadata"].get("resourceVersion");
        if based_on != current {
            return (409, String::new());
        }
        if let Some(before) = &self.stored {
            self.check_transition(before, &written);
        }
        let holder = written["spec"]["holderIdentity"]
            .as_str()
            .unwrap()
            .to_owned();
        self.history.push((self.now, holder));
        written["metadata"]["resourceVersion"] = json!(self.history.len().to_string());
        self.stored = Some(written.clone());
        (200, written.to_string())
    }

    fn check_transition(&self, before: &Value, after: &Value) {
        let number = |lease: &Value| lease["spec"]["leaseTransitions"].as_i64().unwrap();
        let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned();
        let changed_hands = holder(before) != holder(after) && !holder(after).is_empty();
        assert_eq!(
            number(after) - number(before),
            i64::from(changed_hands),
            "TransitionsCount: {before} {after}"
        );
    }

    fn step(&mut self, index: usize, input: Input) {
        let now = self.candidates[index].local(self.now);
        let wall = self.wall();
        if self.candidates[index].releasing {
            return self.release(index, input);
        }
        let led = matches!(
            self.candidates[index].election.state(),
            State::Leading { .. }
        );
        let next = self.candidates[index].election.step(input, now, wall);
        match next {
            Next::Read => self.send(index, None),
            Next::Create(record) => self.send(index, Some(Lease::new("ns", "l").with(&record))),
            Next::Renew(lease, record) | Next::Update(lease, record) => {
                self.send(index, Some(lease.with(&record)))
            }
            Next::Rest(Outcome::Lost) => self.end_process(index),
            Next::Rest(outcome) => {
                self.terms += usize::from(!led && outcome == Outcome::Acquired);
                let releases = self.rates.releases;
                if outcome == Outcome::Renewed && self.chance(releases) {
                    self.candidates[index].releasing = true;
                    self.candidates[index].election.give_up();
                    return self.send(index, None);
                }
                let leads = matches!(
                    self.candidates[index].election.state(),
                    State::Leading { .. }
                );
                let pause = if leads {
                    RETRY
                } else {
                    self.random.random_range(RETRY..LONGEST_RETRY)
                };
                let pause = self.candidates[index].pause(pause);
                self.later(index, pause, Event::Wake);
            }
        }
    }

    /// Releases as the elector does: read, write the empty record, repeat after a conflict.
    fn release(&mut self, index: usize, input: Input) {
        let wall = self.wall();
        match input {
            Input::Found(lease) => match self.candidates[index].election.release(&lease, wall) {
                Some(record) => self.send(index, Some(lease.with(&record))),
                None => self.end_process(index),
            },
            Input::NotWritten => self.send(index, None),
            _ => self.end_process(index),
        }
    }

    fn end_process(&mut self, index: usize) {
        let after = self.random.random_range(SECOND..10 * SECOND);
        self.candidates[index].restart_at = Some(self.now + after);
        self.later(index, after, Event::Wake);
    }

    fn send(&mut self, index: usize, write: Option<Value>) {
        self.issued += 1;
        let number = self.issued;
        self.candidates[index].waiting_for = Some((number, write.is_some()));
        let loss = self.rates.loss;
        if !self.chance(loss) {
            let delay = self.delay();
            let answer_lost = self.chance(loss);
            self.later(
                index,
                delay,
                Event::Request {
                    number,
                    write: write.map(|lease| lease.to_string()),
                    answer_lost,
                },
            );
        }
        let limit = self.candidates[index].pause(REQUEST_LIMIT);
        self.later(index, limit, Event::Timeout { number });
    }

    /// A random wall clock: decisions must not depend on it.
    fn wall(&mut self) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(self.random.random_range(0..1_000_000))
    }

    /// Checks the invariants, which must hold at every instant.
    fn check(&mut self) -> Result<(), String> {
        let now = self.now;
        let leaders: Vec<&str> = self
            .candidates
            .iter()
            .filter(|c| c.leads(now))
            .map(|c| &*c.name)
            .collect();
        if leaders.len() > 1 {
            return Err(format!("OneLeader: {leaders:?} lead at {now} µs"));
        }
        if let Some((leader, (_, holder))) = leaders.first().zip(self.history.last())
            && leader != holder
        {
            return Err(format!(
                "RecordAgrees: {leader} leads at {now} µs, while {holder:?} is in the Lease"
            ));
        }
        for candidate in &mut self.candidates {
            let leads = candidate.leads(now);
            assert!(
                !(leads && candidate.is_done),
                "NoWayBack: {} leads again at {now} µs",
                candidate.name
            );
            candidate.is_done |=
                (candidate.has_led && !leads) || candidate.election.state() == State::Lost;
            candidate.has_led |= leads;
            if let State::Leading { until } = candidate.election.state() {
                let known = candidate
                    .election
                    .lease()
                    .map(Lease::resource_version)
                    .unwrap();
                let (stored, holder) = &self.history[usize::try_from(known).unwrap() - 1];
                assert_eq!(
                    *holder, candidate.name,
                    "RecordAgrees: the term rests on revision {known}"
                );
                assert!(
                    until <= candidate.local(*stored) + DEADLINE,
                    "TermBounded: the term of {holder} rests on revision {known}"
                );
            }
        }
        Ok(())
    }

    /// Ends all faults. Messages under way are lost, paused processes continue, and ended processes
    /// are replaced at once.
    fn end_faults(&mut self) {
        self.rates = NO_FAULTS;
        for Reverse((at, number, index, event)) in std::mem::take(&mut self.queue) {
            if matches!(event, Event::Wake | Event::Timeout { .. }) {
                let at = if self.candidates[index].paused_until > self.now {
                    self.now
                } else {
                    at
                };
                self.queue.push(Reverse((at, number, index, event)));
            }
        }
        for index in 0..CANDIDATES {
            self.candidates[index].paused_until = self.now;
            if let Some(at) = &mut self.candidates[index].restart_at {
                *at = self.now;
                self.later(index, 0, Event::Wake);
            }
        }
    }
}

/// The limit of `Progress`, measured by the slowest clock.
///
/// The pending request times out. The next attempt sees the record, the candidate waits for the
/// lease duration, and the attempt after that takes the Lease. Each attempt sends requests.
fn progress() -> Time {
    let local = REQUEST_LIMIT + LONGEST_RETRY + LEASE + LONGEST_RETRY;
    (local.as_micros() as f64 / (1.0 - DRIFT)) as Time + 3 * 4 * MAX_DELAY
}

#[test]
fn at_most_one_candidate_leads_under_all_faults() {
    let mut terms = 0;
    for seed in 0..30 {
        let mut world = World::new(seed, FAULTS);
        world
            .run(600 * SECOND)
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        terms += world.terms;
    }
    assert!(terms > 200, "the runs have too few terms: {terms}");
}

#[test]
fn a_candidate_leads_soon_after_the_faults_end() {
    for seed in 0..40 {
        let mut world = World::new(seed, FAULTS);
        world.run(120 * SECOND).unwrap();
        world.end_faults();
        let mut by = 120 * SECOND + progress();
        let mut led = Vec::new();
        for _ in 0..20 {
            world.run(by).unwrap();
            led.push(world.candidates.iter().any(|candidate| candidate.leads(by)));
            by += 2 * SECOND;
        }
        assert!(led.iter().all(|led| *led), "seed {seed}: Progress: {led:?}");
    }
}

#[test]
fn the_simulation_detects_two_leaders_with_too_different_clocks() {
    let rates = FaultRates {
        drift: 0.45,
        ..FAULTS
    };
    let detected = (0..150).any(|seed| World::new(seed, rates).run(600 * SECOND).is_err());
    assert!(detected, "the simulation does not detect two leaders");
}
