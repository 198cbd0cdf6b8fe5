//! Slices with the taints of DeviceTaintRules, as 1.33 and 1.34 apply them.
//!
//! There a rule may also select devices by a class and by expressions about their attributes, and it taints published
//! devices alone. A rule without selector selects all devices; the documentation of the API says none.
//!
//! A selector that does not compile selects no device. Upstream leaves such a slice in its earlier state, with the
//! taints of rules. It leaves out a slice that is new to it, with all its taints. A selector with `cel: null` selects
//! no device either, where upstream skips it. When a class goes, its rules end at once, where upstream waits for the
//! next change of each slice.
//!
//! Upstream: `k8s.io/dynamic-resource-allocation/resourceslice/tracker`.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_cel::devices::{Device, Selector};
use steersman_objects::{
    DeviceClass, DeviceSelector, DeviceTaintRule, DeviceTaintSelector, PublishedDevice,
    PublishedSlice, ResourceSlice, ResourceSliceSpec, SliceDevices, TaintedDevice,
};

use super::rules;

/// The rules and classes, and the slices with the taints of the rules.
#[derive(Debug, Default)]
pub(super) struct Patches {
    slices: BTreeMap<Arc<str>, Patched>,
    rules: BTreeMap<Arc<str>, Rule>,
    /// The selectors of each class.
    classes: BTreeMap<Arc<str>, Vec<Compiled>>,
}

/// A slice as its driver wrote it, and with the taints of rules.
#[derive(Debug)]
struct Patched {
    published: Arc<PublishedSlice>,
    patched: Arc<ResourceSlice>,
}

/// A rule of any effect. Expressions of other rules may fail as well, and users see that.
#[derive(Debug)]
struct Rule {
    rule: Arc<DeviceTaintRule>,
    selectors: Vec<Compiled>,
}

/// A compiled expression; `None` if it does not compile.
type Compiled = Option<Selector>;

/// A slice as it was and as it is; `None` where it does not exist.
type SliceChange = (Option<Arc<ResourceSlice>>, Option<Arc<ResourceSlice>>);

/// The slices that a change of rules or slices concerns.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) slices: Vec<SliceChange>,
    pub(super) failures: Vec<Failure>,
    /// Expressions of the changed object.
    pub(super) broken: Vec<Broken>,
}

/// An expression that does not compile. Its object selects nothing.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) kind: &'static str,
    pub(super) name: Arc<str>,
    pub(super) expression: Box<str>,
    pub(super) error: String,
}

/// An expression of a rule that failed for a device.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) rule: Arc<DeviceTaintRule>,
    /// The place of the expression in the list of the rule.
    pub(super) selector: usize,
    pub(super) error: String,
}

impl Patches {
    /// Takes over a slice as it was and as it is.
    pub(super) fn slice_changed(
        &mut self,
        old: Option<&Arc<PublishedSlice>>,
        new: Option<&Arc<PublishedSlice>>,
    ) -> Changes {
        let mut changes = Changes::default();
        match (old, new) {
            (_, Some(new)) => self.patch(new, &mut changes),
            (Some(old), None) => {
                let known = self.slices.remove(&old.meta.name);
                changes
                    .slices
                    .extend(known.map(|known| (Some(known.patched), None)));
            }
            (None, None) => {}
        }
        changes
    }

    /// Takes over a rule as it was and as it is.
    pub(super) fn rule_changed(
        &mut self,
        old: Option<&Arc<DeviceTaintRule>>,
        new: Option<&Arc<DeviceTaintRule>>,
    ) -> Changes {
        if let Some(old) = old {
            self.rules.remove(&old.meta.name);
        }
        let mut broken = Vec::new();
        if let Some(rule) = new {
            let selector = rule.spec.device_selector.as_ref();
            let selectors = selector.map_or(&[][..], |selector| &selector.selectors);
            let name = &rule.meta.name;
            let selectors = compile(selectors, "DeviceTaintRule", name, &mut broken);
            let rule = Arc::clone(rule);
            self.rules
                .insert(Arc::clone(&rule.meta.name), Rule { rule, selectors });
        }
        let changes = self.patch_all(|slice| {
            let mut both = old.into_iter().chain(new);
            both.any(|rule| concerns(rule, slice))
        });
        Changes { broken, ..changes }
    }

    /// Takes over a class as it was and as it is. Only slices with a rule of the class are concerned.
    pub(super) fn class_changed(
        &mut self,
        old: Option<&Arc<DeviceClass>>,
        new: Option<&Arc<DeviceClass>>,
    ) -> Changes {
        if let Some(old) = old {
            self.classes.remove(&old.meta.name);
        }
        let mut broken = Vec::new();
        if let Some(class) = new {
            let name = &class.meta.name;
            let selectors = compile(&class.spec.selectors, "DeviceClass", name, &mut broken);
            self.classes.insert(Arc::clone(name), selectors);
        }
        let classes = || old.into_iter().chain(new);
        let names_class = |rule: &&Rule| {
            let named = class_of(&rule.rule);
            classes().any(|class| named == Some(&*class.meta.name))
        };
        let rules = self.rules.values().filter(names_class);
        let rules: Vec<Arc<DeviceTaintRule>> = rules.map(|rule| Arc::clone(&rule.rule)).collect();
        let changes = self.patch_all(|slice| rules.iter().any(|rule| concerns(rule, slice)));
        Changes { broken, ..changes }
    }

    /// Applies all rules again to the slices that `is_concerned` accepts.
    fn patch_all(&mut self, is_concerned: impl Fn(&PublishedSlice) -> bool) -> Changes {
        let slices = self.slices.values().map(|known| &known.published);
        let slices = slices.filter(|slice| is_concerned(slice));
        let slices: Vec<Arc<PublishedSlice>> = slices.cloned().collect();
        let mut changes = Changes::default();
        slices
            .iter()
            .for_each(|slice| self.patch(slice, &mut changes));
        changes
    }

    /// Applies all rules to `published`. Upstream: `applyPatches`.
    fn patch(&mut self, published: &Arc<PublishedSlice>, changes: &mut Changes) {
        let devices = published.spec.devices.iter();
        let devices = devices.map(|device| {
            let mut taints = device.taints.clone();
            for rule in self.rules.values() {
                if self.selects(rule, published, device, &mut changes.failures)
                    && rules::evicts(&rule.rule)
                {
                    taints.push(rules::taint(&rule.rule));
                }
            }
            let name = device.name.clone();
            TaintedDevice { name, taints }
        });
        let devices: Vec<TaintedDevice> = devices.collect();
        let patched = Arc::new(with_devices(published, devices));
        let published = Arc::clone(published);
        let known = Patched {
            published,
            patched: Arc::clone(&patched),
        };
        let old = self.slices.insert(Arc::clone(&patched.meta.name), known);
        changes
            .slices
            .push((old.map(|old| old.patched), Some(patched)));
    }

    /// Whether `rule` selects a device of `slice`. All selectors have to.
    fn selects(
        &self,
        rule: &Rule,
        slice: &PublishedSlice,
        device: &PublishedDevice,
        failures: &mut Vec<Failure>,
    ) -> bool {
        let Some(selector) = &rule.rule.spec.device_selector else {
            return true;
        };
        let spec = &slice.spec;
        if !selector.names(&spec.driver, &spec.pool.name, &device.name) {
            return false;
        }
        let device = Device {
            driver: &spec.driver,
            attributes: &device.attributes,
            capacity: &device.capacity,
            // The tracker passes no value, so it is false also for a shared device.
            allow_multiple_allocations: false,
        };
        if !self.is_of_class(selector, &device) {
            return false;
        }
        for (index, compiled) in rule.selectors.iter().enumerate() {
            let Some(compiled) = compiled else {
                return false;
            };
            match compiled.matches(&device) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    failures.push(Failure {
                        rule: Arc::clone(&rule.rule),
                        selector: index,
                        error,
                    });
                    return false;
                }
            }
        }
        true
    }

    /// Whether `device` is of the class that `selector` names. A missing class has no devices, and a failure of its
    /// expressions is not reported, as upstream.
    fn is_of_class(&self, selector: &DeviceTaintSelector, device: &Device<'_>) -> bool {
        let Some(name) = &selector.device_class_name else {
            return true;
        };
        self.classes.get(&**name).is_some_and(|selectors| {
            let matches = |compiled: &Compiled| {
                let compiled = compiled.as_ref();
                compiled.is_some_and(|selector| selector.matches(device) == Ok(true))
            };
            selectors.iter().all(matches)
        })
    }
}

/// Compiles the selectors of an object. Those that do not compile are added to `broken`.
fn compile(
    selectors: &[DeviceSelector],
    kind: &'static str,
    name: &Arc<str>,
    broken: &mut Vec<Broken>,
) -> Vec<Compiled> {
    let compile = |selector: &DeviceSelector| {
        let expression = &selector.cel.expression;
        match Selector::compile(expression) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                broken.push(Broken {
                    kind,
                    name: Arc::clone(name),
                    expression: expression.clone(),
                    error,
                });
                None
            }
        }
    };
    selectors.iter().map(compile).collect()
}

/// The class that the selector of `rule` names.
pub(super) fn class_of(rule: &DeviceTaintRule) -> Option<&str> {
    let selector = rule.spec.device_selector.as_ref()?;
    selector.device_class_name.as_deref()
}

/// Whether a change of `rule` may change the taints of `slice`. Upstream: `sliceNamesForPatch`.
fn concerns(rule: &DeviceTaintRule, slice: &PublishedSlice) -> bool {
    let Some(selector) = &rule.spec.device_selector else {
        return true;
    };
    let PublishedSlice { spec, .. } = slice;
    let is_named =
        |device: &PublishedDevice| selector.names(&spec.driver, &spec.pool.name, &device.name);
    spec.devices.iter().any(is_named)
}

/// `published` with these devices, in the view of other releases.
fn with_devices(published: &PublishedSlice, devices: Vec<TaintedDevice>) -> ResourceSlice {
    let names = devices.iter().map(|device| device.name.clone()).collect();
    let mut tainted = devices;
    tainted.retain(|device| !device.taints.is_empty());
    ResourceSlice {
        meta: published.meta.clone(),
        spec: ResourceSliceSpec {
            driver: published.spec.driver.clone(),
            pool: published.spec.pool.clone(),
            node_name: published.spec.node_name.clone(),
            devices: SliceDevices { names, tainted },
        },
    }
}
