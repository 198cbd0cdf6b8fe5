//! Workloads: the ones that would make pods which are missing, and the maker of a pod.

use serde_json::Value;
use steersman_values::resource::{
    DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, ResourceType, STATEFUL_SETS,
};

use crate::{Doc, World};

/// The types whose objects keep pods running.
static KINDS: [&ResourceType; 5] = [
    &DEPLOYMENTS,
    &STATEFUL_SETS,
    &DAEMON_SETS,
    &REPLICA_SETS,
    &REPLICATION_CONTROLLERS,
];

/// A workload with its type.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'w> {
    /// The type.
    pub of: &'static ResourceType,
    /// The object.
    pub doc: &'w Doc,
}

impl Workload<'_> {
    /// `Deployment web`.
    pub fn short(&self) -> String {
        format!("{} {}", self.of.kind, self.doc.name())
    }

    /// `Deployment default/web`.
    pub fn long(&self) -> String {
        format!(
            "{} {}/{}",
            self.of.kind,
            self.doc.namespace(),
            self.doc.name()
        )
    }

    /// The wanted number of pods. `None` for a DaemonSet, which has one on each node.
    pub fn replicas(&self) -> Option<i64> {
        let replicas = self.doc.at("/spec/replicas").and_then(Value::as_i64);
        (self.of != &DAEMON_SETS).then_some(replicas.unwrap_or(1))
    }
}

/// The workloads of `namespace` that are meant, without those that another one controls and those that
/// are being deleted. `None` if one of the types is unread or may not be read: the maker of the pods may be
/// among its objects.
pub fn workloads<'w>(
    world: &'w World,
    namespace: &str,
    is_meant: impl Fn(&Doc) -> bool,
) -> Option<Vec<Workload<'w>>> {
    let lists = KINDS.map(|of| Some((of, world.within(of, namespace)?)));
    let mut found = Vec::new();
    for list in lists {
        let (of, docs) = list?;
        let meant = docs.into_iter().filter(|doc| {
            let mut owners = doc.items("/metadata/ownerReferences").iter();
            let is_owned = owners.any(|owner| owner["controller"] == true);
            !is_owned && doc.deleted().is_none() && is_meant(doc)
        });
        found.extend(meant.map(|doc| Workload { of, doc }));
    }
    Some(found)
}

/// The owner reference of `doc` with `controller: true`.
pub(crate) fn controller(doc: &Doc) -> Option<&Value> {
    let mut owners = doc.items("/metadata/ownerReferences").iter();
    owners.find(|owner| owner["controller"] == true)
}

/// The object that people edit to change `pod`: `deployment media/thumbnailer`, or the pod itself without a
/// controller. The hash in the name of a ReplicaSet tells its Deployment without a read.
pub fn maker(pod: &Doc) -> String {
    let namespace = pod.namespace();
    let Some(owner) = controller(pod) else {
        return format!("pod {namespace}/{}", pod.name());
    };
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let name = text("name");
    let hash = pod.label("pod-template-hash").unwrap_or_default();
    let deployment = name
        .strip_suffix(hash)
        .and_then(|rest| rest.strip_suffix('-'));
    match deployment {
        Some(deployment) if text("kind") == "ReplicaSet" && !hash.is_empty() => {
            format!("deployment {namespace}/{deployment}")
        }
        _ => format!("{} {namespace}/{name}", text("kind").to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{Explanation, Loaded, Need};

    #[test]
    fn the_maker_of_a_pod_is_the_object_that_people_edit() {
        let pod = |kind: &str, name: &str, hash: &str| {
            Doc::new(json!({"metadata": {
                "namespace": "shop", "name": "web-1", "labels": {"pod-template-hash": hash},
                "ownerReferences": [{"kind": "Other", "name": "x"}, {"kind": kind, "name": name, "controller": true}],
            }}))
        };
        assert_eq!(
            maker(&pod("ReplicaSet", "web-ab1", "ab1")),
            "deployment shop/web"
        );
        assert_eq!(
            maker(&pod("ReplicaSet", "web-ab1", "")),
            "replicaset shop/web-ab1"
        );
        assert_eq!(
            maker(&pod("ReplicaSet", "web", "ab1")),
            "replicaset shop/web"
        );
        assert_eq!(maker(&pod("Job", "web-ab1", "ab1")), "job shop/web-ab1");
        let bare = Doc::new(json!({"metadata": {"namespace": "shop", "name": "web-1"}}));
        assert_eq!(maker(&bare), "pod shop/web-1");
    }

    #[test]
    fn workloads_are_known_only_with_all_types() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let of_type = |of: &ResourceType| Need::List {
            of: of.clone(),
            namespace: "shop".to_owned(),
            fields: String::new(),
        };
        let named = |world: &World| {
            let found = workloads(world, "shop", |_| true)?;
            let texts = found.iter();
            let texts = texts.map(|one| format!("{} {:?}", one.long(), one.replicas()));
            Some(texts.collect::<Vec<_>>())
        };
        assert_eq!(named(&world), None);
        assert_eq!(world.take_asked().len(), KINDS.len());
        let doc = |name: &str, controller: bool, deleted: Option<&str>| {
            Doc::new(json!({
                "metadata": {"namespace": "shop", "name": name, "deletionTimestamp": deleted,
                    "ownerReferences": [{"controller": controller}]},
                "spec": {"replicas": 0},
            }))
        };
        for of in KINDS {
            let gone = doc("gone", false, Some("2026-01-01T00:00:00Z"));
            let docs = vec![doc("own", false, None), doc("owned", true, None), gone];
            world.load(of_type(of), Loaded::Objects(docs));
        }
        let expected = [
            "Deployment shop/own Some(0)",
            "StatefulSet shop/own Some(0)",
            "DaemonSet shop/own None",
            "ReplicaSet shop/own Some(0)",
            "ReplicationController shop/own Some(0)",
        ];
        assert_eq!(named(&world).unwrap(), expected);
        world.load(of_type(&DAEMON_SETS), Loaded::Denied);
        assert_eq!(named(&world), None);
    }
}
