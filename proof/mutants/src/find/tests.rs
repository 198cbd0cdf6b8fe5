//! Tables of places and their mutants, and the switches in a program of their own.

use std::process::Command;

use super::*;
use crate::mutant::render;

/// The mutants of an expression, as original and changed texts.
fn changes(body: &str) -> Vec<(String, String)> {
    let text = format!("fn f() -> T {{ {body} }}");
    let found = mutants("a/b.rs", &text, 0).unwrap();
    found
        .into_iter()
        .map(|mutant| (mutant.original, mutant.changed))
        .collect()
}

#[test]
fn each_place_has_its_changes() {
    // (body of a function, changes)
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("a < b", &[("a < b", "!(a < b)"), ("a < b", "a <= b")]),
        ("a == b", &[("a == b", "!(a == b)")]),
        ("!a", &[("!a", "!(!a)")]),
        ("a - b", &[("a - b", "a + b")]),
        ("{ a += b; }", &[("a += b;", ""), ("a += b", "a -= b")]),
        ("a.min(b)", &[("a.min(b)", "a.max(b)")]),
        ("a.min()", &[]),
        ("[0, 1, 7u8]", &[("0", "1"), ("1", "0"), ("7u8", "8u8")]),
        ("true", &[("true", "false")]),
        ("{ a.push(b); c }", &[("a.push(b);", "")]),
        (
            "if a < b { c } else { d }",
            &[("a < b", "true"), ("a < b", "false"), ("a < b", "a <= b")],
        ),
        ("while !a {}", &[("!a", "false")]),
        (
            "a && b && c",
            &[
                ("a && b && c", "false"),
                ("a && b && c", "a && b || c"),
                ("a && b", "a || b"),
                ("a", "true"),
                ("b", "true"),
                ("c", "true"),
            ],
        ),
        (
            "if a || !b { c }",
            &[
                ("a || !b", "true"),
                ("a || !b", "a && !b"),
                ("a", "false"),
                ("!b", "false"),
            ],
        ),
        ("if let Some(x) = a && x == b { c }", &[("x == b", "true")]),
        ("a.filter(|x| f(x))", &[("f(x)", "true"), ("f(x)", "false")]),
        ("a.is_some()", &[("a.is_some()", "!(a.is_some())")]),
        (
            "match a { 0 | 1 => b, x if x > c => d }",
            &[("x > c", "true"), ("x > c", "false"), ("x > c", "x >= c")],
        ),
        // Nothing inside of macros, types, constants and patterns.
        (
            "{ const A: u8 = 1; println!(\"{}\", 1 + 1); [0; 2] }",
            &[("0", "1")],
        ),
        ("a::<1>()", &[]),
    ];
    for (body, expected) in cases {
        let expected: Vec<_> = expected
            .iter()
            .map(|(original, changed)| ((*original).to_owned(), (*changed).to_owned()))
            .collect();
        assert_eq!(changes(body), expected, "{body}");
    }
}

#[test]
fn bodies_become_constants() {
    // (function, constants)
    let cases: &[(&str, &[&str])] = &[
        (
            "fn f() -> bool { a == b }",
            &["{ return true }", "{ return false }"],
        ),
        ("fn f() -> i32 { a }", &["{ return 0 }", "{ return 1 }"]),
        ("fn f() -> Option<&T> { a }", &["{ return None }"]),
        ("fn f() { a }", &["{ return }"]),
        ("fn f() {}", &[]),
        ("const fn f() -> bool { a }", &[]),
        ("#[cfg(test)] mod tests { fn f() -> bool { a } }", &[]),
    ];
    for (text, expected) in cases {
        let found = mutants("a/b.rs", text, 0).unwrap();
        let changed: Vec<&str> = found.iter().map(|mutant| mutant.changed.as_str()).collect();
        assert_eq!(&changed, expected, "{text}");
    }
}

/// A crate with a decision and a test that leaves the boundary open.
const CRATE: &str = "
pub(crate) fn surplus(have: i32, want: i32, is_paused: bool) -> i32 {
    if is_paused || have < want {
        return 0;
    }
    let mut gone = 0;
    gone += have - want;
    gone.min(3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn surplus_pods_go() {
        assert_eq!(super::surplus(5, 2, true), 0);
        assert_eq!(super::surplus(3, 2, false), 1);
        assert_eq!(super::surplus(9, 2, false), 3);
    }
}
";

/// The mutants of `CRATE` that its test does not find.
const OPEN: &[(&str, &str)] = &[("have < want", "false"), ("have < want", "have <= want")];

#[test]
fn a_crate_with_switches_finds_the_mutants_that_its_tests_can_find() {
    let folder = tempfile::tempdir().unwrap();
    let found = mutants("a/b.rs", CRATE, 0).unwrap();
    let rendered = render(CRATE, found.iter());
    assert_eq!(rendered.text.lines().count(), CRATE.lines().count());
    let source = folder.path().join("lib.rs");
    let program = folder.path().join("tests");
    let switch = include_str!("../switch.rs").replace("//!", "//");
    let text = format!("{}\nmod mutants {{ {switch} }}\n", rendered.text);
    std::fs::write(&source, &text).unwrap();
    let built = Command::new("rustc")
        .args(["--test", "--edition=2024", "--cap-lints=allow", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}\n{text}");
    let passes = |id: &str| {
        let run = Command::new(&program).env("STEERSMAN_MUTANT", id).output();
        run.unwrap().status.success()
    };
    assert!(passes("none"));
    let open: Vec<(&str, &str)> = found
        .iter()
        .filter(|mutant| passes(&mutant.id.to_string()))
        .map(|mutant| (mutant.original.as_str(), mutant.changed.as_str()))
        .collect();
    assert_eq!(open, OPEN);
}
