//! What the README says of the code is what the code says of itself.

use std::fmt::Write;
use std::path::Path;

/// The table of controllers between its two marks, made from the registry.
fn controllers_table() -> String {
    let mut table = "| controller | alias | what it does |\n|---|---|---|\n".to_owned();
    for controller in steersman_controllers::ALL {
        let aliases: Vec<String> = controller.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        writeln!(table, "| `{}` | {} | {} |", controller.name, aliases.join(", "), controller.summary).unwrap();
    }
    table
}

#[test]
fn the_readme_lists_the_controllers_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let mark = "<!-- controllers: kept true by a test -->\n";
    let (before, rest) = readme.split_once(mark).unwrap();
    let (found, after) = rest.split_once("<!-- end -->").unwrap();
    let wanted = controllers_table();
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(&path, format!("{before}{mark}{wanted}<!-- end -->{after}")).unwrap();
        return;
    }
    assert_eq!(found, wanted, "run this test with UPDATE_README=1 to mend it");
}

#[test]
fn the_tests_shown_in_the_guide_are_those_of_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let tests = std::fs::read_to_string(root.join("examples/website/tests/website.rs")).unwrap();
    let shown: Vec<&str> = guide.split("```rust\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert!(!shown.is_empty());
    for block in shown {
        assert!(tests.contains(block), "examples/website/tests/website.rs has no\n{block}");
    }
}
