//! Empty lists and maps in the body of a write.
//!
//! Go distinguishes them from missing ones until it stores the object: errors show `[]` in place of
//! `null`, fields that are always written have a manager, and `reflect.DeepEqual` sees a change. The
//! normal form of [`super::shape`] has neither, so that a write remembers their places.

use serde_json::{Value, json};

use super::{Struct, Type};

/// The places of empty lists and maps in an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Empties(Vec<Place>);

#[derive(Debug, Clone, PartialEq)]
struct Place {
    path: Vec<Step>,
    is_map: bool,
    /// The encoder writes the field even if it is empty.
    always: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Empties {
    /// The empty lists and maps of an object of built-in kind `kind`.
    pub(crate) fn of(kind: &str, object: &Value) -> Self {
        let mut found = Self::default();
        if let Some(shape) = super::of_object(kind, object) {
            found.search(shape, object, &mut Vec::new());
        }
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the top-level field `field` of `object` lacks empty lists or maps. Defaults can have
    /// filled the others.
    pub(crate) fn lack_in(&self, object: &Value, field: &str) -> bool {
        let is_first = |step: &Step| matches!(step, Step::Key(key) if key == field);
        let is_in = |place: &Place| place.path.first().is_some_and(is_first);
        self.0.iter().any(is_in) && self.all_in(object)[field] != object[field]
    }

    /// `object` with the empty lists and maps in the places where it has nothing.
    pub(crate) fn all_in(&self, object: &Value) -> Value {
        let mut shown = object.clone();
        for place in &self.0 {
            place.fill(&mut shown);
        }
        shown
    }

    /// The same with those that the encoder writes; `None` if there are none.
    pub(crate) fn written_in(&self, object: &Value) -> Option<Value> {
        let mut places = self.0.iter().filter(|place| place.always).peekable();
        places.peek()?;
        let mut shown = object.clone();
        for place in places {
            place.fill(&mut shown);
        }
        Some(shown)
    }

    fn search(&mut self, shape: &Struct, value: &Value, path: &mut Vec<Step>) {
        let mut next = 0;
        for (name, value) in value.as_object().into_iter().flatten() {
            let Some(at) = shape.position(name, next) else {
                continue;
            };
            next = at + 1;
            let field = &shape.fields()[at];
            path.push(Step::Key(name.clone()));
            self.visit(&field.ty, value, field.always, path);
            path.pop();
        }
    }

    fn visit(&mut self, ty: &Type, value: &Value, always: bool, path: &mut Vec<Step>) {
        match (ty, value) {
            (Type::Struct(_), Value::Object(fields)) if !fields.is_empty() => {
                if let Some(shape) = ty.as_struct() {
                    self.search(shape, value, path);
                }
            }
            (Type::List(_), Value::Array(items)) if items.is_empty() => {
                self.add(path, false, always);
            }
            (Type::Map(_), Value::Object(entries)) if entries.is_empty() => {
                self.add(path, true, always);
            }
            (Type::List(item), Value::Array(items)) if item.is_container() => {
                for (index, value) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    self.visit(item, value, false, path);
                    path.pop();
                }
            }
            (Type::Map(item), Value::Object(entries)) if item.is_container() => {
                for (key, value) in entries {
                    path.push(Step::Key(key.clone()));
                    self.visit(item, value, false, path);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, path: &[Step], is_map: bool, always: bool) {
        self.0.push(Place {
            path: path.to_vec(),
            is_map,
            always,
        });
    }
}

impl Place {
    fn fill(&self, object: &mut Value) {
        let Some((last, way)) = self.path.split_last() else {
            return;
        };
        let mut at = object;
        for step in way {
            let next = match step {
                Step::Key(key) => at.get_mut(key),
                Step::Index(index) => at.get_mut(index),
            };
            let Some(next) = next else { return };
            at = next;
        }
        let empty = match self.is_map {
            true => json!({}),
            false => json!([]),
        };
        if let (Step::Key(key), Some(fields)) = (last, at.as_object_mut())
            && fields.get(key).is_none_or(Value::is_null)
        {
            fields.insert(key.clone(), empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::shape;

    #[test]
    fn empty_lists_and_maps_return_to_their_places() {
        let sent = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "labels": {}},
            "rules": [{"verbs": [], "resources": []}, {"verbs": ["get"]}],
        });
        let empties = Empties::of("Role", &sent);
        let mut object = sent.clone();
        shape::normalize("Role", &mut object);
        assert_ne!(object, sent);
        assert_eq!(empties.all_in(&object), sent);
        let written = empties.written_in(&object).unwrap();
        assert_eq!(written["rules"], json!([{"verbs": []}, {"verbs": ["get"]}]));
        assert!(empties.lack_in(&object, "rules") && !empties.lack_in(&object, "spec"));
        assert!(!empties.lack_in(&sent, "rules"));
    }

    #[test]
    fn filled_fields_and_structs_are_no_empty_lists_or_maps() {
        let sent = json!({"metadata": {}, "spec": {"podSelector": {}, "ingress": []}});
        let empties = Empties::of("NetworkPolicy", &sent);
        let mut filled = sent.clone();
        filled["spec"]["ingress"] = json!([{}]);
        assert_eq!(empties.all_in(&filled), filled);
        assert_eq!(empties.written_in(&filled), None);
        assert_eq!(empties.0.len(), 1);
    }
}
