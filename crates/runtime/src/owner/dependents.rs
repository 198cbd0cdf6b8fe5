//! The owners that a change of a dependent concerns.
//!
//! A dependent wakes the owner that controls it; an orphan wakes every owner that selects it and
//! may adopt it. Upstream repeats these rules in each workload controller (`addPod`, `updatePod`,
//! `deletePod` of the ReplicaSet controller, `addReplicaSet` and so on of the Deployment
//! controller).

use std::sync::Arc;

use crate::informer::{Change, Store};
use crate::labels::Selector;
use crate::object::{Meta, Object, ObjectKey, Selects};

/// What a change of a dependent means for one owner of type `O`.
#[derive(Debug)]
pub enum DependentEvent<O> {
    /// The owner controls a dependent that was not there before.
    Created(Arc<O>),
    /// A dependent of the owner is gone or terminating.
    Deleted(Arc<O>),
    /// A dependent of the owner changed.
    Updated(Arc<O>),
    /// The owner lost a dependent to another owner, or to none.
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

/// The cached owner of type `O` that controls the object with the metadata `dependent`: with the
/// kind, the name and the UID of the controller reference.
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

/// Calls `each` for every owner that `change` concerns. An owner may come twice.
pub fn dependent_events<O: Selects, T: Object>(
    owners: &Store<O>,
    change: &Change<'_, T>,
    mut each: impl FnMut(DependentEvent<O>),
) {
    match change {
        Change::Added { object, .. } => added(owners, object.meta(), &mut each),
        Change::Updated { old, new } if old.meta().uid != new.meta().uid => {
            deleted(owners, old.meta(), &mut each);
            added(owners, new.meta(), &mut each);
        }
        // A resync repeats known state.
        Change::Updated { old, new }
            if old.meta().resource_version == new.meta().resource_version => {}
        Change::Updated { old, new } => updated(owners, old.meta(), new.meta(), &mut each),
        Change::Deleted { object, .. } => deleted(owners, object.meta(), &mut each),
    }
}

fn added<O: Selects>(owners: &Store<O>, new: &Meta, each: &mut impl FnMut(DependentEvent<O>)) {
    if new.is_terminating() {
        // First seen while terminating, after a restart or a gap.
        deleted(owners, new, each);
    } else if new.controller().is_none() {
        adoptable(owners, new, each);
    } else if let Some(owner) = owner_of(owners, new) {
        each(DependentEvent::Created(owner));
    }
}

fn updated<O: Selects>(
    owners: &Store<O>,
    old: &Meta,
    new: &Meta,
    each: &mut impl FnMut(DependentEvent<O>),
) {
    let relabelled = old.labels != new.labels;
    if new.is_terminating() {
        // Graceful deletion: the replacement is due now, not when the dependent is gone.
        deleted(owners, new, each);
        if relabelled {
            deleted(owners, old, each);
        }
        return;
    }
    let (before, after) = (old.controller(), new.controller());
    let moved = before != after;
    if moved && let Some(owner) = owner_of(owners, old) {
        each(DependentEvent::Lost(owner));
    }
    if after.is_some() {
        if let Some(owner) = owner_of(owners, new) {
            each(DependentEvent::Updated(owner));
        }
    } else if relabelled || moved {
        adoptable(owners, new, each);
    }
}

fn deleted<O: Selects>(owners: &Store<O>, old: &Meta, each: &mut impl FnMut(DependentEvent<O>)) {
    if let Some(owner) = owner_of(owners, old) {
        each(DependentEvent::Deleted(owner));
    }
}

fn adoptable<O: Selects>(
    owners: &Store<O>,
    orphan: &Meta,
    each: &mut impl FnMut(DependentEvent<O>),
) {
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
