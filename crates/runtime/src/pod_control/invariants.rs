//! The invariant of deletions by all owners of pods.

use steersman_client::Violation;
use steersman_objects::{Object, Pod, Uid};

/// The invariant of this file.
pub const FOREIGN_POD: &str = "foreign_pod";

/// `foreign_pod`: an owner deletes no pod that another object controls.
///
/// The owner may have adopted an orphan in this sync, and the cached pod then has no controller yet.
pub fn not_foreign(pod: &Pod, owner: &Uid) -> Result<(), Violation> {
    let controller = pod.meta.controller();
    let holds = controller.is_none_or(|controller| controller.uid == *owner);
    Violation::unless(holds, FOREIGN_POD, || {
        let controller = controller.map(|controller| &*controller.name);
        let controller = controller.unwrap_or_default();
        format!(
            "delete the pod {} of {controller}, as owner {owner}",
            pod.key()
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_pods_of_the_owner_and_orphans_may_be_deleted() {
        let reference = |uid: &str, is_controller: bool| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": is_controller});
        // (why, owner references, allowed)
        let cases: [(&str, Value, bool); 5] = [
            ("own", json!([reference("a", true)]), true),
            ("adopted in this sync", json!([]), true),
            (
                "only owned by another object",
                json!([reference("b", false)]),
                true,
            ),
            (
                "own, and owned by another object",
                json!([reference("b", false), reference("a", true)]),
                true,
            ),
            (
                "controlled by another object",
                json!([reference("b", true)]),
                false,
            ),
        ];
        for (why, owners, allowed) in cases {
            let metadata = json!({"name": "web-1", "namespace": "default", "uid": "p", "ownerReferences": owners});
            let pod = Pod::decode(json!({"metadata": metadata}).to_string().as_bytes()).unwrap();
            let checked = not_foreign(&pod, &Uid::new("a"));
            assert_eq!(checked.is_ok(), allowed, "{why}: {checked:?}");
        }
    }
}
