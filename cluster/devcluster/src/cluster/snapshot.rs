//! [`Snapshot`]: all objects of a cluster as they were at one revision.

use std::sync::Arc;

use serde_json::Value;
use steersman_apiserver::Server;
use steersman_values::clock::Clock;

use super::DevCluster;

/// The objects of a cluster at one revision. A snapshot copies no objects. After it, the first
/// change of a type, in the cluster or in a fork, copies the index of that type once. Clones are
/// the same snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    // Holds the objects only; it serves no requests.
    server: Arc<Server>,
}

impl Snapshot {
    pub(super) fn of(server: &Server) -> Self {
        Self {
            server: Arc::new(server.fork()),
        }
    }

    /// A new server with the objects of this snapshot.
    pub(super) fn server(&self, clock: Clock, tracks_creations: bool, seed: Option<u64>) -> Server {
        // The cluster of the snapshot may have had the same seed. The revision changes the
        // sequence, since the UIDs of the first one exist already.
        let seed = seed.map(|seed| seed.wrapping_add(self.revision()));
        self.server.fork_with(clock, tracks_creations, seed)
    }

    /// A new cluster with the objects, the revision and the clock of this snapshot. It has no nodes
    /// and controllers; [`Builder::snapshot`](crate::Builder::snapshot) starts them, too.
    pub fn fork(&self) -> DevCluster {
        DevCluster::over(Arc::new(self.server.fork()))
    }

    /// The server with the objects.
    pub(super) fn objects_of(&self) -> &Server {
        &self.server
    }

    /// The revision of the latest change in the snapshot.
    pub fn revision(&self) -> u64 {
        self.server.revisions.current()
    }

    /// All objects of a plural resource (`pods`), in the order of their keys. Empty for an unknown
    /// resource.
    pub fn objects(&self, plural: &str) -> Vec<Value> {
        self.server.objects(plural)
    }
}
