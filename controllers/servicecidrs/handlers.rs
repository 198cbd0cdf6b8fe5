//! The ServiceCIDRs that a change enqueues.
//!
//! A new ServiceCIDR may free others from their addresses, so it enqueues those that it overlaps. A
//! new or deleted IP address decides about the ServiceCIDRs that contain it.

use steersman_objects::{IpAddress, Object, ObjectKey, ServiceCidr};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::ranges;

/// Registers the handlers of ServiceCIDRs and IP addresses.
pub(super) fn register(
    cidrs: &SharedInformer<ServiceCidr>,
    ips: &SharedInformer<IpAddress>,
    queue: &WorkQueue<ObjectKey>,
) {
    let all = cidrs.store();
    let keys = queue.clone();
    cidrs.add_handler(move |change| {
        keys.add(change.object().key());
        if let Change::Added { object, .. } = change {
            let overlapping = ranges::overlapping(&all.list(), object);
            overlapping.into_iter().for_each(|key| keys.add(key));
        }
    });
    let all = cidrs.store();
    let keys = queue.clone();
    ips.add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Deleted { object, .. } => {
            let containing = ranges::containing(&all.list(), object);
            containing.into_iter().for_each(|key| keys.add(key));
        }
        Change::Updated { .. } => {}
    });
}
