//! Plans: one fault at one point of a run, as plain data.
//!
//! Each plan has a text form, such as `crash:after:3`, that replays it from the command line. The
//! reference run determines all plans, so a new scenario needs no list of faults.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use steersman_devcluster::faults::{self, EVERY_GROUP, EventFault, Matcher, RequestFault};

use crate::manager::AGENT;
use crate::recording::Recording;

mod point;

pub use point::Point;

/// Most requests of a scenario that get a faulty answer. Beyond this number, most requests repeat
/// the same lists and watches.
const REQUESTS: usize = 400;
/// Most Events, for each verb, that get a faulty answer.
const EVENT_WRITES: usize = 12;
/// Most discovery requests at which a group is hidden.
const DISCOVERY_REQUESTS: usize = 40;
/// Runs with random delays.
const SHUFFLES: u64 = 40;
/// Numbers of changes that the view of a restarted manager lacks.
const BEHIND: [usize; 4] = [1, 2, 5, 12];
/// The same, for plans in which only the view of one resource lags.
const ONE_BEHIND: [usize; 2] = [1, 3];

/// An API group in the name of a plan. The core group is called `core`, and `*` means all groups.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(pub(crate) String);

const CORE: &str = "core";

/// The side of a write on which a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// The write never reaches the server.
    Before,
    /// The server stores the write, and the manager never reads the answer.
    After,
}

/// One fault and its point. Points count the writes, requests and events of managers from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// No fault: the reference run.
    Nothing,
    /// The manager crashes at a write and restarts, once for each point. Later points count from
    /// the restart.
    Crash(Vec<(When, Point)>),
    /// The leader loses its Lease at a write, and a standby takes over.
    Failover(When, Point),
    /// The manager crashes after a write and restarts. For 20 s its view lacks this many changes of
    /// the scenario.
    Stale(Point, usize),
    /// Like [`Plan::Stale`], but only the view of this resource lacks changes. API servers have one
    /// cache per resource, and each can lag alone.
    StaleOf(String, Point, usize),
    /// Like [`Plan::Stale`], after the manager received an event of this resource.
    StaleEvent(String, Point, usize),
    /// A fault at one event of the watches of this resource.
    Event(String, Point, EventPlan),
    /// A request gets a faulty answer, or no answer.
    Answer(Point, Answer),
    /// From this discovery request on, discovery fails for this group for 40 s.
    Hidden(Group, usize),
    /// Every request and event takes a random time, drawn from this seed.
    Shuffle(u64),
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the texts describe the variants")]
        pub enum $name { $($variant),+ }

        impl $name {
            const ALL: &[(Self, &str)] = &[$((Self::$variant, $text)),+];

            fn text(self) -> &'static str {
                Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, text)| text)
            }

            fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().find(|(_, known)| *known == text).map(|(found, _)| *found)
            }
        }
    };
}

named! {
    /// A fault at one watch event. `Drop` loses the event until the next list, and `Coalesce`
    /// merges it with later ones. With `Close` the watch ends before it, and with `Expire` 410
    /// replaces it. `Delay` delivers it 1 s late, `Stall` 40 s late.
    EventPlan { Drop = "drop", Coalesce = "coalesce", Close = "close", Expire = "expire", Delay = "delay", Stall = "stall" }
}

named! {
    /// A fault at one request: an error status, an answer lost with the connection, or a connection
    /// that resets before the request is handled. `Timeout` drops the request; `LateTimeout`
    /// handles it and drops the answer.
    Answer {
        Conflict = "409", Expired = "410", Throttled = "429", Internal = "500", Lost = "lost", Reset = "reset", Timeout = "timeout",
        LateTimeout = "timeout-after",
    }
}

impl EventPlan {
    fn fault(self) -> EventFault {
        match self {
            Self::Drop => EventFault::Drop {
                repaired_after: Duration::from_secs(2),
            },
            Self::Coalesce => EventFault::Coalesce(Duration::from_secs(2)),
            Self::Close => EventFault::Close,
            Self::Expire => EventFault::Expire,
            Self::Delay => EventFault::Delay(Duration::from_secs(1)),
            Self::Stall => EventFault::Delay(Duration::from_secs(40)),
        }
    }
}

impl Answer {
    fn fault(self) -> RequestFault {
        match self {
            Self::Conflict => RequestFault::Reject(faults::conflict()),
            Self::Expired => RequestFault::Reject(faults::expired()),
            Self::Throttled => RequestFault::Reject(faults::throttled(2)),
            Self::Internal => RequestFault::Reject(faults::internal_error()),
            Self::Lost => RequestFault::LoseAnswer,
            Self::Reset => RequestFault::Reset,
            Self::Timeout => RequestFault::Hang,
            Self::LateTimeout => RequestFault::HangAfterwards,
        }
    }
}

impl When {
    pub(crate) fn fault(self) -> RequestFault {
        match self {
            Self::Before => RequestFault::Hang,
            Self::After => RequestFault::HangAfterwards,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A fault rule of the cluster: requests or events, fault, and number of times (`None`: always).
pub(crate) enum Fault {
    Request(Matcher, RequestFault, Option<usize>),
    Event(Matcher, EventFault, Option<usize>),
}

/// The writes of managers that points count. Events vary in number from run to run, and the harness
/// replaces Leases.
pub(crate) fn writes() -> Matcher {
    Matcher::writes()
        .client(AGENT)
        .except("events")
        .except("leases")
}

/// All requests of managers that points count. Events have their own count, because their number
/// varies from run to run.
pub(crate) fn requests() -> Matcher {
    Matcher::default()
        .client(AGENT)
        .except("events")
        .except("leases")
}

/// The verbs of requests that write Events.
pub(crate) const EVENT_VERBS: [&str; 2] = ["create", "patch"];

/// The discovery requests of managers.
pub(crate) fn discovery_requests() -> Matcher {
    Matcher::discovery().client(AGENT)
}

/// The watch events of a resource that managers receive.
pub(crate) fn events(plural: &str) -> Matcher {
    Matcher::new("watch", plural).client(AGENT)
}

impl Plan {
    /// The pattern of the plan, which groups plans for [`Plan::sample`]. Second crashes and Events
    /// are patterns of their own, so that a sample includes them.
    pub fn pattern(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Crash(points) if points.len() > 1 => "crash twice",
            Self::Crash(_) => "crash",
            Self::Failover(..) => "failover",
            Self::Stale(..) => "stale view",
            Self::StaleOf(..) => "stale view of one resource",
            Self::StaleEvent(..) => "stale view after an event",
            Self::Event(..) => "unobserved event",
            Self::Answer(point, _) if point.is_of("events") => "unrecorded Event",
            Self::Answer(..) => "faulty answer",
            Self::Hidden(..) => "hidden group",
            Self::Shuffle(_) => "reordering",
        }
    }

    /// Whether the plan can run on a program of its own. Nothing takes its Lease away for a failover,
    /// and without an answer it waits for ever.
    pub(crate) fn suits_a_program(&self) -> bool {
        !matches!(
            self,
            Self::Failover(..) | Self::Answer(_, Answer::Timeout | Answer::LateTimeout)
        )
    }

    /// The rules to add before the run starts. `watched` are the watched resources. Most plans have
    /// one rule, and the run reacts when it applies.
    pub(crate) fn faults(&self, watched: &BTreeMap<String, usize>) -> Vec<Fault> {
        let at_write = |when: When, point: &Point| {
            vec![Fault::Request(point.among(writes()), when.fault(), Some(1))]
        };
        match self {
            Self::Nothing => Vec::new(),
            Self::Crash(points) => points
                .first()
                .map(|(when, point)| at_write(*when, point))
                .unwrap_or_default(),
            Self::Failover(when, point) => at_write(*when, point),
            Self::Stale(point, _) | Self::StaleOf(_, point, _) => at_write(When::After, point),
            Self::StaleEvent(plural, point, _) => {
                vec![Fault::Event(
                    point.among(events(plural)),
                    EventFault::Delay(Duration::ZERO),
                    Some(1),
                )]
            }
            Self::Event(plural, point, fault) => vec![Fault::Event(
                point.among(events(plural)),
                fault.fault(),
                Some(1),
            )],
            Self::Answer(point, answer) => {
                let all = if point.is_of("events") {
                    Matcher::default().client(AGENT)
                } else {
                    requests()
                };
                vec![Fault::Request(point.among(all), answer.fault(), Some(1))]
            }
            // The delay gives the run time to hide the group before the server answers.
            Self::Hidden(_, nth) => {
                vec![Fault::Request(
                    discovery_requests().nth(*nth),
                    RequestFault::Delay(Duration::from_millis(1)),
                    Some(1),
                )]
            }
            Self::Shuffle(_) => {
                let slow = RequestFault::DelayUpTo(Duration::from_millis(200));
                let late = |plural: &String| {
                    Fault::Event(
                        events(plural),
                        EventFault::DelayUpTo(Duration::from_millis(300)),
                        None,
                    )
                };
                std::iter::once(Fault::Request(requests(), slow, None))
                    .chain(watched.keys().map(late))
                    .collect()
            }
        }
    }

    /// All plans of a reference run, in a fixed order. `seed` draws the point of each second crash.
    pub fn derived(recording: &Recording, seed: u64) -> Vec<Self> {
        let mut plans = Vec::new();
        let both = [When::Before, When::After];
        let at_writes: Vec<(When, usize)> = (1..=recording.writes)
            .flat_map(|nth| both.map(|when| (when, nth)))
            .collect();
        plans.extend(
            at_writes
                .iter()
                .map(|(when, nth)| Self::Crash(vec![(*when, Point::from(*nth))])),
        );
        plans.extend(
            at_writes
                .iter()
                .map(|(when, nth)| Self::Failover(*when, Point::from(*nth))),
        );
        let mut random = StdRng::seed_from_u64(seed);
        // A restarted manager often has fewer writes left than the reference run had: pods became
        // ready meanwhile, for example. So the second crash is in the first half of the rest.
        plans.extend(
            at_writes
                .iter()
                .filter(|(_, nth)| *nth < recording.writes)
                .map(|(when, nth)| {
                    let second =
                        Point::from(random.random_range(1..=(recording.writes - nth).div_ceil(2)));
                    Self::Crash(vec![
                        (*when, Point::from(*nth)),
                        (both[random.random_range(0..2)], second),
                    ])
                }),
        );
        let lags = |nth: usize| BEHIND.map(|behind| (Point::from(nth), behind));
        plans.extend(
            (1..=recording.writes)
                .flat_map(lags)
                .map(|(point, behind)| Self::Stale(point, behind)),
        );
        for plural in &recording.plurals {
            let at = |nth: usize| {
                ONE_BEHIND.map(|behind| Self::StaleOf(plural.clone(), Point::from(nth), behind))
            };
            plans.extend((1..=recording.writes).flat_map(at));
        }
        for (plural, count) in &recording.events {
            let faults = |nth: usize| {
                EventPlan::ALL
                    .iter()
                    .map(move |(fault, _)| (Point::from(nth), *fault))
            };
            plans.extend(
                (1..=*count)
                    .flat_map(faults)
                    .map(|(point, fault)| Self::Event(plural.clone(), point, fault)),
            );
            plans.extend(
                (1..=*count)
                    .flat_map(lags)
                    .map(|(point, behind)| Self::StaleEvent(plural.clone(), point, behind)),
            );
        }
        let answers = |point: Point| {
            Answer::ALL
                .iter()
                .map(move |(answer, _)| Self::Answer(point.clone(), *answer))
        };
        plans.extend(
            thinned(recording.requests, REQUESTS)
                .into_iter()
                .map(Point::from)
                .flat_map(answers),
        );
        for (verb, count) in EVENT_VERBS.iter().zip(recording.event_writes) {
            let points = thinned(count, EVENT_WRITES)
                .into_iter()
                .map(|nth| Point::of(verb, "events", nth));
            plans.extend(points.flat_map(answers));
        }
        for group in recording
            .groups
            .iter()
            .map(String::as_str)
            .chain([EVERY_GROUP])
        {
            plans.extend(
                thinned(recording.discovery_requests, DISCOVERY_REQUESTS)
                    .into_iter()
                    .map(|nth| Self::Hidden(Group(group.to_owned()), nth)),
            );
        }
        plans.extend((0..SHUFFLES).map(Self::Shuffle));
        plans
    }

    /// At most `limit` plans, spread evenly over patterns; the same seed gives the same sample.
    pub fn sample(mut plans: Vec<Self>, limit: usize, seed: u64) -> Vec<Self> {
        if plans.len() <= limit {
            return plans;
        }
        let mut random = StdRng::seed_from_u64(seed);
        plans.shuffle(&mut random);
        let mut patterns: BTreeMap<&str, Vec<Self>> = BTreeMap::new();
        for plan in plans {
            patterns.entry(plan.pattern()).or_default().push(plan);
        }
        let mut patterns: Vec<Vec<Self>> = patterns.into_values().collect();
        patterns.shuffle(&mut random);
        let mut chosen = Vec::new();
        while chosen.len() < limit {
            let left = limit - chosen.len();
            chosen.extend(patterns.iter_mut().filter_map(Vec::pop).take(left));
        }
        chosen.sort();
        chosen
    }
}

/// At most `limit` of the numbers from 1 to `count`, evenly spaced.
fn thinned(count: usize, limit: usize) -> Vec<usize> {
    let shown = count.min(limit);
    (0..shown).map(|at| 1 + at * count / shown).collect()
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { CORE } else { &self.0 })
    }
}

impl From<&str> for Group {
    fn from(text: &str) -> Self {
        Self(if text == CORE {
            String::new()
        } else {
            text.to_owned()
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Crash(points) => {
                f.write_str("crash")?;
                points
                    .iter()
                    .try_for_each(|(when, point)| write!(f, ":{}:{point}", when.text()))
            }
            Self::Failover(when, point) => write!(f, "failover:{}:{point}", when.text()),
            Self::Stale(point, behind) => write!(f, "stale:{point}:{behind}"),
            Self::StaleOf(plural, point, behind) => write!(f, "lag:{plural}:{point}:{behind}"),
            Self::StaleEvent(plural, point, behind) => write!(f, "stale:{plural}:{point}:{behind}"),
            Self::Event(plural, point, fault) => {
                write!(f, "event:{plural}:{point}:{}", fault.text())
            }
            Self::Answer(point, answer) => write!(f, "answer:{point}:{}", answer.text()),
            Self::Hidden(group, nth) => write!(f, "hidden:{group}:{nth}"),
            Self::Shuffle(seed) => write!(f, "shuffle:{seed}"),
        }
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("{text:?} is not a plan; failures print the names of plans");
        let number = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        let point = |text: &str| text.parse::<Point>().map_err(|_| unknown());
        let when = |text: &str| match text {
            "before" => Ok(When::Before),
            "after" => Ok(When::After),
            _ => Err(unknown()),
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["nothing"] => Ok(Self::Nothing),
            ["crash", ref points @ ..] if !points.is_empty() && points.len() % 2 == 0 => {
                let pair = |pair: &[&str]| Ok((when(pair[0])?, point(pair[1])?));
                points
                    .chunks(2)
                    .map(pair)
                    .collect::<Result<_, String>>()
                    .map(Self::Crash)
            }
            ["failover", at, nth] => Ok(Self::Failover(when(at)?, point(nth)?)),
            ["stale", nth, behind] => Ok(Self::Stale(point(nth)?, number(behind)?)),
            ["lag", plural, nth, behind] => Ok(Self::StaleOf(
                plural.to_owned(),
                point(nth)?,
                number(behind)?,
            )),
            ["stale", plural, nth, behind] => Ok(Self::StaleEvent(
                plural.to_owned(),
                point(nth)?,
                number(behind)?,
            )),
            ["event", plural, nth, fault] => Ok(Self::Event(
                plural.to_owned(),
                point(nth)?,
                EventPlan::parse(fault).ok_or_else(unknown)?,
            )),
            ["answer", nth, answer] => Ok(Self::Answer(
                point(nth)?,
                Answer::parse(answer).ok_or_else(unknown)?,
            )),
            ["hidden", group, nth] => Ok(Self::Hidden(group.into(), number(nth)?)),
            ["shuffle", seed] => Ok(Self::Shuffle(number(seed)? as u64)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let groups = ["", "apps"].map(str::to_owned).into();
        let events = BTreeMap::from([("pods".to_owned(), 9)]);
        let plurals = ["pods".to_owned()].into();
        Recording {
            writes: 12,
            requests: 300,
            discovery_requests: 4,
            event_writes: [3, 1],
            groups,
            plurals,
            events,
            ..Recording::default()
        }
    }

    #[test]
    fn every_plan_has_a_unique_name_that_parses_to_the_plan() {
        let mut plans = Plan::derived(&recording(), 0);
        assert!(plans.len() > 1000, "{}", plans.len());
        for plan in &plans {
            assert_eq!(plan.to_string().parse::<Plan>().as_ref(), Ok(plan));
        }
        let all = plans.len();
        plans.sort();
        plans.dedup();
        assert_eq!(plans.len(), all);
        for invalid in [
            "",
            "crash",
            "crash:1",
            "crash:before:x",
            "crash:before:0",
            "event:pods:1:eat",
            "answer:1:418",
            "hidden:1",
            "stale:1",
            "lag:1:1",
            "stale:pods:1:x",
        ] {
            assert!(invalid.parse::<Plan>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn every_write_and_event_has_plans_and_requests_are_limited() {
        let many = Recording {
            writes: 700,
            requests: 900,
            events: BTreeMap::from([("pods".to_owned(), 800)]),
            ..recording()
        };
        let plans: std::collections::BTreeSet<String> = Plan::derived(&many, 0)
            .iter()
            .map(Plan::to_string)
            .collect();
        for known in (1..=700)
            .map(|nth| format!("crash:before:{nth}"))
            .chain((1..=800).map(|nth| format!("event:pods:{nth}:drop")))
        {
            assert!(plans.contains(&known), "{known}");
        }
        let refused = |plan: &&String| {
            plan.starts_with("answer:") && plan.ends_with(":500") && !plan.contains("/events#")
        };
        assert_eq!(plans.iter().filter(refused).count(), REQUESTS);
    }

    #[test]
    fn a_second_crash_is_at_a_remaining_write_and_depends_on_the_seed() {
        let twice = |seed| {
            let is_second = |plan: &Plan| plan.pattern() == "crash twice";
            Plan::derived(&recording(), seed)
                .into_iter()
                .filter(is_second)
                .collect::<Vec<_>>()
        };
        assert!(!twice(1).is_empty() && twice(1) == twice(1) && twice(1) != twice(2));
        for plan in twice(1) {
            let Plan::Crash(points) = &plan else {
                panic!("{plan}")
            };
            assert!(
                points
                    .iter()
                    .map(|(_, point)| point.to_string().parse::<usize>().unwrap())
                    .sum::<usize>()
                    <= recording().writes,
                "{plan}"
            );
        }
    }

    #[test]
    fn a_sample_has_every_pattern_and_is_deterministic() {
        let plans = Plan::derived(&recording(), 0);
        let sample = Plan::sample(plans.clone(), 30, 7);
        assert_eq!(sample.len(), 30);
        assert_eq!(sample, Plan::sample(plans.clone(), 30, 7));
        let mut patterns: Vec<_> = sample.iter().map(Plan::pattern).collect();
        patterns.sort_unstable();
        patterns.dedup();
        assert_eq!(patterns.len(), 11);
        // A sample of one plan takes each pattern for some seed.
        let first = |seed| Plan::sample(plans.clone(), 1, seed)[0].pattern();
        assert_eq!(
            (0..200)
                .map(first)
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            11
        );
        assert_eq!(
            Plan::sample(plans.clone(), usize::MAX, 7).len(),
            plans.len()
        );
    }
}
