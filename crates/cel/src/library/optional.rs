//! Optional values.
//!
//! Upstream: `cel/library.go` of cel-go.

use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("optional.of(T) optional(T)", |args| {
        Ok(Val::some(args[0].clone()))
    }),
    ("optional.none() optional(T)", |_| Ok(Val::Optional(None))),
    ("optional.ofNonZeroValue(T) optional(T)", non_zero),
    (".hasValue(optional(T)) bool", |args| {
        Ok(Val::Bool(matches!(args[0], Val::Optional(Some(_)))))
    }),
    (".value(optional(T)) T", |args| match &args[0] {
        Val::Optional(Some(value)) => Ok((**value).clone()),
        _ => Err(Fail::new("optional.none() dereference")),
    }),
    (
        ".or(optional(T), optional(T)) optional(T)",
        |args| match &args[0] {
            Val::Optional(Some(_)) => Ok(args[0].clone()),
            _ => Ok(args[1].clone()),
        },
    ),
    (".orValue(optional(T), T) T", |args| match &args[0] {
        Val::Optional(Some(value)) => Ok((**value).clone()),
        _ => Ok(args[1].clone()),
    }),
    (".first(list(T)) optional(T)", |args| {
        edge(args, <[Val]>::first)
    }),
    (".last(list(T)) optional(T)", |args| {
        edge(args, <[Val]>::last)
    }),
    ("optional.unwrap(list(optional(T))) list(T)", unwrap),
    (".unwrapOpt(list(optional(T))) list(T)", unwrap),
];

fn non_zero(args: &[Val]) -> Result<Val, Fail> {
    let is_zero = match &args[0] {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Duration(0) => true,
        Val::Double(value) => *value == 0.0,
        Val::Text(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => list.items.is_empty(),
        Val::Map(map) => map.is_empty(),
        Val::Constructed(object) => object.fields.is_empty(),
        Val::Optional(value) => value.is_none(),
        _ => false,
    };
    Ok(if is_zero {
        Val::Optional(None)
    } else {
        Val::some(args[0].clone())
    })
}

fn edge(args: &[Val], pick: fn(&[Val]) -> Option<&Val>) -> Result<Val, Fail> {
    match &args[0] {
        Val::List(list) => Ok(pick(&list.items)
            .cloned()
            .map_or(Val::Optional(None), Val::some)),
        _ => Err(Fail::no_overload()),
    }
}

fn unwrap(args: &[Val]) -> Result<Val, Fail> {
    let Val::List(list) = &args[0] else {
        return Err(Fail::no_overload());
    };
    let values = list.items.iter().filter_map(|item| match item {
        Val::Optional(value) => value.as_ref().map(|value| (**value).clone()),
        value => Some(value.clone()),
    });
    Ok(Val::list(values.collect()))
}
