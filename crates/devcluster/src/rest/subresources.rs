//! Parts of objects with their own path: status, scale, binding, eviction, finalize.

use serde_json::{Value, json};

use super::update::{NotWritten, Patch, Writing, check_name};
use super::{Answer, Call, Server, decode, metadata, scale};
use crate::kinds::Subresource;
use crate::status::{self, Qualified, Status};

use super::route::Verb;

impl Server {
    pub(super) fn subresource(&self, verb: Verb, part: &Subresource, call: &Call<'_>) -> Result<Answer, Status> {
        match (part.name, verb) {
            ("scale", Verb::Get) => Ok(Answer::value(200, scale::show(&*self.parent(call)?))),
            ("scale", _) => self.write_scale(call),
            ("binding", _) => self.bind(call),
            ("eviction", _) => self.evict(call),
            (_, Verb::Get) => Ok(Answer::object(200, self.parent(call)?)),
            (_, Verb::Update) => self.update(call),
            (_, Verb::Patch) => self.patch(call),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// The object that the subresource is a part of.
    pub(super) fn parent(&self, call: &Call<'_>) -> Result<std::sync::Arc<crate::store::Object>, Status> {
        let target = call.target;
        let found = target.entry.store.get(&target.key());
        found.ok_or_else(|| Status::not_found(target.resource().named(), &target.name))
    }

    fn write_scale(&self, call: &Call<'_>) -> Result<Answer, Status> {
        enum Input {
            Scale(Value),
            Patch(Patch),
        }
        let target = call.target;
        let put = decode::media_type(call.content_type);
        let (input, options) = if put.ends_with("patch+json") || put.ends_with("patch+yaml") {
            (Input::Patch(Patch::parse(call.content_type, &call.body)?), "PatchOptions")
        } else {
            (Input::Scale(decode::parse("Scale", call.content_type, &call.body)?), "UpdateOptions")
        };
        let dry_run = call.query.dry_run(options)?;
        let whole = super::route::Target { subresource: None, ..target.clone() };
        let writing = Writing { dry_run, uid_is_precondition: true };
        let object = self.rewrite(&whole, writing, |_, old| {
            let scale = match &input {
                Input::Scale(scale) => scale.clone(),
                Input::Patch(patch) => {
                    let mut scale = scale::of(old);
                    patch.apply(target.resource(), &mut scale)?;
                    scale
                }
            };
            check_name(target, &scale)?;
            let mut new = old.clone();
            new["spec"]["replicas"] = Value::from(scale::replicas(&scale)?);
            for field in ["resourceVersion", "uid"] {
                match scale["metadata"].get(field) {
                    Some(value) => metadata::of(&mut new).insert(field.to_owned(), value.clone()),
                    None => None,
                };
            }
            Ok(new)
        })?;
        Ok(Answer::value(200, scale::show(&object)))
    }

    /// Assigns a pod to a node.
    fn bind(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let dry_run = call.query.dry_run("CreateOptions")?;
        let binding = decode::parse("Binding", call.content_type, &call.body)?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let now = metadata::time(self.clock.now());
        loop {
            let current = self.parent(call)?;
            let old = current.to_value();
            let refused = |why: &str| Status::conflict(Qualified { group: "", name: "pods/binding" }, &target.name, why);
            if current.deleting {
                return Err(refused(&format!("pod {} is being deleted, cannot be assigned to a host", target.name)));
            }
            if let Some(bound) = old["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
                return Err(refused(&format!("pod {} is already assigned to node {bound:?}", target.name)));
            }
            let mut new = old.clone();
            new["spec"]["nodeName"] = Value::from(node);
            for field in ["annotations", "labels"] {
                for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                    new["metadata"][field][key] = value.clone();
                }
            }
            set_condition(&mut new, json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
            match self.store(target, &current, &old, new, dry_run) {
                Ok(_) => return Ok(Answer::value(201, status::created())),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }
}

/// Sets the condition of a type; its transition time only moves when its status does.
pub(super) fn set_condition(object: &mut Value, condition: Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            let mut condition = condition;
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}
