//! Files that are read again when they have changed.
//!
//! They are looked at when what they hold is asked for, at most once a second: no timer keeps an
//! idle process awake, and a change is in effect when it matters.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long files are taken to be unchanged.
const TRUSTED: Duration = Duration::from_secs(1);

type Load<T> = Arc<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// What files hold. Cheap to clone; clones are one.
pub struct Reloading<T> {
    files: Arc<[PathBuf]>,
    load: Load<T>,
    state: Arc<Mutex<State<T>>>,
}

struct State<T> {
    checked: Instant,
    /// The content last looked at, good or not.
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
    /// Reads `files` and makes something of them. The error names the files.
    pub fn new(
        files: Vec<PathBuf>,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let content = read(&files)?;
        let value = load(&content).map_err(|reason| format!("{}: {reason}", names(&files)))?;
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

    /// What the files held when they were last looked at.
    pub fn latest(&self) -> Arc<T> {
        Arc::clone(&self.state().value)
    }

    /// What the files hold now. While they cannot be read, or make no sense, it is what they held
    /// before.
    pub async fn current(&self) -> Arc<T> {
        {
            let mut state = self.state();
            if state.checked.elapsed() < TRUSTED {
                return Arc::clone(&state.value);
            }
            // Whoever asks meanwhile need not look as well.
            state.checked = Instant::now();
        }
        let files = Arc::clone(&self.files);
        match tokio::task::spawn_blocking(move || read(&files)).await {
            Ok(Ok(content)) => self.take(content),
            Ok(Err(error)) => tracing::error!(
                error,
                "cannot read files again, what was read before is kept"
            ),
            // The process ends.
            Err(_) => {}
        }
        self.latest()
    }

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
                    "files have changed and are no good, what was read before is kept"
                );
            }
        }
        state.content = content;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    files
        .iter()
        .map(|file| std::fs::read(file).map_err(|error| format!("{}: {error}", file.display())))
        .collect()
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
    async fn a_change_is_seen_and_a_bad_one_leaves_what_was() {
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
                .contains("number: No such file")
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
            tokio::time::advance(TRUSTED).await;
            assert_eq!(*reloading.current().await, expected, "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(TRUSTED).await;
        assert_eq!(*reloading.current().await, 3);
    }
}
