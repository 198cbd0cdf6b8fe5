//! Server-side apply: merges a configuration, removes fields that the manager no longer applies,
//! and finds conflicts.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/merge` and
//! `k8s.io/apimachinery/pkg/util/managedfields`.

use serde_json::Value;

use super::compare::{Changes, compare};
use super::managed::{Author, Entry, Managed, Operation};
use super::merge::{merged, remove, with_parents};
use super::set::FieldSet;
use crate::kinds::Resource;

/// Manager of the fields that exist before the first apply, if plain writes were not recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Annotation with the last configuration of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager that can take over fields from client-side apply without a conflict.
const KUBECTL: &str = "kubectl";

/// A configuration to apply.
pub(crate) struct Applied<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) config: &'a Value,
    /// The fields that [`super::declared`] found, limited to those that the endpoint can change.
    pub(crate) set: FieldSet,
    /// For a subresource: the fields of the object that its endpoint shows.
    pub(crate) part: Option<FieldSet>,
    pub(crate) author: Author,
    pub(crate) force: bool,
    /// The current time in the API's format.
    pub(crate) time: String,
}

/// Fields that other managers own and the configuration changes.
#[derive(Debug, PartialEq)]
pub(crate) struct Conflicts(Vec<(Author, FieldSet)>);

impl Conflicts {
    /// The conflicts as a subresource with one field shows them, with its own version and path.
    pub(crate) fn seen_as(self, api_version: &str, field: &FieldSet) -> Self {
        let seen = |(author, _): (Author, FieldSet)| {
            (
                Author {
                    api_version: api_version.to_owned(),
                    ..author
                },
                field.clone(),
            )
        };
        Self(self.0.into_iter().map(seen).collect())
    }

    /// One cause per field: the text `conflict with ...` and the path.
    pub(crate) fn causes(&self) -> Vec<(String, String)> {
        let paths = |(author, set): &(Author, FieldSet)| {
            let shown = author.shown();
            set.paths()
                .into_iter()
                .map(move |path| (format!("conflict with {shown}"), path))
        };
        self.0.iter().flat_map(paths).collect()
    }

    pub(crate) fn message(&self) -> String {
        let causes = self.causes();
        if let [(conflict, path)] = causes.as_slice() {
            return format!("Apply failed with 1 conflict: {conflict}: {path}");
        }
        let mut lines = Vec::new();
        for (author, set) in &self.0 {
            lines.push(format!("conflicts with {}:", author.shown()));
            lines.extend(set.paths().into_iter().map(|path| format!("- {path}")));
        }
        format!(
            "Apply failed with {} conflicts: {}",
            causes.len(),
            lines.join("\n")
        )
    }
}

/// The object after the apply, and its managed fields.
pub(crate) fn apply(
    live: &Value,
    managed: &Managed,
    applied: &Applied<'_>,
) -> Result<(Value, Managed), Conflicts> {
    let shape = applied.resource.shape(applied.config);
    let time = applied.author.time(applied.time.clone());
    let mut managed = managed.clone();
    let is_managed = managed.0.iter().any(|entry| match &applied.part {
        Some(part) => !entry.set.intersection(part).is_empty(),
        None => true,
    });
    // Earlier fields get an owner, so that the next apply finds conflicts with them.
    if !is_managed
        && live
            .get("metadata")
            .and_then(|metadata| metadata.get("uid"))
            .is_some()
    {
        let mut before = compare(shape, &applied.resource.zero(live), live);
        if let Some(part) = &applied.part {
            before.touched = before.touched.intersection(part);
        }
        let author = Author {
            manager: BEFORE_FIRST_APPLY.to_owned(),
            operation: Operation::Update,
            subresource: "".into(),
            ..applied.author.clone()
        };
        managed.update(author, before, time.clone());
    }

    let mut object = merged(shape, live, applied.config);
    let at = managed
        .0
        .iter()
        .position(|entry| entry.author == applied.author);
    let last = at.map(|at| managed.0.remove(at));
    let mut entry = Entry {
        author: applied.author.clone(),
        time,
        set: applied.set.clone(),
    };
    if let Some(Entry { set: last, .. }) = &last {
        // The owner of a field inside a struct also owns the struct.
        let whole = |set: &FieldSet| {
            if applied.part.is_none() {
                with_parents(shape, set)
            } else {
                set.clone()
            }
        };
        let mut dropped = whole(last);
        for entry in managed.0.iter().chain([&entry]) {
            dropped.subtract(&whole(&entry.set));
        }
        remove(shape, &mut object, &dropped);
    }

    let changes = compare(shape, live, &object);
    let conflicts = conflicts(&managed, &changes, live, applied);
    if !applied.force && !conflicts.0.is_empty() {
        return Err(conflicts);
    }
    managed.release(&changes);
    if changes.is_empty() {
        // The time is that of the author's latest change. A new author gets a time with its
        // first change.
        entry.time = last.and_then(|last| last.time);
    }
    managed.0.push(entry);
    managed.0.retain(|entry| !entry.set.is_empty());
    Ok((object, managed))
}

/// Fields of other managers that the apply changes.
fn conflicts(
    managed: &Managed,
    changes: &Changes,
    live: &Value,
    applied: &Applied<'_>,
) -> Conflicts {
    // A subresource such as `scale` does not show which configuration was applied to the whole
    // object.
    let allowed = if applied.author.manager == KUBECTL && applied.part.is_none() {
        last_applied(applied.resource, live)
    } else {
        None
    };
    let mut conflicts = Vec::new();
    for entry in &managed.0 {
        let mut set = entry.set.intersection(&changes.touched);
        if let Some(allowed) = &allowed {
            set.subtract(allowed);
        }
        if !set.is_empty() {
            conflicts.push((entry.author.clone(), set));
        }
    }
    conflicts.sort_by(|(a, _), (b, _)| a.manager.cmp(&b.manager));
    Conflicts(conflicts)
}

/// Fields that client-side apply wrote and that have not changed since.
fn last_applied(resource: &Resource, live: &Value) -> Option<FieldSet> {
    let config: Value =
        serde_json::from_str(live["metadata"]["annotations"][LAST_APPLIED].as_str()?).ok()?;
    let mut set = super::declared(resource.shape(&config), &config).ok()?;
    let changes = compare(resource.shape(&config), live, &config);
    set.subtract(&changes.touched);
    set.subtract(&changes.removed);
    Some(set)
}
