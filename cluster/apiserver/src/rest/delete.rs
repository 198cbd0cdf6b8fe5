//! `DELETE`: preconditions, grace period, finalizers of the garbage collector, removal.
//!
//! Upstream is `apiserver/pkg/registry/rest/delete.go` and `Delete` of
//! `apiserver/pkg/registry/generic/registry/store.go`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::commit::NotWritten;
use super::query::{ListOptions, Query, invalid_options, parse_revision};
use super::{Answer, Call, Server, decode, metadata};
use crate::admission::{Operation, Origin, Request};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::{DeleteAnswer, Resource};
use crate::route::Target;
use crate::selectors::Selection;
use crate::status::{self, Status};
use crate::store::{Change, Object, Raced};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Namespaces that upstream's admission plugin NamespaceLifecycle protects.
const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-public", "kube-system"];

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(super) struct DeleteOptions {
    pub(super) grace: Option<i64>,
    policy: Option<String>,
    orphan_dependents: Option<bool>,
    pub(super) uid: Option<String>,
    pub(super) revision: Option<String>,
    pub(super) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query if the body is empty.
    fn parse(call: &Call<'_>) -> Result<Self, Status> {
        let mut options = if call.body.is_empty() {
            let text = |key: &str| {
                Some(call.query.text(key))
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned)
            };
            Self {
                grace: call.query.number("gracePeriodSeconds")?,
                policy: text("propagationPolicy"),
                orphan_dependents: call.query.flag("orphanDependents"),
                ..Self::default()
            }
        } else {
            let body = decode::parse("DeleteOptions", call.content_type, &call.body)?;
            if let Some(kind) = body["kind"]
                .as_str()
                .filter(|kind| *kind != "DeleteOptions")
            {
                let version = body["apiVersion"].as_str().unwrap_or_default();
                return Err(Status::bad_request(format!(
                    "no kind \"{kind}\" is registered for version \"{version}\" in scheme of options"
                )));
            }
            Self::from_value(&body)?
        };
        options.dry_run |= call.query.dry_run("DeleteOptions")?;
        options.check()?;
        Ok(options)
    }

    /// Reads the options of a body, or of an Eviction.
    pub(super) fn from_value(value: &Value) -> Result<Self, Status> {
        let text = |value: &Value| {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let dry_run: Vec<&str> = value["dryRun"]
            .as_array()
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(dry_run.iter().map(|v| ("dryRun", v)))
            .finish();
        Ok(Self {
            grace: value["gracePeriodSeconds"].as_i64(),
            policy: text(&value["propagationPolicy"]),
            orphan_dependents: value["orphanDependents"].as_bool(),
            uid: text(&value["preconditions"]["uid"]),
            revision: text(&value["preconditions"]["resourceVersion"]),
            dry_run: Query::parse(Some(&query)).dry_run("DeleteOptions")?,
        })
    }

    /// Checks the propagation policy. The deprecated `orphanDependents` excludes it.
    pub(super) fn check(&self) -> Result<(), Status> {
        let field = "propagationPolicy".to_owned();
        let problem = match (self.policy.as_deref(), self.orphan_dependents) {
            (Some(policy), Some(_)) => Problem::Invalid(
                policy.into(),
                "orphanDependents and deletionPropagation cannot be both set".to_owned(),
            ),
            (Some(policy), None) if !matches!(policy, "Foreground" | "Background" | "Orphan") => {
                let known = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
                Problem::NotSupported(policy.into(), known.to_vec())
            }
            _ => return Ok(()),
        };
        Err(invalid_options(
            "DeleteOptions",
            &[FieldError { field, problem }],
        ))
    }

    /// The finalizers of `object` after this deletion request. The finalizer of the propagation
    /// policy comes last.
    fn finalizers(&self, resource: &Resource, object: &Value) -> Vec<String> {
        let before = metadata::finalizers(object);
        let mut finalizers: Vec<String> = before
            .iter()
            .filter(|name| !matches!(**name, ORPHAN | FOREGROUND))
            .map(|&name| name.to_owned())
            .collect();
        let chosen = match (self.orphan_dependents, self.policy.as_deref()) {
            _ if !resource.garbage_collected => None,
            (Some(true), _) | (None, Some("Orphan")) => Some(ORPHAN),
            (None, Some("Foreground")) => Some(FOREGROUND),
            (Some(false), _) | (None, Some(_)) => None,
            (None, None) if before.contains(&ORPHAN) => Some(ORPHAN),
            (None, None) if before.contains(&FOREGROUND) => Some(FOREGROUND),
            (None, None) => resource.orphans_by_default.then_some(ORPHAN),
        };
        finalizers.extend(chosen.map(str::to_owned));
        finalizers
    }
}

/// The outcome of a deletion request.
pub(super) struct Deleted {
    /// The object after the request, or its last state.
    pub(super) object: Arc<Object>,
    /// Whether the object is removed from the store.
    pub(super) gone: bool,
}

/// The effect of a deletion request on the grace period.
enum Grace {
    /// The kind has no grace period.
    None,
    /// The period has started, and this request does not shorten it.
    Pending,
    /// The period starts, or becomes shorter.
    Set(i64),
}

impl Server {
    /// Answers a DELETE of one object, with a Status or with the object, as its kind defines.
    pub(super) async fn delete(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let resource = target.resource();
        let options = DeleteOptions::parse(call)?;
        let deleted = self.delete_object(&call.origin, target, &options).await?;
        let mut answer = if deleted.gone && resource.delete_answer == DeleteAnswer::Status {
            let Deleted { object, .. } = deleted;
            let revision = self.deletion_versions.then_some(object.revision);
            Answer::value(
                200,
                status::deleted(resource.named(), &target.name, object.uid(), revision),
            )
        } else {
            let accepted = !deleted.gone && options.orphan_dependents == Some(false);
            Answer::object(if accepted { 202 } else { 200 }, deleted.object)
        };
        if resource.is("Job") && options.policy.is_none() && options.orphan_dependents.is_none() {
            answer.warnings.push(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
                 propagationPolicy=Orphan to suppress this warning"
                    .to_owned(),
            );
        }
        Ok(answer)
    }

    /// Answers a DELETE of a collection. It stops at the first error.
    pub(super) async fn delete_collection(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let options = DeleteOptions::parse(call)?;
        let list = ListOptions::parse(call.query, false)?;
        let selection = Selection::parse(
            call.target.resource(),
            &list.label_selector,
            &list.field_selector,
        )?;
        parse_revision(&list.resource_version).map_err(Status::bad_request)?;
        let mut page = self.whole(call, &selection);
        for object in &page.objects {
            let one = Target {
                name: object.name().to_owned(),
                namespace: object.namespace().to_owned(),
                ..call.target.clone()
            };
            match self.delete_object(&call.origin, &one, &options).await {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        let resource = call.target.resource();
        page.objects = self.all_in_version(resource, page.objects).await?;
        self.show_page(call, page)
    }

    /// Deletes one object for a client, or marks it as terminating. Policies and webhooks may refuse
    /// that.
    async fn delete_object(
        &self,
        origin: &Origin<'_>,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        loop {
            let current = self.existing(target)?;
            self.permit_deletion(origin, target, &current, options)
                .await?;
            match self.delete_current(target, &current, options) {
                Ok(deleted) => return Ok(deleted),
                Err(NotWritten::Raced) => {}
                Err(NotWritten::Refused(status)) => return Err(status),
            }
        }
    }

    /// The same for the server itself. Policies and webhooks do not see the deletion.
    pub(super) fn delete_unasked(
        &self,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        loop {
            let current = self.existing(target)?;
            match self.delete_current(target, &current, options) {
                Ok(deleted) => return Ok(deleted),
                Err(NotWritten::Raced) => {}
                Err(NotWritten::Refused(status)) => return Err(status),
            }
        }
    }

    /// Asks the policies and webhooks of the cluster about a deletion.
    async fn permit_deletion(
        &self,
        origin: &Origin<'_>,
        target: &Target,
        current: &Object,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let resource = target.resource();
        // These two kinds have preconditions with words of their own.
        if !resource.is("Namespace") && !resource.is("CustomResourceDefinition") {
            check_preconditions(target, current, options)?;
        }
        let old = resource.in_version(current.to_value(), self).await?;
        let request = Request {
            operation: Operation::Delete,
            target,
            name: &target.name,
            object: None,
            old: Some(&old),
            dry_run: options.dry_run,
            origin,
        };
        self.mutate_by_cluster(&request, &mut Value::Null, |_| Ok(()))
            .await?;
        self.permit_by_cluster(&request).await
    }

    /// Deletes this version of an object, in the way of its kind.
    fn delete_current(
        &self,
        target: &Target,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Deleted, NotWritten> {
        let resource = target.resource();
        if resource.is("Namespace") {
            return self.delete_namespace(target, current, options);
        }
        if resource.is("CustomResourceDefinition") && !current.deleting {
            return self.delete_definition(target, current, options);
        }
        check_preconditions(target, current, options)?;
        self.delete_version(target, current, options)
    }

    /// Removes this version of the object, or marks it as terminating while finalizers or a grace
    /// period remain.
    fn delete_version(
        &self,
        target: &Target,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Deleted, NotWritten> {
        let resource = target.resource();
        let old = current.to_value();
        let mut new = old.clone();
        let now = self.clock.now_seconds();
        let grace = if resource.is("Pod") {
            pod_grace(&old, options)
        } else {
            Grace::None
        };
        if let Grace::Pending = grace {
            return Ok(Deleted {
                object: current.clone(),
                gone: false,
            });
        }
        let finalizers = options.finalizers(resource, &old);
        let kept = !finalizers.is_empty();
        metadata::set_finalizers(&mut new, finalizers);
        match grace {
            Grace::Set(seconds) => {
                set_grace(&mut new, seconds, now);
                // A pod without a grace period is stored with period 0 before its removal. Watches
                // see both changes, as upstream's do.
                let marked = self.store_deletion(target, current, &old, new, options.dry_run)?;
                if kept || seconds > 0 {
                    return Ok(Deleted {
                        object: marked,
                        gone: false,
                    });
                }
                self.remove(target, &marked, options.dry_run)
            }
            Grace::None if kept => {
                mark(&mut new, now);
                let object = self.store_deletion(target, current, &old, new, options.dry_run)?;
                Ok(Deleted {
                    object,
                    gone: false,
                })
            }
            Grace::None | Grace::Pending => self.remove(target, current, options.dry_run),
        }
    }

    /// Stores a change that a deletion makes. Unlike an update, it never removes the object.
    pub(super) fn store_deletion(
        &self,
        target: &Target,
        current: &Arc<Object>,
        old: &Value,
        new: Value,
        dry_run: bool,
    ) -> Result<Arc<Object>, NotWritten> {
        let resource = target.resource();
        if new == *old {
            return Ok(current.clone());
        }
        if dry_run {
            return Ok(Arc::new(Object::unstored(resource, &current.key, &new)));
        }
        let change = Change::Put(new);
        let committed = self.commit(&target.entry, &current.key, Some(current), change);
        committed.map_err(|Raced| NotWritten::Raced)
    }

    fn remove(
        &self,
        target: &Target,
        current: &Arc<Object>,
        dry_run: bool,
    ) -> Result<Deleted, NotWritten> {
        if dry_run {
            return Ok(Deleted {
                object: current.clone(),
                gone: true,
            });
        }
        let last = self.commit(&target.entry, &current.key, Some(current), Change::Remove);
        last.map(|object| Deleted { object, gone: true })
            .map_err(|Raced| NotWritten::Raced)
    }

    /// Marks a namespace as Terminating. A later request removes it, after `spec.finalizers` is
    /// empty.
    fn delete_namespace(
        &self,
        target: &Target,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Deleted, NotWritten> {
        if PROTECTED_NAMESPACES.contains(&&*target.name) {
            return Err(Status::forbidden(
                target.resource().named(),
                &target.name,
                "this namespace may not be deleted",
            )
            .into());
        }
        check_special_preconditions(target, current, options)?;
        let old = current.to_value();
        if current.deleting {
            if old["spec"]["finalizers"]
                .as_array()
                .is_some_and(|list| !list.is_empty())
            {
                return Ok(Deleted {
                    object: current.clone(),
                    gone: false,
                });
            }
            return self.delete_version(target, current, options);
        }
        let mut new = old.clone();
        metadata::of(&mut new).insert(
            "deletionTimestamp".to_owned(),
            metadata::time(self.clock.now()),
        );
        new["status"]["phase"] = json!("Terminating");
        let mut wanted = options.clone();
        if wanted.orphan_dependents == Some(false) {
            // For namespaces the deprecated `orphanDependents: false` means foreground deletion,
            // for all other kinds background deletion.
            wanted = DeleteOptions {
                orphan_dependents: None,
                policy: Some("Foreground".to_owned()),
                ..wanted
            };
        }
        metadata::set_finalizers(&mut new, wanted.finalizers(target.resource(), &old));
        let object = self.store_deletion(target, current, &old, new, options.dry_run)?;
        Ok(Deleted {
            object,
            gone: false,
        })
    }
}

/// Preconditions of namespaces and definitions. Upstream checks them in other code, with other
/// texts.
pub(super) fn check_special_preconditions(
    target: &Target,
    current: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let differs = |what: &str, wanted: &str, found: &str| {
        let why = format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        Status::conflict(target.resource().named(), &target.name, &why)
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        return Err(differs("UID", uid, current.uid()));
    }
    let found = current.revision.to_string();
    if let Some(revision) = options
        .revision
        .as_deref()
        .filter(|revision| *revision != found)
    {
        return Err(differs("ResourceVersion", revision, &found));
    }
    Ok(())
}

/// Preconditions of all other kinds.
pub(super) fn check_preconditions(
    target: &Target,
    current: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // Upstream names the kind in these errors, and the resource in all others.
    let kind = target.resource().named_kind();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then \
             recreated",
            current.uid()
        );
        return Err(Status::conflict(kind, &target.name, &why));
    }
    let found = current.revision.to_string();
    if let Some(revision) = options
        .revision
        .as_deref()
        .filter(|revision| *revision != found)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({found}). The object \
             might have been modified"
        );
        return Err(Status::conflict(kind, &target.name, &why));
    }
    Ok(())
}

/// The grace period of a pod's deletion. An unscheduled or finished pod needs none.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> Grace {
    let metadata = &pod["metadata"];
    if metadata.get("deletionTimestamp").is_some() {
        let Some(running) = metadata["deletionGracePeriodSeconds"].as_i64() else {
            return Grace::None;
        };
        // Later requests can only shorten the period.
        return match options.grace.map(at_least_one) {
            Some(seconds) if seconds < running => Grace::Set(seconds),
            _ => Grace::Pending,
        };
    }
    let spec = &pod["spec"];
    let unassigned = spec["nodeName"].as_str().unwrap_or_default().is_empty();
    let finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if unassigned || finished {
        return Grace::Set(0);
    }
    Grace::Set(at_least_one(
        options
            .grace
            .or_else(|| spec["terminationGracePeriodSeconds"].as_i64())
            .unwrap_or(0),
    ))
}

/// A negative period means one second.
fn at_least_one(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// Starts the grace period, or shortens it relative to its original start.
fn set_grace(object: &mut Value, seconds: i64, now: Timestamp) {
    let period = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let running = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let end: Option<Timestamp> = metadata::text(object, "deletionTimestamp").parse().ok();
    let new_end = match (end, running) {
        (Some(end), Some(running)) => (end - period(running) + period(seconds)).max(now),
        _ => now + period(seconds),
    };
    if end.is_none() {
        metadata::grow_generation(object);
    }
    let metadata = metadata::of(object);
    metadata.insert("deletionTimestamp".to_owned(), metadata::time(new_end));
    metadata.insert(
        "deletionGracePeriodSeconds".to_owned(),
        Value::from(seconds),
    );
}

/// Marks an object as terminating; its finalizers delay the removal.
fn mark(object: &mut Value, now: Timestamp) {
    let end: Option<Timestamp> = metadata::text(object, "deletionTimestamp").parse().ok();
    if end.is_none() {
        metadata::grow_generation(object);
    }
    let metadata = metadata::of(object);
    metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
    if end.is_none_or(|end| end > now) {
        metadata.insert("deletionTimestamp".to_owned(), metadata::time(now));
    }
}
