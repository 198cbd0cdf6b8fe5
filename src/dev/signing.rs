//! The files with which the embedded manager signs certificates: the authority of the embedded API
//! server. Only the owner can read them, and they are removed at the end.

use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use uuid::Uuid;

use super::kubeconfig::write_private;

/// The folder with the files. Dropping it removes both.
#[derive(Debug)]
pub(super) struct SigningFiles(PathBuf);

impl SigningFiles {
    /// The flags of a manager that signs with the files. They exist after [`SigningFiles::place`].
    pub(super) fn flags() -> [String; 2] {
        let folder = folder();
        [("cert", certificate(&folder)), ("key", key(&folder))]
            .map(|(part, path)| format!("--cluster-signing-{part}-file={}", path.display()))
    }

    /// Writes certificate and key of the authority. Fails if the folder exists.
    pub(super) fn place(certificate_pem: &str, key_pem: &str) -> io::Result<Self> {
        Self::place_in(folder(), certificate_pem, key_pem)
    }

    fn place_in(folder: PathBuf, certificate_pem: &str, key_pem: &str) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        let files = Self(folder);
        write_private(&certificate(&files.0), certificate_pem)?;
        write_private(&key(&files.0), key_pem)?;
        Ok(files)
    }
}

impl Drop for SigningFiles {
    fn drop(&mut self) {
        // Left-over files grant no access, because the API server is gone.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder of this process. Its name is random: a killed process leaves its folder behind, and
/// another process gets the same id later.
fn folder() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::temp_dir().join(format!("steersman-{}.signing", Uuid::new_v4()))
    });
    FOLDER.clone()
}

fn certificate(folder: &Path) -> PathBuf {
    folder.join("ca.crt")
}

fn key(folder: &Path) -> PathBuf {
    folder.join("ca.key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_exist_as_long_as_their_owner() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("signing");
        let files = SigningFiles::place_in(folder.clone(), "public", "private").unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(certificate(&folder)), "public");
        assert_eq!(read(key(&folder)), "private");
        assert!(
            SigningFiles::place_in(folder.clone(), "", "").is_err(),
            "an existing folder is never used"
        );
        drop(files);
        assert!(!folder.exists());
    }
}
