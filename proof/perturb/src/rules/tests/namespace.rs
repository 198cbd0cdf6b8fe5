//! Removed namespaces.

use super::*;

#[test]
fn a_namespace_is_removed_after_its_content() {
    use ChangeKind::{Deleted, Updated};
    let shop = || json!({"metadata": {"name": "shop"}});
    let inside = json!({"metadata": {"name": "a", "namespace": "shop"}});
    let elsewhere = ("configmaps", object("a", json!({})));
    let full = || vec![("namespaces", shop()), ("configmaps", inside.clone())];
    check(
        EMPTY_NAMESPACE,
        [
            (
                "with content",
                full(),
                "",
                "namespaces",
                Deleted,
                shop(),
                true,
            ),
            (
                "gets a deletion timestamp",
                full(),
                "",
                "namespaces",
                Updated,
                terminating(shop()),
                false,
            ),
            (
                "empty",
                vec![("namespaces", shop()), elsewhere],
                "",
                "namespaces",
                Deleted,
                shop(),
                false,
            ),
        ],
    );
}
