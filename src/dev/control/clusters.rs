//! The clusters of one server: the first one, and its forks. Forks start from snapshots.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_devcluster::faults::RuleId;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::{COMPACTION_INTERVAL, DevCluster, Snapshot};

use super::faults::{self, Rule};
use super::time::Pace;
use super::{Refusal, Result};
use crate::dev::embedded::Recipe;
use crate::dev::kubeconfig::KubeconfigFile;

/// The body of `POST /clusters`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wanted {
    /// The snapshot; without it, the first cluster as it is now.
    snapshot: Option<u64>,
    /// Whether controllers and nodes run in the fork; they do unless told otherwise.
    still: bool,
}

/// A fork that serves on a port of its own.
struct Fork {
    cluster: DevCluster,
    _door: HttpsDoor,
    _kubeconfig: KubeconfigFile,
}

#[derive(Default)]
struct State {
    /// The last number of a fork, a snapshot or a rule.
    last: u64,
    forks: BTreeMap<u64, Fork>,
    snapshots: BTreeMap<u64, Snapshot>,
    /// The cluster of each rule, and its handle there.
    rules: BTreeMap<u64, (u64, RuleId)>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

pub(super) struct Clusters {
    first: DevCluster,
    recipe: Recipe,
    state: Mutex<State>,
    /// The time of all clusters.
    pub(super) pace: Pace,
}

impl Clusters {
    pub(super) fn new(first: DevCluster, recipe: Recipe) -> Self {
        Self {
            first,
            recipe,
            state: Mutex::default(),
            pace: Pace::default(),
        }
    }

    /// The cluster with this number; 0 is the first one.
    pub(super) fn get(&self, id: u64) -> Result<DevCluster> {
        if id == 0 {
            return Ok(self.first.clone());
        }
        let state = self.state.lock();
        let fork = state.forks.get(&id);
        fork.map(|fork| fork.cluster.clone())
            .ok_or_else(|| Refusal::missing("cluster", id))
    }

    /// Adds a rule to the faults of a cluster, and returns its number.
    pub(super) fn add_fault(&self, cluster: u64, rule: Rule) -> Result<u64> {
        let rule = rule.add(&self.get(cluster)?)?;
        let mut state = self.state.lock();
        let id = state.number();
        state.rules.insert(id, (cluster, rule));
        Ok(id)
    }

    /// How often a rule applied, and to which request last.
    pub(super) fn fault(&self, id: u64) -> Result<(usize, Option<String>)> {
        let found = self.state.lock().rules.get(&id).copied();
        let (cluster, rule) = found.ok_or_else(|| Refusal::missing("fault", id))?;
        Ok(faults::state(self.get(cluster)?.faults(), rule))
    }

    pub(super) fn remove_fault(&self, id: u64) -> Result<()> {
        let removed = self.state.lock().rules.remove(&id);
        let (cluster, rule) = removed.ok_or_else(|| Refusal::missing("fault", id))?;
        self.get(cluster)?.faults().remove(rule);
        Ok(())
    }

    /// The number and the revision of a new snapshot.
    pub(super) fn add_snapshot(&self, cluster: u64) -> Result<(u64, u64)> {
        let snapshot = self.get(cluster)?.snapshot();
        let revision = snapshot.revision();
        let mut state = self.state.lock();
        let id = state.number();
        state.snapshots.insert(id, snapshot);
        Ok((id, revision))
    }

    fn snapshot(&self, id: u64) -> Result<Snapshot> {
        let state = self.state.lock();
        let snapshot = state.snapshots.get(&id);
        snapshot
            .cloned()
            .ok_or_else(|| Refusal::missing("snapshot", id))
    }

    /// Makes the objects of a cluster those of a snapshot.
    pub(super) fn restore(&self, snapshot: u64, cluster: u64) -> Result<()> {
        let snapshot = self.snapshot(snapshot)?;
        let returned = self.get(cluster)?.return_to(&snapshot);
        returned.map_err(|status| Refusal::bad(status.message))
    }

    pub(super) fn remove_snapshot(&self, id: u64) -> Result<()> {
        let removed = self.state.lock().snapshots.remove(&id);
        removed
            .map(drop)
            .ok_or_else(|| Refusal::missing("snapshot", id))
    }

    /// Starts a fork, and returns how clients reach it.
    pub(super) async fn fork(&self, wanted: Wanted) -> Result<Value> {
        let snapshot = match wanted.snapshot {
            None => self.first.snapshot(),
            Some(id) => self.snapshot(id)?,
        };
        let failed = |error: &dyn std::fmt::Display| {
            Refusal(
                axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                error.to_string(),
            )
        };
        let Recipe {
            admission,
            controllers,
            nodes,
            event_ttl,
        } = self.recipe.clone();
        let mut builder = DevCluster::builder()
            .clock(self.first.clock().clone())
            .snapshot(&snapshot)
            .admission(admission)
            .metrics(nodes.count > 0 || !controllers.is_empty())
            .event_ttl(event_ttl)
            .compaction_interval(COMPACTION_INTERVAL);
        if !wanted.still {
            let names: Vec<&str> = controllers
                .iter()
                .map(|controller| controller.name)
                .collect();
            builder = builder
                .simulated_nodes(nodes)
                .controllers_named(&controllers, names);
        }
        let cluster = builder.start().await.map_err(|error| failed(&error))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let door = cluster
            .serve_https(address)
            .await
            .map_err(|error| failed(&error))?;
        let path =
            std::env::temp_dir().join(format!("steersman-{}.kubeconfig", door.address().port()));
        let kubeconfig =
            KubeconfigFile::place(&path, &door.kubeconfig()).map_err(|error| failed(&error))?;
        let mut state = self.state.lock();
        let id = state.number();
        let access = json!({"cluster": id, "url": door.url(), "kubeconfig": kubeconfig.path()});
        let fork = Fork {
            cluster,
            _door: door,
            _kubeconfig: kubeconfig,
        };
        state.forks.insert(id, fork);
        Ok(access)
    }

    /// Ends a fork, with its rules.
    pub(super) async fn remove(&self, id: u64) -> Result<()> {
        let removed = {
            let mut state = self.state.lock();
            state.rules.retain(|_, (cluster, _)| *cluster != id);
            let removed = state.forks.remove(&id);
            removed.ok_or_else(|| Refusal::missing("fork", id))?
        };
        removed.cluster.stop().await;
        Ok(())
    }
}
