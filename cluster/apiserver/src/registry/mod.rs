//! The resources that the server serves, each with the store of its objects.
//!
//! built-in rows (`kinds`), definitions (`custom`) -> [`Registry`] -> [`Registered`] rows
//!
//! Rows are pure data. This module adds the stores, and in `rules` the code that handles the
//! objects of a row, so that `kinds` needs none of that code. Rows of custom kinds come and go
//! while the server runs. A request keeps the row that it found; `retired` ends its watches.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};
use steersman_releases::Release;
use tokio_util::sync::CancellationToken;

use crate::apimachinery::version;
use crate::kinds::{self, Resource, Storage};
use crate::store::{Frozen, Revisions, TypeStore};

mod conversion;
mod definition;
mod rules;

pub(crate) use definition::{rows, stored_row};

/// A resource together with the place its objects are kept in.
#[derive(Debug)]
pub struct Registered {
    /// The row.
    pub resource: Resource,
    /// The objects, shared with other versions of the same kind.
    pub store: Arc<TypeStore>,
    /// Whether requests find it: definitions can have versions that only storage knows.
    pub served: bool,
    /// Cancelled when the row is replaced or goes: watches end then.
    pub retired: CancellationToken,
}

impl Registered {
    /// A row that is served, with its objects.
    pub fn new(resource: Resource, store: Arc<TypeStore>) -> Self {
        Self {
            resource,
            store,
            served: true,
            retired: CancellationToken::new(),
        }
    }
}

/// A group as discovery shows it.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name, empty for core.
    pub name: String,
    /// Versions, preferred first.
    pub versions: Vec<String>,
}

/// The resources being served. Rows can be added while the server runs.
#[derive(Debug)]
pub struct Registry {
    served: RwLock<Served>,
    release: Release,
}

#[derive(Debug, Default)]
struct Served {
    /// Built-in ones in the order of the table, then those that only custom kinds have, by name.
    groups: Vec<Group>,
    resources: BTreeMap<Key<'static>, Arc<Registered>>,
}

/// Plural, group and version of a resource. Plurals differ most, so most comparisons end there.
/// [`Registry::find_plural`] relies on the empty group coming first.
type Key<'a> = (Cow<'a, str>, Cow<'a, str>, Cow<'a, str>);

fn key_of(resource: &Resource) -> Key<'static> {
    (
        resource.plural.clone(),
        resource.group.clone(),
        resource.version.clone(),
    )
}

impl Served {
    /// Brings the groups up to date with the resources: those of built-in kinds stay where they
    /// are.
    fn regroup(&mut self) {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for ((_, group, version), _) in self.resources.iter().filter(|(_, row)| row.served) {
            let versions = found.entry(group).or_default();
            if !versions.contains(&&**version) {
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
    /// All built-in kinds of the default release.
    pub fn built_in() -> Self {
        Self::of_release(Release::DEFAULT)
    }

    /// All built-in kinds of `release`.
    pub fn of_release(release: Release) -> Self {
        let registry = Self {
            served: RwLock::default(),
            release,
        };
        for resource in kinds::built_in(release) {
            registry.add(resource);
        }
        registry
    }

    /// The release whose kinds are served.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Serves one more resource; a row with [`Storage::Converted`] shares the objects of the
    /// version that is kept.
    pub fn add(&self, resource: Resource) {
        let store = match resource.storage {
            Storage::Converted(kept) => {
                let kept = self.find(kept.group, kept.version, &resource.plural);
                kept.expect("the version that is kept precedes the other one in the table")
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
        let key = key_of(&resource);
        let row = Registered::new(resource, store);
        served.resources.insert(key, Arc::new(row));
    }

    /// Serves `rows` instead of the custom rows that `plural` of `group` has so far; without any,
    /// it is gone. Built-in rows stay.
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
            let rows = served.resources.entry(key_of(&row.resource));
            rows.or_insert_with(|| Arc::new(row));
        }
        served.regroup();
    }

    /// The rows of custom kinds, served or not.
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

    /// The rows of one custom kind, one per served version.
    pub(crate) fn custom_of(&self, group: &str, plural: &str) -> Vec<Arc<Registered>> {
        let is_one = |row: &&Arc<Registered>| {
            row.resource.custom.is_some()
                && row.resource.group == group
                && row.resource.plural == plural
        };
        self.read(|served| served.resources.values().filter(is_one).cloned().collect())
    }

    /// All resources with the objects of `store`: one kind in its versions and groups.
    pub(crate) fn resources_of(&self, store: &Arc<TypeStore>) -> Vec<Arc<Registered>> {
        let rows = |served: &Served| {
            let rows = served.resources.values().filter(|row| row.served);
            rows.filter(|row| Arc::ptr_eq(&row.store, store))
                .cloned()
                .collect()
        };
        self.read(rows)
    }

    /// The same resources with the same objects, and from now on apart; all as they were at the
    /// revision in the answer.
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
                    release: self.release,
                },
                Revisions::starting_at(revision),
            )
        })
    }

    /// One resource per store: of a kind with several versions the first, of a built-in one that
    /// which is kept.
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

    /// The resource of that group, version and plural name.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Registered>> {
        let key: Key<'_> = (plural.into(), group.into(), version.into());
        self.read(|served| {
            // The shorter lifetime lets borrowed texts be looked up.
            let resources: &BTreeMap<Key<'_>, _> = &served.resources;
            resources.get(&key).filter(|entry| entry.served).cloned()
        })
    }

    /// The resource of that plural name in any group: built-in ones first, of these core first.
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

    /// The resource of that group and plural name in any version; a built-in one in its stored
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

    /// The resource that serves objects of that `apiVersion` and kind.
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

    /// Whether the group is known, and if so, whether it has the version.
    pub fn has_version(&self, group: &str, version: &str) -> Option<bool> {
        self.read(|served| {
            let known = served.groups.iter().find(|known| known.name == group)?;
            Some(known.versions.iter().any(|served| served == version))
        })
    }

    /// Groups in the order they were added.
    pub fn groups(&self) -> Vec<Group> {
        self.read(|served| served.groups.clone())
    }

    /// Resources of one group version, by plural name.
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
        self.served.write()
    }

    fn read<T>(&self, look: impl FnOnce(&Served) -> T) -> T {
        look(&self.served.read())
    }
}
