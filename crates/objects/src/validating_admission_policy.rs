//! ValidatingAdmissionPolicies, with the expressions whose types are checked.
//!
//! Upstream: `ValidatingAdmissionPolicy` of `k8s.io/api/admissionregistration/v1`.

use steersman_values::intern::Sym;
use steersman_values::resource::VALIDATING_ADMISSION_POLICIES;

use crate::view;

view! {
    /// The cached view of a ValidatingAdmissionPolicy.
    pub struct ValidatingAdmissionPolicy: VALIDATING_ADMISSION_POLICIES {
        /// `spec`.
        pub spec: ValidatingAdmissionPolicySpec,
        /// `status`.
        pub status: ValidatingAdmissionPolicyStatus,
    }

    /// `spec` of a ValidatingAdmissionPolicy.
    pub struct ValidatingAdmissionPolicySpec {
        /// The kind of the parameters; `None` without parameters.
        pub param_kind: Option<ParamKind>,
        /// The requests that the policy validates.
        pub match_constraints: MatchConstraints,
        /// Variables, in the order of their evaluation.
        pub variables: Vec<PolicyVariable>,
        /// Requirements.
        pub validations: Vec<PolicyValidation>,
    }

    /// `paramKind`.
    pub struct ParamKind {
        /// API group and version.
        pub api_version: Sym,
        /// Kind.
        pub kind: Sym,
    }

    /// `matchConstraints`.
    pub struct MatchConstraints {
        /// Rules of which one has to match.
        pub resource_rules: Vec<ResourceRule>,
    }

    /// The resources of a rule. `*` stands for all.
    pub struct ResourceRule {
        /// API groups; empty for core.
        pub api_groups: Vec<Sym>,
        /// Versions.
        pub api_versions: Vec<Sym>,
        /// Resources and subresources.
        pub resources: Vec<Sym>,
    }

    /// One of `variables`.
    pub struct PolicyVariable {
        /// Expressions use `variables.NAME`.
        pub name: Box<str>,
        /// CEL expression.
        pub expression: Box<str>,
    }

    /// One of `validations`.
    pub struct PolicyValidation {
        /// CEL expression.
        pub expression: Box<str>,
        /// CEL expression of the message; empty without one.
        pub message_expression: Box<str>,
    }

    /// `status` of a ValidatingAdmissionPolicy.
    pub struct ValidatingAdmissionPolicyStatus {
        /// The generation that was type checked.
        pub observed_generation: i64,
    }
}
