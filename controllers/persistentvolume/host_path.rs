//! Folders of this machine as volumes, for clusters of one machine.
//!
//! Upstream: `pkg/volume/hostpath`. Difference: only a path below `/tmp/` without `..` is deleted;
//! upstream also deletes paths that contain `/tmp/` elsewhere.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};

/// The folder of all provisioned folders.
///
/// Upstream: `newHostPathProvisioner`.
const PROVISIONED: &str = "/tmp/hostpath_pv";

/// A folder could not be created or deleted.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostPathError {
    /// A folder is no block device.
    #[error("kubernetes.io/host-path does not support block volume provisioning")]
    Block,
    /// The path may hold foreign data.
    ///
    /// The path is a field of an API object, and the manager may run as root.
    #[error("host_path deleter only supports /tmp/.+ but received provided {0}")]
    Outside(String),
    /// The volume is of another source.
    #[error(
        "failed to create deleter for volume {0:?}: spec.PersistentVolumeSource.HostPath is nil"
    )]
    Source(String),
    /// The system refused.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The thread of the deletion ended early.
    #[error("{0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// Creates the folder of the volume called `name`, and returns its path. An existing one is fine.
///
/// The mode is upstream's. The name comes from the UID of the claim, so a repeated try finds its own
/// folder.
pub(super) fn create(name: &str) -> Result<String, HostPathError> {
    let path = format!("{PROVISIONED}/{name}");
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(&path)?;
    Ok(path)
}

/// Deletes the folder at `path` with its content. A missing one is fine.
///
/// A large folder takes long, so a thread of its own deletes it.
pub(super) async fn delete(path: &str) -> Result<(), HostPathError> {
    if !is_deletable(path) {
        return Err(HostPathError::Outside(path.to_owned()));
    }
    let path = path.to_owned();
    let deleted = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path)).await?;
    match deleted {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        deleted => Ok(deleted?),
    }
}

/// Whether `path` is below `/tmp/`, without `..`. The deletion follows no link within it.
fn is_deletable(path: &str) -> bool {
    let below = Path::new(path).strip_prefix("/tmp");
    below.is_ok_and(|below| {
        let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
        below.components().next().is_some() && below.components().all(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_below_tmp_are_deleted() {
        for path in ["/tmp/a", "/tmp/hostpath_pv/u", "/tmp//a"] {
            assert!(is_deletable(path), "{path}");
        }
        for path in [
            "/tmp",
            "/tmp/",
            "/var/lib",
            "/home/tmp/a",
            "tmp/a",
            "/tmp/../etc",
            "/tmp/a/../../etc",
            "",
            "/tmpx/a",
        ] {
            assert!(!is_deletable(path), "{path}");
        }
    }

    #[test]
    fn another_source_has_no_deleter() {
        let error = HostPathError::Source("pv".to_owned());
        let text = "failed to create deleter for volume \"pv\": spec.PersistentVolumeSource.HostPath is nil";
        assert_eq!(error.to_string(), text);
    }

    #[tokio::test]
    async fn a_missing_folder_counts_as_deleted() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let path = folder.path().join("volume");
        std::fs::create_dir_all(path.join("content")).unwrap();
        let path = path.to_str().unwrap();
        delete(path).await.unwrap();
        assert!(!Path::new(path).exists());
        delete(path).await.unwrap();
    }
}
