//! A stage for cases of upstream: objects at the API server, a graph that is told what a case says
//! and no more, and one worker that works when the case says so.

use std::sync::Arc;

use steersman_runtime::controller::ControllerContext;
use steersman_runtime::discovery::discover;
use steersman_runtime::intern::Sym;
use steersman_runtime::labels::Labels;
use steersman_runtime::object::{CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use steersman_runtime::workers::Syncer;

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
        let (kind, api_version, namespace) = (kind.into(), api_version.into(), namespace.into());
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
        let (api_version, kind, name) = (api_version.into(), kind.into(), name.into());
        OwnerReference {
            api_version,
            kind,
            name,
            uid: Uid::new(uid),
            controller: false,
            block_owner_deletion: false,
        }
    }

    /// As an informer shows it.
    fn meta(self, owners: &[Self]) -> Meta {
        let references: Vec<OwnerReference> =
            owners.iter().map(|owner| owner.reference()).collect();
        let Coordinates {
            namespace,
            name,
            uid,
            ..
        } = self.coordinates();
        let (labels, finalizers) = (Labels::default(), CollectorFinalizers::default());
        let (created, deleted) = (None, None);
        let owners = Owners::new(&references);
        Meta {
            namespace,
            name,
            uid,
            resource_version: 1,
            generation: 0,
            created,
            deleted,
            labels,
            owners,
            finalizers,
        }
    }

    /// As it is stored.
    pub(super) fn object(self, owners: &[Self]) -> Value {
        let Self(api_version, kind, namespace, name, uid) = self;
        let reference = |Self(api_version, kind, _, name, uid): &Self| json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
        let owners: Vec<Value> = owners.iter().map(reference).collect();
        json!({"apiVersion": api_version, "kind": kind, "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "ownerReferences": owners,
        }})
    }
}

/// A node of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node {
    Known(Id),
    Heard(Id),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// An informer shows an object with these owners.
    See(Id, &'static [Id]),
    /// An informer no longer shows it.
    Lose(Id, &'static [Id]),
    /// The API server no longer has it.
    Unload(&'static str, Id),
    /// The proof that this is absent, found before, comes only now.
    Absent(Id),
    /// The worker takes the next node, which has this UID, and asks for this.
    Work(Id, &'static [&'static str]),
    /// What the graph looks like.
    Looks(&'static [Node]),
    /// These are remembered as absent.
    Remembered(&'static [Id]),
    /// Messages of the Events so far about this object.
    Told(Id, &'static [&'static str]),
    /// From now on the worker only looks at these again and again.
    Rest(&'static [Id]),
}

use Step::{Absent, Looks, Lose, Remembered, Rest, See, Told, Unload, Work};

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) collector: Arc<Collector>,
    /// Owns the task that sends Events.
    _context: ControllerContext,
}

impl Stage {
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
        world.cluster.clear_requests();
        Self {
            world,
            collector: Arc::new(collector),
            _context: context,
        }
    }

    pub(super) async fn take(&self, step: Step) {
        match step {
            See(id, owners) => self.tell(id, owners, |graph, seen| graph.observe(seen, None)),
            Lose(id, owners) => self.tell(id, owners, Graph::removed),
            Unload(plural, id) => {
                self.world
                    .cluster
                    .delete(&self.world.cluster.path(plural, id.2, id.3))
                    .await
                    .unwrap();
                self.world.cluster.clear_requests();
            }
            Absent(id) => self
                .collector
                .apply(|graph| graph.proven_absent(&id.coordinates())),
            Work(id, asked) => {
                let worked = self.work().await;
                assert_eq!(worked, Some(id.4.to_owned()));
                assert_eq!(self.asked(), asked, "about {worked:?}");
            }
            Looks(nodes) => {
                let expected = nodes.iter().map(|node| match node {
                    Node::Known(id) => id.coordinates().to_string(),
                    Node::Heard(id) => format!("({})", id.coordinates()),
                });
                assert_eq!(self.nodes(), sorted(expected.collect()));
            }
            Remembered(ids) => {
                let mut graph = self.collector.graph();
                assert!(
                    ids.iter()
                        .all(|id| graph.absent.contains(&id.coordinates())),
                    "{ids:?}"
                );
            }
            Told(id, messages) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let events = self.world.state().events_about(id.3);
                let expected: Vec<_> = messages
                    .iter()
                    .map(|m| ("OwnerRefInvalidNamespace".to_owned(), (*m).to_owned()))
                    .collect();
                assert_eq!(events, expected);
                self.world.cluster.clear_requests();
            }
            Rest(ids) => {
                for _ in 0..2 * ids.len() + 1 {
                    let Some(uid) = self.work().await else { break };
                    assert!(ids.iter().any(|id| id.4 == uid), "{uid} is looked at again");
                }
            }
        }
    }

    fn tell(&self, id: Id, owners: &[Id], change: impl FnOnce(&mut Graph, Seen<'_>) -> Effects) {
        let (api_version, kind, meta) = (Sym::new(id.0), Sym::new(id.1), id.meta(owners));
        self.collector.apply(|graph| {
            change(
                graph,
                Seen {
                    api_version: &api_version,
                    kind: &kind,
                    meta: &meta,
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

    /// Lets the worker do one thing, if there is any within a minute.
    pub(super) async fn work(&self) -> Option<String> {
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

    pub(super) fn asked(&self) -> Vec<String> {
        let requests = self.world.cluster.requests();
        self.world.cluster.clear_requests();
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
