//! YAML documents of published projects.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

/// Characters of a prefix that a generated name has. Upstream: `MaxGeneratedNameLength` in
/// `apiserver/pkg/storage/names`.
const LONGEST_PREFIX: usize = 58;

/// A YAML document with one object.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// File of the document, and its number there, from 1.
    pub(crate) place: String,
    /// The document as it stands in the file; JSON for an item of a `List`.
    pub(crate) text: String,
    /// The whole object, or its head if only the servers can read the text.
    pub(crate) object: Value,
}

impl Document {
    /// Whether `object` has more than a head.
    pub(crate) fn is_whole(&self) -> bool {
        const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];
        let fields = self.object.as_object();
        fields.is_some_and(|fields| fields.keys().any(|field| !HEAD.contains(&field.as_str())))
    }

    fn text_at(&self, pointer: &str) -> &str {
        let value = self.object.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    pub(crate) fn api_version(&self) -> &str {
        self.text_at("/apiVersion")
    }

    pub(crate) fn kind(&self) -> &str {
        self.text_at("/kind")
    }

    pub(crate) fn name(&self) -> &str {
        self.text_at("/metadata/name")
    }

    pub(crate) fn namespace(&self) -> &str {
        match self.text_at("/metadata/namespace") {
            "" => "default",
            namespace => namespace,
        }
    }

    /// The prefix of a name that the server completes, as far as the name has it.
    pub(crate) fn generated_from(&self) -> Option<&str> {
        let prefix = self.text_at("/metadata/generateName");
        let prefix = prefix.get(..LONGEST_PREFIX).unwrap_or(prefix);
        (self.name().is_empty() && !prefix.is_empty()).then_some(prefix)
    }
}

/// All different documents below a folder, in the order of their paths. Files without objects, and
/// templates that are no YAML, are left out.
pub(crate) fn read(folder: &Path) -> Result<Vec<Document>> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    files.sort();
    let mut documents = Vec::new();
    let mut seen = HashSet::new();
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
        let place = file.strip_prefix(folder).unwrap_or(&file);
        let of_file = parse(
            &place.display().to_string(),
            &String::from_utf8_lossy(&bytes),
        );
        let is_new = |document: &Document| {
            let whole = document.is_whole().then(|| document.object.to_string());
            seen.insert(whole.unwrap_or_else(|| document.text.clone()))
        };
        documents.extend(of_file.into_iter().filter(is_new));
    }
    Ok(documents)
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find(&path, files)?;
        } else if kind.is_file()
            && path
                .extension()
                .is_some_and(|end| end == "yaml" || end == "yml")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// The objects of a text, with the items of each `List`.
fn parse(file: &str, text: &str) -> Vec<Document> {
    let mut documents = Vec::new();
    for (at, text) in split(text).into_iter().enumerate() {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::LastWins,
            budget: None,
        };
        let object = serde_saphyr::from_str_with_options::<Value>(&text, options).ok();
        let Some(object) = object.or_else(|| head(&text)) else {
            continue;
        };
        let place = format!("{file}:{}", at + 1);
        if object["kind"] != "List" {
            documents.push(Document {
                place,
                text,
                object,
            });
            continue;
        }
        for item in object["items"].as_array().into_iter().flatten() {
            documents.push(Document {
                place: place.clone(),
                text: item.to_string(),
                object: item.clone(),
            });
        }
    }
    documents.retain(|document| !document.api_version().is_empty() && !document.kind().is_empty());
    documents
}

/// The head of an object: version, kind, name and namespace. Go reads quoted texts that other parsers
/// refuse, so that the servers must judge such a document. A template has no head.
fn head(text: &str) -> Option<Value> {
    if text.contains("{{") {
        return None;
    }
    let mut object = Map::new();
    let mut metadata = Map::new();
    let mut is_metadata = false;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim().trim_matches(['"', '\'']);
        match key {
            "apiVersion" | "kind" => drop(object.insert(key.to_owned(), value.into())),
            "  name" | "  namespace" if is_metadata => {
                metadata.insert(key.trim().to_owned(), value.into());
            }
            _ => {}
        }
        if !line.starts_with([' ', '#']) {
            is_metadata = key == "metadata";
        }
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(object))
}

/// The documents of a text, as `kubectl` splits it: at lines that begin with `---`.
fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(documents: &[Document]) -> Vec<(&str, &str)> {
        documents
            .iter()
            .map(|document| (document.place.as_str(), document.name()))
            .collect()
    }

    #[test]
    fn documents_are_split_at_marks_and_lists_into_items() {
        let text = "# licence\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n--- # next\n\
                    apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
        let found = parse("f", text);
        assert_eq!(names(&found), [("f:2", "a"), ("f:3", "b")]);
        assert_eq!(
            found[0].text,
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
        );
    }

    #[test]
    fn templates_and_other_texts_are_left_out() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {{ .Values.metadata }}\n---\nreplicas: 1\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata: {name: twice, name: 'x {{y}}'}\n";
        assert_eq!(names(&parse("f", text)), [("f:3", "x {{y}}")]);
    }

    #[test]
    fn a_text_that_only_go_reads_has_a_head() {
        let text = "apiVersion: v1\nkind: \"ConfigMap\"\nmetadata:\n  name: a\n  namespace: web\n  labels:\n    name: b\n\
                    data:\n  name: 'one\n  two'\n";
        let found = parse("f", text);
        assert_eq!(names(&found), [("f:1", "a")]);
        assert_eq!(
            (found[0].kind(), found[0].namespace()),
            ("ConfigMap", "web")
        );
        assert_eq!(found[0].text, text);
        assert!(!found[0].is_whole());
        let whole = parse(
            "f",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {}}",
        );
        assert!(whole[0].is_whole());
    }

    #[test]
    fn equal_documents_of_a_folder_are_read_once() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |path: &str, name: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is created");
            let text = format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n");
            std::fs::write(path, text).expect("it is written");
        };
        write("b/one.yml", "x");
        write("a.yaml", "x");
        write("c.yaml", "other");
        write("d.txt", "third");
        let found = read(folder.path()).expect("the folder is read");
        assert_eq!(names(&found), [("a.yaml:1", "x"), ("c.yaml:1", "other")]);
    }

    #[test]
    fn names_are_given_or_generated() {
        let document = |metadata: &str| {
            let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {metadata}\n");
            parse("f", &text).remove(0)
        };
        assert_eq!(document("{generateName: a-}").generated_from(), Some("a-"));
        assert_eq!(
            document("{name: b, generateName: a-}").generated_from(),
            None
        );
        let long = document(&format!("{{generateName: {}}}", "a".repeat(60)));
        assert_eq!(long.generated_from().map(str::len), Some(58));
        assert_eq!(document("{name: b}").namespace(), "default");
        assert_eq!(document("{name: b, namespace: web}").namespace(), "web");
    }
}
