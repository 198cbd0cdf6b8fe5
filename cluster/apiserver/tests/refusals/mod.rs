//! Compares refusals with those of a real server. The cases are generated: one valid object of each
//! kind (`seeds`), changed at every place that its schema has, and sent as a create, an update, a
//! patch or an apply. `answers.jsonl` holds the recorded answers of kube-apiserver.
//!
//! `known.txt` lists the cases with another answer, with the reason. The test fails for an unlisted
//! difference, and for a listed case without one. `STEERSMAN_GOLDEN=write` renews the list and
//! the table in `docs/refusals.md`; `scripts/record-refusals.sh` records the answers anew.

mod cases;
mod mutations;
mod report;
mod schema;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use steersman_devcluster::DevCluster;

use cases::{Answer, Seed};
use report::Comparison;

/// A file of this test, or of the documentation.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

const ANSWERS: &str = "tests/refusals/answers.jsonl";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn seeds() -> Vec<Seed> {
    let cluster = DevCluster::new(crate::support::clock());
    cases::seeds(schema::Schema::read(&cluster.client()).await)
}

#[test]
fn refusals_equal_those_of_a_real_server() {
    let seeds = runtime().block_on(seeds());
    let recorded = recorded();
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let shares = (0..workers).map(|worker| seeds.iter().skip(worker).step_by(workers));
    let answers: Vec<(String, Answer)> = std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(move || replayed(share)))
            .collect();
        let results = threads.into_iter();
        results.flat_map(|thread| thread.join().unwrap()).collect()
    });
    let found: BTreeMap<String, Answer> = answers.into_iter().collect();
    let asked: Vec<_> = found.keys().collect();
    let answered: Vec<_> = recorded.keys().collect();
    assert!(
        asked == answered,
        "the cases differ from the recorded ones: run scripts/record-refusals.sh"
    );
    Comparison::new(&recorded, &found).check();
}

/// The recorded answers by case. The file has a line for each answer and resource, with all cases
/// that got the answer.
fn recorded() -> BTreeMap<String, Answer> {
    let text = std::fs::read_to_string(file(ANSWERS)).unwrap();
    text.lines()
        .flat_map(|line| {
            let (resource, cases, answer): (String, Vec<String>, Answer) =
                serde_json::from_str(line).unwrap();
            let answers = cases.into_iter();
            answers.map(move |case| (format!("{resource}/{case}"), answer.clone()))
        })
        .collect()
}

/// Answers of the embedded server. Each seed has a cluster of its own.
fn replayed<'a>(seeds: impl Iterator<Item = &'a Seed>) -> Vec<(String, Answer)> {
    let runtime = runtime();
    let _in_runtime = runtime.enter();
    seeds
        .flat_map(|seed| {
            let cluster = DevCluster::with_managed_fields(crate::support::clock());
            runtime.block_on(cases::answers(&cluster.client(), seed))
        })
        .collect()
}

#[test]
#[ignore = "records the answers of the real server that KUBECONFIG names"]
fn record() {
    runtime().block_on(async {
        let kubeconfig = Kubeconfig::from_env().unwrap().unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let mut all: BTreeMap<(String, Answer), Vec<String>> = BTreeMap::new();
        for seed in seeds().await {
            for (name, answer) in cases::answers(&client, &seed).await {
                let (resource, case) = cases::split(&name);
                let group = all.entry((resource.to_owned(), answer)).or_default();
                group.push(case.to_owned());
            }
        }
        let mut output = std::io::BufWriter::new(std::fs::File::create(file(ANSWERS)).unwrap());
        for ((resource, answer), cases) in &all {
            let line = serde_json::to_string(&(resource, cases, answer)).unwrap();
            writeln!(output, "{line}").unwrap();
        }
        output.flush().unwrap();
        println!("{} different answers recorded", all.len());
    });
}
