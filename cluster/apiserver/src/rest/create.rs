//! `POST`: decode -> admission -> defaults -> validation -> commit.
//!
//! Upstream is `apiserver/pkg/registry/rest/create.go` and `Create` of
//! `apiserver/pkg/registry/generic/registry/store.go`. The order of the steps decides which error a
//! client sees.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::address::Reservation;
use super::commit::NotWritten;
use super::decode::Strictness;
use super::devices::date_taints;
use super::managers::Tracking;
use super::{Answer, Call, Server, certificates, decode, managers, metadata, owners};
use crate::admission::{Operation, Request};
use crate::apimachinery;
use crate::depth;
use crate::kinds::Resource;
use crate::route::Target;
use crate::status::Status;
use crate::store::{Change, Object, Raced};

/// Attempts to find a free name for an object with `generateName`, as upstream's.
const NAME_ATTEMPTS: usize = 8;

impl Server {
    /// Answers a POST to a collection. Bindings and reviews have their own handlers.
    pub(super) async fn create(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let resource = target.resource();
        let dry_run = call.query.dry_run("CreateOptions")?;
        let strictness = Strictness::parse(call.query, "CreateOptions")?;
        let author = call.author("CreateOptions")?;
        let (mut object, mut warnings) =
            decode::object(resource, call.content_type, &call.body, strictness)?;
        call.origin.warn_early(&warnings);
        if resource.plural == "bindings" {
            return self.bind_any(call);
        }
        if resource.verbs == ["create"] {
            let review = self.review(call, object, &author).await?;
            let shown = self.show_value(call, &resource.kind, review)?;
            return Ok(Answer::value(201, shown));
        }
        metadata::wipe(&mut object);
        self.check_author(call.user, target, None, &object)?;
        warnings.extend(owners::dedup(&mut object, owners::SENT));
        let tracking = Tracking::Update(&author);
        let created = self.create_object(call, target, object, dry_run, tracking);
        let (created, about) = created.await?;
        warnings.extend(about);
        Ok(Answer::object(201, created).warn(warnings))
    }

    /// Creates a decoded object in the collection of `target`. Returns it with warnings about it.
    pub(super) async fn create_object(
        &self,
        call: &Call<'_>,
        target: &Target,
        mut object: Value,
        dry_run: bool,
        tracking: Tracking<'_>,
    ) -> Result<(Arc<Object>, Vec<String>), Status> {
        let resource = target.resource();
        Self::admit_kind(resource)?;
        place(target, &mut object)?;
        let prefix = metadata::text(&object, "generateName").to_owned();
        let generated = metadata::text(&object, "name").is_empty() && !prefix.is_empty();
        let mut attempts = if generated { NAME_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let mut candidate = if attempts == 0 {
                std::mem::take(&mut object)
            } else {
                object.clone()
            };
            if generated {
                let drawn = self.random.identities.name(&prefix);
                metadata::of(&mut candidate).insert("name".to_owned(), Value::from(drawn));
            }
            if resource.names_itself() && metadata::text(&candidate, "name").is_empty() {
                let drawn = self.random.identities.uid();
                metadata::of(&mut candidate).insert("name".to_owned(), Value::from(drawn));
            }
            let name = metadata::text(&candidate, "name").to_owned();
            self.admit_creation(target, &name)?;
            // Upstream admits an object before it generates the name, so its errors show the
            // prefix.
            let shown = if generated { &prefix } else { &name };
            let _reserved = self
                .prepare(call, target, shown, &mut candidate, dry_run, tracking)
                .await?;
            // Mutating policies and webhooks can change the name.
            let name = metadata::text(&candidate, "name").to_owned();
            let about = resource.warnings(&candidate);
            self.permit_by_cluster(&Request {
                operation: Operation::Create,
                target,
                name: &name,
                object: Some(&candidate),
                old: None,
                dry_run,
                origin: &call.origin,
            })
            .await?;
            // The namespace may have gone while webhooks answered.
            self.admit_creation(target, &name)?;
            match self.store_new(target, &name, candidate, dry_run).await {
                Ok(created) => return Ok((created, about)),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) if attempts > 0 => {}
                Err(NotWritten::Raced) => return Err(self.name_taken(target, &name, generated)),
            }
        }
    }

    /// Stores a new object, or only shows it in a dry run. A lost race means that the name is taken.
    async fn store_new(
        &self,
        target: &Target,
        name: &str,
        object: Value,
        dry_run: bool,
    ) -> Result<Arc<Object>, NotWritten> {
        let resource = target.resource();
        let key = target.key_of(name);
        if target.entry.store.get(&key).is_some() {
            return Err(NotWritten::Raced);
        }
        if resource.converter().is_some() {
            // A quota refuses the object before a webhook converts it. Its lock is not held meanwhile.
            self.charge(target, &object, None, true)?;
        }
        let object = resource.as_stored(object);
        // The conversion of the object can fail, also in a dry run.
        let stored = resource.to_stored(&object, self).await?;
        // Holds the quotas until the commit has counted the object.
        let _charge = self.charge(target, &object, None, dry_run)?;
        let kept = stored.unwrap_or(object);
        depth::check(&kept)?;
        if dry_run {
            return Ok(Arc::new(Object::unstored(resource, &key, &kept)));
        }
        let change = Change::Put(kept);
        let committed = self.commit(&target.entry, &key, None, change);
        committed.map_err(|Raced| NotWritten::Raced)
    }

    /// The error for a name that exists. It tells when the existing object is terminating.
    fn name_taken(&self, target: &Target, name: &str, generated: bool) -> Status {
        let resource = target.resource().named();
        if generated {
            return Status::no_unique_name(resource, name);
        }
        let mut status = Status::already_exists(resource, name);
        if target
            .entry
            .store
            .get(&target.key_of(name))
            .is_some_and(|object| object.deleting)
        {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    /// Checks that the namespace exists and is not terminating.
    fn admit_creation(&self, target: &Target, name: &str) -> Result<(), Status> {
        if !target.resource().namespaced {
            return Ok(());
        }
        let namespaces = self
            .registry
            .find("", "v1", "namespaces")
            .expect("namespaces are built in");
        match namespaces.store.get(&target.namespace) {
            // Upstream asks for a missing namespace with a request of its own.
            None => Err(match apimachinery::unusable_in_path(&target.namespace) {
                Some(why) => Status::internal(why),
                None => Status::not_found(namespaces.resource.named(), &target.namespace),
            }),
            Some(namespace) if is_terminating(&namespace) => Err(Status::namespace_terminating(
                target.resource().named(),
                name,
                &target.namespace,
            )),
            Some(_) => Ok(()),
        }
    }

    /// All steps between decoding and storing. `name` is the object's name in errors before
    /// validation. Addresses of a Service stay reserved until the caller drops the result.
    async fn prepare(
        &self,
        call: &Call<'_>,
        target: &Target,
        name: &str,
        object: &mut Value,
        dry_run: bool,
        tracking: Tracking<'_>,
    ) -> Result<Option<Reservation<'_>>, Status> {
        let resource = target.resource();
        let given = managers::take(object);
        let version = metadata::text(object, "resourceVersion").to_owned();
        let link = metadata::of(object).remove("selfLink");
        metadata::begin(
            resource,
            object,
            self.random.identities.uid(),
            self.clock.now(),
        );
        let status = drop_status(resource, object);
        if resource.is("Namespace") {
            label_namespace(object);
        }
        if resource.is("ResourceSlice") {
            date_taints(object, &metadata::time(self.clock.now()));
        }
        if let Tracking::Update(_) = tracking {
            resource.drop_nulls(object);
        }
        let incomplete = resource.set_defaults_of_new(object);
        self.manage_sent(resource, object, status.as_ref(), (given, tracking))
            .await;
        self.admit(target, name, object)?;
        let request = Request {
            operation: Operation::Create,
            target,
            name,
            object: None,
            old: None,
            dry_run,
            origin: &call.origin,
        };
        let built_in = |object: &mut Value| self.admit(target, name, object);
        self.mutate_by_cluster(&request, object, built_in).await?;
        place(target, object)?;
        resource.complete_new(object, incomplete);
        if resource.is("Pod") {
            keep_class(object, status.as_ref());
        }
        if resource.is("CertificateSigningRequest") {
            certificates::set_requester(object, call.user);
        }
        let reserved = resource
            .is("Service")
            .then(|| self.reserve(object, None, dry_run))
            .transpose()?;
        let mut errors = self.admin_access(target, object);
        errors.extend(resource.errors(object));
        if !errors.is_empty() {
            return Err(Status::invalid(
                resource.named_kind(),
                metadata::text(object, "name"),
                &errors,
            ));
        }
        if !version.is_empty() {
            // Only the store refuses a version, and a dry run ends before it. Upstream: `DryRunnableStorage.Create`.
            if !dry_run {
                return Err(Status::unclassified(
                    "resourceVersion should not be set on objects to be created",
                ));
            }
            metadata::of(object).insert("resourceVersion".to_owned(), Value::from(version));
        }
        if let Some(link) = link.filter(|_| dry_run) {
            metadata::of(object).insert("selfLink".to_owned(), link);
        }
        self.permit(target, object)?;
        Ok(reserved)
    }
}

/// The phase decides: a namespace can be created with the time of a deletion, and stay active.
fn is_terminating(namespace: &Object) -> bool {
    namespace.deleting && namespace.to_value()["status"]["phase"] == "Terminating"
}

/// Removes a status that only the subresource can set, and returns it. Kubelets register nodes with
/// their status, so it counts at creation.
fn drop_status(resource: &Resource, object: &mut Value) -> Option<Value> {
    if !resource.has_status() || resource.is("Node") {
        return None;
    }
    object.as_object_mut()?.remove("status")
}

/// The quality of service class that the author of a pod gives stays.
/// Upstream: `GetPodQOS` of `pkg/apis/core/v1/helper/qos`.
fn keep_class(pod: &mut Value, sent: Option<&Value>) {
    let class = sent.and_then(|status| status.get("qosClass"));
    if let Some(class) = class.filter(|class| class.as_str().is_some_and(|text| !text.is_empty())) {
        pod["status"]["qosClass"] = class.clone();
    }
}

/// Sets the label with the name of the namespace, which namespace selectors use.
pub(super) fn label_namespace(namespace: &mut Value) {
    let name = metadata::text(namespace, "name").to_owned();
    let labels = metadata::of(namespace)
        .entry("labels")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), Value::from(name));
    }
}

/// Sets the namespace of the request, or 400 if the body has another one.
pub(super) fn place(target: &Target, object: &mut Value) -> Result<(), Status> {
    let given = metadata::text(object, "namespace");
    if !target.resource().namespaced {
        metadata::of(object).remove("namespace");
        return Ok(());
    }
    if !given.is_empty() && given != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::of(object).insert(
        "namespace".to_owned(),
        Value::from(target.namespace.as_str()),
    );
    Ok(())
}
