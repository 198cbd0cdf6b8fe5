//! Benchmarks of a controller manager, of failover, and of the embedded API server.
//!
//! `compare` measures one manager, or two in turn, under the same loads: wall time, CPU time, memory
//! and requests, and the time of single steps on slow API servers. `large` measures one in a cluster of 150,000 pods. `failover` measures the time until a
//! standby takes over. `apiserver` measures the embedded API server.
//!
//! Managers run as processes of their own, so that their CPU time and memory are separate.
//! `docs/performance.md` has the results.

mod apiserver;
mod cluster;
mod compare;
mod failover;
mod large;
mod manager;
mod metrics;
mod plane;
mod process;
mod proxy;
mod report;
mod requests;
mod row;
mod run;
mod session;
mod slices;
mod svg;
mod workloads;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Measures controller managers and the embedded API server.
#[derive(Debug, Parser)]
#[command(name = "steersman-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(Box<compare::CompareArgs>),
    Large(Box<large::LargeArgs>),
    /// Measures the failover from an ended leader to a standby.
    Failover {
        /// Measurements of each signal.
        #[arg(default_value_t = 3)]
        rounds: usize,
        /// The binary of the manager.
        #[arg(long, default_value = "target/dist/steersman")]
        manager: PathBuf,
        /// Further flags of the manager.
        #[arg(last = true)]
        flags: Vec<String>,
    },
    /// Measures the embedded API server.
    Apiserver {
        /// The measurements.
        #[arg(value_name = "MEASUREMENT", default_value = "all")]
        measurements: Vec<apiserver::Measurement>,
        /// A binary with the subcommand `apiserver`.
        #[arg(long, default_value = "target/dist/steersman")]
        manager: PathBuf,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let scratch = tempfile::Builder::new()
        .prefix("steersman-bench-")
        .tempdir()
        .context("create a temporary folder")?;
    let folder = scratch.path();
    match &cli.command {
        Command::Compare(args) => compare::run(args, folder).await,
        Command::Large(args) => large::run(args, folder).await,
        Command::Failover {
            rounds,
            manager,
            flags,
        } => failover::measure(manager, flags, *rounds, folder).await,
        Command::Apiserver {
            measurements,
            manager,
        } => apiserver::measure(manager, measurements, folder).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
