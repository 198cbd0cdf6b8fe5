//! Values that are read from files, and read again after the files change.
//!
//! [`Reloading::current`] reads the files when a caller needs the value, at most once a second. So
//! an idle process runs no timer, and the next use after a change sees the new value. A file that
//! is unreadable or invalid is logged, and the previous value stays in use.
//!
//! Upstream polls such files on timers: `client-go/transport/cert_rotation.go` and
//! `apiserver/pkg/server/dynamiccertificates`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::files::{self, ReadError};

/// The shortest time between two reads of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Parses the contents of the files, in the order of the files.
type Load<T> = Arc<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// Files that cannot be used from the start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file could not be read.
    #[error("{0}")]
    Read(#[source] ReadError),
    /// The contents are invalid.
    #[error("{files}: {reason}")]
    Content {
        /// The paths of the files.
        files: String,
        /// The words of the parser.
        reason: String,
    },
}

/// The parsed content of some files. Cheap to clone; clones share one state.
pub struct Reloading<T> {
    files: Arc<[PathBuf]>,
    load: Load<T>,
    state: Arc<Mutex<State<T>>>,
}

struct State<T> {
    /// When the files were last read.
    checked: Instant,
    /// The content that was read last, valid or not. An invalid content is logged only once.
    content: Vec<Vec<u8>>,
    value: Arc<T>,
}

impl<T> Clone for Reloading<T> {
    fn clone(&self) -> Self {
        Self {
            files: Arc::clone(&self.files),
            load: Arc::clone(&self.load),
            state: Arc::clone(&self.state),
        }
    }
}

impl<T: Send + Sync + 'static> Reloading<T> {
    /// Reads `files` and parses their contents with `load`.
    ///
    /// # Errors
    /// If a file is unreadable or `load` fails. The error names the files.
    pub fn new(
        files: Vec<PathBuf>,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        Self::open(files, load).map_err(|error| error.to_string())
    }

    /// The same, for callers with their own words about invalid contents.
    ///
    /// # Errors
    /// If a file is unreadable or `load` fails.
    pub fn open(
        files: Vec<PathBuf>,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let content = read(&files).map_err(OpenError::Read)?;
        let value = load(&content).map_err(|reason| OpenError::Content {
            files: names(&files),
            reason,
        })?;
        let state = State {
            checked: Instant::now(),
            content,
            value: Arc::new(value),
        };
        Ok(Self {
            files: files.into(),
            load: Arc::new(load),
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The value of the last successful read, without a look at the files.
    pub fn latest(&self) -> Arc<T> {
        Arc::clone(&self.state().value)
    }

    /// The value that the files have now. While they are unreadable or invalid, the previous value.
    pub async fn current(&self) -> Arc<T> {
        {
            let mut state = self.state();
            if state.checked.elapsed() < CHECK_INTERVAL {
                return Arc::clone(&state.value);
            }
            // Set before the read, so that concurrent callers do not read the files as well.
            state.checked = Instant::now();
        }
        let files = Arc::clone(&self.files);
        match tokio::task::spawn_blocking(move || read(&files)).await {
            Ok(Ok(content)) => self.take(content),
            Ok(Err(error)) => tracing::error!(
                error = error.to_string(),
                "cannot read files again, the previous content stays in effect"
            ),
            // The runtime shuts down.
            Err(_) => {}
        }
        self.latest()
    }

    /// Parses new content, and keeps the previous value if that fails.
    fn take(&self, content: Vec<Vec<u8>>) {
        let mut state = self.state();
        if state.content == content {
            return;
        }
        match (self.load)(&content) {
            Ok(value) => {
                tracing::info!(
                    files = names(&self.files),
                    "files have changed, their new content is in effect"
                );
                state.value = Arc::new(value);
            }
            Err(reason) => {
                tracing::error!(
                    files = names(&self.files),
                    reason,
                    "files have changed and are invalid, the previous content stays in effect"
                );
            }
        }
        state.content = content;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, ReadError> {
    files.iter().map(|file| files::read(file)).collect()
}

fn names(files: &[PathBuf]) -> String {
    files
        .iter()
        .map(|file| Path::display(file).to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_take_effect_and_invalid_content_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("number");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        let number = |files: &[Vec<u8>]| {
            String::from_utf8_lossy(&files[0])
                .parse::<u32>()
                .map_err(|error| error.to_string())
        };
        assert!(
            Reloading::new(vec![file.clone()], number)
                .err()
                .unwrap()
                .contains("number: no such file")
        );
        write("x");
        assert!(
            Reloading::new(vec![file.clone()], number)
                .err()
                .unwrap()
                .ends_with("number: invalid digit found in string")
        );
        write("1");
        let reloading = Reloading::new(vec![file.clone()], number).unwrap();
        for (text, expected) in [("2", 2), ("oops", 2), ("3", 3)] {
            write(text);
            tokio::time::advance(CHECK_INTERVAL).await;
            assert_eq!(*reloading.current().await, expected, "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(CHECK_INTERVAL).await;
        assert_eq!(*reloading.current().await, 3);
    }
}
