//! The nodes of one zone that wait for a NoExecute taint, and the rate at which they get it.
//!
//! Each node waits once, first come, first served. Upstream: `RateLimitedTimedQueue` in
//! `scheduler/rate_limited_queue.go`. Upstream also remembers the nodes that it has tainted; here
//! the taint on the node itself says so. So a restart repeats no taint.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use steersman_client::rate::TokenBucket;
use tokio::time::Instant;

/// Tokens of a full bucket. Upstream: `EvictionRateLimiterBurst`. So nodes get their taint one at a
/// time, evenly spread.
const BURST: u32 = 1;

/// Waiting nodes and the limiter of one zone.
#[derive(Debug)]
pub(super) struct ZoneQueue {
    /// Names of nodes in the order of their arrival. By position, so that the first one is found
    /// without a search.
    waiting: BTreeMap<u64, Arc<str>>,
    /// The position of each name in `waiting`.
    positions: HashMap<Arc<str>, u64>,
    next_position: u64,
    rate: f32,
    /// `None` stops the zone.
    bucket: Option<TokenBucket>,
}

impl ZoneQueue {
    /// A queue for `rate` nodes per second. The first node waits for no token, even if the rate
    /// is zero, as upstream.
    pub(super) fn new(rate: f32, now: Instant) -> Self {
        Self {
            waiting: BTreeMap::new(),
            positions: HashMap::new(),
            next_position: 0,
            rate,
            bucket: Some(bucket(rate, now)),
        }
    }

    /// Adds a node, unless it waits already.
    pub(super) fn add(&mut self, node: &Arc<str>) {
        if !self.positions.contains_key(node) {
            self.positions.insert(Arc::clone(node), self.next_position);
            self.waiting.insert(self.next_position, Arc::clone(node));
            self.next_position += 1;
        }
    }

    /// Removes a node; true if it waited.
    pub(super) fn remove(&mut self, node: &str) -> bool {
        // Each pass asks for each healthy node, and a look-up in an empty map still hashes the name.
        if self.positions.is_empty() {
            return false;
        }
        let position = self.positions.remove(node);
        position.is_some_and(|position| self.waiting.remove(&position).is_some())
    }

    /// Moves a waiting node behind all others, after a failed attempt.
    pub(super) fn move_to_end(&mut self, node: &Arc<str>) {
        if self.remove(node) {
            self.add(node);
        }
    }

    /// The node that is next.
    pub(super) fn first(&self) -> Option<&Arc<str>> {
        self.waiting.values().next()
    }

    /// Whether a node waits.
    pub(super) fn has(&self, node: &str) -> bool {
        self.positions.contains_key(node)
    }

    /// The number of waiting nodes.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Removes all nodes.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.positions.clear();
    }

    /// Takes a token, if there is one.
    pub(super) fn try_take(&mut self, now: Instant) -> bool {
        let bucket = self.bucket.as_mut();
        bucket.is_some_and(|bucket| bucket.try_take_at(now))
    }

    /// The time until there is a token; `None` while the zone is stopped.
    pub(super) fn next_token(&mut self, now: Instant) -> Option<Duration> {
        Some(self.bucket.as_mut()?.next_at(now))
    }

    /// The current rate, in nodes per second.
    pub(super) fn rate(&self) -> f32 {
        self.rate
    }

    /// Changes the rate; zero or less stops the zone. An equal rate keeps the tokens.
    ///
    /// If there is no token now, the new bucket starts empty. Otherwise a flapping zone would get a
    /// token with each change. Upstream: `SwapLimiter`, without its bug that a stopped zone counts
    /// as one with rate 1 (kubernetes/kubernetes#104639).
    pub(super) fn set_rate(&mut self, rate: f32, now: Instant) {
        if self.rate == rate {
            return;
        }
        self.rate = rate;
        let had_token = self.try_take(now);
        self.bucket = (rate > 0.0).then(|| bucket(rate, now));
        if !had_token {
            self.try_take(now);
        }
    }
}

fn bucket(rate: f32, now: Instant) -> TokenBucket {
    TokenBucket::new_at(rate.max(0.0).into(), BURST, now)
}
