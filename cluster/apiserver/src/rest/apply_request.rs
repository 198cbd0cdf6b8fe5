//! Server-side apply: merges the configuration of one manager with the fields of all others.
//!
//! body -> fields of the configuration -> merge with the live object -> the same path as an update
//!
//! The merge itself is in `crate::managed_fields`. Upstream is `apiserver/pkg/endpoints/handlers/patch.go`
//! and `apimachinery/pkg/util/managedfields`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::commit::NotWritten;
use super::create::place;
use super::decode::{self, Strictness};
use super::managers::{self, Conversions, Tracking};
use super::query::invalid_options;
use super::update::{Writing, check_name};
use super::{Answer, Call, Server, metadata, scale};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::managed_fields::{
    self, Applied, Author, Conflicts, FieldSet, Managed, NotApplied, Operation, Shape, Versions,
};
use crate::route::Target;
use crate::schema;
use crate::status::Status;
use crate::store::Object;
use crate::yaml;

pub(super) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

impl Server {
    /// Applies to an object or to its status. The object is created if it is missing.
    pub(super) async fn apply(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let resource = call.target.resource();
        let ApplyOptions {
            dry_run,
            author,
            force,
            strictness,
        } = ApplyOptions::of(call)?;
        let (config, duplicates) = parse(&resource.api_version(), &resource.kind, &call.body)?;
        let duplicates = strictness.duplicates(duplicates);
        let unique = |object: Value| match &duplicates {
            Err(refusal) => Err(NotApplied::Failed(refusal.clone())),
            Ok(_) => Ok(object),
        };
        let mut set = managed_fields::declared(resource.release, resource.shape(&config), &config)
            .map_err(|why| untyped(&config, &why))?;
        let part = target.subresource.map(|part| part.name);
        set.subtract_whole(&resource.reset_fields(part));
        let applied = Applied {
            versions: Versions {
                resource,
                part,
                convert: &Conversions::new(self, resource),
            },
            config: &config,
            set,
            part: None,
            author,
            force,
            time: self.time(),
        };
        let writing = Writing {
            dry_run,
            uid_is_precondition: false,
            tracking: Tracking::Decided,
            origin: Some(&call.origin),
        };

        // Another request may create or delete the object meanwhile; then the other branch applies.
        loop {
            if let Some(current) = target.entry.store.get(&target.key()) {
                let old = resource.in_version(current.to_value(), self).await?;
                let live = resource.converted(old.clone());
                let merged = apply_to(&live, &applied).await.and_then(unique);
                let mut object = completed(resource, &config, merged)?;
                call.origin
                    .warn_early(duplicates.as_deref().unwrap_or_default());
                check_name(target, &object)?;
                place(target, &mut object)?;
                self.check_author(call.user, target, Some(&old), &object)?;
                match self.replace(target, &current, &old, object, writing).await {
                    Ok((object, about)) => {
                        let duplicates = duplicates.clone().unwrap_or_default();
                        return Ok(Answer::object(200, object).warn([duplicates, about].concat()));
                    }
                    Err(NotWritten::Refused(status)) => return Err(status),
                    Err(NotWritten::Raced) => continue,
                }
            }
            if target.subresource.is_some() {
                if resource.create_on_update {
                    check_name(target, &config)?;
                }
                return Err(Status::not_found(resource.named(), &target.name));
            }
            let merged = apply_to(&json!({"metadata": {}}), &applied).await;
            let merged = merged.and_then(unique);
            let mut object = completed(resource, &config, merged)?;
            let link = config["metadata"].get("selfLink");
            if let Some(link) = link.filter(|link| link.is_string()) {
                // Only the store of upstream drops it, and a dry run ends before.
                metadata::of(&mut object).insert("selfLink".to_owned(), link.clone());
            }
            call.origin
                .warn_early(duplicates.as_deref().unwrap_or_default());
            let uid = metadata::text(&config, "uid");
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(Status::conflict(resource.named(), &target.name, &why));
            }
            if !metadata::text(&config, "resourceVersion").is_empty() {
                return Err(Status::modified(resource.named(), &target.name));
            }
            check_name(target, &object)?;
            self.authorize_creation(call)?;
            self.check_author(call.user, target, None, &object)?;
            let created = self.create_object(call, target, object, dry_run, Tracking::Decided);
            match created.await {
                // Another request created the object meanwhile. Other refusals stand: a webhook denied the
                // creation with this reason, or gave the object the name of another one. Upstream stores the
                // latter under the name of the request, where its own name is wrong.
                Err(status)
                    if status.reason == "AlreadyExists"
                        && target.entry.store.get(&target.key()).is_some() => {}
                created => {
                    let (object, about) = created?;
                    let duplicates = duplicates.clone().unwrap_or_default();
                    return Ok(Answer::object(201, object).warn([duplicates, about].concat()));
                }
            }
        }
    }

    /// Applies to the `scale` subresource. The object changes in one field, which managed fields
    /// record under its path in the object.
    pub(super) async fn apply_scale(&self, call: &Call<'_>) -> Result<Arc<Object>, Status> {
        let resource = call.target.resource();
        let ApplyOptions {
            dry_run,
            author,
            force,
            ..
        } = ApplyOptions::of(call)?;
        let (config, _) = parse(scale::API_VERSION, scale::KIND, &call.body)?;
        let declared = managed_fields::declared(
            self.release(),
            Shape::of_object(scale::KIND, &config),
            &config,
        )
        .map_err(|why| untyped(&config, &why))?;
        schema::decode::decode_check(scale::KIND, &config).map_err(Status::bad_request)?;
        check_name(call.target, &config)?;
        let replicas = scale::replicas(&config)?;

        let part = scale::field_of(resource);
        let mut object =
            json!({"apiVersion": resource.api_version(), "kind": &resource.kind, "metadata": {}});
        for field in ["uid", "resourceVersion"] {
            if let Some(value) = config["metadata"].get(field) {
                object["metadata"][field] = value.clone();
            }
        }
        let mut set = FieldSet::default();
        if !declared.intersection(&scale::field()).is_empty() {
            set = part.clone();
            scale::write(resource, &mut object, replicas);
        }
        let applied = Applied {
            versions: Versions {
                resource,
                part: Some("scale"),
                convert: &Conversions::new(self, resource),
            },
            config: &object,
            set,
            part: Some(part.clone()),
            author,
            force,
            time: self.time(),
        };
        let whole = Target {
            subresource: None,
            ..call.target.clone()
        };
        let writing = Writing {
            dry_run,
            uid_is_precondition: true,
            tracking: Tracking::Decided,
            origin: None,
        };
        loop {
            let current = self.existing(&whole)?;
            let old = resource.in_version(current.to_value(), self).await?;
            let mut new = apply_to(&old, &applied).await.map_err(seen_by_scale)?;
            if managed_fields::compare(resource.shape(&new), &old, &new)
                .removed
                .intersection(&part)
                == part
            {
                // No manager sets the field any more, so it becomes zero.
                scale::write(resource, &mut new, 0);
            }
            match self.replace(&whole, &current, &old, new, writing).await {
                Ok((object, _)) => return Ok(object),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }
}

/// The refusal of an apply to the `scale` subresource.
fn seen_by_scale(refusal: NotApplied) -> Status {
    match refusal {
        NotApplied::Conflicts(conflicts) => {
            refused(&conflicts.seen_as(scale::API_VERSION, &scale::field()))
        }
        NotApplied::Failed(status) => status,
    }
}

/// The options of an apply request.
struct ApplyOptions {
    dry_run: bool,
    author: Author,
    force: bool,
    strictness: Strictness,
}

impl ApplyOptions {
    fn of(call: &Call<'_>) -> Result<Self, Status> {
        const OPTIONS: &str = "PatchOptions";
        let dry_run = call.query.dry_run(OPTIONS)?;
        let strictness = Strictness::parse(call.query, OPTIONS)?;
        if call.query.text("fieldManager").is_empty() {
            let problem = Problem::Required("is required for apply patch".to_owned());
            return Err(invalid_options(
                OPTIONS,
                &[FieldError {
                    field: "fieldManager".to_owned(),
                    problem,
                }],
            ));
        }
        let author = Author {
            operation: Operation::Apply,
            ..call.author(OPTIONS)?
        };
        Ok(Self {
            dry_run,
            author,
            force: call.query.flag("force").unwrap_or(false),
            strictness,
        })
    }
}

impl Strictness {
    /// The warnings about duplicate fields of a configuration, or its refusal. Upstream:
    /// `applyPatchToCurrentObject` of `apiserver/pkg/endpoints/handlers/patch.go`.
    fn duplicates(self, found: Option<String>) -> Result<Vec<String>, Status> {
        let errors = found.map(|why| format!("{}{why}", yaml::CONVERTING));
        self.warnings_or_error(errors.into_iter().collect(), |errors| {
            Status::bad_request(format!("error strict decoding YAML: {errors}"))
        })
    }
}

/// The configuration in the body, after a check of its kind and version, and the error about its
/// duplicate fields.
fn parse(
    wanted_version: &str,
    wanted_kind: &str,
    body: &[u8],
) -> Result<(Value, Option<String>), Status> {
    let invalid_yaml = |why: &str| Status::bad_request(format!("error decoding YAML: {why}"));
    let (config, duplicates) =
        yaml::parse(body).map_err(|why| invalid_yaml(&format!("{}{why}", yaml::CONVERTING)))?;
    if !config.is_object() && !config.is_null() {
        let found = schema::decode::json_type(&config);
        return Err(invalid_yaml(&format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let kind = config["kind"].as_str().unwrap_or_default();
    if kind != wanted_kind || api_version != wanted_version {
        let version = if api_version.is_empty() || api_version.contains('/') {
            ""
        } else {
            "/"
        };
        let version = if api_version.is_empty() {
            "/".to_owned()
        } else {
            format!("{version}{api_version}")
        };
        return Err(Status::bad_request(format!(
            "invalid object type: {version}, Kind={kind}"
        )));
    }
    let metadata = &config["metadata"];
    if !metadata.is_null() && !metadata.is_object() {
        return Err(Status::bad_request("metadata must be an object"));
    }
    if metadata
        .get("managedFields")
        .is_some_and(|entries| !entries.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok((config, duplicates))
}

/// The error for a configuration that does not fit the types of its kind.
fn untyped(config: &Value, why: &str) -> Status {
    let (named, kind) = described(config);
    Status::unclassified(format!(
        "failed to create typed patch object ({named}; {kind}): {why}"
    ))
}

/// The error for a result that Go's types cannot hold, such as a malformed time.
/// Upstream: `apimachinery/pkg/util/managedfields/internal/structuredmerge.go`, Apply.
fn inconvertible(config: &Value, why: &str) -> Status {
    let (named, kind) = described(config);
    let wrapped = if why.starts_with("illegal base64") {
        "error decoding from json: "
    } else {
        ""
    };
    Status::unclassified(format!(
        "failed to convert new object ({named}; {kind}) to proper version: unable to convert unstructured object to {kind}: {wrapped}{why}"
    ))
}

/// The name and the kind of a configuration, as errors show them.
fn described(config: &Value) -> (String, String) {
    let namespace = metadata::text(config, "namespace");
    let name = metadata::text(config, "name");
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let kind = config["kind"].as_str().unwrap_or_default();
    let core = if api_version.contains('/') { "" } else { "/" };
    (
        format!("{namespace}/{name}"),
        format!("{core}{api_version}, Kind={kind}"),
    )
}

/// `live` after the merge with the configuration, with updated managed fields.
async fn apply_to(live: &Value, applied: &Applied<'_>) -> Result<Value, NotApplied> {
    let mut live = live.clone();
    let managed = managers::take(&mut live)
        .as_ref()
        .and_then(Managed::parse)
        .unwrap_or_default();
    let (mut object, managed) = managed_fields::apply(&live, &managed, applied).await?;
    managed_fields::follow_last_applied(&mut object, applied);
    if let Some(managed_fields) = managed.into_value() {
        metadata::of(&mut object).insert("managedFields".to_owned(), managed_fields);
    }
    Ok(object)
}

/// An applied object in its stored form.
fn completed(
    resource: &Resource,
    config: &Value,
    applied: Result<Value, NotApplied>,
) -> Result<Value, Status> {
    let mut object = applied.map_err(|refusal| match refusal {
        NotApplied::Conflicts(conflicts) => refused(&conflicts),
        NotApplied::Failed(status) => status,
    })?;
    if object["metadata"].is_null() {
        // The manager gave up all metadata, and its configuration has no name.
        object["metadata"] = Value::Object(Map::new());
    }
    if let Some(error) = resource.decode_error(&object) {
        return Err(inconvertible(config, &error));
    }
    if resource.custom.is_some() {
        // Storage drops the fields that the schema does not know.
        decode::arrange(resource, &mut object);
        return Ok(object);
    }
    decode::complete(resource, &mut object)?;
    Ok(resource.to_kept(object))
}

/// 409 that lists the conflicting fields and their managers.
fn refused(conflicts: &Conflicts) -> Status {
    let cause = |(message, field)| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
    let causes: Vec<Value> = conflicts.causes().into_iter().map(cause).collect();
    let mut status = Status::new(409, "Conflict", conflicts.message());
    status.details = Some(Box::new(json!({"causes": causes})));
    status
}
