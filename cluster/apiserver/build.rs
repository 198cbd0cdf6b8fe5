//! Takes the descriptions of types and fields out of the sources of k8s-openapi, for `/openapi/v3`
//! and `kubectl explain`.
//!
//! That crate can also give schemas at run time, but the code for it is megabytes that everything
//! built with it would carry. The table of types lacks comments. They are in the code of those schemas, which
//! a generator writes line by line. Unlike the comments of the types, it has upstream's layout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let out =
        PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("descriptions.txt");
    let described = package().and_then(|package| {
        let chosen = describe_version(&package, "v1_36")?;
        let newest = describe_version(&package, "v1_37")?;
        Ok(with_newer(chosen, newest))
    });
    let text = described.unwrap_or_else(|why| {
        println!("cargo::warning=kubectl explain will know no descriptions: {why}");
        String::new()
    });
    fs::write(&out, text).expect("OUT_DIR can be written");
}

/// Where the sources of k8s-openapi are.
fn package() -> Result<PathBuf, String> {
    in_registry().map_or_else(by_cargo, Ok)
}

/// The described types of one version of Kubernetes, by name: their line, and those of their fields.
type Types = BTreeMap<String, Vec<String>>;

fn describe_version(package: &Path, version: &str) -> Result<Types, String> {
    let folder = package.join("src").join(version);
    let mut types = Types::new();
    describe_folder(&folder, &mut types)
        .map_err(|error| format!("reading {}: {error}", folder.display()))?;
    Ok(types)
}

/// The lines of all types. Those of the newest version have only the parts that the chosen one lacks. The tables of
/// the server have its fields by release, and one description for all releases.
fn with_newer(mut chosen: Types, newest: Types) -> String {
    for (name, lines) in newest {
        let known = chosen.entry(name).or_default();
        for (index, line) in lines.into_iter().enumerate() {
            let field = line.split(' ').next();
            let is_known = known.iter().any(|known| known.split(' ').next() == field);
            if known.is_empty() || index > 0 && !is_known {
                known.push(line);
            }
        }
    }
    let mut text = String::new();
    for line in chosen.values().flatten() {
        text.push_str(line);
        text.push('\n');
    }
    text
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

fn describe_folder(folder: &Path, out: &mut Types) -> io::Result<()> {
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

/// Adds one type: a line `=<type> <definition> <description>`, then a line `<field> <!|?>
/// <description>` per field, where `!` marks those that are required.
fn describe(source: &str, out: &mut Types) {
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
    let Some((_, schema)) = source.split_once("json_schema!({") else {
        return;
    };
    let mut schema = Schema::read(schema);
    // The crate joins the descriptions of this type and of its field.
    if name == "meta.WatchEvent" {
        schema.divide("object");
    }
    let mut lines = vec![format!("={name} {definition} {}", schema.description)];
    for (field, description) in schema.fields {
        let mark = if schema.required.contains(&field) {
            '!'
        } else {
            '?'
        };
        lines.push(format!("{field} {mark} {description}"));
    }
    out.insert(name, lines);
}

/// What a generated schema tells.
#[derive(Default)]
struct Schema<'a> {
    description: String,
    fields: Vec<(&'a str, String)>,
    required: Vec<&'a str>,
}

impl<'a> Schema<'a> {
    /// Reads the lines of a schema. Their indentation tells the depth: 12 columns for the keywords of the
    /// type, 16 for the names of fields, and 20 for the keywords of a field.
    fn read(source: &'a str) -> Self {
        let mut schema = Self::default();
        let mut is_required = false;
        for line in source.lines() {
            let text = line.trim_start();
            match (line.len() - text.len(), described(text)) {
                (12, Some(description)) => schema.description = description,
                (12, None) => is_required = text.starts_with("\"required\""),
                (16, _) if is_required => schema.required.extend(quoted(text)),
                (16, _) => {
                    let field = quoted(text).filter(|_| text.contains("\": "));
                    schema
                        .fields
                        .extend(field.map(|name| (name, String::new())));
                }
                (20, Some(description)) => {
                    if let Some((_, last)) = schema.fields.last_mut() {
                        *last = description;
                    }
                }
                _ => {}
            }
        }
        schema
    }

    /// Leaves the first paragraph to the type, and moves the others to a field.
    fn divide(&mut self, field: &str) {
        let Some((own, rest)) = self.description.split_once("\\n\\n") else {
            return;
        };
        let named = self.fields.iter_mut().find(|(name, _)| *name == field);
        if let Some((_, description)) = named {
            *description = rest.trim_end_matches("\\n").to_owned();
            self.description = own.to_owned();
        }
    }
}

/// The text in quotes at the start of a line.
fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split('"').next()
}

/// The description on a line of a schema, which has one of two forms.
fn described(text: &str) -> Option<String> {
    let keyword = text
        .strip_prefix("\"description\": \"")
        .and_then(|rest| rest.strip_suffix("\","));
    let insert = || {
        text.strip_prefix("schema_obj.ensure_object().insert(\"description\".into(), \"")?
            .strip_suffix("\".into());")
    };
    keyword.or_else(insert).map(in_one_line)
}

/// The literal with `\n` and `\\` as its only escapes.
fn in_one_line(literal: &str) -> String {
    let mut text = String::with_capacity(literal.len());
    let mut letters = literal.chars();
    while let Some(letter) = letters.next() {
        let escaped = (letter == '\\').then(|| letters.next()).flatten();
        match escaped {
            None => text.push(letter),
            Some('t') => text.push('\t'),
            Some('"') => text.push('"'),
            Some(other) => text.extend(['\\', other]),
        }
    }
    text
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
        ("api", "resource") | ("util", "intstr") | ("pkg", "version" | "runtime") => {
            Some(format!("{version}.{name}"))
        }
        (group, "v1") => Some(format!("{group}.{name}")),
        _ => None,
    }
}
