//! The `scale` subresource of a custom kind: reads and writes the replicas and the selector at the
//! paths of the definition.
//!
//! Upstream: `pkg/registry/customresource/etcd.go` of apiextensions-apiserver.

use serde_json::{Map, Value};

use super::jsonpath::names;
use crate::fielderror::{FieldError, Problem};
use crate::go_format::{printed, type_name};

/// The paths of spec replicas, status replicas and selector.
#[derive(Debug)]
pub(crate) struct Scale {
    spec: Path,
    status: Path,
    selector: Option<Path>,
}

#[derive(Debug)]
struct Path {
    text: String,
    names: Vec<String>,
}

impl Path {
    fn parse(text: &Value) -> Option<Self> {
        let text = text.as_str()?;
        Some(Self {
            text: text.to_owned(),
            names: names(text)?.into_iter().map(str::to_owned).collect(),
        })
    }

    /// The value at this path, if any. The error tells that a value on the way has no fields.
    fn find<'a>(&self, object: &'a Value) -> Result<Option<&'a Value>, String> {
        let mut at = object;
        for (above, name) in self.names.iter().enumerate() {
            let fields = match at {
                Value::Null => return Ok(None),
                Value::Object(fields) => fields,
                other => {
                    let names = &self.names[..=above];
                    return Err(misfit(names, other, "map[string]interface{}"));
                }
            };
            let Some(value) = fields.get(name) else {
                return Ok(None);
            };
            at = value;
        }
        Ok(Some(at))
    }

    /// The value at this path, if any, which `read` must understand.
    fn typed<'a, T>(
        &self,
        object: &'a Value,
        name: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.find(object)? else {
            return Ok(None);
        };
        let read = read(value).ok_or_else(|| misfit(&self.names, value, name))?;
        Ok(Some(read))
    }

    fn number(&self, object: &Value) -> Result<Option<i64>, String> {
        self.typed(object, "int64", Value::as_i64)
    }

    fn string<'a>(&self, object: &'a Value) -> Result<Option<&'a str>, String> {
        self.typed(object, "string", Value::as_str)
    }

    fn invalid(&self, value: impl Into<Value>, why: String) -> FieldError {
        FieldError {
            field: self.text.clone(),
            problem: Problem::Invalid(value.into(), why),
        }
    }

    /// The error of the replicas at this path, if any.
    fn error(&self, object: &Value) -> Option<FieldError> {
        let most = i64::from(i32::MAX);
        match self.number(object) {
            Err(why) => Some(self.invalid(0, why)),
            Ok(Some(replicas @ ..0)) => {
                Some(self.invalid(replicas, "should be a non-negative integer".to_owned()))
            }
            Ok(Some(replicas)) if replicas > most => {
                Some(self.invalid(replicas, format!("should be less than or equal to {most}")))
            }
            Ok(_) => None,
        }
    }
}

/// The error about a value of another type than `expected`.
///
/// Upstream: `NestedInt64` and others in `pkg/apis/meta/v1/unstructured` of apimachinery.
fn misfit(names: &[String], value: &Value, expected: &str) -> String {
    format!(
        ".{} accessor error: {} is of the type {}, expected {expected}",
        names.join("."),
        printed(value),
        type_name(value)
    )
}

impl Scale {
    pub(super) fn parse(scale: &Value) -> Option<Self> {
        Some(Self {
            spec: Path::parse(&scale["specReplicasPath"])?,
            status: Path::parse(&scale["statusReplicasPath"])?,
            selector: Path::parse(&scale["labelSelectorPath"]),
        })
    }

    /// Desired replicas, current replicas and selector. The error is the path at which the desired
    /// replicas are missing.
    pub(crate) fn read(&self, object: &Value) -> Result<(i64, i64, String), String> {
        let number = |path: &Path| path.number(object).ok().flatten();
        let desired = number(&self.spec).ok_or_else(|| self.spec.text.clone())?;
        let selector = self.selector.as_ref();
        let selector = selector.and_then(|path| path.string(object).ok().flatten());
        Ok((
            desired,
            number(&self.status).unwrap_or(0),
            selector.unwrap_or_default().to_owned(),
        ))
    }

    /// The names on the path of the desired replicas.
    pub(crate) fn replicas_path(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.spec.names.iter().map(String::as_str)
    }

    /// The path of the desired replicas.
    pub(crate) fn replicas_text(&self) -> &str {
        &self.spec.text
    }

    /// Sets the desired replicas.
    pub(crate) fn write(&self, object: &mut Value, replicas: i64) {
        let mut at = object;
        for name in &self.spec.names {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[name.as_str()];
        }
        *at = Value::from(replicas);
    }

    pub(super) fn errors(&self, object: &Value) -> Vec<FieldError> {
        self.spec
            .error(object)
            .into_iter()
            .chain(self.status_errors(object))
            .collect()
    }

    pub(super) fn status_errors(&self, object: &Value) -> Vec<FieldError> {
        let selector = self.selector.iter().filter_map(|path| {
            let why = path.string(object).err()?;
            Some(path.invalid("", why))
        });
        self.status
            .error(object)
            .into_iter()
            .chain(selector)
            .collect()
    }
}
