//! One manager under one load: the costs of each phase.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::manager::Manager;
use crate::plane::Plane;
use crate::process::Usage;
use crate::requests::{RequestCounts, since};
use crate::slices::SliceCosts;

const MIB: f64 = 1024.0 * 1024.0;

/// The costs of a phase.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sample {
    /// Time until the load is settled.
    pub(crate) wall_seconds: f64,
    /// CPU time of the manager until it is quiet, as the costs below.
    pub(crate) cpu_seconds: f64,
    /// Resident memory of the manager at the end.
    pub(crate) resident_mib: f64,
    /// Its highest resident memory.
    pub(crate) peak_mib: f64,
    /// CPU time of the API server, if its process is known.
    pub(crate) api_server_cpu_seconds: Option<f64>,
    /// The manager's requests.
    pub(crate) requests: RequestCounts,
    /// Writes and delays of EndpointSlices, for loads with Services.
    pub(crate) slices: Option<SliceCosts>,
}

/// A phase of a load.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// Number of pods that were created, replaced or deleted.
    pub(crate) pods: usize,
    pub(crate) sample: Sample,
}

/// A manager under a load.
pub(crate) struct Bench<'a> {
    manager: Manager,
    plane: &'a Plane,
    phases: Vec<Phase>,
}

/// Costs at a moment, since the start of the manager.
pub(crate) struct Costs {
    usage: Usage,
    requests: RequestCounts,
    api_server: Option<f64>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(manager: Manager, plane: &'a Plane) -> Self {
        Self {
            manager,
            plane,
            phases: Vec::new(),
        }
    }

    /// The phase `start`: everything up to the first moment in which the manager is quiet. `began` is
    /// the moment of its start.
    pub(crate) async fn start(&mut self, began: Instant, api_server: Option<f64>) -> Result<()> {
        let nothing = Costs {
            usage: Usage {
                cpu_seconds: 0.0,
                resident: 0,
                peak: 0,
            },
            requests: RequestCounts::new(),
            api_server,
        };
        self.finish("start", 0, began.elapsed(), &nothing).await
    }

    /// Runs `work`, which changes `pods` pods, and records its costs. The phase ends when the manager
    /// is quiet, because Events and other late requests belong to it.
    pub(crate) async fn phase(
        &mut self,
        name: &'static str,
        pods: usize,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let before = self.begin().await?;
        let started = Instant::now();
        tokio::select! {
            done = work => done.with_context(|| format!("phase {name:?}"))?,
            ended = self.manager.ended() => return Err(ended.context(format!("phase {name:?}"))),
        }
        self.finish(name, pods, started.elapsed(), &before).await
    }

    /// The costs before a phase.
    pub(crate) async fn begin(&mut self) -> Result<Costs> {
        self.manager.reset_peak()?;
        self.costs().await
    }

    /// Records the costs of a phase since [`Self::begin`]. `wall` is the time of its work.
    pub(crate) async fn finish(
        &mut self,
        name: &'static str,
        pods: usize,
        wall: Duration,
        before: &Costs,
    ) -> Result<()> {
        self.manager.until_quiet().await?;
        let after = self.costs().await?;
        let api_server = after.api_server.zip(before.api_server);
        let sample = Sample {
            wall_seconds: wall.as_secs_f64(),
            cpu_seconds: after.usage.cpu_seconds - before.usage.cpu_seconds,
            resident_mib: after.usage.resident as f64 / MIB,
            peak_mib: after.usage.peak as f64 / MIB,
            api_server_cpu_seconds: api_server.map(|(after, before)| after - before),
            requests: since(&before.requests, &after.requests),
            slices: None,
        };
        eprintln!(
            "    {name}: {:.1} s, {:.2} s of CPU, {:.0} MiB",
            sample.wall_seconds, sample.cpu_seconds, sample.resident_mib
        );
        self.phases.push(Phase { name, pods, sample });
        Ok(())
    }

    /// Adds the costs of slices to the last phase.
    pub(crate) fn add_slices(&mut self, costs: SliceCosts) {
        if let Some(phase) = self.phases.last_mut() {
            phase.sample.slices = Some(costs);
        }
    }

    /// The latest phase.
    pub(crate) fn last(&self) -> Option<&Phase> {
        self.phases.last()
    }

    /// The manager under measurement.
    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Ends the manager. Returns the phases.
    pub(crate) async fn end(self) -> Result<Vec<Phase>> {
        self.manager.end().await?;
        Ok(self.phases)
    }

    async fn costs(&mut self) -> Result<Costs> {
        Ok(Costs {
            requests: self.manager.requests().await?,
            usage: self.manager.usage()?,
            api_server: self.plane.api_server_cpu_seconds()?,
        })
    }
}

/// Waits for this time.
pub(crate) async fn idle(seconds: usize) -> Result<()> {
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    Ok(())
}
