//! `PUT` and `PATCH`: replaces a stored object.
//!
//! new state -> preconditions -> fields that this endpoint cannot change -> defaults -> validation
//! -> commit
//!
//! A patch and an apply compute the new state again after a lost race. Upstream is
//! `apiserver/pkg/registry/rest/update.go` and `Update` of
//! `apiserver/pkg/registry/generic/registry/store.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::commit::NotWritten;
use super::create::{label_namespace, place};
use super::decode::{Strictness, unknown_field};
use super::devices::date_taints;
use super::managers::{self, Tracking};
use super::patching::Patch;
use super::query::invalid_options;
use super::{Answer, Call, Server, certificates, decode, metadata, owners, storable, usable};
use crate::admission::{Operation, Origin, Request};
use crate::depth;
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::route::Target;
use crate::status::Status;
use crate::store::{Change, Object, Raced};

/// Options of a write.
#[derive(Clone, Copy)]
pub(super) struct Writing<'a> {
    pub(super) dry_run: bool,
    /// Whether the UID in the body is a precondition (`PUT`) or an immutable field (`PATCH`).
    pub(super) uid_is_precondition: bool,
    pub(super) tracking: Tracking<'a>,
    /// The call of a client; policies do not apply to writes of the server itself.
    pub(super) origin: Option<&'a Origin<'a>>,
}

/// A prepared state of an object.
pub(super) struct NewState {
    /// In the version of the request, in the form that storage has.
    object: Value,
    /// In the stored version, if that is another one.
    stored: Option<Value>,
}

impl NewState {
    /// The state that follows `current`, in a version that is the stored one.
    pub(super) fn of(target: &Target, current: &Object, new: Value) -> Self {
        let mut object = target.resource().as_stored(new);
        metadata::of(&mut object).insert(
            "resourceVersion".to_owned(),
            Value::from(current.revision.to_string()),
        );
        Self {
            object,
            stored: None,
        }
    }

    /// Whether the object gets a new version, rather than being removed or left unchanged.
    fn changes(&self, old: &Value) -> bool {
        !metadata::is_finished(&self.object) && self.object != *old
    }
}

impl Server {
    /// Answers a PUT. Some kinds are created by a PUT, such as Endpoints.
    pub(super) async fn update(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let resource = target.resource();
        let dry_run = call.query.dry_run("UpdateOptions")?;
        let strictness = Strictness::parse(call.query, "UpdateOptions")?;
        let author = call.author("UpdateOptions")?;
        let tracking = Tracking::Update(&author);
        let (mut object, mut warnings) =
            decode::object(resource, call.content_type, &call.body, strictness)?;
        call.origin.warn_early(&warnings);
        check_name(target, &object)?;
        place(target, &mut object)?;
        usable(&target.name)?;
        storable(target, None)?;
        warnings.extend(owners::dedup(&mut object, owners::SENT));
        if target.entry.store.get(&target.key()).is_none()
            && resource.create_on_update
            && target.subresource.is_none()
        {
            self.authorize_creation(call)?;
            if !metadata::text(&object, "resourceVersion").is_empty() {
                return Err(Status::modified(resource.named(), &target.name));
            }
            self.check_author(call.user, target, None, &object)?;
            let created = self.create_object(call, target, object, dry_run, tracking);
            let (created, about) = created.await?;
            warnings.extend(about);
            return Ok(Answer::object(201, created).warn(warnings));
        }
        let writing = Writing {
            dry_run,
            uid_is_precondition: true,
            tracking,
            origin: Some(&call.origin),
        };
        let written = self.rewrite(target, writing, |old| {
            self.check_author(call.user, target, Some(old), &object)?;
            Ok(object.clone())
        });
        let (object, about) = written.await?;
        warnings.extend(about);
        Ok(Answer::object(200, object).warn(warnings))
    }

    /// Answers a PATCH. The patch is applied to the latest object until a commit succeeds.
    pub(super) async fn patch(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let resource = target.resource();
        let dry_run = call.query.dry_run("PatchOptions")?;
        if call.query.flag("force").is_some() {
            let problem = Problem::Forbidden("may not be specified for non-apply patch".to_owned());
            return Err(invalid_options(
                "PatchOptions",
                &[FieldError {
                    field: "force".to_owned(),
                    problem,
                }],
            ));
        }
        let strictness = Strictness::parse(call.query, "PatchOptions")?;
        let author = call.author("PatchOptions")?;
        let patch = Patch::parse(call.content_type, &call.body, strictness)?.of(resource)?;
        let writing = Writing {
            dry_run,
            uid_is_precondition: false,
            tracking: Tracking::Update(&author),
            origin: Some(&call.origin),
        };
        let mut warnings = Vec::new();
        let written = self.rewrite(target, writing, |old| {
            let mut object = resource.converted(old.clone());
            patch.apply(resource, &mut object)?;
            patch.check(resource, &object)?;
            let result = if patch.shows_result() {
                object.clone()
            } else {
                Value::Null
            };
            decode::arrange(resource, &mut object);
            let unknown = decode::drop_unknown(resource, &mut object);
            let mut field_errors = patch.field_errors.clone();
            field_errors.extend(unknown.iter().map(unknown_field));
            warnings = strictness.warnings_or_error(field_errors, |why| {
                patch.invalid(&result, &format!("strict decoding error: {why}"))
            })?;
            call.origin.warn_early(&warnings);
            let mut object = resource.to_kept(object);
            check_name(target, &object)?;
            place(target, &mut object)?;
            self.check_author(call.user, target, Some(old), &object)?;
            Ok(object)
        });
        let (object, about) = written.await?;
        warnings.extend(about);
        Ok(Answer::object(200, object).warn(warnings))
    }

    /// Replaces the object of `target` by the result of `make`. After a lost race it retries with
    /// the new state, where an outdated resource version fails as a conflict. Returns the new object
    /// and warnings about it.
    pub(super) async fn rewrite(
        &self,
        target: &Target,
        writing: Writing<'_>,
        mut make: impl FnMut(&Value) -> Result<Value, Status>,
    ) -> Result<(Arc<Object>, Vec<String>), Status> {
        let resource = target.resource();
        loop {
            let current = self.existing(target)?;
            let old = resource.in_version(current.to_value(), self).await?;
            let new = make(&old)?;
            match self.replace(target, &current, &old, new, writing).await {
                Ok(object) => return Ok(object),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }

    /// Prepares, validates and commits a new state of the object. The order of steps is upstream's.
    pub(super) async fn replace(
        &self,
        target: &Target,
        current: &Arc<Object>,
        old: &Value,
        mut new: Value,
        writing: Writing<'_>,
    ) -> Result<(Arc<Object>, Vec<String>), NotWritten> {
        let resource = target.resource();
        let part = target.subresource.map(|part| part.name);
        check_identity(target, &new, old, writing)?;
        let given = managers::take(&mut new);
        metadata::carry_over(&mut new, old);
        restore_other_fields(resource, part, &mut new, old);
        if part.is_some() && resource.is("CertificateSigningRequest") {
            if part == Some("status") {
                certificates::keep_decisions(&mut new, old);
            }
            certificates::date_conditions(&mut new, old, &metadata::time(self.clock.now()));
        }
        if part == Some("status") && resource.is("PersistentVolume") {
            date_phase(&mut new, old, &metadata::time(self.clock.now()));
        }
        if resource.is("ResourceSlice") {
            date_taints(&mut new, &metadata::time(self.clock.now()));
        }
        if let Tracking::Update(_) = writing.tracking {
            resource.drop_nulls(&mut new);
        }
        resource.set_defaults(&mut new);
        if resource.is("Namespace") {
            label_namespace(&mut new);
        }
        let tracking = writing.tracking;
        self.manage_change(resource, &mut new, old, given, tracking)
            .await;
        match part {
            None => self.admit_change(target, &mut new, old),
            Some("resize") => self.admit_resize(target, &mut new, old),
            _ => {}
        }
        if let Some(origin) = writing.origin {
            let request = Request {
                operation: Operation::Update,
                target,
                name: &target.name,
                object: None,
                old: Some(old),
                dry_run: writing.dry_run,
                origin,
            };
            let built_in = |object: &mut Value| {
                if part.is_none() {
                    self.admit_change(target, object, old);
                }
                Ok(())
            };
            let mutated = self.mutate_by_cluster(&request, &mut new, built_in);
            if mutated.await? {
                // Policies and webhooks cannot change more than the endpoint can.
                check_identity(target, &new, old, writing)?;
                metadata::carry_over(&mut new, old);
                place(target, &mut new)?;
                restore_other_fields(resource, part, &mut new, old);
            }
        }
        let duplicates = owners::dedup(&mut new, owners::PATCHED);
        match part {
            None => resource.complete_change(&mut new, old),
            Some(_) => resource.drop_disabled(&mut new),
        }
        let is_service = part.is_none() && resource.is("Service");
        // Held until the commit, so that no other Service gets the same numbers.
        let _reserved = is_service
            .then(|| self.reserve(&mut new, Some(old), writing.dry_run))
            .transpose()?;
        // Validation compares as Go's semantic equality.
        let alike = &*resource.alike(old, &new);
        let mut errors = resource.update_errors(part, &new, alike);
        if let Some(error) = metadata::new_finalizers_while_deleting(&new, old)
            && !errors.contains(&error)
        {
            errors.insert(0, error);
        }
        if !errors.is_empty() {
            let name = metadata::text(&new, "name");
            return Err(Status::invalid(resource.named_kind(), name, &errors).into());
        }
        let compared = if resource.distinguishes_empties() {
            old
        } else {
            alike
        };
        let grows = part != Some("status") && metadata::generation_grows(resource, &new, compared);
        if part.is_none() || part == Some("ephemeralcontainers") {
            self.permit_change(target, &new, old)?;
        }
        if part == Some("resize") {
            self.permit_resize(target, &new, old)?;
        }
        if grows && resource.is("Pod") {
            self.permit_on_node(target, &new, old)?;
        }
        if let Some(origin) = writing.origin {
            if let Some(custom) = &resource.custom {
                for warning in custom.update_warnings(&new, old) {
                    origin.warn(warning);
                }
            }
            self.permit_by_cluster(&Request {
                operation: Operation::Update,
                target,
                name: &target.name,
                object: Some(&new),
                old: Some(old),
                dry_run: writing.dry_run,
                origin,
            })
            .await?;
        }
        if grows {
            metadata::advance_generation(resource, &mut new);
        }
        let mut warnings = resource.update_warnings(part, &new, old);
        warnings.extend(duplicates);
        let mut new = NewState::of(target, current, new);
        // Updates of custom resources use up no quota, so no lock is held while a webhook converts.
        if resource.custom.is_some() && new.changes(old) {
            // The conversion of the object can fail, also in a dry run.
            new.stored = resource.to_stored(&new.object, self).await?;
        }
        // Holds the quotas until the commit has counted the change.
        let _charge = self.charge(target, &new.object, Some(old), writing.dry_run)?;
        let written = self.store(target, current, old, new, writing.dry_run)?;
        Ok((written, warnings))
    }

    /// Commits a prepared state. Removes a terminating object without finalizers.
    pub(super) fn store(
        &self,
        target: &Target,
        current: &Arc<Object>,
        old: &Value,
        new: NewState,
        dry_run: bool,
    ) -> Result<Arc<Object>, NotWritten> {
        let resource = target.resource();
        let NewState {
            object: new,
            stored,
        } = new;
        let commit = |change| {
            let committed = self.commit(&target.entry, &current.key, Some(current), change);
            committed.map_err(|Raced| NotWritten::Raced)
        };
        if metadata::is_finished(&new) {
            if !dry_run {
                commit(Change::Remove)?;
            }
            return Ok(Arc::new(Object::unstored(resource, &current.key, &new)));
        }
        if new == *old {
            return Ok(current.clone());
        }
        let kept = stored.unwrap_or(new);
        depth::check(&kept)?;
        if dry_run {
            return Ok(Arc::new(Object::unstored(resource, &current.key, &kept)));
        }
        commit(Change::Put(kept))
    }
}

/// Checks that the name in the body is the one in the path.
pub(super) fn check_name(target: &Target, object: &Value) -> Result<(), Status> {
    match metadata::text(object, "name") {
        name if name == target.name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        ))),
        name => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        ))),
    }
}

/// Checks UID and resource version of the new state. Most kinds accept an update without a version.
fn check_identity(
    target: &Target,
    new: &Value,
    old: &Value,
    writing: Writing<'_>,
) -> Result<(), Status> {
    let resource = target.resource();
    let uid = metadata::text(new, "uid");
    let stored = metadata::text(old, "uid");
    if writing.uid_is_precondition && !uid.is_empty() && uid != stored {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
        );
        return Err(Status::conflict(resource.named(), &target.name, &why));
    }
    let version = metadata::text(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        if !resource.unconditional_update {
            let problem = Problem::Invalid(json!(0), "must be specified for an update".to_owned());
            let error = FieldError {
                field: "metadata.resourceVersion".to_owned(),
                problem,
            };
            return Err(Status::invalid(resource.named(), &target.name, &[error]));
        }
    } else if version.parse::<u64>().is_err() {
        return Err(Status::unclassified(format!(
            "strconv.ParseUint: parsing {version:?}: invalid syntax"
        )));
    } else if version != metadata::text(old, "resourceVersion") {
        return Err(Status::modified(resource.named(), &target.name));
    }
    Ok(())
}

/// Sets the time of a volume's new phase, unless the client has set one.
fn date_phase(volume: &mut Value, old: &Value, now: &Value) {
    const TIME: &str = "lastPhaseTransitionTime";
    let status = &mut volume["status"];
    let before = &old["status"];
    if status["phase"] != before["phase"] && status[TIME] == before[TIME] {
        status[TIME] = now.clone();
    }
}

/// Restores the fields that this endpoint cannot change.
fn restore_other_fields(resource: &Resource, part: Option<&str>, new: &mut Value, old: &Value) {
    match part {
        Some("status") if resource.custom.is_some() => keep_all_but(new, old, &["status"]),
        Some("status") => {
            keep_all_but(new, old, &["metadata", "status"]);
            if let Some(field) = kept_with_status(resource) {
                keep_metadata(new, old, field);
            }
            if resource.is("Pod") {
                keep_metadata(new, old, "deletionTimestamp");
                keep_quality_of_service(new, old);
            }
        }
        Some("finalize") => keep(new, old, "status"),
        Some("ephemeralcontainers") => {
            let containers = new["spec"].get("ephemeralContainers").cloned();
            keep_all_but(new, old, &["metadata"]);
            keep_in_spec(new, "ephemeralContainers", containers);
        }
        Some("resize") => keep_all_but_resources(resource, new, old),
        Some("approval") => {
            let conditions = new["status"].get("conditions").cloned();
            keep(new, old, "spec");
            keep(new, old, "status");
            match conditions {
                Some(conditions) => new["status"]["conditions"] = conditions,
                None => {
                    new["status"]
                        .as_object_mut()
                        .map(|status| status.remove("conditions"));
                }
            }
        }
        _ if resource.is("Namespace") || resource.is("CertificateSigningRequest") => {
            keep(new, old, "spec");
            keep(new, old, "status");
        }
        _ if resource.has_status() => keep(new, old, "status"),
        _ => {}
    }
}

/// The metadata field that the status endpoint cannot change.
fn kept_with_status(resource: &Resource) -> Option<&'static str> {
    match &*resource.kind {
        _ if resource.custom.is_some() => None,
        "Deployment" => Some("labels"),
        "Pod" => Some("ownerReferences"),
        _ => None,
    }
}

fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(fields) = new.as_object_mut() else {
        return;
    };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

fn keep_all_but(new: &mut Value, old: &Value, changed: &[&str]) {
    let mut kept = old.clone();
    for field in changed {
        keep(&mut kept, new, field);
    }
    *new = kept;
}

fn keep_metadata(new: &mut Value, old: &Value, field: &str) {
    let metadata = metadata::of(new);
    match old["metadata"].get(field) {
        Some(value) => metadata.insert(field.to_owned(), value.clone()),
        None => metadata.remove(field),
    };
}

/// Restores the class of a pod in a status without one, which old kubelets send.
fn keep_quality_of_service(new: &mut Value, old: &Value) {
    let class = &old["status"]["qosClass"];
    if new["status"]["qosClass"].as_str().is_none_or(str::is_empty)
        && !class.is_null()
        && new["status"].is_object()
    {
        new["status"]["qosClass"] = class.clone();
    }
}

/// Restores all of a pod but the resources. If the containers are others, validation must see them.
///
/// Upstream: `dropNonResizeUpdates` in `pkg/registry/core/pod`.
fn keep_all_but_resources(resource: &Resource, new: &mut Value, old: &Value) {
    const METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
    const LISTS: [&str; 2] = ["containers", "initContainers"];
    let containers = |pod: &Value, list: &str| -> Vec<Value> {
        let containers = pod["spec"][list].as_array();
        containers.cloned().unwrap_or_default()
    };
    if LISTS
        .iter()
        .any(|list| containers(new, list).len() != containers(old, list).len())
    {
        return;
    }
    let given = new["spec"].clone();
    keep_all_but(new, old, &["metadata"]);
    for list in LISTS {
        let stored = containers(old, list);
        let sent = given[list].as_array().cloned().unwrap_or_default();
        let is_same = stored
            .iter()
            .zip(&sent)
            .all(|(old, new)| old["name"] == new["name"]);
        let merged = stored.into_iter().zip(&sent).map(|(mut container, sent)| {
            for field in ["resources", "resizePolicy"] {
                match (sent.get(field), container.as_object_mut()) {
                    (Some(value), _) => container[field] = value.clone(),
                    (None, Some(fields)) => drop(fields.shift_remove(field)),
                    (None, None) => {}
                }
            }
            container
        });
        let containers = if is_same { merged.collect() } else { sent };
        if !containers.is_empty() {
            keep_in_spec(new, list, Some(Value::Array(containers)));
        }
    }
    for field in METADATA {
        keep_metadata(new, old, field);
    }
    let release = resource.release;
    if release.enables("InPlacePodLevelResourcesVerticalScaling") {
        keep_in_spec(new, "resources", given.get("resources").cloned());
    }
}

fn keep_in_spec(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(spec) = object["spec"].as_object_mut() else {
        return;
    };
    match value {
        Some(value) => spec.insert(field.to_owned(), value),
        None => spec.remove(field),
    };
}
