//! The Services that a change of an EndpointSlice enqueues, and the slices of a Service.
//!
//! Own writes enqueue nothing. One label of a slice names its Service, and another one names its
//! managing controller.
//!
//! Upstream's controllers ignore the deletion of a slice that this process has not written. After
//! a restart, a deleted slice can therefore be missing for long. Here every foreign deletion
//! enqueues.
//!
//! Upstream: `onEndpointSliceAdd`, `onEndpointSliceUpdate` and `onEndpointSliceDelete` of
//! `pkg/controller/endpointslice` and `pkg/controller/endpointslicemirroring`.

use std::sync::Arc;

use steersman_objects::{EndpointSlice, ObjectKey};
use steersman_runtime::informer::{Change, Index, IndexKey, Store};

use super::written::WrittenSlices;
use super::{MANAGED_BY, SERVICE_NAME};

/// Decides which Services a change of a slice enqueues, for one managing controller.
pub struct SliceChanges {
    /// Value of the label [`MANAGED_BY`].
    manager: &'static str,
    written: Arc<WrittenSlices>,
}

impl SliceChanges {
    /// For the slices that `manager` manages.
    pub fn new(manager: &'static str, written: Arc<WrittenSlices>) -> Self {
        Self { manager, written }
    }

    /// The keys of the Services to enqueue.
    pub fn affected(&self, change: &Change<'_, EndpointSlice>) -> Vec<ObjectKey> {
        let new = change.object();
        let service = service_of(new);
        let is_ours = self.manages(new);
        let needs_sync = match change {
            Change::Added { .. } => is_ours && self.is_foreign(service.as_ref(), new),
            Change::Updated { old, .. } => {
                let before = service_of(old);
                if before != service {
                    return service.into_iter().chain(before).collect();
                }
                is_ours != self.manages(old) || (is_ours && self.is_foreign(service.as_ref(), new))
            }
            Change::Deleted { .. } => {
                is_ours
                    && service
                        .as_ref()
                        .is_some_and(|service| !self.written.take_deletion(service, new))
            }
        };
        service.filter(|_| needs_sync).into_iter().collect()
    }

    fn manages(&self, slice: &EndpointSlice) -> bool {
        manager_of(slice) == Some(self.manager)
    }

    fn is_foreign(&self, service: Option<&ObjectKey>, slice: &EndpointSlice) -> bool {
        service.is_some_and(|service| !self.written.is_own(service, slice))
    }
}

/// Finds the slices of a Service. Cheap to clone.
#[derive(Clone)]
pub struct SlicesByService {
    index: Index<EndpointSlice>,
}

impl SlicesByService {
    /// Adds the index to `slices` and reads from it.
    pub fn of(slices: &Store<EndpointSlice>) -> Self {
        let by_service = |slice: &EndpointSlice| {
            let service = service_of(slice);
            service
                .map(|key| IndexKey::new(&key.to_string()))
                .into_iter()
                .collect()
        };
        Self {
            index: slices.add_index("service", by_service),
        }
    }

    /// The slices of `service` that `manager` manages, sorted by name.
    pub fn managed(&self, service: &ObjectKey, manager: &str) -> Vec<Arc<EndpointSlice>> {
        let mut slices = self.index.get(&service.to_string());
        slices.retain(|slice| manager_of(slice) == Some(manager));
        slices.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        slices
    }
}

fn manager_of(slice: &EndpointSlice) -> Option<&str> {
    slice.meta.labels.get(MANAGED_BY).map(|name| &**name)
}

/// The Service that the labels of `slice` name.
fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let name = slice
        .meta
        .labels
        .get(SERVICE_NAME)
        .filter(|name| !name.is_empty())?;
    Some(ObjectKey {
        namespace: slice.meta.namespace.clone(),
        name: name.to_arc(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::{Object, Uid};

    use super::*;

    const OURS: &str = "us.k8s.io";

    fn slice(service: &str, manager: &str, version: u64) -> Arc<EndpointSlice> {
        let mut labels = json!({"other": "x"});
        for (key, value) in [(SERVICE_NAME, service), (MANAGED_BY, manager)] {
            if !value.is_empty() {
                labels[key] = Value::from(value);
            }
        }
        let json = json!({"metadata": {
            "namespace": "ns", "name": "web-a", "uid": "u", "resourceVersion": version.to_string(), "labels": labels,
        }});
        Arc::new(EndpointSlice::decode(json.to_string().as_bytes()).unwrap())
    }

    fn names(keys: Vec<ObjectKey>) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    /// Upstream: `TestOnEndpointSliceUpdate`.
    #[test]
    fn changes_of_labels_and_foreign_writes_enqueue_services() {
        // The last own write of the slice had version 5.
        // (why, old, new, enqueued)
        let web = |version| slice("web", OURS, version);
        let cases: [(&str, _, _, &[&str]); 8] = [
            ("own write", web(4), web(5), &[]),
            ("a state before the own write", web(3), web(4), &[]),
            ("foreign write", web(5), web(6), &["ns/web"]),
            (
                "other Service",
                web(5),
                slice("db", OURS, 6),
                &["ns/db", "ns/web"],
            ),
            ("no Service", web(5), slice("", OURS, 6), &["ns/web"]),
            (
                "other manager",
                web(5),
                slice("web", "them", 6),
                &["ns/web"],
            ),
            ("now ours", slice("web", "them", 4), web(5), &["ns/web"]),
            (
                "never ours",
                slice("web", "them", 5),
                slice("web", "them", 6),
                &[],
            ),
        ];
        for (why, old, new, expected) in cases {
            let written = Arc::new(WrittenSlices::default());
            written.wrote(&ObjectKey::new("ns", "web"), Uid::new("u"), 5);
            let changes = SliceChanges::new(OURS, written);
            let change = Change::Updated {
                old: &old,
                new: &new,
            };
            assert_eq!(names(changes.affected(&change)), expected, "{why}");
        }
    }

    #[test]
    fn foreign_creations_and_deletions_enqueue_services() {
        let web = ObjectKey::new("ns", "web");
        type Record = fn(&WrittenSlices, &ObjectKey);
        let unknown: Record = |_, _| {};
        let wrote: Record = |written, key| written.wrote(key, Uid::new("u"), 5);
        let deleted: Record = |written, key| written.deleted(key, &slice("web", OURS, 5));
        // (why, record, manager, version, enqueued when added, enqueued when deleted)
        let cases = [
            ("unknown", unknown, OURS, 5, true, true),
            ("own write", wrote, OURS, 5, false, true),
            ("foreign write", wrote, OURS, 6, true, true),
            ("own deletion", deleted, OURS, 5, true, false),
            ("not ours", unknown, "them", 5, false, false),
        ];
        for (why, record, manager, version, when_added, when_deleted) in cases {
            let object = slice("web", manager, version);
            let added = Change::Added {
                object: &object,
                initial: false,
            };
            let gone = Change::Deleted {
                object: &object,
                final_state_unknown: false,
            };
            for (change, expected) in [(added, when_added), (gone, when_deleted)] {
                let written = Arc::new(WrittenSlices::default());
                record(&written, &web);
                let changes = SliceChanges::new(OURS, written);
                assert_eq!(!changes.affected(&change).is_empty(), expected, "{why}");
            }
        }
    }

    #[test]
    fn deleted_slices_are_left_out_until_the_cache_lacks_them() {
        let web = ObjectKey::new("ns", "web");
        let written = WrittenSlices::default();
        written.deleted(&web, &slice("web", OURS, 5));
        let cached = || vec![slice("web", OURS, 5)];
        assert!(written.existing(&web, cached()).is_empty());
        assert!(written.existing(&web, cached()).is_empty());
        assert!(written.existing(&web, vec![]).is_empty());
        assert_eq!(
            written.existing(&web, cached()).len(),
            1,
            "the record is gone"
        );
    }

    #[test]
    fn slices_are_found_by_service_and_manager() {
        let named = |name: &str, service: &str, manager: &str| {
            let mut slice = EndpointSlice::clone(&slice(service, manager, 1));
            slice.meta.name = Arc::from(name);
            Arc::new(slice)
        };
        let slices = [
            named("b", "web", OURS),
            named("a", "web", OURS),
            named("c", "web", "them"),
            named("d", "db", OURS),
            named("e", "", OURS),
        ];
        let index = SlicesByService::of(&slices.into_iter().collect());
        let found = index.managed(&ObjectKey::new("ns", "web"), OURS);
        let names: Vec<&str> = found.iter().map(|slice| &*slice.meta.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
