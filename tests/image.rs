//! The build of the image's binary follows the profile, or says that it does not. The compiler and
//! cargo are scripts here; scripts/image.sh builds and starts the real binary.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const COMPILER: &str = "rustc 1.95.0 (59807616e 2026-04-14)";

fn program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs scripts/build-static.sh in a copy, whose profile is of [`COMPILER`]. Cargo's part prints its
/// flags for the compiler.
fn build(compiler: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["bin", "scripts", "profile"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/build-static.sh");
    std::fs::copy(script, at("scripts/build-static.sh")).unwrap();
    std::fs::write(at("profile/compiler"), format!("{COMPILER}\n")).unwrap();
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let profile = at("profile/steersman.profdata.gz");
    std::fs::write(profile, empty.finish().unwrap()).unwrap();
    program(
        &at("bin/rustc"),
        &format!("echo '{compiler}'\n[ $# = 1 ] || echo 'host: x86_64-unknown-linux-gnu'"),
    );
    let binary = "target/image/x86_64-unknown-linux-gnu/dist/steersman";
    program(
        &at("bin/cargo"),
        &format!("echo \"$RUSTFLAGS\"\nmkdir -p $(dirname {binary}) && touch {binary}"),
    );
    let programs = std::env::join_paths([at("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
    Command::new(at("scripts/build-static.sh"))
        .args(options)
        .arg(at("out"))
        .env("PATH", programs)
        .env_remove("PROFILE_RUNS")
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
