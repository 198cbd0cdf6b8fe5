//! Fills the token Secrets that users make for ServiceAccounts, and deletes them with their account.
//!
//! account events -> queue of accounts -> [`accounts`] -> queue of Secrets
//! Secret events -> queue of Secrets -> [`secrets`] -> [`needs`], [`token`] -> PUT, or deletion
//!
//! A Secret that has a token keeps it for ever, also after a change of the key. A Secret is deleted
//! only after the API server has confirmed that its account is gone. No token appears in logs and
//! errors.
//!
//! Upstream: `pkg/controller/serviceaccount/tokens_controller.go`. Differences:
//!
//! - Each deletion follows a live read of the account, and so does the token of a Secret without the
//!   UID of its account. Upstream may delete the new Secret of a recreated account, and deletes the
//!   Secrets of an account that its cache lost.
//! - Deletions carry the resource version, so a Secret that was annotated anew survives. A queued key
//!   of its former account is dropped; upstream deletes the Secret by it.
//! - A conflict is repeated; upstream waits for an event.
//! - Retries go on after ten, up to 1000 s apart, unless the API server refuses the request. An
//!   outage leaves no Secret empty.
//! - After a gap of the watch, the reference to a deleted Secret is removed too.
//! - The cache has only token Secrets, without their tokens; upstream caches all Secrets.

mod accounts;
mod error;
mod handlers;
mod keys;
mod needs;
mod secrets;
#[cfg(test)]
mod tests;
mod token;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_client::files::{self, ReadError};
use steersman_helpers::root_ca;
use steersman_objects::{ServiceAccount, TokenSecret};
use steersman_pki::keys::{KeyError as PemError, PrivateKey};
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, InitError, switched_off,
};
use steersman_runtime::informer::Store;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::accounts::Accounts;
use self::keys::{AccountKey, SecretKey};
use self::needs::RootCa;
use self::secrets::Secrets;
use self::token::{Signer, SignerError};

/// The token controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["serviceaccount-token"],
    enabled_by_default: true,
    summary: "Fills token Secrets of ServiceAccounts, with --service-account-private-key-file",
    identity: "tokens-controller",
    reads: &[Read::of::<ServiceAccount>(), Read::of::<TokenSecret>()],
    rules: &[
        Rule::new(&[""], &["secrets"], &["get", "update", "delete"]),
        Rule::new(&[""], &["serviceaccounts"], &["get", "update"]),
    ],
    init,
};

const NAME: &str = "serviceaccount-token-controller";

/// The name of both queues in metrics, as upstream.
const QUEUE: &str = "serviceaccount_tokens_service";

/// The private key cannot be used. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("error reading key for service account token controller: {0}")]
    File(#[source] ReadError),
    #[error(
        "error reading key for service account token controller: error reading private key file {file}: {source}"
    )]
    Content { file: String, source: PemError },
    #[error("failed to build token generator: {0}")]
    Generator(#[source] SignerError),
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let failed = |source| InitError {
        controller: NAME,
        source,
    };
    let Some(signer) = signer(ctx).map_err(|error| failed(error.into()))? else {
        tracing::info!(
            controller = NAME,
            "Controller is disabled because there is no private key"
        );
        return Ok(switched_off());
    };
    let root_ca = root_ca::bundle(ctx).map_err(|error| failed(error.into()))?;
    let accounts = ctx.informers.shared::<ServiceAccount>();
    let secrets = ctx.informers.shared::<TokenSecret>();
    let account_queue = WorkQueue::new(QUEUE, &ctx.queue_metrics);
    let secret_queue = WorkQueue::new(QUEUE, &ctx.queue_metrics);
    handlers::register(&accounts, &secrets, &account_queue, &secret_queue);
    let shared = Shared {
        accounts: accounts.store(),
        secrets: secrets.store(),
        client: ctx.client(DESCRIPTOR.identity),
    };
    Ok(Box::new(Tokens {
        workers: ctx.options.workers("concurrent-serviceaccount-token-syncs"),
        accounts: Arc::new(Accounts {
            shared: shared.clone(),
            secret_queue: secret_queue.clone(),
        }),
        secrets: Arc::new(Secrets {
            shared,
            signer,
            root_ca: RootCa::new(&root_ca),
        }),
        account_queue,
        secret_queue,
    }))
}

/// The signer of tokens, with the key of `--service-account-private-key-file`, or else of the
/// cluster in this process. `None` without a key.
fn signer(ctx: &ControllerContext) -> Result<Option<Signer>, KeyError> {
    let file = ctx.options.text("service-account-private-key-file");
    let pem = match &ctx.credentials.account_key {
        _ if !file.is_empty() => files::read(Path::new(&file)).map_err(KeyError::File)?,
        Some(key) => key.as_bytes().to_vec(),
        None => return Ok(None),
    };
    let key = PrivateKey::from_pem(&pem).map_err(|source| match source {
        PemError::P224 => KeyError::Generator(SignerError::Curve),
        source => KeyError::Content { file, source },
    })?;
    Signer::new(key).map(Some).map_err(KeyError::Generator)
}

/// The caches and the client that both syncs use.
#[derive(Clone)]
struct Shared {
    accounts: Store<ServiceAccount>,
    secrets: Store<TokenSecret>,
    client: ApiClient,
}

/// The controller: two queues with the same number of workers.
struct Tokens {
    workers: usize,
    accounts: Arc<Accounts>,
    secrets: Arc<Secrets>,
    account_queue: WorkQueue<AccountKey>,
    secret_queue: WorkQueue<SecretKey>,
}

impl Controller for Tokens {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let accounts = self.account_queue;
            let secrets = self.secret_queue;
            tokio::join!(
                run_workers(NAME, accounts, self.workers, self.accounts, stop.clone()),
                run_workers(NAME, secrets, self.workers, self.secrets, stop),
            );
        })
    }
}
