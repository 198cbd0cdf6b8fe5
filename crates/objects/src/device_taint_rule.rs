//! The cached view of a DeviceTaintRule. Upstream: `k8s.io/api/resource/v1beta2`, and `v1alpha3` of 1.33 and 1.34.

use jiff::Timestamp;

use steersman_values::intern::Sym;
use steersman_values::resource::DEVICE_TAINT_RULES;

use super::pool_slice::repels;
use super::{DeviceSelector, Parsed};
use crate::view;

view! {
    /// A taint that an administrator puts on devices of any driver.
    pub struct DeviceTaintRule: DEVICE_TAINT_RULES {
        /// `spec`.
        pub spec: DeviceTaintRuleSpec,
        /// `status`.
        pub status: DeviceTaintRuleStatus,
    }

    /// `spec` of a DeviceTaintRule.
    pub struct DeviceTaintRuleSpec {
        /// The devices. Unset selects none, and an empty selector selects all.
        pub device_selector: Option<DeviceTaintSelector>,
        /// The taint.
        pub taint: RuleTaint,
    }

    /// `spec.deviceSelector` of a DeviceTaintRule. An unset field matches every device.
    pub struct DeviceTaintSelector {
        /// Name of the driver.
        pub driver: Option<Sym>,
        /// Name of the pool.
        pub pool: Option<Sym>,
        /// Name of the device in its pool.
        pub device: Option<Sym>,
        /// Name of the class whose selectors select the devices. Only 1.33 and 1.34 have it.
        pub device_class_name: Option<Sym>,
        /// Expressions that all have to select a device. Only 1.33 and 1.34 have them.
        pub selectors: Vec<DeviceSelector>,
    }

    /// `spec.taint` of a DeviceTaintRule.
    pub struct RuleTaint {
        /// Key.
        pub key: Sym,
        /// Value; empty when unset.
        pub value: Sym,
        /// `NoExecute` evicts pods, and `None` only tells how many it would evict.
        pub effect: Sym,
        /// `timeAdded`, which API servers set.
        pub time_added: Parsed<Timestamp>,
    }

    /// `status` of a DeviceTaintRule.
    pub struct DeviceTaintRuleStatus {
        /// Conditions.
        pub conditions: Vec<DeviceTaintRuleCondition>,
    }

    /// A condition of a DeviceTaintRule.
    pub struct DeviceTaintRuleCondition {
        /// Type.
        #[serde(rename = "type")]
        pub kind: Sym,
        /// `True`, `False` or `Unknown`.
        pub status: Sym,
        /// Reason: one word in CamelCase, for programs.
        pub reason: Sym,
        /// Message for users.
        pub message: Box<str>,
        /// The generation of the rule that the condition is about.
        pub observed_generation: i64,
        /// Time of the last change; unset when missing or malformed.
        pub last_transition_time: Parsed<Timestamp>,
    }
}

impl DeviceTaintSelector {
    /// Whether the names in this selector are those of this device. An absent name stands for all.
    pub fn names(&self, driver: &str, pool: &str, device: &str) -> bool {
        let fields = [
            (&self.driver, driver),
            (&self.pool, pool),
            (&self.device, device),
        ];
        let matches = |(wanted, found): (&Option<Sym>, &str)| match wanted {
            Some(wanted) => *wanted == *found,
            None => true,
        };
        fields.into_iter().all(matches)
    }
}

impl DeviceTaintRuleSpec {
    /// Whether the rule keeps new pods from this device, by its names alone. An absent selector selects nothing.
    /// Upstream: `ruleMakesDeviceUnavailable`.
    pub fn keeps_pods_from(&self, driver: &str, pool: &str, device: &str) -> bool {
        let selector = self.device_selector.as_ref();
        repels(&self.taint.effect)
            && selector.is_some_and(|selector| selector.names(driver, pool, device))
    }
}
