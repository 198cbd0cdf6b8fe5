//! The load `latency`: chains of steps from a cause to its effect, one object at a time, while the
//! manager's requests are slow.
//!
//! cause (a request of this process) -> manager -> effect (a watch event of this process)
//!
//! This process reaches the API server directly. A chain begins when its cause is answered, and while
//! the manager has nothing else to do.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use steersman_client::{ApiClient, PatchKind, Target};
use steersman_objects::{
    DaemonSet, Deployment, EndpointSlice, Endpoints, HorizontalPodAutoscaler, Job, Object,
    ObjectKey, Phase, Pod, PodDisruptionBudget, ReplicaSet, ResourceQuota, Service, StatefulSet,
    Uid,
};
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::sync::watch;

use super::{is_rolled_out, objects, template};
use crate::proxy::Proxy;
use crate::slices::percentile;

/// Namespaces of the objects.
const NAMESPACE: &str = "bench-latency";
const QUOTA_NAMESPACE: &str = "bench-latency-quota";
/// Repetitions of the chains with many steps, and of the others.
const LONG_ROUNDS: usize = 10;
const SHORT_ROUNDS: usize = 20;
/// Pods of a Deployment that is rolled out, and its sizes when it is scaled.
const PODS: usize = 6;
const SIZES: [usize; 2] = [6, 2];
/// Time limit of a chain.
const LIMIT: Duration = Duration::from_secs(120);

/// The repetitions of one chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) name: &'static str,
    pub(crate) reactions: Vec<Reaction>,
}

/// One repetition of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Reaction {
    /// Time from the cause to the effect.
    #[serde(rename = "ms", serialize_with = "as_milliseconds")]
    pub(crate) time: Duration,
    /// Requests that the manager began in this time, without watches.
    pub(crate) requests: u64,
}

fn as_milliseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64() * 1000.0)
}

/// An effect with the name of its chain. It must not hold before its cause.
type Effect<'a> = (&'static str, Box<dyn Fn() -> bool + 'a>);

struct Chains<'a> {
    client: &'a ApiClient,
    proxy: &'a Proxy,
    deployments: SharedInformer<Deployment>,
    replica_sets: SharedInformer<ReplicaSet>,
    stateful_sets: SharedInformer<StatefulSet>,
    daemon_sets: SharedInformer<DaemonSet>,
    jobs: SharedInformer<Job>,
    pods: SharedInformer<Pod>,
    endpoints: SharedInformer<Endpoints>,
    slices: SharedInformer<EndpointSlice>,
    budgets: SharedInformer<PodDisruptionBudget>,
    quotas: SharedInformer<ResourceQuota>,
    /// Sent after each change of a cache.
    changes: watch::Sender<()>,
}

/// Measures all chains with the manager behind `proxy`. `client` reaches the API server directly.
pub(crate) async fn run(client: &ApiClient, proxy: &Proxy) -> Result<Vec<Chain>> {
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    let informers = InformerFactory::new(client.clone(), Duration::ZERO, &Registry::new())?;
    let changes = watch::Sender::new(());
    let chains = Chains {
        client,
        proxy,
        deployments: watched(&informers, &changes),
        replica_sets: watched(&informers, &changes),
        stateful_sets: watched(&informers, &changes),
        daemon_sets: watched(&informers, &changes),
        jobs: watched(&informers, &changes),
        pods: watched(&informers, &changes),
        endpoints: watched(&informers, &changes),
        slices: watched(&informers, &changes),
        budgets: watched(&informers, &changes),
        quotas: watched(&informers, &changes),
        changes,
    };
    informers.start(&tasks, &stop);
    informers.wait_synced(&stop).await;
    let measured = chains.all().await?;
    stop.cancel();
    tasks.join(Duration::from_secs(5)).await;
    Ok(measured)
}

/// The informer of `T`, whose changes are sent to `changes`.
fn watched<T: Object>(
    informers: &InformerFactory,
    changes: &watch::Sender<()>,
) -> SharedInformer<T> {
    let informer = informers.shared::<T>();
    let changes = changes.clone();
    informer.add_handler(move |_| changes.send_replace(()));
    informer
}

impl Chains<'_> {
    async fn all(&self) -> Result<Vec<Chain>> {
        for namespace in [NAMESPACE, QUOTA_NAMESPACE] {
            match objects::create_namespace(self.client, namespace).await {
                Err(error) if !error.is_already_exists() => {
                    return Err(error).with_context(|| format!("create namespace {namespace}"));
                }
                _ => {}
            }
        }
        let mut measured = Vec::new();
        let rolling = |surge: Value, unavailable: Value| {
            let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            json!({"type": "RollingUpdate", "rollingUpdate": limits})
        };
        for (chain, strategy) in [
            ("roll out, surge 0", rolling(json!(0), json!(1))),
            ("roll out, surge 1", rolling(json!(1), json!(0))),
            ("roll out, default", rolling(json!("25%"), json!("25%"))),
            ("roll out, Recreate", json!({"type": "Recreate"})),
        ] {
            let done = self.roll_outs(chain, &strategy).await;
            add(&mut measured, done.context(chain)?);
        }
        add(&mut measured, self.scalings().await.context("scale")?);
        add(&mut measured, self.lost_pods().await.context("lost pod")?);
        add(&mut measured, self.first_pods().await.context("first pod")?);
        add(&mut measured, self.readiness().await.context("pod ready")?);
        add(
            &mut measured,
            self.ends_of_jobs().await.context("end of a Job")?,
        );
        add(&mut measured, self.quotas().await.context("quota")?);
        let done = self.autoscalers().await;
        add(&mut measured, done.context("autoscaler")?);
        Ok(measured)
    }

    async fn roll_outs(&self, chain: &'static str, strategy: &Value) -> Result<Vec<Chain>> {
        const NAME: &str = "roll-out";
        let mut spec = deployment(NAME, PODS, "prompt");
        spec["strategy"] = strategy.clone();
        self.create::<Deployment>(NAME, &spec).await?;
        self.until(|| self.is_settled(NAME, 1, PODS)).await?;
        let mut measured = Vec::new();
        for round in 0..LONG_ROUNDS {
            let generation = self.generation(NAME) + 1;
            let image = json!([{"name": "main", "image": format!("main:v{}", round + 2)}]);
            let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
            let is_complete = || self.is_rolled_out(NAME, generation, PODS);
            let cause = self.patch_deployment(NAME, &patch);
            let effects = [(chain, Box::new(is_complete) as _)];
            self.measure(cause, &effects, &mut measured).await?;
            self.until(|| self.is_settled(NAME, generation, PODS))
                .await?;
        }
        self.delete::<Deployment>(&self.deployments, NAME).await?;
        Ok(measured)
    }

    async fn scalings(&self) -> Result<Vec<Chain>> {
        const NAME: &str = "scaled";
        let [most, least] = SIZES;
        self.create::<Deployment>(NAME, &deployment(NAME, least, "prompt"))
            .await?;
        self.until(|| self.is_settled(NAME, 1, least)).await?;
        let mut measured = Vec::new();
        for _ in 0..LONG_ROUNDS {
            for (chain, size) in [("scale up", most), ("scale down", least)] {
                let generation = self.generation(NAME) + 1;
                let is_complete = || {
                    let deployment = self.deployment(NAME);
                    deployment.is_some_and(|found| {
                        let ready = found.status.ready_replicas;
                        usize::try_from(ready) == Ok(size)
                            && self.is_rolled_out(NAME, generation, size)
                    })
                };
                let patch = json!({"spec": {"replicas": size}});
                let cause = self.patch_deployment(NAME, &patch);
                let effects = [(chain, Box::new(is_complete) as _)];
                self.measure(cause, &effects, &mut measured).await?;
                self.until(|| self.is_settled(NAME, generation, size))
                    .await?;
            }
        }
        self.delete::<Deployment>(&self.deployments, NAME).await?;
        Ok(measured)
    }

    async fn lost_pods(&self) -> Result<Vec<Chain>> {
        const NAME: &str = "lost";
        let pods = 2;
        self.create::<Deployment>(NAME, &deployment(NAME, pods, "prompt"))
            .await?;
        self.until(|| self.is_settled(NAME, 1, pods)).await?;
        let mut measured = Vec::new();
        for _ in 0..SHORT_ROUNDS {
            let before: HashSet<Uid> = self.uids(NAME).collect();
            let lost = self.pods_of(NAME).pop().context("the pod to lose")?;
            let cause = self.delete_pod(NAMESPACE, &lost.meta.name);
            let is_replaced = || self.uids(NAME).any(|uid| !before.contains(&uid));
            let effects = [("lost pod to its replacement", Box::new(is_replaced) as _)];
            self.measure(cause, &effects, &mut measured).await?;
            self.until(|| self.is_settled(NAME, 1, pods)).await?;
        }
        self.delete::<Deployment>(&self.deployments, NAME).await?;
        Ok(measured)
    }

    async fn first_pods(&self) -> Result<Vec<Chain>> {
        let mut measured = Vec::new();
        for round in 0..SHORT_ROUNDS {
            let name = format!("first-{round}");
            let spec = deployment(&name, 1, "prompt");
            let cause = self.create::<Deployment>(&name, &spec);
            let has_pod = || !self.pods_of(&name).is_empty();
            let effects = [("new Deployment to its first pod", Box::new(has_pod) as _)];
            self.measure(cause, &effects, &mut measured).await?;
            self.until(|| self.is_settled(&name, 1, 1)).await?;
            self.delete::<Deployment>(&self.deployments, &name).await?;
        }
        Ok(measured)
    }

    /// The pod of a Deployment with a Service and a PodDisruptionBudget, that of a StatefulSet, that of
    /// a DaemonSet and that of a Job each become ready and unready in turn.
    async fn readiness(&self) -> Result<Vec<Chain>> {
        let mut measured = Vec::new();
        let key = |name| ObjectKey::new(NAMESPACE, name);

        let name = "ready";
        let selector = json!({"app": name});
        let ports = json!([{"port": 80, "targetPort": 8080}]);
        self.create::<Service>(name, &json!({"selector": selector, "ports": ports}))
            .await?;
        let budget = json!({"minAvailable": 1, "selector": {"matchLabels": selector}});
        self.create::<PodDisruptionBudget>(name, &budget).await?;
        self.create::<Deployment>(name, &deployment(name, 1, "told"))
            .await?;
        let effects: [Effect<'_>; 5] = [
            (
                "ready pod to ReplicaSet",
                Box::new(|| {
                    let mut sets = self
                        .replica_sets
                        .store()
                        .in_namespace(NAMESPACE)
                        .into_iter();
                    sets.any(|set| set.status.ready_replicas == 1)
                }),
            ),
            (
                "ready pod to Deployment",
                Box::new(|| {
                    self.deployment(name)
                        .is_some_and(|found| found.status.ready_replicas == 1)
                }),
            ),
            (
                "ready pod to Endpoints",
                Box::new(|| {
                    let found = self.endpoints.store().get(&key(name));
                    found.is_some_and(|found| {
                        found
                            .subsets
                            .iter()
                            .any(|subset| !subset.addresses.is_empty())
                    })
                }),
            ),
            (
                "ready pod to EndpointSlice",
                Box::new(|| {
                    let slices = self.slices.store().in_namespace(NAMESPACE);
                    let mut endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
                    endpoints.any(|endpoint| endpoint.conditions.ready == Some(true))
                }),
            ),
            (
                "ready pod to PodDisruptionBudget",
                Box::new(|| {
                    let found = self.budgets.store().get(&key(name));
                    found.is_some_and(|found| found.status.current_healthy == 1)
                }),
            ),
        ];
        self.toggle(name, &effects, &mut measured).await?;
        self.delete_alone::<Service>(name).await?;
        self.delete_alone::<PodDisruptionBudget>(name).await?;
        self.delete(&self.deployments, name).await?;

        let name = "stateful";
        let mut spec = pods_with(name, "told");
        spec["serviceName"] = json!(name);
        self.create::<StatefulSet>(name, &spec).await?;
        let is_shown = || {
            let found = self.stateful_sets.store().get(&key(name));
            found.is_some_and(|found| found.status.ready_replicas == 1)
        };
        let effects: [Effect<'_>; 1] = [("ready pod to StatefulSet", Box::new(is_shown))];
        self.toggle(name, &effects, &mut measured).await?;
        self.delete(&self.stateful_sets, name).await?;

        let name = "daemon";
        let mut spec = pods_with(name, "told");
        spec["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-0"});
        self.create::<DaemonSet>(name, &spec).await?;
        let is_shown = || {
            let found = self.daemon_sets.store().get(&key(name));
            found.is_some_and(|found| found.status.number_ready == 1)
        };
        let effects: [Effect<'_>; 1] = [("ready pod to DaemonSet", Box::new(is_shown))];
        self.toggle(name, &effects, &mut measured).await?;
        self.delete(&self.daemon_sets, name).await?;

        let name = "job";
        self.create::<Job>(name, &job(name)).await?;
        let is_shown = || {
            let found = self.jobs.store().get(&key(name));
            found.is_some_and(|found| found.status.ready == Some(1))
        };
        let effects: [Effect<'_>; 1] = [("ready pod to Job", Box::new(is_shown))];
        self.toggle(name, &effects, &mut measured).await?;
        self.delete(&self.jobs, name).await?;
        Ok(measured)
    }

    /// Lets the only pod of `app` become ready and unready in turn.
    async fn toggle(
        &self,
        app: &str,
        effects: &[Effect<'_>],
        measured: &mut Vec<Chain>,
    ) -> Result<()> {
        let pod = self.running_pod(app).await?;
        for _ in 0..SHORT_ROUNDS {
            let cause = self.patch_pod(&pod, readiness("True"));
            self.measure(cause, effects, measured).await?;
            self.patch_pod(&pod, readiness("False")).await?;
            self.until(|| !effects.iter().any(|(_, holds)| holds()))
                .await?;
        }
        Ok(())
    }

    async fn ends_of_jobs(&self) -> Result<Vec<Chain>> {
        let mut measured = Vec::new();
        for round in 0..SHORT_ROUNDS {
            let name = format!("ends-{round}");
            self.create::<Job>(&name, &job(&name)).await?;
            let pod = self.running_pod(&name).await?;
            let cause = self.patch_pod(&pod, json!({"phase": "Succeeded"}));
            let is_complete = || {
                let found = self.jobs.store().get(&ObjectKey::new(NAMESPACE, &name));
                found.is_some_and(|job| job.is_complete())
            };
            let effects = [("succeeded pod to complete Job", Box::new(is_complete) as _)];
            self.measure(cause, &effects, &mut measured).await?;
            self.delete(&self.jobs, &name).await?;
        }
        Ok(measured)
    }

    /// The first look at a new HorizontalPodAutoscaler comes one period after its creation. The
    /// Deployment has fewer pods than its minimum, so no metrics are needed.
    async fn autoscalers(&self) -> Result<Vec<Chain>> {
        let [most, _] = SIZES;
        let mut measured = Vec::new();
        for round in 0..SHORT_ROUNDS {
            let name = format!("autoscaled-{round}");
            self.create::<Deployment>(&name, &deployment(&name, 1, "prompt"))
                .await?;
            self.until(|| self.is_settled(&name, 1, 1)).await?;
            let spec = json!({
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": most, "maxReplicas": most,
            });
            let cause = self.create::<HorizontalPodAutoscaler>(&name, &spec);
            let is_scaled = || {
                let found = self.deployment(&name);
                found.is_some_and(|found| usize::try_from(found.spec.replicas) == Ok(most))
            };
            let has_pods = || self.pods_of(&name).len() == most;
            let effects: [Effect<'_>; 2] = [
                ("new autoscaler to Deployment", Box::new(is_scaled)),
                ("new autoscaler to pods", Box::new(has_pods)),
            ];
            self.measure(cause, &effects, &mut measured).await?;
            self.delete_alone::<HorizontalPodAutoscaler>(&name).await?;
            self.delete(&self.deployments, &name).await?;
        }
        Ok(measured)
    }

    async fn quotas(&self) -> Result<Vec<Chain>> {
        const NAME: &str = "quota";
        let spec = json!({"spec": {"hard": {"pods": "10"}}});
        objects::create::<ResourceQuota>(self.client, QUOTA_NAMESPACE, NAME, spec).await?;
        let uses = |pods: &str| {
            let found = self.quotas.store();
            let found = found.get(&ObjectKey::new(QUOTA_NAMESPACE, NAME));
            let used = found.as_ref().and_then(|quota| quota.status.used.as_ref());
            used.and_then(|used| used.get("pods"))
                .is_some_and(|used| **used == *pods)
        };
        self.until(|| uses("0")).await?;
        let mut measured = Vec::new();
        for round in 0..SHORT_ROUNDS {
            let name = format!("pod-{round}");
            let mut pod = json!({"spec": template(&name)["spec"]});
            // Only the quota controller and the API server work for a pod that stays unscheduled.
            pod["spec"]["schedulerName"] = json!("absent");
            objects::create::<Pod>(self.client, QUOTA_NAMESPACE, &name, pod).await?;
            self.until(|| uses("1")).await?;
            let cause = self.delete_pod(QUOTA_NAMESPACE, &name);
            let effects: [Effect<'_>; 1] =
                [("deleted pod to ResourceQuota", Box::new(|| uses("0")))];
            self.measure(cause, &effects, &mut measured).await?;
        }
        let quota = Target::named::<ResourceQuota>(QUOTA_NAMESPACE, NAME);
        self.client.delete(quota, &json!({})).await?;
        Ok(measured)
    }

    /// Waits until the manager is quiet, runs `cause`, and records the time until each effect.
    async fn measure(
        &self,
        cause: impl Future<Output = Result<()>>,
        effects: &[Effect<'_>],
        measured: &mut Vec<Chain>,
    ) -> Result<()> {
        self.proxy.until_quiet().await;
        let requests = self.proxy.requests();
        cause.await?;
        let began = Instant::now();
        let seen = effects.iter().map(|(chain, holds)| async move {
            self.until(holds)
                .await
                .with_context(|| (*chain).to_owned())?;
            anyhow::Ok(Reaction {
                time: began.elapsed(),
                requests: self.proxy.requests() - requests,
            })
        });
        let reactions = future::try_join_all(seen).await?;
        for ((name, _), reaction) in effects.iter().zip(reactions) {
            match measured.iter_mut().find(|chain| chain.name == *name) {
                Some(chain) => chain.reactions.push(reaction),
                None => measured.push(Chain {
                    name,
                    reactions: vec![reaction],
                }),
            }
        }
        Ok(())
    }

    /// Waits until `holds`. The first change after which it does ends the wait at once.
    async fn until(&self, holds: impl Fn() -> bool) -> Result<()> {
        let mut changes = self.changes.subscribe();
        let seen = async {
            while !holds() {
                changes.changed().await?;
            }
            Ok(())
        };
        tokio::time::timeout(LIMIT, seen)
            .await
            .with_context(|| format!("not seen after {LIMIT:?}"))?
    }

    fn deployment(&self, name: &str) -> Option<Arc<Deployment>> {
        let key = ObjectKey::new(NAMESPACE, name);
        self.deployments.store().get(&key)
    }

    fn generation(&self, name: &str) -> i64 {
        let found = self.deployment(name);
        found.map_or(0, |found| found.meta.generation)
    }

    fn is_rolled_out(&self, name: &str, generation: i64, pods: usize) -> bool {
        let found = self.deployment(name);
        found
            .is_some_and(|found| found.meta.generation == generation && is_rolled_out(&found, pods))
    }

    /// Whether the Deployment is rolled out, and its former pods are gone.
    fn is_settled(&self, name: &str, generation: i64, pods: usize) -> bool {
        self.is_rolled_out(name, generation, pods) && self.pods_of(name).len() == pods
    }

    fn pods_of(&self, app: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.store().in_namespace(NAMESPACE);
        pods.retain(|pod| {
            let label = pod.meta.labels.get("app");
            label.is_some_and(|found| found.as_str() == app)
        });
        pods
    }

    fn uids(&self, app: &str) -> impl Iterator<Item = Uid> {
        self.pods_of(app)
            .into_iter()
            .map(|pod| pod.meta.uid.clone())
    }

    /// Waits until a pod of `app` runs, and returns its name.
    async fn running_pod(&self, app: &str) -> Result<String> {
        let running = || {
            let mut pods = self.pods_of(app).into_iter();
            pods.find(|pod| pod.phase == Phase::Running)
        };
        self.until(|| running().is_some())
            .await
            .context("no pod runs")?;
        let pod = running().context("the pod is gone")?;
        Ok(pod.meta.name.to_string())
    }

    async fn create<T: Object>(&self, name: &str, spec: &Value) -> Result<()> {
        let body = json!({ "spec": spec });
        objects::create::<T>(self.client, NAMESPACE, name, body)
            .await
            .with_context(|| format!("create {} {name}", T::RESOURCE))
    }

    async fn patch_deployment(&self, name: &str, patch: &Value) -> Result<()> {
        let targets = std::iter::once((NAMESPACE.to_owned(), name.to_owned()));
        objects::patch_all::<Deployment>(self.client, targets, patch)
            .await
            .map(drop)
    }

    async fn patch_pod(&self, name: &str, status: Value) -> Result<()> {
        let target = Target {
            subresource: Some("status"),
            ..Target::named::<Pod>(NAMESPACE, name)
        };
        let patch = json!({ "status": status });
        self.client
            .patch(target, PatchKind::Strategic, &patch)
            .await
            .map(drop)
            .with_context(|| format!("patch the status of pod {name}"))
    }

    async fn delete_pod(&self, namespace: &str, name: &str) -> Result<()> {
        let target = Target::named::<Pod>(namespace, name);
        let at_once = json!({"gracePeriodSeconds": 0});
        self.client
            .delete(target, &at_once)
            .await
            .map(drop)
            .with_context(|| format!("delete pod {name}"))
    }

    async fn delete_alone<T: Object>(&self, name: &str) -> Result<()> {
        let options = json!({"propagationPolicy": "Background"});
        self.client
            .delete(Target::named::<T>(NAMESPACE, name), &options)
            .await
            .map(drop)
            .with_context(|| format!("delete {} {name}", T::RESOURCE))
    }

    /// Deletes an object, and waits until it and its pods are gone.
    async fn delete<T: Object>(&self, informer: &SharedInformer<T>, name: &str) -> Result<()> {
        self.delete_alone::<T>(name).await?;
        let key = ObjectKey::new(NAMESPACE, name);
        self.until(|| informer.store().get(&key).is_none() && self.pods_of(name).is_empty())
            .await
            .with_context(|| format!("{} {name} or its pods are left", T::RESOURCE))
    }
}

/// Prints the medians of `chains`, and adds them to `measured`.
fn add(measured: &mut Vec<Chain>, chains: Vec<Chain>) {
    for Chain { name, reactions } in &chains {
        let mut times: Vec<Duration> = reactions.iter().map(|reaction| reaction.time).collect();
        times.sort_unstable();
        eprintln!("    {name}: {:.1} ms", percentile(&times, 50));
    }
    measured.extend(chains);
}

/// `spec` of an object whose pods have this behaviour.
fn pods_with(app: &str, behaviour: &str) -> Value {
    let mut template = template(app);
    template["metadata"]["annotations"] = json!({"simulate.steersman.dev/behaviour": behaviour});
    json!({"selector": {"matchLabels": {"app": app}}, "template": template})
}

fn deployment(app: &str, replicas: usize, behaviour: &str) -> Value {
    let mut spec = pods_with(app, behaviour);
    spec["replicas"] = json!(replicas);
    spec
}

fn job(app: &str) -> Value {
    let mut template = pods_with(app, "told")["template"].take();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({ "template": template })
}

fn readiness(status: &str) -> Value {
    let condition = |kind| json!({"type": kind, "status": status});
    json!({"conditions": [condition("ContainersReady"), condition("Ready")]})
}
