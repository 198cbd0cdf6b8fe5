//! Manifests: reads objects from files and texts, and applies them.
//!
//! Errors name file and document, because a directory can have many of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use serde_json::Value;
use steersman_apiserver::status::Status;
use steersman_apiserver::yaml;

use super::DevCluster;

/// One object of a manifest, and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file.
    pub file: PathBuf,
    /// The object.
    pub object: Value,
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Invalid YAML; the message has the line.
    #[error("{}: not valid YAML: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The error and its line.
        message: String,
    },
    /// The file is readable but has no objects.
    #[error("{}: no objects in it", file.display())]
    Empty {
        /// The file or directory.
        file: PathBuf,
    },
    /// A URL, which is not read.
    #[error(
        "{url}: URLs are not read; pipe the file instead: curl -fL {url} | steersman dev --apply -"
    )]
    Url {
        /// The URL.
        url: String,
    },
    /// The folder has a kustomization, and `kubectl kustomize` cannot be run.
    #[error("{}: a kustomization needs kubectl: run kubectl kustomize: {source}", folder.display())]
    NoKubectl {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// `kubectl kustomize` refused the folder.
    #[error("{}: kubectl kustomize: {message}", folder.display())]
    Kustomize {
        /// The folder.
        folder: PathBuf,
        /// The text of kubectl.
        message: String,
    },
    /// A YAML document that is no Kubernetes object.
    #[error("{}: document {index} has no {field}: every object needs apiVersion, kind and metadata.name", file.display())]
    NotAnObject {
        /// The file.
        file: PathBuf,
        /// Number of the document, from 1.
        index: usize,
        /// The missing field.
        field: &'static str,
    },
    /// The server has no such kind.
    #[error("{}: no matches for kind {kind:?} in version {api_version:?}", file.display())]
    UnknownKind {
        /// The file.
        file: PathBuf,
        /// `kind`.
        kind: String,
        /// `apiVersion`.
        api_version: String,
    },
    /// The server refused the object.
    #[error("{}: apply {object}: {source}", file.display())]
    Rejected {
        /// The file.
        file: PathBuf,
        /// Kind and name.
        object: String,
        /// The answer of the server.
        #[source]
        source: Status,
    },
    /// Several manifests cannot be used, one a line.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
}

fn lines(errors: &[ManifestError]) -> String {
    let lines = errors.iter().map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

impl ManifestError {
    /// All of `errors` as one error, so that a user mends them at once. `Ok` without errors.
    ///
    /// # Errors
    /// The only error, or [`ManifestError::Several`].
    pub fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// Joins the parts, or the errors of all parts that have one.
pub fn join(
    parts: impl IntoIterator<Item = Result<Vec<Manifest>, ManifestError>>,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut all = Vec::new();
    let mut errors = Vec::new();
    for part in parts {
        match part {
            Ok(manifests) => all.extend(manifests),
            Err(ManifestError::Several(several)) => errors.extend(several),
            Err(error) => errors.push(error),
        }
    }
    ManifestError::all(errors).map(|()| all)
}

/// Names of the file of a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Reads all objects of a file: several YAML documents, or JSON, with the items of each `List`. For
/// a directory, reads its files that end in `.yaml`, `.yml` or `.json`, as `kubectl apply -f` does;
/// for one with a kustomization, reads the output of `kubectl kustomize`. `-` is standard input. URLs
/// are errors.
pub fn read(path: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let text = path.to_string_lossy();
    if text.starts_with("http://") || text.starts_with("https://") {
        return Err(ManifestError::Url {
            url: text.into_owned(),
        });
    }
    let unreadable = |source| ManifestError::Read {
        file: path.to_owned(),
        source,
    };
    let manifests = if path.as_os_str() == "-" {
        parse(
            Path::new("standard input"),
            &std::io::read_to_string(std::io::stdin()).map_err(unreadable)?,
        )?
    } else if KUSTOMIZATIONS.iter().any(|name| path.join(name).is_file()) {
        kustomize(path)?
    } else if path.is_dir() {
        let entries = std::fs::read_dir(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(unreadable)?;
        let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| {
            file.extension()
                .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
        });
        files.sort();
        join(files.iter().map(|file| read_file(file)))?
    } else {
        read_file(path)?
    };
    if manifests.is_empty() {
        Err(ManifestError::Empty {
            file: path.to_owned(),
        })
    } else {
        Ok(manifests)
    }
}

/// Reads the objects that `kubectl kustomize` builds from a folder.
fn kustomize(folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(folder)
        .output()
        .map_err(|source| ManifestError::NoKubectl {
            folder: folder.to_owned(),
            source,
        })?;
    if !output.status.success() {
        return Err(ManifestError::Kustomize {
            folder: folder.to_owned(),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    parse(folder, &String::from_utf8_lossy(&output.stdout))
}

fn read_file(file: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let text = std::fs::read_to_string(file).map_err(|source| ManifestError::Read {
        file: file.to_owned(),
        source,
    })?;
    parse(file, &text)
}

/// Reads all objects of a text, as [`read`] does. `file` is the name in errors.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let documents = yaml::documents(text).map_err(|why| ManifestError::Syntax {
        file: file.to_owned(),
        message: why.trim_start_matches("yaml: ").to_owned(),
    })?;
    let mut manifests = Vec::new();
    let mut errors = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let objects = match document {
            Value::Null => continue,
            document => items(document),
        };
        for object in objects {
            let fields = [
                ("apiVersion", "/apiVersion"),
                ("kind", "/kind"),
                ("metadata.name", "/metadata/name"),
            ];
            let is_missing = |pointer: &str| {
                let text = object.pointer(pointer).and_then(Value::as_str);
                text.is_none_or(str::is_empty)
            };
            if let Some((field, _)) = fields.into_iter().find(|(_, at)| is_missing(at)) {
                errors.push(ManifestError::NotAnObject {
                    file: file.to_owned(),
                    index: index + 1,
                    field,
                });
                continue;
            }
            manifests.push(Manifest {
                file: file.to_owned(),
                object,
            });
        }
    }
    ManifestError::all(errors).map(|()| manifests)
}

/// The items of a `List`, or of a typed one such as `ConfigMapList`; else the document itself. Items
/// of a typed list may lack what the list says: their kind and version.
fn items(mut document: Value) -> Vec<Value> {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let is_list = kind.ends_with("List") && document["items"].is_array();
    let Some(of) = kind.strip_suffix("List").filter(|_| is_list) else {
        // `kind: List` without items is empty.
        return match &*kind {
            "List" => Vec::new(),
            _ => vec![document],
        };
    };
    let version = document["apiVersion"].clone();
    let Value::Array(mut items) = document["items"].take() else {
        return Vec::new();
    };
    let typed = items.iter_mut().filter_map(Value::as_object_mut);
    for item in typed.filter(|_| !of.is_empty()) {
        item.entry("kind").or_insert_with(|| of.into());
        item.entry("apiVersion").or_insert_with(|| version.clone());
    }
    items
}

impl Manifest {
    fn text(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The object as it stands in the file.
    pub fn into_object(self) -> Value {
        self.object
    }

    /// `kind`, such as `Deployment`.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`, or `default`.
    pub fn namespace(&self) -> &str {
        Some(self.text("/metadata/namespace"))
            .filter(|ns| !ns.is_empty())
            .unwrap_or("default")
    }

    /// Creates the object, or merges it into the existing one. Unknown fields are errors, as with
    /// `kubectl apply`. Returns the warnings of the server.
    pub async fn apply(&self, cluster: &DevCluster) -> Result<Vec<String>, ManifestError> {
        const STRICT: &str = "fieldValidation=Strict&fieldManager=steersman-dev";
        let collection = self.collection(cluster)?;
        let body = self.object.to_string();
        let created = cluster
            .call_warned(
                Method::POST,
                &format!("{collection}?{STRICT}"),
                "application/json",
                body.clone(),
            )
            .await;
        let applied = match created {
            Err(status) if status.reason == "AlreadyExists" => {
                let path = format!("{collection}/{}?{STRICT}", self.name());
                cluster
                    .call_warned(Method::PATCH, &path, "application/merge-patch+json", body)
                    .await
            }
            other => other,
        };
        let applied = applied.map_err(|source| ManifestError::Rejected {
            file: self.file.clone(),
            object: format!("{} {:?}", self.kind(), self.name()),
            source,
        });
        let (_, warnings) = applied?;
        Ok(warnings)
    }

    /// Path of the object's collection.
    fn collection(&self, cluster: &DevCluster) -> Result<String, ManifestError> {
        let api_version = self.text("/apiVersion");
        let kind = self.kind();
        cluster
            .collection(api_version, kind, self.namespace())
            .ok_or_else(|| ManifestError::UnknownKind {
                file: self.file.clone(),
                kind: kind.to_owned(),
                api_version: api_version.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_can_have_several_documents_and_lists() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: other}}\n";
        let all = parse(Path::new("f.yaml"), text).unwrap();
        let seen: Vec<_> = all
            .iter()
            .map(|m| (m.kind(), m.namespace(), m.name()))
            .collect();
        assert_eq!(seen, [("ConfigMap", "default", "a"), ("Pod", "other", "b")]);
    }

    #[test]
    fn a_dump_of_thousands_of_objects_is_read() {
        let item = "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";
        // More nodes than parsers of configuration files take by default.
        let count = 25_100;
        let text = format!("apiVersion: v1\nkind: List\nitems:\n{}", item.repeat(count));
        let all = parse(Path::new("dump.yaml"), &text).unwrap();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn typed_lists_give_their_items_kind_and_version() {
        let text = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- {metadata: {name: a}}\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
        let all = parse(Path::new("f.yaml"), text).unwrap();
        let seen: Vec<_> = all
            .iter()
            .map(|m| (m.text("/apiVersion"), m.kind(), m.name()))
            .collect();
        assert_eq!(seen, [("apps/v1", "Deployment", "a"), ("v1", "Pod", "b")]);
        // A custom resource may be called so.
        let text = "{apiVersion: example.com/v1, kind: ShoppingList, metadata: {name: c}}";
        let all = parse(Path::new("f.yaml"), text).unwrap();
        assert_eq!((all[0].kind(), all[0].name()), ("ShoppingList", "c"));
    }

    #[test]
    fn all_wrong_documents_are_reported_at_once() {
        let text = "{kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: b}}\n---\n{apiVersion: v1, kind: Pod}\n";
        let error = parse(Path::new("f.yaml"), text).unwrap_err().to_string();
        let expected = [
            "f.yaml: document 1 has no apiVersion: every object needs apiVersion, kind and metadata.name",
            "f.yaml: document 3 has no metadata.name: every object needs apiVersion, kind and metadata.name",
        ];
        assert_eq!(error.lines().collect::<Vec<_>>(), expected);
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in [("a.yaml", text), ("b.yaml", "a: [")] {
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        let error = read(directory.path()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 3, "{error}");
    }

    #[test]
    fn directories_are_read_by_file_extension() {
        let directory = tempfile::tempdir().unwrap();
        let refused = read(directory.path()).unwrap_err().to_string();
        assert_eq!(
            refused,
            format!("{}: no objects in it", directory.path().display())
        );
        for (file, name) in [
            ("b.yml", "b"),
            ("a.yaml", "a"),
            ("c.json", "c"),
            ("notes.txt", "["),
        ] {
            let text = format!(
                "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\"}}}}"
            );
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        let all = read(directory.path()).unwrap();
        assert_eq!(
            all.iter().map(Manifest::name).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn urls_are_refused_with_the_command_that_reads_them() {
        let url = "https://example.com/web.yaml";
        let refused = read(Path::new(url)).unwrap_err().to_string();
        assert_eq!(
            refused,
            format!(
                "{url}: URLs are not read; pipe the file instead: curl -fL {url} | steersman dev --apply -"
            )
        );
    }

    #[test]
    fn errors_name_file_and_place() {
        let syntax = parse(Path::new("f.yaml"), "a: [1,\nb: }")
            .unwrap_err()
            .to_string();
        assert_eq!(
            syntax,
            "f.yaml: not valid YAML: line 1: did not find expected node content"
        );
        let missing = parse(Path::new("f.yaml"), "apiVersion: v1\nkind: Pod\n")
            .unwrap_err()
            .to_string();
        assert_eq!(
            missing,
            "f.yaml: document 1 has no metadata.name: every object needs apiVersion, kind and metadata.name"
        );
    }
}
