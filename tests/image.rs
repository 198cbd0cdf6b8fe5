//! The build of the image's binary follows the profile, or says that it does not. The compiler and
//! cargo are scripts here; scripts/image.sh builds and starts the real binary.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const COMPILER: &str = "rustc 1.95.0 (59807616e 2026-04-14)";
const HOST: &str = "x86_64-unknown-linux-gnu";
const OTHER: &str = "aarch64-unknown-linux-gnu";

fn program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs scripts/build-static.sh in a copy, whose profile is of [`COMPILER`]. Cargo's part prints its
/// flags for the compiler.
fn build(compiler: &str, options: &[&str]) -> Output {
    build_with(compiler, options, true)
}

/// As [`build`], with or without a C compiler for [`OTHER`].
fn build_with(compiler: &str, options: &[&str], has_other_compiler: bool) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["bin", "scripts", "profile"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/build-static.sh");
    std::fs::copy(script, at("scripts/build-static.sh")).unwrap();
    std::fs::write(at("profile/compiler"), format!("{COMPILER}\n")).unwrap();
    std::fs::write(at("profile/target"), format!("{HOST}\n")).unwrap();
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let profile = at("profile/steersman.profdata.gz");
    std::fs::write(profile, empty.finish().unwrap()).unwrap();
    program(
        &at("bin/rustc"),
        &format!("echo '{compiler}'\n[ $# = 1 ] || echo 'host: {HOST}'"),
    );
    let binaries = [HOST, OTHER].map(|target| format!("target/image/{target}/dist/steersman"));
    let script = binaries.iter().fold(
        "echo \"$RUSTFLAGS $* $CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER\"".to_owned(),
        |script, binary| format!("{script}\nmkdir -p $(dirname {binary}) && touch {binary}"),
    );
    program(&at("bin/cargo"), &script);
    if has_other_compiler {
        program(&at("bin/aarch64-linux-gnu-gcc"), "exit 1");
    }
    // Without the folders of this machine, which may have such a compiler.
    for tool in [
        "sh", "mkdir", "dirname", "sed", "tr", "cut", "cat", "touch", "gunzip", "gzip", "cp", "ln",
    ] {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
        let found = found.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(found, at("bin").join(tool)).unwrap();
    }
    let programs = at("bin");
    Command::new(at("scripts/build-static.sh"))
        .args(options)
        .arg(at("out"))
        .env("PATH", programs)
        .env_remove("PROFILE_RUNS")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap()
}

#[test]
fn the_build_follows_the_profile_of_its_compiler() {
    let built = build(COMPILER, &[]);
    let said = String::from_utf8(built.stderr).unwrap();
    let flags = String::from_utf8(built.stdout).unwrap();
    assert!(built.status.success(), "{said}");
    assert!(flags.contains("-C profile-use="), "{flags}");
}

#[test]
fn a_build_without_a_matching_profile_fails_unless_it_is_wanted() {
    let other = "rustc 1.96.0 (000000000 2026-06-01)";
    let refused = build(other, &[]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(COMPILER), "{said}");
    assert!(said.contains(other), "{said}");
    assert!(said.contains("--without-profile"), "{said}");

    for compiler in [COMPILER, other] {
        let built = build(compiler, &["--without-profile"]);
        let said = String::from_utf8(built.stderr).unwrap();
        let flags = String::from_utf8(built.stdout).unwrap();
        assert!(built.status.success(), "{said}");
        assert!(said.contains("more CPU time"), "{said}");
        assert!(!flags.contains("profile-use"), "{flags}");
    }
}

#[test]
fn a_build_for_another_machine_has_its_linker_and_no_profile() {
    // The profile is of the host.
    let built = build("rustc 1.96.0 (000000000 2026-06-01)", &["--target", OTHER]);
    let said = String::from_utf8(built.stderr).unwrap();
    let flags = String::from_utf8(built.stdout).unwrap();
    assert!(built.status.success(), "{said}");
    assert!(said.contains("more CPU time"), "{said}");
    assert!(!flags.contains("profile-use"), "{flags}");
    assert!(flags.contains(&format!("--target {OTHER} ")), "{flags}");
    assert!(flags.contains("aarch64-linux-gnu-gcc"), "{flags}");
    assert!(
        !flags.contains("--icf"),
        "a flag of the host's linker: {flags}"
    );

    let refused = build_with(COMPILER, &["--target", OTHER], false);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("apt-get install gcc-aarch64-linux-gnu"),
        "{said}"
    );
}

#[test]
fn the_whole_program_has_its_features_and_no_profile_of_the_manager() {
    for (options, has_cluster) in [(&["--dev"] as &[&str], true), (&[], false)] {
        let built = build(COMPILER, options);
        let said = String::from_utf8(built.stderr).unwrap();
        let flags = String::from_utf8(built.stdout).unwrap();
        assert!(built.status.success(), "{said}");
        assert_eq!(
            flags.contains("--no-default-features"),
            !has_cluster,
            "{flags}"
        );
        assert_eq!(flags.contains("profile-use"), !has_cluster, "{flags}");
    }
}
