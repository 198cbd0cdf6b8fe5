//! Detects an API server that does not answer any more. A leader in this state gives the Lease up
//! (`--stall-timeout`), so that a process with working connections can lead.
//!
//! For each kind of request, [`Activity`] adds up the time for which requests wait without an answer.
//! An answer of any status is progress, and so is a further piece of a long answer. Time without a
//! pending request does not count: a manager that has no more such requests is not stalled. Time in
//! the client-side throttle does not count either, because the request starts after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use steersman_values::sync::Mutex;

/// The pending requests of some clients. Cheap to clone; clones share one state.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    kinds: BTreeMap<&'static str, Kind>,
    /// Time of the last answer of any kind.
    answered: Instant,
}

/// Callers repeat a failed request within this time. A longer time without requests of a kind shows
/// that none is missing, so the earlier ones do not count any more.
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// A caller sends the request that follows a failed one within this time.
const SUCCESSION: Duration = Duration::from_secs(1);

/// Requests of one kind: `POST`, `LIST`, `WATCH`.
#[derive(Debug)]
struct Kind {
    under_way: usize,
    /// Start of the oldest request after the latest answer. After an answer, its time. `None`
    /// without pending requests.
    waiting_since: Option<Instant>,
    /// The time that earlier requests waited in vain, since the latest answer.
    waited_before: Duration,
    /// When the last request ended.
    idle_since: Instant,
}

impl Kind {
    /// The time for which requests have waited in vain. `None` if none waits now: neither one of this
    /// kind, nor one of another kind that its caller sent next, such as a status update after a
    /// failed creation.
    fn waited<'a>(&self, mut all: impl Iterator<Item = &'a Self>) -> Option<Duration> {
        let waits = match self.waiting_since {
            Some(since) => since.elapsed(),
            None if self.waited_before.is_zero() => return None,
            None => {
                let is_next = |since: &Instant| *since <= self.idle_since + SUCCESSION;
                let next = all.find_map(|kind| kind.waiting_since.filter(is_next))?;
                next.max(self.idle_since).elapsed()
            }
        };
        Some(self.waited_before + waits)
    }

    fn begin(&mut self, now: Instant, extra_time: Duration) {
        if self.under_way == 0 && now.duration_since(self.idle_since) > LONGEST_RETRY_PAUSE {
            self.waited_before = Duration::ZERO;
        }
        self.under_way += 1;
        // A repeated request has had its extra time.
        let is_first = self.waited_before.is_zero();
        let start = if is_first { now + extra_time } else { now };
        self.waiting_since.get_or_insert(start);
    }

    fn answer(&mut self, now: Instant) {
        self.waited_before = Duration::ZERO;
        self.waiting_since = Some(now);
    }

    fn end(&mut self, now: Instant, is_unanswered: bool) {
        self.under_way -= 1;
        if self.under_way > 0 {
            return;
        }
        let waited = self.waiting_since.take();
        let waited = waited.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.waited_before = if is_unanswered {
            self.waited_before + waited
        } else {
            Duration::ZERO
        };
        self.idle_since = now;
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            kinds: BTreeMap::new(),
            answered: Instant::now(),
        })))
    }
}

impl Activity {
    /// Describes a kind of requests that wait now, and have had no answer for `limit` or longer.
    /// `None` if there is none.
    pub fn stalled(&self, limit: Duration) -> Option<String> {
        let state = self.0.lock();
        let stalled = state.kinds.iter().find_map(|(name, kind)| {
            let waited = kind.waited(state.kinds.values())?;
            (waited >= limit).then_some((name, kind.under_way, waited))
        });
        let (name, under_way, waited) = stalled?;
        Some(format!(
            "no {name} request was answered for {}s, {under_way} under way",
            waited.as_secs()
        ))
    }

    /// The time of the last answer to any request. Before the first one, the creation time.
    pub fn last_answer(&self) -> Instant {
        self.0.lock().answered
    }

    /// Records the start of a request. Its answer may take `extra_time` longer than usual.
    pub(super) fn begin(&self, kind: &'static str, extra_time: Duration) -> UnderWay {
        let now = Instant::now();
        self.with(kind, |_, kind| kind.begin(now, extra_time));
        UnderWay {
            activity: self.clone(),
            kind,
            is_unanswered: false,
        }
    }

    fn with(&self, name: &'static str, change: impl FnOnce(&mut Instant, &mut Kind)) {
        let State { kinds, answered } = &mut *self.0.lock();
        let new = || Kind {
            under_way: 0,
            waiting_since: None,
            waited_before: Duration::ZERO,
            idle_since: Instant::now(),
        };
        change(answered, kinds.entry(name).or_insert_with(new));
    }
}

/// A pending request.
pub(super) struct UnderWay {
    activity: Activity,
    kind: &'static str,
    is_unanswered: bool,
}

impl UnderWay {
    /// The server has answered, or sent another piece of its answer.
    pub(super) fn answered(&self) {
        let now = Instant::now();
        self.activity.with(self.kind, |answered, kind| {
            *answered = now;
            kind.answer(now);
        });
    }

    /// The request ends without an answer.
    pub(super) fn unanswered(mut self) {
        self.is_unanswered = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let is_unanswered = self.is_unanswered;
        self.activity
            .with(self.kind, |_, kind| kind.end(Instant::now(), is_unanswered));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const NONE: Duration = Duration::ZERO;

    async fn pass(seconds: u64) {
        advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_without_answers_is_stalled_despite_answers_of_other_kinds() {
        let activity = Activity::default();
        let _hanging = activity.begin("POST", NONE);
        pass(59).await;
        activity.begin("GET", NONE).answered();
        assert_eq!(activity.stalled(LIMIT), None);
        pass(1).await;
        let reason = "no POST request was answered for 60s, 1 under way";
        assert_eq!(activity.stalled(LIMIT).as_deref(), Some(reason));
        activity.begin("POST", NONE).answered();
        assert_eq!(activity.stalled(LIMIT), None, "one answer is progress");
        assert_eq!(activity.last_answer(), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_timeouts_are_a_stall_while_a_request_waits() {
        let activity = Activity::default();
        for _ in 0..3 {
            let request = activity.begin("PUT", NONE);
            pass(30).await;
            request.unanswered();
            pass(10).await;
        }
        assert_eq!(activity.stalled(LIMIT), None, "no request waits");
        let next = activity.begin("PUT", NONE);
        let reason = "no PUT request was answered for 90s, 1 under way";
        assert_eq!(activity.stalled(LIMIT).as_deref(), Some(reason));
        drop(next);
        assert_eq!(activity.stalled(LIMIT), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_another_kind_continues_the_wait_of_a_failed_one() {
        let activity = Activity::default();
        let creation = activity.begin("POST", NONE);
        pass(50).await;
        creation.unanswered();
        let status = activity.begin("PUT", NONE);
        pass(10).await;
        let reason = "no POST request was answered for 60s, 0 under way";
        assert_eq!(activity.stalled(LIMIT).as_deref(), Some(reason));
        status.answered();
        drop(status);
        assert_eq!(activity.stalled(LIMIT), None);
        pass(5).await;
        let _unrelated = activity.begin("PUT", NONE);
        pass(20).await;
        assert_eq!(activity.stalled(LIMIT), None);
    }

    /// A healthy manager sends no LIST for hours, so a failed one has no later answer.
    #[tokio::test(start_paused = true)]
    async fn failed_requests_do_not_count_after_a_time_without_requests() {
        let activity = Activity::default();
        for _ in 0..2 {
            let request = activity.begin("LIST", NONE);
            pass(55).await;
            request.unanswered();
            pass(5).await;
        }
        for _ in 0..20 {
            pass(10).await;
            activity.begin("GET", NONE).answered();
            assert_eq!(activity.stalled(LIMIT), None, "no LIST waits");
        }
        let _next = activity.begin("LIST", NONE);
        pass(59).await;
        assert_eq!(activity.stalled(LIMIT), None, "earlier LISTs are forgotten");
        pass(1).await;
        assert!(activity.stalled(LIMIT).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_of_a_long_answer_are_progress() {
        let activity = Activity::default();
        let list = activity.begin("LIST", NONE);
        for _ in 0..4 {
            pass(50).await;
            list.answered();
        }
        assert_eq!(activity.stalled(LIMIT), None);
        pass(60).await;
        assert!(activity.stalled(LIMIT).is_some());
        drop(list);
        assert_eq!(
            activity.stalled(LIMIT),
            None,
            "the caller dropped the request"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_with_extra_time_is_stalled_later() {
        let activity = Activity::default();
        let extra_time = Duration::from_secs(230);
        let deletion = activity.begin("DELETECOLLECTION", extra_time);
        pass(289).await;
        assert_eq!(activity.stalled(LIMIT), None);
        pass(1).await;
        assert!(activity.stalled(LIMIT).is_some());
        deletion.unanswered();
        let _next = activity.begin("DELETECOLLECTION", extra_time);
        assert!(
            activity.stalled(LIMIT).is_some(),
            "only the first one has extra time"
        );
    }
}
