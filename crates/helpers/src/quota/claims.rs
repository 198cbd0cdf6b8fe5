//! Usage of PersistentVolumeClaims: their number and storage, in total and per StorageClass.
//!
//! Upstream: `pkg/quota/v1/evaluator/core/persistent_volume_claims.go`.

use std::collections::BTreeSet;

use steersman_objects::PersistentVolumeClaim;
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;
use super::names::OF_STORAGE_CLASS;

/// The usage of a claim.
pub fn claim_usage(claim: &PersistentVolumeClaim) -> Amounts {
    let one = Quantity::whole(1);
    let mut usage = Amounts::default();
    usage.set("count/persistentvolumeclaims", one);
    let class = claim.class();
    let mut set = |resource: &str, amount| {
        usage.set(resource, amount);
        if !class.is_empty() {
            usage.set(&format!("{class}{OF_STORAGE_CLASS}{resource}"), amount);
        }
    };
    set("persistentvolumeclaims", one);
    if let Some(storage) = storage(claim) {
        set("requests.storage", storage);
    }
    usage
}

/// The larger of requested and allocated storage, in whole bytes. `None` without a request.
fn storage(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requested = claim.spec.resources.requests.storage.0?.rounded_up();
    let allocated = claim.status.allocated_resources.storage.0;
    let allocated = allocated.map(Quantity::rounded_up);
    Some(
        allocated
            .filter(|allocated| *allocated > requested)
            .unwrap_or(requested),
    )
}

/// The VolumeAttributesClasses that a claim refers to: wanted, current, and in change. Upstream:
/// `getReferencedVolumeAttributesClassNames`.
pub(super) fn attributes_classes(claim: &PersistentVolumeClaim) -> BTreeSet<&str> {
    let status = &claim.status;
    let changing = status.modify_volume_status.as_ref();
    let names: [Option<&Sym>; 3] = [
        claim.spec.volume_attributes_class_name.as_ref(),
        status.current_volume_attributes_class_name.as_ref(),
        changing.map(|change| &change.target_volume_attributes_class_name),
    ];
    let names = names.into_iter().flatten().map(|name| &**name);
    names.filter(|name| !name.is_empty()).collect()
}

/// Whether the update may change the usage: other allocated storage, or other classes of volume
/// attributes. Upstream: `RequiresQuotaReplenish`, which compares addresses in place of amounts.
pub fn is_claim_replenished(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    old.status.allocated_resources != new.status.allocated_resources
        || attributes_classes(old) != attributes_classes(new)
}
