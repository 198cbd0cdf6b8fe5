//! Labels and label selectors of cached objects.
//!
//! Pods of one template have equal labels, so label sets are shared. Selectors are parsed when
//! their owner is decoded, so a match parses nothing. Matching and parsing follow upstream:
//! `k8s.io/apimachinery/pkg/labels`, and `LabelSelectorAsSelector` in `pkg/apis/meta/v1`.

use std::fmt;

use serde::{Deserialize, Deserializer};

use crate::intern::{Interner, SharedSlice, Sym};
use crate::text::Pairs;

static SETS: Interner<SharedSlice<(Sym, Sym)>> = Interner::new();

/// The labels of one object, sorted by key. Objects with equal labels share one allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Labels(SharedSlice<(Sym, Sym)>);

impl Labels {
    /// The shared set with the pairs `pairs`. For a repeated key, the last value wins.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter();
        let mut sorted: Vec<(Sym, Sym)> = pairs
            .map(|(key, value)| (Sym::new(key), Sym::new(value)))
            .collect();
        // The sort is stable, so the last pair of a repeated key comes last.
        sorted.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        sorted.dedup_by(|later, earlier| {
            let is_repeated = later.0 == earlier.0;
            if is_repeated {
                std::mem::swap(&mut later.1, &mut earlier.1);
            }
            is_repeated
        });
        Self(SETS.intern(&sorted[..]))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Sym> {
        self.0
            .binary_search_by(|(k, _)| k.as_str().cmp(key))
            .ok()
            .map(|at| &self.0[at].1)
    }

    /// All pairs of key and value, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Sym, &Sym)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains every pair of `other`.
    pub fn contains_all(&self, other: &Labels) -> bool {
        other
            .iter()
            .all(|(key, value)| self.get(key) == Some(value))
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self::new([])
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(Pairs::deserialize(deserializer)?.iter()))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Whether `text` is valid as the value of a label. Upstream: `IsValidLabelValue`.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// Whether `text` is valid as the key of a label: a name, after an optional domain and a slash.
/// Upstream: `IsQualifiedName`.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name_part(text),
        Some((domain, name)) => is_subdomain(domain) && is_name_part(name),
    }
}

fn is_name_part(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.starts_with(outer) && text.ends_with(outer) && text.chars().all(inner)
}

fn is_subdomain(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(outer)
            && label.ends_with(outer)
            && label.chars().all(|c| outer(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A parsed `LabelSelector`. It matches labels that meet all of its requirements.
///
/// An absent selector matches nothing ([`Selector::nothing`]). An empty selector matches every
/// object. Upstream: `metav1.LabelSelectorAsSelector`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector(Option<Box<[Requirement]>>);

/// One requirement on labels. Label selectors have the first four forms, and node selectors have
/// all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// `In` with one value, as nearly all requirements are. It needs no list.
    Equals(Sym, Sym),
    In(Sym, Box<[Sym]>),
    NotIn(Sym, Box<[Sym]>),
    Exists(Sym),
    DoesNotExist(Sym),
    /// The label is a decimal number greater than this one.
    GreaterThan(Sym, i64),
    /// The label is a decimal number less than this one.
    LessThan(Sym, i64),
}

impl Requirement {
    /// Whether `labels` meet the requirement. `NotIn` and `DoesNotExist` match a missing key.
    pub fn matches(&self, labels: &Labels) -> bool {
        let number = |key: &str| labels.get(key)?.parse::<i64>().ok();
        match self {
            Self::Equals(key, value) => labels.get(key) == Some(value),
            Self::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Self::Exists(key) => labels.get(key).is_some(),
            Self::DoesNotExist(key) => labels.get(key).is_none(),
            Self::GreaterThan(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::LessThan(key, bound) => number(key).is_some_and(|number| number < *bound),
        }
    }
}

/// An invalid selector, which the validation of the API server rejects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none of In, NotIn, Exists and DoesNotExist.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// The requirement has the operator In or NotIn, and no values.
    #[error("values of {0:?}: must be non-empty for 'In' and 'NotIn'")]
    NoValues(String),
}

/// `LabelSelector` as served.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WireSelector {
    match_labels: std::collections::BTreeMap<String, String>,
    match_expressions: Vec<WireRequirement>,
}

impl From<std::collections::BTreeMap<String, String>> for WireSelector {
    /// A selector for all these labels. ReplicationControllers have their selectors in this form.
    fn from(match_labels: std::collections::BTreeMap<String, String>) -> Self {
        Self {
            match_labels,
            match_expressions: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct WireRequirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl Selector {
    /// The selector that matches no object.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// The selector that requires all these labels.
    pub fn of_labels(labels: &Labels) -> Self {
        let equals = |(key, value): (&Sym, &Sym)| Requirement::Equals(key.clone(), value.clone());
        Self(Some(labels.iter().map(equals).collect()))
    }

    /// Parses the served selector. `None`, an absent selector, matches nothing.
    pub fn parse(wire: Option<&WireSelector>) -> Result<Self, SelectorError> {
        let Some(wire) = wire else {
            return Ok(Self::nothing());
        };
        let mut all: Vec<Requirement> = wire
            .match_labels
            .iter()
            .map(|(k, v)| Requirement::Equals(Sym::new(k), Sym::new(v)))
            .collect();
        for WireRequirement {
            key,
            operator,
            values,
        } in &wire.match_expressions
        {
            let values: Box<[Sym]> = values.iter().map(|v| Sym::new(v)).collect();
            let name = Sym::new(key);
            if values.is_empty() && matches!(operator.as_str(), "In" | "NotIn") {
                return Err(SelectorError::NoValues(key.clone()));
            }
            all.push(match operator.as_str() {
                "In" => match &values[..] {
                    [value] => Requirement::Equals(name, value.clone()),
                    _ => Requirement::In(name, values),
                },
                "NotIn" => Requirement::NotIn(name, values),
                "Exists" => Requirement::Exists(name),
                "DoesNotExist" => Requirement::DoesNotExist(name),
                other => return Err(SelectorError::Operator(other.to_owned())),
            });
        }
        Ok(Self(Some(all.into())))
    }

    /// Whether `labels` meet all requirements. `NotIn` and `DoesNotExist` match a missing key.
    pub fn matches(&self, labels: &Labels) -> bool {
        let Some(requirements) = &self.0 else {
            return false;
        };
        requirements
            .iter()
            .all(|requirement| requirement.matches(labels))
    }

    /// The pairs of key and value that every matching label set contains.
    pub fn required_pairs(&self) -> impl Iterator<Item = (&Sym, &Sym)> {
        self.0
            .iter()
            .flatten()
            .filter_map(|requirement| match requirement {
                Requirement::Equals(key, value) => Some((key, value)),
                _ => None,
            })
    }

    /// Whether this is the empty selector, which matches every object.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(|all| all.is_empty())
    }

    /// Whether this is the absent selector, which matches nothing.
    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for Selector {
    /// Writes the form of the query parameter `labelSelector`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[Sym]| values.iter().map(Sym::as_str).collect::<Vec<_>>().join(",");
        for (i, requirement) in self.0.iter().flatten().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match requirement {
                Requirement::Equals(key, value) => write!(f, "{key}={value}")?,
                Requirement::In(key, values) => write!(f, "{key} in ({})", list(values))?,
                Requirement::NotIn(key, values) => write!(f, "{key} notin ({})", list(values))?,
                Requirement::Exists(key) => write!(f, "{key}")?,
                Requirement::DoesNotExist(key) => write!(f, "!{key}")?,
                Requirement::GreaterThan(key, bound) => write!(f, "{key}>{bound}")?,
                Requirement::LessThan(key, bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: serde_json::Value) -> Result<Selector, SelectorError> {
        Selector::parse(Some(&serde_json::from_value(json).unwrap()))
    }

    #[test]
    fn label_keys_and_values_are_checked_like_upstream() {
        let long = "a".repeat(64);
        // (text, valid as value, valid as key)
        let cases = [
            ("", true, false),
            ("web", true, true),
            ("a_b-c.D", true, true),
            ("-1", false, false),
            ("1-", false, false),
            ("a b", false, false),
            ("k8s.io/name", false, true),
            ("K8s.io/name", false, false),
            ("/name", false, false),
            ("k8s.io/", false, false),
            ("a/b/c", false, false),
            (&long[1..], true, true),
            (&long, false, false),
        ];
        for (text, value, key) in cases {
            assert_eq!(
                (is_label_value(text), is_label_key(text)),
                (value, key),
                "{text}"
            );
        }
    }

    #[test]
    fn the_last_value_of_a_repeated_key_wins() {
        let labels = Labels::new([("b", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("b", "5")]);
        let pairs: Vec<_> = labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "4"), ("b", "5")]);
    }

    /// An insertion into a sorted list moves, for 200,000 keys in descending order, 20 billion pairs.
    #[test]
    fn unsorted_labels_take_no_quadratic_time() {
        let keys: Vec<String> = (0..200_000).map(|key| format!("{key:06}")).rev().collect();
        let labels = Labels::new(keys.iter().map(|key| (key.as_str(), "")));
        assert_eq!(labels.iter().count(), keys.len());
        assert!(labels.iter().map(|(key, _)| key.as_str()).is_sorted());
    }

    #[test]
    fn selectors_match_like_upstream() {
        let labels = Labels::new([("app", "web"), ("tier", "front")]);
        // (case, selector, matches)
        let cases = [
            ("empty", serde_json::json!({}), true),
            (
                "equal",
                serde_json::json!({"matchLabels": {"app": "web"}}),
                true,
            ),
            (
                "other value",
                serde_json::json!({"matchLabels": {"app": "db"}}),
                false,
            ),
            (
                "missing key",
                serde_json::json!({"matchLabels": {"zone": "a"}}),
                false,
            ),
            (
                "in",
                serde_json::json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}),
                true,
            ),
            (
                "not in",
                serde_json::json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
                false,
            ),
            (
                "not in, key absent",
                serde_json::json!({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
            (
                "exists",
                serde_json::json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                true,
            ),
            (
                "does not exist",
                serde_json::json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
        ];
        for (case, json, expected) in cases {
            assert_eq!(selector(json).unwrap().matches(&labels), expected, "{case}");
        }
        assert!(!Selector::nothing().matches(&labels));
        assert!(
            selector(serde_json::json!({"matchExpressions": [{"key": "a", "operator": "In"}]}))
                .is_err()
        );
        assert!(selector(serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]})).is_err());
    }
}
