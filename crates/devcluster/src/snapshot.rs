//! [`Snapshot`]: all objects of a cluster as they were at one revision.

use std::sync::Arc;

use serde_json::Value;
use steersman_runtime::clock::Clock;

use crate::DevCluster;
use crate::random::Random;
use crate::rest::Server;

/// The objects of a cluster at one revision. Taking one copies no objects, whatever their number;
/// each type that changes afterwards, in the cluster or in a fork, copies its index once, and the
/// objects stay shared. Clones are the same snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    // A server that answers nobody.
    server: Arc<Server>,
}

impl Snapshot {
    pub(crate) fn of(server: &Server) -> Self {
        Self {
            server: Arc::new(server.fork()),
        }
    }

    /// A server that begins with this.
    pub(crate) fn server(&self, clock: Clock, tracks_creations: bool, seed: Option<u64>) -> Server {
        let mut server = self.server.fork();
        (server.clock, server.tracks_creations) = (clock, tracks_creations);
        // Not what the cluster of the snapshot drew, which may have had the same seed: those UIDs
        // are taken.
        server.random = Random::new(seed.map(|seed| seed.wrapping_add(self.revision())));
        server
    }

    /// A cluster of its own that begins with this, at the snapshot's revision and with the clock of
    /// the cluster it was taken of. Nothing runs in it;
    /// [`Builder::snapshot`](crate::Builder::snapshot) starts nodes and controllers, too.
    pub fn fork(&self) -> DevCluster {
        DevCluster::over(Arc::new(self.server.fork()))
    }

    /// The revision of the latest change in it.
    pub fn revision(&self) -> u64 {
        self.server.revisions.current()
    }

    /// All objects of a plural resource (`pods`), in the order of their keys; nothing for an
    /// unknown one.
    pub fn objects(&self, plural: &str) -> Vec<Value> {
        self.server.objects(plural)
    }
}
