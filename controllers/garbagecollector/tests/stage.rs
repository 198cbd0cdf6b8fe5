//! A collector under step-by-step control, for upstream's test cases.
//!
//! A case loads objects into the API server and applies events to the graph itself. One worker
//! processes one key at a time. No informer runs, so each case fixes the order of events.

use std::sync::Arc;

use steersman_client::discovery::discover;
use steersman_objects::{CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::workers::Syncer;
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

use super::*;
use crate::garbagecollector::coordinates::Coordinates;
use crate::garbagecollector::graph::{Effects, Graph, NodeKey, Seen};
use crate::garbagecollector::sync::{Collector, Deleting};

/// Type, namespace, name and UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
);

impl Id {
    fn coordinates(self) -> Coordinates {
        let Self(api_version, kind, namespace, name, uid) = self;
        let kind = kind.into();
        let api_version = api_version.into();
        let namespace = namespace.into();
        Coordinates {
            kind,
            api_version,
            namespace,
            name: Arc::from(name),
            uid: Uid::new(uid),
        }
    }

    fn reference(self) -> OwnerReference {
        let Self(api_version, kind, _, name, uid) = self;
        let api_version = api_version.into();
        let kind = kind.into();
        let name = name.into();
        OwnerReference {
            api_version,
            kind,
            name,
            uid: Uid::new(uid),
            controller: false,
            block_owner_deletion: false,
        }
    }

    /// The metadata that an informer shows. With resource version 0, live reads decide, as they
    /// always do upstream.
    fn meta(self, owners: &[Self], resource_version: u64) -> Meta {
        let references: Vec<OwnerReference> =
            owners.iter().map(|owner| owner.reference()).collect();
        let Coordinates {
            namespace,
            name,
            uid,
            ..
        } = self.coordinates();
        let labels = Labels::default();
        let finalizers = CollectorFinalizers::default();
        let created = None;
        let deleted = None;
        let owners = Owners::new(&references);
        Meta {
            namespace,
            name,
            uid,
            resource_version,
            generation: 0,
            created,
            deleted,
            labels,
            owners,
            finalizers,
        }
    }

    /// The stored object.
    pub(super) fn object(self, owners: &[Self]) -> Value {
        let Self(api_version, kind, namespace, name, uid) = self;
        let reference = |Self(api_version, kind, _, name, uid): &Self| json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
        let owners: Vec<Value> = owners.iter().map(reference).collect();
        json!({"apiVersion": api_version, "kind": kind, "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "ownerReferences": owners,
        }})
    }
}

/// An expected node of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node {
    /// An informer has shown the object.
    Observed(Id),
    /// Only references name the object.
    Virtual(Id),
}

/// An event, an action or an assertion of a case.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// An informer shows an object with these owners.
    Observe(Id, &'static [Id]),
    /// An informer shows a stored object of this plural, in its current version.
    ObserveStored(&'static str, Id, &'static [Id]),
    /// An informer no longer shows an object, which had these owners.
    Remove(Id, &'static [Id]),
    /// The API server deletes the object; the text is its plural.
    Delete(&'static str, Id),
    /// The graph gets a proof of absence. The live read behind it happened earlier.
    Absent(Id),
    /// The worker processes the next key, which has this UID, and sends these requests.
    Process(Id, &'static [&'static str]),
    /// The graph has exactly these nodes.
    Nodes(&'static [Node]),
    /// The cache of absent owners contains these.
    KnownAbsent(&'static [Id]),
    /// The Events about this object so far have these messages.
    Events(Id, &'static [&'static str]),
    /// From now on the queue only retries these.
    OnlyRetries(&'static [Id]),
}

use Step::{
    Absent, Delete, Events, KnownAbsent, Nodes, Observe, ObserveStored, OnlyRetries, Process,
    Remove,
};

/// A cluster, and a collector without informers and workers.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) collector: Arc<Collector>,
    /// Owns the task that sends Events.
    _context: ControllerContext,
}

impl Stage {
    /// A cluster with these objects and the namespaces `ns1` and `ns2`. Discovery has run, and the
    /// graph is empty.
    pub(super) async fn new(objects: &[(Id, &[Id])]) -> Self {
        let world = World::bare().await;
        for name in ["ns1", "ns2"] {
            world
                .create(
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
                )
                .await;
        }
        for (id, owners) in objects {
            world.cluster.load(id.object(owners)).unwrap();
        }
        let context = world.context();
        let collector = crate::garbagecollector::collector(&context);
        collector
            .kinds
            .update(&discover(&(world.clients)("tester")).await.unwrap());
        world.clear_requests();
        Self {
            world,
            collector: Arc::new(collector),
            _context: context,
        }
    }

    /// Performs one step of a case.
    pub(super) async fn take(&self, step: Step) {
        match step {
            Observe(id, owners) => self.observe(id, &id.meta(owners, 0)),
            ObserveStored(plural, id, owners) => {
                let version = self.stored_version(plural, id);
                self.observe(id, &id.meta(owners, version));
            }
            Remove(id, owners) => self.tell(id, &id.meta(owners, 0), Graph::removed),
            Delete(plural, id) => {
                self.world
                    .cluster
                    .delete(&self.world.cluster.path(plural, id.2, id.3))
                    .await
                    .unwrap();
                self.world.clear_requests();
            }
            Absent(id) => self
                .collector
                .apply(|graph| graph.proven_absent(&id.coordinates())),
            Process(id, requests) => {
                let processed = self.process().await;
                assert_eq!(processed, Some(id.4.to_owned()));
                assert_eq!(self.requests(), requests, "for {processed:?}");
            }
            Nodes(nodes) => {
                let expected = nodes.iter().map(|node| match node {
                    Node::Observed(id) => id.coordinates().to_string(),
                    Node::Virtual(id) => format!("({})", id.coordinates()),
                });
                assert_eq!(self.nodes(), sorted(expected.collect()));
            }
            KnownAbsent(ids) => {
                let mut graph = self.collector.graph();
                assert!(
                    ids.iter()
                        .all(|id| graph.absent.contains(&id.coordinates())),
                    "{ids:?}"
                );
            }
            Events(id, messages) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let events = self.world.state().events_about(id.3);
                let expected: Vec<_> = messages
                    .iter()
                    .map(|m| ("OwnerRefInvalidNamespace".to_owned(), (*m).to_owned()))
                    .collect();
                assert_eq!(events, expected);
                self.world.clear_requests();
            }
            OnlyRetries(ids) => {
                for _ in 0..2 * ids.len() + 1 {
                    let Some(uid) = self.process().await else {
                        break;
                    };
                    assert!(ids.iter().any(|id| id.4 == uid), "{uid} is retried");
                }
            }
        }
    }

    fn observe(&self, id: Id, meta: &Meta) {
        self.tell(id, meta, |graph, seen| graph.observe(seen, None));
    }

    fn stored_version(&self, plural: &str, id: Id) -> u64 {
        let stored = self.world.cluster.objects(plural);
        let stored = stored
            .iter()
            .find(|stored| stored["metadata"]["uid"] == id.4);
        let version = stored.unwrap()["metadata"]["resourceVersion"].as_str();
        version.unwrap().parse().unwrap()
    }

    /// Applies an informer's change to the graph.
    fn tell(&self, id: Id, meta: &Meta, change: impl FnOnce(&mut Graph, Seen<'_>) -> Effects) {
        let api_version = Sym::new(id.0);
        let kind = Sym::new(id.1);
        self.collector.apply(|graph| {
            change(
                graph,
                Seen {
                    api_version: &api_version,
                    kind: &kind,
                    meta,
                },
            )
        });
    }

    /// The key of a node of the graph.
    pub(super) fn key_of(&self, id: Id) -> NodeKey {
        let uid = Uid::new(id.4);
        self.collector
            .graph()
            .iter()
            .map(|(node, ..)| node.key)
            .find(|key| key.uid == uid)
            .unwrap()
    }

    /// Processes this node now, whatever the queue holds.
    pub(super) async fn sync(&self, id: Id) {
        let deleting = Deleting(Arc::clone(&self.collector));
        deleting.sync(&self.key_of(id)).await.unwrap();
    }

    /// Processes the next key and returns its UID; `None` if the queue stays empty for a minute.
    pub(super) async fn process(&self) -> Option<String> {
        let queue = &self.collector.to_delete;
        let item = tokio::time::timeout(A_WHILE, queue.get())
            .await
            .ok()?
            .unwrap();
        match Deleting(Arc::clone(&self.collector)).sync(&item.key).await {
            Ok(_) => queue.forget(&item.key),
            Err(_) => queue.add_rate_limited(item.key.clone()),
        }
        Some(item.key.uid.to_string())
    }

    /// All requests since the last call: verb, resource, name and status code.
    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.world.cluster.requests();
        self.world.clear_requests();
        requests
            .iter()
            .map(|r| {
                format!(
                    "{} {}/{} {}",
                    r.verb,
                    r.resource,
                    r.path.rsplit('/').next().unwrap(),
                    r.status
                )
            })
            .collect()
    }

    fn nodes(&self) -> Vec<String> {
        let graph = self.collector.graph();
        let shown = graph.iter().map(|(node, ..)| {
            if node.is_virtual {
                format!("({})", node.coordinates)
            } else {
                node.coordinates.to_string()
            }
        });
        sorted(shown.collect())
    }
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}
