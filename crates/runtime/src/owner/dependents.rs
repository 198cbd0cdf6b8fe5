//! The owners that a change of a dependent concerns.
//!
//! A change of a dependent concerns the owner that controls it. A change of an orphan concerns
//! every owner whose selector matches it, since that owner may adopt it. Handlers enqueue these
//! owners.
//!
//! Upstream repeats these rules in each workload controller: `addPod`, `updatePod` and `deletePod`
//! of the ReplicaSet controller, `addReplicaSet` and so on of the Deployment controller.

use std::sync::Arc;

use steersman_objects::{Meta, Object, ObjectKey, Selects};
use steersman_values::labels::Selector;

use crate::informer::{Change, Store};

/// The meaning of a change of a dependent for one owner of type `O`.
#[derive(Debug)]
pub enum DependentEvent<O> {
    /// A new dependent of the owner appeared in the cache.
    Created(Arc<O>),
    /// A dependent of the owner was deleted, or is terminating. Both count, because owners replace
    /// terminating dependents.
    Deleted(Arc<O>),
    /// A dependent of the owner changed. The owner counts no expectation down for it.
    Updated(Arc<O>),
    /// A dependent of the owner has another controller reference now, or none. The former owner may
    /// need a replacement.
    Lost(Arc<O>),
    /// An orphan matches the selector of the owner.
    Adoptable(Arc<O>),
}

impl<O> DependentEvent<O> {
    /// The owner that the change concerns.
    pub fn owner(&self) -> &Arc<O> {
        match self {
            Self::Created(owner)
            | Self::Deleted(owner)
            | Self::Updated(owner)
            | Self::Lost(owner)
            | Self::Adoptable(owner) => owner,
        }
    }
}

/// The cached owner of type `O` that controls the object with the metadata `dependent`. Kind, name
/// and UID must match the controller reference. The API group is not compared, as in upstream's
/// `resolveControllerRef`. `None` also covers an owner that the cache lacks.
pub fn owner_of<O: Object>(owners: &Store<O>, dependent: &Meta) -> Option<Arc<O>> {
    let reference = dependent.controller()?;
    if *reference.kind != *O::RESOURCE.kind {
        return None;
    }
    let key = ObjectKey {
        namespace: dependent.namespace.clone(),
        name: Arc::from(&*reference.name),
    };
    owners
        .get(&key)
        .filter(|owner| owner.meta().uid == reference.uid)
}

/// Calls `each` for every owner that `change` concerns, for some owners twice.
pub fn dependent_events<O: Selects, T: Object>(
    owners: &Store<O>,
    change: &Change<'_, T>,
    mut each: impl FnMut(DependentEvent<O>),
) {
    match change {
        Change::Added { object, .. } => added(owners, object.meta(), &mut each),
        // A gap of the watch hid the deletion. Both owners need an event for their expectations.
        Change::Updated { old, new } if old.meta().uid != new.meta().uid => {
            deleted(owners, old.meta(), &mut each);
            added(owners, new.meta(), &mut each);
        }
        // A resync repeats a state that handlers saw before.
        Change::Updated { old, new }
            if old.meta().resource_version == new.meta().resource_version => {}
        Change::Updated { old, new } => updated(owners, old.meta(), new.meta(), &mut each),
        Change::Deleted { object, .. } => deleted(owners, object.meta(), &mut each),
    }
}

fn added<O: Selects>(owners: &Store<O>, new: &Meta, each: &mut impl FnMut(DependentEvent<O>)) {
    if new.is_terminating() {
        // The first sight of a terminating object, after a restart or a gap in the watch.
        deleted(owners, new, each);
    } else if new.controller().is_none() {
        adoptable(owners, new, each);
    } else if let Some(owner) = owner_of(owners, new) {
        each(DependentEvent::Created(owner));
    }
}

/// The rules of upstream's `updatePod`, except that a terminating dependent also wakes the owner that
/// it leaves, as `updateReplicaSet` does.
fn updated<O: Selects>(
    owners: &Store<O>,
    old: &Meta,
    new: &Meta,
    each: &mut impl FnMut(DependentEvent<O>),
) {
    let relabelled = old.labels != new.labels;
    let before = old.controller();
    let after = new.controller();
    let moved = before != after;
    if moved && let Some(owner) = owner_of(owners, old) {
        each(DependentEvent::Lost(owner));
    }
    if new.is_terminating() {
        // Graceful deletion: owners replace a dependent when its deletion begins, not when it ends.
        deleted(owners, new, each);
        // As in upstream's `updatePod`, which also treats the former state as deleted.
        if relabelled {
            deleted(owners, old, each);
        }
        return;
    }
    if after.is_some() {
        if let Some(owner) = owner_of(owners, new) {
            each(DependentEvent::Updated(owner));
        }
    } else if relabelled || moved {
        adoptable(owners, new, each);
    }
}

/// An orphan concerns no owner at its end.
fn deleted<O: Selects>(owners: &Store<O>, old: &Meta, each: &mut impl FnMut(DependentEvent<O>)) {
    if let Some(owner) = owner_of(owners, old) {
        each(DependentEvent::Deleted(owner));
    }
}

/// Reports an orphan to every owner that selects it. An empty selector selects nothing here, as in
/// upstream.
fn adoptable<O: Selects>(
    owners: &Store<O>,
    orphan: &Meta,
    each: &mut impl FnMut(DependentEvent<O>),
) {
    // As upstream's `GetPodReplicaSets`, even for a selector that matches the absence of a label.
    if orphan.labels.is_empty() {
        return;
    }
    let selects =
        |selector: &Selector| !selector.is_everything() && selector.matches(&orphan.labels);
    for owner in owners.in_namespace(&orphan.namespace) {
        if owner.selector().is_ok_and(selects) {
            each(DependentEvent::Adoptable(owner));
        }
    }
}
