//! The back-off of failed pods: the earliest time at which the failed pod of a node is deleted.
//!
//! If a kubelet rejects a pod, the controller deletes it and creates another one, which the kubelet
//! rejects as well. The back-off doubles from one second to 15 minutes, so that this loop is slow.
//! All failed pods of a node share one back-off. A new generation of the DaemonSet starts afresh.
//!
//! Upstream: `failedPodsBackoff` in `daemon_controller.go`, and `k8s.io/client-go/util/flowcontrol`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use steersman_objects::{DaemonSet, ObjectKey, Uid};
use steersman_runtime::consistency::Memory;
use steersman_why::{Code, Reason};
use tokio::time::Instant;

use super::NAME;

/// Nodes in one sentence. More would hide the sentence in a large cluster.
const SHOWN: usize = 5;

/// The back-off after the first deletion.
const FIRST: Duration = Duration::from_secs(1);
/// The longest back-off.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The time without a deletion after which the back-off starts afresh.
const EXPIRY: Duration = Duration::from_secs(2 * 15 * 60);

/// The back-offs of all DaemonSets.
///
/// They are lost with a restart, as upstream's are. Then one failed pod of each node is deleted without
/// delay.
#[derive(Default)]
pub(super) struct FailedPods(Mutex<HashMap<ObjectKey, Backoffs>>);

/// The back-offs of the nodes of one generation of a DaemonSet.
#[derive(Default)]
pub(super) struct Backoffs {
    generation: Option<(Uid, i64)>,
    nodes: HashMap<Arc<str>, Backoff>,
}

/// The last deletion on a node.
///
/// `delay` counts from `at`, in the clock of the process, so changes of the wall clock do not matter.
#[derive(Clone, Copy)]
struct Backoff {
    delay: Duration,
    at: Instant,
}

impl FailedPods {
    /// Calls `read` with the back-offs of `ds`.
    pub(super) fn of<T>(&self, ds: &DaemonSet, read: impl FnOnce(&Backoffs) -> T) -> T {
        let all = self.all();
        let known = all.get(&key(ds)).filter(|known| known.is_of(ds));
        match known {
            Some(known) => read(known),
            None => read(&Backoffs::default()),
        }
    }

    /// Records that failed pods of `ds` are deleted on `nodes`. Drops expired back-offs of `ds`.
    ///
    /// Upstream: `Backoff.Next`, and `Backoff.GC` once a minute for expired ones.
    pub(super) fn step(&self, ds: &DaemonSet, nodes: &[Arc<str>], now: Instant) {
        if nodes.is_empty() {
            return;
        }
        let mut all = self.all();
        let known = all.entry(key(ds)).or_default();
        if !known.is_of(ds) {
            *known = Backoffs {
                generation: Some(generation(ds)),
                nodes: HashMap::new(),
            };
        }
        known.nodes.retain(|_, backoff| !backoff.is_expired(now));
        for node in nodes {
            let delay = known.delay_after_deletion(node, now);
            known
                .nodes
                .insert(Arc::clone(node), Backoff { delay, at: now });
        }
    }

    /// Tells the back-offs of `ds` that have not ended, as one reason.
    ///
    /// The reason lists the nodes in order of the ends of their back-offs.
    pub(super) fn recall(&self, ds: &DaemonSet, at: Instant, now: Timestamp) -> Option<Reason> {
        let mut left: Vec<(Duration, Arc<str>)> = self.of(ds, |known| {
            let nodes = known.nodes.keys();
            let left =
                nodes.filter_map(|node| Some((known.remaining(node, at)?, Arc::clone(node))));
            left.collect()
        });
        left.sort();
        let (next, _) = left.first()?;
        let nodes: Vec<String> = left
            .iter()
            .take(SHOWN)
            .map(|(left, node)| format!("{node} ({} s)", left.as_secs()))
            .collect();
        let more = match left.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "pods fail again and again, so their deletion waits on {}{more}",
            nodes.join(", ")
        );
        let reason = Reason::new(Code::DaemonBackOff, NAME, message)
            .who("administrator of the node, or owner of the pod template")
            .field("nodes", left.len())
            .next(now.checked_add(*next).ok());
        Some(reason)
    }

    /// The lock is held for one decision or step, and never across a request.
    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Backoffs>> {
        self.0.lock()
    }
}

impl Backoffs {
    /// The time until a failed pod on `node` may be deleted. `None` if it may be deleted now.
    pub(super) fn remaining(&self, node: &str, now: Instant) -> Option<Duration> {
        let backoff = self.current(node, now)?;
        let left = (backoff.at + backoff.delay).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// The delay that a deletion on `node` starts.
    ///
    /// It doubles with each deletion until the longest one. An expired back-off starts with the first one
    /// again.
    pub(super) fn delay_after_deletion(&self, node: &str, now: Instant) -> Duration {
        let last = self.current(node, now);
        last.map_or(FIRST, |last| (last.delay * 2).min(LONGEST))
    }

    /// The back-off of `node`, unless it has expired.
    fn current(&self, node: &str, now: Instant) -> Option<&Backoff> {
        let backoff = self.nodes.get(node)?;
        (!backoff.is_expired(now)).then_some(backoff)
    }

    /// Whether these are the back-offs of this object and generation. Older ones no longer count.
    fn is_of(&self, ds: &DaemonSet) -> bool {
        self.generation.as_ref() == Some(&generation(ds))
    }
}

impl Backoff {
    /// Upstream: `hasExpired`, with twice the longest delay.
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) > EXPIRY
    }
}

fn key(ds: &DaemonSet) -> ObjectKey {
    ObjectKey {
        namespace: ds.meta.namespace.clone(),
        name: Arc::clone(&ds.meta.name),
    }
}

/// The generation that the status has observed, as upstream's `failedPodsBackoffKey`.
fn generation(ds: &DaemonSet) -> (Uid, i64) {
    (ds.meta.uid.clone(), ds.status.observed_generation)
}

impl Memory for FailedPods {
    fn forget(&self, owner: &ObjectKey) {
        self.all().remove(owner);
    }

    /// Back-offs do not depend on cached versions.
    fn history_went_back(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::daemon_set;

    fn ds(uid: &str, observed: i32) -> DaemonSet {
        let ds = daemon_set("foo").metadata("uid", uid);
        ds.status("observedGeneration", observed).build()
    }

    #[tokio::test(start_paused = true)]
    async fn back_off_doubles_up_to_fifteen_minutes() {
        let failed = FailedPods::default();
        let ds = ds("u", 1);
        let node = [Arc::from("n")];
        let remaining = || failed.of(&ds, |known| known.remaining("n", Instant::now()));
        assert_eq!(remaining(), None, "the first deletion is not delayed");
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            failed.step(&ds, &node, Instant::now());
            let delay = Duration::from_secs(seconds);
            assert_eq!(remaining(), Some(delay));
            tokio::time::advance(delay - Duration::from_millis(1)).await;
            assert_eq!(remaining(), Some(Duration::from_millis(1)));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(remaining(), None, "after {seconds} s");
        }
        tokio::time::advance(EXPIRY).await;
        failed.step(&ds, &node, Instant::now());
        assert_eq!(remaining(), Some(FIRST), "the back-off expired");
    }

    #[tokio::test(start_paused = true)]
    async fn back_offs_belong_to_one_node_of_one_generation_of_one_object() {
        let failed = FailedPods::default();
        let first = ds("u", 1);
        let remaining = |ds: &DaemonSet, node: &str| {
            failed.of(ds, |known| known.remaining(node, Instant::now()))
        };
        failed.step(&first, &[Arc::from("n")], Instant::now());
        assert_eq!(remaining(&first, "n"), Some(FIRST));
        assert_eq!(remaining(&first, "other"), None);
        assert_eq!(remaining(&ds("u", 2), "n"), None);
        assert_eq!(remaining(&ds("v", 1), "n"), None);
        failed.step(&ds("u", 2), &[Arc::from("m")], Instant::now());
        assert_eq!(remaining(&first, "n"), None, "replaced by a new generation");
        failed.forget(&key(&first));
        assert_eq!(remaining(&ds("u", 2), "m"), None, "the object was deleted");
    }

    #[tokio::test(start_paused = true)]
    async fn back_offs_are_told_while_they_last() {
        let failed = FailedPods::default();
        let ds = ds("u", 1);
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let told = || failed.recall(&ds, Instant::now(), now);
        assert_eq!(told(), None);
        for nodes in [vec![Arc::from("b")], vec![Arc::from("a"), Arc::from("b")]] {
            failed.step(&ds, &nodes, Instant::now());
        }
        let reason = told().unwrap();
        assert!(
            reason.message.ends_with("waits on a (1 s), b (2 s)"),
            "{}",
            reason.message
        );
        assert_eq!(reason.next_try, "2026-11-28T12:00:01Z".parse().ok());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(told(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_back_offs_are_dropped() {
        let failed = FailedPods::default();
        let ds = ds("u", 1);
        failed.step(&ds, &[Arc::from("a"), Arc::from("b")], Instant::now());
        tokio::time::advance(EXPIRY + Duration::from_millis(1)).await;
        failed.step(&ds, &[Arc::from("c")], Instant::now());
        assert_eq!(failed.of(&ds, |known| known.nodes.len()), 1);
    }
}
