//! DeviceTaintRules: the devices that they select, and the condition that tells users about them.
//!
//! Upstream: `ruleMatchesDevice`, `countTaintedDevices` and `maybeUpdateRuleStatus` in
//! `device_taint_eviction.go`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::conditions::{FALSE, TRUE};
use steersman_objects::{
    AllocatedDevice, DeviceTaint, DeviceTaintRule, DeviceTaintRuleCondition, DeviceTaintSelector,
    Uid,
};

/// The type of the condition. Upstream: `DeviceTaintConditionEvictionInProgress`.
pub(super) const IN_PROGRESS: &str = "EvictionInProgress";
/// The shortest time between two updates of a condition. Upstream: `ruleStatusPeriod`.
pub(super) const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// A rule, told apart from other rules of its name.
///
/// A new rule of the same name starts with its own condition and its own count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RuleRef {
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
}

impl RuleRef {
    pub(super) fn of(rule: &DeviceTaintRule) -> Self {
        Self {
            name: Arc::clone(&rule.meta.name),
            uid: rule.meta.uid.clone(),
        }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// Whether the taint of `rule` evicts pods.
pub(super) fn evicts(rule: &DeviceTaintRule) -> bool {
    rule.spec.taint.effect == *"NoExecute"
}

/// Whether a change of a rule may change evictions or its condition.
///
/// A change of the status is none: the controller itself causes most of them.
pub(super) fn is_relevant(old: Option<&DeviceTaintRule>, new: Option<&DeviceTaintRule>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.spec != new.spec,
        _ => true,
    }
}

/// The taint of `rule`.
///
/// The effect is left out: the callers have checked it, or simulate `NoExecute`.
pub(super) fn taint(rule: &DeviceTaintRule) -> DeviceTaint {
    let taint = &rule.spec.taint;
    DeviceTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        time_added: taint.time_added.0,
    }
}

/// Whether `rule` selects this device of a pool of a driver.
///
/// An absent selector selects nothing, and so does one with parts of 1.33 and 1.34: only [`super::patches`] evaluates
/// them. Upstream: `ruleMatchesDevice`.
pub(super) fn selects(rule: &DeviceTaintRule, driver: &str, pool: &str, device: &str) -> bool {
    let selector = rule.spec.device_selector.as_ref();
    selector
        .is_some_and(|selector| !needs_attributes(selector) && selector.names(driver, pool, device))
}

/// Whether `selector` also looks at the attributes of devices.
fn needs_attributes(selector: &DeviceTaintSelector) -> bool {
    selector.device_class_name.is_some() || !selector.selectors.is_empty()
}

/// Warns about a rule that selects nothing, because its selector has parts of 1.33 and 1.34.
///
/// Upstream does not read these parts since 1.35, so the rule would select more than was asked for.
pub(super) fn warn_of_selector(rule: &DeviceTaintRule) {
    let selector = rule.spec.device_selector.as_ref();
    if selector.is_some_and(needs_attributes) {
        let name = &*rule.meta.name;
        tracing::warn!(
            name,
            "DeviceTaintRule has a class or expressions of Kubernetes 1.34, so it evicts no pod"
        );
    }
}

/// Whether `rule` selects an allocated device.
pub(super) fn selects_allocated(rule: &DeviceTaintRule, device: &AllocatedDevice) -> bool {
    selects(rule, &device.driver, &device.pool, &device.device)
}

/// The effects of a rule, as if its effect were `NoExecute`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// Selected devices in slices.
    pub(super) published: usize,
    /// Selected devices of claims.
    ///
    /// A device that several claims share counts for each of them.
    pub(super) allocated: usize,
    /// Pods that have to leave a device, and have not begun to terminate.
    pub(super) pods: usize,
    /// Namespaces of these pods.
    pub(super) namespaces: usize,
    /// Pods that this process evicted because of the rule.
    ///
    /// A restart begins at zero, as the message says.
    pub(super) evicted: u64,
}

/// The time until the condition of `rule` may be updated; `None` if it may be now.
///
/// Upstream: `ruleStatusPeriod` in `maybeUpdateRuleStatus`. A changed spec is told of at once. The
/// transition time moves with each update of the condition, also with one of the message alone, so it
/// measures the pause.
pub(super) fn update_in(rule: &DeviceTaintRule, now: Timestamp) -> Option<Duration> {
    let known = current(rule).filter(|known| known.observed_generation == rule.meta.generation)?;
    let since = now.duration_since(known.last_transition_time.0?);
    let period = SignedDuration::try_from(STATUS_PERIOD).ok()?;
    // A clock that was set back does not lengthen the wait.
    let since_or_zero = Duration::try_from(since).unwrap_or_default();
    (since < period).then(|| STATUS_PERIOD - since_or_zero)
}

/// The present condition of `rule`.
fn current(rule: &DeviceTaintRule) -> Option<&DeviceTaintRuleCondition> {
    let mut conditions = rule.status.conditions.iter();
    conditions.find(|condition| condition.kind == *IN_PROGRESS)
}

/// A condition without its times.
///
/// Upstream compares the whole condition, with the old time in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The condition of `rule` with these effects. `None` if it has that condition already.
///
/// Upstream: `maybeUpdateRuleStatus`. The texts are upstream's. A rule that evicts no longer keeps the
/// number of its evicted pods.
pub(super) fn condition(rule: &DeviceTaintRule, effects: Effects) -> Option<Told> {
    let mut told = match &*rule.spec.taint.effect {
        "NoExecute" => of_eviction(effects),
        "None" => Told {
            status: FALSE,
            reason: "NoEffect",
            message: of_simulation(effects),
        },
        _ => Told {
            status: FALSE,
            reason: "OtherEffect",
            message: "Eviction only happens for the NoExecute effect.".to_owned(),
        },
    };
    if effects.evicted > 0 {
        if !told.message.is_empty() {
            told.message.push(' ');
        }
        let pods = count(effects.evicted, "pod", "pods");
        told.message += &format!("{pods} evicted since starting the controller.");
    }
    let is_current = |known: &DeviceTaintRuleCondition| {
        known.observed_generation == rule.meta.generation
            && known.status == *told.status
            && known.reason == *told.reason
            && *known.message == *told.message
    };
    (!current(rule).is_some_and(is_current)).then_some(told)
}

/// `Completed` needs an eviction by this process: after a restart, a rule that is done is `NotStarted`
/// again.
fn of_eviction(effects: Effects) -> Told {
    if effects.pods == 0 {
        let is_done = effects.evicted > 0;
        return Told {
            status: FALSE,
            reason: if is_done { "Completed" } else { "NotStarted" },
            message: String::new(),
        };
    }
    let need = if effects.pods == 1 { "needs" } else { "need" };
    let pods = count(effects.pods, "pod", "pods");
    let namespaces = namespaces(effects);
    Told {
        status: TRUE,
        reason: "PodsPendingEviction",
        message: format!("{pods} {need} to be evicted in {namespaces}."),
    }
}

/// The condition of a rule with the effect `None`. It lets users look before they set `NoExecute`.
fn of_simulation(effects: Effects) -> String {
    let published = count(effects.published, "published device", "published devices");
    let allocated = count(effects.allocated, "allocated device", "allocated devices");
    let pods = count(effects.pods, "pod", "pods");
    let namespaces = namespaces(effects);
    format!(
        "{published} selected. {allocated} selected. {pods} would be evicted in {namespaces} \
         if the effect was NoExecute. This information will not be updated again. \
         Recreate the DeviceTaintRule to trigger an update."
    )
}

fn namespaces(effects: Effects) -> String {
    count(effects.namespaces, "namespace", "different namespaces")
}

/// A number with its noun.
fn count<N: fmt::Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}
