//! A claim without a class in a cluster without a default class. The binder's words name neither the default nor the
//! classes that exist.

use std::sync::Arc;

use steersman_objects::{PersistentVolumeClaim, StorageClass};
use steersman_runtime::informer::Store;
use steersman_why::listed;

/// The lack of a default class for `claim`, and the person that can mark one. `None` if the claim names a class, also an
/// empty one, or a volume. A class that becomes the default is that of the claim, too.
pub(super) fn unclassified(
    claim: &PersistentVolumeClaim,
    classes: &Store<StorageClass>,
) -> Option<(String, String)> {
    if claim.has_class() || !claim.spec.volume_name.is_empty() {
        return None;
    }
    let names = names(classes);
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let exist = match names.len() {
        1 => "exists",
        _ => "exist",
    };
    let (lack, marks) = if names.is_empty() {
        (
            "; the cluster has no StorageClass".to_owned(),
            "a StorageClass with its provisioner, as the default",
        )
    } else {
        (
            format!(
                "; no StorageClass is the default ({} {exist})",
                listed(&names)
            ),
            "one StorageClass as the default: annotation storageclass.kubernetes.io/is-default-class",
        )
    };
    Some((lack, format!("administrator of the cluster ({marks})")))
}

/// The names of `classes`, sorted.
pub(super) fn names(classes: &Store<StorageClass>) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = classes
        .list()
        .iter()
        .map(|class| Arc::clone(&class.meta.name))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn a_claim_without_a_class_is_told_the_classes_that_exist() {
        let told = |spec: Value, classes: &[&str]| {
            let claim = json!({"metadata": {"namespace": "shop", "name": "data"}, "spec": spec});
            let claim = PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap();
            let classes = classes.iter().map(|name| {
                let class = json!({"metadata": {"name": name}, "provisioner": "ebs.csi.aws.com"});
                Arc::new(StorageClass::decode(class.to_string().as_bytes()).unwrap())
            });
            unclassified(&claim, &classes.collect())
        };
        let (message, who) = told(json!({}), &["gp3", "gp2"]).unwrap();
        assert_eq!(message, "; no StorageClass is the default (gp2, gp3 exist)");
        let (message, _) = told(json!({}), &["gp3"]).unwrap();
        assert_eq!(message, "; no StorageClass is the default (gp3 exists)");
        assert!(who.starts_with("administrator of the cluster (one StorageClass as the default"));
        let (message, who) = told(json!({}), &[]).unwrap();
        assert_eq!(message, "; the cluster has no StorageClass");
        assert!(who.contains("a StorageClass with its provisioner"));
        assert_eq!(told(json!({"storageClassName": ""}), &["gp2"]), None);
        assert_eq!(told(json!({"volumeName": "disk"}), &["gp2"]), None);
    }
}
