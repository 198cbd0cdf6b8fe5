//! Checks `docs/parity.md`, the list of upstream's tests and their counterparts here.
//!
//! Each named test must exist, and each row without a test must have a note. A renamed test
//! therefore cannot leave an outdated name in the list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The root folders of module paths.
const ROOTS: [&str; 17] = [
    "controllers",
    "crates/cel/src",
    "crates/client/src",
    "crates/cloud/src",
    "crates/helpers/src",
    "crates/objects/src",
    "crates/options/src",
    "crates/pki/src",
    "crates/regexp/src",
    "crates/runtime/src",
    "crates/values/src",
    "cluster/apiserver/src",
    "cluster/apiserver/tests",
    "cluster/conformance/src",
    "cluster/nodes/src",
    "src",
    "tests",
];

/// The source of all modules, by path: `replicaset::sync` is `controllers/replicaset/sync.rs`.
/// Modules with one path in several roots are joined.
fn modules() -> BTreeMap<String, String> {
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    for root in ROOTS {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let source = std::fs::read_to_string(&path).unwrap();
                    let joined = modules.entry(module(&root, &path)).or_default();
                    joined.push_str(&source);
                }
            }
        }
    }
    modules
}

/// The module path of `file`, relative to its root.
fn module(root: &Path, file: &Path) -> String {
    let relative: PathBuf = file.strip_prefix(root).unwrap().with_extension("");
    let names = relative
        .iter()
        .map(|name| name.to_str().unwrap())
        .filter(|name| !["mod", "lib"].contains(name));
    names.collect::<Vec<_>>().join("::")
}

/// Whether the test `module::name` exists in the file of the module. Looks in the files of parent
/// modules too, because `tests` is often an inline module.
fn exists(modules: &BTreeMap<String, String>, test: &str) -> bool {
    let (mut module, name) = test.rsplit_once("::").unwrap_or_default();
    let has_test = |source: &String| {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let declared = |line: &str| {
            line.trim_start_matches("async ")
                .strip_prefix("fn ")
                .is_some_and(|f| f.starts_with(&format!("{name}(")))
        };
        let attributes = |at: usize| {
            lines[..at]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("#["))
        };
        (0..lines.len()).any(|at| {
            declared(lines[at])
                && attributes(at)
                    .any(|a| a.starts_with("#[test]") || a.starts_with("#[tokio::test"))
        })
    };
    loop {
        if modules.get(module).is_some_and(has_test) {
            return true;
        }
        let Some((parent, _)) = module.rsplit_once("::") else {
            return false;
        };
        module = parent;
    }
}

/// The rows of the tables: upstream's test, our tests, and the note.
fn rows(text: &str) -> impl Iterator<Item = (&str, Vec<&str>, &str)> {
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| Test") || line.starts_with("| Benchmark"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [upstream, ours, note] = cells[..] else {
            panic!("a row has three cells: {line}")
        };
        (upstream, ours.split('`').skip(1).step_by(2).collect(), note)
    })
}

#[test]
fn listed_tests_exist_and_gaps_are_explained() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parity.md");
    let text = std::fs::read_to_string(path).unwrap();
    let modules = modules();
    let missing: Vec<&str> = rows(&text)
        .flat_map(|(_, ours, _)| ours)
        .filter(|test| !exists(&modules, test))
        .collect();
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
    let unexplained: Vec<&str> = rows(&text)
        .filter(|(_, ours, note)| ours.is_empty() && note.is_empty())
        .map(|(upstream, ..)| upstream)
        .collect();
    assert!(
        unexplained.is_empty(),
        "rows need a test or a note: {unexplained:?}"
    );
    assert!(rows(&text).count() > 100, "docs/parity.md has its tables");
}

#[test]
fn a_missing_test_is_detected() {
    let modules = modules();
    assert!(exists(&modules, "parity::a_missing_test_is_detected"));
    assert!(
        !exists(&modules, "parity::a_missing_test"),
        "a prefix of a name does not count"
    );
    assert!(
        !exists(&modules, "parity::rows"),
        "a function without a test attribute does not count"
    );
    assert!(
        !exists(&modules, "replicaset::a_missing_test_is_detected"),
        "a test of another module does not count"
    );
}
