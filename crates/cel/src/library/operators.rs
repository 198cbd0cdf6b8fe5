//! Operators.
//!
//! Upstream: `common/stdlib` and `common/types` of cel-go.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::fail::Fail;
use crate::row::Row;
use crate::value::{Key, Val};

pub(super) const ROWS: &[Row] = &[
    // `&&`, `||`, `?:` and `@not_strictly_false` do not evaluate all arguments; `eval` does them.
    ("_&&_(bool, bool) bool", lazy),
    ("_||_(bool, bool) bool", lazy),
    ("_?_:_(bool, T, T) T", lazy),
    ("@not_strictly_false(bool) bool", lazy),
    ("!_(bool) bool", not),
    ("_==_(T, T) bool", |args| Ok(Val::Bool(args[0] == args[1]))),
    ("_!=_(T, T) bool", |args| Ok(Val::Bool(args[0] != args[1]))),
    ("_+_(int, int) int", add),
    ("_+_(uint, uint) uint", add),
    ("_+_(double, double) double", add),
    ("_+_(string, string) string", add),
    ("_+_(bytes, bytes) bytes", add),
    ("_+_(list(T), list(T)) list(T)", add),
    ("_+_(timestamp, duration) timestamp", add),
    ("_+_(duration, timestamp) timestamp", add),
    ("_+_(duration, duration) duration", add),
    ("_-_(int, int) int", subtract),
    ("_-_(uint, uint) uint", subtract),
    ("_-_(double, double) double", subtract),
    ("_-_(timestamp, timestamp) duration", subtract),
    ("_-_(timestamp, duration) timestamp", subtract),
    ("_-_(duration, duration) duration", subtract),
    ("_*_(int, int) int", multiply),
    ("_*_(uint, uint) uint", multiply),
    ("_*_(double, double) double", multiply),
    ("_/_(int, int) int", divide),
    ("_/_(uint, uint) uint", divide),
    ("_/_(double, double) double", divide),
    ("_%_(int, int) int", modulo),
    ("_%_(uint, uint) uint", modulo),
    ("-_(int) int", negate),
    ("-_(double) double", negate),
    ("_[_](list(T), int) T", index),
    ("_[_](map(K, V), K) V", index),
    ("_[_](optional(list(T)), int) optional(T)", index_optional),
    ("_[_](optional(map(K, V)), K) optional(V)", index_optional),
    ("_[?_](list(T), int) optional(T)", index_optional),
    ("_[?_](map(K, V), K) optional(V)", index_optional),
    ("_[?_](optional(list(T)), int) optional(T)", index_optional),
    ("_[?_](optional(map(K, V)), K) optional(V)", index_optional),
    ("@in(T, list(T)) bool", contained),
    ("@in(K, map(K, V)) bool", contained),
    ("size(string) int", size),
    ("size(bytes) int", size),
    ("size(list(T)) int", size),
    ("size(map(K, V)) int", size),
    (".size(string) int", size),
    (".size(bytes) int", size),
    (".size(list(T)) int", size),
    (".size(map(K, V)) int", size),
    ("cel.@mapInsert(map(K, V), K, V) map(K, V)", insert),
    (
        "cel.@mapInsert(map(K, V), map(K, V)) map(K, V)",
        insert_entries,
    ),
];

/// The rows of one comparison, for every pair of types with an order.
macro_rules! comparison {
    ($name:literal, $fits:expr) => {
        [
            (concat!($name, "(bool, bool) bool"), $fits),
            (concat!($name, "(int, int) bool"), $fits),
            (concat!($name, "(uint, uint) bool"), $fits),
            (concat!($name, "(double, double) bool"), $fits),
            (concat!($name, "(int, uint) bool"), $fits),
            (concat!($name, "(int, double) bool"), $fits),
            (concat!($name, "(uint, int) bool"), $fits),
            (concat!($name, "(uint, double) bool"), $fits),
            (concat!($name, "(double, int) bool"), $fits),
            (concat!($name, "(double, uint) bool"), $fits),
            (concat!($name, "(string, string) bool"), $fits),
            (concat!($name, "(bytes, bytes) bool"), $fits),
            (concat!($name, "(timestamp, timestamp) bool"), $fits),
            (concat!($name, "(duration, duration) bool"), $fits),
        ]
    };
}

const LESS: [Row; 14] = comparison!("_<_", |args| ordered(args, Ordering::is_lt));
const LESS_EQUAL: [Row; 14] = comparison!("_<=_", |args| ordered(args, Ordering::is_le));
const GREATER: [Row; 14] = comparison!("_>_", |args| ordered(args, Ordering::is_gt));
const GREATER_EQUAL: [Row; 14] = comparison!("_>=_", |args| ordered(args, Ordering::is_ge));

const COUNT: usize = 4 * LESS.len();
const ALL: [Row; COUNT] = {
    let mut all = [LESS[0]; COUNT];
    let mut at = 0;
    while at < LESS.len() {
        all[4 * at] = LESS[at];
        all[4 * at + 1] = LESS_EQUAL[at];
        all[4 * at + 2] = GREATER[at];
        all[4 * at + 3] = GREATER_EQUAL[at];
        at += 1;
    }
    all
};

pub(super) const COMPARISONS: &[Row] = &ALL;

fn lazy(_: &[Val]) -> Result<Val, Fail> {
    Err(Fail::no_overload())
}

fn ordered(args: &[Val], fits: fn(Ordering) -> bool) -> Result<Val, Fail> {
    let order = args[0]
        .compare(&args[1])
        .ok_or_else(|| Fail::new("NaN values cannot be ordered"))?;
    Ok(Val::Bool(fits(order)))
}

fn not(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(!value)),
        _ => Err(Fail::no_overload()),
    }
}

fn overflow<T>(value: Option<T>, what: &str, wrap: fn(T) -> Val) -> Result<Val, Fail> {
    value
        .map(wrap)
        .ok_or_else(|| Fail::new(format!("{what} overflow")))
}

const INT: &str = "integer";
const UINT: &str = "unsigned integer";
const DURATION: &str = "duration";
const TIMESTAMP: &str = "timestamp";

fn shifted(at: jiff::Timestamp, nanos: i64) -> Result<Val, Fail> {
    let moved = at.checked_add(jiff::SignedDuration::from_nanos(nanos)).ok();
    overflow(moved, TIMESTAMP, Val::Timestamp)
}

fn add(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Int(a), Val::Int(b)] => overflow(a.checked_add(*b), INT, Val::Int),
        [Val::Uint(a), Val::Uint(b)] => overflow(a.checked_add(*b), UINT, Val::Uint),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::Text(a), Val::Text(b)] => Ok(Val::text(&format!("{a}{b}"))),
        [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes([&**a, &**b].concat().into())),
        [Val::List(a), Val::List(b)] => Ok(Val::List(Arc::new(a.plus(b)))),
        [Val::Timestamp(at), Val::Duration(nanos)] | [Val::Duration(nanos), Val::Timestamp(at)] => {
            shifted(*at, *nanos)
        }
        [Val::Duration(a), Val::Duration(b)] => {
            overflow(a.checked_add(*b), DURATION, Val::Duration)
        }
        _ => Err(Fail::no_overload()),
    }
}

fn subtract(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Int(a), Val::Int(b)] => overflow(a.checked_sub(*b), INT, Val::Int),
        [Val::Uint(a), Val::Uint(b)] => overflow(a.checked_sub(*b), UINT, Val::Uint),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Timestamp(a), Val::Timestamp(b)] => {
            let nanos = i64::try_from(a.as_nanosecond() - b.as_nanosecond()).ok();
            overflow(nanos, DURATION, Val::Duration)
        }
        [Val::Timestamp(at), Val::Duration(nanos)] => shifted(*at, nanos.saturating_neg()),
        [Val::Duration(a), Val::Duration(b)] => {
            overflow(a.checked_sub(*b), DURATION, Val::Duration)
        }
        _ => Err(Fail::no_overload()),
    }
}

fn multiply(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Int(a), Val::Int(b)] => overflow(a.checked_mul(*b), INT, Val::Int),
        [Val::Uint(a), Val::Uint(b)] => overflow(a.checked_mul(*b), UINT, Val::Uint),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => Err(Fail::no_overload()),
    }
}

fn divide(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => {
            Err(Fail::new("division by zero"))
        }
        [Val::Int(a), Val::Int(b)] => overflow(a.checked_div(*b), INT, Val::Int),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(a / b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => Err(Fail::no_overload()),
    }
}

fn modulo(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => {
            Err(Fail::new("modulus by zero"))
        }
        [Val::Int(a), Val::Int(b)] => overflow(a.checked_rem(*b), INT, Val::Int),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(a % b)),
        _ => Err(Fail::no_overload()),
    }
}

fn negate(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [Val::Int(value)] => overflow(value.checked_neg(), INT, Val::Int),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        _ => Err(Fail::no_overload()),
    }
}

/// The element at an index; `None` if there is none.
fn element(container: &Val, index: &Val) -> Result<Option<Val>, Fail> {
    match container {
        Val::List(list) => {
            let index = match Key::of(index) {
                Some(Key::Int(index)) => index,
                _ => {
                    return Err(Fail::new(format!(
                        "unsupported index type '{}' in list",
                        index.kind()
                    )));
                }
            };
            let found = usize::try_from(index).ok();
            Ok(found.and_then(|index| list.items.get(index)).cloned())
        }
        Val::Map(map) => Ok(Key::of(index).and_then(|key| map.get(&key)).cloned()),
        _ => Err(Fail::no_overload()),
    }
}

fn index(args: &[Val]) -> Result<Val, Fail> {
    let missing = || match (&args[0], Key::of(&args[1])) {
        (Val::List(_), Some(key)) => Fail::new(format!("index out of bounds: {key}")),
        (_, Some(key)) => Fail::new(format!("no such key: {key}")),
        _ => Fail::no_overload(),
    };
    element(&args[0], &args[1])?.ok_or_else(missing)
}

fn index_optional(args: &[Val]) -> Result<Val, Fail> {
    let container = match &args[0] {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => value,
        value => value,
    };
    Ok(Val::Optional(element(container, &args[1])?.map(Arc::new)))
}

fn contained(args: &[Val]) -> Result<Val, Fail> {
    match args {
        [value, Val::List(list)] => Ok(Val::Bool(list.items.contains(value))),
        [value, Val::Map(map)] => Ok(Val::Bool(
            Key::of(value).is_some_and(|key| map.contains_key(&key)),
        )),
        _ => Err(Fail::no_overload()),
    }
}

fn size(args: &[Val]) -> Result<Val, Fail> {
    i64::try_from(args[0].size())
        .map(Val::Int)
        .map_err(|_| Fail::new("integer overflow"))
}

fn insert(args: &[Val]) -> Result<Val, Fail> {
    let [Val::Map(map), key, value] = args else {
        return Err(Fail::no_overload());
    };
    let key = Key::of(key).ok_or_else(Fail::no_overload)?;
    let mut map = (**map).clone();
    if map.contains_key(&key) {
        return Err(Fail::new(format!(
            "insert failed: key {key} already exists"
        )));
    }
    map.insert(key, value.clone());
    Ok(Val::Map(Arc::new(map)))
}

fn insert_entries(args: &[Val]) -> Result<Val, Fail> {
    let [map, Val::Map(entries)] = args else {
        return Err(Fail::no_overload());
    };
    entries.iter().try_fold(map.clone(), |map, (key, value)| {
        insert(&[map, key.to_val(), value.clone()])
    })
}
