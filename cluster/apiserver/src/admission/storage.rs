//! The storage admission plugins: the default class of claims and, by the same rule, of Ingresses;
//! finalizers that protect objects while they are used; claims that may grow.
//!
//! Upstream: `DefaultStorageClass` in `plugin/pkg/admission/storage/storageclass/setdefault`,
//! `DefaultIngressClass` in `plugin/pkg/admission/network/defaultingressclass`,
//! `plugin/pkg/admission/storage/storageobjectinuseprotection`, and
//! `plugin/pkg/admission/storage/persistentvolume/resize`.

use serde_json::{Value, json};

use super::Admission;
use crate::Server;
use crate::kinds::Resource;
use crate::schema::quantity::Quantity;

/// Annotation of the default StorageClass, and its older form.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Older form of `spec.storageClassName`.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Annotation of the default IngressClass.
const DEFAULT_INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";
/// Older form of `spec.ingressClassName`.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

impl Admission {
    /// The finalizer that new objects of `resource` get.
    pub(super) fn protecting_finalizer(&self, resource: &Resource) -> Option<&'static str> {
        let finalizers = [
            (
                self.protected_claims,
                "PersistentVolumeClaim",
                "kubernetes.io/pvc-protection",
            ),
            (
                self.protected_volumes,
                "PersistentVolume",
                "kubernetes.io/pv-protection",
            ),
            (
                self.protected_classes,
                "VolumeAttributesClass",
                "kubernetes.io/vac-protection",
            ),
        ];
        let mut of_kind = finalizers
            .into_iter()
            .filter(|(_, kind, _)| resource.is(kind));
        of_kind.find_map(|(is_on, _, finalizer)| is_on.then_some(finalizer))
    }
}

/// Adds `finalizer` to a new object that lacks it.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let metadata = &mut object["metadata"];
    match metadata["finalizers"].as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|name| name == finalizer) => {}
        Some(finalizers) => finalizers.push(json!(finalizer)),
        None => metadata["finalizers"] = json!([finalizer]),
    }
}

/// The name of the newest class with one of these annotations, then of the first name.
fn default_class(classes: Vec<Value>, marks: &[&str]) -> Option<Value> {
    let is_default = |class: &Value| {
        let annotations = &class["metadata"]["annotations"];
        marks.iter().any(|mark| annotations[*mark] == "true")
    };
    let text = |class: &Value, field: &str| {
        let value = class["metadata"][field].as_str();
        value.unwrap_or_default().to_owned()
    };
    // Times have one format, so their order is the order of their texts.
    let rank = |class: &Value| {
        (
            std::cmp::Reverse(text(class, "creationTimestamp")),
            text(class, "name"),
        )
    };
    let class = classes.into_iter().filter(is_default).min_by_key(rank)?;
    Some(class["metadata"]["name"].clone())
}

impl Server {
    /// Gives a new claim without a class the default class, if there is one. Of several, the
    /// newest wins, then the first name.
    pub(super) fn set_default_class(&self, claim: &mut Value) {
        let has_class = !claim["spec"]["storageClassName"].is_null()
            || !claim["metadata"]["annotations"][CLASS].is_null();
        if has_class {
            return;
        }
        if let Some(class) = default_class(self.storage_classes(), &DEFAULT) {
            claim["spec"]["storageClassName"] = class;
        }
    }

    /// Likewise a new Ingress without a class.
    pub(super) fn set_default_ingress_class(&self, ingress: &mut Value) {
        let has_class = !ingress["spec"]["ingressClassName"].is_null()
            || !ingress["metadata"]["annotations"][INGRESS_CLASS].is_null();
        if has_class {
            return;
        }
        let entry = self
            .registry
            .find("networking.k8s.io", "v1", "ingressclasses")
            .expect("ingress classes are built in");
        let classes = entry.store.list(&self.revisions, "").objects;
        let classes = classes.iter().map(|class| class.to_value()).collect();
        if let Some(class) = default_class(classes, &[DEFAULT_INGRESS]) {
            ingress["spec"]["ingressClassName"] = class;
        }
    }

    /// Refuses a larger request, unless the class of the claim allows expansion.
    pub(super) fn check_resize(&self, claim: &Value, old: &Value) -> Result<(), &'static str> {
        const UNBOUND: &str = "Only bound persistent volume claims can be expanded";
        const FIXED: &str = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                             support resize";
        let size = |claim: &Value| {
            let text = &claim["spec"]["resources"]["requests"]["storage"];
            text.as_str().and_then(Quantity::parse)
        };
        if size(claim) <= size(old) {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            return Err(UNBOUND);
        }
        let name = claim["metadata"]["annotations"][CLASS]
            .as_str()
            .or_else(|| claim["spec"]["storageClassName"].as_str());
        let grows = |class: &Value| {
            class["metadata"]["name"].as_str() == name && class["allowVolumeExpansion"] == true
        };
        if self.storage_classes().iter().any(grows) {
            Ok(())
        } else {
            Err(FIXED)
        }
    }

    fn storage_classes(&self) -> Vec<Value> {
        let entry = self
            .registry
            .find("storage.k8s.io", "v1", "storageclasses")
            .expect("storage classes are built in");
        let classes = entry.store.list(&self.revisions, "").objects;
        classes.iter().map(|class| class.to_value()).collect()
    }
}
