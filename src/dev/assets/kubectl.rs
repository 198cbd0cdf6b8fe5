//! `kubectl` of the folder: runs the kubectl of the `PATH`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the first kubectl on the `PATH` that is not this program.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(kubectl) = find(std::env::split_paths(&path), own.ok().as_deref()) else {
        return crate::dev::fail(
            "kubectl is not on the PATH, and steersman has none of its own; install it",
        );
    };
    let mut command = Command::new(&kubectl);
    command.args(arguments);
    #[cfg(unix)]
    let failed = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let failed = match command.status() {
        Ok(status) => {
            return ExitCode::from(
                status
                    .code()
                    .and_then(|code| u8::try_from(code).ok())
                    .unwrap_or(1),
            );
        }
        Err(error) => error,
    };
    crate::dev::fail(format!("run {}: {failed}", kubectl.display()))
}

/// The first file `kubectl` in `folders` that does not lead to `own`.
fn find(folders: impl Iterator<Item = PathBuf>, own: Option<&Path>) -> Option<PathBuf> {
    let name = format!("kubectl{}", std::env::consts::EXE_SUFFIX);
    let mut files = folders.map(|folder| folder.join(&name));
    files.find(|file| {
        let target = file.canonicalize();
        target.is_ok_and(|target| target.is_file() && Some(&*target) != own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn links_to_this_program_are_passed_over() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap();
        let own = parent.join("steersman");
        std::fs::write(&own, "").unwrap();
        let folders = ["links", "real", "missing"].map(|name| parent.join(name));
        for folder in &folders[..2] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&own, folders[0].join("kubectl")).unwrap();
        assert_eq!(find(folders.clone().into_iter(), Some(&own)), None);
        std::fs::write(folders[1].join("kubectl"), "").unwrap();
        let found = find(folders.clone().into_iter(), Some(&own));
        assert_eq!(found, Some(folders[1].join("kubectl")));
    }
}
