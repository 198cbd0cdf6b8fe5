//! Objects that enter the store as they are, without a request.

use std::sync::Arc;

use serde_json::Value;

use super::Server;
use crate::registry::Registered;
use crate::status::Status;
use crate::store::Change;

impl Server {
    /// Stores an object just as it is, with its UID, status, times and owners, as another API
    /// server left it; only `metadata.resourceVersion` is given anew. Nothing is defaulted, checked
    /// or logged as a request. An object of that name is replaced. Fails for an unknown kind, and
    /// for an object without a name or, where the kind has any, namespace.
    pub fn load(&self, object: Value) -> Result<(), Status> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let entry = self.registered(api_version, kind)?;
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
        loop {
            let current = entry.store.get(&key);
            let change = Change::Put(object.clone());
            if let Ok(loaded) = entry.store.commit(
                &entry.resource,
                &self.revisions,
                &key,
                current.as_ref(),
                change,
            ) {
                self.hand_over(&entry.resource, current.as_deref(), Some(&loaded));
                if entry.resource.is("CustomResourceDefinition") {
                    self.settle_definitions();
                }
                return Ok(());
            }
        }
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
