//! The costs of evaluation. Limits are in these units, so expensive expressions fail here as they do
//! upstream.
//!
//! Upstream: `interpreter/runtimecost.go` of cel-go, `k8s.io/apiserver/pkg/cel/library/cost.go`.

use super::value::Val;

pub(super) const SELECT: u64 = 1;
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;
pub(super) const STRUCT: u64 = 40;
/// Per character that is read once.
pub(super) const TRAVERSAL: f64 = 0.1;
/// Per character of a pattern.
pub(super) const PATTERN: f64 = 0.25;
/// One access review.
pub(super) const CHECK: u64 = 350_000;

/// Limit of one evaluation.
pub const PER_CALL: u64 = 1_000_000;
/// Limit of all rules of an object or of all expressions of a policy.
pub const BUDGET: u64 = 10_000_000;
/// Limit of the match conditions of one webhook or policy.
pub const MATCH_CONDITIONS: u64 = 2_500_000;
/// The largest message that an expression may produce, in bytes.
pub const MAX_MESSAGE: usize = 5 * 1024;

/// `size` units at `factor`, rounded up.
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// The cost of a call, without its arguments. `result` is absent after a failure.
pub(super) fn of_call(function: &str, args: &[Val], result: Option<&Val>) -> u64 {
    let size = |index: usize| args.get(index).map_or(0, Val::size);
    let read = |index: usize| scaled(size(index), TRAVERSAL);
    match function {
        "check" => CHECK,
        "fieldSelector" | "labelSelector" => {
            let selector = size(1);
            // The list of requirements, and a list and an object for each of them.
            LIST + scaled(selector, TRAVERSAL) + scaled(scaled(selector, 0.5), 50.0)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match args.first() {
            Some(Val::List(list)) => list.items.iter().map(traversal).sum(),
            Some(_) => read(0),
            None => 1,
        },
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => read(0),
        "replace" | "split" | "ip.isCanonical" => scaled(size(0), 2.0 * TRAVERSAL),
        "join" => scaled(result.map_or(1, Val::size), 2.0 * TRAVERSAL),
        "find" | "findAll" => scaled(1 + size(0), TRAVERSAL) * scaled(size(1), PATTERN),
        "matches" => scaled(1 + size(0), TRAVERSAL) * scaled(size(1), PATTERN),
        "ip" => match args.first() {
            Some(Val::Cidr(_)) => 1,
            _ => read(0),
        },
        "containsIP" => scaled(2 * size(0), TRAVERSAL) + if is_text(args, 1) { read(1) } else { 0 },
        "containsCIDR" => {
            let text = if is_text(args, 1) { read(1) } else { 0 };
            scaled(2 * size(0), TRAVERSAL) + read(0) + 1 + text
        }
        "validate" => match args.first() {
            Some(Val::Format(format)) => {
                scaled(1 + size(1), TRAVERSAL) * scaled(format.pattern_size, PATTERN)
            }
            _ => 1,
        },
        "sets.contains" | "sets.intersects" => size(0) * size(1),
        "sets.equivalent" => 2 * size(0) * size(1),
        "startsWith" | "endsWith" | "strings.quote" | "format" => read(0),
        "string" | "bytes" => match args.first() {
            Some(Val::Text(_)) if function == "bytes" => read(0),
            Some(Val::Bytes(_)) => read(0),
            _ => 1,
        },
        "@in" => match args.get(1) {
            Some(Val::List(list)) => list.items.len() as u64,
            _ => 1,
        },
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => match args.first() {
            Some(Val::Text(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_)) => {
                scaled(size(0).min(size(1)), TRAVERSAL)
            }
            _ => 1,
        },
        "_+_" if matches!(args.first(), Some(Val::Text(_) | Val::Bytes(_))) => {
            scaled(size(0) + size(1), TRAVERSAL)
        }
        "contains" => read(0) * read(1),
        _ => 1,
    }
}

fn is_text(args: &[Val], index: usize) -> bool {
    matches!(args.get(index), Some(Val::Text(_)))
}

/// The cost of reading a value once.
fn traversal(value: &Val) -> u64 {
    match value {
        Val::Text(_) | Val::Bytes(_) => scaled(value.size(), TRAVERSAL),
        Val::List(list) => list.items.iter().map(traversal).sum(),
        _ => 1,
    }
}
