//! The types of objects that quotas can count: those with rules of their own, and every other type
//! that discovery reports.
//!
//! Upstream: the registry of evaluators (`pkg/quota/v1/install`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock};

use steersman_helpers::quota::{Counted, DeviceCounting, ExtendedResources};
use steersman_objects::DeviceClass;
use steersman_runtime::informer::{MetadataChange, MetadataInformer, Store};
use steersman_values::intern::Sym;

/// The core types whose usage follows from more than their number. ResourceClaims have rules as
/// well, but older API servers lack them, so discovery adds them.
const WITH_RULES: [&str; 3] = ["pods", "services", "persistentvolumeclaims"];

/// The types that quotas can count.
pub(super) struct Types {
    /// It is ordered, so that errors name types in the same order.
    counted: RwLock<BTreeMap<Counted, Source>>,
    devices: Devices,
}

/// The part of claims for devices, by feature gates.
pub(super) enum Devices {
    /// They count as other types: the gate `DynamicResourceAllocation` is off.
    Number,
    /// The devices of each class count.
    Classes,
    /// Devices of these classes count for extended resources, too: the gate `DRAExtendedResource` is on.
    Extended(Store<DeviceClass>),
}

/// The origin of the usage of a type.
#[derive(Clone)]
pub(super) enum Source {
    /// Views of the objects.
    Views,
    /// The number of objects.
    Number(Arc<Monitor>),
}

/// The objects of a type by their metadata.
pub(super) struct Monitor {
    informer: MetadataInformer,
    /// Number of objects by namespace; without entries of 0. Events keep it up to date: a count
    /// over the objects of the whole cluster would be slow.
    numbers: Mutex<HashMap<Sym, usize>>,
}

impl Types {
    /// The types that every API server has.
    pub(super) fn new(devices: Devices) -> Self {
        let counted = WITH_RULES.map(|plural| (Counted::new("", plural), Source::Views));
        Self {
            counted: RwLock::new(counted.into()),
            devices,
        }
    }

    /// All types with the origin of their usage.
    pub(super) fn all(&self) -> Vec<(Counted, Source)> {
        let counted = self.counted.read();
        let all = counted.iter();
        all.map(|(of, source)| (of.clone(), source.clone()))
            .collect()
    }

    /// Adds a type, or replaces the origin of its usage. A new version of a type replaces its
    /// number by that of another monitor.
    pub(super) fn insert(&self, of: Counted, source: Source) {
        let mut counted = self.counted.write();
        counted.insert(of, source);
    }

    /// Removes a type that is no longer served.
    pub(super) fn remove(&self, of: &Counted) {
        let mut counted = self.counted.write();
        counted.remove(of);
    }

    /// Whether the usage of the type follows from views of its objects.
    pub(super) fn has_rules(&self, of: &Counted) -> bool {
        let counts_devices = !matches!(self.devices, Devices::Number);
        (counts_devices && of.is_device_claims())
            || WITH_RULES.iter().any(|plural| of.is_core(plural))
    }

    /// Whether objects of some type count for the resource `name`.
    pub(super) fn handle(&self, name: &str) -> bool {
        let devices = self.devices();
        let counted = self.counted.read();
        counted.keys().any(|of| of.handles(name, &devices))
    }

    /// The part of claims for devices, with the classes that are known now.
    pub(super) fn devices(&self) -> DeviceCounting {
        match &self.devices {
            Devices::Number => DeviceCounting::Number,
            Devices::Classes => DeviceCounting::Classes,
            Devices::Extended(classes) => {
                let classes = classes.list();
                let extended = ExtendedResources::of(classes.iter().map(|class| &**class));
                DeviceCounting::Extended(extended)
            }
        }
    }
}

impl Monitor {
    /// A monitor without objects so far.
    pub(super) fn new(informer: MetadataInformer) -> Self {
        let numbers = Mutex::default();
        Self { informer, numbers }
    }

    /// The informer that calls [`Monitor::observe`].
    pub(super) fn informer(&self) -> &MetadataInformer {
        &self.informer
    }

    fn numbers(&self) -> MutexGuard<'_, HashMap<Sym, usize>> {
        self.numbers.lock()
    }

    /// Counts an added or deleted object.
    pub(super) fn observe(&self, change: &MetadataChange<'_>) {
        match change {
            MetadataChange::Added(meta) => {
                *self.numbers().entry(meta.namespace.clone()).or_default() += 1;
            }
            MetadataChange::Deleted(meta) => {
                let mut numbers = self.numbers();
                if let Some(number) = numbers.get_mut(&meta.namespace) {
                    *number -= 1;
                    if *number == 0 {
                        numbers.remove(&meta.namespace);
                    }
                }
            }
            // The namespace of an object never changes.
            MetadataChange::Updated { .. } => {}
        }
    }

    /// The number of objects in a namespace; `None` before the first list. An incomplete list would
    /// lower the usage, and the API server would then admit too much.
    pub(super) fn number_in(&self, namespace: &str) -> Option<usize> {
        let is_synced = self.informer.is_synced();
        is_synced.then(|| self.numbers().get(namespace).copied().unwrap_or(0))
    }
}
