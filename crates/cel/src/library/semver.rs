//! Semantic versions.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/semverlib.go`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::args::text;
use crate::fail::Fail;
use crate::objects::semver::Semver;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("semver(string) Semver", |args| {
        parse(args).and_then(of_parsed)
    }),
    ("semver(string, bool) Semver", |args| {
        parse(args).and_then(of_parsed)
    }),
    ("isSemver(string) bool", |args| {
        Ok(Val::Bool(parse(args)?.is_ok()))
    }),
    ("isSemver(string, bool) bool", |args| {
        Ok(Val::Bool(parse(args)?.is_ok()))
    }),
    (".major(Semver) int", |args| number(args, 0)),
    (".minor(Semver) int", |args| number(args, 1)),
    (".patch(Semver) int", |args| number(args, 2)),
    (".isGreaterThan(Semver, Semver) bool", |args| {
        Ok(Val::Bool(
            args[0].compare(&args[1]) == Some(Ordering::Greater),
        ))
    }),
    (".isLessThan(Semver, Semver) bool", |args| {
        Ok(Val::Bool(args[0].compare(&args[1]) == Some(Ordering::Less)))
    }),
    (".compareTo(Semver, Semver) int", |args| {
        let order = args[0].compare(&args[1]).ok_or_else(Fail::no_overload)?;
        Ok(Val::Int(order as i64))
    }),
];

fn of_parsed(parsed: Result<Semver, String>) -> Result<Val, Fail> {
    parsed
        .map(|version| Val::Semver(Arc::new(version)))
        .map_err(Fail::new)
}

/// The version in the first argument; a second argument `true` allows common deviations.
fn parse(args: &[Val]) -> Result<Result<Semver, String>, Fail> {
    let text = text(args, 0)?;
    Ok(match args.get(1) {
        Some(Val::Bool(true)) => Semver::parse_tolerant(text),
        _ => Semver::parse(text),
    })
}

fn number(args: &[Val], index: usize) -> Result<Val, Fail> {
    match &args[0] {
        Val::Semver(version) => i64::try_from(version.numbers[index])
            .map(Val::Int)
            .map_err(|_| Fail::new("integer overflow")),
        _ => Err(Fail::no_overload()),
    }
}
