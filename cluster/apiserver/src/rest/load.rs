//! Objects that enter the store as they are, without a request.

use std::sync::Arc;

use serde_json::Value;

use super::Server;
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::status::Status;
use crate::store::{Change, Object};

impl Server {
    /// Stores an object just as it is, with its UID, status, times and owners, as another API
    /// server left it; only `metadata.resourceVersion` is given anew. Nothing is defaulted, checked
    /// or logged as a request. An object of that name is replaced. Fails for an unknown kind, and
    /// for an object without a name or, where the kind has any, namespace.
    pub fn load(&self, object: Value) -> Result<(), Status> {
        let (entry, key) = self.place_of(&object)?;
        loop {
            let current = entry.store.get(&key);
            let change = Change::Put(object.clone());
            let loaded = entry.store.commit(
                &entry.resource,
                &self.revisions,
                &key,
                current.as_ref(),
                change,
            );
            if let Ok(loaded) = loaded {
                self.loaded(&entry, current.as_deref(), &loaded);
                return Ok(());
            }
        }
    }

    /// As [`Server::load`], with the resource version that another server gave the object; without one,
    /// it gets a new version. Watches see no event, so this is for a server without clients.
    pub fn restore(&self, object: Value) -> Result<(), Status> {
        let version = object.pointer("/metadata/resourceVersion");
        let version = version.and_then(Value::as_str);
        let Some(version) = version.and_then(|text| text.parse().ok()) else {
            return self.load(object);
        };
        let (entry, key) = self.place_of(&object)?;
        let (old, restored) = entry.store.put_back(&entry.resource, &key, object, version);
        self.revisions.raise(version);
        self.loaded(&entry, old.as_deref(), &restored);
        Ok(())
    }

    /// Removes an object without regard to its finalizers and dependents, if it exists. Watches see the
    /// deletion. Fails as [`Server::load`].
    pub fn unload(&self, object: &Value) -> Result<(), Status> {
        let (entry, key) = self.place_of(object)?;
        let resource = &entry.resource;
        while let Some(current) = entry.store.get(&key) {
            let change = Change::Remove;
            let removed =
                entry
                    .store
                    .commit(resource, &self.revisions, &key, Some(&current), change);
            if removed.is_ok() {
                self.hand_over(resource, Some(&current), None);
                self.settle_if_definition(resource);
                break;
            }
        }
        Ok(())
    }

    /// The row of an object of a file, and its key.
    fn place_of(&self, object: &Value) -> Result<(Arc<Registered>, String), Status> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let kind = text("/kind");
        let entry = self.registered(text("/apiVersion"), kind)?;
        let key = match (
            entry.resource.namespaced,
            text("/metadata/namespace"),
            text("/metadata/name"),
        ) {
            (_, _, "") | (true, "", _) => {
                return Err(Status::bad_request(format!(
                    "a {kind} to load has no name or namespace"
                )));
            }
            (true, namespace, name) => format!("{namespace}/{name}"),
            (false, _, name) => name.to_owned(),
        };
        Ok((entry, key))
    }

    fn loaded(&self, entry: &Registered, old: Option<&Object>, new: &Arc<Object>) {
        self.hand_over(&entry.resource, old, Some(new));
        self.settle_if_definition(&entry.resource);
    }

    fn settle_if_definition(&self, resource: &Resource) {
        if resource.is("CustomResourceDefinition") {
            self.settle_definitions();
        }
    }

    /// Forgets all changes up to now, so that watches from older revisions fail.
    pub fn forget_history(&self) {
        for entry in self.registry.stored() {
            entry.store.compact(&self.revisions);
        }
    }

    /// All stored objects, as [`Server::restore`] takes them.
    pub fn dump(&self) -> Vec<Value> {
        let stored = self.registry.stored().into_iter();
        let objects = stored.flat_map(|entry| entry.store.list(&self.revisions, "").objects);
        objects.map(|object| object.to_value()).collect()
    }

    /// The row that serves objects of a kind; 400 where no row does.
    pub fn registered(&self, api_version: &str, kind: &str) -> Result<Arc<Registered>, Status> {
        let found = self.registry.find_kind(api_version, kind);
        found.ok_or_else(|| {
            Status::bad_request(format!(
                "no resource serves kind {kind:?} of {api_version:?}"
            ))
        })
    }
}
