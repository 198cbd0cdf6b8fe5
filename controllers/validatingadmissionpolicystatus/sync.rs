//! One sync: an unchecked policy gets its warnings.

use std::sync::Arc;

use serde_json::json;
use steersman_cel::types::Type;
use steersman_client::discovery::{RestMapper, split_api_version};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{
    DecodeError, Identity, Object, ObjectKey, ParamKind, ValidatingAdmissionPolicy,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_runtime::workqueue::WorkQueue;

use super::MANAGER;
use super::check::{ExpressionWarning, warnings};
use super::kinds::{self, Kind};
use super::schemas::Schemas;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The kinds of the rules could not be found.
    #[error("{0}")]
    Discovery(#[source] ApiError),
    /// The schemas could not be read.
    #[error("{0}")]
    Schemas(#[source] ApiError),
    /// The status could not be written.
    #[error("{0}")]
    Status(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Queues new and changed policies. The end of a policy is not queued, because its status goes with
/// it. The own write queues the policy again, and that sync ends at the generation.
pub(super) fn enqueue_policies(
    policies: &SharedInformer<ValidatingAdmissionPolicy>,
    queue: &WorkQueue<ObjectKey>,
) {
    let queue = queue.clone();
    policies.add_handler(move |change| match change {
        Change::Added { object: policy, .. } | Change::Updated { new: policy, .. } => {
            queue.add(policy.key());
        }
        Change::Deleted { .. } => {}
    });
}

/// Checks policies.
pub(super) struct PolicyStatus {
    pub(super) client: ApiClient,
    pub(super) mapper: RestMapper,
    pub(super) schemas: Schemas,
    /// Whether parameters of a kind without a schema are dynamic. Older releases do not declare them.
    pub(super) declares_params_without_schema: bool,
    pub(super) cache: TrackedCache,
}

impl ObjectSyncer for PolicyStatus {
    type Object = ValidatingAdmissionPolicy;
    type Error = SyncError;

    /// Upstream: `reconcile`.
    async fn sync(
        &self,
        key: &ObjectKey,
        policy: Arc<ValidatingAdmissionPolicy>,
    ) -> Result<Requeue, SyncError> {
        let generation = policy.meta.generation;
        // Only a new spec raises the generation, so one check per spec is enough. A changed CRD
        // causes no new check, as in upstream.
        if generation <= policy.status.observed_generation {
            return Ok(Requeue::Never);
        }
        let warnings = self.check(&policy).await?;
        // An empty object without warnings: it shows that the check took place.
        let type_checking = if warnings.is_empty() {
            json!({})
        } else {
            json!({"expressionWarnings": warnings})
        };
        let resource = ValidatingAdmissionPolicy::RESOURCE;
        let configuration = json!({
            "kind": resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"name": &*policy.meta.name, "uid": policy.meta.uid},
            "status": {"observedGeneration": generation, "typeChecking": type_checking},
        });
        let target = Target::of::<ValidatingAdmissionPolicy>(&policy.meta).status();
        let applied = match self.client.apply(target, MANAGER, &configuration).await {
            Ok(applied) => Identity::decode(&applied),
            // Its namesake is in the queue as soon as the cache shows it.
            Err(error) if error.is_about_another_uid() => return Ok(Requeue::Never),
            Err(error) => return Err(SyncError::Status(error)),
        };
        // The next sync waits for this version, so an old cache causes no second check.
        let version = applied.map_err(SyncError::Answer)?.resource_version;
        self.cache.wrote_at(key, version);
        Ok(Requeue::Never)
    }
}

impl PolicyStatus {
    /// The warnings about the expressions of the policy. No request without kinds to check.
    async fn check(
        &self,
        policy: &ValidatingAdmissionPolicy,
    ) -> Result<Vec<ExpressionWarning>, SyncError> {
        let spec = &policy.spec;
        let rules = &spec.match_constraints.resource_rules;
        let kinds = kinds::of_rules(rules, &self.mapper).await;
        let kinds = kinds.map_err(SyncError::Discovery)?;
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let param_kind = spec.param_kind.as_ref().and_then(of_params);
        let mut wanted = kinds.clone();
        wanted.extend(param_kind.clone());
        let types = self.schemas.types_of(wanted).await;
        let mut types = types.map_err(SyncError::Schemas)?;
        // Upstream: `hasParams` in `typechecking.go`.
        let undeclared = self.declares_params_without_schema.then_some(Type::Dyn);
        let params = param_kind.and_then(|kind| types.get(&kind).cloned().or(undeclared));
        // The kind of the parameters is checked itself only if a rule names it.
        types.retain(|kind, _| kinds.contains(kind));
        Ok(warnings(spec, &types, params.as_ref()))
    }
}

/// The kind of the parameters; `None` if its version is malformed. Then `params` is unknown to
/// expressions, as in upstream.
fn of_params(kind: &ParamKind) -> Option<Kind> {
    let (group, version) = split_api_version(&kind.api_version).ok()?;
    Some(Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.kind.to_string(),
    })
}
