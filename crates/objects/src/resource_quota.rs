//! The cached view of a ResourceQuota.
//!
//! The view keeps the served [`Document`](super::Document), because upstream PUTs the whole object to
//! the status endpoint. Upstream: `k8s.io/api/core/v1`.

use steersman_values::intern::Sym;
use steersman_values::resource::RESOURCE_QUOTAS;

use super::ResourceList;
use crate::view;

view! {
    /// A ResourceQuota: the fields that its controller reads, and the document for its writes.
    pub struct ResourceQuota: RESOURCE_QUOTAS, keeps document {
        /// `spec`.
        pub spec: ResourceQuotaSpec,
        /// `status`.
        pub status: ResourceQuotaStatus,
    }

    /// `spec` of a ResourceQuota.
    pub struct ResourceQuotaSpec {
        /// Limits by resource name.
        pub hard: ResourceList,
        /// Scopes that each counted object matches.
        pub scopes: Vec<Sym>,
        /// Further scopes, with operators.
        pub scope_selector: ScopeSelector,
    }

    /// A list of scopes that each counted object matches.
    pub struct ScopeSelector {
        /// The scopes.
        pub match_expressions: Vec<ScopeRequirement>,
    }

    /// A scope with an operator.
    pub struct ScopeRequirement {
        /// Name of the scope, such as `PriorityClass`.
        pub scope_name: Sym,
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub operator: Sym,
        /// Values of the operator.
        pub values: Vec<Sym>,
    }

    /// `status` of a ResourceQuota.
    pub struct ResourceQuotaStatus {
        /// The limits to which `used` belongs.
        pub hard: Option<ResourceList>,
        /// Usage by resource name.
        pub used: Option<ResourceList>,
    }
}
