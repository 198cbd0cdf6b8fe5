//! Declares small views: an object, the fields that controllers read, and their places.
//!
//! Fields have the names and the nesting of the API, in snake case, so the place of a field needs
//! no words: `node.spec.taints` is `spec.taints`. Absent and `null` mean the default of the field's
//! type, unknown fields are skipped, and the bytes are read in one pass. Field types do the rest:
//!
//! | type | reads |
//! |---|---|
//! | [`Sym`](crate::intern::Sym) | a text that many objects have in common, kept once |
//! | `Option<T>` | a field for which unset differs from the default |
//! | [`Conditions`](super::Conditions) | types and statuses of conditions |
//! | [`Parsed<T>`](super::Parsed) | a text that stands for a `T`, such as the value of an annotation |
//!
//! ```ignore
//! view! {
//!     /// A node, as controllers read it.
//!     pub struct Node: NODES, annotations: NodeAnnotations {
//!         /// `spec`.
//!         pub spec: NodeSpec,
//!     }
//!
//!     /// `spec` of a node.
//!     pub struct NodeSpec {
//!         /// Taints.
//!         pub taints: Vec<Taint>,
//!     }
//! }
//! ```
//!
//! The first struct is the object: the macro adds `meta`, and implements
//! [`Object`](super::Object) for the resource of that name in [`resource`](crate::resource).
//! `annotations` is a struct with one field per annotation, each renamed to the annotation's key.

/// Declares views; see the module.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident: $resource:ident $(, annotations: $annotations:ty)? {
            $($(#[$field_doc:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
        $($parts:tt)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            /// Metadata.
            pub meta: $crate::object::Meta,
            $(
                /// Annotations.
                pub annotations: $annotations,
            )?
            $($(#[$field_doc])* $field_vis $field: $type,)*
        }

        impl $crate::object::Object for $name {
            const RESOURCE: &'static $crate::resource::ResourceType = &$crate::resource::$resource;

            fn decode(json: &[u8]) -> Result<Self, $crate::object::DecodeError> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire<'a> {
                    #[serde(borrow)]
                    metadata: $crate::object::wire::MetaWire<'a $(, $annotations)?>,
                    $(
                        #[serde(default, deserialize_with = "crate::object::wire::nullable")]
                        $field: $type,
                    )*
                }
                const KIND: &str = stringify!($name);
                let (wire, _): (Wire<'_>, &str) = $crate::object::wire::parse(json, KIND)?;
                Ok(Self {
                    $(annotations: <$annotations>::clone(&wire.metadata.annotations),)?
                    $($field: wire.$field,)*
                    meta: wire.metadata.into_meta(KIND)?,
                })
            }

            fn meta(&self) -> &$crate::object::Meta {
                &self.meta
            }
        }

        $crate::object::view::view! { $($parts)* }
    };
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident {
            $($(#[$attribute:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
        $($parts:tt)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $vis struct $name {
            $(
                $(#[$attribute])*
                #[serde(deserialize_with = "crate::object::wire::nullable")]
                $field_vis $field: $type,
            )*
        }

        $crate::object::view::view! { $($parts)* }
    };
    () => {};
}

pub(super) use view;
