//! Removes duplicate owner references.
//!
//! Upstream is `dedupOwnerReferencesAndAddWarning` in `apiserver/pkg/endpoints/handlers`.

use std::collections::HashSet;
use std::hash::Hash;

use serde_json::Value;

/// Drops equal references after the first one, and returns the warning about them. `when` is a part
/// of the warning's text.
pub(super) fn dedup(object: &mut Value, when: &str) -> Option<String> {
    let references = object["metadata"]["ownerReferences"]
        .as_array_mut()
        .filter(|references| references.len() > 1)?;
    let mut repeats = repeats(references).into_iter();
    let mut duplicates = Vec::new();
    references.retain(|reference| {
        let repeats = repeats.next().unwrap_or_default();
        if repeats {
            duplicates.push(reference["uid"].as_str().unwrap_or_default().to_owned());
        }
        !repeats
    });
    let warning = |duplicates: &[String]| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject \
             such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    };
    (!duplicates.is_empty()).then(|| warning(&duplicates))
}

/// Whether each item equals an earlier one. An object can have thousands of owners, so the work grows
/// with their number, not with its square.
fn repeats<T: Eq + Hash>(items: &[T]) -> Vec<bool> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().map(|item| !seen.insert(item)).collect()
}

/// `when` for objects in request bodies.
pub(super) const SENT: &str = "";
/// `when` for results of patches.
pub(super) const PATCHED: &str = " after mutating admission happens";

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;
    use serde_json::json;

    #[test]
    fn only_equal_references_are_dropped() {
        let owner = |uid: &str, controller: bool| json!({"name": "o", "uid": uid, "controller": controller});
        let mut object = json!({"metadata": {"ownerReferences": [owner("u", false), owner("v", false), owner("u", false), owner("u", true)]}});
        let warning = dedup(&mut object, PATCHED).unwrap();
        assert!(
            warning.starts_with(".metadata.ownerReferences contains duplicate entries after mutating admission happens; API")
        );
        assert!(
            warning.ends_with("duplicate UID(s) observed: u"),
            "{warning}"
        );
        let left = json!([owner("u", false), owner("v", false), owner("u", true)]);
        assert_eq!(object["metadata"]["ownerReferences"], left);
        assert_eq!(dedup(&mut object, SENT), None);
        assert_eq!(dedup(&mut json!({"metadata": {}}), SENT), None);
    }

    /// An item that counts its comparisons.
    struct Counted<'a>(usize, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn thousands_of_references_are_compared_a_few_times_each() {
        let compared = Cell::new(0);
        let items: Vec<_> = (0..8000).map(|n| Counted(n % 4000, &compared)).collect();
        let found = repeats(&items);
        assert_eq!(found.iter().filter(|repeats| **repeats).count(), 4000);
        assert!(compared.get() < 3 * items.len(), "{}", compared.get());
    }
}
