//! The kubeconfig file of the cluster. It is written atomically, never replaces a file of another
//! program or of another running cluster, and is removed at the end.

use std::fs::{File, TryLockError};
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// First line of the files that we write. Other files are never overwritten, because a kubeconfig
/// may contain a user's only credentials for a cluster.
const MARK: &str = "# Written by steersman; removed when it ends.\n";

/// The kubeconfig file. Dropping it removes the file, unless the content has changed.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    path: PathBuf,
    content: String,
    /// The file with its lock, which the system releases however this process ends.
    _lock: File,
}

impl KubeconfigFile {
    /// Writes `kubeconfig` to `path` atomically, so that a program that waits for the file never
    /// reads a part of it. Only the owner can read it, because it contains credentials. Fails if a
    /// file exists that we did not write, or that belongs to a cluster that runs.
    pub(super) fn place(path: &Path, kubeconfig: &str) -> std::io::Result<Self> {
        let path = std::path::absolute(path)?;
        match std::fs::read(&path) {
            Ok(content) if !content.is_empty() && !content.starts_with(MARK.as_bytes()) => {
                let message =
                    "the file exists, and steersman did not write it; remove it or name another";
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(_) if is_locked(&path) => {
                let message = "the file is that of another cluster of steersman that runs; name another, or end it";
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
            _ => {}
        }
        let content = format!("{MARK}{kubeconfig}");
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(format!(".{}", Uuid::new_v4()));
        let placed = locked(unfinished.as_ref(), &content)
            .and_then(|lock| std::fs::rename(&unfinished, &path).map(|()| lock));
        if placed.is_err() {
            // The file may be missing; a leftover does no harm.
            let _ = std::fs::remove_file(&unfinished);
        }
        placed.map(|lock| Self {
            path,
            content,
            _lock: lock,
        })
    }

    /// The absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            // If this fails, the file stays behind. It grants no access, because the server is
            // gone.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a running cluster holds the file. File systems without locks have no such files.
fn is_locked(path: &Path) -> bool {
    let tried = File::open(path).map(|file| file.try_lock());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// Creates a file as [`write_private`] does, and locks it where the file system has locks.
fn locked(path: &Path, content: &str) -> std::io::Result<File> {
    write_private(path, content)?;
    let file = File::open(path)?;
    // Without locks, two clusters may still share a path.
    let _ = file.try_lock();
    Ok(file)
}

/// Creates a file with access for the owner only. Fails if `path` exists, even as a symbolic link.
pub(super) fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_exists_as_long_as_the_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        // An empty file, as `mktemp` creates it, may be overwritten.
        std::fs::write(&path, "").unwrap();
        let first = KubeconfigFile::place(&path, "a: 1\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(first.path()).unwrap(),
            format!("{MARK}a: 1\n")
        );
        let refused = KubeconfigFile::place(&path, "a: 2\n").unwrap_err();
        assert!(refused.to_string().contains("another cluster"), "{refused}");
        // A cluster that was killed leaves its file behind.
        std::fs::write(&path, format!("{MARK}a: 0\n")).unwrap();
        drop(first);
        assert!(path.exists(), "a file with other content was removed");
        let second = KubeconfigFile::place(&path, "a: 2\n").unwrap();
        drop(second);
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "no file is left behind"
        );
    }

    #[test]
    fn files_of_other_programs_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::write(&path, "apiVersion: v1\n").unwrap();
        let refused = KubeconfigFile::place(&path, "a: 1\n").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
        assert!(
            KubeconfigFile::place(directory.path(), "a: 1\n").is_err(),
            "a directory cannot be overwritten"
        );
        assert!(
            KubeconfigFile::place(&directory.path().join("none/x"), "a: 1\n").is_err(),
            "the parent directory must exist"
        );
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            1,
            "no file is left behind"
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let file = KubeconfigFile::place(&path, "a: 1\n").unwrap();
        assert_eq!(
            file.path().metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
