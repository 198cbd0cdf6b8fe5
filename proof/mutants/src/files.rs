//! The files with decisions, and the copy of the workspace that gets the switches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of the controllers, relative to the root of the workspace.
pub(crate) const CONTROLLERS: &str = "controllers";

/// Files without decisions, and folders of such files: wiring of events, texts, checks, numbers and tests.
const OTHERS: &[&str] = &[
    "error",
    "explain",
    "graph_tests",
    "handlers",
    "invariants",
    "metrics",
    "testing",
    "tests",
    "why",
];

/// Whether a file of a controller only decides: it waits for nothing and builds no controller. `file` is relative to the
/// folder of the controllers.
fn is_decision(file: &str, text: &str) -> bool {
    let is_other = |part: &str| OTHERS.contains(&part.trim_end_matches(".rs"));
    let is_io = [".await", "async fn", "ControllerContext"]
        .iter()
        .any(|mark| text.contains(mark));
    file.contains('/') && !file.split('/').any(is_other) && !is_io
}

/// The files with decisions and their texts, below the root of the workspace.
pub(crate) fn decisions(root: &Path) -> Result<BTreeMap<String, String>> {
    let folder = root.join(CONTROLLERS);
    let mut decisions = BTreeMap::new();
    for path in files(&folder)? {
        let name = path.to_string_lossy().into_owned();
        if !name.ends_with(".rs") {
            continue;
        }
        let text = std::fs::read_to_string(folder.join(&path))?;
        if is_decision(&name, &text) {
            decisions.insert(name, text);
        }
    }
    Ok(decisions)
}

/// All files below `folder`, relative to it, without results of builds and tools.
fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    const SKIPPED: &[&str] = &["target", ".git", ".venv", "node_modules", "__pycache__"];
    let mut found = BTreeSet::new();
    let mut open = vec![PathBuf::new()];
    while let Some(parent) = open.pop() {
        let entries = std::fs::read_dir(folder.join(&parent));
        for entry in entries.with_context(|| format!("{}", folder.join(&parent).display()))? {
            let entry = entry?;
            let path = parent.join(entry.file_name());
            if SKIPPED.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if entry.path().is_dir() {
                open.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

/// Makes `copy` equal to the workspace at `root`, with other texts for the files in `changed`. Equal files are not
/// written, so that Cargo builds only crates with changes.
pub(crate) fn copy(root: &Path, copy: &Path, changed: &BTreeMap<PathBuf, String>) -> Result<()> {
    std::fs::create_dir_all(copy)?;
    let mut wanted = files(root)?;
    wanted.extend(changed.keys().cloned());
    for path in files(copy)?.difference(&wanted) {
        std::fs::remove_file(copy.join(path))?;
    }
    for path in &wanted {
        let content = match changed.get(path) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(root.join(path))?,
        };
        let target = copy.join(path);
        if std::fs::read(&target).is_ok_and(|found| found == content) {
            continue;
        }
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        // Keeps the permission to execute scripts.
        if !changed.contains_key(path) {
            std::fs::copy(root.join(path), &target)?;
        } else {
            std::fs::write(&target, content)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_decisions_are_told_by_name_and_content() {
        // (file, text, is a file with decisions)
        let cases = [
            ("deployment/limits.rs", "fn max_surge() {}", true),
            ("job/backoff/mod.rs", "fn delay() {}", true),
            ("deployment/sync.rs", "client.get().await", false),
            (
                "deployment/mod.rs",
                "fn init(ctx: &ControllerContext)",
                false,
            ),
            ("deployment/explain.rs", "fn why() {}", false),
            ("job/tests/model.rs", "fn jobs() {}", false),
            ("testing/pods.rs", "fn pods() {}", false),
            ("lib.rs", "mod deployment;", false),
        ];
        for (file, text, expected) in cases {
            assert_eq!(is_decision(file, text), expected, "{file}");
        }
    }

    #[test]
    fn a_copy_has_changed_texts_and_no_removed_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let target = folder.path().join("copy");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::write(root.join("a/one"), "1").unwrap();
        std::fs::write(root.join("two"), "2").unwrap();
        let changed = BTreeMap::from([(PathBuf::from("two"), "3".to_owned())]);
        copy(&root, &target, &changed).unwrap();
        let written = std::fs::metadata(target.join("two")).unwrap().modified();
        std::fs::remove_file(root.join("a/one")).unwrap();
        copy(&root, &target, &changed).unwrap();
        assert_eq!(files(&target).unwrap(), BTreeSet::from(["two".into()]));
        assert_eq!(std::fs::read_to_string(target.join("two")).unwrap(), "3");
        let again = std::fs::metadata(target.join("two")).unwrap().modified();
        assert_eq!(written.unwrap(), again.unwrap());
    }
}
