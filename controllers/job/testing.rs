//! Builders of Jobs and their pods, and single syncs of a Job.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};
use steersman_objects::{JOB_TRACKING, Job, ObjectKey, Pod};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::Requeue;

use super::pods::JobPod;
use super::sync::SyncError;
use super::{DESCRIPTOR, Parts, parts};
use crate::testing::builder::Builder;
use crate::testing::pods::{PodBuilder, pod};
use crate::testing::world::World;
use crate::testing::{NAMESPACE, time};

pub(crate) type JobBuilder = Builder<Job>;

/// The label that selects the pods of a Job.
pub(super) const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// A Job with one completion, parallelism 1 and back-off limit 6.
pub(crate) fn job(name: &str) -> JobBuilder {
    let uid = format!("uid-of-{name}");
    let template = json!({
        "metadata": {"labels": {UID_LABEL: uid}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
    });
    Builder::new(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": "1", "generation": 1,
            "creationTimestamp": time(0),
        },
        "spec": {
            "parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template,
            "selector": {"matchLabels": {UID_LABEL: uid}},
        },
        "status": {},
    }))
}

impl JobBuilder {
    /// Makes it an Indexed Job with this number of completions.
    pub(crate) fn indexed(self, completions: i32) -> Self {
        self.spec("completionMode", "Indexed")
            .spec("completions", completions)
            .spec("parallelism", completions)
    }
}

/// A resource version that no cache of a test reaches.
const LATER: u64 = 1_000_000_000;

impl World {
    /// Starts the controller as a new leader. Its caches stay older than its term.
    pub(in crate::job) async fn new_leader(&mut self) {
        let term = |mut context: ControllerContext| {
            context.term_start_rv = LATER;
            context
        };
        self.restart_with(&[DESCRIPTOR], term).await;
    }

    /// The paths that the controller read from the API server with this verb.
    pub(in crate::job) fn live_reads(&self, verb: &str) -> Vec<String> {
        let reads = self.cluster.requests().into_iter().filter(|request| {
            request.verb == verb && request.user_agent.ends_with("job-controller")
        });
        reads.map(|request| request.path).collect()
    }
}

/// A running pod of the Job `web`, with the tracking finalizer.
pub(crate) fn pod_of_web(name: &str) -> PodBuilder {
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "uid-of-web",
        "controller": true, "blockOwnerDeletion": true,
    });
    pod(name)
        .labels(json!({UID_LABEL: "uid-of-web"}))
        .metadata("ownerReferences", json!([owner]))
        .metadata("finalizers", json!([JOB_TRACKING]))
}

impl PodBuilder {
    /// Sets the annotation with the completion index.
    pub(crate) fn index(mut self, index: &str) -> Self {
        self.0["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] =
            json!(index);
        self
    }

    /// Sets the annotation with the failures of the index before this pod.
    pub(crate) fn index_failures(mut self, failures: &str) -> Self {
        self.0["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] =
            json!(failures);
        self
    }

    /// The pod as a sync sees it.
    pub(in crate::job) fn of_job(self) -> JobPod {
        let pod = self.build();
        JobPod {
            has_finalizer: pod.has_job_tracking,
            is_tracked: pod.has_job_tracking,
            pod: Arc::new(pod),
        }
    }
}

/// `object` with the fields of `changes`.
pub(super) fn merge(object: &mut Value, changes: &Value) {
    match changes {
        Value::Object(fields) if object.is_object() => {
            for (name, value) in fields {
                merge(&mut object[name], value);
            }
        }
        _ => *object = changes.clone(),
    }
}

/// Replaces each text `@<seconds>` in `value` by the time that many seconds after `now`.
pub(super) fn set_times(value: &mut Value, now: Timestamp) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| set_times(field, now)),
        Value::Array(items) => items.iter_mut().for_each(|item| set_times(item, now)),
        Value::String(text) => {
            let offset = text
                .strip_prefix('@')
                .and_then(|offset| offset.parse::<f64>().ok());
            if let Some(offset) = offset {
                *text = (now + jiff::SignedDuration::from_secs_f64(offset)).to_string();
            }
        }
        _ => {}
    }
}

/// Stores objects as they are, except that pods get the defaults of the API server. An update of a
/// pod without them would be invalid.
pub(super) async fn load(world: &World, objects: impl IntoIterator<Item = Value>) {
    let mut sample = pod_of_web("sample")
        .metadata("ownerReferences", json!([]))
        .0;
    sample["metadata"] = json!({"name": "sample"});
    sample["spec"]["restartPolicy"] = json!("Never");
    let defaulted = world.create(sample).await["spec"].take();
    world.kill("sample").await;
    for mut object in objects {
        if object["kind"] == "Pod" {
            let served = std::mem::replace(&mut object["spec"], defaulted.clone());
            for (field, value) in served.as_object().unwrap() {
                if field != "containers" {
                    object["spec"][field] = value.clone();
                }
            }
        }
        world.cluster.load(object).unwrap();
    }
}

/// The bodies of the requests of the controller with this verb and resource, in order. The world
/// records contents.
pub(super) fn sent(world: &World, verb: &str, resource: &str) -> Vec<Value> {
    let requests = world.cluster.requests();
    let sent = requests.into_iter().filter(|request| {
        request.verb == verb
            && request.resource == resource
            && request.user_agent.ends_with("job-controller")
    });
    sent.map(|request| {
        let content = request.content.expect("the world records contents");
        serde_json::from_slice(&content.body).unwrap_or_default()
    })
    .collect()
}

/// A cluster with one Job and its pods. Syncs run only when the test asks for them.
pub(super) struct OneSync {
    pub(super) world: World,
    pub(super) parts: Parts,
    pub(super) jobs: Store<Job>,
    pub(super) pods: Store<Pod>,
    pub(super) key: ObjectKey,
    context: ControllerContext,
    _tasks: Tasks,
}

impl OneSync {
    /// Stores the objects as they are, and fills the caches.
    pub(super) async fn of(job: Value, pods: Vec<Value>) -> Self {
        Self::in_term(0, job, pods).await
    }

    /// The same for a new leader. Its caches stay older than its term.
    pub(super) async fn of_new_leader(job: Value, pods: Vec<Value>) -> Self {
        Self::in_term(LATER, job, pods).await
    }

    async fn in_term(term_start_rv: u64, job: Value, pods: Vec<Value>) -> Self {
        let world = World::recorded().await;
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        load(&world, pods.into_iter().chain([job])).await;
        let mut context = world.context();
        context.term_start_rv = term_start_rv;
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        DESCRIPTOR.watch(&context.informers, &context.features, context.release);
        let parts = parts(&context).unwrap();
        context.informers.start(&tasks, &stop);
        assert!(context.informers.wait_synced(&stop).await);
        Self {
            jobs: parts.keyed.objects().store(),
            pods: context.informers.shared::<Pod>().store(),
            key: ObjectKey::new(NAMESPACE, &name),
            world,
            parts,
            context,
            _tasks: tasks,
        }
    }

    /// The metrics of the controller.
    pub(super) fn registry(&self) -> &prometheus::Registry {
        &self.context.registry
    }

    /// Runs one sync of the Job.
    pub(super) async fn sync(&self) -> Result<Requeue, SyncError> {
        let job = self.jobs.get(&self.key).expect("the test stored the Job");
        self.parts.syncer.sync(&self.key, job).await
    }

    /// Makes all requests fail that have this verb and resource, such as `jobs/status`.
    pub(super) fn reject(&self, verb: &str, resource: &str) {
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let matcher = Matcher::new(verb, plural).subresource(subresource);
        let faults = self.world.cluster.faults();
        faults.reject(matcher, faults::internal_error(), None);
    }

    /// The bodies of the requests of the controller with this verb and resource, in order.
    pub(super) fn sent(&self, verb: &str, resource: &str) -> Vec<Value> {
        sent(&self.world, verb, resource)
    }

    /// The stored status of the Job.
    pub(super) fn status(&self) -> Value {
        self.world.find("jobs", &self.key.name).unwrap()["status"].take()
    }
}
