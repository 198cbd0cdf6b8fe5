//! Named formats of texts.

use steersman_values::validation::{formats, string_formats};

use super::url::Url;

/// A format with its check.
#[derive(Debug)]
pub struct NamedFormat {
    name: &'static str,
    /// The problems of a text.
    pub(crate) check: fn(&str) -> Vec<String>,
    /// Size of the pattern by which upstream counts costs.
    pub(crate) pattern_size: u64,
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

impl NamedFormat {
    /// The format with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }
}

/// A prefix may end with the hyphen that comes before a generated suffix.
fn completed(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(_) => format!("{prefix}a"),
        None => prefix.to_owned(),
    }
}

fn of_schema(format: &str, text: &str, problem: &str) -> Vec<String> {
    if string_formats::fits(format, text) {
        Vec::new()
    } else {
        vec![problem.to_owned()]
    }
}
