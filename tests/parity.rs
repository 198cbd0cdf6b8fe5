//! The list of upstream's tests in `docs/parity.md` refers to existing tests, and explains each
//! gap.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The root folders of modules.
const ROOTS: [&str; 5] = [
    "controllers",
    "crates/runtime/src",
    "crates/apiserver/src",
    "src",
    "tests",
];

/// The source of all modules, by path: `replicaset::pods` is `controllers/replicaset/pods.rs`.
fn modules() -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    for root in ROOTS {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    modules.insert(
                        module(&root, &path),
                        std::fs::read_to_string(&path).unwrap(),
                    );
                }
            }
        }
    }
    modules
}

/// The module path of a file.
fn module(root: &Path, file: &Path) -> String {
    let relative: PathBuf = file.strip_prefix(root).unwrap().with_extension("");
    let names = relative
        .iter()
        .map(|name| name.to_str().unwrap())
        .filter(|name| *name != "mod");
    names.collect::<Vec<_>>().join("::")
}

/// Whether the test `module::name` exists, in the file of the module or of one of its parents.
fn exists(modules: &BTreeMap<String, String>, test: &str) -> bool {
    let (mut module, name) = test.rsplit_once("::").unwrap_or_default();
    let is_test = |source: &String| {
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
        if modules.get(module).is_some_and(is_test) {
            return true;
        }
        let Some((around, _)) = module.rsplit_once("::") else {
            return false;
        };
        module = around;
    }
}

/// The rows of the tables: upstream's test, our tests, note.
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
    assert!(missing.is_empty(), "not in the sources: {missing:#?}");
    let unexplained: Vec<&str> = rows(&text)
        .filter(|(_, ours, note)| ours.is_empty() && note.is_empty())
        .map(|(upstream, ..)| upstream)
        .collect();
    assert!(
        unexplained.is_empty(),
        "neither test nor note: {unexplained:?}"
    );
    assert!(rows(&text).count() > 100, "the tables are found");
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
