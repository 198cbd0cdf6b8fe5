//! Maps kinds of owner references to resource types, as of the last discovery.
//!
//! An owner reference has `apiVersion` and kind, but a request needs the resource (plural) and its
//! scope. Upstream uses a `RESTMapper` for this.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use steersman_client::discovery::{Discovery, GroupVersion};
use steersman_values::resource::ResourceType;

use super::coordinates::split_api_version;

/// Resource types by `apiVersion` and kind, for every served version.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    served: RwLock<HashMap<(String, String), Arc<ResourceType>>>,
}

impl Kinds {
    /// Applies a new discovery. Group versions that failed in it keep their earlier entries. A type
    /// of a failed group may still exist, and reads of its owners need the entry.
    pub(super) fn update(&self, discovery: &Discovery) {
        let mut served = self.served.write();
        served.retain(|(api_version, _), _| {
            let (group, version) = split_api_version(api_version);
            discovery.failures.contains_key(&GroupVersion {
                group: group.to_owned(),
                version: version.to_owned(),
            })
        });
        let all = discovery
            .groups
            .iter()
            .flat_map(|group| &group.versions)
            .flat_map(|(_, resources)| resources);
        // Reviews and similar kinds lack the verb `get`: the server does not store their objects.
        for found in all.filter(|found| found.allows("get")) {
            let key = (
                found.resource.api_version().into_owned(),
                found.resource.kind.clone().into_owned(),
            );
            served
                .entry(key)
                // The first resource of a kind counts.
                .or_insert_with(|| Arc::new(found.resource.clone()));
        }
    }

    /// The resource type of a kind; `None` if discovery has not reported it. Upstream:
    /// `apiResource` in `operations.go`.
    pub(super) fn resource(&self, api_version: &str, kind: &str) -> Option<Arc<ResourceType>> {
        let served = self.served.read();
        served
            .get(&(api_version.to_owned(), kind.to_owned()))
            .cloned()
    }
}
