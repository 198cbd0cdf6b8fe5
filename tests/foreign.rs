//! The table of scripts/foreign.sh: a test without a result is never a pass.

use crate::support::python;
use std::path::Path;
use std::process::Command;

/// Runs scripts/foreign.py on these results, which are texts of files by their path, and returns the new document.
fn table(document: &str, results: &[(&str, &str)]) -> Option<String> {
    let python = python("xml.etree.ElementTree")?;
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in results {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let file = folder.path().join("document.md");
    std::fs::write(&file, document).unwrap();
    let status = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/foreign.py"))
        .args([Path::new("table"), folder.path(), &file])
        .status();
    assert!(status.unwrap().success());
    Some(std::fs::read_to_string(file).unwrap())
}

const EMPTY: &str =
    "Before.\n<!-- suites: written by scripts/foreign.sh -->\n<!-- end -->\nAfter.\n";

#[test]
fn the_table_shows_tests_that_a_column_did_not_run() {
    let results = [
        // The second line of a test is that of a further run.
        (
            "embedded/e2e/results",
            "pass\tboth\nfail\tlost\nfail\tagain\npass\tagain\nfail\tnowhere\n",
        ),
        (
            "real/e2e/results",
            "pass\tboth\npass\tlost\npass\tagain\npass\tlate\nskip\tnowhere\n",
        ),
        (
            "real/e2e/tests",
            "again\nboth\nlate\nlost\nnever\nnowhere\n",
        ),
        ("real/kopf/results", "pass\tone\n"),
    ];
    let Some(document) = table(EMPTY, &results) else {
        return;
    };
    let specs = "conformance specs of Kubernetes, in five groups";
    let expected = format!(
        "Before.
<!-- suites: written by scripts/foreign.sh -->
| suite | tests | embedded cluster | real cluster | real cluster, Steersman as manager |
|---|---|---|---|---|
| {specs} | 6 | 2 of 6, 2 not run | 4 of 6, 1 not run |  |
| end-to-end tests of kopf | 1 |  | 1 of 1 |  |

Tests that pass on the real cluster only:

- {specs}: lost (embedded cluster)

Tests that did not run in a column:

- {specs}: late (embedded cluster)
- {specs}: never

Tests that pass in no column:

- {specs}: nowhere
<!-- end -->
After.
"
    );
    assert_eq!(document, expected);
}

#[test]
fn a_new_table_keeps_the_suites_that_did_not_run_again() {
    let first = [
        ("embedded/kr8s/results", "fail\tresources\n"),
        ("real/kr8s/results", "pass\tresources\n"),
        ("real/kopf/results", "pass\told\n"),
    ];
    let second = [
        ("embedded/kopf/results", "fail\tnew\n"),
        ("real/kopf/results", "pass\tnew\n"),
    ];
    let Some(document) = table(EMPTY, &first) else {
        return;
    };
    let document = table(&document, &second).unwrap();
    for line in [
        "| tests of kr8s | 1 | 0 of 1 | 1 of 1 |  |",
        "| end-to-end tests of kopf | 1 | 0 of 1 | 1 of 1 |  |",
        "- tests of kr8s: resources (embedded cluster)",
        "- end-to-end tests of kopf: new (embedded cluster)",
    ] {
        assert_eq!(document.matches(line).count(), 1, "{line}: {document}");
    }
    assert!(!document.contains("old"), "{document}");
}
