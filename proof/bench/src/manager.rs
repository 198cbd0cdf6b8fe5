//! A manager under measurement: a process of its own, without leader election.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use steersman_client::{ApiClient, connect};
use steersman_controlplane::{Program, free_port};
use tokio::process::Command;

use crate::plane::{self, Plane};
use crate::process::{Usage, reset_peak};
use crate::requests::{Counter, RequestCounts};

/// A flag that every controller manager has.
const FLAG: &str = "--kube-api-qps";
/// Time limit of the start of a manager.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two probes of a manager that starts. Starts take about 100 ms.
const START_PAUSE: Duration = Duration::from_millis(5);
/// Pause between two looks at a manager.
const PAUSE: Duration = Duration::from_millis(100);
/// A manager without requests for this time is quiet.
const QUIET: Duration = Duration::from_secs(2);
/// Pause between two counts of requests in the wait for quiet.
const QUIET_PAUSE: Duration = Duration::from_millis(500);
/// A manager that is not quiet after this time has periodic work.
const QUIET_LIMIT: Duration = Duration::from_secs(30);

/// A manager that has not ended this long after the signal is killed.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A running manager, which is killed on drop.
pub(crate) struct Manager {
    program: Program,
    /// For its health and metrics.
    client: ApiClient,
    counter: Counter,
}

/// Fails if `binary` is no controller manager.
pub(crate) async fn check(binary: &Path) -> Result<()> {
    let help = Command::new(binary)
        .arg("--help")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let shown = tokio::time::timeout(Duration::from_secs(10), help).await;
    let is_one = match shown {
        Ok(Ok(output)) => [output.stdout, output.stderr]
            .iter()
            .any(|text| String::from_utf8_lossy(text).contains(FLAG)),
        Ok(Err(error)) => {
            return Err(error).with_context(|| format!("run {}", binary.display()));
        }
        Err(_) => false,
    };
    ensure!(
        is_one,
        "{} is no controller manager: its --help shows no flag {FLAG}",
        binary.display()
    );
    Ok(())
}

impl Manager {
    /// Starts a manager, and waits until it is healthy. It reaches the API server of `plane` by
    /// `kubeconfig`. `flags` follow those of every measurement.
    pub(crate) async fn start(
        binary: &Path,
        flags: &[String],
        plane: &Plane,
        kubeconfig: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let port = free_port().context("find a free port")?;
        let mut all = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", folder.display()),
            "--bind-address=127.0.0.1".to_owned(),
            "--authorization-always-allow-paths=/metrics,/healthz".to_owned(),
            // A second manager would wait for the Lease of the first one.
            "--leader-elect=false".to_owned(),
        ];
        all.extend(plane.manager_flags());
        all.extend(flags.iter().cloned());
        let counter = Counter::new(plane.audit_log().as_deref())?;
        let mut manager = Self {
            program: Program::start(binary, &all, &folder.join("manager.log"))?,
            client: client(port)?,
            counter,
        };
        manager.until_healthy().await?;
        Ok(manager)
    }

    async fn until_healthy(&mut self) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = self.client.get_path_as("/healthz", "text/plain").await {
            self.program.check_running()?;
            if started.elapsed() > START_LIMIT {
                return Err(error).with_context(|| format!("not healthy after {START_LIMIT:?}"));
            }
            tokio::time::sleep(START_PAUSE).await;
        }
        Ok(())
    }

    /// Waits until the manager has sent no request for [`QUIET`], or for [`QUIET_LIMIT`].
    pub(crate) async fn until_quiet(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut last = self.requests().await?;
        let mut since = Instant::now();
        while since.elapsed() < QUIET && started.elapsed() < QUIET_LIMIT {
            tokio::time::sleep(QUIET_PAUSE).await;
            let now = self.requests().await?;
            if now != last {
                last = now;
                since = Instant::now();
            }
        }
        Ok(())
    }

    /// Waits for the end of the process, which is an error.
    pub(crate) async fn ended(&mut self) -> Error {
        loop {
            if let Err(error) = self.program.check_running() {
                return error.into();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the manager in order: a profile, which an instrumented one writes at its end, is whole.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.program.signal("TERM")?;
        if tokio::time::timeout(END_LIMIT, self.ended()).await.is_err() {
            eprintln!("    the manager has not ended {END_LIMIT:?} after SIGTERM; it is killed");
        }
        Ok(())
    }

    pub(crate) fn usage(&mut self) -> Result<Usage> {
        Usage::of_program(&mut self.program)
    }

    /// Resets the highest resident memory to the present one.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        reset_peak(&self.program)
    }

    /// The requests since the start.
    pub(crate) async fn requests(&mut self) -> Result<RequestCounts> {
        let Self {
            counter, client, ..
        } = self;
        counter.count(page(client)).await
    }

    /// The page `/metrics`.
    pub(crate) async fn metrics(&self) -> Result<String> {
        page(&self.client).await
    }

    /// Sends a signal to the process, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        Ok(self.program.signal(name)?)
    }
}

async fn page(client: &ApiClient) -> Result<String> {
    let answer = client.get_path_as("/metrics", "text/plain").await;
    let answer = answer.context("read the manager's metrics")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A client of the manager on this local port.
fn client(port: u16) -> Result<ApiClient> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    // The manager signs its certificate itself.
    config.accept_invalid_certs = true;
    plane::client(connect(&config)?)
}
