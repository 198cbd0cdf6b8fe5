//! README.md and docs/ agree with the code, and their links point to existing files and headings.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Tests run in parallel, and several may write one page.
static PAGES: Mutex<()> = Mutex::new(());

/// Asserts that the part of `page` after `mark` is `wanted`, up to the mark `end`. If `UPDATE_DOCS`
/// is set, writes it instead.
pub(crate) fn keep_part(page: &str, mark: &str, wanted: &str) {
    let _pages = PAGES.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let mark = format!("<!-- {mark}: kept true by a test -->\n");
    let (before, rest) = text.split_once(&mark).unwrap();
    let (found, after) = rest.split_once("<!-- end -->").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{mark}{wanted}<!-- end -->{after}")).unwrap();
        return;
    }
    assert_eq!(
        found, wanted,
        "run this test with UPDATE_DOCS=1 to update {page}"
    );
}

/// The table of controllers in the reference, rendered from the registry.
fn controllers_table() -> String {
    let mut table = "| controller | alias | purpose |\n|---|---|---|\n".to_owned();
    for controller in steersman_controllers::ALL {
        let aliases: Vec<String> = controller
            .aliases
            .iter()
            .map(|alias| format!("`{alias}`"))
            .collect();
        writeln!(
            table,
            "| `{}` | {} | {} |",
            controller.name,
            aliases.join(", "),
            controller.summary
        )
        .unwrap();
    }
    table
}

#[test]
fn the_reference_lists_all_controllers() {
    keep_part("docs/reference.md", "controllers", &controllers_table());
}

/// The rest of each line after `start`, in the sources below a folder.
fn after(start: &str, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            after(start, &path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests have names of their own.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.extend(code.split(start).skip(1).map(str::to_owned));
        }
    }
}

#[test]
fn the_guide_of_operators_has_all_categories_of_errors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["controllers", "crates", "src"] {
        after("Decision(\"", &root.join(folder), &mut found);
    }
    let guide = std::fs::read_to_string(root.join("docs/operating.md")).unwrap();
    let names = found.iter().filter_map(|rest| rest.split('"').next());
    let missing: Vec<&str> = names
        .filter(|name| !guide.contains(&format!("`{name}`")))
        .collect();
    assert!(
        found.len() > 5 && missing.is_empty(),
        "{missing:?} of {found:?}"
    );
}

#[test]
fn the_readme_has_at_most_130_lines() {
    let readme = include_str!("../README.md");
    assert!(readme.lines().count() <= 130, "move details to docs/");
}

#[test]
fn the_tests_in_the_guide_equal_those_of_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let tests = std::fs::read_to_string(root.join("examples/website/tests/website.rs")).unwrap();
    let shown: Vec<&str> = guide
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    assert!(!shown.is_empty());
    for block in shown {
        assert!(
            tests.contains(block),
            "examples/website/tests/website.rs has no\n{block}"
        );
    }
}

/// The Markdown files in `folder` and its subfolders.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(pages_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

/// The lines of a page outside of code blocks.
fn prose(page: &str) -> Vec<&str> {
    let mut fenced = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence && !line.starts_with("    ")
    };
    page.lines().filter(is_prose).collect()
}

/// The targets of links and images, `[text](target)`.
fn targets<'a>(prose: &[&'a str]) -> Vec<&'a str> {
    prose
        .iter()
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect()
}

/// The anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn has_heading(page: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(page).unwrap();
    prose(&text)
        .iter()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor(line.trim_start_matches('#')) == name)
}

#[test]
fn relative_links_point_to_existing_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "charts/steersman/README.md",
    ]
    .map(|page| root.join(page))
    .to_vec();
    pages.extend(pages_in(&root.join("docs")));
    let mut broken = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        for link in targets(&prose(&text))
            .into_iter()
            .filter(|link| !link.contains("://"))
        {
            let (file, heading) = link
                .split_once('#')
                .map_or((link, None), |(file, heading)| (file, Some(heading)));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            if !target.exists() || heading.is_some_and(|heading| !has_heading(&target, heading)) {
                broken.push(format!(
                    "{}: {link}",
                    page.strip_prefix(root).unwrap().display()
                ));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}
