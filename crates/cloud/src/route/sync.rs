//! One pass: lists routes, deletes and creates, and reports on all nodes.
//!
//! Upstream: `reconcileNodeRoutes` and the second half of `reconcile`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use rand::Rng;
use steersman_client::{ApiClient, ApiError, Category, PatchKind, Target};
use steersman_objects::{DecodeError, Object, ObjectReference};
use steersman_options::duration::GoDuration;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_values::clock::Clock;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::condition;
use super::metrics::RouteMetrics;
use super::plan::{Creation, Plan, Unneeded, plan, pod_cidrs};
use super::ranges::Ranges;
use crate::provider::{CloudError, Route, Routes};
use crate::served::Served;

/// Calls of the provider at the same time. Upstream: `maxConcurrentRouteOperations`.
const AT_ONCE: usize = 200;
/// Tries after conflicts. Upstream: `updateNetworkConditionBackoff`.
const TRIES: u32 = 5;
/// The shortest pause between tries; the longest is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Pass {
    pub(super) routes: Arc<dyn Routes>,
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) recorder: EventRecorder,
    pub(super) nodes: Store<Served<Node>>,
    pub(super) ranges: Ranges,
    pub(super) metrics: RouteMetrics,
}

/// The live read that confirms a deletion failed.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}")]
    Request(#[source] ApiError),
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

impl Pass {
    pub(super) async fn run(&self) -> Result<(), CloudError> {
        self.metrics.passes.inc();
        let routes = self.routes.list().await?;
        let nodes = self.nodes.list();
        let objects: Vec<Arc<Node>> = nodes.iter().map(|node| Arc::clone(&node.object)).collect();
        let Plan {
            deletions,
            creations,
            deletions_first,
            complete,
        } = plan(&objects, &routes, &self.ranges);

        let limit = Semaphore::new(AT_ONCE);
        let deletions = deletions.iter();
        let deleting = join_all(deletions.map(|(route, why)| self.delete(route, *why, &limit)));
        let creating = join_all(creations.iter().map(|route| self.create(route, &limit)));
        let created = if deletions_first {
            deleting.await;
            creating.await
        } else {
            tokio::join!(deleting, creating).1
        };
        let mut failed: HashSet<&str> = HashSet::new();
        for (Creation { route, .. }, created) in creations.iter().zip(created) {
            if let Err(error) = created {
                let node = &*route.target_node;
                let cidr = &*route.destination_cidr;
                tracing::error!(node, cidr, %error, "Could not create route");
                failed.insert(node);
            }
        }
        let reports = nodes.into_iter().filter_map(|node| {
            let name = &*node.meta.name;
            let has_some = complete.get(name)?;
            let wants_some = !pod_cidrs(&node.object).is_empty();
            let has_all = *has_some || wants_some && !failed.contains(name);
            Some((node, has_all))
        });
        stream::iter(reports)
            .for_each_concurrent(AT_ONCE, async |(node, has_all)| {
                self.report(&node, has_all).await;
            })
            .await;
        Ok(())
    }

    async fn delete(&self, route: &Route, why: Unneeded, limit: &Semaphore) {
        let began = Instant::now();
        let Route {
            name,
            destination_cidr: cidr,
            ..
        } = route;
        if why == Unneeded::NoSuchNode {
            match self.is_needed(route).await {
                Ok(false) => {}
                Ok(true) => {
                    return tracing::debug!(name, cidr, "the cache lacks the node of the route");
                }
                Err(error) => {
                    let category = Category::of(&error).as_str();
                    return tracing::error!(name, cidr, category, %error, "cannot read the node of the route");
                }
            }
        }
        let _permit = limit.acquire().await;
        tracing::info!(name, cidr, "Deleting route");
        let deleted = self.routes.delete(route).await;
        let duration = began.elapsed();
        match deleted {
            Ok(()) => tracing::info!(name, cidr, ?duration, "Deleted route"),
            Err(error) => {
                tracing::error!(name, cidr, ?duration, %error, "Could not delete route");
            }
        }
    }

    /// Whether the API server has the node of the route, with the range of the route.
    async fn is_needed(&self, route: &Route) -> Result<bool, ReadError> {
        if route.target_node.is_empty() {
            return Ok(false);
        }
        let target = Target::named::<Served<Node>>("", &route.target_node);
        let live = match self.client.get(target).await {
            Err(error) if error.is_object_not_found() => return Ok(false),
            live => live.map_err(ReadError::Request)?,
        };
        let live = Served::<Node>::decode(&live).map_err(ReadError::Answer)?;
        Ok(pod_cidrs(&live.object).contains(&route.destination_cidr))
    }

    async fn create(&self, creation: &Creation, limit: &Semaphore) -> Result<(), CloudError> {
        let Creation { route, node_uid } = creation;
        let mut tries = 0;
        loop {
            tries += 1;
            let began = Instant::now();
            let created = {
                let _permit = limit.acquire().await;
                self.routes.create(node_uid, route).await
            };
            let Err(error) = created else {
                return Ok(());
            };
            let node = ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                namespace: String::new(),
                name: route.target_node.clone(),
                uid: node_uid.clone(),
                resource_version: String::new(),
            };
            let text = format!(
                "Could not create route {node_uid} {} for node {} after {}: {error}",
                route.destination_cidr,
                route.target_node,
                GoDuration::from(began.elapsed())
            );
            self.recorder
                .event(node, EventType::Warning, "FailedToCreateRoute", text);
            match error {
                CloudError::Conflict(_) if tries < TRIES => pause().await,
                error => return Err(error),
            }
        }
    }

    async fn report(&self, node: &Served<Node>, has_routes: bool) {
        let name = &*node.meta.name;
        let mut tries = 0;
        loop {
            tries += 1;
            let now = self.clock.now_seconds();
            let Some(body) = condition::patch(&node.object, has_routes, now) else {
                return;
            };
            let target = Target::of::<Served<Node>>(&node.meta).status();
            match self.client.patch(target, PatchKind::Strategic, &body).await {
                Ok(_) => return,
                Err(error) if error.is_conflict() && tries < TRIES => pause().await,
                Err(error)
                    if error.is_fenced()
                        || error.is_object_not_found()
                        || error.is_about_another_uid() =>
                {
                    return tracing::debug!(node = name, %error, "the condition stays");
                }
                Err(error) => {
                    let category = Category::of(&error).as_str();
                    return tracing::error!(node = name, category, %error, "Error updating node");
                }
            }
        }
    }
}

/// Waits before the next try.
async fn pause() {
    let factor = 1.0 + rand::rng().random::<f64>();
    tokio::time::sleep(PAUSE.mul_f64(factor)).await;
}
