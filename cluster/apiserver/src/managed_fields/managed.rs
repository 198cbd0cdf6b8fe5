//! The entries of `metadata.managedFields`, and their changes by plain writes.
//!
//! Upstream: `k8s.io/apimachinery/pkg/util/managedfields/internal`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::compare::Changes;
use super::set::FieldSet;
use super::shape::{Elements, Form, Narrowed, Shape};
use super::versions::{Versions, Write};
use crate::status::Status;

/// Update entries per object. Beyond this number, the oldest ones are joined.
const MAX_UPDATE_ENTRIES: usize = 10;

/// Manager of the joined entries.
const ANCIENT: &str = "ancient-changes";

/// How a manager obtained its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// The identity of an entry: a manager with its operation, version and subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    /// Empty for the main endpoint.
    pub(crate) subresource: Cow<'static, str>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) author: Author,
    pub(super) time: Option<String>,
    pub(super) set: FieldSet,
}

/// The entries of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Managed(pub(super) Vec<Entry>);

/// Whether a client resets all entries, with an empty list or a list of one empty entry.
pub(crate) fn is_reset(managed_fields: &Value) -> bool {
    match managed_fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

impl Author {
    /// The time of an entry of this author. Entries of `scale` have none, as upstream.
    pub(crate) fn time(&self, now: String) -> Option<String> {
        (self.subresource != "scale").then_some(now)
    }

    /// The order of authors in messages: that of upstream's texts that identify them.
    pub(super) fn identifier(&self) -> (&str, Operation, &str, &str) {
        let version = match self.operation {
            Operation::Apply => "",
            Operation::Update => &self.api_version,
        };
        (&self.manager, self.operation, version, &self.subresource)
    }

    /// Whether both are one manager. Applies in different versions are.
    pub(super) fn is(&self, other: &Author) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The name of the author in messages about conflicts.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.api_version);
        }
        text
    }
}

/// The entries after a write by `author` that makes `new` of `old`, both in the version of the
/// request.
pub(crate) async fn updated(
    mut managed: Managed,
    versions: Versions<'_>,
    old: &Value,
    new: &Value,
    author: Author,
    time: Option<String>,
) -> Result<Managed, Status> {
    managed.reconcile(versions, old).await?;
    let mut write = Write::new(versions, old, new);
    managed.update(&mut write, author, time).await?;
    Ok(managed)
}

impl Managed {
    /// Parses `metadata.managedFields`. An absent value means no entries; `None` means invalid
    /// content.
    pub(crate) fn parse(managed_fields: &Value) -> Option<Managed> {
        let entries = managed_fields.as_array().map_or(&[][..], Vec::as_slice);
        entries
            .iter()
            .map(Entry::parse)
            .collect::<Option<Vec<Entry>>>()
            .map(Managed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `metadata.managedFields` in upstream's order; `None` if there are no entries.
    pub(crate) fn into_value(self) -> Option<Value> {
        let mut entries = self.0;
        entries.sort_by(|a, b| a.order().cmp(&b.order()));
        (!entries.is_empty()).then(|| entries.into_iter().map(Entry::into_value).collect())
    }

    /// Records the changes of a write as fields of `author`, at `time`.
    pub(super) async fn update(
        &mut self,
        write: &mut Write<'_>,
        author: Author,
        time: Option<String>,
    ) -> Result<(), Status> {
        for entry in &mut self.0 {
            entry.release(write.changes(&entry.author.api_version).await?);
        }
        let changes = write
            .changes(&author.api_version)
            .await?
            .cloned()
            .unwrap_or_default();
        if changes.is_unnamed {
            let why = "an element of an associative list has no key";
            return Err(Status::unclassified(why));
        }
        if !changes.touched.is_empty() {
            match self.0.iter_mut().find(|entry| entry.author.is(&author)) {
                Some(entry) => {
                    entry.set.union(changes.touched);
                    entry.time = time;
                }
                None => self.0.push(Entry {
                    author,
                    time,
                    set: changes.touched,
                }),
            }
        }
        self.0.retain(|entry| !entry.set.is_empty());
        self.join_oldest();
        Ok(())
    }

    /// Brings the entries into the form of the present schemas: a list or map that became one field
    /// is owned as a whole. Entries of versions that are gone stay.
    ///
    /// Upstream: `typed/reconcile_schema.go`.
    pub(super) async fn reconcile(
        &mut self,
        versions: Versions<'_>,
        live: &Value,
    ) -> Result<(), Status> {
        for entry in &mut self.0 {
            if let Some(live) = versions.seen(live, &entry.author.api_version).await? {
                reconcile(Some(live.shape()), &mut entry.set);
            }
        }
        Ok(())
    }

    /// Joins the oldest update entries of each version, so that objects with many writers stay
    /// small.
    fn join_oldest(&mut self) {
        let is_update = |entry: &Entry| entry.author.operation == Operation::Update;
        let mut count = self.0.iter().filter(|entry| is_update(entry)).count();
        if count <= MAX_UPDATE_ENTRIES {
            return;
        }
        let (mut updates, applied): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.0).into_iter().partition(is_update);
        updates.sort_by(|a, b| a.order().cmp(&b.order()));
        // The first entry of a version joins when a second one follows.
        let mut firsts: Vec<Entry> = Vec::new();
        let mut kept = Vec::new();
        for entry in updates {
            if count <= MAX_UPDATE_ENTRIES {
                kept.push(entry);
                continue;
            }
            let version = &entry.author.api_version;
            match firsts
                .iter_mut()
                .find(|first| first.author.api_version == *version)
            {
                None => firsts.push(entry),
                Some(joined) => {
                    joined.set.union(entry.set);
                    joined.time = entry.time;
                    joined.author.manager = ANCIENT.to_owned();
                    joined.author.subresource = Cow::Borrowed("");
                    count -= 1;
                }
            }
        }
        self.0 = applied.into_iter().chain(firsts).chain(kept).collect();
    }

    /// Whether both have equal entries, apart from times.
    pub(crate) fn same_but_times(&self, other: &Managed) -> bool {
        let same = |a: &&Entry, b: &Entry| a.author == b.author && a.set == b.set;
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .all(|entry| other.0.iter().any(|known| same(&entry, known)))
    }
}

/// Owns values as a whole that are one field by now.
fn reconcile(shape: Option<Shape<'_>>, set: &mut FieldSet) {
    let Some(shape) = shape else { return };
    let is_atomic = set.is_member() && !set.has_children();
    let form = shape.form(Narrowed::Open);
    match form {
        Form::Map(map) if map.is_deduced() => {}
        Form::Map(map) if map.is_atomic && !is_atomic => {
            if !set.is_empty() {
                *set = FieldSet::here();
            }
        }
        Form::Map(map) => {
            for (element, child) in set.children_mut() {
                if let Some(key) = element.strip_prefix("f:") {
                    reconcile(map.child(key), child);
                }
            }
        }
        Form::List(list) if matches!(list.elements, Elements::Atomic) => {
            if !is_atomic {
                *set = FieldSet::here();
            }
        }
        Form::List(list) => {
            for (_, child) in set.children_mut() {
                reconcile(Some(list.item), child);
            }
        }
        Form::Scalar(_) => {}
    }
}

impl Entry {
    /// Gives up changed fields, or all fields if the version of the entry is gone.
    pub(super) fn release(&mut self, changes: Option<&Changes>) {
        match changes {
            Some(changes) => {
                self.set.subtract(&changes.touched);
                self.set.subtract(&changes.removed);
            }
            None => self.set = FieldSet::default(),
        }
    }

    fn parse(entry: &Value) -> Option<Entry> {
        let text = |field: &str| {
            entry
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let operation = match entry.get("operation").and_then(Value::as_str)? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let set = match entry.get("fieldsV1") {
            None => FieldSet::default(),
            Some(fields) => FieldSet::parse(fields)?,
        };
        if text("fieldsType") != "FieldsV1" {
            return None;
        }
        let author = Author {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource").into(),
        };
        Some(Entry {
            author,
            time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            set,
        })
    }

    fn into_value(self) -> Value {
        let Author {
            manager,
            operation,
            api_version,
            subresource,
        } = self.author;
        let operation = match operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut entry = Map::new();
        entry.insert("manager".to_owned(), manager.into());
        entry.insert("operation".to_owned(), operation.into());
        entry.insert("apiVersion".to_owned(), api_version.into());
        if let Some(time) = self.time {
            entry.insert("time".to_owned(), time.into());
        }
        entry.insert("fieldsType".to_owned(), "FieldsV1".into());
        entry.insert("fieldsV1".to_owned(), self.set.into_value());
        if !subresource.is_empty() {
            entry.insert("subresource".to_owned(), subresource.into());
        }
        Value::Object(entry)
    }

    /// The order of entries: applies first, then by time and names.
    fn order(&self) -> (Operation, Option<&str>, &str, &str, &str) {
        let author = &self.author;
        (
            author.operation,
            self.time.as_deref(),
            &author.manager,
            &author.api_version,
            &author.subresource,
        )
    }
}
