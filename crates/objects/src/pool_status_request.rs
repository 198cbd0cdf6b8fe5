//! The cached view of questions about pools of devices. Upstream: `k8s.io/api/resource/v1alpha3`.

use jiff::Timestamp;

use steersman_values::intern::Sym;
use steersman_values::resource::RESOURCE_POOL_STATUS_REQUESTS;

use super::Parsed;
use crate::view;

view! {
    /// A question about the pools of a driver. It is answered once.
    pub struct ResourcePoolStatusRequest: RESOURCE_POOL_STATUS_REQUESTS, keeps document {
        /// `spec`.
        pub spec: ResourcePoolStatusRequestSpec,
        /// The answer; unset until there is one.
        pub status: Option<ResourcePoolStatusRequestStatus>,
    }

    /// `spec` of a ResourcePoolStatusRequest.
    pub struct ResourcePoolStatusRequestSpec {
        /// Name of the driver.
        pub driver: Sym,
        /// Name of the pool; all pools of the driver if it is unset or empty.
        pub pool_name: Option<Sym>,
        /// The most pools in the answer.
        pub limit: Option<i32>,
        /// The attribute that groups partitions in pools whose slices name none.
        pub default_partition_type_attribute: Option<Sym>,
    }

    /// `status` of a ResourcePoolStatusRequest.
    pub struct ResourcePoolStatusRequestStatus {
        /// Conditions.
        pub conditions: Vec<PoolStatusCondition>,
    }

    /// A condition of a ResourcePoolStatusRequest.
    pub struct PoolStatusCondition {
        /// `Complete` or `Failed`.
        #[serde(rename = "type")]
        pub kind: Sym,
        /// Time of the last change; unset when missing or malformed.
        pub last_transition_time: Parsed<Timestamp>,
    }
}
