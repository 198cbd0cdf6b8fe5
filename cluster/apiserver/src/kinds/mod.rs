//! The resources of the server as data: one row per resource and version.
//!
//! Differences between kinds are columns of the row, so request handlers have no branches per kind.
//! Built-in and custom kinds are rows of the same table. The methods in `rules` answer for both of
//! them: shape, defaults, validation, columns.

use std::borrow::Cow;
use std::sync::Arc;

use steersman_releases::Release;

use crate::custom::Custom;
use crate::status::Qualified;

mod convert;
mod field_selectors;
mod table;

pub use convert::Conversion;
pub(crate) use table::{metrics, rows as built_in};

type Text = Cow<'static, str>;

/// The rule for increments of `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The server has no rule. A value that the client sets at creation stays.
    Unmanaged,
    /// Starts at 1; increments with changes of `spec`.
    Spec,
    /// Starts absent; increments with changes of `spec` (CSIDriver).
    SpecFromNone,
    /// Starts at 1; increments with changes of `spec` or annotations (Deployment).
    SpecAndAnnotations,
    /// Starts at 1; increments with changes outside `metadata` and `status`.
    Content,
    /// Starts at 1; increments with changes outside `metadata`.
    ContentAndStatus,
    /// Starts at 1 and never changes.
    One,
}

/// The body of a `DELETE` answer when the object is removed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// The last state of the object.
    Object,
    /// A `Success` status with the uid.
    Status,
}

/// A field for field selectors, besides `metadata.name` and `metadata.namespace`.
#[derive(Debug, Clone)]
pub struct SelectableField {
    /// The field name in selectors.
    pub label: Text,
    /// JSON pointer of the value.
    pub pointer: Text,
    /// JSON pointer of the value where the first one is absent or empty; empty without a second one.
    pub fallback: &'static str,
    /// The only group that has the field, if the resource is in two groups.
    pub group: Option<&'static str>,
    /// The value of an absent field: `""`, or the text of Go's zero value (`false`, `0`).
    pub absent: &'static str,
}

/// An endpoint for a part of an object, such as `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    /// Last path segment.
    pub name: &'static str,
    /// Kind of the body; empty if it is the kind of the resource.
    pub kind: &'static str,
    /// Group and version of the body's kind, if they differ from the resource's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Allowed verbs, in the order of discovery.
    pub verbs: &'static [&'static str],
}

/// The version in which objects are stored.
#[derive(Debug, Clone, Copy)]
pub enum Storage {
    /// This version.
    Own,
    /// Another version of a built-in kind, with conversion at reads and writes.
    Converted(&'static Conversion),
    /// Another version of a custom kind, with conversion at reads and writes.
    OtherVersion,
}

/// One row: a resource in one version.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group, empty for core.
    pub group: Text,
    /// Version, such as `v1`.
    pub version: Text,
    /// Kind, such as `Deployment`.
    pub kind: Text,
    /// Plural resource name.
    pub plural: Text,
    /// Singular resource name.
    pub singular: Text,
    /// Short names for kubectl.
    pub short_names: Vec<Text>,
    /// Categories, such as `all`.
    pub categories: Vec<Text>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Allowed verbs, in the order of discovery.
    pub verbs: &'static [&'static str],
    /// Subresources.
    pub subresources: &'static [Subresource],
    /// Generation rule.
    pub generation: Generation,
    /// Extra field selectors.
    pub fields: Cow<'static, [SelectableField]>,
    /// Whether the error for an unknown field selector has the text of types with their own fields.
    pub own_field_labels: bool,
    /// Answer of `DELETE`.
    pub delete_answer: DeleteAnswer,
    /// Whether `PUT` of a missing object creates it.
    pub create_on_update: bool,
    /// Whether `PUT` without a resourceVersion is allowed.
    pub unconditional_update: bool,
    /// Whether deletion orphans dependents by default (ReplicationController, Job).
    pub orphans_by_default: bool,
    /// Whether deletion can add the finalizers of the garbage collector (all kinds but Event).
    pub garbage_collected: bool,
    /// The version in which objects are stored.
    pub storage: Storage,
    /// The parsed definition of a custom kind; `None` for built-in kinds.
    pub custom: Option<Arc<Custom>>,
    /// The release of the server, which decides about fields and validation of a built-in kind.
    pub release: Release,
}

impl Resource {
    /// `apps/v1`, or `v1` for core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Group and plural, the name of the resource in most messages.
    pub fn named(&self) -> Qualified<'_> {
        Qualified {
            group: &self.group,
            name: &self.plural,
        }
    }

    /// Group and kind of the stored version, the name in validation messages.
    pub fn named_kind(&self) -> Qualified<'_> {
        let group: &str = match self.storage {
            Storage::Own | Storage::OtherVersion => &self.group,
            Storage::Converted(conversion) => conversion.group,
        };
        Qualified {
            group,
            name: &self.kind,
        }
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Kind of the body at the subresource `part`.
    pub fn kind_at(&self, part: &Subresource) -> &str {
        if part.kind.is_empty() {
            &self.kind
        } else {
            part.kind
        }
    }

    /// Kind of a list of these objects.
    pub fn list_kind(&self) -> String {
        self.custom.as_ref().map_or_else(
            || format!("{}List", self.kind),
            |custom| custom.list_kind.clone(),
        )
    }

    /// Whether this is the built-in kind `kind`. A custom kind can have the same name.
    pub fn is(&self, kind: &str) -> bool {
        self.custom.is_none() && self.kind == kind
    }

    /// Whether objects are stored in another version of the same built-in kind.
    pub fn is_converted(&self) -> bool {
        matches!(self.storage, Storage::Converted(_))
    }

    /// Whether the kind has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }
}
