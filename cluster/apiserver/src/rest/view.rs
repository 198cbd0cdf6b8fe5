//! The views of an object: whole, metadata only, or a row of a table.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::accept::View;
use super::{Call, Server};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::{Resource, Storage};
use crate::status::Status;
use crate::store::Object;
use crate::tables;

/// The object that a row of a table carries beside its cells (`includeObject`).
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
                let problem = Problem::Invalid(
                    other.into(),
                    "must be 'Metadata', 'Object', 'None', or empty".to_owned(),
                );
                let error = FieldError {
                    field: "includeObject".to_owned(),
                    problem,
                };
                Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: {error}"
                )))
            }
        }
    }
}

/// The object in the version of `resource`, which may differ from the stored version.
pub(super) fn full(resource: &Resource, object: &Object) -> Bytes {
    match resource.storage {
        Storage::Own => object.json(),
        Storage::Converted(conversion) => {
            Bytes::from((conversion.from_kept)(object.to_value()).to_string())
        }
        Storage::OtherVersion => Bytes::from(resource.shown(object.to_value()).to_string()),
    }
}

/// The object as `PartialObjectMetadata`.
pub(super) fn metadata_only(object: &Object) -> Bytes {
    let metadata = object.metadata();
    let mut json = Vec::with_capacity(metadata.len() + 80);
    write!(json, "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}")
        .expect("writing to a vector cannot fail");
    Bytes::from(json)
}

impl Server {
    /// One object in the view that the client requested.
    pub(super) fn show(&self, call: &Call<'_>, object: &Arc<Object>) -> Bytes {
        let resource = call.target.resource();
        let object = &call.form.trimmed(object);
        match call.form.view {
            View::Full | View::Discovery => full(resource, object),
            View::Metadata => metadata_only(object),
            View::Table => {
                let include = RowObject::parse(call.query.text("includeObject"))
                    .unwrap_or(RowObject::Metadata);
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let table = self.table(
                    resource,
                    metadata,
                    std::slice::from_ref(object),
                    include,
                    true,
                );
                Bytes::from(table.to_string())
            }
        }
    }

    /// The same for a computed object of `kind`, such as a Scale.
    pub(super) fn show_value(
        &self,
        call: &Call<'_>,
        kind: &str,
        value: Value,
    ) -> Result<Value, Status> {
        Ok(match call.form.view {
            View::Full | View::Discovery => value,
            View::Metadata => partial(&value),
            View::Table => {
                let include = RowObject::parse(call.query.text("includeObject"))?;
                let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let cells = tables::cells(kind, &value, self.clock.now());
                let row = row(cells, None, value, include);
                in_table(metadata, Value::from(tables::columns(kind)), vec![row])
            }
        })
    }

    /// A table of the objects. A watch sends `columns` in its first table only.
    pub(super) fn table(
        &self,
        resource: &Resource,
        metadata: Value,
        objects: &[Arc<Object>],
        include: RowObject,
        columns: bool,
    ) -> Value {
        let rows = objects
            .iter()
            .map(|object| self.row(resource, object.to_value(), include))
            .collect();
        let columns = if columns {
            Value::from(resource.columns())
        } else {
            Value::Null
        };
        in_table(metadata, columns, rows)
    }

    fn row(&self, resource: &Resource, stored: Value, include: RowObject) -> Value {
        // Printers of built-in kinds read the stored form, in every version.
        let (cells, conditions) = match resource.storage {
            Storage::Own | Storage::Converted(_) => (
                resource.cells(&stored, self.clock.now()),
                resource.row_conditions(&stored),
            ),
            Storage::OtherVersion => (
                resource.cells(&resource.shown(stored.clone()), self.clock.now()),
                None,
            ),
        };
        let shown = match (include, resource.storage) {
            (RowObject::Full, Storage::Converted(conversion)) => (conversion.from_kept)(stored),
            (RowObject::Full, Storage::OtherVersion) => resource.shown(stored),
            _ => stored,
        };
        row(cells, conditions, shown, include)
    }
}

fn row(cells: Vec<Value>, conditions: Option<Value>, object: Value, include: RowObject) -> Value {
    let mut row = json!({"cells": cells});
    if let Some(conditions) = conditions {
        row["conditions"] = conditions;
    }
    row["object"] = match include {
        RowObject::None => Value::Null,
        RowObject::Full => object,
        RowObject::Metadata => partial(&object),
    };
    row
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn in_table(metadata: Value, columns: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows,
    })
}
