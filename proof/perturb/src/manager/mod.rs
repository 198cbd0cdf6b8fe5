//! The manager under test, as a run sees it: it stands by, leads, loses its Lease, ends by itself, and
//! crashes.
//!
//! It runs in this process, or it is a program of its own ([`Subject`]).

use std::time::Duration;

use steersman_devcluster::DevCluster;

use crate::scenario::Scenario;
use crate::subject::Subject;

mod in_process;
mod process;

pub use in_process::InProcess;
use process::Process;

/// Part of the `User-Agent` of managers only: it separates their requests from those of users and
/// nodes. The number of the instance follows.
pub const AGENT: &str = "(instance-";

/// Time limit of one attempt of a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A manager that stands by until [`Manager::lead`].
pub struct Manager(Kind);

enum Kind {
    InProcess(InProcess),
    Process(Process),
}

impl Manager {
    /// Starts a manager that fills its caches and waits. A program starts when it
    /// shall lead. `number` marks its requests in the log.
    pub fn standby(
        cluster: &DevCluster,
        scenario: &'static Scenario,
        number: usize,
        subject: &Subject,
    ) -> Self {
        Self(match subject {
            Subject::InProcess => Kind::InProcess(InProcess::standby(cluster, scenario, number)),
            Subject::Program(path) => {
                Kind::Process(Process::new(cluster.clone(), scenario, number, path))
            }
        })
    }

    /// Lets the manager work: builds the controllers, waits for their caches, and runs them. A program
    /// has only started when this returns. `since` is the resource version at which this leadership term
    /// began.
    pub async fn lead(&mut self, since: u64) {
        match &mut self.0 {
            Kind::InProcess(manager) => manager.lead(since).await,
            Kind::Process(process) => process.start().await,
        }
    }

    /// Waits until the manager ends by itself, and returns the name of the controller that ended it. A
    /// program tells its exit status.
    pub async fn ended(&self) -> String {
        match &self.0 {
            Kind::InProcess(manager) => manager.ended().await.to_owned(),
            Kind::Process(process) => process.ended().await,
        }
    }

    /// Closes the write gate: another process may lead from now on. A program has no gate.
    pub fn lose_lease(&self) {
        if let Kind::InProcess(manager) = &self.0 {
            manager.lose_lease();
        }
    }

    /// Ends all work at once, as a crash does. Returns the number of panics in tasks and syncs.
    pub async fn crash(self) -> usize {
        match self.0 {
            Kind::InProcess(manager) => manager.crash().await,
            Kind::Process(process) => process.kill().await,
        }
    }

    /// Stops the controllers, then the caches. Returns the number of panics in tasks and syncs.
    pub async fn stop(self) -> usize {
        match self.0 {
            Kind::InProcess(manager) => manager.stop().await,
            Kind::Process(process) => process.kill().await,
        }
    }

    /// The present samples of these families of metrics, sorted. `None` for a program, whose metrics the
    /// suite does not read.
    pub(crate) fn samples(&self, families: &[&str]) -> Option<Vec<String>> {
        match &self.0 {
            Kind::InProcess(manager) => Some(manager.samples(families)),
            Kind::Process(_) => None,
        }
    }
}
