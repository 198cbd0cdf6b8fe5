//! Checks `parity.yaml`, the list of upstream's tests and their counterparts here, and makes
//! `docs/parity.md` from it.
//!
//! Each named test must exist, and each row without a test must have a note. A renamed test
//! therefore cannot leave an outdated name in the list.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

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

/// All of `parity.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parity {
    introduction: String,
    sections: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    title: String,
    parts: Vec<Part>,
}

/// A paragraph, mostly the names of upstream's files, and a table of their tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    text: String,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Upstream's test.
    upstream: String,
    /// The tests here, by module path.
    ours: Vec<String>,
    #[serde(default)]
    note: String,
}

impl Parity {
    fn read() -> Self {
        serde_saphyr::from_str(include_str!("parity.yaml")).unwrap()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        parts.flat_map(|part| &part.rows)
    }

    /// `docs/parity.md`.
    fn page(&self) -> String {
        let mut page = format!("# Parity with upstream's tests\n\n{}", self.introduction);
        for section in &self.sections {
            write!(page, "\n## {}\n", section.title).unwrap();
            for part in &section.parts {
                write!(page, "\n{}", part.text).unwrap();
                if !part.rows.is_empty() {
                    page.push_str("\n| upstream | ours | note |\n|---|---|---|\n");
                }
                for row in &part.rows {
                    let tests: Vec<String> =
                        row.ours.iter().map(|test| format!("`{test}`")).collect();
                    let tests = if tests.is_empty() {
                        "—".to_owned()
                    } else {
                        tests.join(", ")
                    };
                    let row = format!("| {} | {tests} | {}", row.upstream, row.note);
                    writeln!(page, "{} |", row.trim_end()).unwrap();
                }
            }
        }
        page
    }
}

#[test]
fn listed_tests_exist_and_gaps_are_explained() {
    let parity = Parity::read();
    let modules = modules();
    let missing: Vec<&String> = parity
        .rows()
        .flat_map(|row| &row.ours)
        .filter(|test| !exists(&modules, test))
        .collect();
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
    let unexplained: Vec<&str> = parity
        .rows()
        .filter(|row| row.ours.is_empty() && row.note.is_empty())
        .map(|row| row.upstream.as_str())
        .collect();
    assert!(
        unexplained.is_empty(),
        "rows need a test or a note: {unexplained:?}"
    );
    assert!(parity.rows().count() > 1000, "parity.yaml has its rows");
}

#[test]
fn the_page_is_made_from_the_data() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parity.md");
    let page = Parity::read().page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page,
        "run this test with UPDATE_DOCS=1 to update docs/parity.md"
    );
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
