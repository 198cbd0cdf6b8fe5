//! A cluster on paused time with the loops and a [`FakeCloud`].
//!
//! Each loop sends requests as a user with only its RBAC rules. A test fails at its end if one of
//! these requests was denied.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::requests::RequestRecord;
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext, Descriptor};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::rbac::Rule;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;

use super::cloud::FakeCloud;
use crate::shared::share;

/// Limit for each wait, in paused time.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

const INFORMERS: &str = "shared-informers";
/// Prefix of the names of users with the rules of a loop.
const USERS: &str = "confined:";

fn user_name(identity: &str) -> String {
    format!("{USERS}{identity}")
}

pub(crate) struct World {
    pub(crate) cluster: DevCluster,
    pub(crate) cloud: Arc<FakeCloud>,
    pub(crate) registry: Registry,
    running: Option<(Arc<Tasks>, CancellationToken)>,
}

impl World {
    pub(crate) fn new(cloud: FakeCloud) -> Self {
        let begin = Timestamp::from_second(1_700_000_000).unwrap();
        let cluster = DevCluster::new(Clock::runtime(begin));
        cluster.keep_contents();
        Self {
            cluster,
            cloud: Arc::new(cloud),
            registry: Registry::new(),
            running: None,
        }
    }

    /// The context of a loop with these rights.
    pub(crate) fn context(&self, controllers: &[Descriptor]) -> ControllerContext {
        let watched = controllers.iter().flat_map(Descriptor::all_rules);
        let watched: Vec<Rule> = watched.filter_map(|rule| rule.of_informers()).collect();
        self.cluster.allow(&user_name(INFORMERS), &watched);
        for descriptor in controllers {
            self.cluster
                .allow(&user_name(descriptor.identity), &descriptor.all_rules());
        }
        let cluster = self.cluster.clone();
        let metrics = ClientMetrics::register(&Registry::new()).unwrap();
        let clients: ClientFactory = Arc::new(move |identity: &str| {
            let settings = ClientSettings {
                user_agent: identity.to_owned(),
                qps: 0.0,
                burst: 0,
                timeout: Duration::from_secs(30),
            };
            let user = User::new(user_name(identity), [""; 0]);
            ApiClient::new(cluster.client_as(user), settings, metrics.clone())
        });
        let registry = Registry::new();
        let informers = InformerFactory::new(clients(INFORMERS), Duration::ZERO, &registry);
        let context = ControllerContext::new(ContextParts {
            informers: informers.unwrap(),
            clients,
            clock: self.cluster.clock().clone(),
            queue_metrics: QueueMetrics::register(&registry).unwrap(),
            registry,
        });
        share(&context, Arc::clone(&self.cloud));
        context
    }

    /// Runs this loop with these flags, after stopping the one before.
    pub(crate) async fn start(&mut self, controller: Descriptor, flags: &[(&str, &str)]) {
        self.stop().await;
        let context = self.context(&[controller]);
        let set = |context: ControllerContext, (flag, value): &(&str, &str)| {
            context.with_flag(flag, value)
        };
        let context = flags.iter().fold(context, set);
        self.registry = context.registry.clone();
        let tasks = Arc::clone(&context.tasks);
        let stop = context.stop.clone();
        controller.watch(&context.informers, &context.features, context.release);
        let built = (controller.init)(&context).unwrap();
        context.informers.start(&tasks, &stop);
        assert!(context.informers.wait_synced(&stop).await);
        tasks.spawn(controller.name, built.run(stop.clone()));
        self.running = Some((tasks, stop));
    }

    pub(crate) async fn stop(&mut self) {
        if let Some((tasks, stop)) = self.running.take() {
            stop.cancel();
            tasks.join(Duration::from_secs(60)).await;
        }
    }

    pub(crate) async fn create(&self, object: Value) {
        self.cluster.create(object).await.unwrap();
    }

    /// A node with one range of pod addresses and a `Ready` condition.
    pub(crate) async fn create_node(&self, name: &str, range: &str, ready: &str) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"podCIDR": range, "podCIDRs": [range]},
        }))
        .await;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": ready}],
        }});
        self.patch(&format!("/api/v1/nodes/{name}/status"), status)
            .await;
    }

    pub(crate) async fn patch(&self, path: &str, changes: Value) {
        self.cluster.patch(path, changes).await.unwrap();
    }

    pub(crate) fn object(&self, plural: &str, name: &str) -> Option<Value> {
        let mut objects = self.cluster.objects(plural).into_iter();
        objects.find(|object| object["metadata"]["name"] == name)
    }

    /// Waits until `holds`; fails after an hour of paused time.
    pub(crate) async fn until(&self, expected: &str, holds: impl Fn() -> bool) {
        let limit = tokio::time::Instant::now() + TIME_LIMIT;
        while !holds() {
            assert!(
                tokio::time::Instant::now() < limit,
                "timed out waiting for: {expected}; events {:#?}, calls {:#?}",
                self.events(),
                self.cloud.seen()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Lets the loop work for a while.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// `Normal Reason message`, once per Event, in order of creation.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut events = self.cluster.objects("events");
        let version = |event: &Value| -> u64 {
            event["metadata"]["name"].as_str().map_or(0, |name| {
                u64::from_str_radix(name.rsplit('.').next().unwrap_or_default(), 16).unwrap_or(0)
            })
        };
        events.sort_by_key(version);
        let text = |event: &Value| {
            let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", field("type"), field("reason"), field("message"))
        };
        events.iter().map(text).collect()
    }

    /// The reasons of the Events.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let reason = |event: &String| event.split(' ').nth(1).map(str::to_owned);
        self.events().iter().filter_map(reason).collect()
    }

    /// The writes of the loop without Events: verb, path, and the body as sent.
    pub(crate) fn writes(&self) -> Vec<(String, Value)> {
        let requests = self.cluster.requests();
        let is_write = |verb: &str| matches!(verb, "patch" | "update" | "create" | "delete");
        let written = requests.iter().filter(|request| {
            request.user.starts_with(USERS)
                && is_write(&request.verb)
                && !request.path.contains("/events")
        });
        written
            .map(|request| {
                let path = request.path.split('?').next().unwrap_or_default();
                (format!("{} {path}", request.verb), sent(request))
            })
            .collect()
    }
}

/// The body of a request.
fn sent(request: &RequestRecord) -> Value {
    let content = request.content.as_ref();
    content.map_or(Value::Null, |content| {
        serde_json::from_slice(&content.body).unwrap_or_default()
    })
}

impl Drop for World {
    fn drop(&mut self) {
        let requests = self.cluster.requests().into_iter();
        let denied: Vec<String> = requests
            .filter(|request| request.denied && request.user.starts_with(USERS))
            .map(|request| format!("{} may not {} {}", request.user, request.verb, request.path))
            .collect();
        assert!(
            denied.is_empty() || std::thread::panicking(),
            "a descriptor lacks RBAC rules: {denied:#?}"
        );
    }
}
