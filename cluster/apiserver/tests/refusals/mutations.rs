//! Changes of a valid object, each of which breaks one rule that the object may have.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::schema::{Form, Schema};

/// A change at one place of an object.
#[derive(Clone)]
pub(crate) struct Mutation {
    /// The changed place.
    pub(crate) path: Vec<Step>,
    /// The kind of change.
    pub(crate) how: &'static str,
    /// The new value; `None` removes the field.
    pub(crate) value: Option<Value>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

impl Mutation {
    /// Whether an update shows more than a creation: the change may touch an immutable field.
    pub(crate) fn concerns_updates(&self) -> bool {
        ["changed", "missing", "flipped", "filled", "plain"].contains(&self.how)
    }

    /// The path as in field errors, then the kind of change.
    pub(crate) fn name(&self) -> String {
        let mut name = String::new();
        for step in &self.path {
            match step {
                Step::Field(field) if name.is_empty() => name.push_str(field),
                Step::Field(field) => name.push_str(&format!(".{field}")),
                Step::Item(index) => name.push_str(&format!("[{index}]")),
            }
        }
        format!("{name}/{}", self.how)
    }

    /// The changed object.
    pub(crate) fn applied(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let (last, outer) = self.path.split_last().unwrap();
        let holder = outer.iter().fold(&mut object, |at, step| match step {
            Step::Field(name) => &mut at[name.as_str()],
            Step::Item(index) => &mut at[*index],
        });
        match (last, &self.value) {
            (Step::Field(name), Some(value)) => holder[name.as_str()] = value.clone(),
            (Step::Field(name), None) => drop(holder.as_object_mut().unwrap().remove(name)),
            (Step::Item(index), Some(value)) => holder[*index] = value.clone(),
            (Step::Item(index), None) => drop(holder.as_array_mut().unwrap().remove(*index)),
        }
        object
    }

    /// The change as a JSON merge patch. A patch replaces lists as a whole.
    pub(crate) fn merge_patch(&self, object: &Value) -> Value {
        let is_field = |step: &&Step| matches!(step, Step::Field(_));
        let fields: Vec<&Step> = self.path.iter().take_while(is_field).collect();
        let changed = self.applied(object);
        let leaf = fields
            .iter()
            .try_fold(&changed, |at, step| match step {
                Step::Field(name) => at.get(name),
                Step::Item(_) => None,
            })
            .cloned()
            .unwrap_or(Value::Null);
        fields.iter().rev().fold(leaf, |inner, step| match step {
            Step::Field(name) => json!({ name.as_str(): inner }),
            Step::Item(_) => inner,
        })
    }
}

/// A text that is no name, enum value, address or other formatted text.
const MALFORMED: &str = "Not_Valid!";

/// Length of a text that is longer than any name may be.
pub(crate) const LONG: usize = 254;

/// Types whose fields need no checks within other kinds, because their own kind covers them.
const COVERED_ELSEWHERE: [(&str, &str); 2] = [
    ("io.k8s.api.core.v1.PodSpec", "Pod"),
    (
        "io.k8s.api.core.v1.PersistentVolumeClaimSpec",
        "PersistentVolumeClaim",
    ),
];

/// All changes of the valid object `seed`, whose type is `kind`, in a fixed order.
pub(crate) fn of(schema: &Schema, kind: &str, seed: &Value) -> Vec<Mutation> {
    let mut walk = Walk {
        schema,
        kind: seed["kind"].as_str().unwrap(),
        seen: HashSet::new(),
        found: Vec::new(),
    };
    walk.fields(kind, seed, &mut Vec::new());
    walk.found
}

struct Walk<'a> {
    schema: &'a Schema,
    kind: &'a str,
    /// Type, field, whether it is present, and change. The same change of another item of a list
    /// shows nothing new.
    seen: HashSet<(String, String, bool, &'static str)>,
    found: Vec<Mutation>,
}

impl<'a> Walk<'a> {
    fn fields(&mut self, shape: &str, value: &Value, path: &mut Vec<Step>) {
        let is_root = path.is_empty();
        let is_covered = COVERED_ELSEWHERE
            .iter()
            .any(|(name, kind)| *name == shape && *kind != self.kind);
        for (name, field) in self.schema.fields(shape) {
            let server_sets = [
                "creationTimestamp",
                "deletionGracePeriodSeconds",
                "deletionTimestamp",
                "generation",
                "managedFields",
                "resourceVersion",
                "selfLink",
                "uid",
            ];
            let is_metadata = shape.ends_with(".ObjectMeta");
            if (is_root && ["apiVersion", "kind", "status"].contains(&name))
                || (is_metadata && server_sets.contains(&name))
            {
                continue;
            }
            path.push(Step::Field(name.to_owned()));
            let form = self.schema.form(field);
            let present = value.get(name);
            self.value(shape, name, form, present, path);
            if let Some(value) = present.filter(|_| !is_covered) {
                self.inner(shape, name, form, value, path);
            }
            path.pop();
        }
    }

    /// Visits the values within `value`.
    fn inner(
        &mut self,
        shape: &str,
        name: &str,
        form: Form<'a>,
        value: &Value,
        path: &mut Vec<Step>,
    ) {
        match (form, value) {
            (Form::Struct(inner), Value::Object(_)) => self.fields(inner, value, path),
            (Form::List(item), Value::Array(items)) => {
                let form = self.schema.form(item);
                for (index, value) in items.iter().enumerate() {
                    path.push(Step::Item(index));
                    match form {
                        Form::Struct(inner) => self.fields(inner, value, path),
                        _ => self.value(shape, &format!("{name}[]"), form, Some(value), path),
                    }
                    path.pop();
                }
            }
            (Form::Map(item), Value::Object(entries)) => {
                let form = self.schema.form(item);
                for (key, value) in entries.iter().take(2) {
                    path.push(Step::Field(key.clone()));
                    match form {
                        Form::Struct(inner) => self.fields(inner, value, path),
                        _ => self.value(shape, &format!("{name}{{}}"), form, Some(value), path),
                    }
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn add(
        &mut self,
        place: (&str, &str),
        present: bool,
        path: &[Step],
        how: &'static str,
        value: Option<Value>,
    ) {
        let key = (place.0.to_owned(), place.1.to_owned(), present, how);
        if self.seen.insert(key) {
            self.found.push(Mutation {
                path: path.to_vec(),
                how,
                value,
            });
        }
    }

    /// Adds the changes of one value.
    fn value(
        &mut self,
        shape: &str,
        name: &str,
        form: Form<'a>,
        present: Option<&Value>,
        path: &[Step],
    ) {
        let place = (shape, name);
        let is_present = present.is_some();
        let mut add = |how: &'static str, value: Option<Value>| {
            self.add(place, is_present, path, how, value);
        };
        if is_present && matches!(path.last(), Some(Step::Field(_))) {
            add("missing", None);
        }
        let mut changes: Vec<(&'static str, Value)> = match form {
            Form::Text => vec![("empty", json!("")), ("malformed", json!(MALFORMED))],
            Form::Bytes => vec![("malformed", json!("%%%"))],
            Form::Time => vec![("malformed", json!("yesterday"))],
            Form::Quantity => vec![
                ("negative", json!("-1")),
                ("malformed", json!(MALFORMED)),
                ("fraction", json!("1.0005")),
            ],
            Form::IntOrString => vec![
                ("negative", json!(-1)),
                ("zero", json!(0)),
                ("large", json!(70000)),
                ("malformed", json!(MALFORMED)),
                ("percentage", json!("150%")),
            ],
            Form::Integer | Form::Number => vec![
                ("negative", json!(-1)),
                ("zero", json!(0)),
                ("large", json!(70000)),
            ],
            Form::Boolean => match present {
                Some(value) => vec![("flipped", json!(value == false))],
                None => vec![("true", json!(true)), ("false", json!(false))],
            },
            Form::Struct(_) => vec![("empty", json!({}))],
            Form::List(item) => {
                let mut changes = vec![("empty", json!([]))];
                match self.schema.form(item) {
                    Form::Text => {
                        changes.push(("empty-item", json!([""])));
                        changes.push(("malformed-item", json!([MALFORMED])));
                    }
                    Form::Struct(_) => changes.push(("empty-item", json!([{}]))),
                    _ => {}
                }
                changes
            }
            Form::Map(item) => {
                let valid = self.filled(self.schema.form(item), 2);
                let mut changes = vec![("malformed-key", json!({ MALFORMED: valid }))];
                if matches!(self.schema.form(item), Form::Text) {
                    changes.push(("malformed-value", json!({"example.com/key": MALFORMED})));
                }
                changes
            }
            Form::Any => vec![("text", json!("text"))],
        };
        match (form, present) {
            (Form::Text, Some(_)) => {
                changes.push(("long", json!("a".repeat(LONG))));
                changes.push(("changed", json!("changed")));
                changes.push(("number", json!(7)));
            }
            (Form::Integer | Form::Number | Form::Boolean | Form::Struct(_), Some(_)) => {
                changes.push(("text", json!("text")));
            }
            (Form::List(_), Some(Value::Array(items))) if !items.is_empty() => {
                let twice: Vec<&Value> = items.iter().chain(items.first()).collect();
                changes.push(("duplicate", json!(twice)));
                changes.push(("text", json!("text")));
            }
            (Form::Text, None) => changes.push(("plain", json!("plain"))),
            (Form::Struct(_) | Form::List(_), None) => {
                changes.push(("filled", self.filled(form, 5)));
            }
            _ => {}
        }
        for (how, value) in changes {
            self.add(place, is_present, path, how, Some(value));
        }
    }

    /// A value with every field, at most `depth` levels deep.
    fn filled(&self, form: Form<'a>, depth: usize) -> Value {
        match form {
            Form::Text => json!("plain"),
            Form::Bytes => json!("aGVsbG8="),
            Form::Time => json!("2024-01-01T00:00:00Z"),
            Form::Quantity => json!("1"),
            Form::IntOrString | Form::Integer | Form::Number => json!(1),
            Form::Boolean => json!(true),
            Form::Any => json!({}),
            _ if depth == 0 => match form {
                Form::List(_) => json!([]),
                _ => json!({}),
            },
            Form::Struct(name) => {
                let fields = self.schema.fields(name).into_iter();
                fields
                    .map(|(name, field)| {
                        let value = self.filled(self.schema.form(field), depth - 1);
                        (name.to_owned(), value)
                    })
                    .collect()
            }
            Form::List(item) => json!([self.filled(self.schema.form(item), depth - 1)]),
            Form::Map(item) => json!({"key": self.filled(self.schema.form(item), depth - 1)}),
        }
    }
}
