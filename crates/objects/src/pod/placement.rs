//! The members of a pod's spec that restrict its nodes, as served.
//!
//! [`scheduling`](crate::scheduling) parses and evaluates them.

use std::collections::BTreeMap;

use steersman_values::intern::Sym;

use super::spec::Toleration;
use crate::view;

view! {
    /// A pod template, with the part of its spec that restricts the nodes.
    pub(crate) struct WireTemplate {
        /// `spec`.
        pub(crate) spec: WirePlacement,
    }

    /// The part of a pod's spec that restricts the nodes.
    pub(crate) struct WirePlacement {
        /// Name of a node; unset or empty for all nodes.
        pub(crate) node_name: Option<Sym>,
        /// Whether the pod uses the network of its node.
        pub(crate) host_network: bool,
        /// Labels that the node must have.
        pub(crate) node_selector: BTreeMap<Sym, Sym>,
        /// Affinities.
        pub(crate) affinity: WireAffinity,
        /// Tolerations.
        pub(crate) tolerations: Vec<Toleration>,
    }

    /// Affinities, without those to pods.
    pub(crate) struct WireAffinity {
        /// Affinity to nodes.
        pub(crate) node_affinity: WireNodeAffinity,
    }

    /// Affinity to nodes, without preferences.
    pub(crate) struct WireNodeAffinity {
        /// Required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        pub(crate) required: Option<WireNodeSelector>,
    }

    /// A node selector.
    pub(crate) struct WireNodeSelector {
        /// The terms.
        pub(crate) node_selector_terms: Vec<WireTerm>,
    }

    /// A term of a node selector.
    pub(crate) struct WireTerm {
        /// Requirements on labels.
        pub(crate) match_expressions: Vec<WireRequirement>,
        /// Requirements on fields.
        pub(crate) match_fields: Vec<WireRequirement>,
    }

    /// A requirement on a label or a field.
    pub(crate) struct WireRequirement {
        /// Key of a label, or path of a field.
        pub(crate) key: Sym,
        /// Operator.
        pub(crate) operator: Sym,
        /// Values.
        pub(crate) values: Vec<Sym>,
    }
}
