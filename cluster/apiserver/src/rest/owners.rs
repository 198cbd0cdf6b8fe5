//! Removes duplicate owner references.
//!
//! Upstream is `dedupOwnerReferencesAndAddWarning` in `apiserver/pkg/endpoints/handlers`.

use serde_json::Value;

/// Drops equal references after the first one, and returns the warning about them. `when` is a part
/// of the warning's text.
pub(super) fn dedup(object: &mut Value, when: &str) -> Option<String> {
    let references = object["metadata"]["ownerReferences"]
        .as_array_mut()
        .filter(|references| references.len() > 1)?;
    let mut seen: Vec<Value> = Vec::with_capacity(references.len());
    let mut duplicates = Vec::new();
    for reference in references.drain(..) {
        if seen.contains(&reference) {
            duplicates.push(reference["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            seen.push(reference);
        }
    }
    *references = seen;
    let warning = |duplicates: &[String]| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject \
             such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    };
    (!duplicates.is_empty()).then(|| warning(&duplicates))
}

/// `when` for objects in request bodies.
pub(super) const SENT: &str = "";
/// `when` for results of patches.
pub(super) const PATCHED: &str = " after mutating admission happens";

#[cfg(test)]
mod tests {
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
}
