//! Signs the ConfigMap `kube-public/cluster-info` with every valid bootstrap token. A new node thus
//! verifies the address and the authority of the cluster before it trusts them.
//!
//! events of cluster-info and of bootstrap tokens -> queue with one key -> sync ->
//! [`signed`](signatures::signed) -> PUT
//!
//! The expiration of a token is no event. Its signature goes when the token cleaner deletes it.
//!
//! Upstream: `pkg/controller/bootstrap` (`bootstrapsigner.go`). Differences:
//!
//! - A failed write is retried with back-off; upstream waits for the next event.
//! - The deletion of a token wakes the controller also after a gap of the watch.
//! - The caches hold cluster-info and bootstrap tokens, and no other ConfigMaps and Secrets.

mod signatures;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_client::writes::with_member;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{BootstrapToken, ClusterInfo, DecodeError, Identity, Object, ObjectKey};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_values::clock::Clock;

/// The bootstrap signer.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["bootstrapsigner"],
    enabled_by_default: false,
    summary: "Signs cluster-info with bootstrap tokens, so that new nodes can trust it",
    identity: "bootstrap-signer",
    reads: &[Read::of::<ClusterInfo>(), Read::of::<BootstrapToken>()],
    rules: &[Rule::new(&[""], &["configmaps"], &["update"])
        .named(&["cluster-info"])
        .within(ClusterInfo::NAMESPACE)],
    init,
};

const NAME: &str = "bootstrap-signer-controller";

/// Number of workers. There is one key.
const WORKERS: usize = 1;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<ClusterInfo>::new(ctx, NAME, "bootstrap_signer_queue");
    let infos = keyed.objects().clone();
    let tokens = ctx.informers.shared::<BootstrapToken>();
    let queue = keyed.queue();
    infos.add_handler(move |change| match change {
        Change::Added { object: info, .. } | Change::Updated { new: info, .. } => {
            queue.add(info.key());
        }
        Change::Deleted { .. } => {}
    });
    let queue = keyed.queue();
    tokens.add_handler(move |_| queue.add(ObjectKey::new("kube-public", "cluster-info")));
    let signer = BootstrapSigner {
        client: ctx.client(DESCRIPTOR.identity),
        clock: ctx.clock.clone(),
        tokens: tokens.store(),
        cache: keyed.tracked(&infos),
    };
    Ok(keyed.boxed(WORKERS, signer))
}

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    /// The signatures could not be written.
    #[error("{0}")]
    Update(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

struct BootstrapSigner {
    client: ApiClient,
    clock: Clock,
    tokens: Store<BootstrapToken>,
    cache: TrackedCache,
}

impl ObjectSyncer for BootstrapSigner {
    type Object = ClusterInfo;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, info: Arc<ClusterInfo>) -> Result<Requeue, SyncError> {
        let tokens = self.tokens.list();
        if let Some(data) = signatures::signed(&info.data, &tokens, self.clock.now()) {
            let body = with_member::<ClusterInfo>(&info.document, "data", &data);
            let target = Target::of::<ClusterInfo>(&info.meta);
            let answer = self.client.replace(target, &body).await;
            let written = Identity::decode(&answer.map_err(SyncError::Update)?);
            let version = written.map_err(SyncError::Answer)?.resource_version;
            self.cache.wrote_at(key, version);
        }
        Ok(Requeue::Never)
    }
}
