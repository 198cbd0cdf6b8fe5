//! Builds the tests of the changed controllers, without the mutants that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::{self, CONTROLLERS};
use crate::find;
use crate::mutant::{Mutant, Rendered, render};

/// The switch of the mutants, as a module of the changed crate.
const SWITCH: &str = include_str!("switch.rs");
/// Builds before the search for mutants that do not compile ends.
const ATTEMPTS: usize = 40;

/// A test program with switches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Build {
    pub(crate) executable: PathBuf,
    /// The folder of the crate in the copy, where tests find their files.
    pub(crate) folder: PathBuf,
    /// The mutants in the program.
    pub(crate) mutants: Vec<Mutant>,
}

/// The keys of mutants that do not compile.
type Dropped = BTreeSet<[String; 4]>;

/// A primary span of an error.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    file: String,
    bytes: Range<usize>,
}

/// Builds a copy of the workspace at `root` in `home`.
pub(crate) fn build(root: &Path, home: &Path) -> Result<Build> {
    let texts = files::decisions(root)?;
    let mut mutants = all_mutants(&texts)?;
    let known = home.join("dropped.json");
    let mut dropped: Dropped = match std::fs::read(&known) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => Dropped::new(),
    };
    let before = mutants.len();
    mutants.retain(|mutant| !dropped.contains(&mutant.key().map(str::to_owned)));
    for _ in 0..ATTEMPTS {
        let (rendered, changed) = changed_files(root, &texts, &mutants)?;
        let tree = home.join("tree");
        files::copy(root, &tree, &changed)?;
        println!("building {} of {before} mutants", mutants.len());
        let (executable, places) = compile(&tree, &home.join("target"))?;
        if let Some(executable) = executable {
            return Ok(Build {
                executable,
                folder: tree.join(CONTROLLERS),
                mutants,
            });
        }
        let wrong: BTreeSet<u32> = places
            .iter()
            .flat_map(|place| suspects(place, &rendered, &mutants))
            .collect();
        if wrong.is_empty() {
            bail!("no mutant explains the errors at {places:?}");
        }
        let is_wrong = |mutant: &Mutant| wrong.contains(&mutant.id);
        dropped.extend(
            mutants
                .iter()
                .filter(|mutant| is_wrong(mutant))
                .map(|mutant| mutant.key().map(str::to_owned)),
        );
        std::fs::write(&known, serde_json::to_vec(&dropped)?)?;
        // Equal keys are equal texts, which fail for the same reason.
        mutants.retain(|mutant| !dropped.contains(&mutant.key().map(str::to_owned)));
    }
    bail!("the changed controllers do not compile after {ATTEMPTS} attempts")
}

/// The mutants of all files.
pub(crate) fn all_mutants(texts: &BTreeMap<String, String>) -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for (file, text) in texts {
        let first = u32::try_from(all.len())?;
        all.extend(find::mutants(file, text, first).with_context(|| file.clone())?);
    }
    Ok(all)
}

/// The files with switches, by their name in the folder of the controllers, and all files that differ in the copy.
fn changed_files(
    root: &Path,
    texts: &BTreeMap<String, String>,
    mutants: &[Mutant],
) -> Result<(BTreeMap<String, Rendered>, BTreeMap<PathBuf, String>)> {
    let folder = Path::new(CONTROLLERS);
    let mut rendered = BTreeMap::new();
    let mut changed = BTreeMap::new();
    for (file, text) in texts {
        let of_file = mutants.iter().filter(|mutant| mutant.file == *file);
        let result = render(text, of_file);
        changed.insert(folder.join(file), result.text.clone());
        rendered.insert(file.clone(), result);
    }
    let library = folder.join("lib.rs");
    let text = std::fs::read_to_string(root.join(&library))?;
    // Switches are no style; the attribute follows those that the file begins with.
    let (header, items) = text
        .split_once("\npub mod ")
        .context("lib.rs has modules")?;
    changed.insert(
        library,
        format!("{header}\n#![allow(warnings, clippy::all)]\nmod mutants;\npub mod {items}"),
    );
    changed.insert(folder.join("mutants.rs"), SWITCH.to_owned());
    Ok((rendered, changed))
}

/// Runs Cargo. Returns the test program, or the places of errors.
fn compile(tree: &Path, target: &Path) -> Result<(Option<PathBuf>, Vec<Place>)> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["test", "--locked", "--no-run", "--lib"])
        .args(["--package", "steersman-controllers"])
        .arg("--message-format=json")
        .arg("--target-dir")
        .arg(target)
        .current_dir(tree)
        // Lints of the project do not apply to switches.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .stderr(Stdio::inherit())
        .output()
        .context("cargo")?;
    let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if output.status.success() {
        let executable = messages
            .iter()
            .filter_map(|message| message["executable"].as_str())
            .next_back();
        let executable = executable.context("Cargo names the test program")?;
        return Ok((Some(executable.into()), Vec::new()));
    }
    let errors: Vec<&Value> = messages
        .iter()
        .map(|message| &message["message"])
        .filter(|message| message["level"] == "error")
        .collect();
    let places: Vec<Place> = errors.iter().flat_map(|error| places_of(error)).collect();
    println!("{} errors", errors.len());
    if places.is_empty() {
        let texts: Vec<&str> = errors
            .iter()
            .filter_map(|error| error["rendered"].as_str())
            .collect();
        bail!("cargo failed: {}", texts.join("\n"));
    }
    Ok((None, places))
}

/// The primary spans of one error of rustc.
fn places_of(error: &Value) -> Vec<Place> {
    let spans = error["spans"].as_array().into_iter().flatten();
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap_or_default()).unwrap_or(0);
    spans
        .filter(|span| span["is_primary"] == true)
        .map(|span| Place {
            file: span["file_name"].as_str().unwrap_or_default().to_owned(),
            bytes: number(&span["byte_start"])..number(&span["byte_end"]),
        })
        .collect()
}

/// The mutants that may cause an error at `place`: the innermost one around it, or else those that it encloses.
fn suspects(place: &Place, rendered: &BTreeMap<String, Rendered>, mutants: &[Mutant]) -> Vec<u32> {
    let prefix = format!("{CONTROLLERS}/");
    let file = place.file.strip_prefix(&prefix).unwrap_or(&place.file);
    let Some(rendered) = rendered.get(file) else {
        return Vec::new();
    };
    let around = rendered
        .ranges
        .iter()
        .filter(|(_, range)| range.start <= place.bytes.start && place.bytes.end <= range.end)
        .min_by_key(|(_, range)| range.len());
    if let Some((id, _)) = around {
        return vec![*id];
    }
    let overlaps =
        |range: &Range<usize>| range.start < place.bytes.end && place.bytes.start < range.end;
    let inside: Vec<u32> = rendered
        .ranges
        .iter()
        .filter(|(_, range)| overlaps(range))
        .map(|(id, _)| *id)
        .collect();
    if !inside.is_empty() {
        return inside;
    }
    // For example a closure whose parameter has no type any more: the mutants of the same line, or of the file.
    let line = rendered.text[..place.bytes.start.min(rendered.text.len())]
        .matches('\n')
        .count()
        + 1;
    let near = |reach: usize| -> Vec<u32> {
        mutants
            .iter()
            .filter(|mutant| mutant.file == file && mutant.line.abs_diff(line) <= reach)
            .map(|mutant| mutant.id)
            .collect()
    };
    let same = near(1);
    if same.is_empty() { near(10) } else { same }
}
