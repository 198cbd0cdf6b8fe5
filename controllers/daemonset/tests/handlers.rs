//! Upstream's tests of the handlers: which DaemonSets and nodes a change enqueues.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_objects::{ControllerRevision, DaemonSet, Node, Object, ObjectKey, Pod};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::WorkQueue;

use crate::daemonset::handlers::Handlers;
use crate::testing::NAMESPACE;
use crate::testing::pods::pod;
use crate::testing::world::World;

/// Handlers with a cache of DaemonSets, all of which select the label `app: web`.
struct Fixture {
    handlers: Handlers,
    control: PodControl,
    _tasks: Tasks,
}

impl Fixture {
    async fn new(names: &[&str]) -> Self {
        let world = World::bare().await;
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        for name in names {
            let labels = json!({"app": "web"});
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
            let spec = json!({"selector": {"matchLabels": labels}, "template": template});
            world
                .create(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}))
                .await;
        }
        let context = world.context();
        let mut keyed = Keyed::<DaemonSet>::new(&context, "test", "test");
        let pods = context.informers.shared::<Pod>();
        let client = context.client("test");
        let recorder = context.recorder("test", client.clone());
        let control = PodControl::new(&mut keyed, &pods, client, recorder);
        context.informers.start(&tasks, &stop);
        assert!(context.informers.wait_synced(&stop).await);
        Self {
            handlers: Handlers {
                daemon_sets: keyed.objects().store(),
                queue: keyed.queue(),
                node_queue: WorkQueue::new("test-nodes", &context.queue_metrics),
                control: control.clone(),
            },
            control,
            _tasks: tasks,
        }
    }

    fn daemon_set(&self, name: &str) -> Arc<DaemonSet> {
        self.handlers.daemon_sets.get(&key(name)).unwrap()
    }

    /// The controller reference to a DaemonSet.
    fn references(&self, owner: Option<&str>) -> Value {
        let reference = owner.map(|name| {
            let uid = self.daemon_set(name).meta.uid.to_string();
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": true})
        });
        json!(reference.into_iter().collect::<Vec<_>>())
    }

    /// A pod with the label `app: <label>` and this owner.
    fn pod(&self, owner: Option<&str>, label: &str, version: u32) -> Arc<Pod> {
        let pod = pod("pod").labels(json!({ "app": label }));
        let pod = pod.metadata("ownerReferences", self.references(owner));
        Arc::new(pod.metadata("resourceVersion", version.to_string()).build())
    }

    fn revision(&self, owner: Option<&str>, label: &str, version: u32) -> Arc<ControllerRevision> {
        let metadata = json!({
            "name": "revision", "namespace": NAMESPACE, "uid": "r", "labels": {"app": label},
            "ownerReferences": self.references(owner), "resourceVersion": version.to_string(),
        });
        let json = json!({"metadata": metadata, "revision": 1, "data": {}});
        Arc::new(ControllerRevision::decode(json.to_string().as_bytes()).unwrap())
    }

    async fn queued(&self) -> Vec<String> {
        names(&self.handlers.queue).await
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(NAMESPACE, name)
}

/// Takes all keys from the queue, and returns their names in alphabetical order.
async fn names(queue: &WorkQueue<ObjectKey>) -> Vec<String> {
    let mut names = Vec::new();
    while !queue.is_empty() {
        names.push(queue.get().await.unwrap().key.name.to_string());
    }
    names.sort();
    names
}

fn added<T>(object: &Arc<T>) -> Change<'_, T> {
    Change::Added {
        object,
        initial: false,
    }
}

fn deleted<T>(object: &Arc<T>) -> Change<'_, T> {
    Change::Deleted {
        object,
        final_state_unknown: false,
    }
}

/// `TestAddPod`, `TestAddPodOrphan`, `TestDeletePod` and `TestDeletePodOrphan`.
#[tokio::test(start_paused = true)]
async fn added_and_deleted_pods() {
    let fixture = Fixture::new(&["foo1", "foo2"]).await;
    // (owner, label, queued when added, queued when deleted)
    let cases: [(Option<&str>, &str, &[&str], &[&str]); 4] = [
        (Some("foo1"), "web", &["foo1"], &["foo1"]),
        (Some("foo2"), "web", &["foo2"], &["foo2"]),
        (None, "web", &["foo1", "foo2"], &[]),
        (None, "other", &[], &[]),
    ];
    for (owner, label, when_added, when_deleted) in cases {
        let pod = fixture.pod(owner, label, 1);
        fixture.handlers.pod_changed(&added(&pod));
        assert_eq!(fixture.queued().await, when_added, "{owner:?} {label}");
        fixture.handlers.pod_changed(&deleted(&pod));
        assert_eq!(fixture.queued().await, when_deleted, "{owner:?} {label}");
    }
}

/// `TestUpdatePod`, `TestUpdatePodOrphanSameLabels`, `TestUpdatePodOrphanWithNewLabels`,
/// `TestUpdatePodChangeControllerRef` and `TestUpdatePodControllerRefRemoved`. The last column is
/// for revisions, which follow the same rules.
#[tokio::test(start_paused = true)]
async fn updated_pods_and_revisions() {
    let fixture = Fixture::new(&["foo1", "foo2"]).await;
    // (why, owner and label before and after, queued)
    let one = Some("foo1");
    let two = Some("foo2");
    let cases: [(&str, _, _, &[&str]); 6] = [
        ("owned by foo1", (one, "web"), (one, "web"), &["foo1"]),
        ("owned by foo2", (two, "web"), (two, "web"), &["foo2"]),
        ("orphan, same labels", (None, "web"), (None, "web"), &[]),
        (
            "orphan, new labels",
            (None, "other"),
            (None, "web"),
            &["foo1", "foo2"],
        ),
        (
            "another owner",
            (one, "web"),
            (two, "web"),
            &["foo1", "foo2"],
        ),
        (
            "owner removed",
            (one, "web"),
            (None, "web"),
            &["foo1", "foo2"],
        ),
    ];
    for (why, before, after, expected) in cases {
        let old = fixture.pod(before.0, before.1, 1);
        let new = fixture.pod(after.0, after.1, 2);
        fixture.handlers.pod_changed(&Change::Updated {
            old: &old,
            new: &new,
        });
        assert_eq!(fixture.queued().await, expected, "{why}");
        let old = fixture.revision(before.0, before.1, 1);
        let new = fixture.revision(after.0, after.1, 2);
        fixture.handlers.revision_changed(&Change::Updated {
            old: &old,
            new: &new,
        });
        assert_eq!(fixture.queued().await, expected, "{why}: revision");
    }
}

#[tokio::test(start_paused = true)]
async fn added_and_deleted_revisions() {
    let fixture = Fixture::new(&["foo1", "foo2"]).await;
    // (owner, queued when added, queued when deleted)
    let cases: [(Option<&str>, &[&str], &[&str]); 2] = [
        (Some("foo1"), &[], &["foo1"]),
        (None, &["foo1", "foo2"], &[]),
    ];
    for (owner, when_added, when_deleted) in cases {
        let revision = fixture.revision(owner, "web", 1);
        fixture.handlers.revision_changed(&added(&revision));
        assert_eq!(fixture.queued().await, when_added, "{owner:?}");
        fixture.handlers.revision_changed(&deleted(&revision));
        assert_eq!(fixture.queued().await, when_deleted, "{owner:?}");
    }
}

/// `TestDeleteNoDaemonPod`.
#[tokio::test(start_paused = true)]
async fn deleted_pods_of_other_owners() {
    let fixture = Fixture::new(&["ds"]).await;
    let foreign =
        json!([{"apiVersion": "v1", "kind": "", "name": "", "uid": "", "controller": true}]);
    let other_kind = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "ds", "uid": "u", "controller": true}]);
    for references in [json!([]), foreign, other_kind] {
        let pod = pod("pod_0")
            .node("node1")
            .metadata("ownerReferences", references.clone());
        fixture
            .handlers
            .pod_changed(&deleted(&Arc::new(pod.build())));
        assert_eq!(fixture.queued().await, [""; 0], "{references}");
    }
}

/// `TestDeleteFinalStateUnknown`.
#[tokio::test(start_paused = true)]
async fn deleted_daemon_set_of_an_unknown_final_state() {
    let fixture = Fixture::new(&["foo"]).await;
    let ds = fixture.daemon_set("foo");
    fixture.handlers.daemon_set_changed(&Change::Deleted {
        object: &ds,
        final_state_unknown: true,
    });
    assert_eq!(fixture.queued().await, ["foo"]);
}

/// `TestExpectationsOnRecreate`.
#[tokio::test(start_paused = true)]
async fn expectations_on_recreate() {
    let fixture = Fixture::new(&["foo"]).await;
    let ds = fixture.daemon_set("foo");
    let recreated = |uid: &str| {
        let mut other = (*ds).clone();
        other.meta.uid = steersman_objects::Uid::new(uid);
        Arc::new(other)
    };
    // (why, new object, satisfied afterwards)
    let cases = [
        ("an update", Arc::clone(&ds), false),
        ("another UID", recreated("other"), true),
    ];
    for (why, new, satisfied) in cases {
        let expectations = fixture.control.consistency();
        expectations.expect_creations(&key("foo"), 1);
        fixture.handlers.daemon_set_changed(&Change::Updated {
            old: &ds,
            new: &new,
        });
        assert_eq!(expectations.satisfied(&key("foo")), satisfied, "{why}");
        assert_eq!(fixture.queued().await, ["foo"], "{why}");
    }
}

fn node(labels: Value, spec: Value, status: Value) -> Arc<Node> {
    let json =
        json!({"metadata": {"name": "node1", "labels": labels}, "spec": spec, "status": status});
    Arc::new(Node::decode(json.to_string().as_bytes()).unwrap())
}

/// `TestAddNode`, `TestShouldIgnoreNodeUpdate`, and the part of `TestUpdateNode` about handlers.
#[tokio::test(start_paused = true)]
async fn changed_nodes() {
    let fixture = Fixture::new(&[]).await;
    let none = || json!({});
    let plain = node(none(), none(), none());
    let labelled = node(json!({"color": "blue"}), none(), none());
    let tainted = node(
        none(),
        json!({"taints": [{"key": "dedicated", "value": "user1", "effect": "NoSchedule"}]}),
        none(),
    );
    let retainted = node(
        none(),
        json!({"taints": [{"key": "dedicated", "value": "user2", "effect": "NoSchedule"}]}),
        none(),
    );
    let cordoned = node(none(), json!({"unschedulable": true}), none());
    let heartbeat = node(
        none(),
        none(),
        json!({"allocatable": {"cpu": "200m"}, "conditions": [{"type": "Ready", "status": "True"}]}),
    );
    // (name, old, new, queued)
    let cases: [(&str, _, _, &[&str]); 7] = [
        ("Nothing changed", &plain, &plain, &[]),
        ("Node labels changed", &plain, &labelled, &["node1"]),
        ("Node taints changed", &tainted, &plain, &["node1"]),
        ("Node taint value changed", &tainted, &retainted, &["node1"]),
        (
            "Unset is empty",
            &plain,
            &node(Value::Null, json!({"taints": []}), none()),
            &[],
        ),
        ("unschedulable without its taint", &plain, &cordoned, &[]),
        ("Node Allocatable changed", &plain, &heartbeat, &[]),
    ];
    for (name, old, new, expected) in cases {
        fixture.handlers.node_changed(&Change::Updated { old, new });
        assert_eq!(
            names(&fixture.handlers.node_queue).await,
            expected,
            "{name}"
        );
    }
    fixture.handlers.node_changed(&added(&plain));
    assert_eq!(
        names(&fixture.handlers.node_queue).await,
        ["node1"],
        "added"
    );
    fixture.handlers.node_changed(&deleted(&plain));
    assert_eq!(
        names(&fixture.handlers.node_queue).await,
        [""; 0],
        "deleted"
    );
}
