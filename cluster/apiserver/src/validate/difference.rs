//! The differences that errors about immutable specs show.

use serde_json::Value;

use super::errors::at;

/// The top-level fields that differ. Upstream shows a longer diff of the whole spec.
pub(super) fn difference(old: &Value, new: &Value) -> String {
    let names = |spec: &Value| {
        spec.as_object()
            .map(|fields| fields.keys().cloned().collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let mut all = names(old);
    all.extend(names(new));
    all.sort_unstable();
    all.dedup();
    let changed = all.iter().filter(|name| at(old, name) != at(new, name));
    changed
        .map(|name| {
            format!(
                "- {name:?}: {}\n+ {name:?}: {}\n",
                at(old, name),
                at(new, name)
            )
        })
        .collect()
}
