//! Lists as sets.
//!
//! Upstream: `ext/sets.go` of cel-go.

use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("sets.contains(list(T), list(T)) bool", |args| {
        both(args, |a, b| b.iter().all(|item| a.contains(item)))
    }),
    ("sets.equivalent(list(T), list(T)) bool", |args| {
        both(args, |a, b| {
            b.iter().all(|item| a.contains(item)) && a.iter().all(|item| b.contains(item))
        })
    }),
    ("sets.intersects(list(T), list(T)) bool", |args| {
        both(args, |a, b| b.iter().any(|item| a.contains(item)))
    }),
];

fn both(args: &[Val], holds: fn(&[Val], &[Val]) -> bool) -> Result<Val, Fail> {
    match args {
        [Val::List(a), Val::List(b)] => Ok(Val::Bool(holds(&a.items, &b.items))),
        _ => Err(Fail::no_overload()),
    }
}
