//! Regular expressions of Go.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/regex.go`.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use steersman_regexp::Regex;

use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("matches(string, string) bool", matches),
    (".matches(string, string) bool", matches),
    (".find(string, string) string", find),
    (".findAll(string, string) list(string)", |args| {
        find_all(args, None)
    }),
    (
        ".findAll(string, string, int) list(string)",
        |args| match &args[2] {
            Val::Int(limit) => find_all(args, usize::try_from(*limit).ok()),
            _ => Err(Fail::no_overload()),
        },
    ),
];

/// Compilation takes longer than a match, and rules use the same few patterns again.
static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
const MAX_COMPILED: usize = 256;

/// The text and the pattern. `problem` begins the error for an invalid pattern.
fn parsed<'a>(args: &'a [Val], problem: &str) -> Result<(&'a str, Regex), Fail> {
    let [Val::Text(text), Val::Text(pattern), ..] = args else {
        return Err(Fail::no_overload());
    };
    let mut compiled = COMPILED.lock();
    if let Some(regex) = compiled.get(&**pattern) {
        return Ok((text, regex.clone()));
    }
    let regex = steersman_regexp::compile(pattern)
        .map_err(|error| Fail::new(format!("{problem}{error}")))?;
    if compiled.len() >= MAX_COMPILED {
        compiled.clear();
    }
    compiled.insert(pattern.to_string(), regex.clone());
    Ok((text, regex))
}

fn matches(args: &[Val]) -> Result<Val, Fail> {
    let (text, regex) = parsed(args, "")?;
    Ok(Val::Bool(regex.is_match(text)))
}

fn find(args: &[Val]) -> Result<Val, Fail> {
    let (text, regex) = parsed(args, "Illegal regex: ")?;
    Ok(Val::text(
        regex.find(text).map_or("", |found| found.as_str()),
    ))
}

fn find_all(args: &[Val], limit: Option<usize>) -> Result<Val, Fail> {
    let (text, regex) = parsed(args, "Illegal regex: ")?;
    let found = regex.find_iter(text).take(limit.unwrap_or(usize::MAX));
    Ok(Val::list(
        found.map(|found| Val::text(found.as_str())).collect(),
    ))
}
