//! Server-side apply: a configuration in, the object that it and all other managers want out.

use serde_json::{Map, Value, json};

use super::create::place;
use super::decode::{self, Strictness};
use super::managers::{self, Tracking};
use super::query::invalid_options;
use super::update::{Writing, check_name};
use super::{Answer, Call, Server, event_view, metadata};
use crate::fielderror::{FieldError, Problem};
use crate::fields::{self, Applied, Author, Conflicts, Managed, Operation};
use crate::kinds::{Resource, Storage};
use crate::status::Status;

pub(super) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

impl Server {
    pub(super) fn apply(&self, call: &Call<'_>) -> Result<Answer, Status> {
        const OPTIONS: &str = "PatchOptions";
        let (target, resource) = (call.target, call.target.resource());
        let dry_run = call.query.dry_run(OPTIONS)?;
        Strictness::parse(call.query, OPTIONS)?;
        if call.query.text("fieldManager").is_empty() {
            let problem = Problem::Required("is required for apply patch".to_owned());
            return Err(invalid_options(OPTIONS, &[FieldError { field: "fieldManager".to_owned(), problem }]));
        }
        let author = Author { operation: Operation::Apply, ..call.author(OPTIONS)? };
        let config = parse(resource, &call.body)?;
        let set = fields::declared(resource.shape(&config), &config).map_err(|why| untyped(resource, &config, &why))?;
        let part = target.subresource.map(|part| part.name);
        let set = set.limited(|field| writable(resource, part, field));
        let force = call.query.flag("force").unwrap_or(false);
        let applied = Applied { resource, config: &config, set, author, force, time: self.time() };

        let warnings = resource.warnings(&config);
        loop {
            if target.entry.store.get(&target.key()).is_some() {
                let writing = Writing { dry_run, uid_is_precondition: false, tracking: Tracking::Decided };
                let written = self.rewrite(target, writing, |_, old| {
                    let live = match resource.storage {
                        Storage::Own | Storage::OtherVersion => old.clone(),
                        Storage::CoreEvent => event_view::from_core(old.clone()),
                    };
                    let mut object = apply_to(resource, &live, &applied)?;
                    check_name(target, &object)?;
                    place(target, &mut object)?;
                    self.check_escalation(call.user, target, Some(old), &object)?;
                    Ok(object)
                });
                return written.map(|object| Answer::object(200, object).warn(warnings));
            }
            if target.subresource.is_some() {
                return Err(Status::not_found(resource.named(), &target.name));
            }
            let uid = metadata::text(&config, "uid");
            if !uid.is_empty() {
                let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(Status::conflict(resource.named(), &target.name, &why));
            }
            if !metadata::text(&config, "resourceVersion").is_empty() {
                return Err(Status::modified(resource.named(), &target.name));
            }
            let object = apply_to(resource, &json!({"metadata": {}}), &applied)?;
            check_name(target, &object)?;
            self.authorize_creation(call)?;
            self.check_escalation(call.user, target, None, &object)?;
            match self.create_object(target, object, dry_run, Tracking::Decided) {
                Err(status) if status.reason == "AlreadyExists" => {}
                created => return created.map(|object| Answer::object(201, object).warn(warnings)),
            }
        }
    }
}

/// The configuration of a request.
fn parse(resource: &Resource, body: &[u8]) -> Result<Value, Status> {
    let undecodable = |why: &dyn std::fmt::Display| Status::bad_request(format!("error decoding YAML: {why}"));
    let text = std::str::from_utf8(body).map_err(|error| undecodable(&error))?;
    let mut config: Value = serde_saphyr::from_str(text).map_err(|error| undecodable(&error))?;
    let (api_version, kind) = (config["apiVersion"].as_str().unwrap_or_default(), config["kind"].as_str().unwrap_or_default());
    if kind != resource.kind || api_version != resource.api_version() {
        let version = if api_version.is_empty() || api_version.contains('/') { "" } else { "/" };
        let version = if api_version.is_empty() { "/".to_owned() } else { format!("{version}{api_version}") };
        return Err(Status::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    let metadata = &mut config["metadata"];
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if !metadata.is_object() {
        return Err(Status::bad_request("metadata must be an object"));
    }
    if metadata.get("managedFields").is_some_and(|entries| !entries.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(config)
}

fn untyped(resource: &Resource, config: &Value, why: &str) -> Status {
    let (namespace, name) = (metadata::text(config, "namespace"), metadata::text(config, "name"));
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    Status::unclassified(format!(
        "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {why}"
    ))
}

/// Whether a top field is one that an apply to this endpoint can have.
fn writable(resource: &Resource, part: Option<&str>, field: &str) -> bool {
    match part {
        None => field != "status" || !resource.has_status(),
        Some("status") => matches!(field, "metadata" | "status"),
        Some(_) => field != "status",
    }
}

/// `live` with the configuration applied, in the form it is kept in, and its entries.
fn apply_to(resource: &Resource, live: &Value, applied: &Applied<'_>) -> Result<Value, Status> {
    let mut live = live.clone();
    let managed = managers::take(&mut live).as_ref().and_then(Managed::parse).unwrap_or_default();
    let (mut object, managed) = fields::apply(&live, &managed, applied).map_err(|conflicts| refused(&conflicts))?;
    decode::complete(resource, &mut object)?;
    let mut object = decode::stored(resource, object);
    if let Some(managed_fields) = managed.to_value() {
        metadata::of(&mut object).insert("managedFields".to_owned(), managed_fields);
    }
    Ok(object)
}

/// 409 that lists who manages what.
fn refused(conflicts: &Conflicts) -> Status {
    let cause = |(message, field)| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
    let causes: Vec<Value> = conflicts.causes().into_iter().map(cause).collect();
    let mut status = Status::new(409, "Conflict", conflicts.message());
    status.details = Some(Box::new(json!({"causes": causes})));
    status
}
