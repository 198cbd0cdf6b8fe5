//! The kubeconfig of the cluster as a file: put in place whole, never over somebody else's, gone
//! when the cluster is.

use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What our files begin with. Others are not touched: a kubeconfig may be all that somebody has of
/// a cluster.
const MARK: &str = "# Written by steersman; removed when it ends.\n";

/// The file; removed when dropped, if it is still the one that was written.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    path: PathBuf,
    content: String,
}

impl KubeconfigFile {
    /// Writes `kubeconfig` to `path` in one step, so that whoever waits for the file can use it.
    /// Only its owner may read it: it holds credentials. A file that is there already and not ours
    /// is left alone, which is an error.
    pub(super) fn place(path: &Path, kubeconfig: &str) -> std::io::Result<Self> {
        let path = std::path::absolute(path)?;
        match std::fs::read(&path) {
            Ok(content) if !content.is_empty() && !content.starts_with(MARK.as_bytes()) => {
                let message =
                    "the file exists, and steersman did not write it; remove it or name another";
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let content = format!("{MARK}{kubeconfig}");
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(format!(".{}", std::process::id()));
        let placed = write_private(unfinished.as_ref(), &content)
            .and_then(|()| std::fs::rename(&unfinished, &path));
        if placed.is_err() {
            // Not there if it could not be written; otherwise nobody misses it.
            let _ = std::fs::remove_file(&unfinished);
        }
        placed.map(|()| Self { path, content })
    }

    /// Absolute.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            // Left behind if this fails; it opens nothing, for the server is gone.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Creates the file, which must not be there, not even as a link to another.
fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
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
    fn the_file_is_there_as_long_as_the_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        // Empty, as mktemp leaves it.
        std::fs::write(&path, "").unwrap();
        let first = KubeconfigFile::place(&path, "a: 1\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(first.path()).unwrap(),
            format!("{MARK}a: 1\n")
        );
        let second = KubeconfigFile::place(&path, "a: 2\n").unwrap();
        drop(first);
        assert!(path.exists(), "the file of another process was removed");
        drop(second);
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "something is left behind"
        );
    }

    #[test]
    fn the_file_of_somebody_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::write(&path, "apiVersion: v1\n").unwrap();
        let refused = KubeconfigFile::place(&path, "a: 1\n").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
        assert!(
            KubeconfigFile::place(directory.path(), "a: 1\n").is_err(),
            "a directory is no file"
        );
        assert!(
            KubeconfigFile::place(&directory.path().join("none/x"), "a: 1\n").is_err(),
            "there is no such directory"
        );
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            1,
            "something is left behind"
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_may_read_it() {
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
