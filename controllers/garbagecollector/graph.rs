//! The graph of owners and dependents, and the keys to enqueue after each change.
//!
//! changes of metadata, proofs of absence -> graph -> [`Effects`]
//!
//! The graph contains every observed object, and every owner that a reference names. An owner that
//! no informer has shown is a *virtual* node; its coordinates come from one of the references.
//!
//! The graph only selects the objects to check; it performs no IO. It may be wrong or outdated,
//! because each deletion follows a live read. Upstream: `graph.go`,
//! `graph_builder.go`.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use steersman_objects::{CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use steersman_values::capacity::{ReleaseSpare, RemoveAndRelease, spare};
use steersman_values::intern::Sym;

use super::absent::AbsentOwners;
use super::coordinates::Coordinates;
use super::dependents::{Dependents, Slot};
use super::unseen::Reference;

/// The key of a node in the queues.
///
/// When the coordinates of a virtual node change, it gets a new incarnation. Queued work for the
/// old coordinates then finds no node, and the back-off starts again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NodeKey {
    /// UID of the object.
    pub(super) uid: Uid,
    /// Number of the node or of its latest coordinates. Upstream makes a new node for this, whose
    /// address is the key.
    incarnation: u32,
}

impl std::fmt::Display for NodeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.uid.fmt(f)
    }
}

/// An object as an informer shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Group and version of the watched type.
    pub(super) api_version: &'a Sym,
    /// Kind of the watched type.
    pub(super) kind: &'a Sym,
    /// Metadata of the object.
    pub(super) meta: &'a Meta,
}

impl Seen<'_> {
    fn coordinates(&self) -> Coordinates {
        Coordinates {
            kind: self.kind.clone(),
            api_version: self.api_version.clone(),
            namespace: self.meta.namespace.clone(),
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
        }
    }
}

/// The consequences of a change of the graph.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// Nodes for the queue `attempt_to_delete`.
    pub(super) delete: Vec<NodeKey>,
    /// Nodes for the same queue, after a back-off. It slows down the checks of an owner that is
    /// absent under each of its claimed identities.
    pub(super) delete_later: Vec<NodeKey>,
    /// Nodes for the queue `attempt_to_orphan`.
    pub(super) orphan: Vec<NodeKey>,
    /// Dependents with a reference to an owner in another namespace; each gets an Event.
    pub(super) out_of_reach: Vec<(Coordinates, OwnerReference)>,
}

/// A node as workers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeView {
    /// Key for the queues.
    pub(super) key: NodeKey,
    /// Identity of the object.
    pub(super) coordinates: Coordinates,
    /// Whether only references name the object, and no informer has shown it.
    pub(super) is_virtual: bool,
    /// Whether the object has a deletion timestamp.
    pub(super) being_deleted: bool,
    /// Whether its foreground deletion waits for its dependents. Once set it stays, since a
    /// deletion cannot be taken back.
    pub(super) deleting_dependents: bool,
}

/// The last state of an object in its informer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// Its resource version.
    pub(super) version: u64,
    /// Its owner references.
    pub(super) owners: Owners,
    /// The finalizers of the garbage collector that it has.
    pub(super) finalizers: CollectorFinalizers,
}

struct Node {
    coordinates: Coordinates,
    owners: Owners,
    dependents: Dependents,
    /// Resource version of the last change in the informer; 0 for a virtual node.
    version: u64,
    finalizers: CollectorFinalizers,
    incarnation: u32,
    is_virtual: bool,
    being_deleted: bool,
    deleting_dependents: bool,
}

impl Node {
    fn new(coordinates: Coordinates, owners: Owners, incarnation: u32) -> Self {
        let being_deleted = false;
        let deleting_dependents = false;
        Self {
            coordinates,
            owners,
            dependents: Dependents::default(),
            version: 0,
            finalizers: CollectorFinalizers::default(),
            incarnation,
            is_virtual: false,
            being_deleted,
            deleting_dependents,
        }
    }

    fn key(&self) -> NodeKey {
        NodeKey {
            uid: self.coordinates.uid.clone(),
            incarnation: self.incarnation,
        }
    }

    fn view(&self) -> NodeView {
        NodeView {
            key: self.key(),
            coordinates: self.coordinates.clone(),
            is_virtual: self.is_virtual,
            being_deleted: self.being_deleted,
            deleting_dependents: self.deleting_dependents,
        }
    }

    /// One blocking reference to the owner is enough.
    fn blocks(&self, owner: &Uid) -> bool {
        self.owners
            .iter()
            .any(|reference| reference.uid == *owner && reference.block_owner_deletion)
    }

    /// Whether a reference of this node matches `owner`, and whether a reference to the same UID
    /// does not match it. Upstream: `partitionDependents`.
    fn matches_and_differs(&self, owner: &Coordinates) -> (bool, bool) {
        if owner.is_out_of_reach_of(&self.coordinates.namespace) {
            return (false, true);
        }
        let to_uid = || {
            self.owners
                .iter()
                .filter(|reference| reference.uid == owner.uid)
        };
        (
            to_uid().any(|r| owner.matches(r)),
            to_uid().any(|r| !owner.matches(r)),
        )
    }
}

/// The hash of the node at `slot` in the table of slots, which contains exactly those with a node.
fn hash(nodes: &[Option<Box<Node>>], hasher: &RandomState, slot: Slot) -> u64 {
    let node = nodes[slot as usize].as_ref();
    node.map_or(0, |node| hasher.hash_one(&node.coordinates.uid))
}

/// The graph of owners and dependents.
#[derive(Default)]
pub(super) struct Graph {
    /// Nodes by slot; `None` for free slots.
    nodes: Vec<Option<Box<Node>>>,
    free: Vec<Slot>,
    /// Slots by the UID of their node. The table does not store the UID, which takes as much memory
    /// as six slots.
    slots: HashTable<Slot>,
    hasher: RandomState,
    /// Dependents of removed nodes, by the UID of the removed owner.
    ///
    /// After an etcd restore an informer may show the owner again. An entry lasts until its
    /// dependents are removed or change their references.
    removed_owners: HashMap<Uid, Dependents>,
    incarnations: u32,
    /// Owners that the API server reported as absent.
    pub(super) absent: AbsentOwners,
}

impl Graph {
    /// Applies an added or updated object; `old` is its previous state in the informer.
    ///
    /// The first sight of an object may combine its creation and deletion, so `old` may be missing
    /// for a terminating object. Upstream: the cases of added and updated objects in
    /// `processGraphChanges`.
    pub(super) fn observe(&mut self, seen: Seen<'_>, old: Option<&Meta>) -> Effects {
        let meta = seen.meta;
        let mut effects = Effects::default();
        // An object of a former history may be back, after an etcd restore.
        self.absent.remove(&seen.coordinates());
        let slot = match self.slot(&meta.uid) {
            Some(slot) => {
                self.identify(slot, seen.coordinates(), &mut effects);
                self.change_owners(slot, &meta.owners, &mut effects);
                slot
            }
            None => {
                let incarnation = self.next_incarnation();
                let mut node = Node::new(seen.coordinates(), meta.owners.clone(), incarnation);
                // The deletion may have begun before this node existed.
                node.deleting_dependents = meta.is_terminating() && meta.finalizers.foreground;
                let slot = self.insert(node);
                self.link(slot, &meta.owners.clone(), &mut effects);
                slot
            }
        };
        let node = self.node_mut(slot);
        // A deletion is final, so the flag never returns to false.
        node.being_deleted |= meta.is_terminating();
        node.version = meta.resource_version;
        node.finalizers = meta.finalizers;
        self.start_deletion(slot, old, meta, &mut effects);
        effects
    }

    /// Notes the version after an update that changed no other field of the node. A deletion with an
    /// older version as its precondition would be refused.
    pub(super) fn note_version(&mut self, uid: &Uid, version: u64) {
        if let Some(slot) = self.slot(uid) {
            self.node_mut(slot).version = version;
        }
    }

    /// Applies the deletion of an object from an informer. Upstream: the case of deleted objects in
    /// `processGraphChanges`, for an event of an informer.
    pub(super) fn removed(&mut self, seen: Seen<'_>) -> Effects {
        let mut effects = Effects::default();
        if let Some(slot) = self.slot(&seen.meta.uid) {
            self.identify(slot, seen.coordinates(), &mut effects);
            self.remove(slot, seen.coordinates(), &mut effects);
        }
        effects
    }

    /// Applies the answer of the API server that no object has these coordinates.
    ///
    /// An observed node or a virtual node with other claims stays. Dependents that refer to these
    /// coordinates are enqueued, and a virtual node gets its next possible identity. Upstream: the
    /// same case for the event of `enqueueVirtualDeleteEvent`.
    pub(super) fn proven_absent(&mut self, gone: &Coordinates) -> Effects {
        let mut effects = Effects::default();
        let Some(slot) = self.slot(&gone.uid) else {
            return effects;
        };
        let (matching, differing) = self.partition(slot, gone);
        let node = self.node(slot);
        // A reference may claim a wrong type or name for a living object. The absence of that claim
        // proves nothing about an observed object with other coordinates.
        let is_this = node.coordinates == *gone;
        let stays = if node.is_virtual {
            !differing.is_empty()
        } else {
            !is_this
        };
        if !stays {
            self.remove(slot, gone.clone(), &mut effects);
            return effects;
        }
        let is_virtual = node.is_virtual;
        if !matching.is_empty() {
            self.absent.insert(gone);
            effects
                .delete
                .extend(matching.iter().map(|slot| self.node(*slot).key()));
        }
        if is_virtual
            && is_this
            && let Some(other) = gone.alternate(self.claims(&differing))
        {
            let incarnation = self.next_incarnation();
            let node = self.node_mut(slot);
            node.coordinates = other;
            node.incarnation = incarnation;
            effects.delete_later.push(node.key());
        }
        effects
    }

    /// The node of `key`; `None` if it was removed or has a new incarnation.
    pub(super) fn get(&self, key: &NodeKey) -> Option<NodeView> {
        self.found(key).map(Node::view)
    }

    /// The last state of the object in its informer. `None` for a virtual node, and for an object
    /// without a resource version.
    pub(super) fn observed(&self, key: &NodeKey) -> Option<Observed> {
        let node = self
            .found(key)
            .filter(|node| !node.is_virtual && node.version > 0)?;
        Some(Observed {
            version: node.version,
            owners: node.owners.clone(),
            finalizers: node.finalizers,
        })
    }

    /// The nodes that refer to this one.
    pub(super) fn dependents(&self, key: &NodeKey) -> Vec<NodeView> {
        self.dependents_where(key, |_| true)
    }

    /// The dependents with `blockOwnerDeletion` in their reference to this node. Upstream:
    /// `blockingDependents`.
    pub(super) fn blocking_dependents(&self, key: &NodeKey) -> Vec<NodeView> {
        self.dependents_where(key, |node| node.blocks(&key.uid))
    }

    /// The identities of the dependents that block the deletion of the object with this UID.
    pub(super) fn blockers(&self, uid: &Uid) -> Vec<Coordinates> {
        let Some(slot) = self.slot(uid) else {
            return Vec::new();
        };
        let dependents = self.node(slot).dependents.iter();
        dependents
            .map(|slot| self.node(slot))
            .filter(|node| node.blocks(uid))
            .map(|node| node.coordinates.clone())
            .collect()
    }

    /// Whether the graph has this reference. A blocking reference counts as missing if the graph
    /// has it as a non-blocking one.
    pub(super) fn knows(
        &self,
        Reference {
            dependent,
            owner,
            blocks,
        }: Reference<'_>,
    ) -> bool {
        let is_it =
            |known: &OwnerReference| known.uid == *owner && known.block_owner_deletion >= blocks;
        self.slot(dependent)
            .is_some_and(|slot| self.node(slot).owners.iter().any(is_it))
    }

    /// Whether the node has dependents, and whether one of them waits for its own dependents. The
    /// second answer has false positives, as in upstream: a waiting dependent need not be in a
    /// cycle.
    pub(super) fn about_dependents(&self, uid: &Uid) -> (bool, bool) {
        let Some(node) = self.slot(uid).map(|slot| self.node(slot)) else {
            return (false, false);
        };
        let one_waits = node
            .dependents
            .iter()
            .any(|slot| self.node(slot).deleting_dependents);
        (!node.dependents.is_empty(), one_waits)
    }

    /// The node of the object, its owners, and the UIDs of its dependents.
    pub(super) fn around(&self, uid: &Uid) -> Option<(NodeView, &Owners, Vec<Uid>)> {
        let node = self.node(self.slot(uid)?);
        let dependents = node.dependents.iter();
        let dependents = dependents.map(|slot| self.node(slot).coordinates.uid.clone());
        Some((node.view(), &node.owners, dependents.collect()))
    }

    /// Every node with its owners, and whether it has dependents; unordered.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeView, &Owners, bool)> {
        self.nodes
            .iter()
            .flatten()
            .map(|node| (node.view(), &node.owners, !node.dependents.is_empty()))
    }

    /// The number of nodes for which its largest collection has room.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        let nodes = self.nodes.capacity().max(self.free.capacity());
        nodes.max(self.slots.capacity())
    }

    fn found(&self, key: &NodeKey) -> Option<&Node> {
        let slot = self.slot(&key.uid)?;
        Some(self.node(slot)).filter(|node| node.incarnation == key.incarnation)
    }

    fn dependents_where(&self, key: &NodeKey, wanted: impl Fn(&Node) -> bool) -> Vec<NodeView> {
        let Some(node) = self.found(key) else {
            return Vec::new();
        };
        node.dependents
            .iter()
            .map(|slot| self.node(slot))
            .filter(|node| wanted(node))
            .map(Node::view)
            .collect()
    }

    fn slot(&self, uid: &Uid) -> Option<Slot> {
        let is_it = |slot: &Slot| self.node(*slot).coordinates.uid == *uid;
        self.slots.find(self.hasher.hash_one(uid), is_it).copied()
    }

    fn node(&self, slot: Slot) -> &Node {
        self.nodes[slot as usize]
            .as_ref()
            .expect("slots in use hold a node")
    }

    fn node_mut(&mut self, slot: Slot) -> &mut Node {
        self.nodes[slot as usize]
            .as_mut()
            .expect("slots in use hold a node")
    }

    fn next_incarnation(&mut self) -> u32 {
        self.incarnations = self.incarnations.wrapping_add(1);
        self.incarnations
    }

    /// Stores a node. It takes over the dependents that an earlier node of its UID left behind.
    fn insert(&mut self, mut node: Node) -> Slot {
        let uid = node.coordinates.uid.clone();
        node.dependents = self.removed_owners.remove(&uid).unwrap_or_default();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = Some(Box::new(node));
                slot
            }
            None => {
                self.nodes.push(Some(Box::new(node)));
                Slot::try_from(self.nodes.len() - 1).expect("memory holds fewer than 2^32 nodes")
            }
        };
        let Self {
            nodes,
            slots,
            hasher,
            ..
        } = self;
        slots.insert_unique(hasher.hash_one(&uid), slot, |slot| {
            hash(nodes, hasher, *slot)
        });
        slot
    }

    /// Takes a node out of the tables. Its edges are the matter of the caller.
    fn free(&mut self, slot: Slot) -> Box<Node> {
        let node = self.nodes[slot as usize]
            .take()
            .expect("slots in use hold a node");
        if let Ok(entry) = self
            .slots
            .find_entry(self.hasher.hash_one(&node.coordinates.uid), |known| {
                *known == slot
            })
        {
            entry.remove();
        }
        self.free.push(slot);
        // Only at each halving, since the search for the end takes time.
        if self.slots.len().is_power_of_two() {
            self.release_spare();
        }
        node
    }

    /// Gives the memory behind the last node back, as after a burst.
    fn release_spare(&mut self) {
        let end = self.nodes.iter().rposition(Option::is_some);
        self.nodes.truncate(end.map_or(0, |last| last + 1));
        let end = self.nodes.len();
        self.free.retain(|slot| (*slot as usize) < end);
        self.nodes.release_spare();
        self.free.release_spare();
        if let Some(capacity) = spare(self.slots.len(), self.slots.capacity()) {
            let nodes = &self.nodes;
            let hasher = &self.hasher;
            self.slots
                .shrink_to(capacity, |slot| hash(nodes, hasher, *slot));
        }
    }

    /// Sets the observed coordinates of a node. Dependents with a different reference are enqueued;
    /// this covers references that arrived before their owner. Upstream replaces the identity of
    /// virtual nodes only. An observed node changes here when a CRD moves to another version, for
    /// example.
    fn identify(&mut self, slot: Slot, observed: Coordinates, effects: &mut Effects) {
        let node = self.node(slot);
        let was_virtual = node.is_virtual;
        if node.coordinates != observed {
            let (_, differing) = self.partition(slot, &observed);
            for dependent in differing {
                let dependent = self.node(dependent);
                if observed.is_out_of_reach_of(&dependent.coordinates.namespace) {
                    out_of_reach(dependent, &observed.uid, effects);
                }
                effects.delete.push(dependent.key());
            }
            // An observed node keeps its key, because a queue may contain it.
            let incarnation = if was_virtual {
                self.next_incarnation()
            } else {
                self.node(slot).incarnation
            };
            let node = self.node_mut(slot);
            node.coordinates = observed;
            node.incarnation = incarnation;
        }
        self.node_mut(slot).is_virtual = false;
    }

    /// The dependents with a reference that matches `owner`, and those with one that does not. A
    /// dependent with several references to the UID may be in both lists.
    fn partition(&self, slot: Slot, owner: &Coordinates) -> (Vec<Slot>, Vec<Slot>) {
        let mut matching = Vec::new();
        let mut differing = Vec::new();
        for dependent in self.node(slot).dependents.iter() {
            let (agrees, differs) = self.node(dependent).matches_and_differs(owner);
            if agrees {
                matching.push(dependent);
            }
            if differs {
                differing.push(dependent);
            }
        }
        (matching, differing)
    }

    /// The owner references of these nodes, each with the namespace of its node.
    fn claims(&self, slots: &[Slot]) -> impl Iterator<Item = (&Sym, &OwnerReference)> {
        let nodes = slots.iter().map(|slot| self.node(*slot));
        nodes.flat_map(|node| {
            node.owners
                .iter()
                .map(|owner| (&node.coordinates.namespace, owner))
        })
    }

    /// Replaces the owner references of a node. Enqueues owners that lose a blocking reference,
    /// because their foreground deletion may now continue. Upstream:
    /// `addUnblockedOwnersToDeleteQueue`.
    fn change_owners(&mut self, slot: Slot, new: &Owners, effects: &mut Effects) {
        let old = self.node(slot).owners.clone();
        if old == *new {
            return;
        }
        // Several references may have the same UID. The last old one is compared with the first
        // new one; the other new ones count as added. Upstream's `referencesDiffs` does the same.
        let mut left: BTreeMap<&Uid, &OwnerReference> =
            old.iter().map(|owner| (&owner.uid, owner)).collect();
        let mut added = Vec::new();
        let mut unblocked = Vec::new();
        for owner in new.iter() {
            match left.remove(&owner.uid) {
                Some(before) if before.block_owner_deletion && !owner.block_owner_deletion => {
                    unblocked.push(&owner.uid)
                }
                Some(_) => {}
                None => added.push(owner.clone()),
            }
        }
        unblocked.extend(
            left.values()
                .filter(|removed| removed.block_owner_deletion)
                .map(|removed| &removed.uid),
        );
        let waiting = unblocked.into_iter().filter_map(|uid| self.slot(uid));
        effects
            .delete
            .extend(waiting.map(|slot| self.node(slot).key()));
        self.node_mut(slot).owners = new.clone();
        self.link(slot, &added, effects);
        left.into_keys().for_each(|uid| self.unlink(slot, uid));
    }

    /// Makes a node a dependent of its owners. Enqueues the node if a reference contradicts the
    /// coordinates of its owner. An unknown owner becomes a virtual node, whose check tells whether
    /// it exists. Upstream: `addDependentToOwners`.
    fn link(&mut self, slot: Slot, owners: &[OwnerReference], effects: &mut Effects) {
        let mut needs_check = false;
        for owner in owners {
            let namespace = self.node(slot).coordinates.namespace.clone();
            let (owner_slot, is_new) = match self.slot(&owner.uid) {
                Some(found) => (found, false),
                None => {
                    let incarnation = self.next_incarnation();
                    let mut node = Node::new(
                        Coordinates::of_owner(owner, &namespace),
                        Owners::new(&[]),
                        incarnation,
                    );
                    node.is_virtual = true;
                    effects.delete.push(node.key());
                    (self.insert(node), true)
                }
            };
            self.node_mut(owner_slot).dependents.insert(slot);
            // The check of a new virtual owner covers its dependents.
            if is_new || needs_check {
                continue;
            }
            let found = self.node(owner_slot);
            if found.coordinates.is_out_of_reach_of(&namespace) {
                if !found.is_virtual {
                    out_of_reach(self.node(slot), &owner.uid, effects);
                }
                needs_check = true;
            } else {
                // A virtual owner without a namespace comes from a cluster-scoped dependent. Its
                // type may be namespaced, so the identity for this dependent is unknown.
                let unproven = found.is_virtual
                    && found.coordinates.namespace.is_empty()
                    && !namespace.is_empty();
                needs_check = unproven || !found.coordinates.matches(owner);
            }
        }
        if needs_check {
            effects.delete.push(self.node(slot).key());
        }
    }

    /// Removes a dependent from its owner. A virtual owner is removed with its last dependent.
    /// Upstream keeps such a virtual node until its check proves its absence.
    fn unlink(&mut self, slot: Slot, owner: &Uid) {
        if let Some(dependents) = self.removed_owners.get_mut(owner) {
            dependents.remove(slot);
            if dependents.is_empty() {
                self.removed_owners.remove_and_release(owner);
            }
        }
        let Some(owner_slot) = self.slot(owner) else {
            return;
        };
        let node = self.node_mut(owner_slot);
        node.dependents.remove(slot);
        if node.is_virtual && node.dependents.is_empty() {
            self.free(owner_slot);
        }
    }

    /// Enqueues the node when its deletion with a collector finalizer begins, so only on the change
    /// that completes timestamp and finalizer. Orphaning has precedence over foreground deletion.
    /// Upstream: `processTransitions` and `deletionStartsWithFinalizer`.
    fn start_deletion(
        &mut self,
        slot: Slot,
        old: Option<&Meta>,
        new: &Meta,
        effects: &mut Effects,
    ) {
        let began = |has: fn(&Meta) -> bool| {
            let is_marked = |meta: &Meta| meta.is_terminating() && has(meta);
            is_marked(new) && !old.is_some_and(is_marked)
        };
        if began(|meta| meta.finalizers.orphan) {
            effects.orphan.push(self.node(slot).key());
        } else if began(|meta| meta.finalizers.foreground) {
            self.node_mut(slot).deleting_dependents = true;
            effects.delete.extend(
                self.node(slot)
                    .dependents
                    .iter()
                    .map(|dependent| self.node(dependent).key()),
            );
            effects.delete.push(self.node(slot).key());
        }
    }

    /// Removes a node. Enqueues its dependents, and those of its owners that wait for their
    /// dependents. Upstream: `removeNode`, and the end of `processGraphChanges`.
    fn remove(&mut self, slot: Slot, coordinates: Coordinates, effects: &mut Effects) {
        let node = self.free(slot);
        if !node.dependents.is_empty() {
            // The check of each dependent then needs no live read of this owner.
            self.absent.insert(&coordinates);
            // A node may be its own owner, and it is removed.
            effects.delete.extend(
                node.dependents
                    .iter()
                    .filter(|other| *other != slot)
                    .map(|other| self.node(other).key()),
            );
            self.removed_owners
                .insert(node.coordinates.uid.clone(), node.dependents);
        }
        for owner in node.owners.iter() {
            if let Some(found) = self.slot(&owner.uid).map(|slot| self.node(slot))
                && found.deleting_dependents
            {
                effects.delete.push(found.key());
            }
            self.unlink(slot, &owner.uid);
        }
    }
}

/// Records a reference to an owner in another namespace, for an Event. Upstream:
/// `reportInvalidNamespaceOwnerRef`.
fn out_of_reach(dependent: &Node, owner: &Uid, effects: &mut Effects) {
    let reference = dependent
        .owners
        .iter()
        .find(|reference| reference.uid == *owner);
    effects
        .out_of_reach
        .extend(reference.map(|reference| (dependent.coordinates.clone(), reference.clone())));
}
