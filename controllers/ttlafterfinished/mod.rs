//! Deletes finished Jobs `ttlSecondsAfterFinished` after their end.
//!
//! Job events -> queue of keys -> sync -> [`expiry`](expiry::expiry) -> timer, or live read and
//! deletion
//!
//! Guarantees: the live Job decides, since a user may have raised its TTL. The deletion carries its
//! UID, so that a new Job of the same name survives. It is a foreground deletion: the Job stays
//! until its pods are gone.
//!
//! Upstream: `pkg/controller/ttlafterfinished`.

mod expiry;
mod metrics;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_client::writes::{Delete, Propagation};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Job, Object, ObjectKey};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_values::clock::Clock;

use self::expiry::{Expiry, NoFinishTime, expiry, needs_cleanup};
use self::metrics::TtlAfterFinishedMetrics;

/// The TTL-after-finished controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["ttl-after-finished"],
    enabled_by_default: true,
    summary: "Deletes finished Jobs when their TTL has expired",
    identity: NAME,
    reads: &[Read::of::<Job>()],
    rules: &[Rule::new(&["batch"], &["jobs"], &["delete", "get"])],
    init,
};

const NAME: &str = "ttl-after-finished-controller";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = ctx
        .metrics(TtlAfterFinishedMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let keyed = Keyed::<Job>::new(ctx, NAME, "ttl_jobs_to_delete");
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| match change {
        Change::Added { object: job, .. } | Change::Updated { new: job, .. } => {
            if needs_cleanup(job) {
                queue.add(job.key());
            }
        }
        Change::Deleted { .. } => {}
    });
    let client = ctx.client(NAME);
    let clock = ctx.clock.clone();
    let workers = ctx.options.workers("concurrent-ttl-after-finished-syncs");
    Ok(keyed.boxed(
        workers,
        TtlAfterFinishedController {
            client,
            clock,
            metrics,
        },
    ))
}

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(transparent)]
    FinishTime(#[from] NoFinishTime),
    #[error("get job: {0}")]
    Get(#[source] ApiError),
    #[error("{0}")]
    Answer(#[source] DecodeError),
    #[error("delete job: {0}")]
    Delete(#[source] ApiError),
}

struct TtlAfterFinishedController {
    client: ApiClient,
    clock: Clock,
    metrics: TtlAfterFinishedMetrics,
}

impl ObjectSyncer for TtlAfterFinishedController {
    type Object = Job;
    type Error = SyncError;

    async fn sync(&self, _key: &ObjectKey, cached: Arc<Job>) -> Result<Requeue, SyncError> {
        match expiry(&cached, self.clock.now())? {
            Expiry::None => return Ok(Requeue::Never),
            Expiry::In(left) => return Ok(Requeue::After(left)),
            Expiry::At(_) => {}
        }
        let target = Target::of::<Job>(&cached.meta);
        let live = match self.client.get(target).await {
            Ok(answer) => Job::decode(&answer).map_err(SyncError::Answer)?,
            Err(error) if error.is_object_not_found() => return Ok(Requeue::Never),
            Err(error) => return Err(SyncError::Get(error)),
        };
        let expired = match expiry(&live, self.clock.now())? {
            Expiry::None => return Ok(Requeue::Never),
            Expiry::In(left) => return Ok(Requeue::After(left)),
            Expiry::At(time) => time,
        };
        tracing::debug!("Cleaning up Job");
        let options = Delete::exactly(&live.meta).propagation(Propagation::Foreground);
        self.client
            .delete(target, &options)
            .await
            .map_err(SyncError::Delete)?;
        let late = self.clock.now().duration_since(expired);
        self.metrics.deletion_duration.observe(late.as_secs_f64());
        Ok(Requeue::Never)
    }
}
