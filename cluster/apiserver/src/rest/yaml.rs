//! Parses YAML bodies. The last of several equal keys counts, as in Go.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Spanned, from_str_with_options, options};

/// Begins the error of Go's strict parser, before one line for each equal key.
const ERRORS: &str = "yaml: unmarshal errors:";
/// Begins the same error in an apply request.
pub(super) const CONVERTING: &str = "error converting YAML to JSON: ";

/// The value of the document, and the error of Go's strict parser about equal keys. An error is the
/// reason why there is no value.
pub(super) fn parse(text: &str) -> Result<(Value, Option<String>), String> {
    if let Ok(value) = serde_saphyr::from_str(text) {
        return Ok((value, None));
    }
    Ok((lenient(text)?, duplicates(text)))
}

/// Upstream: `setMapIndex` of `go.yaml.in/yaml/v2`.
fn duplicates(text: &str) -> Option<String> {
    let tree: Tree = lenient(text).ok()?;
    let mut found = Vec::new();
    tree.find(&mut found);
    let lines: Vec<String> = found
        .iter()
        .map(|(line, key)| format!("\n  line {line}: key {key:?} already set in map"))
        .collect();
    (!lines.is_empty()).then(|| format!("{ERRORS}{}", lines.concat()))
}

/// The warnings of a strict error: one for each line of the parser's error.
/// Upstream: `parseYAMLWarnings` of `apiserver/pkg/endpoints/handlers`.
pub(super) fn warnings(error: String) -> Vec<String> {
    let parsers = error.strip_prefix(CONVERTING).unwrap_or(&error);
    match parsers.strip_prefix(ERRORS) {
        Some(lines) => lines
            .trim()
            .lines()
            .map(|line| line.trim().to_owned())
            .collect(),
        None => vec![error],
    }
}

fn lenient<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    let options = options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// All keys of a document, with the lines of their values.
enum Tree {
    Mapping(Vec<(String, Spanned<Tree>)>),
    List(Vec<Tree>),
    Scalar,
}

impl Tree {
    /// Adds keys that appear again, with the line of the later value. Inner mappings come first.
    fn find<'a>(&'a self, found: &mut Vec<(u64, &'a str)>) {
        match self {
            Self::Mapping(pairs) => {
                let mut keys = HashSet::new();
                for (key, value) in pairs {
                    value.value.find(found);
                    if !keys.insert(key) {
                        found.push((value.referenced.line(), key));
                    }
                }
            }
            Self::List(items) => items.iter().for_each(|item| item.find(found)),
            Self::Scalar => {}
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyTree)
    }
}

struct AnyTree;

impl<'de> Visitor<'de> for AnyTree {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Tree, A::Error> {
        let mut mapping = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            mapping.push(pair);
        }
        Ok(Tree::Mapping(mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_of_equal_keys_counts_and_go_names_the_lines_of_the_later_ones() {
        let text = "a: 1\nb:\n  c: p\n  c: q\na:\n- d: {e: 1, e: 2}\n  d: null\n";
        // The second `a` has its value in line 6.
        let expected = "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  \
                        line 6: key \"e\" already set in map\n  line 7: key \"d\" already set in map\n  \
                        line 6: key \"a\" already set in map";
        let value = json!({"a": [{"d": null}], "b": {"c": "q"}});
        assert_eq!(parse(text), Ok((value, Some(expected.to_owned()))));
        let unique = json!({"a": {"b": 1}, "c": {"b": 1}});
        assert_eq!(parse("a: {b: 1}\nc: {b: 1}\n"), Ok((unique, None)));
    }
}
