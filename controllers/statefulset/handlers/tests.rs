//! Which sets a change enqueues: the cases of upstream's tests in `stateful_set_test.go`.

use serde_json::{Value, json};
use steersman_objects::Object;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::tasks::{CancellationToken, Tasks};

use super::*;
use crate::testing::pods::{PodBuilder, pod};
use crate::testing::world::World;
use crate::testing::{NAMESPACE, stateful_set};

/// Handlers with a cache of the sets `foo` and `bar`, which select the label with their name.
struct Fixture {
    handlers: Handlers,
    _tasks: Tasks,
}

impl Fixture {
    async fn new() -> Self {
        let world = World::bare().await;
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        for name in ["foo", "bar"] {
            let labels = json!({"app": name});
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
            let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}});
            let spec = json!({"selector": {"matchLabels": labels}, "template": template, "volumeClaimTemplates": [claim]});
            world
                .create(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}))
                .await;
        }
        let context = world.context();
        let keyed = Keyed::<StatefulSet>::new(&context, "test", "test");
        context.informers.start(&tasks, &stop);
        assert!(context.informers.wait_synced(&stop).await);
        Self {
            handlers: Handlers {
                sets: keyed.objects().store(),
                queue: keyed.queue(),
            },
            _tasks: tasks,
        }
    }

    /// A pod with resource version `version` and the label `app`, controlled by the set `owner`.
    fn pod(&self, owner: Option<&str>, app: &str, version: u32) -> PodBuilder {
        let pod = pod("foo-0").labels(json!({"app": app}));
        let reference = |name: &str| {
            let key = ObjectKey::new(NAMESPACE, name);
            let uid = self.handlers.sets.get(&key).unwrap().meta.uid.to_string();
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": true})
        };
        let references: Vec<Value> = owner.map(reference).into_iter().collect();
        let pod = pod.metadata("ownerReferences", references);
        pod.metadata("resourceVersion", version.to_string())
    }

    /// Takes all keys from the queue, and returns their names in order.
    async fn queued(&self) -> Vec<String> {
        let mut names = Vec::new();
        while !self.handlers.queue.is_empty() {
            let item = self.handlers.queue.get().await.unwrap();
            names.push(item.key.name.to_string());
        }
        names
    }

    async fn after_update(&self, old: PodBuilder, new: PodBuilder) -> Vec<String> {
        let old = &Arc::new(old.build());
        let new = &Arc::new(new.build());
        self.handlers.pod_changed(&Change::Updated { old, new });
        self.queued().await
    }
}

#[tokio::test(start_paused = true)]
async fn added_pods() {
    let fixture = Fixture::new().await;
    let foreign =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "foo", "uid": "x", "controller": true}]);
    // (upstream's test, pod, queued)
    let cases: [(&str, PodBuilder, &[&str]); 6] = [
        ("AddPod", fixture.pod(Some("foo"), "x", 1), &["foo"]),
        ("AddPodOrphan", fixture.pod(None, "foo", 1), &["foo"]),
        ("AddPodNoSet", fixture.pod(None, "x", 1), &[]),
        (
            "an orphan without labels",
            fixture.pod(None, "x", 1).labels(json!({})),
            &[],
        ),
        (
            "another controller",
            fixture
                .pod(None, "foo", 1)
                .metadata("ownerReferences", foreign),
            &[],
        ),
        (
            "a terminating pod",
            fixture.pod(Some("foo"), "foo", 1).deleted(1),
            &["foo"],
        ),
    ];
    for (why, pod, expected) in cases {
        let object = &Arc::new(pod.build());
        fixture.handlers.pod_changed(&Change::Added {
            object,
            initial: false,
        });
        assert_eq!(fixture.queued().await, expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn updated_pods() {
    let fixture = Fixture::new().await;
    let pod = |owner, app, version| fixture.pod(owner, app, version);
    let foo = Some("foo");
    let bar = Some("bar");
    // (upstream's test, before, after, queued)
    let cases: [(&str, PodBuilder, PodBuilder, &[&str]); 7] = [
        (
            "UpdatePod",
            pod(foo, "foo", 1),
            pod(foo, "foo", 2),
            &["foo"],
        ),
        (
            "UpdatePodWithNoSet",
            pod(None, "x", 1),
            pod(None, "x", 2),
            &[],
        ),
        (
            "UpdatePodWithSameVersion",
            pod(foo, "foo", 1),
            pod(foo, "foo", 1),
            &[],
        ),
        (
            "UpdatePodOrphanWithNewLabels",
            pod(None, "x", 1),
            pod(None, "foo", 2),
            &["foo"],
        ),
        (
            "an orphan with the same labels",
            pod(None, "foo", 1),
            pod(None, "foo", 2),
            &[],
        ),
        (
            "UpdatePodChangeControllerRef",
            pod(bar, "foo", 1),
            pod(foo, "foo", 2),
            &["bar", "foo"],
        ),
        (
            "UpdatePodRelease",
            pod(foo, "bar", 1),
            pod(None, "bar", 2),
            &["foo", "bar"],
        ),
    ];
    for (why, old, new, expected) in cases {
        assert_eq!(fixture.after_update(old, new).await, expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_pods() {
    let fixture = Fixture::new().await;
    // (upstream's test, pod, final state unknown, queued)
    let cases: [(&str, PodBuilder, bool, &[&str]); 3] = [
        (
            "DeletePod",
            fixture.pod(Some("foo"), "foo", 1),
            false,
            &["foo"],
        ),
        ("DeletePodOrphan", fixture.pod(None, "foo", 1), false, &[]),
        (
            "DeletePodTombstone",
            fixture.pod(Some("foo"), "foo", 1),
            true,
            &["foo"],
        ),
    ];
    for (why, pod, final_state_unknown, expected) in cases {
        let object = &Arc::new(pod.build());
        fixture.handlers.pod_changed(&Change::Deleted {
            object,
            final_state_unknown,
        });
        assert_eq!(fixture.queued().await, expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_gone_enqueue_their_set() {
    let fixture = Fixture::new().await;
    // (claim, queued)
    let cases: [(&str, &[&str]); 5] = [
        ("data-foo-0", &["foo"]),
        ("data-foo-12", &["foo"]),
        ("log-foo-0", &[]),
        ("data-foo-01", &[]),
        ("data-foo", &[]),
    ];
    for (name, expected) in cases {
        let json = json!({"metadata": {"name": name, "namespace": NAMESPACE}});
        let claim = PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap();
        let object = &Arc::new(claim);
        let added = Change::Added {
            object,
            initial: false,
        };
        fixture.handlers.claim_changed(&added);
        assert!(fixture.queued().await.is_empty(), "a new claim");
        fixture.handlers.claim_changed(&Change::Deleted {
            object,
            final_state_unknown: false,
        });
        assert_eq!(fixture.queued().await, expected, "{name}");
    }
    assert!(is_claim_of(
        &stateful_set("a-1").claims(&["d"]).build(),
        "d-a-1-2"
    ));
}
