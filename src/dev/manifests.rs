//! Manifest files: reading them, and applying their objects through discovery.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::resource::ResourceType;

/// One object of a manifest, and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Manifest {
    /// The file.
    pub(super) file: PathBuf,
    /// The object.
    pub(super) object: Value,
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    /// Not readable.
    #[error("read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Not YAML; the message names line and column.
    #[error("{}: not valid YAML: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What and where.
        message: String,
    },
    /// YAML, but no Kubernetes object.
    #[error("{}: document {index} has no {field}: every object needs apiVersion, kind and metadata.name", file.display())]
    NotAnObject {
        /// The file.
        file: PathBuf,
        /// Which document, from 1.
        index: usize,
        /// What is missing.
        field: &'static str,
    },
    /// A kind the server does not serve.
    #[error("{}: no resource for kind {kind:?} in {api_version:?}", file.display())]
    UnknownKind {
        /// The file.
        file: PathBuf,
        /// `kind`.
        kind: String,
        /// `apiVersion`.
        api_version: String,
    },
    /// The server's answer.
    #[error("{}: apply {object}: {source}", file.display())]
    Rejected {
        /// The file.
        file: PathBuf,
        /// Kind and name.
        object: String,
        /// Its words.
        #[source]
        source: ApiError,
    },
}

/// Reads all objects of a file: several YAML documents, or JSON, with `List`s taken apart.
pub(super) fn read(file: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let text = std::fs::read_to_string(file).map_err(|source| ManifestError::Read { file: file.to_owned(), source })?;
    parse(file, &text)
}

fn parse(file: &Path, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| ManifestError::Syntax { file: file.to_owned(), message: error.to_string() })?;
    let mut manifests = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let objects = match document {
            Value::Null => continue,
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => match list.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            },
            other => vec![other],
        };
        for object in objects {
            for (field, pointer) in [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")] {
                if object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
                    return Err(ManifestError::NotAnObject { file: file.to_owned(), index: index + 1, field });
                }
            }
            manifests.push(Manifest { file: file.to_owned(), object });
        }
    }
    Ok(manifests)
}

impl Manifest {
    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `Deployment`.
    pub(super) fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// `metadata.name`.
    pub(super) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`, or `default`.
    pub(super) fn namespace(&self) -> &str {
        Some(self.text("/metadata/namespace")).filter(|ns| !ns.is_empty()).unwrap_or("default")
    }

    /// Creates the object, or merges it into the one that is there.
    pub(super) async fn apply(&self, client: &ApiClient) -> Result<(), ManifestError> {
        let rejected = |source| ManifestError::Rejected {
            file: self.file.clone(),
            object: format!("{} {:?}", self.kind(), self.name()),
            source,
        };
        let resource = self.resource(client).await?;
        let collection = Target {
            resource: &resource,
            namespace: resource.namespaced.then(|| self.namespace()),
            name: None,
            subresource: None,
        };
        match client.create(collection, &self.object).await {
            Err(error) if error.is_already_exists() => {
                let target = Target { name: Some(self.name()), ..collection };
                client.patch(target, PatchKind::Merge, &self.object).await.map_err(rejected)?;
            }
            other => {
                other.map_err(rejected)?;
            }
        }
        Ok(())
    }

    async fn resource(&self, client: &ApiClient) -> Result<ResourceType, ManifestError> {
        let api_version = self.text("/apiVersion");
        let unknown = || ManifestError::UnknownKind {
            file: self.file.clone(),
            kind: self.kind().to_owned(),
            api_version: api_version.to_owned(),
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let body = client.get_path(&path).await.map_err(|_| unknown())?;
        let served: ResourceList = serde_json::from_slice(&body).map_err(|_| unknown())?;
        let found = served.resources.into_iter().find(|r| r.kind == self.kind() && !r.name.contains('/'));
        let Resource { name, kind, namespaced } = found.ok_or_else(unknown)?;
        Ok(ResourceType {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            kind: Cow::Owned(kind),
            plural: Cow::Owned(name),
            namespaced,
        })
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_hold_documents_and_lists() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: other}}\n";
        let all = parse(Path::new("f.yaml"), text).unwrap();
        let seen: Vec<_> = all.iter().map(|m| (m.kind(), m.namespace(), m.name())).collect();
        assert_eq!(seen, [("ConfigMap", "default", "a"), ("Pod", "other", "b")]);
    }

    #[test]
    fn a_bad_file_is_named_with_the_place() {
        let syntax = parse(Path::new("f.yaml"), "a: [1,\nb: }").unwrap_err().to_string();
        assert!(syntax.contains("f.yaml") && syntax.contains("line"), "{syntax}");
        let missing = parse(Path::new("f.yaml"), "apiVersion: v1\nkind: Pod\n").unwrap_err().to_string();
        assert_eq!(missing, "f.yaml: document 1 has no metadata.name: every object needs apiVersion, kind and metadata.name");
    }
}
