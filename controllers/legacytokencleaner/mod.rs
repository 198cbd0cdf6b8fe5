//! Invalidates token Secrets that old releases made automatically, and deletes them a period later.
//!
//! each day: since when tokens are tracked -> old, unused Secrets ([`due`]) that no pod names
//! ([`pods`]) -> PATCH of a label, or DELETE
//!
//! The API server refuses a token whose Secret has the label `kubernetes.io/legacy-token-invalid-since`.
//! The label's removal makes the token valid again, for at least another period.
//!
//! Upstream: `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`. Differences:
//!
//! - Pods are listed from the API server, and only in namespaces with a Secret that is due. Upstream
//!   caches all references of all pods.
//! - Both writes carry UID and resource version. Upstream invalidates a token that was used after the
//!   start of the sweep.
//! - A sweep with a failed request is repeated with back-off. Upstream repeats it a day later.

mod due;
mod pods;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::json;
use steersman_client::live::PageError;
use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Category, PatchKind, Target};
use steersman_objects::{Object, ObjectKey, Pod, ServiceAccount, TokenSecret};
use steersman_options::duration::GoDuration;
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, INFORMERS, InitError,
};
use steersman_runtime::informer::Store;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;
use steersman_values::resource::CONFIG_MAPS;

use self::due::{Cut, Due, INVALID_SINCE};

/// The cleaner of old token Secrets.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["legacy-service-account-token-cleaner"],
    enabled_by_default: true,
    summary: "Deletes unused token Secrets that old releases created",
    identity: "legacy-service-account-token-cleaner",
    reads: &[
        Read::of::<ServiceAccount>(),
        Read::of::<TokenSecret>(),
        Read::listed::<Pod>(),
    ],
    rules: &[
        Rule::new(&[""], &["configmaps"], &["get"]).named(&[TRACKING]),
        Rule::new(&[""], &["secrets"], &["patch", "delete"]),
    ],
    init,
};

const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";

/// The ConfigMap in which API servers keep the date since which they track the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Pause between the end of one sweep and the start of the next. Upstream: `SyncInterval`.
const PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// Pause after the first sweep with a failure. It doubles with each further one, up to [`PAUSE`].
const RETRY: Duration = Duration::from_secs(5);

/// `--legacy-service-account-token-clean-up-period` is not positive.
#[derive(Debug, thiserror::Error)]
#[error("failed to init the legacy service account token cleaner: invalid CleanUpPeriod: {0}")]
struct InvalidPeriod(GoDuration);

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let period = ctx
        .options
        .duration("legacy-service-account-token-clean-up-period");
    if period.to_std().is_zero() {
        return Err(InitError {
            controller: NAME,
            source: InvalidPeriod(period).into(),
        });
    }
    Ok(Box::new(Cleaner {
        accounts: ctx.informers.shared::<ServiceAccount>().store(),
        secrets: ctx.informers.shared::<TokenSecret>().store(),
        client: ctx.client(DESCRIPTOR.identity),
        lists: ctx.client(INFORMERS),
        clock: ctx.clock.clone(),
        period: period.to_std(),
    }))
}

struct Cleaner {
    accounts: Store<ServiceAccount>,
    secrets: Store<TokenSecret>,
    client: ApiClient,
    /// Lists pods, with the rights of the informers.
    lists: ApiClient,
    clock: Clock,
    period: Duration,
}

impl Controller for Cleaner {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut retry = RETRY;
            while !stop.is_cancelled() {
                let pause = match self.sweep(&stop).await {
                    Ok(()) => {
                        retry = RETRY;
                        PAUSE
                    }
                    Err(error) => {
                        let pause = retry;
                        match Category::of(&error) {
                            Category::Conflict => {
                                tracing::debug!(%error, ?pause, "a token Secret has changed, the clean-up is repeated");
                            }
                            category => {
                                let category = category.as_str();
                                tracing::error!(category, %error, ?pause, "clean-up of token Secrets not complete, it is repeated");
                            }
                        }
                        retry = PAUSE.min(retry * 2);
                        pause
                    }
                };
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        })
    }
}

/// A sweep could not start, or left Secrets out.
#[derive(Debug, thiserror::Error)]
enum SweepError {
    /// The ConfigMap could not be read.
    #[error("{0}")]
    Tracking(#[source] ApiError),
    /// The ConfigMap has no valid date.
    #[error("the configmap {TRACKING} has no date since: {0}")]
    Since(#[source] serde_json::Error),
    /// The pods of a namespace could not be listed.
    #[error("list the pods of the namespace {namespace}: {source}")]
    Pods {
        namespace: String,
        source: PageError,
    },
    /// A Secret could not be written. This is the last of the failures.
    #[error("{action} the secret {secret}: {source}")]
    Write {
        action: &'static str,
        secret: ObjectKey,
        source: ApiError,
    },
}

impl Cleaner {
    /// Looks at all token Secrets once. No write starts after `stop`. The error is the last failure;
    /// the other Secrets are done nevertheless.
    async fn sweep(&self, stop: &CancellationToken) -> Result<(), SweepError> {
        let now = self.clock.now();
        let Some(cut) = Cut::at(now, self.period, self.tracked_since().await?) else {
            return Ok(());
        };
        let mut named = HashMap::new();
        let mut outcome = Ok(());
        for secret in self.secrets.list() {
            if stop.is_cancelled() {
                break;
            }
            let account = ObjectKey::new(&secret.meta.namespace, &secret.annotations.account);
            let account = self.accounts.get(&account);
            if !account.is_some_and(|account| cut.is_unused(&secret, &account)) {
                continue;
            }
            outcome = match self.is_named(&secret, &mut named).await {
                Ok(true) => continue,
                Ok(false) => self.invalidate_or_delete(&secret, &cut).await,
                Err(error) => Err(error),
            }
            .and(outcome);
        }
        outcome
    }

    /// The date since which API servers track the use of tokens.
    async fn tracked_since(&self) -> Result<Date, SweepError> {
        #[derive(Deserialize)]
        struct Tracking {
            data: TrackingData,
        }
        #[derive(Deserialize)]
        struct TrackingData {
            #[serde(deserialize_with = "due::date")]
            since: Date,
        }
        let target = Target {
            resource: &CONFIG_MAPS,
            namespace: Some("kube-system"),
            name: Some(TRACKING),
            subresource: None,
        };
        let map = self.client.get(target).await;
        let map = map.map_err(SweepError::Tracking)?;
        let tracking: Tracking = serde_json::from_slice(&map).map_err(SweepError::Since)?;
        Ok(tracking.data.since)
    }

    /// Whether a pod names the Secret. `named` keeps the names in each namespace for the sweep.
    async fn is_named(
        &self,
        secret: &TokenSecret,
        named: &mut HashMap<String, BTreeSet<String>>,
    ) -> Result<bool, SweepError> {
        let namespace = secret.meta.namespace.as_str();
        if !named.contains_key(namespace) {
            let names = pods::secrets_of_pods(&self.lists, namespace).await;
            let names = names.map_err(|source| SweepError::Pods {
                namespace: namespace.to_owned(),
                source,
            })?;
            named.insert(namespace.to_owned(), names);
        }
        Ok(named[namespace].contains(&*secret.meta.name))
    }

    async fn invalidate_or_delete(
        &self,
        secret: &Arc<TokenSecret>,
        cut: &Cut,
    ) -> Result<(), SweepError> {
        let (action, done) = match cut.due(secret) {
            Due::Invalidate => ("invalidate", self.invalidate(secret, cut.now()).await),
            Due::Delete => ("delete", self.delete(secret).await),
            Due::Later => return Ok(()),
        };
        match done {
            Ok(()) => tracing::info!(secret = %secret.key(), action, "old token Secret"),
            Err(error) if error.is_fenced() || error.is_object_not_found() => {}
            Err(source) => {
                let secret = secret.key();
                return Err(SweepError::Write {
                    action,
                    secret,
                    source,
                });
            }
        }
        Ok(())
    }

    async fn invalidate(&self, secret: &TokenSecret, now: Timestamp) -> Result<(), ApiError> {
        let meta = &secret.meta;
        let patch = json!({
            "kind": "Secret", "apiVersion": "v1",
            "metadata": {
                "name": meta.name, "namespace": meta.namespace, "uid": meta.uid,
                "resourceVersion": meta.resource_version.to_string(),
                "labels": { INVALID_SINCE: due::day(now) },
            },
        });
        let target = Target::of::<TokenSecret>(meta);
        let answer = self.client.patch(target, PatchKind::Merge, &patch).await;
        answer.map(drop)
    }

    /// Deletes the Secret, unless it has changed since.
    async fn delete(&self, secret: &TokenSecret) -> Result<(), ApiError> {
        let meta = &secret.meta;
        let options = Delete::exactly(meta).unchanged_since(meta.resource_version);
        let target = Target::of::<TokenSecret>(meta);
        let answer = self.client.delete(target, &options).await;
        answer.map(drop)
    }
}
