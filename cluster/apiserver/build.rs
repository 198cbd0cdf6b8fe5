//! Takes the descriptions of types and fields out of the sources of k8s-openapi, for `/openapi/v3`
//! and `kubectl explain`.
//!
//! That crate can also give schemas at run time, but the code for it is megabytes that everything
//! built with it would carry. The table of types lacks comments. They are in files that the
//! generator writes line by line.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let out =
        PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("descriptions.txt");
    let described = sources().and_then(|sources| {
        let mut text = String::new();
        let described = describe_folder(&sources, &mut text);
        described
            .map(|()| text)
            .map_err(|error| format!("reading {}: {error}", sources.display()))
    });
    let text = described.unwrap_or_else(|why| {
        println!("cargo::warning=kubectl explain will know no descriptions: {why}");
        String::new()
    });
    fs::write(&out, text).expect("OUT_DIR can be written");
}

/// Where the sources of k8s-openapi are, for the version of Kubernetes that the workspace has
/// chosen.
fn sources() -> Result<PathBuf, String> {
    let package = in_registry().map_or_else(by_cargo, Ok)?;
    let folder = package.join("src/v1_36");
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(format!("{} is not there", folder.display()))
    }
}

/// The folder in which cargo unpacks downloaded packages; a build always has it.
fn in_registry() -> Option<PathBuf> {
    let lock = fs::read_to_string("../../Cargo.lock").ok()?;
    let version = lock
        .split("name = \"k8s-openapi\"\nversion = \"")
        .nth(1)?
        .split('"')
        .next()?;
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    registries
        .flatten()
        .map(|registry| registry.path().join(format!("k8s-openapi-{version}")))
        .find(|path| path.is_dir())
}

/// The folder that cargo names. It is right for vendored sources too, but cargo then requires all
/// packages of the workspace.
fn by_cargo() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").ok_or("cargo does not tell where it is")?;
    let target = env::var("TARGET").map_err(|error| error.to_string())?;
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            "--filter-platform",
            &target,
        ])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let metadata = String::from_utf8_lossy(&output.stdout);
    let manifest = metadata
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("/k8s-openapi-") || path.contains("/k8s-openapi/"))
        .ok_or("cargo metadata names no k8s-openapi")?;
    Ok(Path::new(manifest)
        .parent()
        .unwrap_or(Path::new(""))
        .to_owned())
}

fn describe_folder(folder: &Path, out: &mut String) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            describe_folder(&path, out)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            describe(&fs::read_to_string(&path)?, out);
        }
    }
    Ok(())
}

/// Writes one type: a line `=<type> <definition> <description>`, then a line `<field> <!|?>
/// <description>` per field, where `!` marks those that are required.
fn describe(source: &str, out: &mut String) {
    let Some(definition) = source
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("// Generated from definition "))
    else {
        return;
    };
    let Some(name) = short_name(definition) else {
        return;
    };
    let json_names = json_names(source);
    let mut docs: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in source.lines().skip(1) {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc));
        } else if !inside && (line.starts_with("pub struct ") || line.starts_with("pub enum ")) {
            writeln!(out, "={name} {definition} {}", joined(&mut docs))
                .expect("writing to a string cannot fail");
            if !line.ends_with('{') || line.starts_with("pub enum ") {
                return;
            }
            inside = true;
        } else if line == "}" {
            return;
        } else if let Some((field, ty)) = line
            .strip_prefix("pub ")
            .and_then(|rest| rest.split_once(": "))
            .filter(|_| inside)
        {
            let required = if ty.starts_with("Option<") { '?' } else { '!' };
            let json = json_names.get(field).copied().unwrap_or(field);
            writeln!(out, "{json} {required} {}", joined(&mut docs))
                .expect("writing to a string cannot fail");
        }
    }
}

/// `apps.DeploymentSpec` for `io.k8s.api.apps.v1.DeploymentSpec`, as the table of types has it;
/// `None` for versions it does not have.
fn short_name(definition: &str) -> Option<String> {
    let parts: Vec<&str> = definition.split('.').collect();
    let [.., group, version, name] = parts.as_slice() else {
        return None;
    };
    match (*group, *version) {
        ("autoscaling", "v1") => Some(format!("autoscalingv1.{name}")),
        ("autoscaling", "v2") => Some(format!("autoscaling.{name}")),
        ("api", "resource") | ("util", "intstr") | ("pkg", "version") => {
            Some(format!("{version}.{name}"))
        }
        (group, "v1") => Some(format!("{group}.{name}")),
        _ => None,
    }
}

/// JSON names by the names of the fields in Rust.
fn json_names(source: &str) -> HashMap<&str, &str> {
    source
        .lines()
        .filter_map(|line| {
            let (json, rust) = line
                .trim()
                .strip_prefix('"')?
                .split_once("\" => Field::Key_")?;
            Some((rust.trim_end_matches(','), json))
        })
        .collect()
}

/// The comment in one line, without the backslashes that rustdoc wants before brackets.
fn joined(docs: &mut Vec<&str>) -> String {
    let mut text = String::new();
    for (index, line) in docs.drain(..).enumerate() {
        if index > 0 {
            text.push_str("\\n");
        }
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if letters.peek().is_some_and(char::is_ascii_punctuation) => {
                    // A backslash that is meant is kept as two, as a line break is kept as one and
                    // a letter.
                    if letters.next_if_eq(&'\\').is_some() {
                        text.push_str("\\\\");
                    }
                }
                '\\' => text.push_str("\\\\"),
                letter => text.push(letter),
            }
        }
    }
    while let Some(rest) = text.strip_suffix("\\n") {
        text.truncate(rest.len());
    }
    text
}
