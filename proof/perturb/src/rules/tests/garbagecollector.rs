//! Collected objects.

use super::*;

#[test]
fn a_dependent_of_a_live_owner_is_not_collected() {
    use ChangeKind::{Deleted, Updated};
    let of = |owner: &str| owned(object("b", json!({})), "ConfigMap", owner);
    let world = |owner: Value| vec![("configmaps", owner), ("configmaps", of("a"))];
    let a = || object("a", json!({}));
    check(
        LIVE_OWNER,
        [
            (
                "is removed",
                world(a()),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                true,
            ),
            (
                "gets a deletion timestamp",
                world(a()),
                COLLECTOR,
                "configmaps",
                Updated,
                terminating(of("a")),
                true,
            ),
            (
                "loses a finalizer",
                world(a()),
                COLLECTOR,
                "configmaps",
                Updated,
                of("a"),
                false,
            ),
            (
                "its owner is terminating",
                world(terminating(a())),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
            (
                "its owner is gone",
                vec![("configmaps", of("a"))],
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
            (
                "another object has the name of the owner",
                world(with(a(), "/metadata/uid", json!("z"))),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
            (
                "by a user",
                world(a()),
                "kubectl",
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
        ],
    );
}

#[test]
fn foreground_deletion_removes_an_owner_after_its_dependents() {
    use ChangeKind::{Deleted, Updated};
    let waiting = || {
        with(
            terminating(object("a", json!({}))),
            "/metadata/finalizers",
            json!(["foregroundDeletion"]),
        )
    };
    let held = || {
        with(
            waiting(),
            "/metadata/finalizers",
            json!(["foregroundDeletion", "example.com/hold"]),
        )
    };
    let without = || {
        with(
            terminating(object("a", json!({}))),
            "/metadata/finalizers",
            json!(["example.com/hold"]),
        )
    };
    let of = |blocks: bool| {
        with(
            owned(object("b", json!({})), "ConfigMap", "a"),
            "/metadata/ownerReferences/0/blockOwnerDeletion",
            json!(blocks),
        )
    };
    let world =
        |owner: Value, blocks: bool| vec![("configmaps", owner), ("configmaps", of(blocks))];
    check(
        FOREGROUND,
        [
            (
                "is removed",
                world(waiting(), true),
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                true,
            ),
            (
                "loses the finalizer foregroundDeletion",
                world(held(), true),
                COLLECTOR,
                "configmaps",
                Updated,
                without(),
                true,
            ),
            (
                "loses another finalizer",
                world(held(), true),
                COLLECTOR,
                "configmaps",
                Updated,
                waiting(),
                false,
            ),
            (
                "its dependent does not block",
                world(waiting(), false),
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
            (
                "its dependents are gone",
                vec![("configmaps", waiting())],
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
            (
                "has only another finalizer",
                world(without(), true),
                COLLECTOR,
                "configmaps",
                Deleted,
                without(),
                false,
            ),
            (
                "by a user",
                world(waiting(), true),
                "kubectl",
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
        ],
    );
}
