//! Namespaces. The cache holds only their metadata.
//!
//! The namespace controller reads the spec and status of a namespace with live requests.

use super::view::view;

view! {
    /// The cached view of a namespace.
    pub struct Namespace: NAMESPACES {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn a_namespace_view_holds_the_metadata() {
        let json = br#"{"metadata":{"name":"shop","uid":"u","resourceVersion":"7","deletionTimestamp":"2024-01-01T00:00:00Z"},
            "spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#;
        let namespace = Namespace::decode(json).unwrap();
        assert_eq!(namespace.key().to_string(), "shop");
        assert!(namespace.meta.is_terminating());
        assert!(Namespace::decode(br#"{"kind":"Namespace"}"#).is_err());
    }
}
