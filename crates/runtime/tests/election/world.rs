//! What the run knows of all processes and of the Lease, and what must hold of them.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, WriteGate};
use steersman_runtime::clock::Clock;
use steersman_runtime::events::EventRecorder;
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::time::{Instant, sleep};

use super::process::{self, Orders};

pub(crate) const CANDIDATES: usize = 3;
pub(crate) const LEASE: Duration = Duration::from_secs(15);
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const RETRY: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to acquire: the jitter adds up to 1.2 of it.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_millis(4_400);

/// What the leader writes when it works.
pub(crate) const WORK: &str = "work";

/// Cheap to clone; ends with its last clone outside of its own tasks.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cluster: DevCluster,
    pub(crate) events: EventRecorder,
    shared: Arc<Shared>,
    _tasks: Arc<Tasks>,
}

/// How bad a run is; some are hardly disturbed, so that terms grow old in them, and some are
/// nothing but trouble.
pub(crate) struct Weather {
    /// How likely a request or its answer is lost.
    pub(crate) loss: f64,
    /// How likely it is late by seconds.
    pub(crate) late: f64,
    /// The longest time between two troubles.
    pub(crate) lull: Duration,
}

struct Shared {
    random: Mutex<StdRng>,
    weather: Weather,
    /// Cancelled when the storm is over.
    calm: CancellationToken,
    book: Mutex<Book>,
}

/// A version of the Lease.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Happened {
    pub(crate) at: Duration,
    pub(crate) holder: String,
    transitions: i64,
    version: String,
}

struct Book {
    began: Instant,
    slots: Vec<Slot>,
    /// The revision of the server up to which this is known.
    revision: u64,
    leases: Vec<Happened>,
    broken: Option<String>,
}

/// A place for one process at a time.
#[derive(Default)]
struct Slot {
    living: Option<Living>,
    cut_off_until: Option<Instant>,
}

struct Living {
    name: String,
    gate: Arc<dyn WriteGate>,
    orders: Orders,
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
        let book = Book {
            began: Instant::now(),
            slots: (0..CANDIDATES).map(|_| Slot::default()).collect(),
            revision: cluster.revision(),
            leases: Vec::new(),
            broken: None,
        };
        let mut random = StdRng::seed_from_u64(seed);
        let weather = Weather {
            loss: random.random_range(0.0..0.15),
            late: random.random_range(0.0..0.2),
            lull: Duration::from_secs(random.random_range(3..25)),
        };
        let random = Mutex::new(random);
        let shared = Arc::new(Shared {
            random,
            weather,
            calm: CancellationToken::new(),
            book: Mutex::new(book),
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

    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap()
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.shared.random.lock().unwrap())
    }

    pub(crate) fn weather(&self) -> &Weather {
        &self.shared.weather
    }

    /// Cancelled when the storm is over.
    pub(crate) fn calm(&self) -> &CancellationToken {
        &self.shared.calm
    }

    pub(crate) fn born(&self, slot: usize, name: &str, gate: Arc<dyn WriteGate>, orders: Orders) {
        let living = Living {
            name: name.to_owned(),
            gate,
            orders,
            has_led: false,
            is_done: false,
        };
        self.book().slots[slot].living = Some(living);
    }

    /// The process is no more. One that came to its own end writes no more either.
    pub(crate) fn died(&self, slot: usize, was_killed: bool) {
        let Some(living) = self.book().slots[slot].living.take() else {
            return;
        };
        if !was_killed && living.gate.is_open() {
            self.break_off(format!(
                "NoWayBack: {} has ended and may write",
                living.name
            ));
        }
    }

    pub(crate) fn pause(&self, slot: usize, time: Duration) {
        if let Some(living) = &self.book().slots[slot].living {
            let (switch, calm) = (Arc::clone(&living.orders.switch), self.calm().clone());
            switch.freeze();
            tokio::spawn(async move {
                tokio::select! {
                    () = calm.cancelled() => {}
                    () = sleep(time) => {}
                }
                switch.thaw();
            });
        }
    }

    pub(crate) fn kill(&self, slot: usize) {
        if let Some(living) = &self.book().slots[slot].living {
            living.orders.kill.cancel();
        }
    }

    pub(crate) fn ask_to_end(&self, slot: usize) {
        if let Some(living) = &self.book().slots[slot].living {
            living.orders.end.cancel();
        }
    }

    pub(crate) fn cut_off(&self, slot: usize, time: Duration) {
        self.book().slots[slot].cut_off_until = Some(Instant::now() + time);
    }

    pub(crate) fn is_cut_off(&self, slot: usize) -> bool {
        !self.calm().is_cancelled()
            && self.book().slots[slot]
                .cut_off_until
                .is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn clear_up(&self) {
        self.calm().cancel();
    }

    pub(crate) fn history(&self) -> Vec<Happened> {
        self.book().leases.clone()
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.book().broken.clone()
    }

    /// Notes what does not hold; the first counts.
    pub(crate) fn break_off(&self, what: String) {
        let mut book = self.book();
        let at = book.began.elapsed().as_secs_f64();
        book.broken
            .get_or_insert(format!("after {at:.3} s: {what}"));
    }

    /// Whoever may write.
    pub(crate) fn leader(&self) -> Option<String> {
        self.book()
            .leaders()
            .next()
            .map(|leader| leader.name.clone())
    }

    /// The server has handled a request of the work of `name`.
    pub(crate) fn worked(&self, name: &str) {
        self.look();
        let holder = self
            .book()
            .leases
            .last()
            .map(|lease| lease.holder.clone())
            .unwrap_or_default();
        if holder != name {
            self.break_off(format!(
                "OneWriter: {name} writes, while {holder:?} holds the Lease"
            ));
        }
    }

    /// Looks at the Lease and at all gates.
    pub(crate) fn look(&self) {
        let result = self.book().look(&self.cluster);
        if let Err(broken) = result {
            self.break_off(broken);
        }
    }
}

impl Book {
    fn leaders(&self) -> impl Iterator<Item = &Living> {
        self.slots
            .iter()
            .filter_map(|slot| slot.living.as_ref())
            .filter(|living| living.gate.is_open())
    }

    fn look(&mut self, cluster: &DevCluster) -> Result<(), String> {
        if cluster.revision() != self.revision {
            self.revision = cluster.revision();
            self.read(cluster)?;
        }
        for living in self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.living.as_mut())
        {
            let is_open = living.gate.is_open();
            if is_open && living.is_done {
                return Err(format!("NoWayBack: {} leads again", living.name));
            }
            living.is_done |= living.has_led && !is_open;
            living.has_led |= is_open;
        }
        let leaders: Vec<&Living> = self.leaders().collect();
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

    /// Notes another version of the Lease.
    fn read(&mut self, cluster: &DevCluster) -> Result<(), String> {
        let leases = cluster.objects("leases");
        let Some(lease) = leases.first() else {
            return Ok(());
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let now = Happened {
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
