//! Deletes expired bootstrap tokens.
//!
//! events of bootstrap tokens -> queue of keys -> sync -> [life](BootstrapToken::life) of the token ->
//! timer, or DELETE
//!
//! Guarantees: the deletion carries UID and resource version, so that a new token of this name and
//! a token with a later expiration survive. Neither the name nor the usages of a token matter.
//!
//! Upstream: `pkg/controller/bootstrap` (`tokencleaner.go`). Differences:
//!
//! - The deletion carries the resource version, which upstream's lacks.
//! - A failed deletion, also after a conflict, is retried with back-off; upstream waits for the next
//!   event.
//! - The cache holds bootstrap tokens, and no other Secrets.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{BootstrapToken, Object, ObjectKey, TokenLife};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_values::clock::Clock;

/// The token cleaner.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["tokencleaner"],
    enabled_by_default: false,
    summary: "Deletes expired bootstrap tokens",
    identity: "token-cleaner",
    reads: &[Read::of::<BootstrapToken>()],
    rules: &[Rule::new(&[""], &["secrets"], &["delete"]).within(BootstrapToken::NAMESPACE)],
    init,
};

const NAME: &str = "token-cleaner-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 1;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let keyed = Keyed::<BootstrapToken>::new(ctx, NAME, "token_cleaner");
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| match change {
        Change::Added { object: token, .. } | Change::Updated { new: token, .. } => {
            queue.add(token.key());
        }
        Change::Deleted { .. } => {}
    });
    let cleaner = TokenCleaner {
        client: ctx.client(DESCRIPTOR.identity),
        clock: ctx.clock.clone(),
    };
    Ok(keyed.boxed(WORKERS, cleaner))
}

struct TokenCleaner {
    client: ApiClient,
    clock: Clock,
}

impl ObjectSyncer for TokenCleaner {
    type Object = BootstrapToken;
    type Error = ApiError;

    async fn sync(
        &self,
        _key: &ObjectKey,
        token: Arc<BootstrapToken>,
    ) -> Result<Requeue, ApiError> {
        match token.life(self.clock.now()) {
            TokenLife::Endless => return Ok(Requeue::Never),
            TokenLife::Left(left) => return Ok(Requeue::After(left)),
            TokenLife::Expired => {}
        }
        tracing::debug!(secret = &*token.meta.name, "Deleting expired secret");
        let options = Delete::exactly(&token.meta).unchanged_since(token.meta.resource_version);
        let target = Target::of::<BootstrapToken>(&token.meta);
        match self.client.delete(target, &options).await {
            Err(error) if error.is_object_not_found() => Ok(Requeue::Never),
            // After a conflict, the next sync sees the change, or deletes.
            deleted => deleted.map(|_| Requeue::Never),
        }
    }
}
