//! JSONPath in definitions. The syntax is that of RFC 9535, with two differences: the leading `$`
//! is optional, and `\.` is a dot inside a name.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone)]
pub(super) struct JsonPath(JpQuery);

impl JsonPath {
    /// Parses a path; `None` if the syntax is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse_json_path(&to_rfc_9535(text)?).ok().map(Self)
    }

    /// The first value that the path selects.
    pub(super) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        js_path_process(&self.0, object)
            .ok()?
            .into_iter()
            .next()
            .map(|found| found.val())
    }
}

/// The names in a path of plain names, such as `.spec.replicas`; `None` for other paths.
pub(crate) fn names(text: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = text.strip_prefix('.')?.split('.').collect();
    let plain = |name: &&str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte))
    };
    names.iter().all(plain).then_some(names)
}

/// The path in the syntax of RFC 9535, with names in brackets.
fn to_rfc_9535(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    let mut path = String::from("$");
    while !rest.is_empty() {
        if rest.starts_with('[') {
            let end = closing(&rest[1..])? + 2;
            path.push_str(&rest[..end].replace("\\.", "."));
            rest = &rest[end..];
            continue;
        }
        rest = rest.strip_prefix('.')?;
        if let Some(below) = rest.strip_prefix('.') {
            path.push_str("..");
            rest = below;
        }
        let (name, after) = split_name(rest);
        match name.as_str() {
            "" if path.ends_with("..") && after.starts_with('[') => {}
            "" => return None,
            "*" => path.push_str("[*]"),
            name => path.push_str(&format!("['{}']", name.replace('\'', "\\'"))),
        }
        rest = after;
    }
    Some(path)
}

/// A name up to the next unescaped dot or bracket, and the rest of the text.
fn split_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '.' | '[' if !escaped => return (name, &text[at..]),
            _ => name.push(letter),
        }
        escaped = false;
    }
    (name, "")
}

/// The position of the bracket that closes the one before `text`. Quoted text and inner brackets
/// are skipped.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_values() {
        let object = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"size": 3, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
        });
        let cases = [
            (".spec.size", json!(3)),
            ("$.spec.size", json!(3)),
            (".spec.missing", json!(null)),
            (".metadata.labels.app\\.kubernetes\\.io/name", json!("web")),
            (
                ".metadata.labels['app\\.kubernetes\\.io/name']",
                json!("web"),
            ),
            (".spec.ports[*].name", json!("a")),
            (".spec.ports[1].port", json!(2)),
            (".spec.ports[-1:].name", json!("b")),
            (".spec.ports[5].port", json!(null)),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!("True"),
            ),
            (
                ".status.conditions[?(@.type == 'Synced')].status",
                json!("False"),
            ),
            (".spec.ports[?(@.port>=2)].name", json!("b")),
            ("..port", json!(1)),
        ];
        for (path, expected) in cases {
            let path = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} is a path"));
            assert_eq!(
                path.first(&object).unwrap_or(&Value::Null),
                &expected,
                "{path:?}"
            );
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        for text in ["spec", ".spec[", ".spec..", ".a[b]", "."] {
            assert!(JsonPath::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn plain_paths_are_lists_of_names() {
        assert_eq!(names(".spec.replicas"), Some(vec!["spec", "replicas"]));
        assert_eq!(names(".spec.list[0]"), None);
        assert_eq!(names("spec"), None);
    }
}
