//! The state of an embedded cluster in files: `--load` fills a new cluster, and `--data` keeps its
//! objects between runs.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use steersman_devcluster::manifests::{self, Manifest, ManifestError};
use steersman_devcluster::status::Status;
use steersman_devcluster::{DevCluster, Skipped};
use uuid::Uuid;

use super::kubeconfig::write_private;

/// Time between two looks for changes to save. A killed process loses the changes of this time.
const EVERY: Duration = Duration::from_secs(5);

/// The state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    #[error("--load: {0}")]
    Load(#[from] ManifestError),
    #[error("--load: {file}: {source}", file = file.display())]
    Object { file: PathBuf, source: Status },
    #[error("--data: read {}: {source}", file.display())]
    Read {
        file: PathBuf,
        source: std::io::Error,
    },
    #[error("--data: {}: it is no state of a cluster: {message}; remove it or name another", file.display())]
    Content { file: PathBuf, message: String },
}

/// Stores the objects of `--load`. Kinds without a definition are reported and left out.
pub(super) fn load(cluster: &DevCluster, files: &[PathBuf]) -> Result<(), StateError> {
    let mut objects = Vec::new();
    for file in files {
        objects.extend(
            manifests::read(file)?
                .into_iter()
                .map(Manifest::into_object),
        );
    }
    let skipped = cluster
        .restore(objects)
        .map_err(|source| StateError::Object {
            file: files.last().cloned().unwrap_or_default(),
            source,
        })?;
    report(&skipped);
    Ok(())
}

fn report(skipped: &Skipped) {
    for (kind, number) in skipped {
        complain!(
            "Warning: {number} objects of {kind} are left out, since no definition declares the kind"
        );
    }
}

/// The file of `--data`, with the revision that it holds.
#[derive(Debug)]
pub(super) struct Kept {
    file: PathBuf,
    saved: Option<u64>,
}

/// The content of the file, which `kubectl` and `--load` can read as well.
#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

impl Kept {
    /// Fills `cluster` from the file, if it exists.
    pub(super) fn open(file: &Path, cluster: &DevCluster) -> Result<Self, StateError> {
        let malformed = |message: String| StateError::Content {
            file: file.to_owned(),
            message,
        };
        match std::fs::read(file) {
            Ok(text) => {
                let list: List =
                    serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
                let revision = list.metadata.resource_version.parse();
                let revision = revision
                    .map_err(|_| malformed("metadata.resourceVersion is no number".to_owned()))?;
                let skipped = cluster
                    .restore(list.items)
                    .map_err(|status| malformed(status.message))?;
                report(&skipped);
                cluster.continue_after(revision);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => {
                return Err(StateError::Read {
                    file: file.to_owned(),
                    source,
                });
            }
        }
        Ok(Self {
            file: file.to_owned(),
            saved: None,
        })
    }

    /// Saves the objects of `cluster` if they have changed. The file is replaced at once, so that it is
    /// never incomplete; only its owner can read it, because it has Secrets.
    pub(super) fn save(&mut self, cluster: &DevCluster) -> std::io::Result<()> {
        let revision = cluster.revision();
        if self.saved == Some(revision) {
            return Ok(());
        }
        let mut text = format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{{\"resourceVersion\":\"{revision}\"}},\"items\":["
        );
        for (index, object) in cluster.dump().iter().enumerate() {
            let separator = if index == 0 { "\n" } else { ",\n" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{object}");
        }
        text.push_str("\n]}\n");
        let mut unfinished = self.file.clone().into_os_string();
        unfinished.push(format!(".{}", Uuid::new_v4()));
        let saved = write_private(unfinished.as_ref(), &text)
            .and_then(|()| std::fs::rename(&unfinished, &self.file));
        if saved.is_err() {
            // The file may be missing; a leftover does no harm.
            let _ = std::fs::remove_file(&unfinished);
        }
        saved?;
        self.saved = Some(revision);
        Ok(())
    }

    /// Saves again and again until the caller drops this.
    pub(super) async fn keep_saving(&mut self, cluster: &DevCluster) {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.save(cluster) {
                tracing::error!(%error, file = %self.file.display(), "the state of --data was not saved");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::clock::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cluster_goes_on_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        let first = DevCluster::new(Clock::system());
        let mut kept = Kept::open(&file, &first).unwrap();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let created = first.create(map.clone()).await.unwrap();
        let path = "/api/v1/namespaces/default/configmaps/a";
        kept.save(&first).unwrap();
        let saved = std::fs::metadata(&file).unwrap().modified().unwrap();
        kept.save(&first).unwrap();
        assert_eq!(
            std::fs::metadata(&file).unwrap().modified().unwrap(),
            saved,
            "nothing had changed"
        );

        let second = DevCluster::new(Clock::system());
        let mut kept = Kept::open(&file, &second).unwrap();
        assert_eq!(
            second.get(path).await.unwrap()["metadata"]["uid"],
            created["metadata"]["uid"]
        );
        second.delete(path).await.unwrap();
        kept.save(&second).unwrap();
        let last = second.revision();

        let third = DevCluster::new(Clock::system());
        Kept::open(&file, &third).unwrap();
        assert_eq!(third.get(path).await.unwrap_err().code, 404);
        assert!(third.revision() >= last, "{} < {last}", third.revision());
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no file is left behind"
        );
    }

    #[test]
    fn other_files_are_refused_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        let cluster = DevCluster::new(Clock::system());
        for text in [
            "",
            "{}",
            "kind: List",
            r#"{"metadata":{"resourceVersion":"x"},"items":[]}"#,
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Kept::open(&file, &cluster).unwrap_err().to_string();
            assert!(
                error.contains("it is no state of a cluster"),
                "{text}: {error}"
            );
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        let folder = Kept::open(folder.path(), &cluster).unwrap_err().to_string();
        assert!(folder.starts_with("--data: read "), "{folder}");
    }
}
