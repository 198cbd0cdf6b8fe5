//! Which resource serves the objects of a kind, as discovery last told.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use steersman_runtime::discovery::{Discovery, GroupVersion};
use steersman_runtime::resource::ResourceType;

use super::coordinates::split_api_version;

/// Resources by `apiVersion` and kind, in every version that is served.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    served: RwLock<HashMap<(String, String), Arc<ResourceType>>>,
}

impl Kinds {
    /// Takes over a new discovery. What it could not list stays as it was.
    pub(super) fn update(&self, discovery: &Discovery) {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
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
        // Kinds without objects to read, such as reviews, own nothing.
        for found in all.filter(|found| found.allows("get")) {
            let key = (
                found.resource.api_version().into_owned(),
                found.resource.kind.clone().into_owned(),
            );
            served
                .entry(key)
                .or_insert_with(|| Arc::new(found.resource.clone()));
        }
    }

    /// The resource of a kind; `None` when nothing serves it, as far as is known.
    pub(super) fn resource(&self, api_version: &str, kind: &str) -> Option<Arc<ResourceType>> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        served
            .get(&(api_version.to_owned(), kind.to_owned()))
            .cloned()
    }
}
