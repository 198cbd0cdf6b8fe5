//! Files that flags name. Errors have the words of Go's `os` package, because upstream's messages
//! contain them.

use std::io;
use std::path::{Path, PathBuf};

/// A file could not be read: `open /etc/key.pem: no such file or directory`.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}: {}", path.display(), words(source))]
pub struct ReadError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The content of the file at `path`.
///
/// # Errors
/// If the file is missing, unreadable or a directory.
pub fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    std::fs::read(path).map_err(|source| ReadError {
        // Go opens a directory, and fails to read it.
        operation: if source.kind() == io::ErrorKind::IsADirectory {
            "read"
        } else {
            "open"
        },
        path: path.to_owned(),
        source,
    })
}

/// The system's words for an error, without the number that Rust adds, and in lower case as in Go.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_words_of_go() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("key.pem");
        let error = read(&missing).unwrap_err().to_string();
        let expected = format!("open {}: no such file or directory", missing.display());
        assert_eq!(error, expected);
        let error = read(folder.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("read {}: is a directory", folder.path().display())
        );
        std::fs::write(&missing, "x").unwrap();
        assert_eq!(read(&missing).unwrap(), b"x");
    }
}
