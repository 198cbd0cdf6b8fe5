//! `steersman assets`: a folder for `KUBEBUILDER_ASSETS`, in which `kube-apiserver`, `etcd` and
//! `kubectl` are links to this program.
//!
//! Frameworks of tests (controller-runtime's envtest, fabric8's kube-api-test, envtest-js, kube-rs)
//! start these programs with flags of the real ones, probe them, and end them by SIGTERM.
//! [`PROGRAMS`] has the program's function for each name.

mod apiserver;
mod certificates;
mod etcd;
mod flags;
mod kubectl;

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::Run;
use crate::command::print;

/// The programs of the folder, by name.
pub(crate) const PROGRAMS: [(&str, Run); 3] = [
    ("etcd", etcd::run),
    ("kube-apiserver", apiserver::run),
    ("kubectl", kubectl::run),
];

/// Makes a folder for KUBEBUILDER_ASSETS: kube-apiserver, etcd and kubectl are links to this program.
///
/// Test frameworks that start these programs then run the embedded API server: controller-runtime's
/// envtest, fabric8's kube-api-test, envtest-js and kube-rs. The server has no controllers, as with the real
/// programs; STEERSMAN_CONTROLLERS='*' in the environment of the tests turns them on, STEERSMAN_NODES
/// sets the number of simulated nodes, and STEERSMAN_KUBERNETES_VERSION=1.34 selects the release. kubectl runs the
/// one on the PATH. Prints the folder.
#[derive(Debug, Parser)]
#[command(
    name = "steersman assets",
    bin_name = "steersman assets",
    disable_version_flag = true
)]
struct AssetsArgs {
    /// The folder; it is made if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The folder could not be made.
#[derive(Debug, thiserror::Error)]
enum AssetsError {
    #[error("find this program: {0}")]
    Program(#[source] Error),
    #[error("make {}: {source}", path.display())]
    Make { path: PathBuf, source: Error },
}

/// The arguments of the subcommand.
pub(super) fn arguments() -> clap::Command {
    AssetsArgs::command()
}

/// Runs the subcommand, and returns its exit code.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let args: AssetsArgs = match super::parse("assets", arguments) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match std::env::current_exe()
        .map_err(AssetsError::Program)
        .and_then(|program| make(&args.folder, &program))
    {
        Ok(folder) => print(&format!("{}\n", folder.display())),
        Err(error) => super::fail(error),
    }
}

/// Makes the folder with links to `program`, and returns its absolute path. Links of an earlier run
/// are replaced; other files of these names stay, and are an error.
fn make(folder: &Path, program: &Path) -> Result<PathBuf, AssetsError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| AssetsError::Make { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let folder = folder.canonicalize().map_err(failed(folder))?;
    for (name, _) in PROGRAMS {
        let path = folder.join(name);
        link(program, &path).map_err(failed(&path))?;
    }
    Ok(folder)
}

fn link(program: &Path, path: &Path) -> Result<(), Error> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => std::fs::remove_file(path)?,
        Ok(_) => {
            let message =
                "the file exists, and is no link of steersman; remove it or name another folder";
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    #[cfg(unix)]
    return std::os::unix::fs::symlink(program, path);
    #[cfg(not(unix))]
    std::fs::copy(program, path).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_links_and_keeps_other_files() {
        let parent = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let folder = parent.path().join("new/assets");
        for _ in 0..2 {
            let made = make(&folder, &program).unwrap();
            for (name, _) in PROGRAMS {
                assert_eq!(std::fs::read_link(made.join(name)).unwrap(), program);
            }
        }
        std::fs::remove_file(folder.join("etcd")).unwrap();
        std::fs::write(folder.join("etcd"), "another program").unwrap();
        let refusal = make(&folder, &program).unwrap_err().to_string();
        assert!(refusal.contains("is no link of steersman"), "{refusal}");
        let kept = std::fs::read_to_string(folder.join("etcd")).unwrap();
        assert_eq!(kept, "another program");
    }
}
