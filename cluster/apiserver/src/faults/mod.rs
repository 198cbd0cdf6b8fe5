//! Injected failures: rejected requests, delays, lost answers, hidden API groups, a lagging watch
//! cache, and watches that stall, break or lose events.
//!
//! A rule applies to the requests or watch events that its [`Matcher`] selects. It applies to the
//! next `n` matches, or until it is removed.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_devcluster::DevCluster;
//! # use steersman_devcluster::faults::{EventFault, Matcher, RequestFault, conflict, expired, internal_error, throttled};
//! # use std::time::Duration;
//! # use serde_json::json;
//! # let second = Duration::from_secs(1);
//! let cluster = DevCluster::builder().start().await?;
//! let faults = cluster.faults();
//!
//! // Delay the first creation of a pod, reject the second, and lose the answer of the third.
//! faults.delay(Matcher::new("create", "pods"), 3 * second, Some(1));
//! faults.reject(Matcher::new("create", "pods").nth(2), throttled(5), Some(1));
//! let lost = faults.on_request(Matcher::new("create", "pods").nth(3), RequestFault::LoseAnswer, Some(1));
//!
//! // Further answers, limited by subresource, client or namespace.
//! faults.reject(Matcher::new("patch", "pods").subresource("status"), conflict(), Some(1));
//! faults.reject(Matcher::new("list", "pods").client("my-operator"), expired(), Some(1));
//! faults.reject(Matcher::writes().namespace("elsewhere"), internal_error(), None);
//!
//! // Watches of `my-operator` lose the first event of pod `b`, and end with 410 two seconds later.
//! let missed = EventFault::Drop { repaired_after: 2 * second };
//! faults.on_event(Matcher::new("watch", "pods").name("b").client("my-operator"), missed, Some(1));
//!
//! let pod = |name| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
//!                         "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
//! assert!(cluster.create(pod("a")).await.is_ok());
//! assert_eq!(cluster.create(pod("b")).await.unwrap_err().code, 429);
//! assert!(cluster.create(pod("b")).await.is_err(), "the pod is stored, but the answer is lost");
//! assert_eq!((cluster.count("pods"), faults.hits(lost)), (2, 1));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Failures of watches also apply to watches that are already open:
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # use futures::StreamExt;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::api::{Api, WatchEvent, WatchParams};
//! # use steersman_devcluster::DevCluster;
//! # use steersman_devcluster::faults::{EventFault, Matcher};
//! # use serde_json::json;
//! # let map = |data: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": data}});
//! let cluster = DevCluster::builder().start().await?;
//! let (faults, maps) = (cluster.faults(), Api::<ConfigMap>::default_namespaced(cluster.client()));
//! let mut watch = maps.watch(&WatchParams::default().disable_bookmarks(), "0").await?.boxed();
//!
//! // A stalled watch sends the missed events after it resumes.
//! faults.stall_watches("configmaps");
//! cluster.create(map("1")).await?;
//! faults.resume_watches("configmaps");
//! assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
//!
//! // Changes within one second become one event with the last state.
//! let coalesced = EventFault::Coalesce(std::time::Duration::from_secs(1));
//! faults.on_event(Matcher::new("watch", "configmaps"), coalesced, Some(1));
//! for data in ["2", "3"] {
//!     cluster.replace(map(data)).await?;
//! }
//! let Some(Ok(WatchEvent::Modified(last))) = watch.next().await else { panic!("an event comes") };
//! assert_eq!(last.data.unwrap()["k"], "3");
//!
//! // The watch closes.
//! faults.break_watches("configmaps");
//! assert!(watch.next().await.is_none());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::status::Status;

mod matcher;
mod rules;
mod watches;

pub use matcher::Matcher;
pub use watches::EventFault;

pub(crate) use matcher::Seen;
pub(crate) use watches::WatchFaults;

use rules::{Effect, Rules};
use watches::View;

/// In place of a group: all of discovery answers 503.
pub const EVERY_GROUP: &str = "*";

/// The failure of a request. If several rules match, all delays add up, and the first other failure
/// applies.
#[derive(Debug, Clone)]
pub enum RequestFault {
    /// The server answers with this status and does not handle the request.
    Reject(Status),
    /// The server handles the request after this time.
    Delay(Duration),
    /// The same after a random time up to this limit.
    DelayUpTo(Duration),
    /// The connection is reset before the server handles the request.
    Reset,
    /// The server handles the request, then resets the connection instead of answering.
    LoseAnswer,
    /// The server ignores the request; the connection stays open.
    Hang,
    /// The server handles the request but never answers; the connection stays open.
    HangAfterwards,
}

/// 409, as for a write with an outdated resource version.
pub fn conflict() -> Status {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    Status::new(
        409,
        "Conflict",
        format!("Operation cannot be fulfilled: {why}"),
    )
}

/// 410, as for a compacted revision.
pub fn expired() -> Status {
    Status::expired("The provided resource version is too old.")
}

/// 429 with `Retry-After`.
pub fn throttled(retry_after_seconds: u32) -> Status {
    let causes = serde_json::Value::Null;
    Status::too_many_requests(
        "too many requests, please try again later",
        Some(retry_after_seconds),
        causes,
    )
}

/// 500, as when the database has no leader.
pub fn internal_error() -> Status {
    Status::internal("etcdserver: leader changed")
}

/// Handle of a rule, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// The fate of the connection of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    Reset,
    Silence,
}

/// The decision about a request.
pub(crate) enum Verdict {
    /// The server handles it.
    Handle(Fate),
    Refuse(Status),
    /// The server ignores it.
    Ignore(Fate),
}

/// The faults of one server.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Rules>,
    /// Number of event rules. Watches take no lock while it is zero.
    event_rules: AtomicUsize,
    /// Signalled when a rule applies.
    met: Notify,
    watches: watch::Sender<WatchFaults>,
    /// Groups that look as if their aggregated API server were down.
    undiscoverable: Mutex<Vec<String>>,
}

impl Faults {
    /// Applies `fault` to the next `times` matching requests, or until removed.
    pub fn on_request(
        &self,
        matcher: Matcher,
        fault: RequestFault,
        times: Option<usize>,
    ) -> RuleId {
        self.add(matcher, Effect::Request(fault), times)
    }

    /// Applies `fault` to the next `times` matching watch events, or until removed. It also applies
    /// to open watches, but not to the initial events of a watch.
    pub fn on_event(&self, matcher: Matcher, fault: EventFault, times: Option<usize>) -> RuleId {
        self.add(matcher, Effect::Event(fault), times)
    }

    /// Answers the next `times` matching requests with `status`, or until removed.
    pub fn reject(&self, matcher: Matcher, status: Status, times: Option<usize>) -> RuleId {
        self.on_request(matcher, RequestFault::Reject(status), times)
    }

    /// Delays the next `times` matching requests, or until removed.
    pub fn delay(&self, matcher: Matcher, by: Duration, times: Option<usize>) -> RuleId {
        self.on_request(matcher, RequestFault::Delay(by), times)
    }

    /// Seeds the random delays. The default seed is the same in every cluster.
    pub fn seed(&self, seed: u64) {
        self.lock().seed(seed);
    }

    /// Removes a rule, or a lagging view ([`Faults::hold_view`], [`Faults::lag_view`]).
    pub fn remove(&self, id: RuleId) {
        let mut rules = self.lock();
        rules.remove(id);
        self.event_rules
            .store(rules.event_rule_count(), Ordering::Relaxed);
        drop(rules);
        self.watches.send_modify(|watches| watches.release(id));
    }

    /// Number of requests or events to which a rule has applied, including finished rules.
    pub fn hits(&self, id: RuleId) -> usize {
        self.lock().hits(id)
    }

    /// The last request or event of a rule, as text: `update deployments/status web`.
    pub fn last_hit(&self, id: RuleId) -> Option<String> {
        self.lock().last(id)
    }

    /// Waits until a rule has applied once.
    pub async fn met(&self, id: RuleId) {
        loop {
            let met = self.met.notified();
            if self.hits(id) > 0 {
                return;
            }
            met.await;
        }
    }

    /// Shows matching requests no revision later than `revision`, until [`Faults::remove`].
    ///
    /// This simulates a watch cache that lags behind etcd. Lists and gets with `resourceVersion=0`
    /// return the old state, and watches stall. Requests for the latest state get it from etcd.
    /// Where only the cache can serve them, they fail with 504 after three seconds, as upstream.
    ///
    /// ```
    /// # use steersman_devcluster::DevCluster;
    /// # use steersman_devcluster::faults::Matcher;
    /// # use steersman_values::clock::Clock;
    /// # use serde_json::json;
    /// # let clock = Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap());
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let cluster = DevCluster::new(clock);
    /// let view = cluster.faults().hold_view(Matcher::default(), cluster.revision());
    /// cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}})).await.unwrap();
    /// let maps = "/api/v1/namespaces/default/configmaps";
    /// assert!(cluster.get(&format!("{maps}/new")).await.is_ok());
    /// assert_eq!(cluster.get(&format!("{maps}/new?resourceVersion=0")).await.unwrap_err().code, 404);
    /// cluster.faults().remove(view);
    /// assert!(cluster.get(&format!("{maps}/new?resourceVersion=0")).await.is_ok());
    /// # });
    /// ```
    pub fn hold_view(&self, matcher: Matcher, revision: u64) -> RuleId {
        self.limit_view(matcher, View::At(revision))
    }

    /// Keeps the cache the given number of `revisions` behind, so that it still advances. Writes of
    /// all resources count.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use steersman_devcluster::DevCluster;
    /// # use steersman_devcluster::faults::Matcher;
    /// # use serde_json::json;
    /// let cluster = DevCluster::builder().start().await?;
    /// cluster.faults().lag_view(Matcher::default().client("devcluster"), 1);
    /// for name in ["a", "b", "c"] {
    ///     cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})).await?;
    /// }
    /// let cached = cluster.get("/api/v1/namespaces/default/configmaps?resourceVersion=0").await?;
    /// assert_eq!(cached["items"].as_array().map(Vec::len), Some(2));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn lag_view(&self, matcher: Matcher, revisions: u64) -> RuleId {
        self.limit_view(matcher, View::Behind(revisions))
    }

    fn limit_view(&self, matcher: Matcher, view: View) -> RuleId {
        let id = self.lock().issue();
        self.watches
            .send_modify(|watches| watches.limit(id, matcher, view));
        id
    }

    /// Hides a group from discovery, as if its aggregated API server were down. Only the group's
    /// name remains. Its objects are still served; reject them with [`Faults::reject`]. With
    /// [`EVERY_GROUP`], all of discovery answers 503.
    pub fn hide_from_discovery(&self, group: &str) {
        let mut hidden = self.hidden();
        if !hidden.iter().any(|known| known == group) {
            hidden.push(group.to_owned());
        }
    }

    /// Ends [`Faults::hide_from_discovery`].
    pub fn show_in_discovery(&self, group: &str) {
        self.hidden().retain(|known| known != group);
    }

    pub(crate) fn is_hidden(&self, group: &str) -> bool {
        self.hidden().iter().any(|known| known == group)
    }

    fn hidden(&self) -> parking_lot::MutexGuard<'_, Vec<String>> {
        self.undiscoverable.lock()
    }

    /// Watches of this resource stay open without events until [`Faults::resume_watches`]. Then
    /// they send the missed events.
    pub fn stall_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| watches.stall(plural));
    }

    /// Ends [`Faults::stall_watches`].
    pub fn resume_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| watches.resume(plural));
    }

    /// Closes all open watches of this resource.
    pub fn break_watches(&self, plural: &str) {
        self.watches
            .send_modify(|watches| watches.close_open(plural));
    }

    pub(crate) fn watch_faults(&self) -> watch::Receiver<WatchFaults> {
        self.watches.subscribe()
    }

    /// The latest revision that a lagging cache shows to this request. `current` is the revision of
    /// the server.
    pub(crate) fn view(&self, seen: &Seen<'_>, current: u64) -> Option<u64> {
        self.watches.borrow().view(seen, current)
    }

    /// Applies the rules to a request: waits for its delays, and returns the decision.
    pub(crate) async fn check(&self, seen: &Seen<'_>) -> Verdict {
        let effects = self.meet(seen, |effect| match effect {
            Effect::Request(fault) => Some(fault.clone()),
            Effect::Event(_) => None,
        });
        let mut verdict = None;
        let mut delay = Duration::ZERO;
        for effect in effects {
            let outcome = match effect {
                RequestFault::Delay(by) => {
                    delay += by;
                    continue;
                }
                RequestFault::DelayUpTo(limit) => {
                    delay += self.lock().up_to(limit);
                    continue;
                }
                RequestFault::Reject(status) => Verdict::Refuse(status),
                RequestFault::Reset => Verdict::Ignore(Fate::Reset),
                RequestFault::LoseAnswer => Verdict::Handle(Fate::Reset),
                RequestFault::Hang => Verdict::Ignore(Fate::Silence),
                RequestFault::HangAfterwards => Verdict::Handle(Fate::Silence),
            };
            verdict = verdict.or(Some(outcome));
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        verdict.unwrap_or(Verdict::Handle(Fate::Answered))
    }

    /// The failures of an event that a watch is about to send.
    pub(crate) fn on_watch(&self, seen: &Seen<'_>) -> Vec<EventFault> {
        if self.event_rules.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut effects = self.meet(seen, |effect| match effect {
            Effect::Event(fault) => Some(fault.clone()),
            Effect::Request(_) => None,
        });
        for effect in &mut effects {
            if let EventFault::DelayUpTo(limit) = effect {
                *effect = EventFault::Delay(self.lock().up_to(*limit));
            }
        }
        effects
    }

    /// Finds the effects of matching rules, counts their hits, and wakes waiters.
    fn meet<T>(&self, seen: &Seen<'_>, select: impl Fn(&Effect) -> Option<T>) -> Vec<T> {
        let mut rules = self.lock();
        let effects = rules.meet(seen, select);
        self.event_rules
            .store(rules.event_rule_count(), Ordering::Relaxed);
        drop(rules);
        if !effects.is_empty() {
            self.met.notify_waiters();
        }
        effects
    }

    fn add(&self, matcher: Matcher, effect: Effect, times: Option<usize>) -> RuleId {
        let mut rules = self.lock();
        let id = rules.add(matcher, effect, times);
        self.event_rules
            .store(rules.event_rule_count(), Ordering::Relaxed);
        id
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Rules> {
        self.rules.lock()
    }
}
