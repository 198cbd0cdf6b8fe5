//! Label and field selectors of requests.
//!
//! Syntax and error texts are those of upstream's `apimachinery/pkg/labels` and
//! `apimachinery/pkg/fields`.

use serde_json::Value;

use crate::kinds::{Resource, SelectableField};
use crate::status::Status;
use crate::store::Object;

pub use steersman_values::label_selector::LabelSelector;

/// The objects that a request selects.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    labels: LabelSelector,
    fields: Vec<FieldTerm>,
}

/// One term of a field selector, such as `spec.nodeName!=a`.
#[derive(Debug, Clone)]
struct FieldTerm {
    field: Field,
    equal: bool,
    value: String,
}

#[derive(Debug, Clone)]
enum Field {
    Name,
    Namespace,
    /// Position in the list of selectable fields of a built-in resource.
    BuiltIn(usize),
    /// A field of a custom resource.
    Custom(SelectableField),
}

impl Selection {
    /// Parses both selectors of a request for `resource`; either may be empty.
    pub fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = LabelSelector::parse(labels).map_err(Status::bad_request)?;
        let fields = parse_fields(resource, fields).map_err(Status::bad_request)?;
        Ok(Self { labels, fields })
    }

    /// A selection of the object with this name.
    pub fn one(name: &str) -> Self {
        let term = FieldTerm {
            field: Field::Name,
            equal: true,
            value: name.to_owned(),
        };
        Self {
            labels: LabelSelector::default(),
            fields: vec![term],
        }
    }

    /// Adds the field selector `metadata.name=name`.
    pub fn and_name(mut self, name: &str) -> Self {
        self.fields.extend(Self::one(name).fields);
        self
    }

    /// Whether the selection matches every object.
    pub fn is_everything(&self) -> bool {
        self.fields.is_empty() && self.labels.is_everything()
    }

    /// Whether the selection matches `object`.
    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(|key| object.label(key))
            && self.fields.iter().all(|term| {
                let is_equal = match &term.field {
                    Field::Name => object.name() == term.value,
                    Field::Namespace => object.namespace() == term.value,
                    Field::BuiltIn(position) => object.field(*position) == term.value,
                    Field::Custom(field) => object.custom_field(field) == term.value,
                };
                is_equal == term.equal
            })
    }
}

/// Parses a field selector. A resource supports its declared fields only.
fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldTerm>, String> {
    let mut terms = Vec::new();
    for term in split_terms(text) {
        if term.is_empty() {
            continue;
        }
        let (label, equal, value) = split_term(term)
            .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
        let field = match label {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            _ => match resource.fields.iter().position(|field| {
                field.label == label && field.group.is_none_or(|group| resource.group == group)
            }) {
                Some(position) if resource.custom.is_some() => {
                    Field::Custom(resource.fields[position].clone())
                }
                Some(position) => Field::BuiltIn(position),
                None if resource.own_field_labels => {
                    return Err(format!("field label not supported: {label}"));
                }
                None => {
                    return Err(format!(
                        "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ));
                }
            },
        };
        terms.push(FieldTerm {
            field,
            equal,
            value: unescape(value),
        });
    }
    Ok(terms)
}

/// Splits at commas, except at those after a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (position, letter) in text.char_indices() {
        if letter == ',' && !escaped {
            terms.push(&text[start..position]);
            start = position + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let position = term.find(['=', '!'])?;
    let (label, rest) = term.split_at(position);
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(operator) {
            return Some((label, equal, value));
        }
    }
    None
}

fn unescape(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            plain.extend(letters.next())
        } else {
            plain.push(letter)
        }
    }
    plain
}

/// Whether a `LabelSelector` value matches the object. A missing selector matches no object, an
/// empty one every object.
pub(crate) fn selects(selector: &Value, object: &Object) -> bool {
    selects_labels(selector, |key| object.label(key))
}

/// The same for labels that are looked up by key.
pub(crate) fn selects_labels<'a>(
    selector: &Value,
    label_of: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    if !selector.is_object() {
        return false;
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    labels
        .into_iter()
        .all(|(key, value)| label_of(key) == value.as_str())
        && expressions.into_iter().all(|expression| {
            let label = label_of(expression["key"].as_str().unwrap_or_default());
            let mut values = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            match expression["operator"].as_str() {
                Some("In") => label.is_some_and(|label| values.any(|value| value == label)),
                Some("NotIn") => label.is_none_or(|label| values.all(|value| value != label)),
                Some("Exists") => label.is_some(),
                Some("DoesNotExist") => label.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::store::EventKind;
    use serde_json::{Value, json};

    #[test]
    fn field_selectors_match_declared_fields() {
        let pods = Registry::built_in().find("", "v1", "pods").unwrap();
        let value = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}});
        let pod = Object::stored(&pods.resource, "n/p", value, 1, EventKind::Added);
        let cases = [
            ("", true),
            ("spec.nodeName=a", true),
            ("spec.nodeName==b", false),
            ("spec.nodeName!=b,metadata.name=p", true),
            ("metadata.namespace!=n", false),
            ("spec.hostNetwork=false", true),
            ("status.phase=", true),
        ];
        for (text, expected) in cases {
            let selection = Selection::parse(&pods.resource, "", text).unwrap();
            assert_eq!(selection.matches(&pod), expected, "{text}");
        }
    }

    /// Recorded from kube-apiserver 1.36.2.
    #[test]
    fn the_source_of_an_event_is_its_controller_where_it_has_none() {
        let registry = Registry::built_in();
        let core = registry.find("", "v1", "events").unwrap();
        let event =
            |content: Value| Object::stored(&core.resource, "n/e", content, 1, EventKind::Added);
        let newer = event(json!({"metadata": {"name": "e"}, "reportingComponent": "c"}));
        let both = json!({"metadata": {"name": "e"}, "source": {"component": "d"}, "reportingComponent": "c"});
        let both = event(both);
        let cases = [
            ("", "source=c", &newer, Ok(true)),
            ("", "source=c", &both, Ok(false)),
            ("", "source=d", &both, Ok(true)),
            ("", "reportingComponent=c", &both, Ok(true)),
            ("", "reportingController=c", &both, Err(())),
            ("", "regarding.name=c", &both, Err(())),
            ("events.k8s.io", "reportingController=c", &both, Ok(true)),
            ("events.k8s.io", "reportingComponent=c", &both, Err(())),
            ("events.k8s.io", "source=d", &both, Err(())),
            ("events.k8s.io", "involvedObject.name=c", &both, Err(())),
            ("events.k8s.io", "regarding.name=", &both, Ok(true)),
        ];
        for (group, text, object, expected) in cases {
            let resource = &registry.find(group, "v1", "events").unwrap().resource;
            let selection = Selection::parse(resource, "", text);
            let found = selection
                .map(|selection| selection.matches(object))
                .map_err(|_| ());
            assert_eq!(found, expected, "{group} {text}");
        }
    }

    #[test]
    fn the_error_names_the_unknown_field() {
        let registry = Registry::built_in();
        let cases = [
            ("pods", "foo=x", "field label not supported: foo"),
            (
                "configmaps",
                "foo=x",
                "\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            (
                "configmaps",
                "metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
        ];
        for (plural, text, message) in cases {
            let resource = registry.find("", "v1", plural).unwrap();
            let refusal = Selection::parse(&resource.resource, "", text).unwrap_err();
            assert_eq!((refusal.code, refusal.message.as_str()), (400, message));
        }
    }
}
