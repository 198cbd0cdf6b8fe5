//! Informers against the API server of the development cluster, which fails in every way it can:
//! nothing is lost, nothing is told twice, nothing is told in the wrong order. Everything runs in
//! paused time.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus::Registry;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer};
use steersman_runtime::object::Node;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::time::{self, Instant};

/// UID and version by name.
type State = BTreeMap<String, (String, u64)>;

fn state_of(node: &Node) -> (String, u64) {
    (node.meta.uid.to_string(), node.meta.resource_version)
}

/// What a handler makes of the changes it hears; it notes every one that does not follow from those
/// before.
#[derive(Default)]
struct Listener {
    known: State,
    missed_deletions: usize,
    wrong: Vec<String>,
}

impl Listener {
    fn hear(&mut self, change: Change<'_, Node>) {
        let (object, before) = match change {
            Change::Added { object, .. } => (object, None),
            Change::Updated { old, new } => (new, Some(state_of(old))),
            Change::Deleted {
                object,
                final_state_unknown,
            } => {
                self.missed_deletions += usize::from(final_state_unknown);
                let known = self.known.remove(&*object.meta.name);
                let is_newer = |(uid, version): (String, u64)| {
                    let (gone, last) = state_of(object);
                    uid == gone
                        && if final_state_unknown {
                            version == last
                        } else {
                            version < last
                        }
                };
                if !known.clone().is_some_and(is_newer) {
                    self.wrong.push(format!("{change:?} after {known:?}"));
                }
                return;
            }
        };
        let now = state_of(object);
        let known = self.known.insert(object.meta.name.to_string(), now.clone());
        let goes_forward = known.as_ref().is_none_or(|(_, version)| *version < now.1);
        if known != before || !goes_forward {
            self.wrong.push(format!("{change:?} after {known:?}"));
        }
    }
}

/// A cluster, and an informer over its nodes.
struct Story {
    cluster: DevCluster,
    informer: SharedInformer<Node>,
    listener: Arc<Mutex<Listener>>,
    _tasks: Tasks,
}

impl Story {
    async fn start() -> Self {
        let cluster = DevCluster::new(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()));
        let registry = Registry::new();
        let settings = ClientSettings {
            user_agent: "test".to_owned(),
            qps: 20.0,
            burst: 30,
            timeout: Duration::from_secs(30),
        };
        let client = ApiClient::new(
            cluster.client(),
            settings,
            ClientMetrics::register(&registry).unwrap(),
        );
        let factory = InformerFactory::new(client, Duration::ZERO, &registry).unwrap();
        let informer = factory.shared::<Node>();
        let listener = Arc::new(Mutex::new(Listener::default()));
        let hears = Arc::clone(&listener);
        informer.add_handler(move |change| hears.lock().unwrap().hear(change));
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        factory.start(&tasks, &stop);
        let story = Self {
            cluster,
            informer,
            listener,
            _tasks: tasks,
        };
        for name in ["a", "b", "c"] {
            story.create(name).await;
        }
        story.catches_up().await;
        story
    }

    /// Writes, and returns the version that came of it.
    async fn create(&self, name: &str) -> u64 {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        version_of(&self.cluster.create(node).await.unwrap())
    }

    async fn touch(&self, name: &str, mark: &str) -> u64 {
        let patch = json!({"metadata": {"annotations": {"mark": mark}}});
        version_of(
            &self
                .cluster
                .patch(&self.cluster.path("nodes", "", name), patch)
                .await
                .unwrap(),
        )
    }

    async fn delete(&self, name: &str) {
        self.cluster
            .delete(&self.cluster.path("nodes", "", name))
            .await
            .unwrap();
    }

    fn server(&self) -> State {
        let nodes = self.cluster.objects("nodes");
        let state = |node: &Value| {
            (
                node["metadata"]["uid"].as_str().unwrap().to_owned(),
                version_of(node),
            )
        };
        nodes
            .iter()
            .map(|node| {
                (
                    node["metadata"]["name"].as_str().unwrap().to_owned(),
                    state(node),
                )
            })
            .collect()
    }

    fn store(&self) -> State {
        self.informer
            .store()
            .list()
            .iter()
            .map(|node| (node.meta.name.to_string(), state_of(node)))
            .collect()
    }

    /// Waits until the store is what the server has, and looks whether what was told leads there,
    /// too. Returns how long it took.
    async fn catches_up(&self) -> Duration {
        let began = Instant::now();
        // A silent watch is believed for up to 630 s.
        while self.store() != self.server() || !self.informer.is_synced() {
            assert!(
                began.elapsed() < Duration::from_secs(700),
                "store {:?}\nserver {:?}",
                self.store(),
                self.server()
            );
            time::sleep(Duration::from_millis(100)).await;
        }
        let listener = self.listener.lock().unwrap();
        assert_eq!(listener.wrong, [""; 0]);
        assert_eq!(listener.known, self.server(), "what handlers heard");
        began.elapsed()
    }
}

fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn watches() -> Matcher {
    Matcher::new("watch", "nodes")
}

fn lists() -> Matcher {
    Matcher::new("list", "nodes")
}

fn throttled(retry_after: Option<u32>) -> Status {
    Status::too_many_requests("not now", retry_after, json!([]))
}

#[tokio::test(start_paused = true)]
async fn after_every_kind_of_fault_the_store_is_what_the_server_has() {
    type Fault = fn(&DevCluster);
    // (why, before the writes, after them, seconds until the informer has caught up at the latest,
    // deletions told from their absence)
    let cases: [(&str, Fault, Fault, u64, usize); 13] = [
        ("nothing", |_| {}, |_| {}, 1, 0),
        (
            "a broken watch",
            |c| c.faults().break_watches("nodes"),
            |_| {},
            3,
            0,
        ),
        (
            "broken afterwards",
            |_| {},
            |c| c.faults().break_watches("nodes"),
            3,
            0,
        ),
        (
            "stalled for a while",
            |c| c.faults().stall_watches("nodes"),
            |c| c.faults().resume_watches("nodes"),
            1,
            0,
        ),
        (
            "stalled, then broken",
            |c| c.faults().stall_watches("nodes"),
            |c| {
                c.faults().break_watches("nodes");
                c.faults().resume_watches("nodes");
            },
            3,
            0,
        ),
        (
            "history gone",
            |c| c.faults().stall_watches("nodes"),
            |c| {
                c.compact("nodes");
                c.faults().resume_watches("nodes");
            },
            5,
            1,
        ),
        (
            "history gone, no streaming lists",
            |c| c.faults().stall_watches("nodes"),
            |c| {
                c.compact("nodes");
                c.faults().resume_watches("nodes");
                c.faults().reject(
                    watches(),
                    Status::new(422, "Invalid", "no sendInitialEvents"),
                    Some(1),
                );
            },
            5,
            1,
        ),
        (
            "broken, and an ill server",
            |c| {
                c.faults()
                    .reject(watches(), Status::internal("ill"), Some(3));
                c.faults().reject(lists(), Status::internal("ill"), Some(2));
                c.faults().break_watches("nodes");
            },
            |_| {},
            30,
            1,
        ),
        (
            "broken, and throttled",
            |c| {
                c.faults().reject(watches(), throttled(None), Some(3));
                c.faults().break_watches("nodes");
            },
            |_| {},
            30,
            0,
        ),
        (
            "broken, and asked to wait",
            |c| {
                c.faults().reject(watches(), throttled(Some(7)), Some(2));
                c.faults().break_watches("nodes");
            },
            |_| {},
            30,
            0,
        ),
        (
            "lists asked to wait",
            |c| {
                c.faults()
                    .reject(watches(), Status::internal("ill"), Some(2));
                c.faults().reject(lists(), throttled(Some(7)), Some(2));
                c.faults().break_watches("nodes");
            },
            |_| {},
            40,
            1,
        ),
        (
            "a slow server",
            |c| {
                c.faults()
                    .delay(watches(), Duration::from_secs(20), Some(2));
                c.faults().break_watches("nodes");
            },
            |_| {},
            45,
            0,
        ),
        (
            "a list that never comes",
            |c| {
                c.faults()
                    .reject(watches(), Status::internal("ill"), Some(2));
                c.faults()
                    .delay(lists(), Duration::from_secs(3600), Some(1));
                c.faults().break_watches("nodes");
            },
            |_| {},
            60,
            1,
        ),
    ];
    for (why, before, after, limit, missed) in cases {
        let story = Story::start().await;
        before(&story.cluster);
        time::sleep(Duration::from_millis(10)).await;
        story.create("d").await;
        story.touch("a", "1").await;
        story.touch("a", "2").await;
        story.delete("b").await;
        story.delete("c").await;
        story.create("c").await;
        story.create("short-lived").await;
        story.delete("short-lived").await;
        time::sleep(Duration::from_millis(10)).await;
        after(&story.cluster);
        let took = story.catches_up().await;
        assert!(took <= Duration::from_secs(limit), "{why}: {took:?}");
        assert_eq!(
            story.listener.lock().unwrap().missed_deletions,
            missed,
            "{why}"
        );
        // And it follows on.
        story.cluster.faults().resume_watches("nodes");
        story.touch("d", "3").await;
        let took = story.catches_up().await;
        assert!(
            took <= Duration::from_secs(40),
            "{why}, afterwards: {took:?}"
        );
    }
}

/// Random writes under random faults for twenty simulated minutes.
async fn wild_minutes(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let story = Story::start().await;
    let faults = story.cluster.faults();
    let (awaited, seen) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let mut rules = Vec::new();
    let end = Instant::now() + Duration::from_secs(1200);
    while Instant::now() < end {
        for _ in 0..random.random_range(0..6) {
            let name = format!("n{}", random.random_range(0..12));
            let exists = story.server().contains_key(&name);
            let version = match random.random_range(0..3) {
                _ if !exists => story.create(&name).await,
                0 => {
                    story.delete(&name).await;
                    continue;
                }
                _ => {
                    story
                        .touch(&name, &random.random::<u64>().to_string())
                        .await
                }
            };
            awaited.fetch_add(1, Ordering::Relaxed);
            let (seen, store) = (Arc::clone(&seen), story.informer.store());
            story.informer.when_seen(version, move || {
                assert!(
                    store.resource_version() >= version,
                    "called at {}, not at {version}",
                    store.resource_version()
                );
                seen.fetch_add(1, Ordering::Relaxed);
            });
        }
        let times = Some(random.random_range(1..4));
        let rule = match random.random_range(0..12) {
            0 | 1 => {
                faults.break_watches("nodes");
                None
            }
            2 => {
                faults.stall_watches("nodes");
                None
            }
            3 | 4 => {
                faults.resume_watches("nodes");
                None
            }
            5 => {
                story.cluster.compact("nodes");
                None
            }
            6 => Some(faults.reject(watches(), Status::internal("ill"), times)),
            7 => Some(faults.reject(lists(), Status::internal("ill"), times)),
            8 => Some(faults.reject(watches(), throttled(times.map(|n| n as u32)), times)),
            9 => Some(faults.reject(watches(), Status::expired("too old"), times)),
            10 => Some(faults.delay(
                watches(),
                Duration::from_secs(random.random_range(1..60)),
                times,
            )),
            _ => Some(faults.delay(
                lists(),
                Duration::from_secs(random.random_range(1..60)),
                times,
            )),
        };
        // Delays add up: with many at once no request would be answered in time.
        rules.extend(rule);
        if rules.len() > 4 {
            faults.remove(rules.remove(0));
        }
        time::sleep(Duration::from_millis(random.random_range(0..20_000))).await;
    }
    faults.resume_watches("nodes");
    rules.into_iter().for_each(|rule| faults.remove(rule));
    story.catches_up().await;
    // A bookmark moves the store on to the last write, be it one of an object that is gone.
    time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        seen.load(Ordering::Relaxed),
        awaited.load(Ordering::Relaxed),
        "callbacks of writes that were seen"
    );
    assert!(
        awaited.load(Ordering::Relaxed) > 100,
        "too quiet a time to tell anything"
    );
}

#[tokio::test(start_paused = true)]
async fn under_random_faults_nothing_is_lost_told_twice_or_told_in_the_wrong_order() {
    let seeds = match std::env::var("STEERSMAN_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..2).map(|_| rand::random()).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        println!("to see this again: STEERSMAN_SEED={seed}");
        wild_minutes(seed).await;
    }
}
