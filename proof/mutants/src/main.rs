//! Changes decisions of controllers, one place at a time, and counts the changes that no test of the controller finds.
//!
//! decision files -> [`find`] -> [`mutant`] (one text with a switch for each mutant) -> [`build`] -> [`trial`] -> [`report`]
//!
//! All mutants are in one test program, since a build for each of them would take days. The variable `STEERSMAN_MUTANT`
//! selects the active one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod build;
mod explained;
mod files;
mod find;
mod mutant;
mod report;
mod trial;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;

use build::Build;
use report::Results;

/// The root of the project.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Changes decisions of controllers, and runs the tests of the same controller against each change.
#[derive(Debug, Parser)]
#[command(name = "steersman-mutants")]
struct Arguments {
    /// Only these controllers: names of folders.
    #[arg(long, value_name = "CONTROLLER")]
    only: Vec<String>,
    /// Number of test processes at the same time.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    threads: usize,
    /// The folder of the copy, its build and the results; by default `mutants` in the target folder.
    #[arg(long, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Only build the test program.
    #[arg(long, conflicts_with = "no_build")]
    build_only: bool,
    /// Use the test program of the last build.
    #[arg(long)]
    no_build: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let root = Path::new(ROOT).canonicalize()?;
    let home = arguments.home.clone().unwrap_or_else(|| {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        target
            .unwrap_or_else(|| root.join("target"))
            .join("mutants")
    });
    std::fs::create_dir_all(&home)?;
    let program = home.join("build.json");
    if !arguments.no_build {
        let build = build::build(&root, &home)?;
        std::fs::write(&program, serde_json::to_vec(&build)?)?;
    }
    if arguments.build_only {
        return Ok(());
    }
    let bytes = std::fs::read(&program).context("no build; leave out --no-build")?;
    run(&arguments, &serde_json::from_slice(&bytes)?, &home).await
}

/// Tries the mutants of the chosen controllers.
async fn run(arguments: &Arguments, build: &Build, home: &Path) -> Result<()> {
    let explanations = explained::explanations()?;
    let stale = explained::stale(&explanations, &build.mutants);
    if !stale.is_empty() {
        bail!("no mutant has these explanations: {stale:#?}");
    }
    let kept = home.join("results.json");
    let mut results = Results::read(&kept)?;
    for controller in controllers(arguments, build)? {
        let names = trial::names(build, &controller).await?;
        let tests = trial::record(build, names, arguments.threads).await?;
        let mutants = build
            .mutants
            .iter()
            .filter(|mutant| mutant.controller() == controller)
            .cloned()
            .collect();
        let fates = trial::fates(build, mutants, &tests, arguments.threads).await?;
        results.set(&controller, fates);
        results.write(&kept)?;
        print!("{}", results.open(&controller, &explanations));
    }
    println!("\n{}", results.table(&explanations));
    Ok(())
}

/// The chosen controllers with mutants.
fn controllers(arguments: &Arguments, build: &Build) -> Result<Vec<String>> {
    let all: BTreeSet<&str> = build
        .mutants
        .iter()
        .map(|mutant| mutant.controller())
        .collect();
    if arguments.only.is_empty() {
        return Ok(all.into_iter().map(str::to_owned).collect());
    }
    for name in &arguments.only {
        if !all.contains(name.as_str()) {
            bail!("no controller {name} with decisions; there are {all:?}");
        }
    }
    Ok(arguments.only.clone())
}
