//! Questions about the StorageClass of a claim.

use std::cmp::Reverse;
use std::sync::Arc;

use steersman_objects::{ObjectKey, PersistentVolumeClaim, StorageClass};
use steersman_runtime::informer::Store;

/// The class of a claim has no binding mode, which API servers set.
///
/// Guessing would be wrong in either direction, so the sync fails as upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("VolumeBindingMode not set for StorageClass {0:?}")]
pub(super) struct NoBindingMode(String);

/// The class with this name.
pub(super) fn named(classes: &Store<StorageClass>, name: &str) -> Option<Arc<StorageClass>> {
    classes.get(&ObjectKey::new("", name))
}

/// Whether the volume of `claim` waits for the first pod. Upstream: `IsDelayBindingMode`.
///
/// `false` for a claim without a class, and for a class that does not exist.
pub(super) fn is_delayed(
    claim: &PersistentVolumeClaim,
    classes: &Store<StorageClass>,
) -> Result<bool, NoBindingMode> {
    match named(classes, claim.class()) {
        Some(class) if class.volume_binding_mode.is_none() => {
            Err(NoBindingMode(claim.class().to_owned()))
        }
        class => Ok(class.is_some_and(|class| class.waits_for_pod())),
    }
}

/// The default class: the newest one with the annotation, or the first by name among equally old
/// ones. Upstream: `GetDefaultClass`.
///
/// Several defaults are a common mistake during a change of default. The newest one is meant then.
pub(super) fn default(classes: &Store<StorageClass>) -> Option<Arc<StorageClass>> {
    let defaults = classes
        .list()
        .into_iter()
        .filter(|class| class.is_default());
    defaults.min_by_key(|class| (Reverse(class.meta.created), Arc::clone(&class.meta.name)))
}
