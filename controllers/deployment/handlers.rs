//! Which Deployments a change wakes up.
//!
//! Deployments wake themselves, ReplicaSets their controller (orphans every Deployment that selects
//! them), and the last pod of a Recreate Deployment to go wakes it, since that is what it waits
//! for.

use std::sync::Arc;

use steersman_runtime::expectations::{Expectations, OwnWrites};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::object::{
    Deployment, Object, ObjectKey, OwnerReference, Pod, ReplicaSet, Strategy,
};
use steersman_runtime::owner::controlled_by;
use steersman_runtime::workqueue::WorkQueue;

use super::written::Written;

/// What handlers look up.
pub(super) trait Lookup {
    fn deployment(&self, key: &ObjectKey) -> Option<Arc<Deployment>>;
    fn deployments_in(&self, namespace: &str) -> Vec<Arc<Deployment>>;
    fn replica_set(&self, key: &ObjectKey) -> Option<Arc<ReplicaSet>>;
    fn replica_sets_of(&self, controller: &Deployment) -> Vec<Arc<ReplicaSet>>;
    fn has_pods(&self, controller: &ReplicaSet) -> bool;
}

/// The caches.
pub(super) struct Caches {
    pub(super) deployments: Store<Deployment>,
    pub(super) replica_sets: Store<ReplicaSet>,
    pub(super) pods: Store<Pod>,
}

impl Lookup for Caches {
    fn deployment(&self, key: &ObjectKey) -> Option<Arc<Deployment>> {
        self.deployments.get(key)
    }

    fn deployments_in(&self, namespace: &str) -> Vec<Arc<Deployment>> {
        self.deployments.in_namespace(namespace)
    }

    fn replica_set(&self, key: &ObjectKey) -> Option<Arc<ReplicaSet>> {
        self.replica_sets.get(key)
    }

    fn replica_sets_of(&self, controller: &Deployment) -> Vec<Arc<ReplicaSet>> {
        controlled_by::<Deployment, ReplicaSet>(&self.replica_sets, &controller.meta)
    }

    fn has_pods(&self, controller: &ReplicaSet) -> bool {
        !controlled_by::<ReplicaSet, Pod>(&self.pods, &controller.meta).is_empty()
    }
}

/// Makes `own_writes`, `written` and `deleting` forget what a restored server does not know.
pub(super) fn forget_on_rewind(
    deployments: &SharedInformer<Deployment>,
    replica_sets: &SharedInformer<ReplicaSet>,
    own_writes: &Arc<OwnWrites>,
    written: &Arc<Written>,
    deleting: &Arc<Expectations>,
) {
    let forget = || {
        let (own_writes, written, deleting) = (
            Arc::clone(own_writes),
            Arc::clone(written),
            Arc::clone(deleting),
        );
        move || {
            own_writes.forget_all();
            written.forget_all();
            deleting.forget_all();
        }
    };
    deployments.on_rewind(forget());
    replica_sets.on_rewind(forget());
}

/// Makes changes enqueue keys, and settles the deletions that `deleting` waits for.
pub(super) fn register(
    deployments: &SharedInformer<Deployment>,
    replica_sets: &SharedInformer<ReplicaSet>,
    pods: &SharedInformer<Pod>,
    queue: &WorkQueue<ObjectKey>,
    deleting: &Arc<Expectations>,
) {
    let caches = || Caches {
        deployments: deployments.store(),
        replica_sets: replica_sets.store(),
        pods: pods.store(),
    };
    let enqueue = |queue: &WorkQueue<ObjectKey>, keys: Vec<ObjectKey>| {
        keys.into_iter().for_each(|key| queue.add(key))
    };

    deployments.add_handler({
        let queue = queue.clone();
        move |change| queue.add(object_of(&change).key())
    });
    replica_sets.add_handler({
        let (queue, caches, deleting) = (queue.clone(), caches(), Arc::clone(deleting));
        move |change| {
            if let Some((owner, gone)) = deletion(&change) {
                deleting.deletion_observed(&owner, &gone);
            }
            enqueue(&queue, replica_set_changed(&caches, &change));
        }
    });
    pods.add_handler({
        let (queue, caches) = (queue.clone(), caches());
        move |change| {
            if let Change::Deleted { object, .. } = change {
                enqueue(&queue, pod_deleted(&caches, object).into_iter().collect());
            }
        }
    });
}

fn object_of<'a, T>(change: &Change<'a, T>) -> &'a Arc<T> {
    match change {
        Change::Added { object, .. }
        | Change::Deleted { object, .. }
        | Change::Updated { new: object, .. } => object,
    }
}

/// The ReplicaSet that is going or gone, after the key its controller has.
fn deletion(change: &Change<'_, ReplicaSet>) -> Option<(ObjectKey, ObjectKey)> {
    let rs = object_of(change);
    let is_going = rs.meta.is_terminating() || matches!(change, Change::Deleted { .. });
    let owner = rs.meta.controller().filter(|_| is_going)?;
    Some((ObjectKey::new(&rs.meta.namespace, &owner.name), rs.key()))
}

/// The Deployments to wake for a change of a ReplicaSet.
fn replica_set_changed(caches: &impl Lookup, change: &Change<'_, ReplicaSet>) -> Vec<ObjectKey> {
    match change {
        // After a restart some may show up that are being deleted already.
        Change::Added { object, .. } if object.meta.is_terminating() => {
            Vec::from_iter(controller_key(caches, object))
        }
        Change::Added { object, .. } => controller_or_selecting(caches, object),
        Change::Deleted { object, .. } => Vec::from_iter(controller_key(caches, object)),
        // A resync.
        Change::Updated { old, new } if old.meta.resource_version == new.meta.resource_version => {
            Vec::new()
        }
        Change::Updated { old, new } => {
            let (before, after) = (old.meta.controller(), new.meta.controller());
            let mut keys = Vec::new();
            if before != after {
                keys.extend(controller_key(caches, old));
            }
            if after.is_some() {
                keys.extend(controller_key(caches, new));
            } else if before.is_some() || old.meta.labels != new.meta.labels {
                keys.extend(selecting(caches, new));
            }
            keys
        }
    }
}

/// The Recreate Deployment that has no pods any more now that this one is gone.
///
/// Upstream's `deletePod` asks the API server for the ReplicaSets, once per pod; the cache is as
/// good, since a wake-up too many or too early does nothing, and the one that counts follows with
/// the ReplicaSet's status.
fn pod_deleted(caches: &impl Lookup, pod: &Pod) -> Option<ObjectKey> {
    let owner = pod
        .meta
        .controller()
        .filter(|owner| owner.kind == *"ReplicaSet")?;
    let rs = caches
        .replica_set(&ObjectKey::new(&pod.meta.namespace, &owner.name))
        .filter(|rs| rs.meta.uid == owner.uid)?;
    let d = resolve(caches, &rs.meta.namespace, rs.meta.controller()?)?;
    let is_empty = || {
        !caches
            .replica_sets_of(&d)
            .iter()
            .any(|rs| caches.has_pods(rs))
    };
    (d.spec.strategy == Strategy::Recreate && is_empty()).then(|| d.key())
}

fn controller_or_selecting(caches: &impl Lookup, rs: &ReplicaSet) -> Vec<ObjectKey> {
    if rs.meta.controller().is_some() {
        Vec::from_iter(controller_key(caches, rs))
    } else {
        selecting(caches, rs)
    }
}

fn controller_key(caches: &impl Lookup, rs: &ReplicaSet) -> Option<ObjectKey> {
    resolve(caches, &rs.meta.namespace, rs.meta.controller()?).map(|d| d.key())
}

/// The Deployment a controller reference means: of that name, and of that UID too.
fn resolve(
    caches: &impl Lookup,
    namespace: &str,
    owner: &OwnerReference,
) -> Option<Arc<Deployment>> {
    if owner.kind != *"Deployment" {
        return None;
    }
    caches
        .deployment(&ObjectKey::new(namespace, &owner.name))
        .filter(|d| d.meta.uid == owner.uid)
}

/// The Deployments that might adopt an orphan.
fn selecting(caches: &impl Lookup, rs: &ReplicaSet) -> Vec<ObjectKey> {
    if rs.meta.labels.is_empty() {
        return Vec::new();
    }
    let selects = |d: &Deployment| {
        d.spec
            .selector
            .as_ref()
            .is_ok_and(|selector| !selector.is_everything() && selector.matches(&rs.meta.labels))
    };
    caches
        .deployments_in(&rs.meta.namespace)
        .iter()
        .filter(|d| selects(d))
        .map(|d| d.key())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_runtime::object::Uid;

    use super::*;
    use crate::testing::{NAMESPACE, ReplicaSetBuilder, deployment, replica_set, time};

    #[derive(Default)]
    struct World {
        deployments: Vec<Arc<Deployment>>,
        replica_sets: Vec<Arc<ReplicaSet>>,
        pods: Vec<Arc<Pod>>,
    }

    impl Lookup for World {
        fn deployment(&self, key: &ObjectKey) -> Option<Arc<Deployment>> {
            self.deployments.iter().find(|d| d.key() == *key).cloned()
        }

        fn deployments_in(&self, namespace: &str) -> Vec<Arc<Deployment>> {
            self.deployments
                .iter()
                .filter(|d| d.meta.namespace == *namespace)
                .cloned()
                .collect()
        }

        fn replica_set(&self, key: &ObjectKey) -> Option<Arc<ReplicaSet>> {
            self.replica_sets
                .iter()
                .find(|rs| rs.key() == *key)
                .cloned()
        }

        fn replica_sets_of(&self, controller: &Deployment) -> Vec<Arc<ReplicaSet>> {
            self.replica_sets
                .iter()
                .filter(|rs| rs.meta.is_controlled_by(&controller.meta.uid))
                .cloned()
                .collect()
        }

        fn has_pods(&self, controller: &ReplicaSet) -> bool {
            self.pods
                .iter()
                .any(|pod| pod.meta.is_controlled_by(&controller.meta.uid))
        }
    }

    /// Deployments `web` and `api`, each selecting the label `app` of its name.
    fn world() -> World {
        let build = |name: &str| {
            deployment(name)
                .spec("selector", json!({"matchLabels": {"app": name}}))
                .build()
        };
        World {
            deployments: vec![Arc::new(build("web")), Arc::new(build("api"))],
            ..World::default()
        }
    }

    fn owned(name: &str, deployment: &str) -> ReplicaSetBuilder {
        replica_set(name).owned_by(
            "apps/v1",
            "Deployment",
            deployment,
            &Uid::new(&format!("uid-of-{deployment}")),
        )
    }

    fn labelled(app: &str) -> ReplicaSetBuilder {
        replica_set("rs").metadata("labels", json!({"app": app}))
    }

    fn names(keys: Vec<ObjectKey>) -> Vec<String> {
        keys.into_iter().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn a_replica_set_that_appears_or_goes_wakes_its_deployment() {
        // (why, ReplicaSet, woken when added, woken when deleted)
        let web = ["web".to_owned()];
        let cases: [(&str, ReplicaSetBuilder, &[String], &[String]); 8] = [
            ("owned", owned("rs", "web"), &web, &web),
            (
                "owned and terminating",
                owned("rs", "web").metadata("deletionTimestamp", time(1)),
                &web,
                &web,
            ),
            (
                "owner of another UID",
                replica_set("rs").owned_by("apps/v1", "Deployment", "web", &Uid::new("x")),
                &[],
                &[],
            ),
            (
                "owner of another kind",
                replica_set("rs").owned_by("x/v1", "Rollout", "web", &Uid::new("uid-of-web")),
                &[],
                &[],
            ),
            (
                "owner of an old version",
                replica_set("rs").owned_by(
                    "extensions/v1beta1",
                    "Deployment",
                    "web",
                    &Uid::new("uid-of-web"),
                ),
                &web,
                &web,
            ),
            ("orphan", labelled("web"), &web, &[]),
            (
                "orphan and terminating",
                labelled("web").metadata("deletionTimestamp", time(1)),
                &[],
                &[],
            ),
            ("orphan nobody selects", labelled("db"), &[], &[]),
        ];
        for (why, rs, added, deleted) in cases {
            let (world, rs) = (world(), Arc::new(rs.build()));
            let change = Change::Added {
                object: &rs,
                initial: false,
            };
            assert_eq!(
                names(replica_set_changed(&world, &change)),
                added,
                "{why}, added"
            );
            let change = Change::Deleted {
                object: &rs,
                final_state_unknown: true,
            };
            assert_eq!(
                names(replica_set_changed(&world, &change)),
                deleted,
                "{why}, deleted"
            );
        }
    }

    #[test]
    fn get_deployments_for_replica_set() {
        let named = |i: usize| {
            let selector = json!({"matchLabels": {"app": format!("test-{i}")}});
            Arc::new(
                deployment(&format!("deployment-{i}"))
                    .spec("selector", selector)
                    .build(),
            )
        };
        let world = World {
            deployments: (0..3).map(named).collect(),
            ..World::default()
        };
        for i in 0..5 {
            let labels = json!({"app": format!("test-{i}"), "label": format!("label-{i}")});
            let rs = replica_set("rs").metadata("labels", labels).build();
            let expected: Vec<String> = (i < 3)
                .then(|| format!("deployment-{i}"))
                .into_iter()
                .collect();
            assert_eq!(
                names(selecting(&world, &rs)),
                expected,
                "GetDeploymentsForReplicaSet for rs-{i}"
            );
        }
    }

    #[test]
    fn an_empty_selector_and_no_labels_match_nothing() {
        let everything = deployment("all").spec("selector", json!({})).build();
        let world = World {
            deployments: vec![Arc::new(everything)],
            ..World::default()
        };
        assert!(selecting(&world, &labelled("web").build()).is_empty());
        let bare = replica_set("rs").metadata("labels", json!({})).build();
        assert!(selecting(&self::world(), &bare).is_empty());
    }

    #[test]
    fn a_replica_set_that_changes_wakes_old_and_new_deployment() {
        // (why, old, new, woken)
        let cases: [(&str, ReplicaSetBuilder, ReplicaSetBuilder, &[&str]); 7] = [
            ("owned", owned("rs", "web"), owned("rs", "web"), &["web"]),
            (
                "handed over",
                owned("rs", "web"),
                owned("rs", "api"),
                &["web", "api"],
            ),
            ("adopted", labelled("web"), owned("rs", "web"), &["web"]),
            (
                "released",
                owned("rs", "web"),
                labelled("api"),
                &["web", "api"],
            ),
            (
                "orphan relabelled",
                labelled("web"),
                labelled("api"),
                &["api"],
            ),
            (
                "orphan otherwise changed",
                labelled("web"),
                labelled("web").replicas(3),
                &[],
            ),
            ("owner unknown", owned("rs", "db"), owned("rs", "db"), &[]),
        ];
        for (why, old, new, expected) in cases {
            let (old, new) = (
                Arc::new(old.build()),
                Arc::new(new.metadata("resourceVersion", "2").build()),
            );
            let keys = replica_set_changed(
                &world(),
                &Change::Updated {
                    old: &old,
                    new: &new,
                },
            );
            assert_eq!(names(keys), expected, "{why}");
        }
        let rs = Arc::new(owned("rs", "web").build());
        let keys = replica_set_changed(&world(), &Change::Updated { old: &rs, new: &rs });
        assert!(keys.is_empty(), "a resync");
    }

    #[test]
    fn the_last_pod_of_a_recreate_deployment_wakes_it() {
        let pod = |name: &str, rs: &str| {
            let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": rs, "uid": format!("uid-of-{rs}"), "controller": true});
            let json = json!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": [owner]}});
            Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
        };
        let foreign = replica_set("foreign").build();
        // (why, recreate, pods left, woken)
        let cases = [
            ("last one", true, vec![], true),
            (
                "another of the same ReplicaSet",
                true,
                vec![pod("p2", "rs-1")],
                false,
            ),
            (
                "another of another ReplicaSet",
                true,
                vec![pod("p2", "rs-2")],
                false,
            ),
            (
                "one of a ReplicaSet that is not its own",
                true,
                vec![pod("p2", "foreign")],
                true,
            ),
            ("rolling", false, vec![], false),
        ];
        for (why, recreate, pods, woken) in cases {
            let web = if recreate {
                deployment("web").recreate()
            } else {
                deployment("web")
            };
            let replica_sets = vec![
                Arc::new(owned("rs-1", "web").build()),
                Arc::new(owned("rs-2", "web").build()),
                Arc::new(foreign.clone()),
            ];
            let world = World {
                deployments: vec![Arc::new(web.build())],
                replica_sets,
                pods,
            };
            assert_eq!(
                pod_deleted(&world, &pod("p1", "rs-1")).is_some(),
                woken,
                "{why}"
            );
            assert_eq!(pod_deleted(&world, &pod("p1", "foreign")), None);
        }
    }

    #[test]
    fn a_deletion_is_seen_at_its_first_sign() {
        let alive = Arc::new(owned("rs", "web").build());
        let going = Arc::new(
            owned("rs", "web")
                .metadata("deletionTimestamp", time(1))
                .build(),
        );
        let orphan = Arc::new(labelled("web").build());
        // (change, seen)
        let cases = [
            (
                Change::Updated {
                    old: &alive,
                    new: &alive,
                },
                false,
            ),
            (
                Change::Updated {
                    old: &alive,
                    new: &going,
                },
                true,
            ),
            (
                Change::Deleted {
                    object: &alive,
                    final_state_unknown: false,
                },
                true,
            ),
            (
                Change::Deleted {
                    object: &orphan,
                    final_state_unknown: false,
                },
                false,
            ),
        ];
        for (change, seen) in cases {
            let expected = seen.then(|| {
                (
                    ObjectKey::new(NAMESPACE, "web"),
                    ObjectKey::new(NAMESPACE, "rs"),
                )
            });
            assert_eq!(deletion(&change), expected, "{change:?}");
        }
    }
}
