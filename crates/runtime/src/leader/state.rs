//! The state machine of the election, without IO. It decides the next request, whether this
//! process leads, and when its term ends.
//!
//! attempt -> (leading: write at once) -> read -> held by another | write -> leading
//!
//! In a coordinated election the API server chooses the holder. Then a candidate reads before each
//! write, and writes only a Lease of its own.
//!
//! Only the local monotonic clock decides. As upstream, a candidate measures from the moment when
//! *it* first saw the current record. It ignores the times in the Lease, so clocks of different
//! machines need not agree.
//!
//! On Linux the monotonic clock continues while a process is stopped (SIGSTOP, a frozen cgroup). A
//! leader that continues late therefore finds that its term is over before it can write.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use steersman_values::clock::micro_time;

use super::lease::{Lease, Record};

/// The state of this candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// This candidate has not led yet. It may still hold a valid Lease, after an answer that came
    /// later than a term.
    Standby,
    /// This candidate holds the Lease and may write before `until`. That is the start of its last
    /// successful write of the Lease plus the renew deadline.
    Leading { until: Instant },
    /// The term of this candidate is over. This state is final.
    Lost,
}

/// An event for the state machine.
#[derive(Debug)]
pub(super) enum Input {
    /// It is time for an attempt to acquire or renew the Lease.
    Attempt,
    /// The read returned this Lease.
    Found(Lease),
    /// The read returned 404: there is no Lease.
    Missing,
    /// The read failed.
    Unreadable,
    /// The write succeeded; the server answered with this Lease.
    Written(Lease),
    /// The write was refused, or there was no answer in time.
    NotWritten,
}

/// The next step of the IO code.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Read the Lease from the API server.
    Read,
    /// Create the Lease with this record. A conflict means that another candidate was quicker.
    Create(Record),
    /// Replace the Lease as last seen, without a read. After a conflict, the next step is a read.
    Renew(Lease, Record),
    /// Replace the Lease that was just read.
    Update(Lease, Record),
    /// The attempt has ended. Wait for the next one.
    Rest(Outcome),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This candidate became leader.
    Acquired,
    /// This candidate still leads.
    Renewed,
    /// Another candidate holds the Lease.
    Held { holder: String },
    /// A request failed.
    Failed,
    /// The term of this candidate is over.
    Lost,
}

/// A Lease that this candidate read or wrote.
struct Observed {
    lease: Lease,
    /// When this candidate first saw the record with this content.
    since: Instant,
}

/// A write that has no answer yet.
struct Pending {
    began: Instant,
    /// True for a write without a read before it. If it fails, a read follows.
    is_optimistic: bool,
}

/// One candidate's view of the election.
pub(super) struct Election {
    identity: String,
    lease_duration: Duration,
    /// Length of a term, from the start of a successful write.
    term: Duration,
    /// Whether the API server chooses the holder.
    is_coordinated: bool,
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
        // The record holds whole seconds, and other candidates wait only for those. So a term may
        // not be longer.
        let term = renew_deadline.min(Duration::from_secs(lease_duration.as_secs()));
        Self {
            identity,
            lease_duration,
            term,
            is_coordinated: false,
            state: State::Standby,
            observed: None,
            pending: None,
            slow_renewals: 0,
        }
    }

    /// The same in a coordinated election. Upstream: `tryCoordinatedRenew`.
    pub(super) fn coordinated(self) -> Self {
        Self {
            is_coordinated: true,
            ..self
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// The Lease that was last read or written.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|o| &o.lease)
    }

    /// When this candidate last saw a change of the record.
    pub(super) fn observed_since(&self) -> Option<Instant> {
        self.observed.as_ref().map(|o| o.since)
    }

    /// The number of renewals that had to read the Lease first.
    pub(super) fn slow_renewals(&self) -> u64 {
        self.slow_renewals
    }

    /// Ends the term of this candidate, for good.
    pub(super) fn give_up(&mut self) {
        self.state = State::Lost;
    }

    /// Handles an event at the time `now` and returns the next step. `wall` is written into records
    /// and never compared.
    pub(super) fn step(&mut self, input: Input, now: Instant, wall: Timestamp) -> Next {
        // This check comes first, because no answer may extend a term that is over.
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
            Input::Missing if self.is_coordinated => Next::Rest(Outcome::Failed),
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

    /// The record that releases `lease`; `None` if this candidate does not hold it. Upstream:
    /// `release`. The duration of 1 s lets others take the Lease soon, even without its empty
    /// holder.
    pub(super) fn release(&self, lease: &Lease, wall: Timestamp) -> Option<Record> {
        let now = micro_time(wall);
        (lease.holder() == self.identity).then(|| Record {
            holder: String::new(),
            duration_seconds: 1,
            acquire_time: now.clone(),
            renew_time: now,
            transitions: lease.transitions(),
            strategy: self.strategy(lease),
        })
    }

    /// The strategy in the next record of `lease`. Only a coordinated election keeps it.
    fn strategy(&self, lease: &Lease) -> Option<String> {
        let strategy = lease.strategy().filter(|_| self.is_coordinated);
        strategy.map(str::to_owned)
    }

    /// Starts an attempt. The holder of a valid Lease renews it without a read; upstream calls this
    /// the fast path. Upstream: step 1 of `tryAcquireOrRenew`.
    fn begin(&mut self, now: Instant, wall: Timestamp) -> Next {
        match &self.observed {
            // The end of a coordinated term shows in the Lease only.
            _ if self.is_coordinated => Next::Read,
            Some(seen) if seen.lease.holder() == self.identity && seen.is_valid(now) => {
                let lease = seen.lease.clone();
                let record = self.record(lease.acquire_time(), lease.transitions(), wall);
                self.write(now, true);
                Next::Renew(lease, record)
            }
            _ => Next::Read,
        }
    }

    /// Handles a read Lease: takes it, renews it, or waits for its holder. Upstream: steps 3 and 4
    /// of `tryAcquireOrRenew`.
    fn found(&mut self, lease: Lease, now: Instant, wall: Timestamp) -> Next {
        let before = self.observed.take();
        // An unchanged record keeps its time: the lease duration counts from the first sight.
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
            // Upstream retries until its deadline. But a new holder may write already, and a holder
            // that has released the Lease since may have written. So the term ends here.
            let has_changed_hands = holder.is_empty()
                && before.is_some_and(|o| o.lease.transitions() != lease.transitions());
            if is_others || has_changed_hands {
                self.state = State::Lost;
                return Next::Rest(Outcome::Lost);
            }
        }
        let is_own = holder == self.identity;
        // A holder that is not the preferred one renews the Lease no more.
        let is_renewable = is_own && is_valid && lease.preferred_holder().is_empty();
        if (is_others && is_valid) || (self.is_coordinated && !is_renewable) {
            return Next::Rest(Outcome::Held {
                holder: holder.to_owned(),
            });
        }

        let record = if is_own {
            self.slow_renewals += 1;
            Record {
                strategy: self.strategy(&lease),
                ..self.record(lease.acquire_time(), lease.transitions(), wall)
            }
        } else {
            self.record(None, lease.transitions() + 1, wall)
        };
        self.write(now, false);
        Next::Update(lease, record)
    }

    /// Handles a successful write: a new term starts.
    fn written(&mut self, lease: Lease, pending: Option<Pending>, now: Instant) -> Next {
        self.observed = Some(Observed { lease, since: now });
        // The term starts when the request was sent, because other candidates cannot have seen the
        // new record earlier.
        let until = pending.map_or(now, |p| p.began + self.term);
        let was_leading = matches!(self.state, State::Leading { .. });
        if now >= until {
            // Only a standby gets here: its answer came later than a term. It is the holder in the
            // record, and the next attempt renews it.
            return Next::Rest(Outcome::Failed);
        }
        self.state = State::Leading { until };
        Next::Rest(if was_leading {
            Outcome::Renewed
        } else {
            Outcome::Acquired
        })
    }

    /// Remembers the start of a write.
    fn write(&mut self, began: Instant, is_optimistic: bool) {
        self.pending = Some(Pending {
            began,
            is_optimistic,
        });
    }

    /// A record with this candidate as holder. `acquired` is the acquire time to keep; `None` for a
    /// new term.
    fn record(&self, acquired: Option<&str>, transitions: i64, wall: Timestamp) -> Record {
        let now = micro_time(wall);
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.lease_duration.as_secs(),
            acquire_time: acquired.map_or_else(|| now.clone(), str::to_owned),
            renew_time: now,
            transitions,
            strategy: None,
        }
    }
}

impl Observed {
    /// True if the holder may still lead, according to the duration that it wrote itself.
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

        /// A candidate that created the Lease at second 0.
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

    /// `renewed` sets the fields that change with each renewal.
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
                strategy: None,
            }
        );
    }

    /// The Lease in a coordinated election, with a preferred holder.
    fn coordinated(holder: &str, preferred: &str, renewed: u32) -> Lease {
        let document = json!({
            "metadata": {"name": "l", "namespace": "ns", "resourceVersion": renewed.to_string()},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "renewTime": format!("2020-01-01T00:00:{renewed:02}.000000Z"),
                "strategy": "OldestEmulationVersion", "preferredHolder": preferred,
            },
        });
        Lease::decode(document.to_string().as_bytes()).unwrap()
    }

    /// Upstream: the cases of `TestTryCoordinatedRenew`.
    #[test]
    fn the_api_server_chooses_the_holder_of_a_coordinated_lease() {
        let candidate = || {
            let mut me = Candidate::new();
            me.election = me.election.coordinated();
            assert_eq!(me.at(0.0, Input::Attempt), Next::Read);
            me
        };
        assert_eq!(
            candidate().at(0.0, Input::Missing),
            Next::Rest(Outcome::Failed),
            "the API server creates the Lease"
        );
        let mut me = candidate();
        for seconds in [0.0, 20.0] {
            let others = coordinated("other", "", 1);
            assert_eq!(me.at(seconds, Input::Found(others)), held("other"));
        }
        let mut me = candidate();
        let free = coordinated("", "", 1);
        assert_eq!(me.at(0.0, Input::Found(free)), held(""));
        let ending = coordinated(ME, "other", 1);
        assert_eq!(candidate().at(0.0, Input::Found(ending)), held(ME));

        let mut me = candidate();
        let record = record_of(me.at(1.0, Input::Found(coordinated(ME, "", 1))));
        assert_eq!(record.holder, ME);
        assert_eq!(record.transitions, 3);
        assert_eq!(record.strategy.as_deref(), Some("OldestEmulationVersion"));
        let written = coordinated(ME, "", 2);
        let acquired = Next::Rest(Outcome::Acquired);
        assert_eq!(me.at(1.0, Input::Written(written.clone())), acquired);
        assert_eq!(me.until(), 11.0);
        assert_eq!(me.at(3.0, Input::Attempt), Next::Read, "no fast path");
        let renewal = me.at(3.0, Input::Found(written.clone()));
        assert!(matches!(renewal, Next::Update(..)), "{renewal:?}");
        let renewed = Next::Rest(Outcome::Renewed);
        assert_eq!(me.at(3.0, Input::Written(written)), renewed);

        // The end of the term: no renewal, and the deadline ends it.
        assert_eq!(me.at(5.0, Input::Attempt), Next::Read);
        let ending = coordinated(ME, "other", 4);
        assert_eq!(me.at(5.0, Input::Found(ending.clone())), held(ME));
        assert_eq!(me.until(), 13.0);
        assert_eq!(me.at(13.0, Input::Attempt), Next::Rest(Outcome::Lost));
        let released = me.election.release(&ending, Timestamp::UNIX_EPOCH);
        let strategy = released.unwrap().strategy;
        assert_eq!(strategy.as_deref(), Some("OldestEmulationVersion"));
    }

    #[test]
    fn a_coordinated_lease_that_expired_is_not_renewed() {
        let mut me = Candidate::new();
        me.election = me.election.coordinated();
        me.at(0.0, Input::Attempt);
        let own = coordinated(ME, "", 1);
        assert!(matches!(
            me.at(0.0, Input::Found(own.clone())),
            Next::Update(..)
        ));
        assert_eq!(me.at(0.0, Input::NotWritten), Next::Rest(Outcome::Failed));
        me.at(15.0, Input::Attempt);
        assert_eq!(me.at(15.0, Input::Found(own)), held(ME));
        me.at(16.0, Input::Attempt);
        let again = me.at(16.0, Input::Found(coordinated(ME, "", 2)));
        assert!(
            matches!(again, Next::Update(..)),
            "the API server renewed it"
        );
    }

    #[test]
    fn another_holder_ends_a_coordinated_term_at_once() {
        let mut me = Candidate::new();
        me.election = me.election.coordinated();
        me.at(0.0, Input::Attempt);
        me.at(0.0, Input::Found(coordinated(ME, "", 1)));
        me.at(0.0, Input::Written(coordinated(ME, "", 2)));
        me.at(2.0, Input::Attempt);
        let lost = me.at(2.0, Input::Found(coordinated("other", "", 3)));
        assert_eq!(lost, Next::Rest(Outcome::Lost));
    }

    #[test]
    fn a_candidate_takes_a_lease_that_is_expired_or_released_or_its_own() {
        // (why, Lease at the first read, seconds until a second read of the same Lease, transitions
        // written; None: held by another)
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
                "expired since it was first seen",
                lease("other", 15, 3, 1),
                15.0,
                Some(4),
            ),
            (
                "the holder wrote a longer duration",
                lease("other", 60, 3, 1),
                59.9,
                None,
            ),
            (
                "the holder wrote a shorter duration",
                lease("other", 2, 3, 1),
                2.0,
                Some(4),
            ),
            ("released", lease("", 1, 3, 1), 0.0, Some(4)),
            ("our own, answer lost", lease(ME, 15, 3, 1), 0.0, Some(3)),
            ("our own, expired", lease(ME, 15, 3, 1), 20.0, Some(3)),
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
    fn a_standby_waits_from_its_first_sight_of_the_current_record() {
        let mut me = Candidate::new();
        // The leader renews until second 8 and then dies. The standby reads every 4 seconds, and
        // just before and at the end of the 15 seconds.
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
    fn any_change_of_the_spec_restarts_the_wait() {
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
        // A change of metadata does not restart the wait.
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
            strategy: None,
        }
    }

    #[test]
    fn a_renewal_needs_no_read_and_keeps_acquire_time_and_transitions() {
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
            "the term starts when the request starts"
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
    fn no_input_extends_a_term_after_the_renew_deadline() {
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
            let name = format!("{:?}", input());
            assert_eq!(me.at(10.0, input()), Next::Rest(Outcome::Lost), "{name}");
            assert_eq!(
                me.at(10.1, Input::Written(lease(ME, 15, 0, 3))),
                Next::Rest(Outcome::Lost),
                "the state is final: {name}"
            );
        }
    }

    #[test]
    fn a_leader_that_reads_another_holder_stops_leading_at_once() {
        // (why, lease found after a conflict)
        let cases = [
            ("held by another", lease("other", 15, 1, 2)),
            (
                "held by another, with a duration of zero",
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
    fn an_answer_later_than_a_term_makes_no_leader() {
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
            "the candidate renews its own record"
        );
    }

    #[test]
    fn a_conflict_during_acquisition_fails_the_attempt() {
        let mut me = Candidate::new();
        me.at(0.0, Input::Attempt);
        me.at(0.0, Input::Found(lease("", 1, 3, 1)));
        assert_eq!(me.at(0.1, Input::NotWritten), Next::Rest(Outcome::Failed));
        assert_eq!(me.at(2.0, Input::Attempt), Next::Read);
    }

    #[test]
    fn a_term_is_at_most_the_whole_seconds_in_the_record() {
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
    fn only_the_holder_releases_and_transitions_are_kept() {
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
