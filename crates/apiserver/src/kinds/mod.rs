//! The resources of the server as data: one row per resource and version.
//!
//! Differences between kinds are columns of the row, so request handlers have no branches per kind.
//! Built-in and custom kinds are rows of the same table. The methods in `rules` answer for both of
//! them: shape, defaults, validation, columns.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockWriteGuard};

use tokio_util::sync::CancellationToken;

use crate::custom::Custom;
use crate::status::Qualified;
use crate::store::{Frozen, Revisions, TypeStore};

mod convert;
mod rules;
mod table;
mod version;

pub use convert::Conversion;

type Text = Cow<'static, str>;

/// The rule for increments of `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The server has no rule. A value that the client sets at creation stays.
    Unmanaged,
    /// Starts at 1; increments with changes of `spec`.
    Spec,
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

/// A resource with the store of its objects.
#[derive(Debug)]
pub struct Registered {
    /// The row.
    pub resource: Resource,
    /// The objects. All versions of a kind share one store.
    pub store: Arc<TypeStore>,
    /// Whether requests can use it. A definition can have versions that are not served.
    pub served: bool,
    /// Cancelled when the row is replaced or removed; its watches end then.
    pub retired: CancellationToken,
}

impl Registered {
    /// A served row with its store.
    pub fn new(resource: Resource, store: Arc<TypeStore>) -> Self {
        Self {
            resource,
            store,
            served: true,
            retired: CancellationToken::new(),
        }
    }
}

/// An API group in discovery.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name, empty for core.
    pub name: String,
    /// Versions, preferred first.
    pub versions: Vec<String>,
}

/// The served resources. Rows can be added while the server runs.
#[derive(Debug)]
pub struct Registry {
    served: RwLock<Served>,
}

#[derive(Debug, Default)]
struct Served {
    /// Groups of built-in kinds in the order of the table, then groups of custom kinds only, by
    /// name.
    groups: Vec<Group>,
    /// By group, version and plural.
    resources: BTreeMap<(String, String, String), Arc<Registered>>,
}

impl Served {
    /// Recomputes the groups from the resources. Groups of built-in kinds keep their order.
    fn regroup(&mut self) {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for ((group, version, _), _) in self.resources.iter().filter(|(_, row)| row.served) {
            let versions = found.entry(group).or_default();
            if !versions.contains(&version.as_str()) {
                versions.push(version);
            }
        }
        let built_in = |group: &str| {
            self.resources
                .values()
                .any(|row| row.resource.group == group && row.resource.custom.is_none())
        };
        let mut groups: Vec<Group> = self
            .groups
            .iter()
            .filter(|group| built_in(&group.name))
            .cloned()
            .collect();
        for (name, mut versions) in found {
            versions.sort_by(|a, b| version::compare(a, b));
            let versions = versions.into_iter().map(str::to_owned);
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => {
                    group
                        .versions
                        .retain(|known| versions.clone().any(|version| version == *known));
                    let new: Vec<String> = versions
                        .filter(|version| !group.versions.contains(version))
                        .collect();
                    group.versions.extend(new);
                }
                None => groups.push(Group {
                    name: name.to_owned(),
                    versions: versions.collect(),
                }),
            }
        }
        self.groups = groups;
    }
}

impl Registry {
    /// A registry of all built-in kinds.
    pub fn built_in() -> Self {
        let registry = Self {
            served: RwLock::default(),
        };
        for resource in table::rows() {
            registry.add(resource);
        }
        registry
    }

    /// Adds a resource. A row with [`Storage::Converted`] shares the store of the stored version.
    pub fn add(&self, resource: Resource) {
        let store = match resource.storage {
            Storage::Converted(kept) => {
                let kept = self.find(kept.group, kept.version, &resource.plural);
                kept.expect("the stored version precedes the converted one in the table")
                    .store
                    .clone()
            }
            Storage::Own | Storage::OtherVersion => Arc::new(TypeStore::new(&resource)),
        };
        let mut served = self.write();
        match served
            .groups
            .iter_mut()
            .find(|group| group.name == resource.group)
        {
            Some(group)
                if group
                    .versions
                    .iter()
                    .any(|version| *version == resource.version) => {}
            Some(group) => group.versions.push(resource.version.to_string()),
            None => served.groups.push(Group {
                name: resource.group.to_string(),
                versions: vec![resource.version.to_string()],
            }),
        }
        let key = (
            resource.group.to_string(),
            resource.version.to_string(),
            resource.plural.to_string(),
        );
        served
            .resources
            .insert(key, Arc::new(Registered::new(resource, store)));
    }

    /// Replaces the custom rows of `plural` in `group` by `rows`. Without rows, the resource is
    /// removed. Built-in rows stay.
    pub(crate) fn replace_custom(&self, group: &str, plural: &str, rows: Vec<Registered>) {
        let mut served = self.write();
        served.resources.retain(|_, row| {
            let replaced = row.resource.custom.is_some()
                && row.resource.group == group
                && row.resource.plural == plural;
            if replaced {
                row.retired.cancel();
            }
            !replaced
        });
        for row in rows {
            let key = (
                row.resource.group.to_string(),
                row.resource.version.to_string(),
                row.resource.plural.to_string(),
            );
            served.resources.entry(key).or_insert_with(|| Arc::new(row));
        }
        served.regroup();
    }

    /// All rows of custom kinds, including versions that are not served.
    pub(crate) fn custom(&self) -> Vec<Arc<Registered>> {
        self.read(|served| {
            served
                .resources
                .values()
                .filter(|row| row.resource.custom.is_some())
                .cloned()
                .collect()
        })
    }

    /// The rows of one custom kind, one per version.
    pub(crate) fn custom_of(&self, group: &str, plural: &str) -> Vec<Arc<Registered>> {
        let is_one = |row: &&Arc<Registered>| {
            row.resource.custom.is_some()
                && row.resource.group == group
                && row.resource.plural == plural
        };
        self.read(|served| served.resources.values().filter(is_one).cloned().collect())
    }

    /// A copy of all resources and objects, which is independent from now on. All objects are as of
    /// the revision in the answer.
    pub(crate) fn fork(&self, revisions: &Revisions) -> (Self, Revisions) {
        self.read(|served| {
            let mut frozen: Vec<(&Arc<TypeStore>, Frozen<'_>)> = Vec::new();
            for entry in served.resources.values() {
                // Versions share a store, and one thread must not lock it twice.
                if !frozen
                    .iter()
                    .any(|(known, _)| Arc::ptr_eq(known, &entry.store))
                {
                    frozen.push((&entry.store, entry.store.freeze()));
                }
            }
            let revision = revisions.current();
            let copies: Vec<_> = frozen
                .iter()
                .map(|(store, frozen)| (*store, Arc::new(frozen.copy(revision))))
                .collect();
            drop(frozen);
            let copy_of = |store: &Arc<TypeStore>| {
                let found = copies.iter().find(|(known, _)| Arc::ptr_eq(known, store));
                found.expect("every store was copied").1.clone()
            };
            let resources = served.resources.iter().map(|(key, entry)| {
                let row = Registered::new(entry.resource.clone(), copy_of(&entry.store));
                (
                    key.clone(),
                    Arc::new(Registered {
                        served: entry.served,
                        ..row
                    }),
                )
            });
            let served = Served {
                groups: served.groups.clone(),
                resources: resources.collect(),
            };
            (
                Self {
                    served: RwLock::new(served),
                },
                Revisions::starting_at(revision),
            )
        })
    }

    /// One resource per store. For kinds with several versions it is the stored version of a
    /// built-in kind, or the first version of a custom kind.
    pub fn stored(&self) -> Vec<Arc<Registered>> {
        self.read(|served| {
            let mut found: Vec<Arc<Registered>> = Vec::new();
            for entry in served
                .resources
                .values()
                .filter(|entry| !entry.resource.is_converted())
            {
                if !found
                    .iter()
                    .any(|known| Arc::ptr_eq(&known.store, &entry.store))
                {
                    found.push(entry.clone());
                }
            }
            found
        })
    }

    /// The served resource with this group, version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Registered>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.read(|served| {
            served
                .resources
                .get(&key)
                .filter(|entry| entry.served)
                .cloned()
        })
    }

    /// The served resource with this plural in any group. Built-in kinds come first, and the core
    /// group comes first among them.
    pub fn find_plural(&self, plural: &str) -> Option<Arc<Registered>> {
        self.read(|served| {
            let named = served
                .resources
                .values()
                .filter(|entry| entry.served && entry.resource.plural == plural);
            named
                .min_by_key(|entry| {
                    (
                        entry.resource.custom.is_some(),
                        entry.resource.is_converted(),
                    )
                })
                .cloned()
        })
    }

    /// The resource with this group and plural, in any version; for built-in kinds in the stored
    /// version.
    pub fn find_in_group(&self, group: &str, plural: &str) -> Option<Arc<Registered>> {
        let is_it = |entry: &&Arc<Registered>| {
            entry.resource.group == group && entry.resource.plural == plural
        };
        self.read(|served| {
            served
                .resources
                .values()
                .filter(is_it)
                .min_by_key(|entry| entry.resource.is_converted())
                .cloned()
        })
    }

    /// The served resource of this `apiVersion` and kind.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Registered>> {
        self.read(|served| {
            let is_it = |entry: &&Arc<Registered>| {
                entry.served
                    && entry.resource.kind == kind
                    && entry.resource.api_version() == api_version
            };
            served.resources.values().find(is_it).cloned()
        })
    }

    /// Whether the group has the version; `None` for an unknown group.
    pub fn has_version(&self, group: &str, version: &str) -> Option<bool> {
        self.read(|served| {
            let known = served.groups.iter().find(|known| known.name == group)?;
            Some(known.versions.iter().any(|served| served == version))
        })
    }

    /// Groups in the order in which they were added.
    pub fn groups(&self) -> Vec<Group> {
        self.read(|served| served.groups.clone())
    }

    /// Served resources of one group version, by plural.
    pub fn resources(&self, group: &str, version: &str) -> Vec<Arc<Registered>> {
        self.read(|served| {
            let of_version = |entry: &&Arc<Registered>| {
                entry.served && entry.resource.group == group && entry.resource.version == version
            };
            served
                .resources
                .values()
                .filter(of_version)
                .cloned()
                .collect()
        })
    }

    fn write(&self) -> RwLockWriteGuard<'_, Served> {
        self.served
            .write()
            .expect("no writer panics while it holds the lock")
    }

    fn read<T>(&self, look: impl FnOnce(&Served) -> T) -> T {
        look(
            &self
                .served
                .read()
                .expect("no writer panics while it holds the lock"),
        )
    }
}
