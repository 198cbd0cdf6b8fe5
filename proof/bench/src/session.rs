//! A measurement on an API server: its start, the measurement, and the deletion of what it leaves on a
//! user's cluster. Signals end it early.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cluster;
use crate::manager::{self, Manager};
use crate::plane::{Nodes, Plane, PlaneArgs};
use crate::row::Workload;
use crate::workloads;

/// The managers under measurement, the API server, and the folder for files, which the caller deletes.
pub(crate) struct Session<'a> {
    pub(crate) managers: &'a [&'a Path],
    pub(crate) plane: &'a PlaneArgs,
    pub(crate) nodes: Nodes,
    pub(crate) folder: &'a Path,
}

/// The signals that end the command early.
struct Interrupts([Signal; 2]);

impl Interrupts {
    fn listen() -> Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let [interrupt, terminate] = kinds.map(signal);
        let failed = "listen to signals";
        Ok(Self([
            interrupt.context(failed)?,
            terminate.context(failed)?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

impl Session<'_> {
    /// Checks the managers, starts the API server, and measures. The second result tells whether the
    /// user's cluster is as it was.
    pub(crate) async fn run<T>(
        &self,
        measure: impl AsyncFnOnce(&Plane) -> Result<T>,
    ) -> Result<(T, Result<()>)> {
        let mut interrupts = Interrupts::listen()?;
        for binary in self.managers {
            manager::check(binary).await?;
        }
        let plane = tokio::select! {
            started = self.plane.start(self.nodes, self.folder) => started?,
            () = interrupts.next() => bail!("interrupted"),
        };
        let measured = tokio::select! {
            measured = measure(&plane) => measured,
            () = interrupts.next() => Err(anyhow!("interrupted")),
        };
        plane.end_tasks().await;
        let cleaned = if plane.outlives_us() {
            eprintln!("deleting the objects of the loads");
            tokio::select! {
                cleaned = self.clean(&plane) => cleaned,
                () = interrupts.next() => Err(anyhow!("interrupted")),
            }
            .context("delete the objects of the loads")
        } else {
            Ok(())
        };
        match (measured, cleaned) {
            (Ok(result), cleaned) => Ok((result, cleaned)),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
        }
    }

    /// Deletes the objects of the loads while a manager works.
    async fn clean(&self, plane: &Plane) -> Result<()> {
        let flags = workloads::flags(Workload::Idle, self.folder)?;
        let binary = self.managers.first().context("no manager")?;
        let _manager =
            Manager::start(binary, &flags, plane, &plane.kubeconfig, self.folder).await?;
        cluster::clean(&plane.client).await
    }
}
