//! Namespaces. The cache holds their metadata and their phase.
//!
//! The namespace controller reads the spec and status of a namespace with live requests.

use steersman_values::intern::Sym;
use steersman_values::resource::NAMESPACES;

use crate::view;

view! {
    /// The cached view of a namespace.
    pub struct Namespace: NAMESPACES {
        /// `status`.
        pub status: NamespaceStatus,
    }

    /// `status` of a namespace.
    pub struct NamespaceStatus {
        /// `Active` or `Terminating`; empty when unset.
        pub phase: Sym,
    }
}

impl Namespace {
    /// Whether the phase is `Active`. A deleted namespace is `Terminating`.
    pub fn is_active(&self) -> bool {
        self.status.phase == *"Active"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn a_namespace_view_holds_metadata_and_phase() {
        let json = br#"{"metadata":{"name":"shop","uid":"u","resourceVersion":"7","deletionTimestamp":"2024-01-01T00:00:00Z"},
            "spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#;
        let namespace = Namespace::decode(json).unwrap();
        assert_eq!(namespace.key().to_string(), "shop");
        assert!(namespace.meta.is_terminating());
        assert_eq!(namespace.status.phase, "Terminating");
        assert!(!namespace.is_active());
        assert!(Namespace::decode(br#"{"kind":"Namespace"}"#).is_err());
    }
}
