//! A DaemonSet with its nodes and pods, without an API server: the decisions of a sync act on the
//! pods at once. Upstream's unit tests use such a cluster too (`fakePodControl`).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_helpers::history::REVISION_LABEL;
use steersman_helpers::scheduling::Comparisons;
use steersman_objects::{DaemonSet, DaemonSetStrategy, Node, Object};
use tokio::time::Instant;

use crate::daemonset::changes::Changes;
use crate::daemonset::failed_pods::FailedPods;
use crate::daemonset::layout::Layout;
use crate::daemonset::manage::Finished;
use crate::daemonset::updated::Current;
use crate::daemonset::{manage, rolling};
use crate::testing::pods::{PodBuilder, pod};
use crate::testing::{DaemonSetBuilder, daemon_set};

/// Creations, deletions and Events of one sync.
pub(super) type Counts = (usize, usize, usize);

pub(super) struct Model {
    pub(super) ds: DaemonSetBuilder,
    /// The label of the current revision.
    pub(super) hash: String,
    pub(super) nodes: Vec<Value>,
    pub(super) pods: Vec<PodBuilder>,
    /// Seconds since the epoch.
    pub(super) now: i64,
    failed_pods: FailedPods,
    created: usize,
}

impl Model {
    /// A DaemonSet of the revision `first`, on a cluster without nodes.
    pub(super) fn new() -> Self {
        Self {
            ds: daemon_set("foo"),
            hash: "first".to_owned(),
            nodes: Vec::new(),
            pods: Vec::new(),
            now: 1000,
            failed_pods: FailedPods::default(),
            created: 0,
        }
    }

    /// A DaemonSet with ready pods on `count` nodes.
    pub(super) fn running(count: usize) -> Self {
        let mut model = Self::new();
        model.add_nodes(0..count, &json!({}));
        assert_eq!(model.sync(), (count, 0, 0));
        model.mark_ready();
        model
    }

    /// Adds the nodes `node-<number>` with these labels.
    pub(super) fn add_nodes(&mut self, numbers: std::ops::Range<usize>, labels: &Value) {
        for number in numbers {
            let name = format!("node-{number}");
            self.nodes
                .push(json!({"metadata": {"name": name, "labels": labels}}));
        }
    }

    /// Adds `count` pods of the current revision, bound to `node`.
    pub(super) fn add_pods(&mut self, node: &str, count: usize) {
        for _ in 0..count {
            let pod = self.new_pod(node).node(node);
            self.pods.push(pod);
        }
    }

    /// A pod of the current revision for `node`. It is not bound.
    pub(super) fn new_pod(&mut self, node: &str) -> PodBuilder {
        self.created += 1;
        let labels = json!({"app": "web", REVISION_LABEL: self.hash});
        let pod = pod(&format!("pod-{}", self.created)).labels(labels);
        pod.target(node).created(self.now)
    }

    /// Changes the template, so that all pods are old.
    pub(super) fn change_template(&mut self, hash: &str) {
        self.hash = hash.to_owned();
    }

    /// Changes the limits of the rolling update.
    pub(super) fn limit(&mut self, max_surge: impl Into<Value>, max_unavailable: impl Into<Value>) {
        self.ds = self.ds.clone().rolling_update(max_surge, max_unavailable);
    }

    /// Makes all pods ready that are not.
    pub(super) fn mark_ready(&mut self) {
        self.set_ready(true, usize::MAX, |_| true);
    }

    /// Changes the readiness of the first `count` pods for which `choose` is true.
    pub(super) fn set_ready(&mut self, ready: bool, count: usize, choose: impl Fn(&Value) -> bool) {
        let now = self.now;
        let is_chosen = |pod: &&mut PodBuilder| is_ready(&pod.0) != ready && choose(&pod.0);
        for pod in self.pods.iter_mut().filter(is_chosen).take(count) {
            let changed = pod.clone();
            *pod = if ready {
                changed.ready_since(now)
            } else {
                changed.not_ready()
            };
        }
    }

    /// The names of the ready pods.
    pub(super) fn ready_pods(&self) -> Vec<String> {
        let ready = self.pods.iter().filter(|pod| is_ready(&pod.0));
        ready.map(|pod| name(&pod.0)).collect()
    }

    /// Decides and acts once, as one sync of upstream does when its writes show at once.
    pub(super) fn sync(&mut self) -> Counts {
        let ds = self.ds.clone().build();
        let current = Current {
            hash: self.hash.clone(),
            generation: None,
        };
        let now = Timestamp::from_second(self.now).unwrap();
        let instant = Instant::now();
        let layout = self.layout(&ds);
        let managed = self.failed_pods.of(&ds, |backoffs| {
            manage::decide(&ds, &layout, &current, backoffs, now, instant)
        });
        self.failed_pods.step(&ds, &managed.backed_off, instant);
        let (mut creations, mut deletions) = self.apply(&managed.changes);
        if matches!(ds.spec.update_strategy, DaemonSetStrategy::RollingUpdate(_)) {
            let changes = rolling::decide(&ds, &self.layout(&ds), &current, now).unwrap();
            let (created, deleted) = self.apply(&changes);
            creations += created;
            deletions += deleted;
        }
        (creations, deletions, managed.finished.len())
    }

    /// Type, reason and message of the Events of the next sync.
    pub(super) fn events(&self) -> Vec<(&'static str, &'static str, String)> {
        let ds = self.ds.clone().build();
        let current = Current::new(&ds, self.hash.clone());
        let now = Timestamp::from_second(self.now).unwrap();
        let managed = self.failed_pods.of(&ds, |backoffs| {
            manage::decide(
                &ds,
                &self.layout(&ds),
                &current,
                backoffs,
                now,
                Instant::now(),
            )
        });
        let events = managed.finished.iter().map(Finished::event);
        let text = events.map(|(kind, reason, message)| (kind.as_str(), reason, message));
        text.collect()
    }

    fn layout(&self, ds: &DaemonSet) -> Layout {
        let decode = |node: &Value| Arc::new(Node::decode(node.to_string().as_bytes()).unwrap());
        let nodes = self.nodes.iter().map(decode).collect();
        let pods: Vec<_> = self
            .pods
            .iter()
            .map(|pod| Arc::new(pod.clone().build()))
            .collect();
        Layout::new(&ds.spec.constraints, Comparisons::Disabled, nodes, &pods)
    }

    fn apply(&mut self, changes: &Changes) -> (usize, usize) {
        for pod in &changes.delete {
            let before = self.pods.len();
            self.pods.retain(|other| name(&other.0) != *pod.meta.name);
            assert_eq!(
                self.pods.len(),
                before - 1,
                "{} is deleted once",
                pod.meta.name
            );
        }
        for node in &changes.create {
            let pod = self.new_pod(node);
            self.pods.push(pod);
        }
        (changes.create.len(), changes.delete.len())
    }
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}
