//! Numbers, names and protocols of ports.

use serde_json::Value;

use super::{Errors, Path, formats};

/// Protocols of ports.
pub(in super::super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks a port number.
pub(in super::super) fn port_number(field: impl Into<String>, number: i64, errors: &mut Errors) {
    if !(1..=65535).contains(&number) {
        errors.invalid(field, number, "must be between 1 and 65535, inclusive");
    }
}

/// Checks a port number, or the name of a port.
pub(in super::super) fn port_number_or_name(path: &Path<'_>, port: &Value, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.complaints(path, name, formats::port_name(name)),
        other => port_number(path, other.as_i64().unwrap_or(0), errors),
    }
}
