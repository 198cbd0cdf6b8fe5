//! The changes of the slices that mirror an Endpoints object.
//!
//! Each group of endpoints has one slice. If anything of a slice differs, a PUT replaces it as a
//! whole. A new slice takes over the name of a slice of its address type that would be deleted.
//!
//! Upstream: `reconcileByPortMapping`, `totalChanges` and `recycleSlices` of
//! `pkg/controller/endpointslicemirroring`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_helpers::endpointslice::{
    AddressType, EndpointKey, MANAGED_BY, PortOrder, Ports, SERVICE_NAME, SliceCount, TRIGGER_TIME,
    is_unchanged,
};
use steersman_objects::{Annotations, Endpoint, EndpointSlice, Endpoints};

use super::MANAGER;
use super::desired::Group;

/// A new slice, or the new content of one.
pub(super) struct Draft {
    pub(super) family: AddressType,
    pub(super) ports: Ports,
    pub(super) endpoints: Vec<Endpoint>,
}

/// The writes in their order, and the numbers for metrics.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) create: Vec<Draft>,
    /// Slices and their new content. The PUT has no resource version, as upstream's.
    pub(super) update: Vec<(Arc<EndpointSlice>, Draft)>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
    pub(super) changes: Changes,
    /// One entry per group, for the gauges of totals.
    pub(super) counts: Vec<SliceCount>,
}

/// Numbers of endpoints by their change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: usize,
    pub(super) updated: usize,
    pub(super) removed: usize,
}

/// The writes that make `existing` mirror `groups` of `endpoints`. A slice has at most `max`
/// endpoints.
///
/// Slices are matched by address type and ports. The order of `groups` and `existing` decides the
/// order of the writes, where upstream iterates over maps. Upstream: the second half of
/// `reconcile`.
pub(super) fn plan(
    endpoints: &Endpoints,
    groups: Vec<Group>,
    existing: Vec<Arc<EndpointSlice>>,
    max: usize,
    order: PortOrder,
) -> Plan {
    let mut plan = Plan::default();
    // The type is a text here, so slices of an unknown type match no group and are deleted.
    let mut by_key: HashMap<(String, Ports), Vec<Arc<EndpointSlice>>> = HashMap::new();
    // The map has a random order, and the deletions must follow the order of the slices.
    let mut keys = Vec::new();
    for slice in existing {
        let key = (
            slice.address_type.to_string(),
            Ports::new(slice.ports.clone(), order),
        );
        let slices = by_key.entry(key.clone()).or_insert_with(|| {
            keys.push(key);
            Vec::new()
        });
        slices.push(slice);
    }
    for group in groups {
        let key = (group.family.as_str().to_owned(), group.ports.clone());
        plan.add(
            endpoints,
            group,
            by_key.remove(&key).unwrap_or_default(),
            max,
        );
    }
    // Slices of ports that no subset has.
    let others = keys.iter().filter_map(|key| by_key.remove(key));
    plan.delete.extend(others.flatten());
    plan.recycle();
    plan
}

impl Plan {
    pub(super) fn has_writes(&self) -> bool {
        !(self.create.is_empty() && self.update.is_empty() && self.delete.is_empty())
    }

    /// Adds the writes for one group. `existing` are its slices. Upstream:
    /// `reconcileByPortMapping`.
    fn add(
        &mut self,
        endpoints: &Endpoints,
        group: Group,
        mut existing: Vec<Arc<EndpointSlice>>,
        max: usize,
    ) {
        let before = (existing.len(), self.create.len(), self.delete.len());
        let wanted = unique(group.endpoints);
        let number = wanted.len();
        if wanted.is_empty() {
            self.changes.removed += existing
                .iter()
                .map(|slice| slice.endpoints.len())
                .sum::<usize>();
            self.delete.append(&mut existing);
        } else {
            let mut draft = Draft {
                family: group.family,
                ports: group.ports,
                endpoints: wanted,
            };
            let mut existing = existing.into_iter();
            match existing.next() {
                None => {
                    self.changes.added += number;
                    draft.endpoints.truncate(max);
                    self.create.push(draft);
                }
                // The first slice stays, and all others are surplus, such as those of a lost
                // answer.
                Some(slice) => {
                    let changes = changes(&slice, &draft.endpoints);
                    self.changes.added += changes.added;
                    self.changes.updated += changes.updated;
                    self.changes.removed += changes.removed;
                    // `changes` compares before the cut below, as in upstream. A slice that is cut
                    // off is therefore written again in each sync.
                    if changes != Changes::default() || !has_metadata(&slice, endpoints) {
                        draft.endpoints.truncate(max);
                        self.update.push((slice, draft));
                    }
                }
            }
            self.delete.extend(existing);
        }
        let (slices, created, deleted) = before;
        self.counts.push(SliceCount {
            endpoints: number,
            slices: slices + (self.create.len() - created) - (self.delete.len() - deleted),
        });
    }

    /// Lets new slices take over the names of slices to delete. A slice cannot change its type, so
    /// only slices of one type are paired. Upstream: `recycleSlices`.
    fn recycle(&mut self) {
        for draft in std::mem::take(&mut self.create) {
            let has_type = |slice: &Arc<EndpointSlice>| slice.address_type == draft.family.as_str();
            match self.delete.iter().position(has_type) {
                Some(position) => self.update.push((self.delete.remove(position), draft)),
                None => self.create.push(draft),
            }
        }
    }
}

/// The endpoints, of which the last one with its identity counts. Upstream's `EndpointSet` replaces
/// an endpoint with the same identity as well.
fn unique(endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    let mut last = HashMap::new();
    for (position, endpoint) in endpoints.iter().enumerate() {
        last.insert(EndpointKey::of(endpoint), position);
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    let mut endpoints: Vec<Option<Endpoint>> = endpoints.into_iter().map(Some).collect();
    kept.into_iter()
        .filter_map(|position| endpoints[position].take())
        .collect()
}

/// The changes from the endpoints of `slice` to `wanted`. Upstream: `totalChanges`.
fn changes(slice: &EndpointSlice, wanted: &[Endpoint]) -> Changes {
    let by_key: HashMap<EndpointKey<'_>, &Endpoint> = wanted
        .iter()
        .map(|endpoint| (EndpointKey::of(endpoint), endpoint))
        .collect();
    let mut changes = Changes::default();
    let mut matching = 0;
    for old in &slice.endpoints {
        match by_key.get(&EndpointKey::of(old)) {
            None => changes.removed += 1,
            Some(new) => {
                matching += 1;
                changes.updated += usize::from(!is_unchanged(old, new));
            }
        }
    }
    changes.added = wanted.len().saturating_sub(matching);
    changes
}

/// Whether labels, annotations and owner of `slice` are those of `endpoints`. The annotations must
/// be equal, so the sync removes those that users add to a slice. An owner of the same name with
/// another UID is an earlier Endpoints object: the garbage collector would delete the slice.
/// Upstream: `needRebuildExistingSlices`.
fn has_metadata(slice: &EndpointSlice, endpoints: &Endpoints) -> bool {
    let found = slice
        .meta
        .labels
        .iter()
        .map(|(key, value)| (&**key, &**value));
    // The reserved labels of a listed slice are right.
    let is_free = |(key, _): &(&str, &str)| *key != MANAGED_BY && *key != SERVICE_NAME;
    let expected = labels(endpoints);
    let is_other_owner = slice.meta.owners.iter().any(|owner| {
        owner.kind == *"Endpoints"
            && *owner.name == *endpoints.meta.name
            && owner.uid != endpoints.meta.uid
    });
    let stored = slice.document.annotations();
    let stored = stored
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    found
        .filter(is_free)
        .eq(expected.into_iter().filter(is_free))
        && stored.eq(annotations(endpoints))
        && !is_other_owner
}

/// The labels of the slices of `endpoints`. The reserved labels win over equal keys of the
/// Endpoints. Upstream: `newEndpointSlice`.
pub(super) fn labels(endpoints: &Endpoints) -> BTreeMap<&str, &str> {
    let labels = endpoints.meta.labels.iter();
    let mut labels: BTreeMap<&str, &str> = labels.map(|(key, value)| (&**key, &**value)).collect();
    labels.insert(SERVICE_NAME, &endpoints.meta.name);
    labels.insert(MANAGED_BY, MANAGER);
    labels
}

/// The annotations of the slices of `endpoints`. The view omits the annotation of `kubectl apply`,
/// which is not mirrored either. The trigger time is left out as well, as in `newEndpointSlice`.
pub(super) fn annotations(endpoints: &Endpoints) -> BTreeMap<&str, &str> {
    let annotations: &Annotations = &endpoints.annotations;
    annotations
        .iter()
        .filter(|(key, _)| *key != TRIGGER_TIME)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn endpoints() -> Endpoints {
        let json = json!({"metadata": {
            "name": "db", "namespace": "ns", "uid": "u", "labels": {"l": "1"},
            "annotations": {"a": "1", TRIGGER_TIME: "t", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        }});
        Endpoints::decode(json.to_string().as_bytes()).unwrap()
    }

    fn slice(
        name: &str,
        family: &str,
        port: i32,
        ips: &[&str],
        changes: &Value,
    ) -> Arc<EndpointSlice> {
        let endpoints: Vec<Value> = ips
            .iter()
            .map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}}))
            .collect();
        let mut json = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": name, "annotations": {"a": "1"},
                "labels": {"l": "1", SERVICE_NAME: "db", MANAGED_BY: MANAGER},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": "u"}],
            },
            "addressType": family, "endpoints": endpoints, "ports": ports(port),
        });
        for (field, value) in changes.as_object().unwrap() {
            json["metadata"][field] = value.clone();
        }
        Arc::new(EndpointSlice::decode(json.to_string().as_bytes()).unwrap())
    }

    fn ports(port: i32) -> Value {
        json!([{"name": "p", "port": port, "protocol": "TCP"}])
    }

    fn group(family: AddressType, port: i32, ips: &[&str]) -> Group {
        let endpoint = |ip: &&str| {
            let json = json!({"addresses": [ip], "conditions": {"ready": true}});
            serde_json::from_value(json).unwrap()
        };
        Group {
            family,
            ports: Ports::new(
                serde_json::from_value(ports(port)).unwrap(),
                PortOrder::default(),
            ),
            endpoints: ips.iter().map(endpoint).collect(),
        }
    }

    /// The writes as texts, such as `create IPv4 1`.
    fn texts(plan: &Plan) -> Vec<String> {
        let mut texts = Vec::new();
        for draft in &plan.create {
            texts.push(format!("create {} {}", draft.family, draft.endpoints.len()));
        }
        for (slice, draft) in &plan.update {
            texts.push(format!(
                "update {} {} {}",
                slice.meta.name,
                draft.family,
                draft.endpoints.len()
            ));
        }
        for slice in &plan.delete {
            texts.push(format!("delete {}", slice.meta.name));
        }
        texts
    }

    #[test]
    fn one_slice_mirrors_each_group() {
        use AddressType::{IPv4, IPv6};
        let none = json!({});
        let one = |changes: &Value| vec![slice("a", "IPv4", 80, &["10.0.0.1"], changes)];
        let v4 = |ips: &[&str]| vec![group(IPv4, 80, ips)];
        let other_owner =
            json!([{"apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": "v"}]);
        // (why, groups, existing, writes)
        let cases: Vec<(&str, Vec<Group>, Vec<Arc<EndpointSlice>>, &[&str])> = vec![
            ("nothing", vec![], vec![], &[]),
            ("new", v4(&["10.0.0.1"]), vec![], &["create IPv4 1"]),
            ("equal", v4(&["10.0.0.1"]), one(&none), &[]),
            (
                "more",
                v4(&["10.0.0.1", "10.0.0.2"]),
                one(&none),
                &["update a IPv4 2"],
            ),
            ("less", v4(&["10.0.0.2"]), one(&none), &["update a IPv4 1"]),
            ("none left", v4(&[]), one(&none), &["delete a"]),
            ("no group left", vec![], one(&none), &["delete a"]),
            (
                "two slices",
                v4(&["10.0.0.1"]),
                [one(&none), vec![slice("b", "IPv4", 80, &[], &none)]].concat(),
                &["delete b"],
            ),
            (
                "labels",
                v4(&["10.0.0.1"]),
                one(&json!({"labels": {SERVICE_NAME: "db"}})),
                &["update a IPv4 1"],
            ),
            (
                "annotations",
                v4(&["10.0.0.1"]),
                one(&json!({"annotations": {"a": "1", "b": "2"}})),
                &["update a IPv4 1"],
            ),
            (
                "no annotations",
                v4(&["10.0.0.1"]),
                one(&json!({"annotations": null})),
                &["update a IPv4 1"],
            ),
            (
                "other owner",
                v4(&["10.0.0.1"]),
                one(&json!({"ownerReferences": other_owner})),
                &["update a IPv4 1"],
            ),
            (
                "other ports",
                vec![group(IPv4, 81, &["10.0.0.1"])],
                one(&none),
                &["update a IPv4 1"],
            ),
            (
                "other ports and one more",
                vec![
                    group(IPv4, 81, &["10.0.0.1"]),
                    group(IPv4, 82, &["10.0.0.1"]),
                ],
                one(&none),
                &["create IPv4 1", "update a IPv4 1"],
            ),
            (
                "above the maximum",
                v4(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]),
                vec![],
                &["create IPv4 3"],
            ),
            (
                "names are taken over within an address type",
                vec![
                    group(IPv4, 80, &["10.0.0.1"]),
                    group(IPv6, 80, &["fd00::1"]),
                ],
                vec![slice("six", "IPv6", 81, &["fd00::1"], &none)],
                &["create IPv4 1", "update six IPv6 1"],
            ),
            (
                "FQDN slices are not taken over",
                v4(&["10.0.0.1"]),
                vec![slice("name", "FQDN", 81, &["example.com"], &none)],
                &["create IPv4 1", "delete name"],
            ),
        ];
        for (why, groups, existing, expected) in cases {
            let found = plan(&endpoints(), groups, existing, 3, PortOrder::default());
            assert_eq!(texts(&found), expected, "{why}");
        }
    }

    /// Upstream: `TestRecycleSlices`.
    #[test]
    fn new_slices_take_over_names_in_order() {
        use AddressType::{IPv4, IPv6};
        // (upstream's case, address types to create, address types to delete, taken over)
        let cases: [(&str, &[AddressType], &[&str], [usize; 3]); 7] = [
            ("Empty slices", &[], &[], [0, 0, 0]),
            ("1 to create and 1 to delete", &[IPv4], &["IPv4"], [0, 1, 0]),
            (
                "1 to create, update, and delete",
                &[IPv4],
                &["IPv4"],
                [0, 1, 0],
            ),
            (
                "2 to create and 1 to delete",
                &[IPv4, IPv4],
                &["IPv4"],
                [1, 1, 0],
            ),
            (
                "1 to create and 2 to delete",
                &[IPv4],
                &["IPv4", "IPv4"],
                [0, 1, 1],
            ),
            (
                "1 to create and 1 to delete for each IP family",
                &[IPv4, IPv6],
                &["IPv4", "IPv6"],
                [0, 2, 0],
            ),
            (
                "1 to create and 1 to delete, wrong IP family",
                &[IPv4],
                &["IPv6"],
                [1, 0, 1],
            ),
        ];
        for (case, create, delete, expected) in cases {
            let mut plan = Plan {
                create: create
                    .iter()
                    .map(|family| Draft {
                        family: *family,
                        ports: Ports::default(),
                        endpoints: Vec::new(),
                    })
                    .collect(),
                delete: delete
                    .iter()
                    .enumerate()
                    .map(|(n, family)| slice(&format!("s{n}"), family, 80, &[], &json!({})))
                    .collect(),
                ..Plan::default()
            };
            plan.recycle();
            assert_eq!(
                [plan.create.len(), plan.update.len(), plan.delete.len()],
                expected,
                "{case}"
            );
            let matches = |(slice, draft): &(Arc<EndpointSlice>, Draft)| {
                slice.address_type == draft.family.as_str()
            };
            assert!(plan.update.iter().all(matches), "{case}");
        }
    }
}
