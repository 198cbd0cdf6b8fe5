//! The macro `view!`, which declares small views: an object and the fields that controllers read.
//!
//! Fields have the names and the nesting of the API, in snake case: `node.spec.taints` is
//! `spec.taints`. A declaration therefore needs no paths. The generated decoder reads the bytes in
//! one pass and skips unknown fields. Absent and `null` give the default of the field's type, as
//! in Go's JSON. The type of a field selects its form:
//!
//! | type | reads |
//! |---|---|
//! | [`Sym`](steersman_values::intern::Sym) | a string that many objects share |
//! | `Option<T>` | a field whose default differs from unset |
//! | [`Conditions`](super::Conditions) | types and statuses of conditions |
//! | [`Parsed<T>`](super::Parsed) | a string that is parsed as `T`, such as an annotation |
//!
//! ```
//! use serde::Deserialize;
//! use steersman_objects::{Parsed, Taint, view};
//! use steersman_values::resource::NODES;
//!
//! view! {
//!     /// The cached view of a node.
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
//!
//! /// Annotations that the view reads.
//! #[derive(Debug, Clone, Default, Deserialize)]
//! #[serde(default)]
//! pub struct NodeAnnotations {
//!     /// Seconds for which a kubelet may cache Secrets.
//!     #[serde(rename = "node.alpha.kubernetes.io/ttl")]
//!     pub ttl: Parsed<i32>,
//! }
//! ```
//!
//! The first struct is the object. The macro adds the field `meta` and implements
//! [`Object`](super::Object); `NODES` is the path of a static
//! [`ResourceType`]: those of Kubernetes are in [`resource`](steersman_values::resource), and
//! [`ResourceType::new`] declares that of a custom resource. The optional struct after `annotations:` has one field per
//! annotation, and a serde attribute renames the field to the annotation's key;
//! [`Annotations`](super::Annotations) keeps all of them. Further structs are parts of the object.
//!
//! `selects "type=Opaque"` after the resource restricts the cache to the objects that this field
//! selector matches; `selects "type=Opaque" in "kube-system"`, to those in one namespace.
//!
//! `keeps document` after the resource adds the served [`Document`](super::Document), for objects
//! that a controller PUTs. A field with a type from elsewhere needs `Deserialize` and `Default`.
//!
//! `keeps document without endpoints: Vec<Endpoint>` declares the member `endpoints` as a field that
//! the document omits. Large members that the view decodes completely are then kept once.
//!
//! Generated code says `view::nullable`, so `use steersman_objects::view;` brings the macro and this
//! module. A crate that declares views depends on `serde`, too.

pub use steersman_values::resource::ResourceType;

pub use crate::wire::nullable;
#[doc(hidden)]
pub use crate::{
    document::{Apart, Served, present},
    wire::{MetaWire, parse},
};

/// Declares views; the documentation of the [module](mod@crate::view) describes the syntax.
#[macro_export]
macro_rules! view {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident: $resource:path
            $(, selects $fields:literal $(in $namespace:literal)?)?
            $(, annotations: $annotations:ty)?
            $(, keeps $document:ident $(without $apart:ident: $apart_type:ty)?)? {
            $($(#[$field_doc:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
        $($parts:tt)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            /// Metadata.
            pub meta: $crate::Meta,
            $(
                /// Annotations.
                pub annotations: $annotations,
            )?
            $($(#[$field_doc])* $field_vis $field: $type,)*
            $(
                $(
                    #[doc = concat!("`", stringify!($apart), "`, which the document omits.")]
                    pub $apart: $apart_type,
                )?
                /// The served JSON without `managedFields`.
                pub $document: $crate::Document,
            )?
        }

        impl $crate::Object for $name {
            const RESOURCE: &'static $crate::view::ResourceType = &$resource;
            $(
                const FIELDS: &'static str = $fields;
                $(const NAMESPACE: Option<&'static str> = Some($namespace);)?
            )?

            fn decode(json: &[u8]) -> Result<Self, $crate::DecodeError> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire<'a> {
                    #[serde(borrow)]
                    metadata: $crate::view::Served<
                        'a,
                        $crate::view::MetaWire<'a $(, $annotations)?>,
                    >,
                    $(
                        #[serde(default, deserialize_with = "view::nullable")]
                        $field: $type,
                    )*
                    $($(
                        #[serde(
                            borrow,
                            default,
                            deserialize_with = "view::present"
                        )]
                        $apart: Option<$crate::view::Apart<'a, $apart_type>>,
                    )?)?
                }
                const KIND: &str = stringify!($name);
                let (wire, _text): (Wire<'_>, &str) = $crate::view::parse(json, KIND)?;
                let metadata = wire.metadata.object;
                Ok(Self {
                    $(annotations: <$annotations>::clone(&metadata.annotations),)?
                    $($field: wire.$field,)*
                    $(
                        $document: $crate::Document::without(
                            _text,
                            wire.metadata
                                .managed_fields
                                .into_iter()
                                $(.chain(wire.$apart.as_ref().map(|member| member.text)))?,
                            KIND,
                        ),
                        $($apart: wire.$apart.map(|member| member.value).unwrap_or_default(),)?
                    )?
                    meta: metadata.into_meta(KIND)?,
                })
            }

            fn meta(&self) -> &$crate::Meta {
                &self.meta
            }

            fn heap_size(&self) -> usize {
                self.meta.name.len()
                    $(+ self.$document.size() $(+ size_of_val(&*self.$apart))?)?
            }
        }

        $crate::view! { $($parts)* }
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
                #[serde(deserialize_with = "view::nullable")]
                $field_vis $field: $type,
            )*
        }

        $crate::view! { $($parts)* }
    };
    () => {};
}
