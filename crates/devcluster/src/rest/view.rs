//! The forms an object can be shown in: whole, only its metadata, or a row of a table.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::accept::View;
use super::{Call, Server, event_view};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::{Resource, Storage};
use crate::status::Status;
use crate::store::Object;
use crate::tables;

/// What rows of a table carry besides their cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowObject {
    None,
    Metadata,
    Full,
}

impl RowObject {
    pub(super) fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Full),
            other => {
                let problem = Problem::Invalid(other.into(), "must be 'Metadata', 'Object', 'None', or empty".to_owned());
                let error = FieldError { field: "includeObject".to_owned(), problem };
                Err(Status::bad_request(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }
}

/// An object of `resource`, which may be another version than the one it is kept in.
pub(super) fn full(resource: &Resource, object: &Object) -> Bytes {
    match resource.storage {
        Storage::Own => object.json(),
        Storage::CoreEvent => Bytes::from(event_view::from_core(object.to_value()).to_string()),
    }
}

/// An object's metadata.
pub(super) fn metadata_only(object: &Object) -> Bytes {
    let metadata = object.metadata();
    let mut json = Vec::with_capacity(metadata.len() + 80);
    write!(json, "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}")
        .expect("writing to a vector cannot fail");
    Bytes::from(json)
}

impl Server {
    /// One object in the form the client asked for.
    pub(super) fn show(&self, call: &Call<'_>, object: &Arc<Object>) -> Bytes {
        let resource = call.target.resource();
        match call.form.view {
            View::Full | View::Discovery => full(resource, object),
            View::Metadata => metadata_only(object),
            View::Table => {
                let include = RowObject::parse(call.query.text("includeObject")).unwrap_or(RowObject::Metadata);
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let table = self.table(resource, metadata, std::slice::from_ref(object), include, true);
                Bytes::from(table.to_string())
            }
        }
    }

    /// Something that is shown like an object of `kind` without being stored as one, in the form the client asked for.
    pub(super) fn show_value(&self, call: &Call<'_>, kind: &str, value: Value) -> Result<Value, Status> {
        Ok(match call.form.view {
            View::Full | View::Discovery => value,
            View::Metadata => partial(&value),
            View::Table => {
                let include = RowObject::parse(call.query.text("includeObject"))?;
                let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let row = self.row(kind, value, include, |value| value);
                in_table(metadata, Value::from(tables::columns(kind)), vec![row])
            }
        })
    }

    /// Objects as rows; `columns` only where the reader does not have them yet.
    pub(super) fn table(
        &self,
        resource: &Resource,
        metadata: Value,
        objects: &[Arc<Object>],
        include: RowObject,
        columns: bool,
    ) -> Value {
        let view = |value| match resource.storage {
            Storage::Own => value,
            Storage::CoreEvent => event_view::from_core(value),
        };
        let rows = objects.iter().map(|object| self.row(&resource.kind, object.to_value(), include, view)).collect();
        let columns = if columns { Value::from(tables::columns(&resource.kind)) } else { Value::Null };
        in_table(metadata, columns, rows)
    }

    fn row(&self, kind: &str, value: Value, include: RowObject, view: impl FnOnce(Value) -> Value) -> Value {
        let mut row = json!({"cells": tables::cells(kind, &value, self.clock.now())});
        if let Some(conditions) = tables::row_conditions(kind, &value) {
            row["conditions"] = conditions;
        }
        row["object"] = match include {
            RowObject::None => Value::Null,
            RowObject::Full => view(value),
            RowObject::Metadata => partial(&value),
        };
        row
    }
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn in_table(metadata: Value, columns: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows,
    })
}
