//! Subresources: status, scale, binding, eviction, finalize, and the ones that kubelets and pods
//! serve.

use std::sync::Arc;

use serde_json::{Value, json};

use super::commit::NotWritten;
use super::decode::Strictness;
use super::managers::Tracking;
use super::patching::Patch;
use super::update::{NewState, Writing, check_name};
use super::{Answer, Call, Server, apply_request, decode, metadata, scale, storable};
use crate::defaults;
use crate::kinds::Subresource;
use crate::route::{Target, Verb};
use crate::schema;
use crate::status::{self, Qualified, Status};
use crate::store::Object;

impl Server {
    /// Calls the handler of a subresource.
    pub(super) async fn subresource(
        &self,
        verb: Verb,
        part: &Subresource,
        call: &Call<'_>,
    ) -> Result<Answer, Status> {
        match (part.name, verb) {
            ("scale", Verb::Get) => self.show_scale(call, self.existing(call.target)?).await,
            ("log", _) => self.log(call),
            (part @ ("attach" | "exec" | "portforward"), _) => self.connect(part, call),
            ("proxy", _) => self.proxy(call),
            ("scale", _) => self.show_scale(call, self.write_scale(call).await?).await,
            ("binding", _) => self.bind(call),
            ("eviction", _) => self.evict(call),
            ("token", _) => self.request_token(call),
            (_, Verb::Get) => Ok(Answer::object(200, self.existing(call.target)?)),
            (_, Verb::Update) => self.update(call).await,
            (_, Verb::Patch) => self.patch_or_apply(call).await,
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// The stored object of a target, or 404.
    pub(super) fn existing(&self, target: &Target) -> Result<Arc<Object>, Status> {
        storable(target, None)?;
        let found = target.entry.store.get(&target.key());
        found.ok_or_else(|| Status::not_found(target.resource().named(), &target.name))
    }

    /// Handles PUT, PATCH and apply of a Scale. The write changes one field of the object.
    async fn write_scale(&self, call: &Call<'_>) -> Result<Arc<Object>, Status> {
        enum Input {
            Scale(Value),
            Patch(Patch),
        }
        let target = call.target;
        let put = decode::media_type(call.content_type);
        if put == apply_request::MEDIA_TYPE {
            return self.apply_scale(call).await;
        }
        let (input, options) = if put.ends_with("patch+json") {
            (
                Input::Patch(Patch::parse(
                    call.content_type,
                    &call.body,
                    Strictness::parse(call.query, "PatchOptions")?,
                )?),
                "PatchOptions",
            )
        } else {
            (
                Input::Scale(decode::part(
                    "autoscaling",
                    "Scale",
                    call.content_type,
                    &call.body,
                )?),
                "UpdateOptions",
            )
        };
        let dry_run = call.query.dry_run(options)?;
        let author = call.author(options)?;
        let whole = Target {
            subresource: None,
            ..target.clone()
        };
        let writing = Writing {
            dry_run,
            uid_is_precondition: true,
            tracking: Tracking::Update(&author),
            origin: None,
        };
        let written = self.rewrite(&whole, writing, |old| {
            let scale = match &input {
                Input::Scale(scale) => scale.clone(),
                Input::Patch(patch) => {
                    let mut scale = scale::to_patch(target.resource(), old)?;
                    patch.apply(target.resource(), &mut scale)?;
                    if let Some(why) = schema::decode::decode_error(scale::KIND, &scale) {
                        return Err(patch.invalid(&scale, &why));
                    }
                    scale::check_replicas(target.resource(), &scale)?;
                    scale
                }
            };
            check_name(target, &scale)?;
            let mut new = old.clone();
            scale::write(target.resource(), &mut new, scale::replicas(&scale)?);
            for field in ["resourceVersion", "uid"] {
                match scale["metadata"].get(field) {
                    Some(value) => metadata::of(&mut new).insert(field.to_owned(), value.clone()),
                    None => None,
                };
            }
            Ok(new)
        });
        let (object, _) = written.await?;
        Ok(object)
    }

    async fn show_scale(&self, call: &Call<'_>, object: Arc<Object>) -> Result<Answer, Status> {
        let resource = call.target.resource();
        let object = self.in_version(resource, object).await?;
        let scale = scale::of(resource, &resource.shown(object.to_value()))?;
        Ok(Answer::value(200, self.show_value(call, "Scale", scale)?))
    }

    /// Binds a pod to a node.
    fn bind(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let binding = decode::part("core", "Binding", call.content_type, &call.body)?;
        if metadata::text(&binding, "name") != call.target.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        self.bind_pod(call, call.target, &binding)
    }

    /// A binding that is posted to the collection `bindings`, which names the pod in its body.
    pub(super) fn bind_any(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let binding = decode::part("core", "Binding", call.content_type, &call.body)?;
        let pods = self
            .registry
            .find("", "v1", "pods")
            .expect("pods are built in");
        let pod = Target {
            entry: pods,
            name: metadata::text(&binding, "name").to_owned(),
            ..call.target.clone()
        };
        self.bind_pod(call, &pod, &binding)
    }

    /// Sets the node of a pod once, with the labels and annotations of the binding.
    fn bind_pod(
        &self,
        call: &Call<'_>,
        target: &Target,
        binding: &Value,
    ) -> Result<Answer, Status> {
        let dry_run = call.query.dry_run("CreateOptions")?;
        let kind = &binding["target"]["kind"];
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if let Some(kind) = kind.as_str().filter(|kind| !matches!(*kind, "" | "Node")) {
            let message = format!(
                "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
            );
            return Err(Status::unclassified(message));
        }
        if node.is_empty() {
            return Err(Status::unclassified("target.name: Required value"));
        }
        let now = metadata::time(self.clock.now());
        loop {
            let current = self.existing(target)?;
            let old = current.to_value();
            let refused = |why: &str| {
                Status::conflict(
                    Qualified {
                        group: "",
                        name: "pods/binding",
                    },
                    &target.name,
                    why,
                )
            };
            if current.deleting {
                return Err(refused(&format!(
                    "pod {} is being deleted, cannot be assigned to a host",
                    target.name
                )));
            }
            if let Some(bound) = old["spec"]["nodeName"]
                .as_str()
                .filter(|bound| !bound.is_empty())
            {
                return Err(refused(&format!(
                    "pod {} is already assigned to node {bound:?}",
                    target.name
                )));
            }
            if old["spec"]["schedulingGates"]
                .as_array()
                .is_some_and(|gates| !gates.is_empty())
            {
                return Err(refused(&format!(
                    "pod {} has non-empty .spec.schedulingGates",
                    target.name
                )));
            }
            let mut new = old.clone();
            new["spec"]["nodeName"] = Value::from(node);
            let release = self.release();
            let clears = release.enables("ClearingNominatedNodeNameAfterBinding");
            if let Some(status) = new["status"].as_object_mut().filter(|_| clears) {
                status.shift_remove("nominatedNodeName");
            }
            let copied: &[&str] = if release.enables("PodTopologyLabelsAdmission") {
                &["annotations", "labels"]
            } else {
                &["annotations"]
            };
            for field in copied {
                for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                    new["metadata"][field][key] = value.clone();
                }
            }
            if kind == "Node" {
                self.label_by_topology(&mut new);
            }
            set_condition(
                &mut new,
                json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}),
            );
            defaults::apply(self.release(), &target.resource().kind, &mut new);
            let new = NewState::of(target, &current, new);
            match self.store(target, &current, &old, new, dry_run) {
                Ok(_) => return Ok(Answer::value(201, status::created())),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }
}

/// Sets the condition of a type. Its transition time changes only with its status.
pub(super) fn set_condition(object: &mut Value, condition: Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    match conditions
        .iter_mut()
        .find(|known| known["type"] == condition["type"])
    {
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
