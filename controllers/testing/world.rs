//! A whole cluster for stories: API server, simulated nodes and the controllers under test, on
//! paused time.
//!
//! Each controller works as a user who may do what its descriptor says and nothing else, and so do
//! the shared informers. A story in which any of them is denied something fails at its end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_devcluster::auth::User;
use steersman_devcluster::faults::{self, Matcher};
use steersman_devcluster::nodes::{self, NodesConfig};
use steersman_devcluster::{DevCluster, Snapshot};
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_runtime::clock::Clock;
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext, Descriptor};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::rbac::Rule;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use tower::Service;

use super::NAMESPACE;

/// When the story begins.
const BEGIN: i64 = 1_700_000_000;

/// How much (paused) time a story may take to get somewhere.
const PATIENCE: Duration = Duration::from_secs(1800);

/// How long nothing may be written for a cluster to count as at rest. Longer than any latency of
/// the simulated nodes.
const QUIET: Duration = Duration::from_secs(10);

/// The cluster of one story.
pub(crate) struct World {
    pub(crate) cluster: DevCluster,
    /// Informers of the controllers that run now; handlers may be added to watch a story unfold.
    pub(crate) informers: InformerFactory,
    /// Metrics of the controllers that run now.
    pub(crate) registry: Registry,
    pub(crate) clients: ClientFactory,
    pub(crate) clock: Clock,
    /// Where the clients lead.
    door: Door,
    controllers: Running,
    nodes: Running,
}

/// Tasks and what ends them.
struct Running {
    tasks: Arc<Tasks>,
    stop: CancellationToken,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            tasks: Arc::default(),
            stop: CancellationToken::new(),
        }
    }
}

impl World {
    /// A cluster in which these controllers run.
    pub(crate) async fn with(controllers: &[Descriptor]) -> Self {
        let mut world = Self::bare().await;
        let Running { tasks, stop } = &world.nodes;
        let client = (world.clients)("simulated-nodes");
        nodes::start(
            NodesConfig::default(),
            client,
            world.clock.clone(),
            tasks,
            stop,
        )
        .await
        .unwrap();
        world.restart(controllers).await;
        world
    }

    /// A cluster in which nothing runs yet and which has no nodes.
    pub(crate) async fn bare() -> Self {
        Self::bare_at(Timestamp::from_second(BEGIN).unwrap()).await
    }

    /// The same, at another time.
    pub(crate) async fn bare_at(begin: Timestamp) -> Self {
        Self::on(DevCluster::new(Clock::runtime(begin)))
    }

    /// A cluster that keeps what requests say, and who manages which field.
    pub(crate) async fn recorded() -> Self {
        let cluster =
            DevCluster::with_managed_fields(Clock::runtime(Timestamp::from_second(BEGIN).unwrap()));
        cluster.keep_contents();
        Self::on(cluster)
    }

    fn on(cluster: DevCluster) -> Self {
        let clock = cluster.clock().clone();
        let metrics = ClientMetrics::register(&Registry::new()).unwrap();
        let door = Door(Arc::new(Mutex::new(cluster.clone())));
        let users = door.clone();
        for descriptor in crate::ALL {
            allow(&cluster, descriptor.identity, &descriptor.all_rules());
        }
        allow(&cluster, INFORMERS, &watched_by(crate::ALL));
        let clients: ClientFactory = Arc::new(move |identity: &str| {
            let is_confined = identity == INFORMERS
                || crate::ALL
                    .iter()
                    .any(|descriptor| descriptor.identity == identity);
            let user = if is_confined {
                User::new(user_name(identity), [""; 0])
            } else {
                User::admin()
            };
            let base = users.client_as(user);
            let user_agent = format!(
                "kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/0000000/{identity}"
            );
            let settings = ClientSettings {
                user_agent,
                qps: 0.0,
                burst: 0,
                timeout: Duration::from_secs(30),
            };
            ApiClient::new(base, settings, metrics.clone())
        });
        let context = context(&clients, &clock);
        let (informers, registry) = (context.informers, context.registry);
        let [controllers, nodes] = [(); 2].map(|()| Running::default());
        Self {
            cluster,
            informers,
            registry,
            clients,
            clock,
            door,
            controllers,
            nodes,
        }
    }

    /// What a controller could be built from, beside those that run.
    pub(crate) fn context(&self) -> ControllerContext {
        context(&self.clients, &self.clock)
    }

    /// Ends all controllers and starts these, with empty memories.
    pub(crate) async fn restart(&mut self, controllers: &[Descriptor]) {
        self.restart_with(controllers, |context| context).await;
    }

    /// The same, with configuration for them.
    pub(crate) async fn restart_with(
        &mut self,
        controllers: &[Descriptor],
        configure: impl Fn(ControllerContext) -> ControllerContext,
    ) {
        self.controllers.stop.cancel();
        self.controllers.tasks.join(Duration::from_secs(60)).await;
        allow(&self.cluster, INFORMERS, &watched_by(controllers));
        let context = configure(context(&self.clients, &self.clock));
        (self.informers, self.registry) = (context.informers.clone(), context.registry.clone());
        self.controllers = run(controllers, &context).await;
    }

    /// Puts the cluster back to what it was, revisions included, as when its database is restored
    /// from a backup: watches end, and who goes on with one is told that its revision is unknown.
    pub(crate) fn restore(&mut self, backup: &Snapshot) {
        let lost = std::mem::replace(&mut self.cluster, backup.fork());
        *self.door.cluster() = self.cluster.clone();
        let requests = lost.requests();
        let watched: BTreeSet<&str> = requests
            .iter()
            .filter(|request| request.verb == "watch")
            .map(|request| &*request.resource)
            .collect();
        for plural in watched {
            self.cluster
                .faults()
                .reject(Matcher::new("watch", plural), faults::expired(), Some(1));
            lost.faults().break_watches(plural);
        }
    }

    /// Creates an object from its manifest.
    pub(crate) async fn create(&self, object: Value) -> Value {
        self.cluster.create(object).await.unwrap()
    }

    /// Merges `changes` into an object; `name` may end in `/status`.
    pub(crate) async fn patch(&self, plural: &str, name: &str, changes: Value) -> Value {
        self.cluster
            .patch(&self.cluster.path(plural, NAMESPACE, name), changes)
            .await
            .unwrap()
    }

    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        self.cluster
            .delete(&self.cluster.path(plural, NAMESPACE, name))
            .await
            .unwrap();
    }

    /// Everything there is now.
    pub(crate) fn state(&self) -> State {
        State {
            deployments: self.cluster.objects("deployments"),
            replica_sets: self.cluster.objects("replicasets"),
            pods: self.cluster.objects("pods"),
            events: self.cluster.objects("events"),
        }
    }

    /// The state in which `holds` became true.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&State) -> bool) -> State {
        let limit = tokio::time::Instant::now() + PATIENCE;
        loop {
            let state = self.state();
            if holds(&state) {
                return state;
            }
            assert!(
                tokio::time::Instant::now() < limit,
                "not {what}: {state:#?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The state once nobody but the nodes has written for a while.
    pub(crate) async fn at_rest(&self) -> State {
        let limit = tokio::time::Instant::now() + PATIENCE;
        loop {
            let before = self.writes().len();
            tokio::time::sleep(QUIET).await;
            if self.writes().len() == before {
                return self.state();
            }
            assert!(
                tokio::time::Instant::now() < limit,
                "never at rest: {:#?}",
                self.writes()
            );
        }
    }

    /// Verb and path of the writes of the controllers so far, Events and nodes aside, as the server
    /// answered them.
    pub(crate) fn writes(&self) -> Vec<String> {
        let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
        let is_controller = |agent: &str| agent.ends_with("-controller");
        let requests = self.cluster.requests();
        let writes = requests.iter().filter(|r| {
            is_write(&r.verb) && is_controller(&r.user_agent) && !r.path.contains("/events")
        });
        writes
            .map(|r| {
                format!(
                    "{} {} {}",
                    r.verb,
                    r.path.rsplit("/default/").next().unwrap_or(&r.path),
                    r.status
                )
            })
            .collect()
    }
}

/// Where clients lead: to whichever cluster there is now.
#[derive(Clone)]
struct Door(Arc<Mutex<DevCluster>>);

impl Door {
    fn cluster(&self) -> MutexGuard<'_, DevCluster> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client_as(&self, user: User) -> kube::Client {
        let door = self.clone();
        let serve = move |request| door.cluster().service_as(user.clone()).call(request);
        kube::Client::new(tower::service_fn(serve), "default")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let requests = self
            .cluster
            .requests()
            .into_iter()
            .filter(|r| r.denied && r.user.starts_with(USERS));
        let denied: Vec<_> = requests
            .map(|r| format!("{} may not {} {}", r.user, r.verb, r.path))
            .collect();
        assert!(
            denied.is_empty() || std::thread::panicking(),
            "rules of a descriptor are missing: {denied:#?}"
        );
    }
}

/// What the names of users that controllers work as begin with.
const USERS: &str = "confined:";

/// The client of the shared informers.
const INFORMERS: &str = "shared-informers";

fn user_name(identity: &str) -> String {
    format!("{USERS}{identity}")
}

/// What shared informers may do for these controllers.
fn watched_by(controllers: &[Descriptor]) -> Vec<Rule> {
    controllers
        .iter()
        .flat_map(Descriptor::all_rules)
        .filter_map(|rule| rule.of_informers())
        .collect()
}

/// Lets the user who stands for `identity` do what `rules` say, and nothing else.
fn allow(cluster: &DevCluster, identity: &str, rules: &[Rule]) {
    let name = user_name(identity);
    let group = "rbac.authorization.k8s.io";
    let api_version = format!("{group}/v1");
    let role = json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        // A story may count revisions.
        let is_there = |known: &Value| {
            known["metadata"]["name"] == object["metadata"]["name"]
                && known["rules"] == object["rules"]
        };
        if !cluster.objects(plural).iter().any(is_there) {
            cluster.load(object).unwrap();
        }
    }
}

/// What new controllers are built from.
fn context(clients: &ClientFactory, clock: &Clock) -> ControllerContext {
    let registry = Registry::new();
    ControllerContext::new(ContextParts {
        informers: InformerFactory::new(clients(INFORMERS), Duration::ZERO, &registry).unwrap(),
        clients: Arc::clone(clients),
        clock: clock.clone(),
        queue_metrics: QueueMetrics::register(&registry).unwrap(),
        registry,
    })
}

async fn run(controllers: &[Descriptor], context: &ControllerContext) -> Running {
    let running = Running {
        tasks: Arc::clone(&context.tasks),
        stop: context.stop.clone(),
    };
    for controller in controllers {
        controller.watch(&context.informers);
    }
    let built: Vec<_> = controllers
        .iter()
        .map(|controller| (controller.init)(context).unwrap())
        .collect();
    context.informers.start(&running.tasks, &running.stop);
    assert!(context.informers.wait_synced(&running.stop).await);
    for (controller, descriptor) in built.into_iter().zip(controllers) {
        running
            .tasks
            .spawn(descriptor.name, controller.run(running.stop.clone()));
    }
    running
}

/// The objects of a cluster at one moment.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) deployments: Vec<Value>,
    pub(crate) replica_sets: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) events: Vec<Value>,
}

impl State {
    /// The Deployment called `name`.
    pub(crate) fn deployment(&self, name: &str) -> &Value {
        self.deployments
            .iter()
            .find(|d| d["metadata"]["name"] == name)
            .expect("the story created it")
    }

    /// The ReplicaSets whose template has this image.
    pub(crate) fn with_image<'a>(&'a self, image: &'a str) -> impl Iterator<Item = &'a Value> {
        self.replica_sets
            .iter()
            .filter(move |rs| rs["spec"]["template"]["spec"]["containers"][0]["image"] == image)
    }

    /// The only ReplicaSet whose template has this image.
    pub(crate) fn replica_set<'a>(&'a self, image: &'a str) -> &'a Value {
        let found: Vec<_> = self.with_image(image).collect();
        assert_eq!(found.len(), 1, "ReplicaSets with image {image}: {found:#?}");
        found[0]
    }

    /// Reason and message of the Events about the Deployment `name`, in order of their first
    /// occurrence.
    pub(crate) fn events_about(&self, name: &str) -> Vec<(String, String)> {
        let mut events: Vec<_> = self
            .events
            .iter()
            .filter(|e| e["involvedObject"]["name"] == name)
            .collect();
        events.sort_by_key(|e| {
            e["metadata"]["resourceVersion"]
                .as_str()
                .and_then(|v| v.parse::<u64>().ok())
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|e| (text(&e["reason"]), text(&e["message"])))
            .collect()
    }
}

/// The condition of type `kind` as status and reason.
pub(crate) fn condition_of<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|c| c["type"] == kind)?;
    Some((found["status"].as_str()?, found["reason"].as_str()?))
}
