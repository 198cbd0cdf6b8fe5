//! Named formats of texts.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/format.go`.

use super::strings::text;
use super::url::Url;
use crate::apimachinery::{formats, string_formats};
use crate::cel::eval::Fail;
use crate::cel::functions::Row;
use crate::cel::value::Val;

/// A format with its check.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    name: &'static str,
    /// The problems of a text.
    check: fn(&str) -> Vec<String>,
    /// Size of the pattern by which upstream counts costs.
    pub(in crate::cel) pattern_size: u64,
}

const fn format(
    name: &'static str,
    check: fn(&str) -> Vec<String>,
    pattern_size: u64,
) -> NamedFormat {
    NamedFormat {
        name,
        check,
        pattern_size,
    }
}

static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", formats::label, 30),
    format("dns1123Subdomain", formats::subdomain, 60),
    format("dns1035Label", formats::dns_label, 30),
    format("qualifiedName", formats::qualified_name, 60),
    format(
        "dns1123LabelPrefix",
        |text| formats::label(&completed(text)),
        30,
    ),
    format(
        "dns1123SubdomainPrefix",
        |text| formats::subdomain(&completed(text)),
        60,
    ),
    format(
        "dns1035LabelPrefix",
        |text| formats::dns_label(&completed(text)),
        30,
    ),
    format("labelValue", formats::label_value, 40),
    format("uri", Url::complaints, 1_000),
    format(
        "uuid",
        |text| of_schema("uuid", text, "does not match the UUID format"),
        100,
    ),
    format(
        "byte",
        |text| of_schema("byte", text, "invalid base64"),
        100,
    ),
    format("date", |text| of_schema("date", text, "invalid date"), 100),
    format(
        "datetime",
        |text| of_schema("datetime", text, "invalid datetime"),
        100,
    ),
];

pub(super) const ROWS: &[Row] = &[
    ("format.named(string) optional(Format)", |args| {
        let name = text(args, 0)?;
        Ok(named(name).map_or(Val::Optional(None), Val::some))
    }),
    ("format.dns1123Label() Format", |_| constant("dns1123Label")),
    ("format.dns1123Subdomain() Format", |_| {
        constant("dns1123Subdomain")
    }),
    ("format.dns1035Label() Format", |_| constant("dns1035Label")),
    ("format.qualifiedName() Format", |_| {
        constant("qualifiedName")
    }),
    ("format.dns1123LabelPrefix() Format", |_| {
        constant("dns1123LabelPrefix")
    }),
    ("format.dns1123SubdomainPrefix() Format", |_| {
        constant("dns1123SubdomainPrefix")
    }),
    ("format.dns1035LabelPrefix() Format", |_| {
        constant("dns1035LabelPrefix")
    }),
    ("format.labelValue() Format", |_| constant("labelValue")),
    ("format.uri() Format", |_| constant("uri")),
    ("format.uuid() Format", |_| constant("uuid")),
    ("format.byte() Format", |_| constant("byte")),
    ("format.date() Format", |_| constant("date")),
    ("format.datetime() Format", |_| constant("datetime")),
    (".validate(Format, string) optional(list(string))", |args| {
        let (Val::Format(format), text) = (&args[0], text(args, 1)?) else {
            return Err(Fail::no_overload());
        };
        let problems = (format.check)(text);
        Ok(match problems.is_empty() {
            true => Val::Optional(None),
            false => Val::some(Val::list(problems.iter().map(|p| Val::text(p)).collect())),
        })
    }),
];

fn named(name: &str) -> Option<Val> {
    let found = FORMATS.iter().find(|format| format.name == name);
    found.map(Val::Format)
}

fn constant(name: &str) -> Result<Val, Fail> {
    named(name).ok_or_else(|| Fail::new("unknown format"))
}

/// A prefix may end with the hyphen that comes before a generated suffix.
fn completed(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(_) => format!("{prefix}a"),
        None => prefix.to_owned(),
    }
}

fn of_schema(format: &str, text: &str, problem: &str) -> Vec<String> {
    match string_formats::fits(format, text) {
        true => Vec::new(),
        false => vec![problem.to_owned()],
    }
}
