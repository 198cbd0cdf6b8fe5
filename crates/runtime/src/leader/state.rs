//! Decides about the Lease: what to ask for next, whether we lead, when our term is over. No IO.
//!
//! attempt -> (leading: write at once) -> read -> held by another | write -> leading
//!
//! Only the local monotonic clock decides. The times in the Lease are for people; the time that
//! counts is when *we* first saw the record that is in it. On Linux that clock goes on while a
//! process is stopped (SIGSTOP, a frozen cgroup), so a leader that wakes up late finds its term
//! over before it can write.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::lease::{Lease, Record, micro_time};

/// Where we stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Somebody else leads, or nobody that we know of.
    Standby,
    /// The Lease is ours. We may write before `until`: the start of the last write of it that
    /// succeeded, plus the renew deadline.
    Leading { until: Instant },
    /// Our term is over. There is no way back.
    Lost,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Input {
    /// It is time for an attempt to get or keep the Lease.
    Attempt,
    /// The Lease was read.
    Found(Lease),
    /// There is no Lease.
    Missing,
    /// Reading failed.
    Unreadable,
    /// Our write was taken, and this is the Lease now.
    Written(Lease),
    /// Our write was refused, or its answer never came.
    NotWritten,
}

/// What to do about it.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Read the Lease, from the latest state.
    Read,
    /// Create the Lease with this record.
    Create(Record),
    /// Replace the Lease as we remember it; if it is another by now, it is read next.
    Renew(Lease, Record),
    /// Replace the Lease just read.
    Update(Lease, Record),
    /// Nothing until the next attempt.
    Rest(Outcome),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// We lead now.
    Acquired,
    /// We still lead.
    Renewed,
    /// Somebody else leads.
    Held { holder: String },
    /// A request failed.
    Failed,
    /// Our term is over.
    Lost,
}

struct Observed {
    lease: Lease,
    /// When its record was first seen with this content.
    since: Instant,
}

/// The write under way.
struct Pending {
    began: Instant,
    /// Made from memory; if it fails, the Lease is read.
    is_optimistic: bool,
}

/// One candidate's view of the election.
pub(super) struct Election {
    identity: String,
    lease_duration: Duration,
    /// How long a successful write lets us lead.
    term: Duration,
    state: State,
    observed: Option<Observed>,
    pending: Option<Pending>,
    slow_renewals: u64,
}

impl Election {
    pub(super) fn new(
        identity: String,
        lease_duration: Duration,
        renew_deadline: Duration,
    ) -> Self {
        // Others go by the whole seconds in the record, so these also bound our term.
        let term = renew_deadline.min(Duration::from_secs(lease_duration.as_secs()));
        Self {
            identity,
            lease_duration,
            term,
            state: State::Standby,
            observed: None,
            pending: None,
            slow_renewals: 0,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// The Lease as last read or written.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|o| &o.lease)
    }

    /// When the record last changed before our eyes.
    pub(super) fn observed_since(&self) -> Option<Instant> {
        self.observed.as_ref().map(|o| o.since)
    }

    /// Renewals that had to read the Lease first.
    pub(super) fn slow_renewals(&self) -> u64 {
        self.slow_renewals
    }

    /// Ends our term.
    pub(super) fn give_up(&mut self) {
        self.state = State::Lost;
    }

    /// Takes in what happened at `now` and says what to do. `wall` is only ever written into
    /// records.
    pub(super) fn step(&mut self, input: Input, now: Instant, wall: Timestamp) -> Next {
        // Before all else: no answer, however good, prolongs a term that has run out.
        if let State::Leading { until } = self.state
            && now >= until
        {
            self.state = State::Lost;
        }
        if self.state == State::Lost {
            return Next::Rest(Outcome::Lost);
        }
        let pending = self.pending.take();
        match input {
            Input::Attempt => self.begin(now, wall),
            Input::Found(lease) => self.found(lease, now, wall),
            Input::Missing => {
                let record = self.record(None, 0, wall);
                self.write(now, false);
                Next::Create(record)
            }
            Input::Unreadable => Next::Rest(Outcome::Failed),
            Input::Written(lease) => self.written(lease, pending, now),
            Input::NotWritten if pending.is_some_and(|p| p.is_optimistic) => Next::Read,
            Input::NotWritten => Next::Rest(Outcome::Failed),
        }
    }

    /// What to write to give up `lease`; `None` if it is not ours.
    pub(super) fn release(&self, lease: &Lease, wall: Timestamp) -> Option<Record> {
        let now = micro_time(wall);
        (lease.holder() == self.identity).then(|| Record {
            holder: String::new(),
            duration_seconds: 1,
            acquire_time: now.clone(),
            renew_time: now,
            transitions: lease.transitions(),
        })
    }

    fn begin(&mut self, now: Instant, wall: Timestamp) -> Next {
        match &self.observed {
            Some(seen) if seen.lease.holder() == self.identity && seen.is_valid(now) => {
                let lease = seen.lease.clone();
                let record = self.record(lease.acquire_time(), lease.transitions(), wall);
                self.write(now, true);
                Next::Renew(lease, record)
            }
            _ => Next::Read,
        }
    }

    fn found(&mut self, lease: Lease, now: Instant, wall: Timestamp) -> Next {
        let before = self.observed.take();
        let since = before
            .as_ref()
            .filter(|o| o.lease.spec() == lease.spec())
            .map_or(now, |o| o.since);
        let seen = Observed {
            lease: lease.clone(),
            since,
        };
        let is_valid = seen.is_valid(now);
        self.observed = Some(seen);

        let holder = lease.holder();
        let is_others = !holder.is_empty() && holder != self.identity;
        if matches!(self.state, State::Leading { .. }) {
            // Upstream goes on trying until its deadline. But whoever is in the Lease writes
            // already, and whoever was in it and left has written, so our term ends here.
            let has_changed_hands = holder.is_empty()
                && before.is_some_and(|o| o.lease.transitions() != lease.transitions());
            if is_others || has_changed_hands {
                self.state = State::Lost;
                return Next::Rest(Outcome::Lost);
            }
        }
        if is_others && is_valid {
            return Next::Rest(Outcome::Held {
                holder: holder.to_owned(),
            });
        }

        let record = if holder == self.identity {
            self.slow_renewals += 1;
            self.record(lease.acquire_time(), lease.transitions(), wall)
        } else {
            self.record(None, lease.transitions() + 1, wall)
        };
        self.write(now, false);
        Next::Update(lease, record)
    }

    fn written(&mut self, lease: Lease, pending: Option<Pending>, now: Instant) -> Next {
        self.observed = Some(Observed { lease, since: now });
        // The term counts from before the request was sent: nobody can have seen the new record
        // earlier than that.
        let until = pending.map_or(now, |p| p.began + self.term);
        let was_leading = matches!(self.state, State::Leading { .. });
        if now >= until {
            // Only a standby gets here. The record is ours; the next attempt renews it.
            return Next::Rest(Outcome::Failed);
        }
        self.state = State::Leading { until };
        Next::Rest(if was_leading {
            Outcome::Renewed
        } else {
            Outcome::Acquired
        })
    }

    fn write(&mut self, began: Instant, is_optimistic: bool) {
        self.pending = Some(Pending {
            began,
            is_optimistic,
        });
    }

    fn record(&self, acquired: Option<&str>, transitions: i64, wall: Timestamp) -> Record {
        let now = micro_time(wall);
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.lease_duration.as_secs(),
            acquire_time: acquired.map_or_else(|| now.clone(), str::to_owned),
            renew_time: now,
            transitions,
        }
    }
}

impl Observed {
    /// Whether its holder may still be leading, going by the duration that holder wrote.
    fn is_valid(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since)
            < Duration::from_secs(self.lease.duration_seconds())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ME: &str = "me";

    struct Candidate {
        election: Election,
        start: Instant,
    }

    impl Candidate {
        fn new() -> Self {
            let election = Election::new(
                ME.to_owned(),
                Duration::from_secs(15),
                Duration::from_secs(10),
            );
            Self {
                election,
                start: Instant::now(),
            }
        }

        /// One that acquired a fresh Lease with the write of second 0.
        fn leading() -> Self {
            let mut candidate = Self::new();
            candidate.at(0.0, Input::Attempt);
            candidate.at(0.0, Input::Missing);
            assert_eq!(
                candidate.at(0.0, Input::Written(lease(ME, 15, 0, 1))),
                Next::Rest(Outcome::Acquired)
            );
            candidate
        }

        fn at(&mut self, seconds: f64, input: Input) -> Next {
            let wall = Timestamp::UNIX_EPOCH + Duration::from_secs_f64(seconds);
            self.election
                .step(input, self.start + Duration::from_secs_f64(seconds), wall)
        }

        fn until(&self) -> f64 {
            match self.election.state() {
                State::Leading { until } => (until - self.start).as_secs_f64(),
                other => panic!("not leading: {other:?}"),
            }
        }
    }

    /// `renewed` stands for the fields that change with each renewal.
    fn lease(holder: &str, duration: u64, transitions: i64, renewed: u32) -> Lease {
        let document = json!({
            "metadata": {"name": "l", "namespace": "ns", "resourceVersion": renewed.to_string()},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration,
                "acquireTime": "2020-01-01T00:00:00.000000Z",
                "renewTime": format!("2020-01-01T00:00:{renewed:02}.000000Z"),
                "leaseTransitions": transitions,
            },
        });
        Lease::decode(document.to_string().as_bytes()).unwrap()
    }

    fn held(holder: &str) -> Next {
        Next::Rest(Outcome::Held {
            holder: holder.to_owned(),
        })
    }

    fn record_of(next: Next) -> Record {
        match next {
            Next::Create(record) | Next::Renew(_, record) | Next::Update(_, record) => record,
            other => panic!("no write: {other:?}"),
        }
    }

    #[test]
    fn the_creator_writes_transitions_zero() {
        let mut me = Candidate::new();
        assert_eq!(me.at(0.0, Input::Attempt), Next::Read);
        let Next::Create(record) = me.at(0.0, Input::Missing) else {
            panic!("no create")
        };
        assert_eq!(
            record,
            Record {
                holder: ME.to_owned(),
                duration_seconds: 15,
                acquire_time: "1970-01-01T00:00:00.000000Z".to_owned(),
                renew_time: "1970-01-01T00:00:00.000000Z".to_owned(),
                transitions: 0,
            }
        );
    }

    #[test]
    fn who_may_take_a_lease_and_what_it_writes() {
        // (why, lease found, then seconds later found again unchanged, transitions written; None:
        // held)
        let cases = [
            (
                "held, first seen just now",
                lease("other", 15, 3, 1),
                0.0,
                None,
            ),
            (
                "held, seen for a while",
                lease("other", 15, 3, 1),
                14.9,
                None,
            ),
            (
                "run out since we watch it",
                lease("other", 15, 3, 1),
                15.0,
                Some(4),
            ),
            (
                "the holder's own duration counts, longer",
                lease("other", 60, 3, 1),
                59.9,
                None,
            ),
            (
                "the holder's own duration counts, shorter",
                lease("other", 2, 3, 1),
                2.0,
                Some(4),
            ),
            ("released", lease("", 1, 3, 1), 0.0, Some(4)),
            ("ours from a lost answer", lease(ME, 15, 3, 1), 0.0, Some(3)),
            ("ours, gone stale", lease(ME, 15, 3, 1), 20.0, Some(3)),
        ];
        for (why, found, later, expected) in cases {
            let mut me = Candidate::new();
            me.at(0.0, Input::Attempt);
            let mut next = me.at(0.0, Input::Found(found.clone()));
            if later > 0.0 {
                me.at(0.0, Input::NotWritten);
                me.at(later, Input::Attempt);
                next = me.at(later, Input::Found(found));
            }
            match expected {
                None => assert_eq!(next, held("other"), "{why}"),
                Some(transitions) => assert_eq!(record_of(next).transitions, transitions, "{why}"),
            }
        }
    }

    #[test]
    fn a_standby_counts_from_when_it_first_saw_the_current_record() {
        let mut me = Candidate::new();
        // The leader renews at 0..=8, then dies; we look every 4 seconds and once more just before
        // and at the end.
        for (seconds, renewed) in [(0.0, 0), (4.0, 4), (8.0, 8), (12.0, 8), (22.9, 8)] {
            me.at(seconds, Input::Attempt);
            assert_eq!(
                me.at(seconds, Input::Found(lease("other", 15, 0, renewed))),
                held("other"),
                "at {seconds}"
            );
        }
        me.at(23.0, Input::Attempt);
        let record = record_of(me.at(23.0, Input::Found(lease("other", 15, 0, 8))));
        assert_eq!(record.transitions, 1);
        assert_eq!(record.acquire_time, "1970-01-01T00:00:23.000000Z");
    }

    #[test]
    fn any_change_of_the_record_starts_the_patience_anew() {
        // (why, field, value)
        let cases = [
            ("renewed", "renewTime", json!("2021-01-01T00:00:00.000000Z")),
            (
                "acquired",
                "acquireTime",
                json!("2021-01-01T00:00:00.000000Z"),
            ),
            ("transitions", "leaseTransitions", json!(9)),
            ("strategy", "strategy", json!("OldestEmulationVersion")),
            ("preferred holder", "preferredHolder", json!("x")),
        ];
        for (why, field, value) in cases {
            let mut me = Candidate::new();
            me.at(0.0, Input::Attempt);
            me.at(0.0, Input::Found(lease("other", 15, 0, 1)));
            let mut document: serde_json::Value = lease("other", 15, 0, 1).with(&record_of_other());
            document["spec"][field] = value;
            let changed = Lease::decode(document.to_string().as_bytes()).unwrap();
            me.at(16.0, Input::Attempt);
            assert_eq!(me.at(16.0, Input::Found(changed)), held("other"), "{why}");
        }
        // Metadata does not count.
        let mut me = Candidate::new();
        me.at(0.0, Input::Attempt);
        me.at(0.0, Input::Found(lease("other", 15, 0, 1)));
        let mut document = lease("other", 15, 0, 1).with(&record_of_other());
        document["metadata"]["labels"] = json!({"a": "b"});
        me.at(16.0, Input::Attempt);
        let next = me.at(
            16.0,
            Input::Found(Lease::decode(document.to_string().as_bytes()).unwrap()),
        );
        assert_eq!(record_of(next).transitions, 1);
    }

    fn record_of_other() -> Record {
        Record {
            holder: "other".to_owned(),
            duration_seconds: 15,
            acquire_time: "2020-01-01T00:00:00.000000Z".to_owned(),
            renew_time: "2020-01-01T00:00:01.000000Z".to_owned(),
            transitions: 0,
        }
    }

    #[test]
    fn a_renewal_is_written_from_memory_and_keeps_the_history() {
        let mut me = Candidate::leading();
        let Next::Renew(base, record) = me.at(2.0, Input::Attempt) else {
            panic!("no renewal")
        };
        assert_eq!(base, lease(ME, 15, 0, 1));
        assert_eq!(record.acquire_time, "2020-01-01T00:00:00.000000Z");
        assert_eq!(record.renew_time, "1970-01-01T00:00:02.000000Z");
        assert_eq!(record.transitions, 0);
        assert_eq!(
            me.at(2.5, Input::Written(lease(ME, 15, 0, 2))),
            Next::Rest(Outcome::Renewed)
        );
        assert!(
            (me.until() - 12.0).abs() < 1e-6,
            "counts from when the request began"
        );
        assert_eq!(me.election.slow_renewals(), 0);
    }

    #[test]
    fn a_failed_renewal_reads_and_writes_again() {
        let mut me = Candidate::leading();
        me.at(2.0, Input::Attempt);
        assert_eq!(me.at(2.1, Input::NotWritten), Next::Read);
        let record = record_of(me.at(2.2, Input::Found(lease(ME, 15, 0, 1))));
        assert_eq!((record.transitions, me.election.slow_renewals()), (0, 1));
        assert_eq!(me.at(2.3, Input::NotWritten), Next::Rest(Outcome::Failed));
        assert!((me.until() - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_leader_that_cannot_renew_is_done_at_the_deadline_whatever_comes() {
        let inputs: [fn() -> Input; 6] = [
            || Input::Attempt,
            || Input::Found(lease(ME, 15, 0, 1)),
            || Input::Missing,
            || Input::Unreadable,
            || Input::Written(lease(ME, 15, 0, 2)),
            || Input::NotWritten,
        ];
        for input in inputs {
            let mut me = Candidate::leading();
            me.at(9.9, Input::Attempt);
            let what = format!("{:?}", input());
            assert_eq!(me.at(10.0, input()), Next::Rest(Outcome::Lost), "{what}");
            assert_eq!(
                me.at(10.1, Input::Written(lease(ME, 15, 0, 3))),
                Next::Rest(Outcome::Lost),
                "for good: {what}"
            );
        }
    }

    #[test]
    fn a_leader_that_finds_another_in_the_lease_is_done_at_once() {
        // (why, lease found after a conflict)
        let cases = [
            ("held by another", lease("other", 15, 1, 2)),
            (
                "held by another, with a duration of nothing",
                lease("other", 0, 1, 2),
            ),
            ("released by another", lease("", 1, 1, 2)),
        ];
        for (why, found) in cases {
            let mut me = Candidate::leading();
            me.at(2.0, Input::Attempt);
            assert_eq!(me.at(2.1, Input::NotWritten), Next::Read, "{why}");
            assert_eq!(
                me.at(2.2, Input::Found(found)),
                Next::Rest(Outcome::Lost),
                "{why}"
            );
            assert_eq!(me.election.state(), State::Lost, "{why}");
        }
    }

    #[test]
    fn a_leader_takes_back_a_lease_that_was_cleared_or_deleted() {
        let mut me = Candidate::leading();
        me.at(2.0, Input::Attempt);
        me.at(2.1, Input::NotWritten);
        assert_eq!(
            record_of(me.at(2.2, Input::Found(lease("", 15, 0, 2)))).transitions,
            1
        );

        let mut me = Candidate::leading();
        me.at(2.0, Input::Attempt);
        me.at(2.1, Input::NotWritten);
        assert!(matches!(
            me.at(2.2, Input::Missing),
            Next::Create(Record { transitions: 0, .. })
        ));
        assert_eq!(
            me.at(2.3, Input::Written(lease(ME, 15, 0, 2))),
            Next::Rest(Outcome::Renewed)
        );
    }

    #[test]
    fn an_answer_that_took_longer_than_a_term_makes_no_leader() {
        let mut me = Candidate::new();
        me.at(0.0, Input::Attempt);
        me.at(0.0, Input::Missing);
        assert_eq!(
            me.at(10.0, Input::Written(lease(ME, 15, 0, 1))),
            Next::Rest(Outcome::Failed)
        );
        assert_eq!(me.election.state(), State::Standby);
        assert!(
            matches!(me.at(11.0, Input::Attempt), Next::Renew(..)),
            "the record is ours to renew"
        );
    }

    #[test]
    fn a_conflict_while_acquiring_is_no_success() {
        let mut me = Candidate::new();
        me.at(0.0, Input::Attempt);
        me.at(0.0, Input::Found(lease("", 1, 3, 1)));
        assert_eq!(me.at(0.1, Input::NotWritten), Next::Rest(Outcome::Failed));
        assert_eq!(me.at(2.0, Input::Attempt), Next::Read);
    }

    #[test]
    fn the_whole_seconds_of_the_record_bound_the_term() {
        let mut election = Election::new(
            ME.to_owned(),
            Duration::from_millis(5900),
            Duration::from_millis(5500),
        );
        let start = Instant::now();
        election.step(Input::Attempt, start, Timestamp::UNIX_EPOCH);
        election.step(Input::Missing, start, Timestamp::UNIX_EPOCH);
        election.step(
            Input::Written(lease(ME, 5, 0, 1)),
            start,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            election.state(),
            State::Leading {
                until: start + Duration::from_secs(5)
            }
        );
    }

    #[test]
    fn only_the_holder_releases_and_transitions_stay() {
        let me = Candidate::leading();
        let record = me
            .election
            .release(&lease(ME, 15, 4, 1), Timestamp::UNIX_EPOCH)
            .unwrap();
        assert_eq!(
            (
                record.holder.as_str(),
                record.duration_seconds,
                record.transitions
            ),
            ("", 1, 4)
        );
        assert_eq!(
            me.election
                .release(&lease("other", 15, 4, 1), Timestamp::UNIX_EPOCH),
            None
        );
        assert_eq!(
            me.election
                .release(&lease("", 15, 4, 1), Timestamp::UNIX_EPOCH),
            None
        );
    }
}
