//! Server-side apply: merges a configuration, removes fields that the manager no longer applies,
//! and finds conflicts.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/merge` and
//! `k8s.io/apimachinery/pkg/util/managedfields`.

use serde_json::Value;

use super::compare::{compare, same};
use super::declared::{check, fields};
use super::managed::{Author, Entry, Managed, Operation};
use super::merge::merged;
use super::remove::{with_parents, without};
use super::set::{FieldSet, html_safe};
use super::versions::{Seen, Versions, Write};
use crate::kinds::Resource;
use crate::status::Status;

/// Manager of the fields that exist before the first apply, if plain writes were not recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Annotation with the last configuration of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager that can take over fields from client-side apply without a conflict.
const KUBECTL: &str = "kubectl";

/// Most bytes of the annotations of an object.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// A configuration to apply.
pub(crate) struct Applied<'a> {
    pub(crate) versions: Versions<'a>,
    /// The configuration as the client sent it. The endpoint restores the fields that it cannot change
    /// later.
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

/// The reason why an apply did not happen.
#[derive(Debug)]
pub(crate) enum NotApplied {
    Conflicts(Conflicts),
    /// A conversion between versions failed.
    Failed(Status),
}

impl From<Status> for NotApplied {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// The object after the apply, and its managed fields.
pub(crate) async fn apply(
    live: &Value,
    managed: &Managed,
    applied: &Applied<'_>,
) -> Result<(Value, Managed), NotApplied> {
    let resource = applied.versions.resource;
    let shape = resource.shape(applied.config);
    let mut managed = managed.clone();
    take_earlier_fields(live, &mut managed, applied).await?;
    managed.reconcile(applied.versions, live).await?;

    let mut object = merged(shape, live, applied.config);
    let at = managed
        .0
        .iter()
        .position(|entry| entry.author.is(&applied.author));
    let last = at.map(|at| managed.0.remove(at));
    let mut entry = Entry {
        author: applied.author.clone(),
        time: applied.author.time(applied.time.clone()),
        set: applied.set.clone(),
    };
    if let Some(last) = last.as_ref().filter(|last| !last.set.is_empty()) {
        let mut set = entry.set.clone();
        if applied.part.is_some() {
            for entry in &managed.0 {
                set.union(entry.set.clone());
            }
            let mut dropped = last.set.clone();
            dropped.subtract(&set);
            object = without(shape, object, &dropped);
        } else {
            let all: Vec<&Entry> = managed.0.iter().chain([&entry]).collect();
            object = pruned(applied.versions, object, &all, last).await?;
        }
    }

    let mut write = Write::new(applied.versions, live, &object);
    let conflicts = conflicts(&managed, &mut write, live, applied).await?;
    if !applied.force && !conflicts.0.is_empty() {
        return Err(NotApplied::Conflicts(conflicts));
    }
    for entry in &mut managed.0 {
        entry.release(write.changes(&entry.author.api_version).await?);
    }
    if same(live, &object) {
        // The time is that of the author's latest change. A new author gets a time with its
        // first change.
        entry.time = last.and_then(|last| last.time);
    }
    // Until here, the name in the configuration kept the metadata from being given up.
    entry.set.strip_identity();
    managed.0.push(entry);
    managed.0.retain(|entry| !entry.set.is_empty());
    Ok((object, managed))
}

/// The error about an object whose fields cannot have managers.
fn unmanageable(live: &Value, why: &str) -> Status {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &live["metadata"];
    let namespace = text(&metadata["namespace"]);
    let name = text(&metadata["name"]);
    let api_version = text(&live["apiVersion"]);
    let kind = text(&live["kind"]);
    let core = if api_version.contains('/') { "" } else { "/" };
    Status::unclassified(format!(
        "failed to create manager for existing fields: failed to convert new object \
         ({namespace}/{name}; {core}{api_version}, Kind={kind}) to smd typed: {why}"
    ))
}

/// Fields without any manager get one, so that the next apply finds conflicts with them.
async fn take_earlier_fields(
    live: &Value,
    managed: &mut Managed,
    applied: &Applied<'_>,
) -> Result<(), Status> {
    let is_managed = managed.0.iter().any(|entry| match &applied.part {
        Some(part) => !entry.set.intersection(part).is_empty(),
        None => true,
    });
    if is_managed || live["metadata"].get("uid").is_none() {
        return Ok(());
    }
    let author = Author {
        manager: BEFORE_FIRST_APPLY.to_owned(),
        operation: Operation::Update,
        ..applied.author.clone()
    };
    let time = author.time(applied.time.clone());
    let resource = applied.versions.resource;
    let zero = resource.zero(live);
    if let Some(part) = &applied.part {
        let touched = compare(resource.shape(live), &zero, live)
            .touched
            .intersection(part);
        let author = Author {
            subresource: "".into(),
            ..author
        };
        managed.0.extend((!touched.is_empty()).then_some(Entry {
            author,
            time,
            set: touched,
        }));
        return Ok(());
    }
    let mut write = Write::new(applied.versions, &zero, live);
    let updated = managed.update(&mut write, author, time).await;
    updated.map_err(|status| match check(resource.shape(live), live) {
        Err(why) => unmanageable(live, &why),
        Ok(()) => status,
    })
}

/// Removes the fields that the author of `last` gave up and that have no other owner. `entries` are
/// those of all managers after the apply.
///
/// Upstream removes all fields of the last configuration, and adds back those with another manager, and
/// those that the last configuration lacked. The result has gone through the version of the last
/// configuration, without the fields that this version lacks.
async fn pruned(
    versions: Versions<'_>,
    object: Value,
    entries: &[&Entry],
    last: &Entry,
) -> Result<Value, Status> {
    let version = &*last.author.api_version;
    if versions.is_own(version) && nothing_given_up(versions, &object, entries, last) {
        return Ok(object);
    }
    let mut others: Vec<&str> = entries
        .iter()
        .map(|entry| &*entry.author.api_version)
        .collect();
    others.retain(|other| *other != version);
    others.sort_unstable();
    others.dedup();
    let owned = |version: &str| {
        let mut owned = FieldSet::default();
        for entry in entries
            .iter()
            .filter(|entry| entry.author.api_version == version)
        {
            owned.union(entry.set.clone());
        }
        owned
    };
    let Some(merged) = versions.seen(&object, version).await? else {
        return Ok(object);
    };
    let mut left = left(&merged, &last.set, &owned(version));
    for other in others {
        // Owners in other versions see the object in theirs.
        let Some(merged) = versions.seen(merged.object(), other).await? else {
            continue;
        };
        let seen = versions.seen(&left, other).await?;
        let seen = seen.map(|left| with_owned(&merged, left.object(), &owned(other)));
        left = seen.unwrap_or(left);
    }
    let back = versions.seen(&left, version).await?;
    let back = back.map(Seen::into_object).unwrap_or_default();
    let kept = kept(&merged, &back, &last.set);
    let own = versions.resource.api_version();
    let kept = versions.seen(&kept, &own).await?;
    Ok(kept.map_or(object, Seen::into_object))
}

/// Whether all fields of the last configuration still have a manager in its version.
fn nothing_given_up(
    versions: Versions<'_>,
    object: &Value,
    entries: &[&Entry],
    last: &Entry,
) -> bool {
    let shape = versions.resource.shape(object);
    let mut given_up = with_parents(shape, &last.set);
    for entry in entries
        .iter()
        .filter(|entry| versions.is_own(&entry.author.api_version))
    {
        given_up.subtract(&with_parents(shape, &entry.set));
    }
    given_up.is_empty()
}

/// `merged` without the fields of the last configuration, `last`, that no manager has.
fn left(merged: &Seen<'_>, last: &FieldSet, owned: &FieldSet) -> Value {
    let shape = merged.shape();
    let left = without(shape, merged.object().clone(), &with_parents(shape, last));
    with_owned(merged, &left, owned)
}

/// `merged` without the fields of the last configuration that `back` lacks.
fn kept(merged: &Seen<'_>, back: &Value, last: &FieldSet) -> Value {
    let shape = merged.shape();
    let merged = merged.object();
    let mut gone = with_parents(shape, &fields(shape, merged));
    gone.subtract(&with_parents(shape, &fields(shape, back)));
    let gone = gone.intersection(&with_parents(shape, last));
    without(shape, merged.clone(), &gone)
}

/// `merged` without the fields that neither `left` nor a manager has.
fn with_owned(merged: &Seen<'_>, left: &Value, owned: &FieldSet) -> Value {
    let shape = merged.shape();
    let merged = merged.object();
    let mut gone = with_parents(shape, &fields(shape, merged));
    gone.subtract(&with_parents(shape, &fields(shape, left)));
    gone.subtract(&with_parents(shape, owned));
    without(shape, merged.clone(), &gone)
}

/// Fields of other managers that the apply changes.
async fn conflicts(
    managed: &Managed,
    write: &mut Write<'_>,
    live: &Value,
    applied: &Applied<'_>,
) -> Result<Conflicts, Status> {
    let mut conflicts = Vec::new();
    for entry in &managed.0 {
        if let Some(changes) = write.changes(&entry.author.api_version).await? {
            let set = entry.set.intersection(&changes.touched);
            if !set.is_empty() {
                conflicts.push((entry.author.clone(), set));
            }
        }
    }
    // A subresource such as `scale` does not show which configuration was applied to the whole
    // object.
    let may_migrate = applied.author.manager == KUBECTL && applied.part.is_none();
    if may_migrate
        && !conflicts.is_empty()
        && let Some(allowed) = last_applied(applied.versions.resource, live)
    {
        for (_, set) in &mut conflicts {
            set.subtract(&allowed);
        }
        conflicts.retain(|(_, set)| !set.is_empty());
    }
    conflicts.sort_by(|(a, _), (b, _)| a.identifier().cmp(&b.identifier()));
    Ok(Conflicts(conflicts))
}

/// Fields that client-side apply wrote and that have not changed since.
fn last_applied(resource: &Resource, live: &Value) -> Option<FieldSet> {
    let config: Value =
        serde_json::from_str(live["metadata"]["annotations"][LAST_APPLIED].as_str()?).ok()?;
    if config["apiVersion"] != *resource.api_version() {
        return None;
    }
    let shape = resource.shape(&config);
    check(shape, live).ok()?;
    let mut set = super::declared(resource.release, shape, &config).ok()?;
    let changes = compare(shape, live, &config);
    set.subtract(&changes.touched);
    set.subtract(&changes.removed);
    Some(set)
}

/// Keeps the annotation of client-side apply up to date, after an apply by kubectl.
///
/// Upstream: `lastappliedupdater.go`.
pub(crate) fn follow_last_applied(object: &mut Value, applied: &Applied<'_>) {
    if applied.author.manager != KUBECTL || applied.part.is_some() {
        return;
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    let is_set = annotations
        .get(LAST_APPLIED)
        .is_some_and(|text| text.as_str().is_some_and(|text| !text.is_empty()));
    if !is_set {
        return;
    }
    let mut config = applied.config.clone();
    match config.pointer_mut("/metadata/annotations") {
        Some(Value::Object(annotations)) => drop(annotations.remove(LAST_APPLIED)),
        Some(Value::Null) => {
            let metadata = config["metadata"].as_object_mut();
            drop(metadata.map(|metadata| metadata.remove("annotations")));
        }
        _ => {}
    }
    config.sort_all_objects();
    annotations.insert(
        LAST_APPLIED.to_owned(),
        Value::from(html_safe(config.to_string()) + "\n"),
    );
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}
