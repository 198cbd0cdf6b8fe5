//! The packages of a release, and the scripts that make them.

use std::path::Path;
use std::process::Command;

use crate::support::{Program, python};

/// Runs one class of tests/release/stories.py.
fn stories(class: &str) {
    let Some(python) = python("helm_python") else {
        return;
    };
    let mut command = Command::new(python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/release/stories.py"))
        .args(["-v", class])
        .env("STORIES_PROGRAM", env!("CARGO_BIN_EXE_steersman"));
    let (status, said) = Program::spawn(&mut command).end_with_log();
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn the_same_binaries_give_the_same_packages() {
    stories("Packages");
}

#[test]
fn the_image_has_the_binary_of_each_machine_and_its_licences() {
    stories("Images");
}

#[test]
fn pip_installs_the_program() {
    stories("Wheels");
}

#[test]
fn npm_installs_the_program() {
    stories("NpmPackages");
}

#[test]
fn test_runners_of_node_give_each_test_a_fork_or_a_namespace() {
    stories("NpmRunners");
}

#[test]
fn a_release_is_refused_while_something_is_missing() {
    stories("Scripts");
}
