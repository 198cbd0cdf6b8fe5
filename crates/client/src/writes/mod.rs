//! Requests about cached objects: their paths, deletions with a UID, bodies of PUTs, and status
//! updates.
//!
//! A request takes name, namespace and UID from the cached object that the decision was about, so
//! that both are about the same object. Upstream: the typed clients of client-go.

mod delete;
mod disruption;
mod member;
mod status;

pub use delete::{Delete, Propagation};
pub use disruption::{DisruptionCause, ObservedGeneration, disruption_target};
pub use member::with_member;
pub use status::{OnFailure, StatusError, write_status};

use steersman_objects::{Meta, Object};

use crate::Target;

impl<'a> Target<'a> {
    /// The object of type `T` with this metadata.
    pub fn of<T: Object>(meta: &'a Meta) -> Self {
        Self {
            resource: T::RESOURCE,
            namespace: T::RESOURCE.namespaced.then_some(&*meta.namespace),
            name: Some(&meta.name),
            subresource: None,
        }
    }

    /// The object of type `T` with this name in `namespace`.
    pub fn named<T: Object>(namespace: &'a str, name: &'a str) -> Self {
        Self {
            name: Some(name),
            ..Self::collection::<T>(namespace)
        }
    }

    /// All objects of type `T` in `namespace`.
    pub fn collection<T: Object>(namespace: &'a str) -> Self {
        Self {
            resource: T::RESOURCE,
            namespace: T::RESOURCE.namespaced.then_some(namespace),
            name: None,
            subresource: None,
        }
    }

    /// The status of the same object.
    #[must_use]
    pub fn status(self) -> Self {
        Self {
            subresource: Some("status"),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::{Node, Pod};

    use super::*;

    #[test]
    fn cluster_scoped_objects_are_addressed_without_a_namespace() {
        let json = br#"{"metadata": {"name": "a", "namespace": "shop", "uid": "u"}}"#;
        let pod = Pod::decode(json).unwrap();
        let node = Node::decode(json).unwrap();
        let parts = |target: Target<'_>| {
            let Target {
                resource,
                namespace,
                name,
                subresource,
            } = target;
            format!("{} {namespace:?} {name:?} {subresource:?}", resource.plural)
        };
        assert_eq!(
            parts(Target::of::<Pod>(&pod.meta).status()),
            r#"pods Some("shop") Some("a") Some("status")"#
        );
        assert_eq!(
            parts(Target::of::<Node>(&node.meta)),
            r#"nodes None Some("a") None"#
        );
        assert_eq!(
            parts(Target::named::<Pod>("shop", "b")),
            r#"pods Some("shop") Some("b") None"#
        );
        assert_eq!(
            parts(Target::named::<Node>("", "b")),
            r#"nodes None Some("b") None"#
        );
        assert_eq!(
            parts(Target::collection::<Pod>("shop")),
            r#"pods Some("shop") None None"#
        );
    }
}
