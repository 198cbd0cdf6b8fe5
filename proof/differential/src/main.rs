//! Sends writes to a real and to the embedded API server, and compares every answer: HTTP status,
//! error, warnings, object and managed fields.
//!
//! - random sequences: seed -> [`sequence`] -> [`play`] on both servers -> [`shrink`] -> report
//! - documents of projects: folders -> [`documents`] -> [`published`] -> report, and a table ([`tally`])
//!
//! The real server is that of `KUBECONFIG`, or one that is started from the folder
//! `KUBEBUILDER_ASSETS`.

mod answer;
mod documents;
mod kinds;
mod play;
mod published;
mod sample;
mod sequence;
mod shrink;
mod tally;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use futures::StreamExt;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use steersman_controlplane::{ControlPlane, Settings};
use steersman_devcluster::{Admission, DevCluster};

use answer::send;
use play::Servers;
use sequence::Sequence;

/// The options of the program.
#[derive(Debug, Parser)]
#[command(about = "Compares the answers of a real and of the embedded API server")]
struct Options {
    /// Number of sequences.
    #[arg(long, default_value_t = 1000)]
    sequences: u64,
    /// Number of the first sequence.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only sequences of this kind.
    #[arg(long)]
    only: Option<String>,
    /// In place of sequences, the YAML documents below these folders, one folder for each project.
    #[arg(long, num_args = 1.., value_name = "FOLDER")]
    documents: Vec<PathBuf>,
    /// Sequences or documents at a time.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// The most differences to shrink and show.
    #[arg(long, default_value_t = 20)]
    show: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let directory = tempfile::tempdir()?;
    let (kubeconfig, _plane) = real_server(directory.path()).await?;
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let cluster = embedded_server().await?;
    let servers = Servers {
        real: kube::Client::try_from(config)?,
        embedded: cluster.client(),
    };
    if options.documents.is_empty() {
        play_sequences(&servers, &options).await
    } else {
        published::compare(&servers, &options.documents, options.jobs).await
    }
}

/// An embedded server with the admission plugins of the real one, and likewise without controllers.
async fn embedded_server() -> Result<DevCluster> {
    let admission = Admission {
        default_accounts: false,
        root_ca: false,
        protected_claims: true,
        protected_volumes: true,
        protected_classes: true,
        ..Admission::FULL
    };
    let builder = DevCluster::builder().admission(admission).metrics(false);
    Ok(builder.start().await?)
}

/// Plays the random sequences on both servers.
async fn play_sequences(servers: &Servers, options: &Options) -> Result<()> {
    for client in [&servers.real, &servers.embedded] {
        define_kinds(client).await?;
    }

    // Objects with finalizers stay, so that each run has names of its own.
    let run = Timestamp::now().as_second() % 1_000_000;
    let seeds = options.seed..options.seed + options.sequences;
    let only = options.only.as_deref();
    let played = futures::stream::iter(seeds)
        .map(|seed| async move {
            let sequence = Sequence::random(seed, only);
            let found = servers.play(&sequence, &format!("s{run}-{seed}")).await;
            (seed, sequence, found)
        })
        .buffered(options.jobs);
    let mut played = std::pin::pin!(played);
    let names = AtomicU64::new(0);
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut shown = 0;
    while let Some((seed, sequence, found)) = played.next().await {
        let count = counts.entry(&sequence.kind.name).or_default();
        count.0 += 1;
        let Some(difference) = found? else { continue };
        count.1 += 1;
        if shown < options.show {
            shown += 1;
            let name = || format!("t{run}-{}", names.fetch_add(1, Ordering::Relaxed));
            let (sequence, difference) =
                shrink::shrink(servers, sequence, difference, name).await?;
            report(seed, &sequence, &difference);
        }
    }
    summarize(&counts);
    Ok(())
}

/// The kubeconfig of the real server.
async fn real_server(
    directory: &std::path::Path,
) -> Result<(std::path::PathBuf, Option<ControlPlane>)> {
    if let Some(kubeconfig) = std::env::var_os("KUBECONFIG") {
        return Ok((kubeconfig.into(), None));
    }
    let assets = std::env::var_os("KUBEBUILDER_ASSETS")
        .context("KUBECONFIG or KUBEBUILDER_ASSETS selects a real API server")?;
    let settings = Settings {
        assets: assets.as_ref(),
        home: directory,
        disabled_plugins: &[],
        flags: &[],
        audited: false,
    };
    let plane = ControlPlane::start(&settings).await?;
    Ok((plane.kubeconfig(), Some(plane)))
}

/// Creates the definitions of the custom kinds, and waits until they are served.
async fn define_kinds(client: &kube::Client) -> Result<()> {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for kind in sequence::kinds() {
        let Some(spec) = &kind.definition else {
            continue;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let plural = text(&spec["names"]["plural"]);
        let group = text(&spec["group"]);
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": spec,
        });
        let answer = send(
            client,
            "POST",
            DEFINITIONS,
            "application/json",
            definition.to_string(),
        )
        .await?;
        if answer.code >= 300 && answer.code != 409 {
            bail!(
                "the definition of {} is refused: {}",
                kind.name,
                answer.body
            );
        }
        for version in spec["versions"].as_array().into_iter().flatten() {
            let path = format!("/apis/{group}/{}/{plural}", text(&version["name"]));
            let mut attempts = 0;
            while send(client, "GET", &path, "application/json", String::new())
                .await?
                .code
                != 200
            {
                attempts += 1;
                if attempts > 300 {
                    bail!("{path} is not served");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    Ok(())
}

/// Prints a sequence and its difference.
fn report(seed: u64, sequence: &Sequence, difference: &play::Difference) {
    println!("--- {} {seed}", sequence.kind.name);
    for step in &sequence.steps {
        let last = if step.onto_last {
            " (onto the last answer)"
        } else {
            ""
        };
        println!("{} {} {}{last}", step.method, step.path, step.content_type);
        println!("    {}", step.body);
    }
    let real = &difference.real;
    let embedded = &difference.embedded;
    for line in real.differences(embedded) {
        println!("  {line}");
    }
}

fn summarize(counts: &BTreeMap<&str, (u64, u64)>) {
    let mut all = 0;
    let mut different = 0;
    for (kind, (count, differ)) in counts {
        println!("{kind}: {} of {count} equal", count - differ);
        all += count;
        different += differ;
    }
    println!("all: {} of {all} equal", all - different);
}
