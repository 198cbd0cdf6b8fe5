//! The functions of expressions: the standard ones, cel-go's extensions and Kubernetes' libraries.
//!
//! The set is the one of `k8s.io/apiserver/pkg/cel/environment` in version 1.36.

mod args;
mod authz;
mod cidr;
mod convert;
mod format;
mod ip;
mod lists;
mod operators;
mod optional;
mod printf;
mod quantity;
mod regex;
mod semver;
mod sets;
mod strings;
mod times;
mod url;

use super::row::Row;

/// The rows of all functions.
pub(super) const TABLES: &[&[Row]] = &[
    operators::ROWS,
    operators::COMPARISONS,
    convert::ROWS,
    times::ROWS,
    strings::ROWS,
    optional::ROWS,
    lists::ROWS,
    sets::ROWS,
    regex::ROWS,
    url::ROWS,
    quantity::ROWS,
    ip::ROWS,
    cidr::ROWS,
    format::ROWS,
    semver::ROWS,
    authz::ROWS,
];
