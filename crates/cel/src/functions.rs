//! The table of all functions: signatures for the checker, implementations for evaluation.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::library;
use super::row::Call;
use super::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) member: bool,
    pub(super) params: Vec<Type>,
    pub(super) result: Type,
    pub(super) call: Call,
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for (signature, call) in library::TABLES.iter().copied().flatten() {
        let (name, overload) = parse(signature, *call);
        table.entry(name).or_default().push(overload);
    }
    table
});

/// The overloads of a function or method.
pub(super) fn named(name: &str) -> Option<&'static [Overload]> {
    TABLE.get(name).map(Vec::as_slice)
}

/// The type that a name in an expression means.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "optional_type" => Type::optional(Type::Dyn),
        "bool" | "int" | "uint" | "double" | "string" | "bytes" | "type" => word(name),
        _ => return None,
    })
}

fn parse(signature: &'static str, call: Call) -> (&'static str, Overload) {
    let (member, rest) = match signature.strip_prefix('.') {
        Some(rest) => (true, rest),
        None => (false, signature),
    };
    let (head, result) = rest
        .rsplit_once(") ")
        .filter(|(head, _)| head.contains('('))
        .expect("signatures have arguments and a result");
    let (name, params) = head.split_once('(').expect("checked above");
    let overload = Overload {
        member,
        params: split(params).into_iter().map(parse_type).collect(),
        result: parse_type(result),
        call,
    };
    (name, overload)
}

/// The parts between commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn parse_type(text: &str) -> Type {
    let Some((head, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        return word(text);
    };
    let inner: Vec<Type> = split(inner).into_iter().map(parse_type).collect();
    match (head, &*inner) {
        ("list", [element]) => Type::list(element.clone()),
        ("map", [key, value]) => Type::map(key.clone(), value.clone()),
        ("optional", [value]) => Type::optional(value.clone()),
        _ => unreachable!("signatures have known types: {text}"),
    }
}

fn word(text: &str) -> Type {
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Meta,
        "dyn" => Type::Dyn,
        "URL" => Type::Opaque("kubernetes.URL"),
        "Quantity" => Type::Opaque("kubernetes.Quantity"),
        "IP" => Type::Opaque("net.IP"),
        "CIDR" => Type::Opaque("net.CIDR"),
        "Semver" => Type::Opaque("kubernetes.Semver"),
        "Format" => Type::Opaque("kubernetes.NamedFormat"),
        "Authorizer" => Type::Opaque("kubernetes.authorization.Authorizer"),
        "PathCheck" => Type::Opaque("kubernetes.authorization.PathCheck"),
        "GroupCheck" => Type::Opaque("kubernetes.authorization.GroupCheck"),
        "ResourceCheck" => Type::Opaque("kubernetes.authorization.ResourceCheck"),
        "Decision" => Type::Opaque("kubernetes.authorization.Decision"),
        letter => Type::Param(
            letter
                .chars()
                .next()
                .filter(char::is_ascii_uppercase)
                .expect("signatures have known types"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_of_the_table_is_valid() {
        assert!(named("_+_").is_some_and(|overloads| overloads.len() > 5));
        assert!(TABLE.len() > 100);
    }
}
