//! Namespaces, of which only the metadata is read from the cache.

use super::view::view;

view! {
    /// A namespace, as controllers read it.
    pub struct Namespace: NAMESPACES {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn a_namespace_is_its_metadata() {
        let json = br#"{"metadata":{"name":"shop","uid":"u","resourceVersion":"7","deletionTimestamp":"2024-01-01T00:00:00Z"},
            "spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#;
        let namespace = Namespace::decode(json).unwrap();
        assert_eq!(namespace.key().to_string(), "shop");
        assert!(namespace.meta.is_terminating());
        assert!(Namespace::decode(br#"{"kind":"Namespace"}"#).is_err());
    }
}
