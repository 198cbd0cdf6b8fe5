//! Runs the tests of a controller: once to see the mutants that each test reaches, then against each mutant.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::build::Build;
use crate::mutant::Mutant;

/// The longest time of all tests of one mutant.
const BUDGET: Duration = Duration::from_secs(60);
/// The usual time of the tests in the first process of a mutant; each further process gets twice as much.
const FIRST: Duration = Duration::from_millis(100);
/// Tests that take this long, and this many times as long as usual, are endless.
const ENDLESS: (Duration, u32) = (Duration::from_secs(10), 5);
/// Kilobytes of memory, since a changed loop may fill a list for ever.
const MEMORY: u32 = 6_000_000;

/// The fate of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Fate {
    /// A test fails, or does not end.
    Found,
    /// No test found it within the time limit.
    Survived,
    /// No test computes another value by it.
    Unreached,
}

/// One test and its usual run.
#[derive(Debug)]
pub(crate) struct Test {
    name: String,
    time: Duration,
    /// The numbers of the mutants that it reaches.
    reached: Vec<u32>,
}

/// The names of the tests of a controller.
pub(crate) async fn names(build: &Build, controller: &str) -> Result<Vec<String>> {
    let output = Command::new(&build.executable)
        .args(["--list", "--format", "terse"])
        .output()
        .await
        .context("the test program")?;
    let prefix = format!("{controller}::");
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| name.starts_with(&prefix))
        .map(str::to_owned)
        .collect())
}

/// Runs each test without a mutant. A test that fails or does not end is an error.
pub(crate) async fn record(build: &Build, names: Vec<String>, threads: usize) -> Result<Vec<Test>> {
    let folder = tempfile::tempdir()?;
    let runs = futures::stream::iter(names.into_iter().enumerate()).map(|(number, name)| {
        let record = folder.path().join(number.to_string());
        async move {
            let began = Instant::now();
            let setting = ("STEERSMAN_MUTANTS_RECORD", record.as_os_str());
            if !passes(build, &[&name], setting, BUDGET).await? {
                bail!("{name} fails without a mutant");
            }
            Ok(Test {
                time: began.elapsed(),
                reached: recorded(&record)?,
                name,
            })
        }
    });
    let tests: Vec<Result<Test>> = runs.buffer_unordered(threads).collect().await;
    let mut tests = tests.into_iter().collect::<Result<Vec<Test>>>()?;
    tests.sort_by_key(|test| test.time);
    Ok(tests)
}

/// The numbers in the file that `switch.rs` writes.
fn recorded(path: &Path) -> Result<Vec<u32>> {
    // A test without mutants writes no file.
    let bytes = std::fs::read(path).unwrap_or_default();
    let words = bytes.chunks_exact(4);
    Ok(words
        .map(|word| word.try_into().map(u32::from_le_bytes))
        .collect::<Result<_, _>>()?)
}

/// The fate of each mutant. `tests` are those of its controller, the quickest first.
pub(crate) async fn fates(
    build: &Build,
    mutants: Vec<Mutant>,
    tests: &[Test],
    threads: usize,
) -> Result<Vec<(Mutant, Fate)>> {
    let trials = futures::stream::iter(mutants).map(|mutant| async move {
        let fate = fate(build, &mutant, tests).await?;
        Ok((mutant, fate))
    });
    let fates: Vec<Result<_>> = trials.buffered(threads).collect().await;
    fates.into_iter().collect()
}

async fn fate(build: &Build, mutant: &Mutant, tests: &[Test]) -> Result<Fate> {
    let reaching: Vec<&Test> = tests
        .iter()
        .filter(|test| test.reached.contains(&mutant.id))
        .collect();
    if reaching.is_empty() {
        return Ok(Fate::Unreached);
    }
    let id = mutant.id.to_string();
    let began = Instant::now();
    for batch in batches(&reaching) {
        let usual: Duration = batch.iter().map(|test| test.time).sum();
        let names: Vec<&str> = batch.iter().map(|test| test.name.as_str()).collect();
        let limit = ENDLESS.0 + usual * ENDLESS.1;
        let setting = ("STEERSMAN_MUTANT", id.as_ref());
        if !passes(build, &names, setting, limit).await? {
            return Ok(Fate::Found);
        }
        if began.elapsed() > BUDGET {
            break;
        }
    }
    Ok(Fate::Survived)
}

/// Groups tests into processes: most mutants are found by the first, and the start of a process costs as much as a test.
fn batches<'a>(tests: &[&'a Test]) -> Vec<Vec<&'a Test>> {
    let mut batches: Vec<Vec<&Test>> = Vec::new();
    let mut left = Duration::ZERO;
    let mut room = FIRST;
    for test in tests {
        match batches.last_mut() {
            Some(batch) if test.time <= left => batch.push(test),
            _ => {
                batches.push(vec![test]);
                left = room;
                room *= 2;
            }
        }
        left = left.saturating_sub(test.time);
    }
    batches
}

/// Whether all tests pass within `limit`.
async fn passes(
    build: &Build,
    names: &[&str],
    setting: (&str, &std::ffi::OsStr),
    limit: Duration,
) -> Result<bool> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$@\""), "sh"])
        .arg(&build.executable)
        .args(["--exact", "--test-threads=1"])
        .args(names)
        .env(setting.0, setting.1)
        .env("CARGO_MANIFEST_DIR", &build.folder)
        .current_dir(&build.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("sh")?;
    match tokio::time::timeout(limit, child.wait()).await {
        Ok(status) => Ok(status?.success()),
        Err(_) => {
            child.kill().await?;
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_tests_share_a_process() {
        let test = |millis: u64| Test {
            name: millis.to_string(),
            time: Duration::from_millis(millis),
            reached: Vec::new(),
        };
        let tests = [10, 40, 50, 60, 70, 300, 500].map(test);
        let all: Vec<&Test> = tests.iter().collect();
        let names: Vec<Vec<&str>> = batches(&all)
            .iter()
            .map(|batch| batch.iter().map(|test| test.name.as_str()).collect())
            .collect();
        assert_eq!(
            names,
            [
                vec!["10", "40", "50"],
                vec!["60", "70"],
                vec!["300"],
                vec!["500"]
            ]
        );
    }
}
