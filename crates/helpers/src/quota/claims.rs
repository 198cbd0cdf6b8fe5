//! Usage of PersistentVolumeClaims: their number and storage, in total and per StorageClass.
//!
//! Upstream: `pkg/quota/v1/evaluator/core/persistent_volume_claims.go`.

use std::collections::BTreeSet;

use steersman_objects::PersistentVolumeClaim;
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;
use super::names::OF_STORAGE_CLASS;

/// The circumstances that decide about the usage of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimCounting {
    /// Gate `RecoverVolumeExpansionFailure`: storage that an expansion has allocated counts.
    pub allocated_storage: bool,
    /// Gate `VolumeAttributesClass`: claims may be in the scope of the same name. Without it, they are in no
    /// scope.
    pub attributes_classes: bool,
}

impl ClaimCounting {
    /// The rules of releases whose gates are locked.
    pub const ALL: Self = Self {
        allocated_storage: true,
        attributes_classes: true,
    };
}

/// The usage of a claim.
pub fn claim_usage(claim: &PersistentVolumeClaim, counting: ClaimCounting) -> Amounts {
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
    if let Some(storage) = storage(claim, counting) {
        set("requests.storage", storage);
    }
    usage
}

/// The larger of requested and allocated storage, in whole bytes. `None` without a request.
fn storage(claim: &PersistentVolumeClaim, counting: ClaimCounting) -> Option<Quantity> {
    let requested = claim.spec.resources.requests.storage.0?.rounded_up();
    let allocated = claim.status.allocated_resources.storage.0;
    let allocated = allocated.filter(|_| counting.allocated_storage);
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
pub fn is_claim_replenished(
    old: &PersistentVolumeClaim,
    new: &PersistentVolumeClaim,
    counting: ClaimCounting,
) -> bool {
    let is_allocated_otherwise =
        || old.status.allocated_resources != new.status.allocated_resources;
    let is_classified_otherwise = || attributes_classes(old) != attributes_classes(new);
    (counting.allocated_storage && is_allocated_otherwise())
        || (counting.attributes_classes && is_classified_otherwise())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object as _;

    use super::*;

    fn claim(class: Value, allocated: Value) -> PersistentVolumeClaim {
        let claim = json!({
            "metadata": {"name": "data", "namespace": "ns"},
            "spec": {
                "volumeAttributesClassName": class,
                "resources": {"requests": {"storage": "5G"}},
            },
            "status": {"allocatedResources": allocated},
        });
        PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap()
    }

    /// Upstream: `getStorageUsage` and `RequiresQuotaReplenish` with their gates in both states.
    #[test]
    fn feature_gates_decide_which_parts_of_a_claim_count() {
        let plain = claim(Value::Null, Value::Null);
        let allocated = claim(Value::Null, json!({"storage": "10G"}));
        let classified = claim(json!("gold"), Value::Null);
        for gates in [(true, true), (true, false), (false, true), (false, false)] {
            let (allocated_storage, attributes_classes) = gates;
            let counting = ClaimCounting {
                allocated_storage,
                attributes_classes,
            };
            let storage = claim_usage(&allocated, counting).get("requests.storage");
            let expected = if allocated_storage { "10G" } else { "5G" };
            assert_eq!(storage, expected.parse().ok(), "{counting:?}");
            let is_replenished = |new| is_claim_replenished(&plain, new, counting);
            assert_eq!(is_replenished(&allocated), allocated_storage);
            assert_eq!(is_replenished(&classified), attributes_classes);
            assert!(!is_replenished(&plain));
        }
    }
}
