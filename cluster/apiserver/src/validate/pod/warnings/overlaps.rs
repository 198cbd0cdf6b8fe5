//! Warnings about files of one volume that have the same path, or lie below each other.

use serde_json::Value;

use super::{list, text};

/// A path in a volume, and where its content comes from.
#[derive(PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }

    fn overlaps(&self, other: &File) -> bool {
        if self.path.is_empty() || other.path.is_empty() {
            return false;
        }
        let this = format!("{}/", self.path);
        let other = format!("{}/", other.path);
        this.starts_with(&other) || other.starts_with(&this)
    }
}

pub(super) fn collect(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        let name = text(volume, "name");
        for (field, kind, key) in [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
        ] {
            let source = &volume[field];
            if !source.is_null() {
                let shown = format!("{kind} {:?}", text(source, key));
                overlapping(name, &shown, items(source, ""), warnings);
            }
        }
        if !volume["downwardAPI"].is_null() {
            let files = items(&volume["downwardAPI"], "");
            overlapping(name, "DownwardAPI", files, warnings);
        }
        let mut files = Vec::new();
        for source in list(&volume["projected"], "sources") {
            if source.as_object().is_none_or(|source| source.is_empty()) {
                warnings.push(format!(
                    "volume {name:?} (Projected) has no sources provided"
                ));
            }
            files.extend(projected(source));
        }
        overlapping(name, "Projected", files, warnings);
    }
}

/// The files of one source of a projected volume.
fn projected(source: &Value) -> Vec<File> {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if source[field]["items"].is_array() {
            let shown = format!("{kind} {:?}", text(&source[field], "name"));
            return items(&source[field], &shown);
        }
    }
    if source["downwardAPI"]["items"].is_array() {
        return items(&source["downwardAPI"], "DownwardAPI");
    }
    let token = &source["serviceAccountToken"];
    if token.is_null() {
        return Vec::new();
    }
    vec![file(text(token, "path"), "ServiceAccountToken")]
}

fn items(source: &Value, shown: &str) -> Vec<File> {
    let items = list(source, "items").iter();
    items.map(|item| file(text(item, "path"), shown)).collect()
}

fn file(path: &str, source: &str) -> File {
    File {
        path: path.trim_end_matches('/').to_owned(),
        source: source.to_owned(),
    }
}

fn overlapping(volume: &str, source: &str, files: Vec<File>, warnings: &mut Vec<String>) {
    for (index, file) in files.iter().enumerate() {
        for earlier in files[..index]
            .iter()
            .filter(|earlier| file.overlaps(earlier))
        {
            warnings.push(format!(
                "volume {volume:?} ({source}): overlapping paths: {} with {}",
                file.shown(),
                earlier.shown()
            ));
        }
    }
}
