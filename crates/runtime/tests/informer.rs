//! Informers against the API server of the development cluster under injected faults, in paused
//! time. Handlers must receive each change once and in order, and the store must become current.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::Registry;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_objects::Node;
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;
use tokio::time::{self, Instant};

/// UID and resource version of each object, by name.
type State = BTreeMap<String, (String, u64)>;

fn state_of(node: &Node) -> (String, u64) {
    (node.meta.uid.to_string(), node.meta.resource_version)
}

/// A handler that applies changes to its own copy of the state. It records changes that contradict
/// the copy.
#[derive(Default)]
struct Listener {
    known: State,
    missed_deletions: usize,
    wrong: Vec<String>,
}

impl Listener {
    fn receive(&mut self, change: Change<'_, Node>) {
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
struct TestInformer {
    cluster: DevCluster,
    informer: SharedInformer<Node>,
    listener: Arc<Mutex<Listener>>,
    _tasks: Tasks,
}

impl TestInformer {
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
        let receiving = Arc::clone(&listener);
        informer.add_handler(move |change| receiving.lock().receive(change));
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        factory.start(&tasks, &stop);
        let test = Self {
            cluster,
            informer,
            listener,
            _tasks: tasks,
        };
        for name in ["a", "b", "c"] {
            test.create(name).await;
        }
        test.wait_until_current().await;
        test
    }

    /// Creates a node, and returns its resource version.
    async fn create(&self, name: &str) -> u64 {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        version_of(&self.cluster.create(node).await.unwrap())
    }

    async fn annotate(&self, name: &str, mark: &str) -> u64 {
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

    /// Waits until the store equals the server's state, and checks that the handler's copy does
    /// too. Returns the waiting time.
    async fn wait_until_current(&self) -> Duration {
        let began = Instant::now();
        // The informer waits up to 630 s before it closes a silent watch.
        while self.store() != self.server() || !self.informer.is_synced() {
            assert!(
                began.elapsed() < Duration::from_secs(700),
                "store {:?}\nserver {:?}",
                self.store(),
                self.server()
            );
            time::sleep(Duration::from_millis(100)).await;
        }
        let listener = self.listener.lock();
        assert_eq!(listener.wrong, [""; 0]);
        assert_eq!(listener.known, self.server(), "the handler's copy");
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
async fn the_store_equals_the_server_after_each_kind_of_fault() {
    type Fault = fn(&DevCluster);
    // (why, fault before the writes, fault after them, longest time until the store is current in
    // seconds, deletions that only a relist shows)
    let cases: [(&str, Fault, Fault, u64, usize); 13] = [
        ("no fault", |_| {}, |_| {}, 1, 0),
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
            "history compacted",
            |c| c.faults().stall_watches("nodes"),
            |c| {
                c.compact("nodes");
                c.faults().resume_watches("nodes");
            },
            5,
            1,
        ),
        (
            "history compacted, no streaming lists",
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
            "broken, and server errors",
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
            "broken, and throttled with Retry-After",
            |c| {
                c.faults().reject(watches(), throttled(Some(7)), Some(2));
                c.faults().break_watches("nodes");
            },
            |_| {},
            30,
            0,
        ),
        (
            "lists throttled with Retry-After",
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
            "a list without an answer",
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
        let test = TestInformer::start().await;
        before(&test.cluster);
        time::sleep(Duration::from_millis(10)).await;
        test.create("d").await;
        test.annotate("a", "1").await;
        test.annotate("a", "2").await;
        test.delete("b").await;
        test.delete("c").await;
        test.create("c").await;
        test.create("short-lived").await;
        test.delete("short-lived").await;
        time::sleep(Duration::from_millis(10)).await;
        after(&test.cluster);
        let took = test.wait_until_current().await;
        assert!(took <= Duration::from_secs(limit), "{why}: {took:?}");
        assert_eq!(test.listener.lock().missed_deletions, missed, "{why}");
        // The watch works again after the fault.
        test.cluster.faults().resume_watches("nodes");
        test.annotate("d", "3").await;
        let took = test.wait_until_current().await;
        assert!(
            took <= Duration::from_secs(40),
            "{why}, afterwards: {took:?}"
        );
    }
}

/// Sends random writes under random faults for twenty simulated minutes.
async fn run_with_random_faults(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let test = TestInformer::start().await;
    let faults = test.cluster.faults();
    let awaited = AtomicUsize::new(0);
    let seen = Arc::new(AtomicUsize::new(0));
    let mut rules = Vec::new();
    let end = Instant::now() + Duration::from_secs(1200);
    while Instant::now() < end {
        for _ in 0..random.random_range(0..6) {
            let name = format!("n{}", random.random_range(0..12));
            let exists = test.server().contains_key(&name);
            let version = match random.random_range(0..3) {
                _ if !exists => test.create(&name).await,
                0 => {
                    test.delete(&name).await;
                    continue;
                }
                _ => {
                    test.annotate(&name, &random.random::<u64>().to_string())
                        .await
                }
            };
            awaited.fetch_add(1, Ordering::Relaxed);
            let seen = Arc::clone(&seen);
            let store = test.informer.store();
            test.informer.when_seen(version, move || {
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
                test.cluster.compact("nodes");
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
        // Delays of several rules add up. With many rules, all requests would time out.
        rules.extend(rule);
        if rules.len() > 4 {
            faults.remove(rules.remove(0));
        }
        time::sleep(Duration::from_millis(random.random_range(0..20_000))).await;
    }
    faults.resume_watches("nodes");
    rules.into_iter().for_each(|rule| faults.remove(rule));
    test.wait_until_current().await;
    // A bookmark advances the store to the last write, even if its object is deleted.
    time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        seen.load(Ordering::Relaxed),
        awaited.load(Ordering::Relaxed),
        "one callback for each write"
    );
    assert!(
        awaited.load(Ordering::Relaxed) > 100,
        "the run has too few writes"
    );
}

#[tokio::test(start_paused = true)]
async fn handlers_receive_each_change_once_and_in_order_under_random_faults() {
    let seeds = match std::env::var("STEERSMAN_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..2).map(|_| rand::random()).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        println!("to repeat this run: STEERSMAN_SEED={seed}");
        run_with_random_faults(seed).await;
    }
}
