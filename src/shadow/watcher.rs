//! Compares the held-back writes with the live objects, and prints those that differ.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use steersman_client::{ApiClient, ApiPath};
use steersman_options::duration::GoDuration;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::ShadowError;
use super::compare::Live;
use super::ledger::{Difference, Ledger};
use super::look::{self, Look};
use super::postpone::{self, Witnesses};
use super::present::{Present, Sight};
use super::refusals::Refusals;
use super::report::{self, Summary};
use super::write::Write;
use crate::beside::Output;
use crate::health::Progress;

/// The interval of checks for due look-ups, the most look-ups in one, and those at the same time.
const TICK: Duration = Duration::from_millis(500);
const AT_ONCE: usize = 16;
const EACH_TICK: usize = 200;
/// The interval of look-ups of the present manager's Lease.
const LEASE: Duration = Duration::from_secs(2);
/// The resource whose refused creations have no Event.
const REVISIONS: &str = "controllerrevisions.apps";

/// Looks up live objects, and prints differences.
pub(super) struct Watcher {
    client: ApiClient,
    present: Present,
    ledger: Arc<Mutex<Ledger>>,
    output: Output,
    refusals: Refusals,
    differences: u64,
    /// Look-ups that the API server refused for want of a right.
    forbidden: u64,
    /// Whether the Lease showed no leader at the last look.
    is_alone: bool,
    /// Whether the controllers have ever run.
    pub(super) has_started: bool,
}

impl Watcher {
    pub(super) fn new(
        client: ApiClient,
        present: Present,
        ledger: Arc<Mutex<Ledger>>,
        output: Output,
    ) -> Self {
        Self {
            client,
            present,
            ledger,
            output,
            refusals: Refusals::default(),
            differences: 0,
            forbidden: 0,
            is_alone: false,
            has_started: false,
        }
    }

    /// Compares until the present manager has a new leader.
    pub(super) async fn watch(&mut self, progress: &Progress) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lease_due = Instant::now();
        let mut is_announced = self.has_started;
        // The controllers of the last start may have sent writes until their end.
        self.ledger.lock().restart();
        if !self.has_started {
            self.note_refusals().await;
        }
        loop {
            let now = ticks.tick().await;
            if !is_announced && progress.is_working() {
                is_announced = true;
                complain!("The controllers run. Their writes are held back.");
            }
            if now >= lease_due {
                lease_due = now + LEASE;
                let sight = self.sight().await;
                if let Some(renewed) = self.present.renewed() {
                    self.ledger.lock().led(renewed);
                }
                if sight != Sight::Same {
                    self.ledger.lock().restart();
                }
                if sight == Sight::Nobody && !std::mem::replace(&mut self.is_alone, true) {
                    complain!(
                        "The Lease of the present manager has no holder. No write is compared until it has one."
                    );
                }
                self.is_alone &= sight == Sight::Nobody;
                if sight == Sight::New {
                    return;
                }
            }
            self.look_up_due().await;
        }
    }

    async fn sight(&mut self) -> Sight {
        let lease = look::look(&self.client, &self.present.lease).await;
        lease.seen().map_or(Sight::Same, |lease| {
            self.present.see(&lease, Instant::now())
        })
    }

    async fn look_up_due(&mut self) {
        let due = self.ledger.lock().due(Instant::now(), EACH_TICK);
        let client = &self.client;
        let look_ups = due.into_iter().map(async |(key, path)| {
            let live = look::look(client, &path).await;
            (key, live)
        });
        let found: Vec<_> = stream::iter(look_ups)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (key, live) in found {
            let live = match live {
                Look::Seen(live) => live,
                Look::Forbidden => {
                    self.forbidden += 1;
                    continue;
                }
                Look::Unread => continue,
            };
            let difference = self.ledger.lock().looked_up(Instant::now(), &key, &live);
            let Some(difference) = difference else {
                continue;
            };
            let is_impossible = self.is_impossible(&difference.write).await;
            let now = Instant::now();
            let mut ledger = self.ledger.lock();
            if is_impossible {
                ledger.postponed(now, &key);
            } else if !ledger.backs_off(now, &key) {
                ledger.reported(&key);
                drop(ledger);
                self.print(&difference);
            }
        }
    }

    /// Whether the present manager cannot make this creation now.
    async fn is_impossible(&mut self, write: &Write) -> bool {
        let Some(witnesses) = Witnesses::of(write) else {
            return false;
        };
        let namespace = self.look_at(Some(&witnesses.namespace)).await;
        if namespace.is_some_and(|namespace| postpone::is_terminating(&namespace)) {
            return true;
        }
        let quotas = self.look_at(Some(&witnesses.quotas)).await;
        if quotas.is_some_and(|quotas| postpone::is_full(&quotas, &write.resource)) {
            return true;
        }
        let now = Timestamp::now();
        let events = self.look_at(witnesses.events.as_deref()).await;
        if events.is_some_and(|events| postpone::tells_refusal(&events, now)) {
            return true;
        }
        let warnings = self.look_at(Some(&witnesses.warnings)).await;
        if warnings.is_some_and(|warnings| postpone::tells_webhook(&warnings, now)) {
            return true;
        }
        if write.resource == REVISIONS {
            self.note_refusals().await;
            if self.refusals.are_recent(Instant::now()) {
                return true;
            }
        }
        let Some(owner) = self.look_at(witnesses.owner.as_deref()).await else {
            return false;
        };
        if postpone::is_in_foreground_deletion(&owner) {
            return true;
        }
        let pods = self.look_at(witnesses.pods.as_deref()).await;
        pods.is_some_and(|pods| postpone::may_back_off(&owner, &pods, now))
    }

    /// Without the right to read the metrics, nothing is known.
    async fn note_refusals(&mut self) {
        if self.refusals.is_fresh(Instant::now()) {
            return;
        }
        let Ok(path) = ApiPath::served("/metrics") else {
            return;
        };
        if let Ok(metrics) = self.client.get_path(path).await {
            let metrics = String::from_utf8_lossy(&metrics);
            self.refusals.note(&metrics, Instant::now());
        }
    }

    async fn look_at(&self, path: Option<&str>) -> Option<Live> {
        look::look(&self.client, path?).await.seen()
    }

    fn print(&mut self, difference: &Difference) {
        self.differences += 1;
        match self.output {
            Output::Text => say!("{}", report::text(difference)),
            Output::Json => say!("{}", report::json(difference)),
        }
    }

    /// Prints the summary. Returns the number of differences, and of look-ups without the right to read.
    pub(super) fn finish(&self, time: Duration) -> Result<u64, ShadowError> {
        if !self.has_started && self.differences == 0 {
            return Err(ShadowError::NotStarted(GoDuration::from(
                Duration::from_secs(time.as_secs()),
            )));
        }
        let ledger = self.ledger.lock();
        let summary = Summary {
            seconds: time.as_secs(),
            held: ledger.held,
            settled: ledger.settled,
            pending: ledger.pending(Instant::now()),
            dropped: ledger.dropped,
            postponed: ledger.postponed,
            forbidden: self.forbidden,
            differences: self.differences,
        };
        match self.output {
            Output::Text => say!("{}", summary.text()),
            Output::Json => say!("{}", summary.json()),
        }
        Ok(self.differences + self.forbidden)
    }
}
