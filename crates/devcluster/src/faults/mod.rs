//! What goes wrong on purpose: refusals, delays, lost answers, groups that cannot be discovered, a
//! cache that lags, and watches that fall silent, break, or leave events out.
//!
//! A rule applies to the requests, or watch events, that its [`Matcher`] matches, for the next `n`
//! of them or until it is removed.
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
//! // The first creation of a pod takes three seconds, the second is refused, and the third is stored but never answered.
//! faults.delay(Matcher::new("create", "pods"), 3 * second, Some(1));
//! faults.reject(Matcher::new("create", "pods").nth(2), throttled(5), Some(1));
//! let lost = faults.on_request(Matcher::new("create", "pods").nth(3), RequestFault::LoseAnswer, Some(1));
//!
//! // Other ways to say no, and to whom.
//! faults.reject(Matcher::new("patch", "pods").subresource("status"), conflict(), Some(1));
//! faults.reject(Matcher::new("list", "pods").client("my-operator"), expired(), Some(1));
//! faults.reject(Matcher::writes().namespace("elsewhere"), internal_error(), None);
//!
//! // Watches of `my-operator` never send the first event of the pod `b`; two seconds later they end with 410.
//! let missed = EventFault::Drop { repaired_after: 2 * second };
//! faults.on_event(Matcher::new("watch", "pods").name("b").client("my-operator"), missed, Some(1));
//!
//! let pod = |name| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
//!                         "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
//! assert!(cluster.create(pod("a")).await.is_ok());
//! assert_eq!(cluster.create(pod("b")).await.unwrap_err().code, 429);
//! assert!(cluster.create(pod("b")).await.is_err(), "nobody learns that it was stored");
//! assert_eq!((cluster.count("pods"), faults.hits(lost)), (2, 1));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! What happens to watches, also to those that are open already:
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
//! // It says nothing for a while, and tells afterwards what it missed.
//! faults.stall_watches("configmaps");
//! cluster.create(map("1")).await?;
//! faults.resume_watches("configmaps");
//! assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
//!
//! // Of the changes of a second only what came of them is told.
//! let coalesced = EventFault::Coalesce(std::time::Duration::from_secs(1));
//! faults.on_event(Matcher::new("watch", "configmaps"), coalesced, Some(1));
//! for data in ["2", "3"] {
//!     cluster.replace(map(data)).await?;
//! }
//! let Some(Ok(WatchEvent::Modified(last))) = watch.next().await else { panic!("an event comes") };
//! assert_eq!(last.data.unwrap()["k"], "3");
//!
//! // It breaks off.
//! faults.break_watches("configmaps");
//! assert!(watch.next().await.is_none());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::status::Status;

mod matcher;
mod rules;
mod watches;

pub use matcher::Matcher;
pub use rules::RuleId;
pub use watches::EventFault;

pub(crate) use matcher::Seen;
pub(crate) use watches::WatchFaults;

use rules::{Effect, Rules};
use watches::View;

/// In the place of a group: discovery does not answer at all.
pub const EVERY_GROUP: &str = "*";

/// What happens to a request. Of several rules that match, all delays count, and the first of the
/// others.
#[derive(Debug, Clone)]
pub enum RequestFault {
    /// It is answered with this, and not handled.
    Reject(Status),
    /// It is handled later.
    Delay(Duration),
    /// The same, by a random time up to this.
    DelayUpTo(Duration),
    /// The connection is reset before it is handled.
    Reset,
    /// It is handled, and the connection is reset in place of the answer.
    LoseAnswer,
    /// It is neither handled nor answered; the connection stays open.
    Hang,
    /// It is handled, but never answered; the connection stays open.
    HangAfterwards,
}

/// 409, as upon a write to a version that is no longer the latest.
pub fn conflict() -> Status {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    Status::new(
        409,
        "Conflict",
        format!("Operation cannot be fulfilled: {why}"),
    )
}

/// 410, as for a revision that was compacted.
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

/// What becomes of the connection of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    Reset,
    Silence,
}

/// What becomes of a request.
pub(crate) enum Verdict {
    /// It is handled.
    Handle(Fate),
    Refuse(Status),
    /// It is not even looked at.
    Ignore(Fate),
}

/// The faults of one server.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Rules>,
    /// How many of the rules are about events, so that watches need no lock when there are none.
    event_rules: AtomicUsize,
    /// Signalled when a rule is met.
    met: Notify,
    watches: watch::Sender<WatchFaults>,
    /// Groups as if their aggregated server were down.
    undiscoverable: Mutex<Vec<String>>,
}

impl Faults {
    /// Does this to matching requests, the next `times` times, or until removed.
    pub fn on_request(
        &self,
        matcher: Matcher,
        fault: RequestFault,
        times: Option<usize>,
    ) -> RuleId {
        self.add(matcher, Effect::Request(fault), times)
    }

    /// Does this to matching events of watches, also of those that are open already, the next
    /// `times` times, or until removed. The state that a watch begins with is not meant.
    pub fn on_event(&self, matcher: Matcher, fault: EventFault, times: Option<usize>) -> RuleId {
        self.add(matcher, Effect::Event(fault), times)
    }

    /// Answers matching requests with `status`, the next `times` times, or until removed.
    pub fn reject(&self, matcher: Matcher, status: Status, times: Option<usize>) -> RuleId {
        self.on_request(matcher, RequestFault::Reject(status), times)
    }

    /// Lets matching requests wait before they are handled, the next `times` times, or until
    /// removed.
    pub fn delay(&self, matcher: Matcher, by: Duration, times: Option<usize>) -> RuleId {
        self.on_request(matcher, RequestFault::Delay(by), times)
    }

    /// Starts the sequence of random delays anew; without this, it is the same in every cluster.
    pub fn seed(&self, seed: u64) {
        self.lock().seed(seed);
    }

    /// Ends a rule, or the lag of a cache ([`Faults::hold_view`], [`Faults::lag_view`]).
    pub fn remove(&self, id: RuleId) {
        let mut rules = self.lock();
        rules.remove(id);
        self.event_rules
            .store(rules.about_events(), Ordering::Relaxed);
        drop(rules);
        self.watches.send_modify(|watches| watches.release(id));
    }

    /// How many requests or events a rule has met, also after it ended.
    pub fn hits(&self, id: RuleId) -> usize {
        self.lock().hits(id)
    }

    /// The last request or event that a rule has met, in words: `update deployments/status web`.
    pub fn last_hit(&self, id: RuleId) -> Option<String> {
        self.lock().last(id)
    }

    /// Waits until a rule has met a request or event.
    pub async fn met(&self, id: RuleId) {
        loop {
            let met = self.met.notified();
            if self.hits(id) > 0 {
                return;
            }
            met.await;
        }
    }

    /// Shows matching requests nothing later than `revision` until [`Faults::remove`], as a server
    /// does whose cache lags behind the database: lists and gets with `resourceVersion=0` answer
    /// with the state of then, and watches fall silent. Requests that ask for the latest state get
    /// it, or, where only the cache can serve them, 504 after three seconds, as upstream's do.
    ///
    /// ```
    /// # use steersman_devcluster::DevCluster;
    /// # use steersman_devcluster::faults::Matcher;
    /// # use steersman_runtime::clock::Clock;
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

    /// The same, but the cache moves on: it always lacks the latest so many `revisions`, which are
    /// changes to whatever objects.
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

    /// Discovery knows no more than the name of this group, as when the aggregated API server
    /// behind it is down; its objects are still served (refuse them with [`Faults::reject`]). With
    /// [`EVERY_GROUP`] discovery answers nothing but 503.
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

    fn hidden(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.undiscoverable
            .lock()
            .expect("nothing panics while it holds the lock")
    }

    /// Watches of this resource stay open and say nothing until [`Faults::resume_watches`]; then
    /// they send what they missed.
    pub fn stall_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| watches.stall(plural));
    }

    /// Ends [`Faults::stall_watches`].
    pub fn resume_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| watches.resume(plural));
    }

    /// Closes the watches of this resource that are open now.
    pub fn break_watches(&self, plural: &str) {
        self.watches
            .send_modify(|watches| watches.break_open(plural));
    }

    pub(crate) fn watch_faults(&self) -> watch::Receiver<WatchFaults> {
        self.watches.subscribe()
    }

    /// The latest revision that the cache shows to this request, when it lags behind `current`, the
    /// server's.
    pub(crate) fn view(&self, seen: &Seen<'_>, current: u64) -> Option<u64> {
        self.watches.borrow().view(seen, current)
    }

    /// Applies the rules to a request: waits as long as delays say, and tells what becomes of it.
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

    /// What happens to an event that a watch is about to send.
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

    fn meet<T>(&self, seen: &Seen<'_>, select: impl Fn(&Effect) -> Option<T>) -> Vec<T> {
        let mut rules = self.lock();
        let effects = rules.meet(seen, select);
        self.event_rules
            .store(rules.about_events(), Ordering::Relaxed);
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
            .store(rules.about_events(), Ordering::Relaxed);
        id
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rules> {
        self.rules
            .lock()
            .expect("nothing panics while it holds the lock")
    }
}

#[cfg(test)]
mod tests;
