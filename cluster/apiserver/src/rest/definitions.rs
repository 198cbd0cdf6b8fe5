//! CustomResourceDefinitions: serves the established ones, writes their status, and deletes their
//! objects.
//!
//! write -> [`Server::settle_definitions`]: names -> conditions -> rows of the table of kinds; for
//! a terminating definition: its objects -> finalizer -> rows
//!
//! The work is done within the request that causes it, so that tests need not wait; only a deletion goes on
//! after its answer. Upstream's controllers do all of it later
//! (`apiextensions-apiserver/pkg/controller/status`, `establish` and `finalizer`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::commit::NotWritten;
use super::delete::{DeleteOptions, Deleted, check_special_preconditions};
use super::managers::Tracking;
use super::subresources::set_condition;
use super::update::Writing;
use super::{Server, Verb, metadata};
use crate::calls::at_once;
use crate::custom::{self, names};
use crate::kinds::Resource;
use crate::managed_fields::{Author, Operation};
use crate::registry;
use crate::registry::Registered;
use crate::route::Target;
use crate::status::Status;
use crate::store::{Object, TypeStore};

/// Finalizer of definitions that still have objects.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Time from the answer of a deletion to its first step. Upstream's finalizer needs 30 to 130 ms for a definition
/// without objects.
const DELETION_DELAY: Duration = Duration::from_millis(50);

/// Field manager of everything that the server itself writes.
pub(super) const MANAGER: &str = "kube-apiserver";

/// Definitions by name, each with its revision.
pub(crate) type Definitions = BTreeMap<String, (u64, Arc<Value>)>;

impl Resource {
    /// Whether a write to an object of this resource can change the served resources.
    fn concerns_definitions(&self) -> bool {
        self.is("CustomResourceDefinition")
            || self
                .custom
                .as_ref()
                .is_some_and(|custom| custom.is_terminating())
    }
}

impl Server {
    /// Settles definitions after a write that can change the served resources. A deleted definition is still
    /// there after the answer, as upstream.
    pub(super) fn settle_after(self: &Arc<Self>, verb: Verb, target: &Target) {
        let is_deletion = matches!(verb, Verb::Delete | Verb::DeleteCollection)
            && target.resource().is("CustomResourceDefinition");
        match verb {
            Verb::Get | Verb::List | Verb::Watch => {}
            _ if !target.resource().concerns_definitions() => {}
            _ if is_deletion => {
                let server = Arc::downgrade(self);
                tokio::spawn(async move {
                    tokio::time::sleep(DELETION_DELAY).await;
                    if let Some(server) = server.upgrade() {
                        server.settle_definitions();
                    }
                });
            }
            _ => self.settle_definitions(),
        }
    }

    /// Brings custom kinds in line with the stored definitions. A status write may affect other
    /// definitions, so the loop ends after a pass without writes.
    pub(crate) fn settle_definitions(&self) {
        let mut known = self.settling.lock();
        loop {
            let definitions = self.definitions(&mut known);
            let mut groups: HashMap<&str, Vec<&Value>> = HashMap::new();
            for definition in &definitions {
                groups
                    .entry(text(&definition["spec"], "group"))
                    .or_default()
                    .push(definition);
            }
            let settled = |definition: &&Arc<Value>| {
                self.settle(definition, &groups[text(&definition["spec"], "group")])
            };
            let written = definitions.iter().filter(settled).count();
            if written == 0 {
                self.withdraw_others(&definitions);
                self.settle_api_services(&definitions);
                return;
            }
        }
    }

    fn definition_kind(&self) -> Arc<Registered> {
        let found = self
            .registry
            .find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        found.expect("definitions are built in")
    }

    /// The stored definitions. Values of unchanged definitions are reused, because each creation of
    /// a definition reads all of them.
    fn definitions(&self, known: &mut Definitions) -> Vec<Arc<Value>> {
        let stored = self.definition_kind().store.list(&self.revisions, "");
        let read = |object: &Arc<Object>| match known.get(object.name()) {
            Some((revision, value)) if *revision == object.revision => {
                (*revision, Arc::clone(value))
            }
            _ => (object.revision, Arc::new(object.to_value())),
        };
        let now: Definitions = stored
            .objects
            .iter()
            .map(|object| (object.name().to_owned(), read(object)))
            .collect();
        *known = now;
        known.values().map(|(_, value)| Arc::clone(value)).collect()
    }

    /// One step for one definition. True if it wrote a status that other definitions of its `group`
    /// depend on.
    fn settle(&self, definition: &Value, group: &[&Value]) -> bool {
        if is_terminating(definition) {
            self.serve(definition);
            self.terminate(definition);
            return metadata::finalizers(definition).contains(&CLEANUP)
                && self.clean_up(definition);
        }
        let (accepted, conditions) = names::decide(definition, group);
        let known = |condition: &Value| {
            let kind = condition["type"].as_str().unwrap_or_default();
            let same = |found: &Value| {
                ["status", "reason", "message"]
                    .iter()
                    .all(|field| found[*field] == condition[*field])
            };
            names::condition(definition, kind).is_some_and(same)
        };
        if definition["status"]["acceptedNames"] == accepted && conditions.iter().all(known) {
            self.serve(definition);
            return false;
        }
        self.write_status(definition, |new| {
            new["status"]["acceptedNames"] = accepted.clone();
            for condition in &conditions {
                self.put_condition(new, condition.clone());
            }
        })
    }

    /// Serves the versions of an established definition. Unchanged definitions keep their rows.
    fn serve(&self, definition: &Value) {
        let (group, plural) = group_and_plural(definition);
        if !names::is_established(definition) {
            return self.registry.replace_custom(group, plural, Vec::new());
        }
        let current = self.rows_of(group, plural);
        let uid = metadata::text(definition, "uid");
        let same_definition = current.first().filter(|row| {
            row.resource
                .custom
                .as_ref()
                .is_some_and(|custom| custom.source.uid == uid)
        });
        let store = match same_definition {
            Some(row)
                if row
                    .resource
                    .custom
                    .as_ref()
                    .is_some_and(|custom| custom.source == custom::Source::of(definition)) =>
            {
                return;
            }
            Some(row) => row.store.clone(),
            None => {
                let Some(row) = registry::stored_row(definition) else {
                    return;
                };
                Arc::new(TypeStore::beginning_at(self.revisions.current(), &row))
            }
        };
        let rows = registry::rows(definition, &store);
        if let Some(row) = rows.first() {
            store.reread(&row.resource, |object| row.resource.reread_stored(object));
        }
        self.registry.replace_custom(group, plural, rows);
    }

    /// Ends creations of objects of a terminating definition. Its watches see the deletion of the
    /// objects, as with upstream.
    fn terminate(&self, definition: &Value) {
        let (group, plural) = group_and_plural(definition);
        let rows = self.registry.custom_of(group, plural);
        let customs = rows.iter().filter_map(|row| row.resource.custom.as_ref());
        customs.for_each(|custom| custom.terminate());
    }

    /// The rows of a definition, the storage version first.
    fn rows_of(&self, group: &str, plural: &str) -> Vec<Arc<Registered>> {
        let mut rows = self.registry.custom_of(group, plural);
        rows.sort_by_key(|row| {
            row.resource
                .custom
                .as_ref()
                .is_some_and(|custom| custom.storage.is_some())
        });
        rows
    }

    /// Stops serving resources without a definition.
    fn withdraw_others(&self, definitions: &[Arc<Value>]) {
        let names: HashSet<&str> = definitions
            .iter()
            .map(|definition| metadata::text(definition, "name"))
            .collect();
        for row in self.registry.custom() {
            let group = &*row.resource.group;
            let plural = &*row.resource.plural;
            if !names.contains(&*format!("{plural}.{group}")) {
                self.registry.replace_custom(group, plural, Vec::new());
            }
        }
    }

    /// Deletes the objects of a terminating definition. Removes the finalizer after the last one.
    fn clean_up(&self, definition: &Value) -> bool {
        let (group, plural) = group_and_plural(definition);
        let rows = self.rows_of(group, plural);
        let Some(row) = rows.first() else {
            return self.remove_cleanup_finalizer(
                definition,
                "NeverEstablished",
                "resource was never established",
            );
        };
        let in_progress = names::condition(definition, "Terminating")
            .is_some_and(|condition| condition["reason"] == "InstanceDeletionInProgress");
        // Watches see the condition before the first deletion, as with upstream.
        if !in_progress {
            let condition = terminating(
                "True",
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            );
            return self.write_status(definition, |new| self.put_condition(new, condition.clone()));
        }
        for object in row
            .store
            .list(&self.revisions, "")
            .objects
            .iter()
            .filter(|object| !object.deleting)
        {
            let target = Target {
                entry: row.clone(),
                namespace: object.namespace().to_owned(),
                name: object.name().to_owned(),
                subresource: None,
                legacy_watch: false,
            };
            if let Err(status) = self.delete_unasked(&target, &DeleteOptions::default())
                && status.code != 404
            {
                tracing::warn!(object = %object.key, resource = plural, error = %status.message, "deleting a custom resource");
            }
        }
        row.store.is_empty()
            && self.remove_cleanup_finalizer(
                definition,
                "InstanceDeletionCompleted",
                "removed all instances",
            )
    }

    fn remove_cleanup_finalizer(&self, definition: &Value, reason: &str, message: &str) -> bool {
        self.write_status(definition, |new| {
            self.put_condition(new, terminating("False", reason, message));
            let kept = metadata::finalizers(new)
                .into_iter()
                .filter(|name| *name != CLEANUP)
                .map(str::to_owned)
                .collect();
            metadata::set_finalizers(new, kept);
        })
    }

    fn put_condition(&self, definition: &mut Value, mut condition: Value) {
        condition["lastTransitionTime"] = metadata::time(self.clock.now());
        set_condition(definition, condition);
    }

    /// Writes the status of a definition as the server's own manager. False if the write failed.
    fn write_status(&self, definition: &Value, change: impl Fn(&mut Value)) -> bool {
        let entry = self.definition_kind();
        let author = Author {
            manager: MANAGER.to_owned(),
            operation: Operation::Update,
            api_version: entry.resource.api_version(),
            subresource: "status".into(),
        };
        let target = Target {
            subresource: entry.resource.subresource("status"),
            namespace: String::new(),
            name: metadata::text(definition, "name").to_owned(),
            legacy_watch: false,
            entry,
        };
        let writing = Writing {
            dry_run: false,
            uid_is_precondition: true,
            tracking: Tracking::Update(&author),
            origin: None,
        };
        let written = at_once(self.rewrite(&target, writing, |old| {
            let mut new = old.clone();
            change(&mut new);
            Ok(new)
        }));
        if let Err(status) = &written {
            tracing::warn!(definition = target.name, error = %status.message, "writing the status of a definition");
        }
        written.is_ok()
    }

    /// Marks a definition as terminating and adds the finalizer, because its objects are deleted
    /// first.
    pub(super) fn delete_definition(
        &self,
        target: &Target,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Deleted, NotWritten> {
        check_special_preconditions(target, current, options)?;
        let old = current.to_value();
        let mut new = old.clone();
        let now = metadata::time(self.clock.now());
        metadata::of(&mut new).insert("deletionTimestamp".to_owned(), now);
        let mut finalizers: Vec<String> = metadata::finalizers(&old)
            .into_iter()
            .map(str::to_owned)
            .collect();
        if !finalizers.iter().any(|name| name == CLEANUP) {
            finalizers.push(CLEANUP.to_owned());
        }
        metadata::set_finalizers(&mut new, finalizers);
        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        self.put_condition(
            &mut new,
            terminating("True", "InstanceDeletionPending", message),
        );
        let object = self.store_deletion(target, current, &old, new, options.dry_run)?;
        Ok(Deleted {
            object,
            gone: false,
        })
    }

    /// 405 for a new object of a terminating definition.
    pub(super) fn admit_kind(resource: &Resource) -> Result<(), Status> {
        if resource
            .custom
            .as_ref()
            .is_some_and(|custom| custom.is_terminating())
        {
            let message =
                "create not allowed while custom resource definition is terminating".to_owned();
            return Err(Status {
                message,
                ..Status::method_not_allowed()
            });
        }
        Ok(())
    }
}

fn group_and_plural(definition: &Value) -> (&str, &str) {
    let spec = &definition["spec"];
    (text(spec, "group"), text(&spec["names"], "plural"))
}

fn is_terminating(definition: &Value) -> bool {
    definition["metadata"].get("deletionTimestamp").is_some()
}

fn terminating(status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Terminating", "status": status, "reason": reason, "message": message})
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
