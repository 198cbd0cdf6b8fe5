//! The modules of each crate depend on each other in one direction.
//!
//! The check compares siblings: the children of one module, each with its whole subtree. Siblings
//! that depend on each other form a cycle, and are hard to read and to split apart. A parent and
//! its child may use each other. The parser is small: it reads names and paths, not types. It also counts
//! statements that take a tuple apart.

mod modules;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use modules::{ModulePath, Modules};

/// The files at the roots of all libraries and programs of the workspace, relative to `workspace`.
/// The members come from `Cargo.toml`, so that the test covers a new crate from its first commit.
fn crate_roots(workspace: &Path) -> Vec<String> {
    let manifest = std::fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    let members = manifest
        .lines()
        .find_map(|line| line.strip_prefix("members = ["))
        .expect("Cargo.toml lists the members in one line");
    let mut folders = vec![String::new()];
    for member in members.split('"').skip(1).step_by(2) {
        match member.strip_suffix("/*") {
            Some(parent) => {
                let entries = std::fs::read_dir(workspace.join(parent)).unwrap();
                let folder = |entry: std::io::Result<std::fs::DirEntry>| {
                    let entry = entry.unwrap();
                    let name = entry.file_name().into_string().unwrap();
                    let is_folder = entry.path().is_dir();
                    is_folder.then(|| format!("{parent}/{name}/"))
                };
                folders.extend(entries.filter_map(folder));
            }
            None => folders.push(format!("{member}/")),
        }
    }
    folders.sort();
    let mut roots = Vec::new();
    for folder in folders {
        // The controllers have their folders beside `lib.rs`.
        let files = ["src/lib.rs", "src/main.rs", "lib.rs"].map(|file| format!("{folder}{file}"));
        let before = roots.len();
        roots.extend(
            files
                .into_iter()
                .filter(|file| workspace.join(file).is_file()),
        );
        assert!(roots.len() > before, "{folder:?} has no root of a crate");
    }
    roots
}

/// Children of one module that depend on each other, with the references between them.
#[derive(Debug)]
struct Cycle {
    parent: String,
    children: BTreeSet<String>,
    references: Vec<String>,
}

/// References between the subtrees of siblings, keyed by the two siblings: user and used module.
type Siblings = BTreeMap<(String, String), Vec<String>>;

/// Finds the cycles in the references of one crate.
fn cycles(references: &BTreeSet<(ModulePath, ModulePath)>) -> Vec<Cycle> {
    let mut families: BTreeMap<ModulePath, Siblings> = BTreeMap::new();
    for (from, to) in references {
        let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        // A parent and its child may use each other.
        if let Some(one) = from.get(shared)
            && let Some(other) = to.get(shared)
        {
            let family = families.entry(from[..shared].to_vec()).or_default();
            let reference = format!("{} -> {}", from.join("::"), to.join("::"));
            family
                .entry((one.clone(), other.clone()))
                .or_default()
                .push(reference);
        }
    }
    families
        .iter()
        .flat_map(|(parent, siblings)| cycles_of(&parent.join("::"), siblings))
        .collect()
}

/// Finds the cycles among the children of `parent`: the groups whose members all reach each other.
fn cycles_of(parent: &str, siblings: &Siblings) -> Vec<Cycle> {
    let reachable = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut pending = vec![from.to_owned()];
        while let Some(next) = pending.pop() {
            let used = siblings
                .keys()
                .filter(|(one, _)| *one == next)
                .map(|(_, other)| other);
            pending.extend(
                used.filter(|other| seen.insert((*other).clone()))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
        }
        seen
    };
    let all: BTreeSet<&String> = siblings
        .keys()
        .flat_map(|(one, other)| [one, other])
        .collect();
    let reachable: BTreeMap<&String, BTreeSet<String>> =
        all.iter().map(|name| (*name, reachable(name))).collect();
    let groups: BTreeSet<BTreeSet<String>> = all
        .iter()
        .map(|name| {
            reachable[name]
                .iter()
                .filter(|other| reachable[other].contains(*name))
                .cloned()
                .collect()
        })
        .filter(|group: &BTreeSet<String>| group.len() > 1)
        .collect();
    let cycle = |children: BTreeSet<String>| {
        let inside = siblings
            .iter()
            .filter(|((one, other), _)| children.contains(one) && children.contains(other));
        let references = inside
            .flat_map(|(_, references)| references.clone())
            .collect();
        Cycle {
            parent: parent.to_owned(),
            children,
            references,
        }
    };
    groups.into_iter().map(cycle).collect()
}

#[test]
fn modules_depend_on_each_other_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = String::new();
    for of in crate_roots(root) {
        for cycle in cycles(&Modules::read(&root.join(&of)).references()) {
            let children: Vec<_> = cycle.children.iter().map(String::as_str).collect();
            wrong += &format!(
                "{of}: {}: {}\n    {}\n",
                cycle.parent,
                children.join(", "),
                cycle.references.join("\n    ")
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "modules that depend on each other\n{wrong}"
    );
}

/// `let (a, b) = (x, y)` saves a line and costs the reader two looks. The number below is that of
/// `let ... else` in which one `else` stands for two values.
#[test]
fn statements_bind_one_value_each() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = Vec::new();
    let mut total = 0;
    for of in crate_roots(root) {
        for (module, count) in Modules::read(&root.join(&of)).unpacked_tuples() {
            places.push(format!("{of}: {module}: {count}"));
            total += count;
        }
    }
    assert!(
        total <= 15,
        "{total} statements take a tuple apart\n{}",
        places.join("\n")
    );
}

#[test]
fn statements_for_two_values_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lib.rs");
    // (statement, is found)
    let cases = [
        ("let (a, b) = (x, y);", true),
        ("let (a, b): (A, B) = (x, y);", true),
        ("(a, b[0]) = (1, \"y\");", true),
        ("if let (Some(a), None) = (f(x), y) {}", true),
        ("let (Some(a), None) = (x, y) else { return };", true),
        ("let (a, b) = f(x, y);", false),
        ("const PAIR: (u8, u8) = (1, 2);", false),
        ("let (a, b) = if x { (y, z) } else { (z, y) };", false),
        ("let a = (x, y); f((a, b) == (x, y));", false),
        ("let Some((a, b)) = (x) else { return };", false),
        ("#[cfg(test)] fn g() { let (a, b) = (x, y); }", false),
    ];
    for (statement, expected) in cases {
        let source = format!("fn f() {{ {statement} }}");
        std::fs::write(&file, source).unwrap();
        let found = Modules::read(&file).unpacked_tuples().count();
        assert_eq!(found > 0, expected, "{statement}");
    }
}

#[test]
fn siblings_that_reach_each_other_form_a_cycle() {
    // (references, cycles)
    #[allow(clippy::type_complexity, reason = "a table of cases")]
    let cases: [(&[(&str, &str)], &[&str]); 5] = [
        (&[("crate::a", "crate::b")], &[]),
        (&[("crate::a", "crate"), ("crate", "crate::a")], &[]),
        (
            &[("crate::a::x", "crate::a"), ("crate::a", "crate::a::x")],
            &[],
        ),
        (
            &[
                ("crate::a", "crate::b::x"),
                ("crate::b::y", "crate::c"),
                ("crate::c", "crate::a::z"),
            ],
            &["crate: a, b, c"],
        ),
        (
            &[
                ("crate::a::x", "crate::a::y"),
                ("crate::a::y", "crate::a::x"),
            ],
            &["crate::a: x, y"],
        ),
    ];
    let path = |text: &&str| text.split("::").map(str::to_owned).collect::<ModulePath>();
    for (references, expected) in cases {
        let found = cycles(
            &references
                .iter()
                .map(|(from, to)| (path(from), path(to)))
                .collect(),
        );
        let name = |cycle: &Cycle| {
            format!(
                "{}: {}",
                cycle.parent,
                Vec::from_iter(cycle.children.clone()).join(", ")
            )
        };
        assert_eq!(
            found.iter().map(name).collect::<Vec<_>>(),
            expected,
            "{references:?}"
        );
    }
}

#[test]
fn re_exported_names_belong_to_the_module_that_defines_them() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [
        (
            "lib.rs",
            "mod a; mod b; mod c; pub use b::{Thing, inner as renamed};",
        ),
        (
            "a.rs",
            "use crate::Thing; fn f() -> crate::renamed::Deep { use super::c::*; todo!() } #[cfg(test)] use crate::c::Test;",
        ),
        (
            "b.rs",
            "pub struct Thing; pub mod inner { pub struct Deep; fn g() -> super::Thing { super::Thing } }",
        ),
        (
            "c.rs",
            "// use crate::a::f;\nconst TEXT: &str = \"crate::b::Thing\";",
        ),
    ];
    for (name, source) in sources {
        std::fs::write(folder.path().join(name), source).unwrap();
    }
    let references = Modules::read(&folder.path().join("lib.rs")).references();
    let found: Vec<String> = references
        .iter()
        .map(|(from, to)| format!("{} -> {}", from.join("::"), to.join("::")))
        .collect();
    let expected = [
        "crate -> crate::b",
        "crate -> crate::b::inner",
        "crate::a -> crate::b",
        "crate::a -> crate::b::inner",
        "crate::a -> crate::c",
        "crate::b::inner -> crate::b",
    ];
    assert_eq!(found, expected);
}
