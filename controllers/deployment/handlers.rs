//! The Deployments that a change enqueues.
//!
//! - A change of a Deployment enqueues it.
//! - A change of a ReplicaSet enqueues its controller. An orphan enqueues every Deployment whose
//!   selector matches it.
//! - The deletion of the last pod of a Recreate Deployment enqueues it, since its rollout waits for
//!   this deletion.

use std::sync::Arc;

use steersman_objects::{Deployment, Object, ObjectKey, Pod, ReplicaSet, Strategy};
use steersman_runtime::consistency::ConsistencyStore;
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::owner::{ByController, dependent_events, owner_of};
use steersman_runtime::workqueue::WorkQueue;

/// The caches that the controller reads.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) deployments: Store<Deployment>,
    pub(super) replica_sets: ByController<ReplicaSet>,
    pub(super) pods: ByController<Pod>,
}

/// Registers handlers that enqueue keys and count deletions of ReplicaSets down. Pods have a handler for
/// deletions only: any other change shows in the status of a ReplicaSet.
pub(super) fn register(
    deployments: &SharedInformer<Deployment>,
    replica_sets: &SharedInformer<ReplicaSet>,
    pods: &SharedInformer<Pod>,
    queue: &WorkQueue<ObjectKey>,
    consistency: &ConsistencyStore,
) -> Caches {
    let caches = Caches {
        deployments: deployments.store(),
        replica_sets: ByController::of(&replica_sets.store()),
        pods: ByController::of(&pods.store()),
    };
    deployments.add_handler({
        let queue = queue.clone();
        move |change| queue.add(change.object().key())
    });
    replica_sets.add_handler({
        let queue = queue.clone();
        let owners = caches.deployments.clone();
        let consistency = consistency.clone();
        move |change| {
            if let Some((owner, gone)) = deletion(&change) {
                consistency.deletion_observed(&owner, &gone);
            }
            dependent_events(&owners, &change, |event| queue.add(event.owner().key()));
        }
    });
    pods.add_handler({
        let queue = queue.clone();
        let caches = caches.clone();
        move |change| {
            if let Change::Deleted { object, .. } = change
                && let Some(key) = pod_deleted(&caches, object)
            {
                queue.add(key);
            }
        }
    });
    caches
}

/// The key of the controller of a deleted or terminating ReplicaSet, and the key of the ReplicaSet.
///
/// The name alone counts: a Deployment with another UID inherits the expectations of its name.
///
/// A ReplicaSet that terminates counts as deleted, because its deletion was requested.
fn deletion(change: &Change<'_, ReplicaSet>) -> Option<(ObjectKey, ObjectKey)> {
    let rs = change.object();
    let is_going = rs.meta.is_terminating() || matches!(change, Change::Deleted { .. });
    let owner = rs.meta.controller().filter(|_| is_going)?;
    Some((ObjectKey::new(&rs.meta.namespace, &owner.name), rs.key()))
}

/// The key of the Recreate Deployment that lost its last pod with `pod`.
///
/// Upstream's `deletePod` reads the ReplicaSets from the API server, once per pod. The cache is
/// enough here: an additional or early sync does no harm, and the final update of the ReplicaSet's
/// status enqueues the Deployment again.
fn pod_deleted(caches: &Caches, pod: &Pod) -> Option<ObjectKey> {
    let Caches {
        deployments,
        replica_sets,
        pods,
    } = caches;
    let rs = owner_of(replica_sets.store(), &pod.meta)?;
    let d = owner_of(deployments, &rs.meta)?;
    let has_pods = |rs: &Arc<ReplicaSet>| !pods.controlled_by::<ReplicaSet>(&rs.meta).is_empty();
    let is_empty = || {
        let sets = replica_sets.controlled_by::<Deployment>(&d.meta);
        !sets.iter().any(has_pods)
    };
    (d.spec.strategy == Strategy::Recreate && is_empty()).then(|| d.key())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Uid;

    use super::*;
    use crate::testing::{NAMESPACE, ReplicaSetBuilder, deployment, replica_set, time};

    fn caches(
        deployments: Vec<Deployment>,
        replica_sets: Vec<Arc<ReplicaSet>>,
        pods: Vec<Arc<Pod>>,
    ) -> Caches {
        Caches {
            deployments: deployments.into_iter().map(Arc::new).collect(),
            replica_sets: ByController::of(&replica_sets.into_iter().collect()),
            pods: ByController::of(&pods.into_iter().collect()),
        }
    }

    /// Deployments `web` and `api`. Each selects the label `app` with its own name.
    fn deployments() -> Store<Deployment> {
        let build = |name: &str| {
            let selector = json!({"matchLabels": {"app": name}});
            Arc::new(deployment(name).spec("selector", selector).build())
        };
        ["web", "api"].into_iter().map(build).collect()
    }

    /// The names of the Deployments that `change` enqueues.
    fn enqueued(deployments: &Store<Deployment>, change: &Change<'_, ReplicaSet>) -> Vec<String> {
        let mut names = Vec::new();
        dependent_events(deployments, change, |event| {
            names.push(event.owner().meta.name.to_string());
        });
        names
    }

    fn added(rs: &Arc<ReplicaSet>) -> Change<'_, ReplicaSet> {
        Change::Added {
            object: rs,
            initial: false,
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

    #[test]
    fn added_or_deleted_replica_set_enqueues_its_deployment() {
        // (why, ReplicaSet, enqueued when added, enqueued when deleted)
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
            ("orphan without a match", labelled("db"), &[], &[]),
        ];
        for (why, rs, when_added, when_deleted) in cases {
            let deployments = deployments();
            let rs = Arc::new(rs.build());
            let names = enqueued(&deployments, &added(&rs));
            assert_eq!(names, when_added, "{why}, added");
            let change = Change::Deleted {
                object: &rs,
                final_state_unknown: true,
            };
            let names = enqueued(&deployments, &change);
            assert_eq!(names, when_deleted, "{why}, deleted");
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
        let deployments: Store<Deployment> = (0..3).map(named).collect();
        for i in 0..5 {
            let labels = json!({"app": format!("test-{i}"), "label": format!("label-{i}")});
            let rs = Arc::new(replica_set("rs").metadata("labels", labels).build());
            let expected: Vec<String> = (i < 3)
                .then(|| format!("deployment-{i}"))
                .into_iter()
                .collect();
            assert_eq!(
                enqueued(&deployments, &added(&rs)),
                expected,
                "GetDeploymentsForReplicaSet for rs-{i}"
            );
        }
    }

    #[test]
    fn an_empty_selector_and_no_labels_match_nothing() {
        let everything = deployment("all").spec("selector", json!({})).build();
        let all = Store::from_iter([Arc::new(everything)]);
        let web = Arc::new(labelled("web").build());
        assert!(enqueued(&all, &added(&web)).is_empty());
        let bare = Arc::new(replica_set("rs").metadata("labels", json!({})).build());
        assert!(enqueued(&deployments(), &added(&bare)).is_empty());
    }

    #[test]
    fn updated_replica_set_enqueues_old_and_new_deployment() {
        // (why, old, new, enqueued)
        let cases: [(&str, ReplicaSetBuilder, ReplicaSetBuilder, &[&str]); 8] = [
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
                "released while terminating",
                owned("rs", "web").metadata("deletionTimestamp", time(1)),
                labelled("web").metadata("deletionTimestamp", time(1)),
                &["web"],
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
            let old = Arc::new(old.build());
            let new = Arc::new(new.metadata("resourceVersion", "2").build());
            let change = Change::Updated {
                old: &old,
                new: &new,
            };
            assert_eq!(enqueued(&deployments(), &change), expected, "{why}");
        }
        let rs = Arc::new(owned("rs", "web").build());
        let resync = Change::Updated { old: &rs, new: &rs };
        assert!(enqueued(&deployments(), &resync).is_empty(), "a resync");
    }

    #[test]
    fn deletion_of_the_last_pod_enqueues_its_recreate_deployment() {
        let pod = |name: &str, rs: &str| {
            let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": rs, "uid": format!("uid-of-{rs}"), "controller": true});
            let json = json!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": [owner]}});
            Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
        };
        let foreign = replica_set("foreign").build();
        // (why, recreate, remaining pods, enqueued)
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
        for (why, recreate, pods, enqueued) in cases {
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
            let caches = caches(vec![web.build()], replica_sets, pods);
            let found = pod_deleted(&caches, &pod("p1", "rs-1"));
            assert_eq!(found.is_some(), enqueued, "{why}");
            assert_eq!(pod_deleted(&caches, &pod("p1", "foreign")), None);
        }
    }

    #[test]
    fn deletion_is_observed_at_the_deletion_timestamp() {
        let alive = Arc::new(owned("rs", "web").build());
        let going = Arc::new(
            owned("rs", "web")
                .metadata("resourceVersion", "2")
                .metadata("deletionTimestamp", time(1))
                .build(),
        );
        let changed = Arc::new(owned("rs", "web").metadata("resourceVersion", "2").build());
        let orphan = Arc::new(labelled("web").build());
        // (change, observed as a deletion)
        let cases = [
            (
                Change::Updated {
                    old: &alive,
                    new: &changed,
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
        for (change, is_deletion) in cases {
            let expected = is_deletion.then(|| {
                let key = |name| ObjectKey::new(NAMESPACE, name);
                (key("web"), key("rs"))
            });
            assert_eq!(deletion(&change), expected, "{change:?}");
        }
    }
}
