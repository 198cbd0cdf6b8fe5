//! The policies of a Job: which failures of pods count, and which successes are enough.
//!
//! Few Jobs have a policy. All names are kept as served, since validation of a newer API server may
//! allow values that this program lacks. Upstream: `PodFailurePolicy` and `SuccessPolicy` of
//! `k8s.io/api/batch/v1`.

use steersman_values::intern::Sym;

use crate::view;

view! {
    /// `spec.podFailurePolicy`.
    pub struct PodFailurePolicy {
        /// Rules; the first match decides.
        pub rules: Vec<PodFailurePolicyRule>,
    }

    /// A rule about failed pods. It has one of the two requirements.
    pub struct PodFailurePolicyRule {
        /// `Ignore`, `Count`, `FailIndex` or `FailJob`.
        pub action: Sym,
        /// A requirement on exit codes.
        pub on_exit_codes: Option<OnExitCodes>,
        /// Patterns of pod conditions; one match is enough.
        pub on_pod_conditions: Vec<OnPodCondition>,
    }

    /// A requirement on the exit code of a container.
    pub struct OnExitCodes {
        /// Name of the container; unset means any.
        pub container_name: Option<Sym>,
        /// `In` or `NotIn`.
        pub operator: Sym,
        /// Exit codes.
        pub values: Vec<i32>,
    }

    /// Type and status that a condition of the pod must have.
    pub struct OnPodCondition {
        /// Type.
        #[serde(rename = "type")]
        pub kind: Sym,
        /// Status.
        pub status: Sym,
    }

    /// `spec.successPolicy`.
    pub struct SuccessPolicy {
        /// Rules; one match is enough.
        pub rules: Vec<SuccessPolicyRule>,
    }

    /// A rule about succeeded indexes.
    pub struct SuccessPolicyRule {
        /// Indexes such as `0-3,7`; unset means all indexes of the Job.
        pub succeeded_indexes: Option<Sym>,
        /// Number of these indexes that is enough; unset means all of them.
        pub succeeded_count: Option<i32>,
    }
}
