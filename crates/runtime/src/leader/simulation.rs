//! Three candidates and one Lease, while clocks disagree, processes are paused, and requests and
//! answers are late or lost.
//!
//! The state machine alone, in a world that knows the true time; `tests/election` runs whole
//! electors, whose clocks agree. The invariants are written out in `docs/leader-election.md`, and
//! have the same names here. They hold as long as clocks run at rates less than lease duration /
//! renew deadline apart, as upstream demands; that they fail beyond shows that the simulation can
//! tell.

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

/// How bad the world is.
#[derive(Clone, Copy)]
struct Weather {
    /// How far the rate of a clock may be from 1.
    drift: f64,
    /// How likely a request is lost, and its answer.
    loss: f64,
    /// How likely a message is late by seconds.
    late: f64,
    /// How likely a process is paused at an event.
    pauses: f64,
    /// How likely a leader that just renewed gives up.
    releases: f64,
}

/// How far clocks may be off: the slowest leader, 10 s / 0.82, is done before the fastest standby,
/// 15 s / 1.18.
const DRIFT: f64 = 0.18;

/// How long a message takes when nothing goes wrong.
const PROMPT: Time = SECOND / 5;

/// As bad as it may be.
const STORM: Weather = Weather {
    drift: DRIFT,
    loss: 0.12,
    late: 0.1,
    pauses: 0.004,
    releases: 0.02,
};
const CALM: Weather = Weather {
    drift: 0.0,
    loss: 0.0,
    late: 0.0,
    pauses: 0.0,
    releases: 0.0,
};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A candidate may make an attempt.
    Wake,
    /// A request arrives at the server; nothing answers when `answer_lost`.
    Request {
        number: u64,
        write: Option<String>,
        answer_lost: bool,
    },
    /// An answer arrives: 200 with the Lease, 404, or another refusal.
    Answer {
        number: u64,
        code: u16,
        lease: String,
    },
    /// The candidate stops waiting.
    Timeout { number: u64 },
}

struct Candidate {
    election: Election,
    name: String,
    start: Instant,
    rate: f64,
    /// When the process goes on, if it is paused.
    paused_until: Time,
    /// The request under way, and whether it is one that reads or writes.
    waiting_for: Option<(u64, bool)>,
    /// It is giving the Lease up, or has.
    releasing: bool,
    has_led: bool,
    /// It led and does no longer.
    is_done: bool,
    /// A new process starts in its place.
    reborn_at: Option<Time>,
}

impl Candidate {
    fn local(&self, now: Time) -> Instant {
        self.start + Duration::from_micros((now as f64 * self.rate) as u64)
    }

    /// The true time that passes while its clock goes on by `time`.
    fn pause(&self, time: Duration) -> Time {
        (time.as_micros() as f64 / self.rate) as Time
    }

    fn leads(&self, now: Time) -> bool {
        matches!(self.election.state(), State::Leading { until } if self.local(now) < until)
    }
}

struct World {
    random: StdRng,
    weather: Weather,
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64, usize, Happening)>>,
    issued: u64,
    births: usize,
    candidates: Vec<Candidate>,
    stored: Option<Value>,
    /// Of each revision, from 1, when it was stored, and who was the holder in it.
    history: Vec<(Time, String)>,
    terms: usize,
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        let mut world = Self {
            random: StdRng::seed_from_u64(seed),
            weather,
            now: 0,
            queue: BinaryHeap::new(),
            issued: 0,
            births: 0,
            candidates: Vec::new(),
            stored: None,
            history: Vec::new(),
            terms: 0,
        };
        for _ in 0..CANDIDATES {
            let candidate = world.born();
            world.candidates.push(candidate);
        }
        (0..CANDIDATES).for_each(|who| world.later(who, SECOND, Happening::Wake));
        world
    }

    fn born(&mut self) -> Candidate {
        self.births += 1;
        let name = format!("candidate-{}", self.births);
        let drift = self.weather.drift;
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
            reborn_at: None,
        }
    }

    fn later(&mut self, who: usize, after: Time, what: Happening) {
        self.issued += 1;
        self.queue
            .push(Reverse((self.now + after, self.issued, who, what)));
    }

    fn chance(&mut self, likely: f64) -> bool {
        self.random.random_bool(likely)
    }

    /// How long a message is under way.
    fn delay(&mut self) -> Time {
        let late = self.weather.late;
        let limit = if self.chance(late) {
            12 * SECOND
        } else {
            PROMPT
        };
        self.random.random_range(1000..limit)
    }

    fn run(&mut self, until: Time) -> Result<(), String> {
        while let Some(Reverse((at, _, who, what))) = self.queue.pop() {
            if at > until {
                self.queue.push(Reverse((at, 0, who, what)));
                self.now = until;
                return Ok(());
            }
            self.now = self.now.max(at);
            let to_process = !matches!(what, Happening::Request { .. });
            if to_process && self.candidates[who].paused_until > self.now {
                let wait = self.candidates[who].paused_until - self.now;
                self.later(who, wait, what);
                continue;
            }
            let pauses = self.weather.pauses;
            if to_process && self.chance(pauses) {
                self.candidates[who].paused_until =
                    self.now + self.random.random_range(SECOND..40 * SECOND);
            }
            // A term may have ended since the last event.
            self.check()?;
            self.happen(who, what);
            self.check()?;
        }
        Ok(())
    }

    fn happen(&mut self, who: usize, what: Happening) {
        match what {
            Happening::Wake => {
                if self.candidates[who]
                    .reborn_at
                    .is_some_and(|at| at <= self.now)
                {
                    self.candidates[who] = self.born();
                }
                if self.candidates[who].waiting_for.is_none() && !self.candidates[who].releasing {
                    self.step(who, Input::Attempt);
                }
            }
            Happening::Request {
                number,
                write,
                answer_lost,
            } => {
                let (code, lease) = self.serve(write);
                if !answer_lost {
                    let delay = self.delay();
                    self.later(
                        who,
                        delay,
                        Happening::Answer {
                            number,
                            code,
                            lease,
                        },
                    );
                }
            }
            Happening::Answer {
                number,
                code,
                lease,
            } => {
                let Some((_, writes)) = self.candidates[who]
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
                self.step(who, input);
            }
            Happening::Timeout { number } => {
                let Some((_, writes)) = self.candidates[who]
                    .waiting_for
                    .take_if(|(waiting, _)| *waiting == number)
                else {
                    return;
                };
                self.step(
                    who,
                    if writes {
                        Input::NotWritten
                    } else {
                        Input::Unreadable
                    },
                );
            }
        }
    }

    /// The server: one Lease under optimistic concurrency.
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

    fn step(&mut self, who: usize, input: Input) {
        let (now, wall) = (self.candidates[who].local(self.now), self.wall());
        if self.candidates[who].releasing {
            return self.release(who, input);
        }
        let led = matches!(self.candidates[who].election.state(), State::Leading { .. });
        let next = self.candidates[who].election.step(input, now, wall);
        match next {
            Next::Read => self.send(who, None),
            Next::Create(record) => self.send(who, Some(Lease::new("ns", "l").with(&record))),
            Next::Renew(lease, record) | Next::Update(lease, record) => {
                self.send(who, Some(lease.with(&record)))
            }
            Next::Rest(Outcome::Lost) => self.die(who),
            Next::Rest(outcome) => {
                self.terms += usize::from(!led && outcome == Outcome::Acquired);
                let releases = self.weather.releases;
                if outcome == Outcome::Renewed && self.chance(releases) {
                    self.candidates[who].releasing = true;
                    self.candidates[who].election.give_up();
                    return self.send(who, None);
                }
                let leads = matches!(self.candidates[who].election.state(), State::Leading { .. });
                let pause = if leads {
                    RETRY
                } else {
                    self.random.random_range(RETRY..LONGEST_RETRY)
                };
                let pause = self.candidates[who].pause(pause);
                self.later(who, pause, Happening::Wake);
            }
        }
    }

    /// As the elector does: read, write the empty record, again upon a conflict.
    fn release(&mut self, who: usize, input: Input) {
        let wall = self.wall();
        match input {
            Input::Found(lease) => match self.candidates[who].election.release(&lease, wall) {
                Some(record) => self.send(who, Some(lease.with(&record))),
                None => self.die(who),
            },
            Input::NotWritten => self.send(who, None),
            _ => self.die(who),
        }
    }

    fn die(&mut self, who: usize) {
        let after = self.random.random_range(SECOND..10 * SECOND);
        self.candidates[who].reborn_at = Some(self.now + after);
        self.later(who, after, Happening::Wake);
    }

    fn send(&mut self, who: usize, write: Option<Value>) {
        self.issued += 1;
        let number = self.issued;
        self.candidates[who].waiting_for = Some((number, write.is_some()));
        let loss = self.weather.loss;
        if !self.chance(loss) {
            let (delay, answer_lost) = (self.delay(), self.chance(loss));
            self.later(
                who,
                delay,
                Happening::Request {
                    number,
                    write: write.map(|lease| lease.to_string()),
                    answer_lost,
                },
            );
        }
        let limit = self.candidates[who].pause(REQUEST_LIMIT);
        self.later(who, limit, Happening::Timeout { number });
    }

    /// A wall clock that nobody should rely on.
    fn wall(&mut self) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(self.random.random_range(0..1_000_000))
    }

    /// What must hold at every instant.
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
                    "RecordAgrees: it leads by revision {known}"
                );
                assert!(
                    until <= candidate.local(*stored) + DEADLINE,
                    "TermBounded: {holder} leads by revision {known}"
                );
            }
        }
        Ok(())
    }

    /// From now on nothing goes wrong: what is under way is lost, and every process is there and
    /// runs.
    fn clear_up(&mut self) {
        self.weather = CALM;
        for Reverse((at, number, who, what)) in std::mem::take(&mut self.queue) {
            if matches!(what, Happening::Wake | Happening::Timeout { .. }) {
                let at = if self.candidates[who].paused_until > self.now {
                    self.now
                } else {
                    at
                };
                self.queue.push(Reverse((at, number, who, what)));
            }
        }
        for who in 0..CANDIDATES {
            self.candidates[who].paused_until = self.now;
            if let Some(at) = &mut self.candidates[who].reborn_at {
                *at = self.now;
                self.later(who, 0, Happening::Wake);
            }
        }
    }
}

/// `Progress`, by the slowest clock: the request under way is given up, the record is seen at the
/// next attempt, waited out, and replaced at the one after that, each with its requests.
fn progress() -> Time {
    let local = REQUEST_LIMIT + LONGEST_RETRY + LEASE + LONGEST_RETRY;
    (local.as_micros() as f64 / (1.0 - DRIFT)) as Time + 3 * 4 * PROMPT
}

#[test]
fn there_are_never_two_leaders_whatever_happens_to_clocks_processes_and_messages() {
    let mut terms = 0;
    for seed in 0..30 {
        let mut world = World::new(seed, STORM);
        world
            .run(600 * SECOND)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        terms += world.terms;
    }
    assert!(terms > 200, "the story is about leaders: {terms} terms");
}

#[test]
fn somebody_leads_soon_after_the_storm() {
    for seed in 0..40 {
        let mut world = World::new(seed, STORM);
        world.run(120 * SECOND).unwrap();
        world.clear_up();
        let (mut by, mut led) = (120 * SECOND + progress(), Vec::new());
        for _ in 0..20 {
            world.run(by).unwrap();
            led.push(world.candidates.iter().any(|candidate| candidate.leads(by)));
            by += 2 * SECOND;
        }
        assert!(led.iter().all(|led| *led), "seed {seed}: Progress: {led:?}");
    }
}

#[test]
fn clocks_that_run_too_far_apart_are_noticed() {
    let weather = Weather {
        drift: 0.45,
        ..STORM
    };
    let broken = (0..150).any(|seed| World::new(seed, weather).run(600 * SECOND).is_err());
    assert!(broken, "the simulation cannot tell two leaders from one");
}
