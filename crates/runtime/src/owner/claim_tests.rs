use serde_json::{Value, json};

use steersman_client::Category;
use steersman_objects::{CollectorFinalizers, OwnerReference, Owners, Pod, ReplicaSet};
use steersman_values::labels::Labels;

use super::*;

fn meta(namespace: &str, name: &str, uid: &str) -> Meta {
    Meta {
        namespace: namespace.into(),
        name: name.into(),
        uid: Uid::new(uid),
        resource_version: 1,
        generation: 1,
        created: None,
        deleted: None,
        labels: Labels::default(),
        owners: Owners::new(&[]),
        finalizers: CollectorFinalizers::default(),
    }
}

#[test]
fn reference_matches_by_uid_kind_name_and_namespace() {
    let owner = meta("shop", "web", "owner");
    // (why, candidate, is its controller)
    let cases = [
        (
            "all fields match",
            owned(meta("shop", "p", "pod"), "owner", true),
            true,
        ),
        (
            "not a controller",
            owned(meta("shop", "p", "pod"), "owner", false),
            false,
        ),
        (
            "another UID",
            owned(meta("shop", "p", "pod"), "other", true),
            false,
        ),
        (
            "another namespace",
            owned(meta("depot", "p", "pod"), "owner", true),
            false,
        ),
        ("an orphan", meta("shop", "p", "pod"), false),
    ];
    for (why, candidate, expected) in cases {
        assert_eq!(
            refers_to::<ReplicaSet>(&candidate, &owner),
            expected,
            "{why}"
        );
    }
    let candidate = owned(meta("shop", "p", "pod"), "owner", true);
    assert!(
        !refers_to::<ReplicaSet>(&candidate, &meta("shop", "renamed", "owner")),
        "another name"
    );
    assert!(!refers_to::<Pod>(&candidate, &owner), "another kind");
}

fn labelled(mut meta: Meta, app: &str) -> Meta {
    meta.labels = Labels::new([("app", app)]);
    meta
}

fn deleted(mut meta: Meta) -> Meta {
    meta.deleted = Some(jiff::Timestamp::UNIX_EPOCH.into());
    meta
}

fn owned(mut meta: Meta, owner: &str, controller: bool) -> Meta {
    meta.owners = Owners::new(&[OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: Uid::new(owner),
        controller,
        block_owner_deletion: true,
    }]);
    meta
}

#[test]
fn decide_follows_upstreams_claim_table() {
    let selector = Selector::parse(Some(
        &serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap(),
    ))
    .unwrap();
    let alive = || meta("shop", "web", "owner");
    let pod = || labelled(meta("shop", "web-1", "pod"), "web");
    let other = || labelled(meta("shop", "web-1", "pod"), "db");
    let ours = Claim::Keep { ours: true };
    let not_ours = Claim::Keep { ours: false };
    // (why, owner, candidate, claim)
    let cases = [
        (
            "controlled by another owner",
            alive(),
            owned(pod(), "stranger", true),
            not_ours,
        ),
        (
            "controlled by another owner, no match",
            alive(),
            owned(other(), "stranger", true),
            not_ours,
        ),
        ("ours", alive(), owned(pod(), "owner", true), ours),
        (
            "ours, owner being deleted",
            deleted(alive()),
            owned(pod(), "owner", true),
            ours,
        ),
        (
            "ours, being deleted",
            alive(),
            deleted(owned(pod(), "owner", true)),
            ours,
        ),
        (
            "no match any more",
            alive(),
            owned(other(), "owner", true),
            Claim::Release,
        ),
        (
            "no match any more, being deleted",
            alive(),
            deleted(owned(other(), "owner", true)),
            Claim::Release,
        ),
        (
            "no match any more, owner being deleted",
            deleted(alive()),
            owned(other(), "owner", true),
            not_ours,
        ),
        ("orphan that matches", alive(), pod(), Claim::Adopt),
        (
            "owned by us, but not as controller",
            alive(),
            owned(pod(), "owner", false),
            Claim::Adopt,
        ),
        ("orphan, no match", alive(), other(), not_ours),
        (
            "orphan, owner being deleted",
            deleted(alive()),
            pod(),
            not_ours,
        ),
        ("orphan being deleted", alive(), deleted(pod()), not_ours),
        (
            "orphan elsewhere",
            alive(),
            labelled(meta("depot", "web-1", "pod"), "web"),
            not_ours,
        ),
    ];
    for (why, owner, candidate, expected) in cases {
        assert_eq!(decide(&owner, &selector, &candidate), expected, "{why}");
    }
}

#[test]
fn patches_are_those_of_upstream_byte_for_byte() {
    let owner = meta("shop", "web", "o1");
    let pod = meta("shop", "web-1", "p1");
    assert_eq!(
        serde_json::to_string(&adoption_patch::<ReplicaSet>(&owner, &pod, None)).unwrap(),
        concat!(
            r#"{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"o1","#,
            r#""controller":true,"blockOwnerDeletion":true}],"uid":"p1"}}"#
        )
    );
    assert_eq!(
        serde_json::to_string(&release_patch(&owner, &pod, None)).unwrap(),
        r#"{"metadata":{"uid":"p1","ownerReferences":[{"$patch":"delete","uid":"o1"}]}}"#
    );
}

/// The last case of upstream's `TestFilterPodsByOwner`.
#[test]
fn filter_pods_by_owner() {
    let owner = meta("ns1", "web", "abc");
    let reference = |uid: &str, kind: &str, name: &str, controller: bool| {
        Owners::new(&[OwnerReference {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: name.into(),
            uid: Uid::new(uid),
            controller,
            block_owner_deletion: true,
        }])
    };
    let kind = "ReplicaSet";
    // (name, namespace, owners, whether it belongs to the owner)
    let cases = [
        ("a", "ns1", Owners::new(&[]), false),
        ("other-ns-orphan", "ns2", Owners::new(&[]), false),
        (
            "other-ns-owned",
            "ns2",
            reference("abc", kind, "web", true),
            false,
        ),
        ("c", "ns1", reference("abc", kind, "web", true), true),
        (
            "other-uid",
            "ns1",
            reference("other-uid", kind, "web", true),
            false,
        ),
        (
            "other-kind",
            "ns1",
            reference("abc", "OtherKind", "web", true),
            false,
        ),
        (
            "other-name",
            "ns1",
            reference("abc", kind, "otherName", true),
            false,
        ),
        (
            "non-controller",
            "ns1",
            reference("abc", kind, "web", false),
            false,
        ),
    ];
    for (name, namespace, owners, expected) in cases {
        let pod = Meta {
            owners,
            ..meta(namespace, name, "pod")
        };
        assert_eq!(refers_to::<ReplicaSet>(&pod, &owner), expected, "{name}");
    }
}

/// Upstream's `TestClaimPods`, with its case names. The selector matches `production`. The UID
/// `"owner"` is that of this controller.
#[test]
fn claim_pods() {
    let selector = Selector::parse(Some(
        &serde_json::from_value(json!({"matchLabels": {"app": "production"}})).unwrap(),
    ))
    .unwrap();
    let alive = || meta("default", "rc", "owner");
    let pod = |name: &str, app: &str, controller: Option<&str>| {
        let pod = labelled(meta("default", name, name), app);
        controller.map_or(pod.clone(), |uid| owned(pod, uid, true))
    };
    let elsewhere = |name: &str| labelled(meta("fakens", name, name), "production");
    let us = Some("owner");
    let them = Some("AAAAA");
    // (name, controller, pods, claimed, patches)
    type Case = (
        &'static str,
        Meta,
        Vec<Meta>,
        &'static [&'static str],
        usize,
    );
    let cases: [Case; 9] = [
        (
            "Claim pods with correct label",
            alive(),
            vec![
                pod("pod1", "production", None),
                pod("pod2", "testing", None),
            ],
            &["pod1"],
            1,
        ),
        (
            "Controller marked for deletion can not claim pods",
            deleted(alive()),
            vec![
                pod("pod1", "production", None),
                pod("pod2", "production", None),
            ],
            &[],
            0,
        ),
        (
            "Controller marked for deletion can not claim new pods",
            deleted(alive()),
            vec![
                pod("pod1", "production", us),
                pod("pod2", "production", None),
            ],
            &["pod1"],
            0,
        ),
        (
            "Controller can not claim pods owned by another controller",
            alive(),
            vec![
                pod("pod1", "production", us),
                pod("pod2", "production", them),
            ],
            &["pod1"],
            0,
        ),
        (
            "Controller releases claimed pods when selector doesn't match",
            alive(),
            vec![pod("pod1", "production", us), pod("pod2", "testing", us)],
            &["pod1"],
            1,
        ),
        (
            "Controller does not claim orphaned pods marked for deletion",
            alive(),
            vec![
                deleted(pod("pod1", "production", us)),
                deleted(pod("pod2", "production", None)),
            ],
            &["pod1"],
            0,
        ),
        (
            "Controller claims or release pods according to selector with finalizers",
            alive(),
            vec![
                pod("pod1", "production", us),
                pod("pod2", "testing", us),
                pod("pod3", "production", None),
            ],
            &["pod1", "pod3"],
            2,
        ),
        (
            "Controller does not claim pods of different namespace",
            alive(),
            vec![pod("pod1", "production", None), elsewhere("pod2")],
            &["pod1"],
            1,
        ),
        (
            "Cluster scoped controller claims pods of specified namespace",
            meta("", "rc", "owner"),
            vec![pod("pod1", "production", None), elsewhere("pod2")],
            &["pod1", "pod2"],
            2,
        ),
    ];
    for (name, controller, pods, claimed, patches) in cases {
        let claims: Vec<(&str, Claim)> = pods
            .iter()
            .map(|pod| (&*pod.name, decide(&controller, &selector, pod)))
            .collect();
        let is_ours = |claim: Claim| matches!(claim, Claim::Keep { ours: true } | Claim::Adopt);
        let found: Vec<&str> = claims
            .iter()
            .filter(|(_, claim)| is_ours(*claim))
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(found, claimed, "{name}");
        let patched = claims
            .iter()
            .filter(|(_, claim)| matches!(claim, Claim::Adopt | Claim::Release))
            .count();
        assert_eq!(patched, patches, "{name}");
    }
}

/// The cases of upstream's `TestGeneratePatchBytesForDelete` with one owner and no finalizer. Such
/// patches release pods.
#[test]
fn generate_patch_bytes_for_delete() {
    // (name, owner, dependent, patch)
    let cases = [
        (
            "check the structure of patch bytes",
            "ss1",
            "ss2",
            r#"{"metadata":{"uid":"ss2","ownerReferences":[{"$patch":"delete","uid":"ss1"}]}}"#,
        ),
        (
            "check if parent uid is escaped",
            r#"ss1"hello"#,
            "ss2",
            r#"{"metadata":{"uid":"ss2","ownerReferences":[{"$patch":"delete","uid":"ss1\"hello"}]}}"#,
        ),
        (
            "check if revision uid uid is escaped",
            "ss1",
            r#"ss2"hello"#,
            r#"{"metadata":{"uid":"ss2\"hello","ownerReferences":[{"$patch":"delete","uid":"ss1"}]}}"#,
        ),
    ];
    for (name, owner, dependent, expected) in cases {
        let owner = meta("shop", "web", owner);
        let dependent = meta("shop", "web-1", dependent);
        assert_eq!(
            serde_json::to_string(&release_patch(&owner, &dependent, None)).unwrap(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn patches_of_a_job_add_and_remove_its_finalizer() {
    let owner = meta("shop", "web", "o1");
    let pod = meta("shop", "web-1", "p1");
    let finalizer = Some("example.com/f");
    assert_eq!(
        serde_json::to_string(&adoption_patch::<ReplicaSet>(&owner, &pod, finalizer)).unwrap(),
        r#"{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"o1","controller":true,"blockOwnerDeletion":true}],"uid":"p1","finalizers":["example.com/f"]}}"#
    );
    assert_eq!(
        serde_json::to_string(&release_patch(&owner, &pod, finalizer)).unwrap(),
        r#"{"metadata":{"uid":"p1","ownerReferences":[{"$patch":"delete","uid":"o1"}],"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}"#
    );
}

#[test]
fn live_check_fails_for_a_replaced_or_terminating_owner() {
    let check = |live: Value| {
        let owner = meta("shop", "web", "o1");
        recheck_live::<ReplicaSet>(&owner, live.to_string().as_bytes())
            .map_err(|error| (error.to_string(), Category::of(&error)))
    };
    assert_eq!(
        check(json!({"metadata": {"name": "web", "uid": "o1", "resourceVersion": "7"}})),
        Ok(())
    );
    assert_eq!(
        check(json!({"metadata": {"name": "web", "uid": "o2"}})).unwrap_err(),
        (
            "can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid o2, wanted o1".to_owned(),
            Category::Decision,
        )
    );
    assert_eq!(
        check(json!({"metadata": {"name": "web", "uid": "o1", "deletionTimestamp": "2026-01-02T03:04:05Z"}})).unwrap_err(),
        (
            "shop/web has just been deleted at 2026-01-02 03:04:05 +0000 UTC".to_owned(),
            Category::Named(OWNER_DELETED),
        )
    );
}

#[test]
fn target_addresses_the_object_without_subresource() {
    let meta = meta("shop", "web-1", "p1");
    let Target {
        resource,
        namespace,
        name,
        subresource,
    } = Target::of::<Pod>(&meta);
    assert_eq!(
        (resource.plural.as_ref(), namespace, name, subresource),
        ("pods", Some("shop"), Some("web-1"), None)
    );
}
