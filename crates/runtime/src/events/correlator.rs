//! Decides how an Event is written: as a new Event, as a higher count of an earlier Event, or not
//! at all.
//!
//! occurrence -> combine similar ones -> count equal ones -> drop spam
//!
//! The limits protect the API server and etcd from a controller that repeats itself. For example, a
//! ReplicaSet creates 100 pods at once: it writes 9 Events, one combined Event and 15 patches of
//! its count. The spam filter drops the rest. Upstream: `client-go/tools/record/events_cache.go`.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use steersman_client::rate::TokenBucket;
use steersman_values::lru::{Fingerprints, Lru};

use super::Occurrence;

/// Entries of each of the three caches. Upstream: `maxLruCacheEntries`. A dropped entry only starts
/// a new Event.
const CAPACITY: usize = 4096;
/// Similar events are combined from this number of different messages on. Upstream:
/// `defaultAggregateMaxEvents`.
const COMBINE_FROM: usize = 10;
/// After a longer pause between similar events, their messages are counted from zero. Upstream:
/// `defaultAggregateIntervalInSeconds`.
const COMBINE_WITHIN: Duration = Duration::from_secs(600);
/// The limit of writes about one object: the burst, and the rate per second. Upstream:
/// `defaultSpamBurst` and `defaultSpamQPS`, one write per five minutes.
const SPAM_BURST: u32 = 25;
const SPAM_RATE: f64 = 1.0 / 300.0;

/// Upstream's prefix of combined messages.
const COMBINED: &str = "(combined from similar events): ";

/// The write for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Correlated {
    /// A new Event. The count of the record is 1.
    Post(Record),
    /// A higher count of an earlier Event.
    Patch(Record),
    /// No write: there were too many writes about this object. The correlator keeps the count, so a
    /// later write has it. Upstream: `Skip`.
    Drop,
}

/// The parts of an Event that correlation decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// True if the Event combines several similar events.
    pub(super) combined: bool,
}

/// A moment on both clocks: wall time goes into Events, runtime time measures intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) wall: Timestamp,
    pub(super) runtime: Instant,
}

/// The recent Events of one component.
///
/// The caches store fingerprints instead of the identities themselves.
pub(super) struct Correlator {
    fingerprints: Fingerprints,
    messages: RandomState,
    /// By object, type and reason. Upstream: `EventAggregator`.
    groups: Lru<u128, Group>,
    /// By group and message, or by group alone for combined Events. Upstream: `eventLogger`.
    written: Lru<u128, Written>,
    /// By object and type. Upstream: `EventSourceObjectSpamFilter`.
    budgets: Lru<u128, TokenBucket>,
}

/// Events that differ only in their messages.
struct Group {
    /// Hashes of the last different messages. They have no allocation of their own: it would
    /// outlive the objects of a burst among which it lies, and keep their pages resident.
    messages: [u32; COMBINE_FROM - 1],
    /// The number of hashes in `messages`.
    known: u8,
    /// Also occurrences of known messages move it. Upstream: `lastTimestamp`.
    last: Instant,
}

/// An Event that was written, or that only the spam filter dropped.
#[derive(Clone, Copy)]
struct Written {
    count: u32,
    /// Time of the first occurrence.
    first: Timestamp,
    name: Name,
}

/// The unique part of an Event's name.
#[derive(Clone, Copy)]
enum Name {
    /// Nanoseconds since 1970, as the suffix of the object's name.
    Derived(i64),
    /// The whole name, if the object's name cannot be part of an Event's name.
    Random(Uuid),
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self {
            fingerprints: Fingerprints::default(),
            messages: RandomState::new(),
            groups: Lru::new(CAPACITY),
            written: Lru::new(CAPACITY),
            budgets: Lru::new(CAPACITY),
        }
    }

    /// Decides the write for `occurrence` at the time `now`.
    ///
    /// The order is upstream's in `EventCorrelate`: the filter comes last, so that dropped
    /// occurrences are part of later counts.
    pub(super) fn correlate(&mut self, occurrence: &Occurrence, now: Moment) -> Correlated {
        let Occurrence {
            object,
            origin,
            kind,
            reason,
            message,
            at,
        } = occurrence;
        let about = (
            &object.kind,
            &object.namespace,
            &object.name,
            &object.uid,
            &object.api_version,
            kind,
        );
        // The limit of writes is for all parts of an object together.
        let part = (about, origin);
        let group = self.fingerprints.of(&(part, reason));
        let combined = self.joins_group(group, message, now.runtime);

        let key = if combined {
            group
        } else {
            self.fingerprints.of(&(part, reason, message))
        };
        // A combined Event has the time of its combination, as in upstream's `EventAggregate`.
        let at = if combined { now.wall } else { *at };
        let written = self.written.get_or_insert_with(key, || Written {
            count: 0,
            first: at,
            name: if combined || is_valid_prefix(&object.name) {
                Name::Derived(next_nanosecond(&LAST_NANOSECOND, at))
            } else {
                Name::Random(Uuid::new_v4())
            },
        });
        // Counted even if the spam filter drops it, so that the next write has the full count.
        written.count = written.count.saturating_add(1);
        let written = *written;

        let budget = self.fingerprints.of(&about);
        let full = || TokenBucket::new_at(SPAM_RATE, SPAM_BURST, now.runtime);
        if !self
            .budgets
            .get_or_insert_with(budget, full)
            .try_take_at(now.runtime)
        {
            return Correlated::Drop;
        }

        let record = Record {
            name: match written.name {
                Name::Derived(nanosecond) => derived_name(&object.name, nanosecond),
                Name::Random(name) => name.to_string(),
            },
            message: if combined {
                format!("{COMBINED}{message}")
            } else {
                message.clone()
            },
            count: written.count,
            first: written.first,
            last: at,
            combined,
        };
        if record.count > 1 {
            Correlated::Patch(record)
        } else {
            Correlated::Post(record)
        }
    }

    /// Adds `message` to its group. True if the group has so many messages that they are combined.
    /// A message that the group knows is counted by its own Event, even in a full group.
    fn joins_group(&mut self, group: u128, message: &str, now: Instant) -> bool {
        // The lower half suffices: two equal hashes only delay the combination of a message.
        let message = self.messages.hash_one(message) as u32;
        let group = self.groups.get_or_insert_with(group, || Group {
            messages: [0; COMBINE_FROM - 1],
            known: 0,
            last: now,
        });
        if now.saturating_duration_since(group.last) > COMBINE_WITHIN {
            group.known = 0;
        }
        group.last = now;
        let known = usize::from(group.known);
        if group.messages[..known].contains(&message) {
            return false;
        }
        if let Some(free) = group.messages.get_mut(known) {
            *free = message;
            group.known += 1;
            return false;
        }
        // Upstream adds the message and removes an arbitrary one. This code removes the oldest.
        group.messages.rotate_left(1);
        group.messages[COMBINE_FROM - 2] = message;
        true
    }
}

/// The nanosecond in the last derived name, of all recorders of this process.
static LAST_NANOSECOND: AtomicI64 = AtomicI64::new(i64::MIN);

/// The nanosecond of `at`, or `last` + 1 if that is later.
///
/// Two components may record events about one object at the same moment, or about two objects with
/// one name. Their Events must have different names.
fn next_nanosecond(last: &AtomicI64, at: Timestamp) -> i64 {
    let nanosecond = i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
    let next = |last: i64| nanosecond.max(last.saturating_add(1));
    match last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(next(last))
    }) {
        Ok(last) | Err(last) => next(last),
    }
}

/// A name for an Event about `object`, which no other Event of this process has. `object` is a DNS
/// subdomain.
pub(super) fn unique_name(object: &str, at: Timestamp) -> String {
    derived_name(object, next_nanosecond(&LAST_NANOSECOND, at))
}

/// `<name>.<nanoseconds in hex>`.
fn derived_name(object: &str, nanosecond: i64) -> String {
    format!("{object}.{nanosecond:x}")
}

/// True if [`derived_name`] of this object is a DNS subdomain, as names of Events must be.
fn is_valid_prefix(object: &str) -> bool {
    const SUFFIX: usize = ".1234567890abcdef".len();
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let ends = label.bytes().next().zip(label.bytes().last());
        ends.is_some_and(|(first, last)| is_alphanumeric(first) && is_alphanumeric(last))
            && label
                .bytes()
                .all(|byte| is_alphanumeric(byte) || byte == b'-')
    };
    object.len() + SUFFIX <= 253 && object.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use steersman_objects::ObjectReference;

    use super::*;
    use crate::events::{EventType, Origin};

    const START: i64 = 1_800_000_000;

    fn occurrence(reason: &'static str, message: &str) -> Occurrence {
        let object = ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "my-ns".to_owned(),
            name: "my-pod".to_owned(),
            uid: "C934D34AFB20242".to_owned(),
            resource_version: "7".to_owned(),
        };
        let at = Timestamp::from_second(START).unwrap();
        Occurrence {
            object,
            origin: Origin::default(),
            kind: EventType::Normal,
            reason: reason.into(),
            message: message.to_owned(),
            at,
        }
    }

    /// A correlator with a clock that the test advances.
    struct TestCorrelator {
        correlator: Correlator,
        started: Instant,
        passed: Duration,
    }

    impl TestCorrelator {
        fn new() -> Self {
            Self {
                correlator: Correlator::new(),
                started: Instant::now(),
                passed: Duration::ZERO,
            }
        }

        fn correlate(&mut self, occurrence: &Occurrence, after: Duration) -> Correlated {
            self.passed += after;
            let wall = Timestamp::from_second(START).unwrap() + self.passed;
            let occurrence = Occurrence {
                at: wall,
                ..occurrence.clone()
            };
            self.correlator.correlate(
                &occurrence,
                Moment {
                    wall,
                    runtime: self.started + self.passed,
                },
            )
        }
    }

    fn repeated(count: usize, one: Occurrence) -> Vec<Occurrence> {
        vec![one; count]
    }

    fn similar(count: usize) -> Vec<Occurrence> {
        (0..count)
            .map(|n| occurrence("similar", &format!("similar message-{n}")))
            .collect()
    }

    fn unique(count: usize) -> Vec<Occurrence> {
        let of_another = |n| {
            let mut other = occurrence("reason", "message");
            other.object.name = format!("pod-{n}");
            other
        };
        (0..count).map(of_another).collect()
    }

    #[test]
    fn events_are_combined_counted_and_dropped_as_upstream_does() {
        let secs = Duration::from_secs;
        // (name, previous, new, seconds between, expected message and count)
        let cases = [
            (
                "create-a-single-event",
                vec![],
                occurrence("first", "i am first"),
                5,
                Some(("i am first", 1)),
            ),
            (
                "the-same-event-should-just-count",
                repeated(1, occurrence("duplicate", "me again")),
                occurrence("duplicate", "me again"),
                5,
                Some(("me again", 2)),
            ),
            (
                "the-same-event-should-just-count-even-if-more-than-aggregate",
                repeated(10, occurrence("duplicate", "me again")),
                occurrence("duplicate", "me again"),
                30,
                Some(("me again", 11)),
            ),
            (
                "the-same-event-is-spam-if-happens-too-frequently",
                repeated(26, occurrence("duplicate", "me again")),
                occurrence("duplicate", "me again"),
                1,
                None,
            ),
            (
                "create-many-unique-events",
                unique(30),
                occurrence("unique", "snowflake"),
                5,
                Some(("snowflake", 1)),
            ),
            (
                "similar-events-should-aggregate-event",
                similar(9),
                occurrence("similar", "similar message"),
                5,
                Some(("(combined from similar events): similar message", 1)),
            ),
            (
                "similar-events-many-times-should-count-the-aggregate",
                similar(10),
                occurrence("similar", "similar message"),
                5,
                Some(("(combined from similar events): similar message", 2)),
            ),
            (
                "similar-events-whose-interval-is-greater-than-aggregate-interval-do-not-aggregate",
                similar(9),
                occurrence("similar", "similar message"),
                601,
                Some(("similar message", 1)),
            ),
            (
                "similar events exactly the interval apart",
                similar(9),
                occurrence("similar", "similar message"),
                600,
                Some(("(combined from similar events): similar message", 1)),
            ),
        ];
        for (name, previous, new, seconds, expected) in cases {
            let mut correlator = TestCorrelator::new();
            for occurrence in previous {
                correlator.correlate(&occurrence, secs(seconds));
            }
            match (correlator.correlate(&new, secs(seconds)), expected) {
                (Correlated::Drop, None) => {}
                (Correlated::Post(record), Some((message, 1))) => {
                    assert_eq!((&*record.message, record.count), (message, 1), "{name}")
                }
                (Correlated::Patch(record), Some((message, count))) if count > 1 => {
                    assert_eq!((&*record.message, record.count), (message, count), "{name}");
                    assert!(record.first < record.last, "{name}");
                }
                (found, _) => panic!("{name}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn hundred_creations_give_nine_events_a_combined_one_and_fifteen_patches() {
        let mut correlator = TestCorrelator::new();
        let created = |n: usize| occurrence("SuccessfulCreate", &format!("Created pod: web-{n}"));
        let outcomes: Vec<_> = (1..=100)
            .map(|n| correlator.correlate(&created(n), Duration::from_millis(1)))
            .collect();

        assert!(
            outcomes[..9]
                .iter()
                .all(|o| matches!(o, Correlated::Post(record) if !record.combined))
        );
        let Correlated::Post(combined) = &outcomes[9] else {
            panic!("{:?}", outcomes[9])
        };
        assert!(combined.combined);
        assert_eq!(
            combined.message,
            "(combined from similar events): Created pod: web-10"
        );
        for (n, outcome) in outcomes[10..25].iter().enumerate() {
            let Correlated::Patch(record) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(
                (&record.name, record.count as usize),
                (&combined.name, n + 2)
            );
        }
        assert!(
            outcomes[25..]
                .iter()
                .all(|outcome| *outcome == Correlated::Drop)
        );

        // After five minutes there is one more token, and the count includes dropped events.
        let Correlated::Patch(record) =
            correlator.correlate(&created(101), Duration::from_secs(300))
        else {
            panic!("no patch")
        };
        assert_eq!((record.name, record.count), (combined.name.clone(), 92));
        assert_eq!(
            correlator.correlate(&created(102), Duration::ZERO),
            Correlated::Drop
        );
    }

    #[test]
    fn each_type_and_each_object_has_its_own_spam_limit() {
        let mut correlator = TestCorrelator::new();
        let normal = occurrence("a", "b");
        let mut drops = |occurrence: &Occurrence| {
            (0..26)
                .filter(|_| correlator.correlate(occurrence, Duration::ZERO) == Correlated::Drop)
                .count()
        };
        assert_eq!(drops(&normal), 1);
        assert_eq!(
            drops(&Occurrence {
                reason: "another".into(),
                ..normal.clone()
            }),
            26,
            "all reasons share the limit"
        );
        assert_eq!(
            drops(&Occurrence {
                kind: EventType::Warning,
                ..normal.clone()
            }),
            1
        );
        let mut recreated = normal.clone();
        recreated.object.uid = "another".to_owned();
        assert_eq!(drops(&recreated), 1);
        let mut newer = normal;
        newer.object.resource_version = "8".to_owned();
        assert_eq!(drops(&newer), 26, "all versions share the limit");
    }

    #[test]
    fn names_start_with_the_object_name_if_the_result_is_valid() {
        let at = Timestamp::from_second(START).unwrap();
        let nanosecond = next_nanosecond(&AtomicI64::new(0), at);
        assert_eq!(derived_name("web", nanosecond), "web.18fae27693b40000");
        // (name of the object, whether the Event's name starts with it)
        let long = "a".repeat(236);
        let cases = [
            ("web", true),
            ("web-1.example", true),
            ("1", true),
            ("a-", false),
            ("-a", false),
            ("a..b", false),
            ("", false),
            ("-", false),
            ("system:node", false),
            ("Web", false),
            (&long, true),
            (&format!("{long}a"), false),
        ];
        for (name, is_valid) in cases {
            assert_eq!(is_valid_prefix(name), is_valid, "{name}");
            let mut event = occurrence("a", "b");
            event.object.name = name.to_owned();
            let Correlated::Post(record) = TestCorrelator::new().correlate(&event, Duration::ZERO)
            else {
                panic!("a first event")
            };
            let is_derived = record
                .name
                .rsplit_once('.')
                .is_some_and(|(object, _)| object == name);
            assert_eq!(is_derived, is_valid, "{name}: {}", record.name);
        }
    }

    #[test]
    fn derived_names_have_different_nanoseconds() {
        let last = AtomicI64::new(i64::MIN);
        let at = |nanosecond| Timestamp::from_nanosecond(nanosecond).unwrap();
        // (why, time, nanosecond in the name)
        let cases = [
            ("first", 50, 50),
            ("the same moment", 50, 51),
            ("later, but used already", 51, 52),
            ("the clock was set back", 7, 53),
            ("later", 60, 60),
        ];
        for (why, time, expected) in cases {
            assert_eq!(next_nanosecond(&last, at(time)), expected, "{why}");
        }

        // Two components have different correlators.
        let event = occurrence("a", "b");
        let names = [TestCorrelator::new(), TestCorrelator::new()].map(|mut correlator| {
            match correlator.correlate(&event, Duration::ZERO) {
                Correlated::Post(record) => record.name,
                other => panic!("{other:?}"),
            }
        });
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn a_random_name_is_kept_for_later_counts() {
        let mut correlator = TestCorrelator::new();
        let mut event = occurrence("a", "b");
        event.object.name = "system:node".to_owned();
        let Correlated::Post(first) = correlator.correlate(&event, Duration::ZERO) else {
            panic!("a first event")
        };
        let Correlated::Patch(second) = correlator.correlate(&event, Duration::ZERO) else {
            panic!("a second one")
        };
        assert_eq!((second.name, second.count), (first.name, 2));
    }
}
