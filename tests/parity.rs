//! The list of upstream's tests in `docs/parity.md` says of ours what is true.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where modules have their roots.
const ROOTS: [&str; 5] = [
    "controllers",
    "crates/runtime/src",
    "crates/devcluster/src",
    "src",
    "tests",
];

/// The source of every module by its path: `replicaset::pods` is `controllers/replicaset/pods.rs`.
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

fn module(root: &Path, file: &Path) -> String {
    let relative: PathBuf = file.strip_prefix(root).unwrap().with_extension("");
    let names = relative
        .iter()
        .map(|name| name.to_str().unwrap())
        .filter(|name| *name != "mod");
    names.collect::<Vec<_>>().join("::")
}

/// Whether the test of this path is there: in the file of its module, or in that of a module around
/// it.
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

/// One row of a table: the test upstream, ours, and the note.
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
fn every_test_in_the_list_is_there_and_every_gap_explained() {
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
        "neither test nor reason: {unexplained:?}"
    );
    assert!(rows(&text).count() > 100, "the list is there");
}

#[test]
fn a_test_that_is_not_there_is_missed() {
    let modules = modules();
    assert!(exists(
        &modules,
        "parity::a_test_that_is_not_there_is_missed"
    ));
    assert!(
        !exists(&modules, "parity::a_test_that_is_not"),
        "a beginning of a name"
    );
    assert!(
        !exists(&modules, "parity::rows"),
        "a function that is no test"
    );
    assert!(
        !exists(&modules, "replicaset::a_test_that_is_not_there_is_missed"),
        "another module"
    );
}
