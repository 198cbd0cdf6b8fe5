//! Quantities such as `1.5Gi`.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/quantity.go`.

use std::cmp::Ordering;

use steersman_values::quantity::{BAD_QUANTITY, Quantity};

use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("quantity(string) Quantity", |args| {
        parsed(args)?
            .map(Val::Quantity)
            .ok_or_else(|| Fail::new(BAD_QUANTITY))
    }),
    ("isQuantity(string) bool", |args| {
        Ok(Val::Bool(parsed(args)?.is_some()))
    }),
    (".sign(Quantity) int", |args| {
        let quantity = of(&args[0])?;
        Ok(Val::Int(match () {
            () if quantity.is_negative() => -1,
            () if quantity.is_zero() => 0,
            () => 1,
        }))
    }),
    (".isInteger(Quantity) bool", |args| {
        Ok(Val::Bool(of(&args[0])?.to_i64().is_some()))
    }),
    (".asInteger(Quantity) int", |args| {
        let whole = of(&args[0])?.to_i64();
        whole
            .map(Val::Int)
            .ok_or_else(|| Fail::new("cannot convert value to integer"))
    }),
    (".asApproximateFloat(Quantity) double", |args| {
        Ok(Val::Double(of(&args[0])?.to_f64()))
    }),
    (".isGreaterThan(Quantity, Quantity) bool", |args| {
        Ok(Val::Bool(
            args[0].compare(&args[1]) == Some(Ordering::Greater),
        ))
    }),
    (".isLessThan(Quantity, Quantity) bool", |args| {
        Ok(Val::Bool(args[0].compare(&args[1]) == Some(Ordering::Less)))
    }),
    (".compareTo(Quantity, Quantity) int", |args| {
        let order = args[0].compare(&args[1]).ok_or_else(Fail::no_overload)?;
        Ok(Val::Int(order as i64))
    }),
    (".add(Quantity, Quantity) Quantity", |args| {
        Ok(Val::Quantity(of(&args[0])?.plus(of(&args[1])?)))
    }),
    (".add(Quantity, int) Quantity", |args| {
        Ok(Val::Quantity(of(&args[0])?.plus(whole(&args[1])?)))
    }),
    (".sub(Quantity, Quantity) Quantity", |args| {
        Ok(Val::Quantity(of(&args[0])?.plus(of(&args[1])?.negated())))
    }),
    (".sub(Quantity, int) Quantity", |args| {
        Ok(Val::Quantity(
            of(&args[0])?.plus(whole(&args[1])?.negated()),
        ))
    }),
];

fn parsed(args: &[Val]) -> Result<Option<Quantity>, Fail> {
    match &args[0] {
        Val::Text(text) => Ok(Quantity::parse(text)),
        _ => Err(Fail::no_overload()),
    }
}

fn of(value: &Val) -> Result<Quantity, Fail> {
    match value {
        Val::Quantity(quantity) => Ok(*quantity),
        _ => Err(Fail::no_overload()),
    }
}

fn whole(value: &Val) -> Result<Quantity, Fail> {
    match value {
        Val::Int(number) => Ok(Quantity::whole(*number)),
        _ => Err(Fail::no_overload()),
    }
}
