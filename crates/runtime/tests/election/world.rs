//! The state of a run: the API server, all processes and all versions of the Lease. It checks the
//! invariants.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, WriteGate};
use steersman_devcluster::DevCluster;
use steersman_runtime::events::EventRecorder;
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;
use tokio::time::{Instant, sleep};

use super::process::{self, Signals};

pub(crate) const CANDIDATES: usize = 3;
pub(crate) const LEASE: Duration = Duration::from_secs(15);
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const RETRY: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to acquire: the jitter adds up to 1.2 of it.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_millis(4_400);

/// Name of the ConfigMap that the leader writes as its work.
pub(crate) const WORK: &str = "work";

/// One run. Cheap to clone. Its tasks end with the last clone outside of them.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cluster: DevCluster,
    pub(crate) events: EventRecorder,
    shared: Arc<Shared>,
    _tasks: Arc<Tasks>,
}

/// Rates of the faults of one run. They differ between runs: few faults allow long terms, and many
/// faults cause many changes of leader.
pub(crate) struct FaultRates {
    /// Probability that a request or its answer is lost.
    pub(crate) loss: f64,
    /// Probability that a message is late by seconds.
    pub(crate) late: f64,
    /// The longest time between two injected faults.
    pub(crate) longest_pause: Duration,
}

struct Shared {
    random: Mutex<StdRng>,
    rates: FaultRates,
    /// Cancelled at the end of the faults.
    faults_ended: CancellationToken,
    records: Mutex<Records>,
}

/// A version of the Lease.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeaseVersion {
    pub(crate) at: Duration,
    pub(crate) holder: String,
    transitions: i64,
    version: String,
}

struct Records {
    began: Instant,
    slots: Vec<Slot>,
    /// The server's revision up to which `leases` is complete.
    revision: u64,
    leases: Vec<LeaseVersion>,
    violation: Option<String>,
}

/// A slot runs one process at a time.
#[derive(Default)]
struct Slot {
    process: Option<Process>,
    cut_off_until: Option<Instant>,
}

struct Process {
    name: String,
    gate: Arc<dyn WriteGate>,
    signals: Signals,
    has_led: bool,
    is_done: bool,
}

impl World {
    pub(crate) fn start(seed: u64) -> Self {
        let clock = Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap());
        let cluster = DevCluster::new(clock.clone());
        cluster
            .load(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WORK, "namespace": "default"}}))
            .unwrap();
        let tasks = Tasks::default();
        let settings = ClientSettings {
            user_agent: "events".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(5),
        };
        let client = ApiClient::new(
            cluster.client(),
            settings,
            ClientMetrics::register(&Registry::new()).unwrap(),
        );
        let events = EventRecorder::start("test", client, clock, &tasks, &CancellationToken::new());
        let records = Records {
            began: Instant::now(),
            slots: (0..CANDIDATES).map(|_| Slot::default()).collect(),
            revision: cluster.revision(),
            leases: Vec::new(),
            violation: None,
        };
        let mut random = StdRng::seed_from_u64(seed);
        let rates = FaultRates {
            loss: random.random_range(0.0..0.15),
            late: random.random_range(0.0..0.2),
            longest_pause: Duration::from_secs(random.random_range(3..25)),
        };
        let random = Mutex::new(random);
        let shared = Arc::new(Shared {
            random,
            rates,
            faults_ended: CancellationToken::new(),
            records: Mutex::new(records),
        });
        let world = Self {
            cluster,
            events,
            shared,
            _tasks: Arc::new(tasks),
        };
        for slot in 0..CANDIDATES {
            tokio::spawn(process::slot(world.clone(), slot));
        }
        world
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.shared.records.lock()
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.shared.random.lock())
    }

    pub(crate) fn rates(&self) -> &FaultRates {
        &self.shared.rates
    }

    /// Cancelled at the end of the faults.
    pub(crate) fn faults_ended(&self) -> &CancellationToken {
        &self.shared.faults_ended
    }

    pub(crate) fn process_started(
        &self,
        slot: usize,
        name: &str,
        gate: Arc<dyn WriteGate>,
        signals: Signals,
    ) {
        let process = Process {
            name: name.to_owned(),
            gate,
            signals,
            has_led: false,
            is_done: false,
        };
        self.records().slots[slot].process = Some(process);
    }

    /// The process has ended. If it was not killed, its gate must be closed.
    pub(crate) fn process_ended(&self, slot: usize, was_killed: bool) {
        let Some(process) = self.records().slots[slot].process.take() else {
            return;
        };
        if !was_killed && process.gate.is_open() {
            self.violated(format!(
                "NoWayBack: {} has ended and may write",
                process.name
            ));
        }
    }

    pub(crate) fn pause(&self, slot: usize, time: Duration) {
        if let Some(process) = &self.records().slots[slot].process {
            let switch = Arc::clone(&process.signals.switch);
            let faults_ended = self.faults_ended().clone();
            switch.freeze();
            tokio::spawn(async move {
                tokio::select! {
                    () = faults_ended.cancelled() => {}
                    () = sleep(time) => {}
                }
                switch.thaw();
            });
        }
    }

    pub(crate) fn kill(&self, slot: usize) {
        if let Some(process) = &self.records().slots[slot].process {
            process.signals.kill.cancel();
        }
    }

    pub(crate) fn terminate(&self, slot: usize) {
        if let Some(process) = &self.records().slots[slot].process {
            process.signals.terminate.cancel();
        }
    }

    pub(crate) fn cut_off(&self, slot: usize, time: Duration) {
        self.records().slots[slot].cut_off_until = Some(Instant::now() + time);
    }

    pub(crate) fn is_cut_off(&self, slot: usize) -> bool {
        !self.faults_ended().is_cancelled()
            && self.records().slots[slot]
                .cut_off_until
                .is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn end_faults(&self) {
        self.faults_ended().cancel();
    }

    pub(crate) fn history(&self) -> Vec<LeaseVersion> {
        self.records().leases.clone()
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.records().violation.clone()
    }

    /// Records a violated invariant. Only the first is kept.
    pub(crate) fn violated(&self, violation: String) {
        let mut records = self.records();
        let at = records.began.elapsed().as_secs_f64();
        records
            .violation
            .get_or_insert(format!("after {at:.3} s: {violation}"));
    }

    /// Name of the process with an open gate.
    pub(crate) fn leader(&self) -> Option<String> {
        self.records()
            .leaders()
            .next()
            .map(|leader| leader.name.clone())
    }

    /// The server has handled a work request of `name`: checks OneWriter.
    pub(crate) fn work_done(&self, name: &str) {
        self.check();
        let holder = self
            .records()
            .leases
            .last()
            .map(|lease| lease.holder.clone())
            .unwrap_or_default();
        if holder != name {
            self.violated(format!(
                "OneWriter: {name} writes, while {holder:?} holds the Lease"
            ));
        }
    }

    /// Checks the invariants on the Lease and all gates.
    pub(crate) fn check(&self) {
        let result = self.records().check(&self.cluster);
        if let Err(violation) = result {
            self.violated(violation);
        }
    }
}

impl Records {
    fn leaders(&self) -> impl Iterator<Item = &Process> {
        self.slots
            .iter()
            .filter_map(|slot| slot.process.as_ref())
            .filter(|process| process.gate.is_open())
    }

    fn check(&mut self, cluster: &DevCluster) -> Result<(), String> {
        if cluster.revision() != self.revision {
            self.revision = cluster.revision();
            self.read(cluster)?;
        }
        for process in self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.process.as_mut())
        {
            let is_open = process.gate.is_open();
            if is_open && process.is_done {
                return Err(format!("NoWayBack: {} leads again", process.name));
            }
            process.is_done |= process.has_led && !is_open;
            process.has_led |= is_open;
        }
        let leaders: Vec<&Process> = self.leaders().collect();
        let [leader] = leaders[..] else {
            let names: Vec<&str> = leaders.iter().map(|leader| &*leader.name).collect();
            return if names.is_empty() {
                Ok(())
            } else {
                Err(format!("OneLeader: {names:?} lead"))
            };
        };
        let name = &leader.name;
        let lease = self
            .leases
            .last()
            .ok_or_else(|| format!("RecordAgrees: {name} leads without a Lease"))?;
        if lease.holder != *name {
            return Err(format!(
                "RecordAgrees: {name} leads, while {:?} is in the Lease",
                lease.holder
            ));
        }
        let until = leader.gate.open_until().map(|until| until - self.began);
        let limit = lease.at + DEADLINE;
        if until.is_some_and(|until| until <= limit) {
            Ok(())
        } else {
            Err(format!(
                "TermBounded: {name} leads until {until:?}, and the Lease, written at {:?}, lets it until {limit:?}",
                lease.at
            ))
        }
    }

    /// Records a new version of the Lease, and checks its transitions.
    fn read(&mut self, cluster: &DevCluster) -> Result<(), String> {
        let leases = cluster.objects("leases");
        let Some(lease) = leases.first() else {
            return Ok(());
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let now = LeaseVersion {
            at: self.began.elapsed(),
            holder: text(&lease["spec"]["holderIdentity"]),
            transitions: lease["spec"]["leaseTransitions"].as_i64().unwrap_or(-1),
            version: text(&lease["metadata"]["resourceVersion"]),
        };
        let before = self.leases.last().cloned();
        if before
            .as_ref()
            .is_some_and(|before| before.version == now.version)
        {
            return Ok(());
        }
        let has_changed_hands =
            before.as_ref().is_some_and(|b| b.holder != now.holder) && !now.holder.is_empty();
        let expected = before.as_ref().map_or(0, |before| {
            before.transitions + i64::from(has_changed_hands)
        });
        self.leases.push(now.clone());
        if now.transitions == expected {
            Ok(())
        } else {
            Err(format!("TransitionsCount: {before:?} -> {now:?}"))
        }
    }
}
