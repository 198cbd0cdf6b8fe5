//! The `scale` subresource of a custom kind: reads and writes the replicas and the selector at the
//! paths of the definition.
//!
//! Upstream: `pkg/registry/customresource/etcd.go` of apiextensions-apiserver.

use serde_json::{Map, Value};

use super::jsonpath::names;
use crate::fielderror::{FieldError, Problem};

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

    fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.names.iter().try_fold(object, |at, name| at.get(name))
    }

    fn invalid(&self, value: &Value, why: &str) -> FieldError {
        FieldError {
            field: self.text.clone(),
            problem: Problem::Invalid(value.clone(), why.to_owned()),
        }
    }

    /// The error of the replicas at this path, if any.
    fn error(&self, object: &Value) -> Option<FieldError> {
        let value = self.find(object)?;
        match value.as_i64() {
            None => Some(self.invalid(
                &Value::from(0),
                &format!("{} accessor error: {value} is no int64", self.text),
            )),
            Some(..0) => Some(self.invalid(value, "should be a non-negative integer")),
            Some(replicas) if replicas > i64::from(i32::MAX) => Some(self.invalid(
                value,
                &format!("should be less than or equal to {}", i32::MAX),
            )),
            Some(_) => None,
        }
    }
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
        let number = |path: &Path| path.find(object).and_then(Value::as_i64);
        let desired = number(&self.spec).ok_or_else(|| self.spec.text.clone())?;
        let selector = self
            .selector
            .as_ref()
            .and_then(|path| path.find(object))
            .and_then(Value::as_str);
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
            let value = path.find(object).filter(|value| !value.is_string())?;
            Some(path.invalid(
                &Value::from(""),
                &format!("{} accessor error: {value} is no string", path.text),
            ))
        });
        self.status
            .error(object)
            .into_iter()
            .chain(selector)
            .collect()
    }
}
