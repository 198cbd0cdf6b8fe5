//! The owners that a change enqueues, and the expectations that it satisfies.
//!
//! A change of an owner enqueues it. A change of a pod enqueues its controller, and a change of an
//! orphan enqueues all owners that may adopt it. Created and deleted pods count down expectations.

use std::sync::Arc;
use std::time::Duration;

use steersman_objects::{ObjectKey, Pod};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::owner::{DependentEvent, dependent_events};
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::workqueue::WorkQueue;

use super::owner::PodOwner;

/// Registers the handlers of owners and pods.
pub(super) fn register<O: PodOwner>(
    owners: &SharedInformer<O>,
    pods: &SharedInformer<Pod>,
    queue: &WorkQueue<ObjectKey>,
    control: &PodControl,
) {
    let handlers = Arc::new(Handlers {
        owners: owners.store(),
        queue: queue.clone(),
        control: control.clone(),
    });
    let of_owners = Arc::clone(&handlers);
    owners.add_handler(move |change| of_owners.owner_changed(&change));
    pods.add_handler(move |change| handlers.pod_changed(&change));
}

/// The handlers of one kind of owner, and the objects that they act on.
struct Handlers<O> {
    owners: Store<O>,
    queue: WorkQueue<ObjectKey>,
    control: PodControl,
}

impl<O: PodOwner> Handlers<O> {
    /// Enqueues the owner. Drops the expectations of a deleted or recreated one, which would delay
    /// the first sync of its successor.
    ///
    /// Every change enqueues, even one of the status alone. Upstream: `addRS`, `updateRS` and `deleteRS`. A
    /// recreation may arrive as an update with a new UID.
    fn owner_changed(&self, change: &Change<'_, O>) {
        let key = change.object().key();
        let is_gone = match change {
            Change::Added { .. } => false,
            Change::Updated { old, new } => old.meta().uid != new.meta().uid,
            Change::Deleted { .. } => true,
        };
        if is_gone {
            self.control.forget(&key);
        }
        self.queue.add(key);
    }

    /// Enqueues the owners that a change of a pod concerns, and counts their expectations down.
    ///
    /// Upstream: `addPod`, `updatePod` and `deletePod`. A pod that terminates counts as deleted at once,
    /// since its replacement need not wait for the kubelet.
    fn pod_changed(&self, change: &Change<'_, Pod>) {
        dependent_events(&self.owners, change, |event| {
            let owner = event.owner();
            self.control.observe(change, &event);
            self.queue.add(owner.key());
            // A pod becomes available without a change of an object, so a delayed key replaces the
            // event. This delay follows upstream; the sync itself requeues for the exact time, as
            // the API stores whole seconds.
            let seconds = u64::try_from(owner.min_ready_seconds()).unwrap_or(0);
            if seconds > 0 && matches!(event, DependentEvent::Updated(_)) && becomes_ready(change) {
                let delay = Duration::from_secs(seconds);
                self.queue.add_after(owner.key(), delay);
            }
        });
    }
}

/// Whether the pod was unready before and is ready now. An added pod is left to the sync.
fn becomes_ready(change: &Change<'_, Pod>) -> bool {
    matches!(change, Change::Updated { old, new } if !old.is_ready() && new.is_ready())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::{Object, ReplicaSet};
    use steersman_runtime::keyed::Keyed;
    use steersman_runtime::tasks::{CancellationToken, Tasks};

    use super::*;
    use crate::testing::NAMESPACE;
    use crate::testing::pods::pod;
    use crate::testing::world::World;

    /// Handlers with a cache of ReplicaSets. Each has a name and the labels of its selector.
    struct Fixture {
        handlers: Handlers<ReplicaSet>,
        _tasks: Tasks,
    }

    impl Fixture {
        async fn new(sets: &[(&str, Value)]) -> Self {
            let world = World::bare().await;
            let tasks = Tasks::default();
            let stop = CancellationToken::new();
            for (name, labels) in sets {
                let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
                let spec = json!({"selector": {"matchLabels": labels}, "template": template});
                world
                    .create(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}))
                    .await;
            }
            let context = world.context();
            let mut keyed = Keyed::<ReplicaSet>::new(&context, "test", "test");
            let pods = context.informers.shared::<Pod>();
            let client = context.client("test");
            let recorder = context.recorder("test", client.clone());
            let control = PodControl::new(&mut keyed, &pods, client, recorder);
            context.informers.start(&tasks, &stop);
            assert!(context.informers.wait_synced(&stop).await);
            Self {
                handlers: Handlers {
                    owners: keyed.objects().store(),
                    queue: keyed.queue(),
                    control,
                },
                _tasks: tasks,
            }
        }

        /// A pod with `labels` and resource version `version`, controlled by the ReplicaSet
        /// `owner`.
        fn pod(&self, owner: Option<&str>, labels: &Value, version: u32) -> Arc<Pod> {
            let reference = owner.map(|name| {
                let uid = self.handlers.owners.get(&key(name)).unwrap().meta.uid.to_string();
                json!({"apiVersion": "v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": true})
            });
            let references: Vec<Value> = reference.into_iter().collect();
            let pod = pod("pod")
                .labels(labels.clone())
                .metadata("ownerReferences", references);
            Arc::new(pod.metadata("resourceVersion", version.to_string()).build())
        }

        /// Takes all keys from the queue, and returns their names in order.
        async fn queued(&self) -> Vec<String> {
            let mut names = Vec::new();
            while !self.handlers.queue.is_empty() {
                names.push(
                    self.handlers
                        .queue
                        .get()
                        .await
                        .unwrap()
                        .key
                        .name
                        .to_string(),
                );
            }
            names
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(NAMESPACE, name)
    }

    fn added(pod: &Arc<Pod>) -> Change<'_, Pod> {
        Change::Added {
            object: pod,
            initial: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn update_pods() {
        let foo = json!({"foo": "bar"});
        let bar = json!({"bar": "foo"});
        let fixture = Fixture::new(&[("foobar", foo.clone()), ("barfoo", bar.clone())]).await;
        let queued = async |old: Arc<Pod>, new: Arc<Pod>| {
            fixture.handlers.pod_changed(&Change::Updated {
                old: &old,
                new: &new,
            });
            fixture.queued().await
        };
        let one = Some("foobar");
        let two = Some("barfoo");
        // (why, owner and labels before and after, queued)
        let cases: [(&str, _, _, &[&str]); 4] = [
            (
                "Pod with a ControllerRef",
                (one, &foo),
                (one, &bar),
                &["foobar"],
            ),
            (
                "Remove ControllerRef (orphan). Expect to sync label-matching RS.",
                (two, &bar),
                (None, &bar),
                &["barfoo"],
            ),
            (
                "Remove ControllerRef (orphan). Expect to sync both former owner and any label-matching RS.",
                (one, &bar),
                (None, &bar),
                &["foobar", "barfoo"],
            ),
            (
                "Keep ControllerRef, change labels. Expect to sync owning RS.",
                (two, &foo),
                (two, &bar),
                &["barfoo"],
            ),
        ];
        for (why, (before, old), (after, new), expected) in cases {
            assert_eq!(
                queued(fixture.pod(before, old, 1), fixture.pod(after, new, 2)).await,
                expected,
                "{why}"
            );
        }
        let same = fixture.pod(one, &foo, 1);
        assert!(queued(Arc::clone(&same), same).await.is_empty(), "a resync");
    }

    #[tokio::test(start_paused = true)]
    async fn pod_controller_lookup() {
        let labels = json!({"foo": "bar"});
        let fixture = Fixture::new(&[("bar", labels.clone())]).await;
        let elsewhere = Arc::new(
            pod("foo2")
                .labels(labels.clone())
                .metadata("namespace", "ns")
                .build(),
        );
        // (why, orphan, queued)
        let cases: [(&str, Arc<Pod>, &[&str]); 3] = [
            (
                "pods without labels don't match any ReplicaSets",
                fixture.pod(None, &json!({}), 1),
                &[],
            ),
            ("Matching labels, not namespace", elsewhere, &[]),
            (
                "Matching ns and labels",
                fixture.pod(None, &labels, 1),
                &["bar"],
            ),
        ];
        for (why, orphan, expected) in cases {
            fixture.handlers.pod_changed(&added(&orphan));
            assert_eq!(fixture.queued().await, expected, "{why}");
        }
    }

    /// `TestOverlappingRSs` of upstream's unit tests.
    #[tokio::test(start_paused = true)]
    async fn overlapping_selectors_enqueue_only_the_controller() {
        let labels = json!({"foo": "bar"});
        let names: Vec<String> = (1..10).map(|i| format!("rs{i}")).collect();
        let sets: Vec<(&str, Value)> = names
            .iter()
            .map(|name| (name.as_str(), labels.clone()))
            .collect();
        let fixture = Fixture::new(&sets).await;
        fixture
            .handlers
            .pod_changed(&added(&fixture.pod(Some("rs4"), &labels, 1)));
        assert_eq!(fixture.queued().await, ["rs4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn delete_final_state_unknown() {
        let labels = json!({"foo": "bar"});
        let fixture = Fixture::new(&[("foobar", labels.clone())]).await;
        let pod = fixture.pod(Some("foobar"), &labels, 1);
        fixture.handlers.pod_changed(&Change::Deleted {
            object: &pod,
            final_state_unknown: true,
        });
        assert_eq!(fixture.queued().await, ["foobar"]);
    }

    #[tokio::test(start_paused = true)]
    async fn deletion_timestamp() {
        let labels = json!({"foo": "bar"});
        let fixture = Fixture::new(&[("foobar", labels.clone())]).await;
        let handlers = &fixture.handlers;
        let owner = key("foobar");
        let expectations = &handlers.control.consistency();
        let deleted = |name: &str, version: &str| {
            let uid = handlers.owners.get(&owner).unwrap().meta.uid.to_string();
            let reference = json!([{"apiVersion": "v1", "kind": "ReplicaSet", "name": "foobar", "uid": uid, "controller": true}]);
            let pod = pod(name)
                .labels(labels.clone())
                .metadata("ownerReferences", reference);
            Arc::new(pod.metadata("resourceVersion", version).deleted(1).build())
        };
        let expect = |pod: &Pod| {
            expectations.expect_deletions(&owner, vec![pod.key()].into_iter().collect())
        };
        let gone = deleted("pod", "1");

        expect(&gone);
        handlers.pod_changed(&added(&gone));
        assert_eq!(fixture.queued().await, ["foobar"]);
        assert!(
            expectations.satisfied(&owner),
            "a pod added with a deletion timestamp counts as a deletion, not as a creation"
        );

        expect(&gone);
        let alive = fixture.pod(Some("foobar"), &labels, 2);
        handlers.pod_changed(&Change::Updated {
            old: &alive,
            new: &gone,
        });
        assert_eq!(fixture.queued().await, ["foobar"]);
        assert!(
            expectations.satisfied(&owner),
            "an update that adds a deletion timestamp counts as a deletion"
        );

        let second = deleted("secondPod", "1");
        expect(&second);
        handlers.pod_changed(&Change::Updated {
            old: &deleted("pod", "2"),
            new: &gone,
        });
        assert!(
            !expectations.satisfied(&owner),
            "an update of a terminating pod does not count as a second deletion"
        );
        assert_eq!(fixture.queued().await, ["foobar"]);
        handlers.pod_changed(&Change::Deleted {
            object: &gone,
            final_state_unknown: false,
        });
        assert!(
            !expectations.satisfied(&owner),
            "the removal of a terminating pod does not count again"
        );
        handlers.pod_changed(&Change::Deleted {
            object: &second,
            final_state_unknown: false,
        });
        assert!(
            expectations.satisfied(&owner),
            "the removal of the second pod counts"
        );
        assert_eq!(
            fixture.queued().await,
            ["foobar"],
            "the status has the number of terminating pods"
        );
    }
}
