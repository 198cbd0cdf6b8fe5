//! The held-back writes that the present manager has not made yet. Pure: time and live objects are arguments.
//!
//! [`Ledger::sent`] -> [`Ledger::due`] -> (look-up) -> [`Ledger::looked_up`] -> [`Difference`] ->
//! [`Ledger::reported`], or [`Ledger::postponed`] while the present manager cannot make the write
//!
//! A write is reported when, for the whole grace time, the controller wanted one value and the object
//! kept another. The grace time begins again whenever either value changes, so an object that both
//! managers are working on is never reported. After the grace time, the controller must have sent the
//! write once more: otherwise it may not want the write any longer. The present manager must have renewed its
//! Lease, too: otherwise it may have died meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::compare::{Fields, Live, Outcome, compare};
use super::write::{Key, Verb, Write};

/// Time before the first look-up. The present manager usually needs milliseconds.
const FIRST: Duration = Duration::from_secs(1);
/// Time between look-ups of a write that its controller still sends.
const NEXT: Duration = Duration::from_secs(3);
/// The same for a write that has not been sent again for [`PAUSE`].
const SELDOM: Duration = Duration::from_secs(15);
/// A longer pause between two sends is an interruption, unless the object stayed unchanged. Workers
/// send refused writes again after three seconds.
const PAUSE: Duration = Duration::from_secs(15);
/// A write that is not sent again for so long is no longer wanted. Longer than any retry of a
/// controller's own.
const FORGET: Duration = Duration::from_secs(150);
/// The longest time between two tries of the present manager.
/// Upstream: `DefaultTypedControllerRateLimiter`.
const LONGEST: Duration = Duration::from_secs(1000);
/// The most pending writes. Further ones are counted and not compared.
const MOST: usize = 50_000;

/// A write that the present manager does not make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference {
    pub(super) write: Write,
    /// The fields that stayed different during the grace time.
    pub(super) fields: Fields,
    /// Time since the oldest of these differences began.
    pub(super) age: Duration,
    /// How often the controller has sent it.
    pub(super) sends: u32,
}

/// The pending writes.
pub(super) struct Ledger {
    grace: Duration,
    /// The time at which the last renewal of the present manager's Lease was seen. `None` without a Lease.
    led: Option<Instant>,
    entries: HashMap<Key, Entry>,
    /// Writes that were held back, Events included.
    pub(super) held: u64,
    /// Writes that were not compared because too many were pending.
    pub(super) dropped: u64,
    /// Writes that somebody made, or that are no longer wanted.
    pub(super) settled: u64,
    /// Ends of grace times at which the present manager could not make a creation.
    pub(super) postponed: u64,
}

struct Entry {
    write: Write,
    first_sent: Instant,
    last_sent: Instant,
    sends: u32,
    due: Instant,
    /// Differences by path, and when each began.
    fields: HashMap<String, (Value, Value, Instant)>,
    /// Version of the object, or the collection's objects, at the last look-up.
    version: Option<Value>,
    /// Whether the write was not sent for a while before `last_sent`.
    was_interrupted: bool,
    /// The last time at which the present manager could not make the write.
    refused: Option<Instant>,
    is_reported: bool,
}

impl Ledger {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            led: None,
            entries: HashMap::new(),
            held: 0,
            dropped: 0,
            settled: 0,
            postponed: 0,
        }
    }

    /// A renewal of the present manager's Lease was seen at `at`.
    pub(super) fn led(&mut self, at: Instant) {
        self.led = Some(at);
    }

    /// A controller sends `write`.
    pub(super) fn sent(&mut self, now: Instant, write: Write) {
        let key = write.key();
        let is_full = self.entries.len() >= MOST;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.was_interrupted |= now.duration_since(entry.last_sent) > PAUSE;
            entry.write = write;
            entry.last_sent = now;
            entry.sends += 1;
            entry.due = entry.due.min(now + NEXT);
        } else if is_full {
            self.dropped += 1;
        } else {
            let entry = Entry {
                write,
                first_sent: now,
                last_sent: now,
                sends: 1,
                due: now + FIRST,
                fields: HashMap::new(),
                version: None,
                was_interrupted: false,
                refused: None,
                is_reported: false,
            };
            self.entries.insert(key, entry);
        }
    }

    /// At most `limit` writes to look up now, those first that wait longest. Forgets writes that are
    /// no longer wanted.
    pub(super) fn due(&mut self, now: Instant, limit: usize) -> Vec<(Key, String)> {
        let before = self.entries.len();
        self.entries
            .retain(|_, entry| now.duration_since(entry.last_sent) < FORGET);
        self.settled += (before - self.entries.len()) as u64;
        let mut due: Vec<(&Key, &mut Entry)> = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.due <= now)
            .collect();
        due.sort_unstable_by_key(|(_, entry)| entry.due);
        due.truncate(limit);
        let due = due.into_iter().map(|(key, entry)| {
            let is_quiet = now.duration_since(entry.last_sent) > PAUSE;
            entry.due = now + if is_quiet { SELDOM } else { NEXT };
            (key.clone(), entry.write.look_up())
        });
        due.collect()
    }

    /// The live state for the write of `key`, read at `now`. Returns a difference once its grace time
    /// is over, until it is reported or postponed.
    pub(super) fn looked_up(&mut self, now: Instant, key: &Key, live: &Live) -> Option<Difference> {
        let grace = self.grace;
        let led = self.led.unwrap_or(now);
        let entry = self.entries.get_mut(key)?;
        match compare(&entry.write, live) {
            Outcome::Made => {
                self.entries.remove(key);
                self.settled += 1;
                None
            }
            Outcome::Stale => None,
            Outcome::Differs(fields) => entry.differs(now, led, grace, fields, version(live)),
        }
    }

    /// The difference of `key` was shown, once and for all.
    pub(super) fn reported(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_reported = true;
        }
    }

    /// The present manager cannot make the write of `key`. The grace time begins again, for the case that it
    /// can later.
    pub(super) fn postponed(&mut self, now: Instant, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.fields.clear();
            entry.refused = Some(now);
            self.postponed += 1;
        }
    }

    /// Whether the present manager may still wait before it tries the write of `key` again, after a time in which
    /// it could not make it. If so, the grace time begins again. Each failure doubles the wait, so the next try
    /// comes after at most the time of all failures.
    pub(super) fn backs_off(&mut self, now: Instant, key: &Key) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        let Some(refused) = entry.refused else {
            return false;
        };
        // The reason was looked for once in a grace time, so it may have lasted for one more.
        let end = refused + self.grace;
        let failing = end.duration_since(entry.first_sent);
        let backs_off = now < end + failing.min(LONGEST) + self.grace;
        if backs_off {
            entry.fields.clear();
        }
        backs_off
    }

    /// The present manager starts its controllers anew. All grace times begin again, with the next send: a
    /// controller that starts anew may want a write of its last start only later. Reported writes stay
    /// reported.
    pub(super) fn restart(&mut self) {
        self.entries.retain(|_, entry| entry.is_reported);
    }

    /// The number of writes that are not reported, and that their controllers still send at `now`.
    pub(super) fn pending(&self, now: Instant) -> usize {
        let is_pending =
            |entry: &&Entry| !entry.is_reported && now.duration_since(entry.last_sent) <= PAUSE;
        self.entries.values().filter(is_pending).count()
    }
}

/// A value that changes whenever the live state does.
fn version(live: &Live) -> Value {
    match live {
        Live::Absent => Value::Null,
        Live::Object(object) => object["metadata"]["resourceVersion"].clone(),
        Live::List(items) => items
            .iter()
            .map(|item| item["metadata"]["resourceVersion"].clone())
            .collect(),
    }
}

impl Entry {
    fn differs(
        &mut self,
        now: Instant,
        led: Instant,
        grace: Duration,
        fields: Fields,
        version: Value,
    ) -> Option<Difference> {
        // Between two distant sends, the object may have been as wanted. An object that is one of many does not
        // tell: the present manager may have made another one, or deleted another one.
        let has_changed = self.version.as_ref().is_some_and(|old| *old != version);
        let is_anew = has_changed || self.write.is_one_of_many();
        if std::mem::take(&mut self.was_interrupted) && is_anew {
            self.fields.clear();
        }
        self.version = Some(version);
        let mut known = std::mem::take(&mut self.fields);
        for (path, field) in &fields {
            let began = match known.remove(path) {
                Some((live, wanted, began)) if live == field.live && wanted == field.wanted => {
                    began
                }
                _ => now,
            };
            let state = (field.live.clone(), field.wanted.clone(), began);
            self.fields.insert(path.clone(), state);
        }
        let judged = self.last_sent.min(led);
        let is_due = |path: &String| judged >= self.fields[path].2 + grace;
        let mut stuck = fields;
        stuck.retain(|path, _| is_due(path));
        if stuck.is_empty() || self.is_reported {
            return None;
        }
        let oldest = stuck.keys().map(|path| self.fields[path].2).min()?;
        let is_whole = matches!(self.write.verb, Verb::Create | Verb::Generate);
        if self.write.is_secret() && !is_whole {
            for field in stuck.values_mut() {
                let hidden = Value::from("(hidden)");
                field.live = hidden.clone();
                field.wanted = hidden;
            }
        }
        Some(Difference {
            write: self.write.clone(),
            fields: stuck,
            age: now.duration_since(oldest),
            sends: self.sends,
        })
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::shadow::write::tests::write;

    const GRACE: Duration = Duration::from_secs(30);
    const PATH: &str = "/apis/apps/v1/namespaces/n/deployments/a";

    /// Seconds of a simulated run, and the reports with their age.
    struct Story {
        start: Instant,
        ledger: Ledger,
        reports: Vec<(u64, String)>,
        /// The second from which the present manager can make the write.
        postponed_until: u64,
    }

    impl Story {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                ledger: Ledger::new(GRACE),
                reports: Vec::new(),
                postponed_until: 0,
            }
        }

        /// Runs from second `from` to `to`. The controller sends `wants(second)` every `every`
        /// seconds, and look-ups find `live(second)`.
        fn run(
            &mut self,
            (from, to, every): (u64, u64, u64),
            wants: impl Fn(u64) -> Option<Write>,
            live: impl Fn(u64) -> Live,
        ) {
            for second in from..to {
                let now = self.start + Duration::from_secs(second);
                if let Some(write) = wants(second).filter(|_| second % every == 0) {
                    self.ledger.sent(now, write);
                }
                for (key, _) in self.ledger.due(now, 100) {
                    let found = self.ledger.looked_up(now, &key, &live(second));
                    let Some(difference) = found else { continue };
                    if second < self.postponed_until {
                        self.ledger.postponed(now, &key);
                        continue;
                    }
                    if self.ledger.backs_off(now, &key) {
                        continue;
                    }
                    self.ledger.reported(&key);
                    let paths: Vec<_> = difference.fields.keys().cloned().collect();
                    self.reports.push((second, paths.join(" ")));
                }
            }
        }
    }

    fn scale(replicas: u64, version: u64) -> Write {
        let body = json!({"metadata": {"resourceVersion": version.to_string()}, "spec": {"replicas": replicas}});
        write(Method::PUT, PATH, "application/json", body)
    }

    fn object(replicas: u64, version: u64) -> Live {
        Live::Object(
            json!({"metadata": {"resourceVersion": version.to_string()}, "spec": {"replicas": replicas}}),
        )
    }

    #[test]
    fn a_write_without_a_counterpart_is_reported_once() {
        let mut story = Story::new();
        story.run((0, 200, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        assert_eq!(story.reports, [(34, "spec.replicas".to_owned())]);
    }

    #[test]
    fn a_postponed_write_is_reported_after_the_back_off_of_the_present_manager() {
        // A manager that fails from second 0 to 100 tries again by second 200.
        let mut story = Story::new();
        story.postponed_until = 100;
        story.run((0, 300, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        let [(second, _)] = story.reports[..] else {
            panic!("{:?}", story.reports);
        };
        assert!((200..270).contains(&second), "{second}");
        assert_eq!(story.ledger.postponed, 2);
    }

    #[test]
    fn a_restart_of_the_present_manager_begins_grace_times_anew() {
        let mut story = Story::new();
        story.run((0, 28, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        story.ledger.restart();
        story.run((28, 100, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        let [(second, _)] = story.reports[..] else {
            panic!("{:?}", story.reports);
        };
        assert!((58..70).contains(&second), "{second}");
        story.ledger.restart();
        story.run((100, 200, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        assert_eq!(story.reports.len(), 1);
    }

    #[test]
    fn a_write_of_the_last_start_is_not_wanted_yet() {
        // The pod garbage collector waits 40 seconds after each start before it deletes pods of absent nodes.
        let mut story = Story::new();
        story.run((0, 1, 1), |_| Some(scale(3, 7)), |_| object(2, 7));
        story.ledger.restart();
        story.run((1, 41, 1), |_| None, |_| object(2, 7));
        story.run((41, 60, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        assert_eq!(story.reports, []);
        story.run((60, 100, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        assert_eq!(story.reports.len(), 1);
    }

    #[test]
    fn a_write_that_is_made_is_not_reported() {
        // The second of the write by the other manager, and the reports.
        for made in [0, 1, 10, 29] {
            let mut story = Story::new();
            let wants = |second| (second < made).then(|| scale(3, 7));
            let live = |second| {
                if second < made {
                    object(2, 7)
                } else {
                    object(3, 8)
                }
            };
            story.run((0, 200, 1), wants, live);
            assert_eq!(
                (story.reports, story.ledger.entries.len()),
                (vec![], 0),
                "{made}"
            );
        }
    }

    #[test]
    fn a_write_that_is_no_longer_wanted_is_not_reported() {
        let mut story = Story::new();
        story.run((0, 20, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
        story.run((20, 300, 3), |_| None, |_| object(2, 8));
        assert_eq!((story.reports, story.ledger.entries.len()), (vec![], 0));
    }

    #[test]
    fn a_manager_that_renews_its_lease_no_more_may_have_died() {
        // The second of the last renewal, and the reports.
        for (renewed, reports) in [(20, 0), (29, 0), (36, 1)] {
            let mut story = Story::new();
            story.ledger.led(story.start + Duration::from_secs(renewed));
            story.run((0, 45, 3), |_| Some(scale(3, 7)), |_| object(2, 7));
            assert_eq!(
                story.reports.len(),
                reports,
                "{renewed}: {:?}",
                story.reports
            );
        }
    }

    #[test]
    fn an_object_that_keeps_moving_is_not_reported() {
        // Both managers follow a user that scales every ten seconds.
        let mut story = Story::new();
        let wants = |second| Some(scale(second / 10 + 1, second / 10));
        story.run((0, 300, 1), wants, |second| {
            object(second / 10, second / 10)
        });
        assert_eq!(story.reports, []);
    }

    #[test]
    fn the_same_write_at_two_times_is_no_difference() {
        // (why, version of the object at the second time, reports)
        let cases = [
            ("the object changed", 9, 0),
            ("the object is unchanged", 7, 1),
        ];
        for (why, version, reports) in cases {
            let mut story = Story::new();
            story.run((0, 1, 1), |_| Some(scale(3, 7)), |_| object(2, 7));
            story.run((1, 50, 1), |_| None, |_| object(2, 7));
            story.run(
                (50, 51, 1),
                |_| Some(scale(3, version)),
                |_| object(2, version),
            );
            story.run((51, 60, 1), |_| None, |_| object(2, version));
            assert_eq!(story.reports.len(), reports, "{why}: {:?}", story.reports);
        }
    }

    #[test]
    fn a_put_of_an_older_version_proves_nothing() {
        let mut story = Story::new();
        story.run((0, 200, 3), |_| Some(scale(3, 7)), |_| object(2, 8));
        assert_eq!(story.reports, []);
    }

    #[test]
    fn children_that_keep_coming_are_no_difference() {
        let child = || {
            let owner = json!([{"uid": "o", "controller": true}]);
            let body = json!({"metadata": {"generateName": "a-", "ownerReferences": owner}});
            write(
                Method::POST,
                "/api/v1/namespaces/n/pods",
                "application/json",
                body,
            )
        };
        let pods = |count| {
            let pod = |n| json!({"metadata": {"name": format!("a-{n}"), "ownerReferences": [{"uid": "o"}]}});
            Live::List((0..count).map(pod).collect())
        };
        let mut story = Story::new();
        story.run((0, 100, 3), |_| Some(child()), |second| pods(second / 20));
        assert_eq!(story.reports, [], "one more pod every 20 seconds");
        story.run((100, 200, 3), |_| Some(child()), |_| pods(5));
        assert_eq!(story.reports.len(), 1);

        // The present manager made the first one before the look-up, so the list never changes.
        let mut story = Story::new();
        story.run((0, 1, 1), |_| Some(child()), |_| pods(1));
        story.run((1, 29, 1), |_| None, |_| pods(1));
        story.run((29, 35, 3), |_| Some(child()), |_| pods(1));
        assert_eq!(story.reports, [], "two creations, 29 seconds apart");
    }

    #[test]
    fn a_pod_that_is_chosen_twice_is_no_difference() {
        let delete = || {
            let path = "/api/v1/namespaces/n/pods/a-1";
            let mut delete = write(Method::DELETE, path, "", json!({}));
            delete.context.key = "n/a".to_owned();
            delete
        };
        let pod = || Live::Object(json!({"metadata": {"name": "a-1", "resourceVersion": "7"}}));
        // The present manager deleted other pods than this one, both times.
        let mut story = Story::new();
        story.run((0, 1, 1), |_| Some(delete()), |_| pod());
        story.run((1, 93, 1), |_| None, |_| pod());
        story.run((93, 100, 3), |_| Some(delete()), |_| pod());
        story.run((100, 120, 1), |_| None, |_| pod());
        assert_eq!(story.reports, [], "two deletions, 93 seconds apart");
        story.run((120, 200, 3), |_| Some(delete()), |_| pod());
        assert_eq!(story.reports.len(), 1, "a deletion that stays wanted");
    }

    #[test]
    fn values_of_secrets_are_hidden() {
        let secret =
            |data: &str| json!({"metadata": {"resourceVersion": "1"}, "data": {"token": data}});
        let path = "/api/v1/namespaces/n/secrets/s";
        let start = Instant::now();
        let mut ledger = Ledger::new(Duration::ZERO);
        ledger.sent(
            start,
            write(Method::PUT, path, "application/json", secret("new")),
        );
        let (key, _) = ledger.due(start + FIRST, 1).remove(0);
        let later = start + FIRST;
        let live = Live::Object(secret("old"));
        assert_eq!(ledger.looked_up(later, &key, &live), None);
        ledger.sent(
            later,
            write(Method::PUT, path, "application/json", secret("new")),
        );
        let shown = format!("{:?}", ledger.looked_up(later, &key, &live).unwrap().fields);
        assert!(
            shown.contains("data.token") && shown.contains("hidden"),
            "{shown}"
        );
        assert!(!shown.contains("new") && !shown.contains("old"), "{shown}");
    }

    #[test]
    fn pending_writes_are_bounded() {
        let now = Instant::now();
        let mut ledger = Ledger::new(GRACE);
        for n in 0..MOST + 2 {
            ledger.sent(
                now,
                write(Method::DELETE, &format!("{PATH}{n}"), "", json!({})),
            );
        }
        assert_eq!((ledger.pending(now), ledger.dropped), (MOST, 2));
        assert_eq!(ledger.due(now + FIRST, 10).len(), 10);
    }
}
