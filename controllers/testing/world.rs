//! A whole cluster for tests: in-memory API server, simulated nodes and the controllers under test,
//! on paused time.
//!
//! Each controller, and the shared informers, send requests as a user with only the RBAC rules of
//! the descriptors. A test fails at its end if one of these requests was denied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use prometheus::Registry;
use serde_json::Value;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_devcluster::auth::User;
use steersman_devcluster::faults::{self, Matcher, RuleId};
use steersman_devcluster::nodes::{self, NodesConfig};
use steersman_devcluster::{Admission, DevCluster, Snapshot};
use steersman_options::features::FeatureGates;
use steersman_releases::Release;
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext, Descriptor};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::rbac::Rule;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;
use steersman_values::version::GIT_VERSION;
use tower::Service;

use super::{NAMESPACE, rights};

/// Start time of a test, in seconds since the epoch.
const BEGIN: i64 = 1_700_000_000;

/// Start time of a test.
pub(crate) fn begin() -> Timestamp {
    Timestamp::from_second(BEGIN).expect("the number is in the range of times")
}

/// Limit for each wait, in paused time.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

/// Time without writes after which a cluster counts as at rest. It is longer than any latency of
/// the simulated nodes.
const QUIET: Duration = Duration::from_secs(10);

/// The cluster of one test.
pub(crate) struct World {
    /// The API server.
    pub(crate) cluster: DevCluster,
    /// Informers of the running controllers. A test may add handlers to record changes.
    pub(crate) informers: InformerFactory,
    /// Metrics of the running controllers.
    pub(crate) registry: Registry,
    /// Clients by identity. Unknown identities, such as `tester`, may do everything.
    pub(crate) clients: ClientFactory,
    /// The paused clock of cluster and controllers.
    pub(crate) clock: Clock,
    /// The cluster that the clients reach; [`World::restore`] replaces it.
    current: CurrentCluster,
    /// The release that the controllers equal.
    release: Release,
    controllers: Running,
    nodes: Running,
    /// Metrics of all clients.
    requests: Registry,
    /// The violations of invariants that the test expects.
    expected: Mutex<Vec<String>>,
}

/// Running tasks and the token that stops them.
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
    /// A cluster with simulated nodes and these controllers.
    pub(crate) async fn with(controllers: &[Descriptor]) -> Self {
        Self::bare().await.run(controllers).await
    }

    /// The same with an API server that tells the versions of deletions, as since 1.38.
    pub(crate) async fn with_deletion_versions(controllers: &[Descriptor]) -> Self {
        let builder = DevCluster::builder().clock(Clock::runtime(begin()));
        let cluster = builder.managed_fields(false).deletion_versions().start();
        Self::on(cluster.await.unwrap()).run(controllers).await
    }

    /// Starts simulated nodes and these controllers.
    async fn run(mut self, controllers: &[Descriptor]) -> Self {
        let Running { tasks, stop } = &self.nodes;
        let client = (self.clients)("simulated-nodes");
        let config = NodesConfig {
            binds_claims: !controllers.iter().any(|known| known.name == nodes::BINDER),
            ..NodesConfig::default()
        };
        nodes::start(config, client, self.clock.clone(), tasks, stop)
            .await
            .unwrap();
        self.restart(controllers).await;
        self
    }

    /// A cluster without nodes and controllers.
    pub(crate) async fn bare() -> Self {
        Self::bare_at(begin()).await
    }

    /// The same, with another start time.
    pub(crate) async fn bare_at(begin: Timestamp) -> Self {
        Self::on(DevCluster::new(Clock::runtime(begin)))
    }

    /// A bare cluster with these admission plugins.
    pub(crate) async fn with_admission(admission: Admission) -> Self {
        let builder = DevCluster::builder().clock(Clock::runtime(begin()));
        let cluster = builder.managed_fields(false).admission(admission).start();
        Self::on(cluster.await.unwrap())
    }

    /// A bare cluster that keeps the bodies of requests, and managed fields.
    pub(crate) async fn recorded() -> Self {
        let cluster = DevCluster::with_managed_fields(Clock::runtime(begin()));
        cluster.keep_contents();
        Self::on(cluster)
    }

    /// The same for this release. Its controllers equal the release, too.
    pub(crate) async fn recorded_of(release: Release) -> Self {
        let builder = DevCluster::builder().clock(Clock::runtime(begin()));
        let started = builder.release(release).metrics(false).start().await;
        let cluster = started.unwrap();
        cluster.keep_contents();
        let mut world = Self::on(cluster);
        world.release = release;
        world
    }

    fn on(cluster: DevCluster) -> Self {
        super::log::see_all();
        let clock = cluster.clock().clone();
        let requests = Registry::new();
        let metrics = ClientMetrics::register(&requests).unwrap();
        let current = CurrentCluster(Arc::new(Mutex::new(cluster.clone())));
        let users = current.clone();
        for descriptor in crate::ALL {
            // Controllers may share an identity, which then has the rules of all of them.
            let sharing = crate::ALL
                .iter()
                .filter(|d| d.identity == descriptor.identity);
            let rules: Vec<Rule> = sharing.flat_map(Descriptor::all_rules).collect();
            cluster.allow(&user_name(descriptor.identity), &rules);
        }
        cluster.allow(&user_name(INFORMERS), &watched_by(crate::ALL));
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
                "kube-controller-manager/{GIT_VERSION} (linux/amd64) kubernetes/0000000/{identity}"
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
        let informers = context.informers;
        let registry = context.registry;
        let [controllers, nodes] = [(); 2].map(|()| Running::default());
        Self {
            cluster,
            informers,
            registry,
            clients,
            clock,
            current,
            release: Release::DEFAULT,
            controllers,
            nodes,
            requests,
            expected: Mutex::default(),
        }
    }

    /// A context for one more controller, beside the running ones.
    pub(crate) fn context(&self) -> ControllerContext {
        let mut context = context(&self.clients, &self.clock);
        context.release = self.release;
        context.features = FeatureGates::new(|gate| self.release.enables(gate));
        context
    }

    /// Stops all controllers and starts these, with new caches and queues.
    pub(crate) async fn restart(&mut self, controllers: &[Descriptor]) {
        self.restart_with(controllers, |context| context).await;
    }

    /// The same, with a changed context.
    pub(crate) async fn restart_with(
        &mut self,
        controllers: &[Descriptor],
        configure: impl Fn(ControllerContext) -> ControllerContext,
    ) {
        self.controllers.stop.cancel();
        self.controllers.tasks.join(Duration::from_secs(60)).await;
        self.cluster
            .allow(&user_name(INFORMERS), &watched_by(controllers));
        let context = configure(self.context());
        self.informers = context.informers.clone();
        self.registry = context.registry.clone();
        self.controllers = run(controllers, &context).await;
    }

    /// Stops all controllers and starts these as a new leader. Its cache of `plural` stays at
    /// `revision` until the test removes the returned rule.
    pub(crate) async fn take_over_behind(
        &mut self,
        controllers: &[Descriptor],
        plural: &str,
        revision: u64,
    ) -> RuleId {
        let term_start_rv = self.cluster.revision();
        let view = self.hold(plural, revision);
        self.restart_with(controllers, |mut context| {
            context.term_start_rv = term_start_rv;
            context
        })
        .await;
        view
    }

    /// Caches of `plural` stay at `revision` until the test removes the returned rule.
    pub(crate) fn hold(&self, plural: &str, revision: u64) -> RuleId {
        let objects = Matcher {
            resource: Some(plural.to_owned()),
            ..Matcher::default()
        };
        self.cluster.faults().hold_view(objects, revision)
    }

    /// Restores the cluster from a snapshot, including its revisions, as an etcd restore does.
    ///
    /// All watches end. The next watch of each type gets the status 410 (Expired).
    pub(crate) fn restore(&mut self, backup: &Snapshot) {
        self.check_rights();
        let lost = std::mem::replace(&mut self.cluster, backup.fork());
        *self.current.cluster() = self.cluster.clone();
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

    /// Sends a merge patch; `name` may end in `/status`.
    pub(crate) async fn patch(&self, plural: &str, name: &str, changes: Value) -> Value {
        self.cluster
            .patch(&self.cluster.path(plural, NAMESPACE, name), changes)
            .await
            .unwrap()
    }

    /// Deletes an object with the default policy and grace period.
    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        self.cluster
            .delete(&self.cluster.path(plural, NAMESPACE, name))
            .await
            .unwrap();
    }

    /// The current objects.
    pub(crate) fn state(&self) -> State {
        State {
            deployments: self.cluster.objects("deployments"),
            replica_sets: self.cluster.objects("replicasets"),
            pods: self.cluster.objects("pods"),
            events: self.cluster.objects("events"),
        }
    }

    /// Waits until `holds` is true, and returns the state then. `expected` describes it for the
    /// panic after [`TIME_LIMIT`].
    pub(crate) async fn until(&self, expected: &str, holds: impl Fn(&State) -> bool) -> State {
        let limit = tokio::time::Instant::now() + TIME_LIMIT;
        loop {
            let state = self.state();
            if holds(&state) {
                return state;
            }
            assert!(
                tokio::time::Instant::now() < limit,
                "timed out waiting for: {expected}: {state:#?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until no controller has written for [`QUIET`], and returns the state then.
    pub(crate) async fn at_rest(&self) -> State {
        let limit = tokio::time::Instant::now() + TIME_LIMIT;
        loop {
            let before = self.writes().len();
            tokio::time::sleep(QUIET).await;
            if self.writes().len() == before {
                return self.state();
            }
            assert!(
                tokio::time::Instant::now() < limit,
                "the controllers do not stop writing: {:#?}",
                self.writes()
            );
        }
    }

    /// The requests of the client `identity` so far: verb, path and status code.
    pub(crate) fn requests_of(&self, identity: &str) -> Vec<String> {
        let agent = format!("/{identity}");
        let requests = self.cluster.requests();
        let own = requests.iter().filter(|r| r.user_agent.ends_with(&agent));
        own.map(|r| format!("{} {} {}", r.verb, r.path, r.status))
            .collect()
    }

    /// Waits for retries and timers of a minute.
    pub(crate) async fn a_minute(&self) {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    /// The writes of the controllers so far, without Events: verb, path and status code.
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

impl World {
    /// The writes of the client `identity` so far: verb, path and status code.
    pub(crate) fn writes_by(&self, identity: &str) -> Vec<String> {
        let user = user_name(identity);
        let requests = self.cluster.requests();
        let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
        let writes = requests
            .iter()
            .filter(|r| r.user == user && is_write(&r.verb));
        writes
            .map(|r| format!("{} {} {}", r.verb, r.path, r.status))
            .collect()
    }
}

/// The current cluster of a [`World`], shared with all clients.
#[derive(Clone)]
struct CurrentCluster(Arc<Mutex<DevCluster>>);

impl CurrentCluster {
    fn cluster(&self) -> MutexGuard<'_, DevCluster> {
        self.0.lock()
    }

    fn client_as(&self, user: User) -> kube::Client {
        let current = self.clone();
        let serve = move |request| current.cluster().service_as(user.clone()).call(request);
        kube::Client::new(tower::service_fn(serve), "default")
    }
}

impl World {
    /// Empties the log of requests, after a check of the rights that they needed.
    pub(crate) fn clear_requests(&self) {
        self.check_rights();
        self.cluster.clear_requests();
    }

    /// Records the rights that the logged requests needed. Panics if one was refused.
    fn check_rights(&self) {
        let requests = self.cluster.requests();
        let confined = requests
            .iter()
            .filter_map(|r| Some((r.user.strip_prefix(USERS)?, r)));
        rights::record(confined.clone());
        let denied: Vec<_> = confined
            .filter(|(_, r)| r.denied)
            .map(|(_, r)| format!("{} may not {} {}", r.user, r.verb, r.path))
            .collect();
        assert!(
            denied.is_empty() || std::thread::panicking(),
            "a descriptor lacks RBAC rules: {denied:#?}"
        );
    }
}

impl World {
    /// The violations of invariants so far: client, invariant and number. The test expects no others.
    pub(crate) fn expect_violations(&self) -> Vec<String> {
        let found = self.violations();
        self.expected.lock().clone_from(&found);
        found
    }

    fn violations(&self) -> Vec<String> {
        let families = self.requests.gather();
        let mut families = families.iter();
        let family = families.find(|f| f.name() == "steersman_invariant_violations_total");
        let series = family.into_iter().flat_map(|family| family.get_metric());
        series
            .filter(|series| series.get_counter().get_value() > 0.0)
            .map(|series| {
                let labels = series.get_label().iter().map(|label| label.value());
                let labels: Vec<_> = labels.collect();
                format!("{} {}", labels.join(" "), series.get_counter().get_value())
            })
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.check_rights();
        let found = self.violations();
        let expected = self.expected.lock().clone();
        assert!(
            found == expected || std::thread::panicking(),
            "right decisions broke invariants: {found:?}"
        );
    }
}

/// Prefix of the user names of controllers.
const USERS: &str = "confined:";

/// The identity of the shared informers.
const INFORMERS: &str = "shared-informers";

fn user_name(identity: &str) -> String {
    format!("{USERS}{identity}")
}

/// The RBAC rules of the shared informers for these controllers.
fn watched_by(controllers: &[Descriptor]) -> Vec<Rule> {
    controllers
        .iter()
        .flat_map(Descriptor::all_rules)
        .filter_map(|rule| rule.of_informers())
        .collect()
}

/// A context with its own informers and metrics.
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

/// Builds and starts controllers in the order of the manager: watches, constructors, informers,
/// tasks.
async fn run(controllers: &[Descriptor], context: &ControllerContext) -> Running {
    let running = Running {
        tasks: Arc::clone(&context.tasks),
        stop: context.stop.clone(),
    };
    for controller in controllers {
        controller.watch(&context.informers, &context.features, context.release);
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
    /// The Deployment `name`.
    pub(crate) fn deployment(&self, name: &str) -> &Value {
        self.deployments
            .iter()
            .find(|d| d["metadata"]["name"] == name)
            .expect("the test created the Deployment")
    }

    /// The ReplicaSets with this image in their template.
    pub(crate) fn with_image<'a>(&'a self, image: &'a str) -> impl Iterator<Item = &'a Value> {
        self.replica_sets
            .iter()
            .filter(move |rs| rs["spec"]["template"]["spec"]["containers"][0]["image"] == image)
    }

    /// The only ReplicaSet with this image in its template.
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
