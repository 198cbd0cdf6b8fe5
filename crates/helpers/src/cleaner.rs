//! Deletes old objects, in one pass over a cache after another.
//!
//! cache -> rule -> DELETE of the object that the rule saw
//!
//! Upstream: the loops of `pkg/controller/certificates/cleaner` and of
//! `pkg/controller/resourcepoolstatusrequest`. Differences:
//!
//! - The first pass starts when the cache is complete. Upstream's mostly sees an empty cache, and the
//!   next one follows only after the pause.
//! - A deletion has the UID and the resource version of the object as preconditions. So a request that
//!   was approved, or made again under its name, in the meantime survives until the next pass.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Category, Target};
use steersman_objects::Object;
use steersman_runtime::controller::{Controller, ControllerContext};
use steersman_runtime::informer::SharedInformer;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;

/// The reason for the deletion of an object at a time; `None` keeps it.
pub type Due<O> = fn(&O, Timestamp) -> Option<&'static str>;

/// Deletes the objects of one type that are due.
pub struct Cleaner<O> {
    objects: SharedInformer<O>,
    due: Due<O>,
    pause: Duration,
    client: ApiClient,
    clock: Clock,
}

impl<O: Object> Cleaner<O> {
    /// A cleaner that sends its requests as `identity`. `pause` is the time between the end of one
    /// pass and the start of the next.
    pub fn new(ctx: &ControllerContext, identity: &str, pause: Duration, due: Due<O>) -> Self {
        Self {
            objects: ctx.informers.shared::<O>(),
            due,
            pause,
            client: ctx.client(identity),
            clock: ctx.clock.clone(),
        }
    }

    /// Deletes objects until `stop`. The first pass starts when the cache is complete.
    pub async fn clean(&self, stop: &CancellationToken) {
        // An API server may lack a beta type. Then only this controller waits.
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.objects.wait_synced() => {}
        }
        while !stop.is_cancelled() {
            self.pass(stop).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.pause) => {}
            }
        }
    }

    /// Deletes all objects that are due, one after another. No deletion starts after `stop`.
    async fn pass(&self, stop: &CancellationToken) {
        for object in self.objects.store().list() {
            if stop.is_cancelled() {
                return;
            }
            if let Some(reason) = (self.due)(&object, self.clock.now()) {
                self.delete(&object, reason).await;
            }
        }
    }

    /// After an error, the next pass tries again.
    async fn delete(&self, object: &O, reason: &'static str) {
        let kind = &*O::RESOURCE.kind;
        let meta = object.meta();
        let options = Delete::exactly(meta).unchanged_since(meta.resource_version);
        let answer = self.client.delete(Target::of::<O>(meta), &options).await;
        let object = object.key();
        match answer {
            Ok(_) => tracing::info!(kind, %object, reason, "deleted an old request"),
            Err(error) if is_race(&error) => {
                tracing::debug!(kind, %object, %error, "an old request has changed or is gone");
            }
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(kind, %object, category, %error, "unable to delete an old request");
            }
        }
    }
}

fn is_race(error: &ApiError) -> bool {
    error.is_object_not_found() || error.is_conflict() || error.is_fenced()
}

impl<O: Object> Controller for Cleaner<O> {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.clean(&stop).await })
    }
}
