//! The changes of the slices of one Service and address type.
//!
//! pods, slices -> [`plan`] -> hints -> [`Plan::into_writes`] -> writes
//!
//! Upstream: `reconcileByAddressType` and `finalize` of `k8s.io/endpointslice`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use steersman_helpers::endpointslice::{Ports, SliceCount, Totals};
use steersman_objects::{Endpoint, EndpointSlice, Pod, Service};
use steersman_values::labels::Labels;

use super::desired::{Form, MissingNode, Nodes, desired};
use super::labels;
use super::packing::{Update, pack};

/// The changes before the writes. Hints are set in this form.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) create: Vec<Draft>,
    pub(super) update: Vec<Update>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
    /// Slices without a write so far. Hints may still move them to `update`.
    pub(super) unchanged: Vec<Arc<EndpointSlice>>,
}

/// A new slice.
pub(super) struct Draft {
    pub(super) ports: Ports,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A plan with the numbers for metrics, and the pods that it leaves out.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) totals: Totals,
    /// For the histograms per sync; see `Packed`.
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) without_node: Vec<MissingNode>,
}

/// The writes of a plan, in their order.
pub(super) struct Writes {
    pub(super) create: Vec<Draft>,
    pub(super) update: Vec<Rewrite>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// A PUT.
pub(super) enum Rewrite {
    /// A copy of a slice, under its resource version.
    Copy(Update),
    /// A new slice under the name of `slice`, which it replaces. This saves the deletion. Its PUT
    /// has no resource version, as upstream's, and replaces foreign changes too.
    Recycled {
        slice: Arc<EndpointSlice>,
        draft: Draft,
    },
}

/// The changes that `service` needs for slices of `form`. `existing` are its slices of this address type.
///
/// Slices that the Service does not own are deleted. Mostly they are of a deleted Service of the
/// same name, and carry its UID. The caller has left out terminating slices.
pub(super) fn plan(
    service: &Service,
    pods: &[Arc<Pod>],
    nodes: &mut Nodes<'_>,
    existing: Vec<Arc<EndpointSlice>>,
    form: Form,
) -> Planned {
    let wanted = desired(service, pods, nodes, form);
    let mut plan = Plan::default();
    let mut groups: HashMap<Ports, Vec<Arc<EndpointSlice>>> = HashMap::new();
    // Ports without pods, in the order of the slices. The map alone has a random order, and the
    // plan must be the same for the same input.
    let mut order = Vec::new();
    for slice in &existing {
        if !is_owned(slice, service) {
            plan.delete.push(Arc::clone(slice));
            continue;
        }
        let ports = Ports::new(slice.ports.clone(), form.order);
        let group = groups.entry(ports.clone()).or_insert_with(|| {
            order.push(ports);
            Vec::new()
        });
        group.push(Arc::clone(slice));
    }

    let mut added = 0;
    let mut removed = 0;
    let mut counts: HashMap<Ports, SliceCount> = HashMap::new();
    for group in wanted.groups {
        let slices = groups.remove(&group.ports).unwrap_or_default();
        let relabel = |slice: &EndpointSlice| labels::differ(&slice.meta.labels, service);
        let packed = pack(&slices, group.endpoints, form.max, relabel);
        added += packed.added;
        removed += packed.removed;
        let count = SliceCount {
            endpoints: packed.endpoints,
            slices: slices.len() + packed.create.len() - packed.delete.len(),
        };
        counts.insert(group.ports.clone(), count);
        plan.create
            .extend(packed.create.into_iter().map(|endpoints| Draft {
                ports: group.ports.clone(),
                endpoints,
            }));
        plan.update.extend(packed.update);
        plan.delete.extend(packed.delete);
    }
    // Ports that the Service or its pods no longer have.
    let without_pods = order.iter().filter_map(|ports| groups.remove(ports));
    plan.delete.extend(without_pods.flatten());

    // No slice would remain after the writes.
    if plan.create.is_empty() && plan.delete.len() == existing.len() {
        match &plan.delete[..] {
            // The placeholder is among the slices to delete, since no pod has its empty list of
            // ports.
            [slice] if is_placeholder(slice, service) => plan.delete.clear(),
            _ => plan.create.push(Draft {
                ports: Ports::default(),
                endpoints: Vec::new(),
            }),
        }
        let placeholder = SliceCount {
            endpoints: 0,
            slices: 1,
        };
        counts.insert(Ports::default(), placeholder);
    }
    let updated = plan.update.iter().map(|update| &update.slice);
    let changed: HashSet<*const EndpointSlice> =
        updated.chain(&plan.delete).map(Arc::as_ptr).collect();
    plan.unchanged = existing
        .iter()
        .filter(|slice| !changed.contains(&Arc::as_ptr(slice)))
        .cloned()
        .collect();

    let mut totals = Totals::of(counts.into_values(), form.max);
    // The placeholder is needed without endpoints too.
    totals.desired_slices = totals.desired_slices.max(1);
    Planned {
        plan,
        totals,
        added,
        removed,
        without_node: wanted.without_node,
    }
}

impl Plan {
    pub(super) fn has_writes(&self) -> bool {
        !(self.create.is_empty() && self.update.is_empty() && self.delete.is_empty())
    }

    /// The endpoints of all slices to create and to update, slice by slice.
    pub(super) fn written(&mut self) -> impl Iterator<Item = &mut Vec<Endpoint>> {
        let created = self.create.iter_mut().map(|draft| &mut draft.endpoints);
        created.chain(self.update.iter_mut().map(|update| &mut update.endpoints))
    }

    /// Moves the unchanged slices for which `is_outdated` holds to the updates. The caller then
    /// changes the hints of the copies by way of `written`.
    pub(super) fn update_unchanged(&mut self, mut is_outdated: impl FnMut(&EndpointSlice) -> bool) {
        let unchanged = std::mem::take(&mut self.unchanged);
        for slice in unchanged {
            if is_outdated(&slice) {
                self.update.push(Update {
                    endpoints: slice.endpoints.clone(),
                    slice,
                    relabel: false,
                });
            } else {
                self.unchanged.push(slice);
            }
        }
    }

    /// The writes. A new slice takes over the name of a slice that would be deleted, if the Service
    /// owns it. All slices of a plan have one address type, which cannot be changed. The last new
    /// slice is taken first, as in upstream's `finalize`.
    pub(super) fn into_writes(self, service: &Service) -> Writes {
        let mut create = self.create;
        let mut update: Vec<Rewrite> = self.update.into_iter().map(Rewrite::Copy).collect();
        let mut delete = Vec::new();
        for slice in self.delete {
            // The slices of an older Service with this name are being collected.
            let draft = if is_owned(&slice, service) {
                create.pop()
            } else {
                None
            };
            match draft {
                Some(draft) => update.push(Rewrite::Recycled { slice, draft }),
                None => delete.push(slice),
            }
        }
        Writes {
            create,
            update,
            delete,
        }
    }
}

impl Writes {
    pub(super) fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }
}

/// Whether `service` is an owner of `slice`. Upstream: `ownedBy`. The UID tells apart Services of
/// one name.
pub(super) fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice.meta.owners.iter().any(|owner| {
        owner.uid == service.meta.uid && owner.kind == *"Service" && owner.api_version == *"v1"
    })
}

/// Whether `slice` equals the placeholder of `service`. The owner is not compared. Upstream:
/// `placeholderSliceCompare`.
fn is_placeholder(slice: &EndpointSlice, service: &Service) -> bool {
    slice.endpoints.is_empty() && slice.ports.is_empty() && has_labels(&slice.meta.labels, service)
}

/// Whether `labels` are those of the slices of `service`. A missing label equals an empty one. This
/// is a quirk of upstream's comparison of two maps.
fn has_labels(labels: &Labels, service: &Service) -> bool {
    let computed = labels::computed(service);
    let get = |key: &str| labels.get(key).map_or("", |value| value.as_str());
    computed.iter().all(|(key, value)| get(key) == *value)
        && labels.iter().all(|(key, value)| {
            computed.get(key.as_str()).copied().unwrap_or_default() == value.as_str()
        })
}
