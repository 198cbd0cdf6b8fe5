//! Functions of lists.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/lists.go`, and version 3 of `ext/lists.go` of
//! cel-go.

use std::cmp::Ordering;

use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

/// The rows of a function for every type of elements that has an order.
macro_rules! comparable {
    ($name:literal, $result:literal, $call:expr) => {
        [
            (
                concat!(".", $name, "(list(int)) ", $result, "int"),
                $call as crate::row::Call,
            ),
            (concat!(".", $name, "(list(uint)) ", $result, "uint"), $call),
            (
                concat!(".", $name, "(list(double)) ", $result, "double"),
                $call,
            ),
            (concat!(".", $name, "(list(bool)) ", $result, "bool"), $call),
            (
                concat!(".", $name, "(list(duration)) ", $result, "duration"),
                $call,
            ),
            (
                concat!(".", $name, "(list(timestamp)) ", $result, "timestamp"),
                $call,
            ),
            (
                concat!(".", $name, "(list(string)) ", $result, "string"),
                $call,
            ),
            (
                concat!(".", $name, "(list(bytes)) ", $result, "bytes"),
                $call,
            ),
        ]
    };
}

const MIN: [Row; 8] = comparable!("min", "", |args| extreme(args, "min", Ordering::Less));
const MAX: [Row; 8] = comparable!("max", "", |args| extreme(args, "max", Ordering::Greater));

pub(super) const ROWS: &[Row] = &[
    MIN[0],
    MIN[1],
    MIN[2],
    MIN[3],
    MIN[4],
    MIN[5],
    MIN[6],
    MIN[7],
    MAX[0],
    MAX[1],
    MAX[2],
    MAX[3],
    MAX[4],
    MAX[5],
    MAX[6],
    MAX[7],
    (".isSorted(list(int)) bool", is_sorted),
    (".isSorted(list(uint)) bool", is_sorted),
    (".isSorted(list(double)) bool", is_sorted),
    (".isSorted(list(bool)) bool", is_sorted),
    (".isSorted(list(duration)) bool", is_sorted),
    (".isSorted(list(timestamp)) bool", is_sorted),
    (".isSorted(list(string)) bool", is_sorted),
    (".isSorted(list(bytes)) bool", is_sorted),
    (".sum(list(int)) int", |args| sum(args, Val::Int(0))),
    (".sum(list(uint)) uint", |args| sum(args, Val::Uint(0))),
    (".sum(list(double)) double", |args| {
        sum(args, Val::Double(0.0))
    }),
    (".sum(list(duration)) duration", |args| {
        sum(args, Val::Duration(0))
    }),
    (".indexOf(list(T), T) int", |args| {
        position(items(args)?.iter().position(|item| *item == args[1]))
    }),
    (".lastIndexOf(list(T), T) int", |args| {
        position(items(args)?.iter().rposition(|item| *item == args[1]))
    }),
    ("lists.range(int) list(int)", range),
    (".slice(list(T), int, int) list(T)", slice),
    (".flatten(list(list(T))) list(T)", |args| flatten(args, 1)),
    (".flatten(list(dyn), int) list(dyn)", |args| match args[1] {
        Val::Int(depth) => flatten(args, depth),
        _ => Err(Fail::no_overload()),
    }),
    (".sort(list(T)) list(T)", |args| {
        sorted(items(args)?, items(args)?)
    }),
    (".@sortByAssociatedKeys(list(T), list(U)) list(T)", |args| {
        sorted(items(args)?, items(&args[1..])?)
    }),
    (".distinct(list(T)) list(T)", distinct),
    (".reverse(list(T)) list(T)", |args| {
        Ok(Val::list(items(args)?.iter().rev().cloned().collect()))
    }),
];

fn items(args: &[Val]) -> Result<&[Val], Fail> {
    match &args[0] {
        Val::List(list) => Ok(&list.items),
        _ => Err(Fail::no_overload()),
    }
}

fn position(found: Option<usize>) -> Result<Val, Fail> {
    Ok(Val::Int(found.map_or(-1, |index| index as i64)))
}

fn extreme(args: &[Val], name: &str, wanted: Ordering) -> Result<Val, Fail> {
    let (first, rest) = items(args)?
        .split_first()
        .ok_or_else(|| Fail::new(format!("{name} called on empty list")))?;
    let mut best = first;
    for item in rest {
        if item.compare(best).ok_or_else(Fail::no_overload)? == wanted {
            best = item;
        }
    }
    Ok(best.clone())
}

fn is_sorted(args: &[Val]) -> Result<Val, Fail> {
    for pair in items(args)?.windows(2) {
        if pair[0].compare(&pair[1]).ok_or_else(Fail::no_overload)? == Ordering::Greater {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn sum(args: &[Val], zero: Val) -> Result<Val, Fail> {
    items(args)?
        .iter()
        .try_fold(zero, |sum, item| match (&sum, item) {
            (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
            (Val::Int(a), Val::Int(b)) => a
                .checked_add(*b)
                .map(Val::Int)
                .ok_or_else(|| Fail::new("integer overflow")),
            (Val::Uint(a), Val::Uint(b)) => a
                .checked_add(*b)
                .map(Val::Uint)
                .ok_or_else(|| Fail::new("unsigned integer overflow")),
            (Val::Duration(a), Val::Duration(b)) => a
                .checked_add(*b)
                .map(Val::Duration)
                .ok_or_else(|| Fail::new("duration overflow")),
            _ => Err(Fail::no_overload()),
        })
}

fn range(args: &[Val]) -> Result<Val, Fail> {
    match args[0] {
        Val::Int(end) => Ok(Val::list((0..end).map(Val::Int).collect())),
        _ => Err(Fail::no_overload()),
    }
}

fn slice(args: &[Val]) -> Result<Val, Fail> {
    let items = items(args)?;
    let [Val::Int(start), Val::Int(end)] = &args[1..] else {
        return Err(Fail::no_overload());
    };
    let refused = |why: &str| Fail::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(refused("negative indexes not supported"));
    };
    if from > to {
        return Err(refused(
            "start index must be less than or equal to end index",
        ));
    }
    let found = items.get(from..to);
    found
        .map(|items| Val::list(items.to_vec()))
        .ok_or_else(|| refused(&format!("list is length {}", items.len())))
}

fn flatten(args: &[Val], depth: i64) -> Result<Val, Fail> {
    if depth < 0 {
        return Err(Fail::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    append(items(args)?, depth, &mut flat);
    Ok(Val::list(flat))
}

fn append(items: &[Val], depth: i64, flat: &mut Vec<Val>) {
    for item in items {
        match item {
            Val::List(inner) if depth > 0 => append(&inner.items, depth - 1, flat),
            item => flat.push(item.clone()),
        }
    }
}

/// `items` in the order of `keys`.
fn sorted(items: &[Val], keys: &[Val]) -> Result<Val, Fail> {
    if items.len() != keys.len() {
        return Err(Fail::no_overload());
    }
    let first = keys.first().map(Val::kind);
    for key in keys {
        if key.compare(key).is_none() {
            return Err(Fail::new("list elements must be comparable"));
        }
        if Some(key.kind()) != first {
            return Err(Fail::new("list elements must have the same type"));
        }
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| keys[*a].compare(&keys[*b]).unwrap_or(Ordering::Equal));
    Ok(Val::list(
        order
            .into_iter()
            .map(|index| items[index].clone())
            .collect(),
    ))
}

fn distinct(args: &[Val]) -> Result<Val, Fail> {
    let mut seen: Vec<Val> = Vec::new();
    for item in items(args)? {
        if !seen.contains(item) {
            seen.push(item.clone());
        }
    }
    Ok(Val::list(seen))
}
