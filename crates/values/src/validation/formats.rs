//! Formats of names, labels and keys. Each function returns the errors of a text.
//!
//! The texts are those of upstream's `apimachinery/pkg/util/validation`.

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
const UNDERSCORE_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const VARIABLE: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The same for labels and their keys, in upstream's newer words.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Whether `text` starts and ends with a `letter`, and has only `letter` and `inner` bytes.
fn is_framed(text: &str, letter: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            letter(*first)
                && letter(*last)
                && bytes
                    .iter()
                    .all(|byte| letter(*byte) || inner.contains(byte))
        }
        _ => false,
    }
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    is_framed(text, is_lower, b"-")
}

pub fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

pub fn label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) {
        // A valid subdomain that is no label contains dots.
        problems.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            LABEL_1123.to_owned()
        });
    }
    problems
}

pub fn subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !is_subdomain(text) {
        problems.push(SUBDOMAIN.to_owned());
    }
    problems
}

/// Names of DNS search lists, which can contain underscores.
pub fn subdomain_with_underscore(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    let is_part = |part: &str| is_framed(part.strip_prefix('_').unwrap_or(part), is_lower, b"-_");
    if !text.split('.').all(is_part) {
        problems.push(UNDERSCORE_SUBDOMAIN.to_owned());
    }
    problems
}

/// Subdomains whose first label is `*`, as in certificates.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        problems.push(WILDCARD.to_owned());
    }
    problems
}

/// Names of environment variables.
pub fn variable(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.is_empty() {
        problems.push("environment variable name must be non-empty".to_owned());
    }
    let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if !text.bytes().all(is_allowed) {
        problems.push(VARIABLE.to_owned());
    }
    problems
}

/// Names of headers that a probe sends.
pub fn http_header(text: &str) -> Vec<String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !text.is_empty() && text.bytes().all(is_allowed) {
        Vec::new()
    } else {
        vec![HTTP_HEADER.to_owned()]
    }
}

/// Names that are also identifiers: labels that start with a letter.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) || text.starts_with(|letter: char| letter.is_ascii_digit()) {
        problems.push(LABEL_1035.to_owned());
    }
    problems
}

/// Names that only need to fit into a URL, such as those of RBAC objects.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| text.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// IP addresses in their only canonical form, which are the names of IPAddresses.
pub fn ip_address(text: &str) -> Vec<String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form (\"{address}\")")],
        Err(_) => {
            vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
        }
    }
}

/// A name with an optional subdomain as prefix: keys of labels, annotations and taints.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    problems.push(format!("prefix part {}", too_many_bytes(253)));
                }
                if !is_subdomain(prefix) {
                    problems.push(format!("prefix part {SUBDOMAIN}"));
                }
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_framed(name, |byte| byte.is_ascii_alphanumeric(), b"-_.") {
        problems.push(format!("name part {NAME_PART}"));
    }
    problems
}

pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_framed(text, |byte| byte.is_ascii_alphanumeric(), b"-_.") {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

/// Keys of ConfigMaps and Secrets.
pub fn config_key(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_key) {
        problems.push(CONFIG_KEY.to_owned());
    } else if text == "." || text == ".." {
        problems.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        problems.push("must not start with '..'".to_owned());
    }
    problems
}

/// Names of container ports.
pub fn port_name(text: &str) -> Vec<String> {
    let checks = [
        (text.len() > 15, "must be no more than 15 characters"),
        (
            text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte == b'-'),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !text.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (
            text.starts_with('-') || text.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    checks
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, complaint)| complaint.to_owned())
        .collect()
}

/// The part of a domain-prefixed path after the domain.
pub fn http_path(text: &str) -> Vec<String> {
    const FORM: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !text.is_empty() && text.chars().all(is_allowed) {
        Vec::new()
    } else {
        vec![format!(
            "Invalid path (regex used for validation is '{FORM}')"
        )]
    }
}

/// Identifiers of the language C.
pub fn c_identifier(text: &str) -> Vec<String> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_valid = text.bytes().next().is_some_and(is_letter)
        && text
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit());
    if is_valid {
        Vec::new()
    } else {
        vec![C_IDENTIFIER.to_owned()]
    }
}

pub fn percent(text: &str) -> Vec<String> {
    let is_percent = text.strip_suffix('%').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    if is_percent {
        Vec::new()
    } else {
        vec![PERCENT.to_owned()]
    }
}

pub fn condition_reason(text: &str) -> Vec<String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_reason = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(is_word)
        && text
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b',' | b':'));
    if is_reason {
        Vec::new()
    } else {
        vec![REASON.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_reject_texts() {
        type Format = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let cases: [(Format, &str, bool); 39] = [
            (label, "a-1", true),
            (label, "1a", true),
            (label, "A", false),
            (label, "a.b", false),
            (label, "-a", false),
            (label, "", false),
            (label, &long, false),
            (subdomain, "a.b-c.1", true),
            (subdomain, "a..b", false),
            (subdomain, &long, true),
            (qualified_name, "A_b.c", true),
            (qualified_name, "example.com/A", true),
            (qualified_name, "Example.com/A", false),
            (qualified_name, "/a", false),
            (qualified_name, "a/", false),
            (qualified_name, "a/b/c", false),
            (label_value, "", true),
            (label_value, "A.b_c-1", true),
            (label_value, "a b", false),
            (label_value, &long, false),
            (config_key, ".hidden", true),
            (config_key, "..", false),
            (config_key, "a b", false),
            (port_name, "http-2", true),
            (port_name, "80", false),
            (subdomain_with_underscore, "_a.b_c", true),
            (subdomain_with_underscore, "a._", false),
            (variable, "1 a.b", true),
            (variable, "a=b", false),
            (variable, "ä", false),
            (http_header, "X-A", true),
            (http_header, "X_A", false),
            (percent, "10%", true),
            (percent, "%", false),
            (condition_reason, "A", true),
            (condition_reason, "ReasonA:Reason_B,c9", true),
            (condition_reason, "9A", false),
            (condition_reason, "A:", false),
            (condition_reason, "A b", false),
        ];
        for (format, text, valid) in cases {
            assert_eq!(format(text).is_empty(), valid, "{text}: {:?}", format(text));
        }
        assert_eq!(label("a.b"), ["must not contain dots"]);
    }
}
