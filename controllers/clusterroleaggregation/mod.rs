//! Writes the rules of aggregated ClusterRoles: those of all ClusterRoles that their selectors match.
//!
//! ClusterRole events -> queue of the names of all aggregated roles -> sync ->
//! [`aggregated`](rules::aggregated) -> server-side apply
//!
//! A chain of aggregated roles, such as `view` in `edit` in `admin`, settles with one round per link:
//! each write is an event for the next role.
//!
//! Upstream: `pkg/controller/clusterroleaggregation`. Differences:
//!
//! - The applied configuration has the role's UID. So a deleted role stays deleted, even if the
//!   manager may create ClusterRoles.
//! - A new leader lists ClusterRoles from the API server while its cache is older than its term. So it
//!   cannot grant the rules of a deleted role again.
//! - The initial list enqueues each aggregated role once.

mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::json;
use steersman_client::live::{self, LiveError};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{ClusterRole, DecodeError, Object, ObjectKey};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_values::labels::{Labels, Selector, SelectorError};

/// The ClusterRole aggregation controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["clusterrole-aggregation"],
    enabled_by_default: true,
    summary: "Writes the rules of aggregated ClusterRoles, such as admin, edit and view",
    identity: NAME,
    reads: &[Read::of::<ClusterRole>()],
    rules: &[Rule::new(
        &["rbac.authorization.k8s.io"],
        &["clusterroles"],
        // Without `escalate`, the API server refuses rules that the controller does not have itself.
        &["escalate", "patch"],
    )],
    init,
};

/// Name of the controller, of its client and of its field manager.
const NAME: &str = "clusterrole-aggregation-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 5;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<ClusterRole>::new(ctx, NAME, "ClusterRoleAggregator");
    let roles = keyed.objects().clone();
    let queue = keyed.queue();
    let all = roles.store();
    roles.add_handler(move |change| {
        let enqueue = |role: &Arc<ClusterRole>| {
            if role.aggregation_rule.is_some() {
                queue.add(role.key());
            }
        };
        match change {
            // Each role of the first list enqueues itself, and no sync starts before its end.
            Change::Added {
                object,
                initial: true,
            } => enqueue(object),
            _ => all.list().iter().for_each(enqueue),
        }
    });
    let aggregation = ClusterRoleAggregation {
        client: ctx.client(NAME),
        roles: roles.store(),
        cache: keyed.tracked(&roles),
    };
    Ok(keyed.boxed(WORKERS, aggregation))
}

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    /// A selector of the role is invalid. API servers refuse such roles.
    #[error("{0}")]
    Selector(#[source] SelectorError),
    /// The cache of a new leader is older than its term, and the API server was not asked.
    #[error("{0}")]
    Check(#[source] LiveError),
    /// The rules could not be written.
    #[error("{0}")]
    Apply(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

struct ClusterRoleAggregation {
    client: ApiClient,
    roles: Store<ClusterRole>,
    cache: TrackedCache,
}

impl ObjectSyncer for ClusterRoleAggregation {
    type Object = ClusterRole;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, role: Arc<ClusterRole>) -> Result<Requeue, SyncError> {
        let roles = self.all_roles().await?;
        // A role that is missing was deleted or replaced, and an event about it follows.
        let current = roles.iter().find(|other| other.meta.uid == role.meta.uid);
        let Some((role, rule)) =
            current.and_then(|role| Some((role, role.aggregation_rule.as_ref()?)))
        else {
            return Ok(Requeue::Never);
        };
        let selectors = rule
            .selectors
            .as_ref()
            .map_err(|error| SyncError::Selector(error.clone()))?;
        let rules = rules::aggregated(&role.meta.name, selectors, &roles);
        if rules == role.rules {
            return Ok(Requeue::Never);
        }
        let mut configuration = json!({
            "kind": ClusterRole::RESOURCE.kind, "apiVersion": ClusterRole::RESOURCE.api_version(),
            "metadata": {"name": &*role.meta.name, "uid": role.meta.uid},
        });
        if !rules.is_empty() {
            configuration["rules"] = json!(rules);
        }
        let target = Target::of::<ClusterRole>(&role.meta);
        let answer = match self.client.apply(target, NAME, &configuration).await {
            // Another role has this name by now, and an event about it follows.
            Err(error) if error.is_about_another_uid() => return Ok(Requeue::Never),
            answer => answer.map_err(SyncError::Apply)?,
        };
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(SyncError::Answer)?;
        Ok(Requeue::Never)
    }
}

impl ClusterRoleAggregation {
    /// All ClusterRoles: from the cache, or from the API server while the cache may lack writes of
    /// earlier terms.
    async fn all_roles(&self) -> Result<Vec<Arc<ClusterRole>>, SyncError> {
        if !self.cache.predates_term() {
            return Ok(self.roles.list());
        }
        let everything = Selector::of_labels(&Labels::default());
        let live = live::matching::<ClusterRole>(&self.client, "", &everything).await;
        let roles = live.map_err(SyncError::Check)?.objects;
        Ok(roles.into_iter().map(Arc::new).collect())
    }
}
