//! The cluster of one story.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_controllers::why::ask;
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::nodes::NodesConfig;
use steersman_devcluster::status::Status;
use steersman_devcluster::{Admission, DevCluster, manifests};
use steersman_options::features;
use steersman_runtime::controller::{
    ClientFactory, ContextParts, ControllerContext, DebugPages, Descriptor,
};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;
use steersman_why::{
    ClientReader, Dependent, Inside, KeyState, ManagerState, Question, Reason, Report,
};

use crate::{Run, Step, Story};

/// Start of each story.
const BEGIN: &str = "2026-11-28T12:00:00Z";
/// Seed of names and latencies, so that the documentation shows the same names each time.
const SEED: u64 = 44;
/// Wait after the last step, so that controllers and nodes have acted.
const SETTLE: Duration = Duration::from_secs(90);

/// A story cannot be staged.
#[derive(Debug)]
pub struct StageError(pub String);

impl<E: std::error::Error> From<E> for StageError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A cluster in the state of a story.
pub struct Stage {
    cluster: DevCluster,
    clients: ClientFactory,
    inside: Arc<dyn Inside>,
    stop: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    /// Brings a cluster into the state of `story`. Needs a Tokio runtime with paused time.
    pub async fn of(story: &Story) -> Result<Self, StageError> {
        let begin: Timestamp = BEGIN.parse()?;
        let runs = story.run != Run::Nothing;
        let nodes = NodesConfig {
            count: if runs { 2 } else { 0 },
            binds_claims: false,
            attaches_volumes: true,
            events: true,
            ..NodesConfig::default()
        };
        let admission = Admission {
            service_accounts: runs,
            default_accounts: false,
            root_ca: false,
            priority: true,
            tolerations: true,
            node_taints: false,
            quota_controller: runs,
            protected_claims: true,
            protected_volumes: true,
            protected_classes: false,
        };
        let cluster = DevCluster::builder()
            .clock(Clock::runtime(begin))
            .seed(SEED)
            .admission(admission)
            .simulated_nodes(nodes)
            .start()
            .await?;
        let clients = clients(&cluster)?;
        let stop = CancellationToken::new();
        let inside = manage(&cluster, &clients, story.run, &stop).await?;
        let stage = Self {
            cluster,
            clients,
            inside,
            stop,
        };
        if runs {
            // The controllers make the accounts of namespaces first.
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        for step in story.steps {
            stage.step(*step).await?;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(stage)
    }

    async fn step(&self, step: Step) -> Result<(), StageError> {
        let cluster = &self.cluster;
        let failed = |status: Status| StageError(status.to_value().to_string());
        match step {
            Step::Apply(text) => {
                for manifest in manifests::parse(Path::new("story"), text)? {
                    manifest.apply(cluster).await?;
                }
            }
            Step::Load(text) => {
                for object in documents(text)? {
                    cluster.load(object).map_err(failed)?;
                }
            }
            Step::Wait(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Step::Delete(plural, namespace, name) => {
                let path = cluster.path(plural, namespace, name);
                cluster.delete(&path).await.map_err(failed)?;
            }
            Step::DeleteForeground(plural, namespace, name) => {
                let options = json!({"propagationPolicy": "Foreground"});
                let path = cluster.path(plural, namespace, name);
                cluster.delete_with(&path, options).await.map_err(failed)?;
            }
            Step::Patch(plural, namespace, name, patch) => {
                let patch = serde_json::from_str(patch)?;
                let path = cluster.path(plural, namespace, name);
                cluster.patch(&path, patch).await.map_err(failed)?;
            }
            Step::Reject(verb, plural, code, reason, message) => {
                let status = Status::new(code, reason, message);
                let fault = RequestFault::Reject(status);
                cluster
                    .faults()
                    .on_request(Matcher::new(verb, plural), fault, None);
            }
            Step::Hide(group) => cluster.faults().hide_from_discovery(group),
        }
        Ok(())
    }

    /// The answer about the object of `story`, of the leader or from API objects alone.
    pub async fn ask(&self, story: &Story, with_leader: bool) -> Result<Report, StageError> {
        let (kind, name) = story.about;
        let question = Question::object(kind, "default", name);
        self.answer(story, with_leader, &question).await
    }

    /// The list of all objects of `namespace` that stand still, of the leader or from API objects alone. An empty
    /// namespace means the whole cluster.
    pub async fn list(
        &self,
        story: &Story,
        namespace: &str,
        with_leader: bool,
    ) -> Result<Report, StageError> {
        let namespace = namespace.to_owned();
        let question = Question::All { namespace };
        self.answer(story, with_leader, &question).await
    }

    async fn answer(
        &self,
        story: &Story,
        with_leader: bool,
        question: &Question,
    ) -> Result<Report, StageError> {
        // Without controllers there is no manager to ask.
        let has_leader = with_leader && story.run != Run::Nothing;
        let inside = has_leader.then(|| Arc::clone(&self.inside));
        let reader = ClientReader::new((self.clients)("why"));
        Ok(ask(&reader, self.cluster.clock().now(), inside, question).await?)
    }

    /// The texts that `kubectl describe` shows of the object: its status and the Events about it.
    pub fn described(&self, story: &Story, report: &Report) -> String {
        let Some(object) = report.answers.first().map(|answer| &answer.object) else {
            return String::new();
        };
        let of_object = |found: &&Value| {
            found["kind"] == *object.kind && found["metadata"]["name"] == *story.about.1
        };
        let plurals = [
            "deployments",
            "statefulsets",
            "daemonsets",
            "replicasets",
            "jobs",
            "cronjobs",
            "pods",
            "namespaces",
            "services",
            "persistentvolumeclaims",
            "persistentvolumes",
            "horizontalpodautoscalers",
            "poddisruptionbudgets",
            "configmaps",
            "nodes",
            "httproutes",
        ];
        let objects = plurals
            .iter()
            .flat_map(|plural| self.cluster.objects(plural))
            .collect::<Vec<_>>();
        let status = objects.iter().find(of_object).map(|found| {
            found["status"].to_string() + &found["metadata"]["finalizers"].to_string()
        });
        let events = self.cluster.objects("events");
        let about = events.iter().filter(|event| {
            event["involvedObject"]["kind"] == *object.kind
                && event["involvedObject"]["name"] == *story.about.1
        });
        let events: Vec<&str> = about
            .filter_map(|event| event["message"].as_str())
            .collect();
        status.unwrap_or_default() + &events.join("\n")
    }
}

/// The JSON documents of a text, one a paragraph.
fn documents(text: &str) -> Result<Vec<Value>, StageError> {
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| Ok(serde_json::from_str(part)?)).collect()
}

fn clients(cluster: &DevCluster) -> Result<ClientFactory, StageError> {
    let metrics = ClientMetrics::register(&Registry::new())?;
    let service = cluster.client();
    Ok(Arc::new(move |identity: &str| {
        let settings = ClientSettings {
            user_agent: user_agent(identity),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(30),
        };
        ApiClient::new(service.clone(), settings, metrics.clone())
    }))
}

/// Runs the controllers as a manager does, and returns the manager's knowledge.
async fn manage(
    cluster: &DevCluster,
    clients: &ClientFactory,
    run: Run,
    stop: &CancellationToken,
) -> Result<Arc<dyn Inside>, StageError> {
    let registry = Registry::new();
    let informers = InformerFactory::new(clients("shared-informers"), Duration::ZERO, &registry)?;
    let queues = QueueMetrics::register(&registry)?;
    let mut context = ControllerContext::new(ContextParts {
        informers: informers.clone(),
        clients: Arc::clone(clients),
        clock: cluster.clock().clone(),
        registry,
        queue_metrics: queues.clone(),
    });
    context.stop = stop.clone();
    context.credentials = cluster.credentials();
    let is_wanted = |descriptor: &&Descriptor| match run {
        Run::All => true,
        Run::Without(other) => descriptor.name != other,
        Run::Nothing => false,
    };
    let table = steersman_controllers::ALL
        .iter()
        .filter(|descriptor| descriptor.enabled_by_default);
    let (wanted, others): (Vec<&Descriptor>, Vec<&Descriptor>) = table.partition(is_wanted);
    let tasks = Tasks::default();
    let mut built = Vec::new();
    for descriptor in &wanted {
        descriptor.watch(&informers, &context.features, context.release);
        built.push((descriptor.name, (descriptor.init)(&context)?));
    }
    informers.start(&tasks, stop);
    informers.wait_synced(stop).await;
    for (name, controller) in built {
        tasks.spawn(name, controller.run(stop.clone()));
    }
    let off = if run == Run::Nothing {
        Vec::new()
    } else {
        others
    };
    Ok(Arc::new(Manager {
        queues,
        debug: context.debug.clone(),
        off: off
            .iter()
            .map(|descriptor| descriptor.name.to_owned())
            .collect(),
        _tasks: (tasks, context),
    }))
}

struct Manager {
    queues: QueueMetrics,
    debug: DebugPages,
    off: Vec<String>,
    _tasks: (Tasks, ControllerContext),
}

impl Inside for Manager {
    fn keys(&self, controller: &str, key: &str) -> Vec<KeyState> {
        self.queues.keys(controller, key)
    }

    fn manager(&self) -> ManagerState {
        ManagerState {
            identity: "leader".to_owned(),
            switched_off: self.off.clone(),
            ..ManagerState::default()
        }
    }

    fn enables(&self, gate: &str) -> bool {
        let mut read = features::ALL.iter();
        read.find(|known| known.name == gate)
            .is_some_and(|gate| gate.default)
    }

    fn memory(&self, controller: &str, key: &str, now: Timestamp) -> Vec<Reason> {
        self.debug.memory(controller, key, now)
    }

    fn blocking_dependents(&self, uid: &str) -> Vec<Dependent> {
        self.debug.dependents(uid)
    }
}
