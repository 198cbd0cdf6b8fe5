//! The cached view of a StorageClass.
//!
//! Upstream: `k8s.io/api/storage/v1`.

use steersman_values::intern::Sym;
use steersman_values::resource::STORAGE_CLASSES;

use crate::view;

view! {
    /// A class of volumes.
    pub struct StorageClass: STORAGE_CLASSES, annotations: StorageClassAnnotations {
        /// Name of the CSI driver or plugin that provisions volumes.
        pub provisioner: Sym,
        /// Reclaim policy of its volumes.
        pub reclaim_policy: Option<Sym>,
        /// `Immediate` or `WaitForFirstConsumer`.
        pub volume_binding_mode: Option<Sym>,
        /// Whether claims may grow.
        pub allow_volume_expansion: bool,
        /// Mount options of its volumes.
        pub mount_options: Vec<Box<str>>,
    }

    /// Annotations of a StorageClass; empty when unset.
    pub struct StorageClassAnnotations {
        /// `true` for the default class.
        #[serde(rename = "storageclass.kubernetes.io/is-default-class")]
        pub is_default: Sym,
        /// Older form of the same.
        #[serde(rename = "storageclass.beta.kubernetes.io/is-default-class")]
        pub was_default: Sym,
    }
}

impl StorageClass {
    /// Whether claims without a class get this one. Upstream: `IsDefaultAnnotation`.
    pub fn is_default(&self) -> bool {
        self.annotations.is_default == "true" || self.annotations.was_default == "true"
    }

    /// Whether volumes wait for the first pod of their claim.
    pub fn waits_for_pod(&self) -> bool {
        let mode = self.volume_binding_mode.as_deref();
        mode == Some("WaitForFirstConsumer")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn decoded(annotations: Value) -> StorageClass {
        let class = json!({
            "metadata": {"name": "gold", "annotations": annotations}, "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer", "mountOptions": ["ro"],
        });
        StorageClass::decode(class.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_class_is_decoded() {
        let class = decoded(Value::Null);
        assert_eq!(class.provisioner, "csi.example.com");
        assert!(class.waits_for_pod() && !class.is_default());
        assert_eq!(class.mount_options, [Box::from("ro")]);
    }

    #[test]
    fn the_exact_text_true_makes_a_class_the_default() {
        // (annotation, value, is the default)
        let cases = [
            ("storageclass.kubernetes.io/is-default-class", "true", true),
            (
                "storageclass.beta.kubernetes.io/is-default-class",
                "true",
                true,
            ),
            ("storageclass.kubernetes.io/is-default-class", "True", false),
            (
                "storageclass.kubernetes.io/is-default-class",
                "false",
                false,
            ),
        ];
        for (key, value, is_default) in cases {
            assert_eq!(
                decoded(json!({key: value})).is_default(),
                is_default,
                "{key}: {value}"
            );
        }
    }
}
