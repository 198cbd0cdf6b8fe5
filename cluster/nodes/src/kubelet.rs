//! Performs the action of a pod's stage: a binding, a status patch or a delete.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_helpers::scheduling::NodeSelector;
use steersman_objects::{Object, ObjectKey};
use steersman_releases::Release;
use steersman_runtime::informer::{Index, Store};
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use steersman_values::intern::Sym;
use steersman_values::resource::PODS;

use super::addresses::Addresses;
use super::attach::{Mounted, Mounts};
use super::claims::{self, Claims, Obstacle, Prospect};
use super::devices::{Devices, NoPlan, Plan, Taken};
use super::journal::Journal;
use super::needs::{Configuration, Missing};
use super::pod::SimPod;
use super::register::SimNode;
use super::resize::{self, Refusal, Step};
use super::scheduler::{self, PreFilter, Scheduler, Unfit};
use super::stages::{self, Action, Health, Stage};
use super::status;
use super::{Due, Duties, pod_level, retry_waiting};

/// Time between two attempts to create a container whose configuration is missing. A kubelet syncs
/// such a pod again after about this time.
const CONFIG_RETRY: Duration = Duration::from_secs(12);

/// Time between two tries of a resize that its node has no room for. A kubelet also tries at changes of other
/// pods.
const RESIZE_RETRY: Duration = Duration::from_secs(3);

/// Time between two looks at claims that are unknown or unbound.
const CLAIM_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Kubelet {
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) pods: Store<SimPod>,
    pub(super) by_node: Index<SimPod>,
    pub(super) nodes: Store<SimNode>,
    pub(super) queue: WorkQueue<Due>,
    pub(super) scheduler: Scheduler,
    /// Claims that decide whether pods can start; `None` where pods are not bound either.
    pub(super) claims: Option<Claims>,
    /// Devices for pods; `None` where pods are not bound either.
    pub(super) devices: Option<Devices>,
    pub(super) configuration: Configuration,
    pub(super) unconfigured: Unconfigured,
    /// The volumes of pods, if the attach-detach controller attaches them.
    pub(super) mounts: Option<Arc<Mounts>>,
    pub(super) addresses: Addresses,
    /// The Events about pods, if any are written.
    pub(super) journal: Option<Journal>,
    pub(super) duties: Arc<Duties>,
}

/// The pods that wait for their configuration or ServiceAccount. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Unconfigured(Arc<Mutex<HashSet<ObjectKey>>>);

impl Unconfigured {
    fn add(&self, pod: ObjectKey) {
        let mut pods = self.0.lock();
        pods.insert(pod);
    }

    /// Removes and returns the pods of a namespace.
    pub(super) fn take(&self, namespace: &Sym) -> Vec<ObjectKey> {
        let mut pods = self.0.lock();
        pods.extract_if(|pod| pod.namespace == *namespace).collect()
    }
}

/// The answer of the scheduler about a pod.
enum Placement {
    /// The pod goes to this node, where its ResourceClaims get these devices.
    Node(Arc<str>, Taken),
    /// The pod goes to this node after its claims are bound.
    Reserved(Arc<str>, Vec<ObjectKey>),
    /// The claims of the pod are about to be bound, or its ResourceClaims are missing.
    Later,
    /// The pod fits nowhere now.
    Nowhere(Unfit),
}

/// The path of a pod.
fn target_of(pod: &ObjectKey) -> Target<'_> {
    Target {
        resource: &PODS,
        namespace: Some(pod.namespace.as_str()),
        name: Some(&*pod.name),
        subresource: None,
    }
}

/// `None` if the pod of a write is gone, or another one has its name.
fn unless_gone<T>(written: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match written {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(None),
        written => written.map(Some),
    }
}

impl Kubelet {
    /// The node that the pod is bound to, as far as it is known.
    fn node_of(&self, pod: &SimPod) -> Option<Arc<SimNode>> {
        let name = pod.pod.node.as_deref()?;
        self.nodes.get(&ObjectKey::new("", name))
    }

    fn place(&self, pod: &SimPod) -> Placement {
        let plan = match self.devices.as_ref().map(|devices| devices.plan(pod)) {
            None => Ok(Plan::default()),
            Some(Ok(plan)) => Ok(plan),
            Some(Err(NoPlan::Missing)) => return Placement::Later,
            Some(Err(NoPlan::Unresolvable(why))) => Err(why),
        };
        let unresolvable = |why: &str, stage: PreFilter| {
            Placement::Nowhere(self.scheduler.unresolvable(pod, why, stage))
        };
        let affinity = pod.constraints.required_affinity.as_ref();
        if affinity
            .and_then(NodeSelector::node_names)
            .is_some_and(|names| names.is_empty())
        {
            return unresolvable("pod affinity terms conflict", PreFilter::BeforeDevices);
        }
        let claims = self.claims.as_ref().map(|claims| claims.prospect(pod));
        let Prospect { demand, need_node } = match claims {
            None => Prospect::default(),
            Some(Ok(prospect)) => prospect,
            Some(Err(Obstacle::Soon)) => return Placement::Later,
            Some(Err(Obstacle::Unresolvable(why))) => {
                return unresolvable(&why, PreFilter::BeforeDevices);
            }
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return unresolvable(&why, PreFilter::Devices),
        };
        let fits = |node: &str| {
            let devices = self.devices.as_ref();
            devices.is_none_or(|devices| devices.fits(&plan, node))
        };
        let fits: Option<&dyn Fn(&str) -> bool> = (!plan.is_empty()).then_some(&fits);
        loop {
            let node = match self.scheduler.pick(pod, &demand, fits) {
                Ok(node) if need_node.is_empty() => node,
                Ok(node) => return Placement::Reserved(node, need_node),
                Err(unfit) => return Placement::Nowhere(unfit),
            };
            let devices = self.devices.as_ref();
            let taken = devices.map_or(Some(Taken::default()), |all| all.take(&plan, &node));
            // Otherwise another pod has taken the devices since the pick.
            if let Some(taken) = taken {
                return Placement::Node(node, taken);
            }
        }
    }

    /// Allocates the ResourceClaims of the pod, and binds it.
    async fn bind(
        &self,
        pod: &SimPod,
        node: &str,
        taken: &Taken,
        target: Target<'_>,
    ) -> Result<(), ApiError> {
        if let Some(devices) = &self.devices {
            let allocated = devices.allocate(&self.client, pod, node, taken).await;
            allocated.inspect_err(|_| devices.release(taken))?;
        }
        let at = Target {
            subresource: Some("binding"),
            ..target
        };
        let binding = scheduler::binding(pod, node);
        self.client.create(at, &binding).await.map(drop)
    }

    /// Binds the pod, or reports why it fits nowhere.
    async fn schedule(&self, pod: &SimPod, target: Target<'_>) -> Result<(), ApiError> {
        match self.place(pod) {
            Placement::Node(node, taken) => {
                if let Err(error) = self.bind(pod, &node, &taken, target).await {
                    self.scheduler.forget(pod);
                    return Err(error);
                }
                if let Some(journal) = &self.journal {
                    journal.scheduler.scheduled(pod, &node);
                }
                let change = scheduler::Change::Pod;
                retry_waiting(
                    &self.scheduler,
                    change,
                    &self.pods,
                    &self.queue,
                    &self.duties,
                );
            }
            Placement::Reserved(node, claims) => {
                // The node is chosen again when the claims are bound.
                self.scheduler.forget(pod);
                for claim in claims {
                    claims::select_node(&self.client, &claim, &node).await?;
                }
            }
            Placement::Later => {}
            Placement::Nowhere(unfit) => self.leave(pod, unfit, target).await?,
        }
        Ok(())
    }

    /// Reports why the pod fits nowhere, and ends the pods that make room for it.
    async fn leave(&self, pod: &SimPod, unfit: Unfit, target: Target<'_>) -> Result<(), ApiError> {
        let Unfit {
            message,
            nominated,
            preemption,
        } = unfit;
        if let Some(journal) = &self.journal {
            journal.scheduler.failed(pod, &message);
        }
        if pod.unscheduled.as_deref() != Some(&message)
            || pod.nominated.as_deref() != nominated.as_deref()
        {
            let now = self.clock.now_seconds();
            let body = status::unschedulable(pod, &message, nominated.as_deref(), now);
            self.report(target, &body).await?;
        }
        for key in preemption.outranked {
            if let Some(other) = self.pods.get(&key) {
                let body = status::outranked(&other);
                unless_gone(self.report(target_of(&key), &body).await)?;
            }
        }
        let victims = preemption.victims.into_iter();
        let victims = victims.filter_map(|(key, uid)| {
            let victim = self.pods.get(&key)?;
            (victim.meta().uid == uid).then_some(victim)
        });
        for victim in victims {
            let is_gone = unless_gone(self.preempt(&victim).await)?.is_none();
            if let Some(journal) = self.journal.as_ref().filter(|_| !is_gone) {
                let node = victim.pod.node.as_deref().unwrap_or_default();
                journal.scheduler.preempted(&victim, pod, node);
            }
        }
        Ok(())
    }

    /// Marks and deletes a pod, which makes room for another one.
    async fn preempt(&self, victim: &SimPod) -> Result<(), ApiError> {
        let key = victim.key();
        let target = target_of(&key);
        let now = self.clock.now_seconds();
        self.report(target, &status::preempted(victim, now)).await?;
        let options = json!({ "preconditions": { "uid": victim.meta().uid.to_string() } });
        self.client.delete(target, &options).await.map(drop)
    }

    /// Starts the containers, or writes why they cannot start. Then the pod is tried again when its
    /// configuration changes; with Events, also from time to time, as kubelets do.
    async fn start(
        &self,
        pod: &SimPod,
        health: Health,
        stage: &Stage,
        target: Target<'_>,
    ) -> Result<Requeue, ApiError> {
        let node = self.node_of(pod);
        let ranges = node.as_ref().map_or(&[][..], |node| node.ranges());
        let has_address = pod.pod.ips().next().is_some() || pod.constraints.host_network;
        if self.duties.pod_ranges && ranges.is_empty() && !has_address {
            // The pod returns to the queue when its node has a range.
            return Ok(Requeue::Never);
        }
        if let Some(mounts) = self.mounts.as_ref().filter(|_| health == Health::Unready) {
            match mounts.of(pod) {
                Mounted::Yes => {}
                // The pod returns to the queue when its node has the volumes.
                Mounted::No => return Ok(Requeue::Never),
                Mounted::Unknown => return Ok(Requeue::After(CLAIM_RETRY)),
            }
        }
        let missing = if health == Health::Unready && !pod.needs.is_empty() {
            self.missing(pod)
        } else {
            Missing::default()
        };
        let assign = || self.addresses.assign(&pod.meta().uid, ranges);
        let now = self.clock.now_seconds();
        let body = status::report(pod, health, stage, &missing, assign, now);
        if missing.is_empty() || !status::is_reported(pod, &body) {
            self.update(pod, target, body).await?;
        } else if let Some(journal) = &self.journal {
            journal.reported(pod, &body);
        }
        let Some(journal) = self.journal.as_ref().filter(|_| !missing.is_empty()) else {
            return Ok(Requeue::Never);
        };
        for message in &missing.mounts {
            journal.failed_mount(pod, message);
        }
        Ok(Requeue::After(CONFIG_RETRY))
    }

    /// The needs of a pod that are not met. A pod with such needs waits for changes.
    fn missing(&self, pod: &SimPod) -> Missing {
        let namespace = pod.meta().namespace.as_str();
        let look = || self.configuration.missing(namespace, &pod.needs);
        if look().is_empty() {
            return Missing::default();
        }
        self.unconfigured.add(pod.key());
        // An object that came before the pod was added has woken no pod.
        look()
    }

    /// Writes the status of a pod, and its Events.
    async fn update(&self, pod: &SimPod, target: Target<'_>, body: Value) -> Result<(), ApiError> {
        self.update_after(None, pod, target, body).await
    }

    /// The same, after `step` of a resize.
    async fn update_after(
        &self,
        step: Option<&Step>,
        pod: &SimPod,
        target: Target<'_>,
        mut body: Value,
    ) -> Result<(), ApiError> {
        self.add_pod_level(step, pod, &mut body);
        self.report(target, &body).await?;
        if let Some(journal) = &self.journal {
            journal.reported(pod, &body);
        }
        Ok(())
    }

    /// Adds the pod-level resources to a patch of its status.
    fn add_pod_level(&self, step: Option<&Step>, pod: &SimPod, body: &mut Value) {
        if self.release_of(pod).enables(pod_level::GATE)
            && let Some(status) = body["status"].as_object_mut()
        {
            pod_level::put(pod, status, step);
        }
    }

    /// The release of the kubelet of the pod.
    fn release_of(&self, pod: &SimPod) -> Release {
        let node = self.node_of(pod);
        node.map_or(Release::DEFAULT, |node| node.release())
    }

    async fn report(&self, target: Target<'_>, body: &Value) -> Result<(), ApiError> {
        let at = Target {
            subresource: Some("status"),
            ..target
        };
        self.client.patch(at, PatchKind::Strategic, body).await?;
        Ok(())
    }

    /// Takes one step of a change of a running pod, and says when the next one is due.
    async fn change(
        &self,
        pod: &SimPod,
        stage: &Stage,
        target: Target<'_>,
    ) -> Result<Requeue, ApiError> {
        let step = resize::step(pod, || self.refusal(pod));
        let now = self.clock.now_seconds();
        if let Some(body) = resize::body(pod, &step, stage, now) {
            self.update_after(Some(&step), pod, target, body).await?;
            if let Some(journal) = &self.journal {
                journal.resized(pod, &step, self.release_of(pod));
            }
        }
        Ok(match step {
            Step::Allocate => Requeue::After(self.duties.latency.start),
            Step::Wait(refusal) if !refusal.is_infeasible() => Requeue::After(RESIZE_RETRY),
            Step::Wait(_) | Step::Actuate | Step::Refresh => Requeue::Never,
        })
    }

    /// The reason of the node of the pod against its new resources.
    fn refusal(&self, pod: &SimPod) -> Option<Refusal> {
        let node = self.node_of(pod)?;
        let on_node = self.by_node.get(&node.meta().name);
        let is_other =
            |other: &&SimPod| other.meta().uid != pod.meta().uid && !other.pod.is_finished();
        let others = on_node.iter().map(|pod| &**pod).filter(is_other);
        resize::refusal(pod, &node, others)
    }

    /// Performs the action of a stage.
    async fn act(
        &self,
        pod: &SimPod,
        stage: &Stage,
        target: Target<'_>,
    ) -> Result<Requeue, ApiError> {
        let now = self.clock.now_seconds();
        match stage.then {
            Action::Nothing => {}
            Action::Bind => self.schedule(pod, target).await?,
            Action::Report(health) => return self.start(pod, health, stage, target).await,
            Action::Exit => {
                self.update(pod, target, status::exit(pod, stage, now))
                    .await?;
            }
            Action::Stop => {
                if let Some(journal) = &self.journal {
                    journal.killing(pod);
                }
                let mut body = status::stopped(pod, stage, now);
                self.add_pod_level(None, pod, &mut body);
                self.report(target, &body).await?;
            }
            Action::FailProbes => {
                let Some(journal) = &self.journal else {
                    return Ok(Requeue::Never);
                };
                journal.unhealthy(pod);
                let periods = pod.containers.iter().map(|one| one.probe_period());
                return Ok(periods.min().map_or(Requeue::Never, Requeue::After));
            }
            Action::Debug => {
                self.update(pod, target, status::ephemeral(pod, stage, now))
                    .await?;
            }
            Action::Reset => {
                if let Some(journal) = &self.journal {
                    journal.removing(pod);
                }
                self.update(pod, target, status::removed(pod, stage, now))
                    .await?;
            }
            Action::Change => return self.change(pod, stage, target).await,
            Action::Remove => {
                if let Some(journal) = &self.journal {
                    journal.killing(pod);
                }
                let options = stages::remove_options(pod);
                self.client.delete(target, &options).await?;
            }
        }
        Ok(Requeue::Never)
    }
}

impl Syncer<Due> for Kubelet {
    type Error = ApiError;

    async fn sync(&self, due: &Due) -> Result<Requeue, ApiError> {
        let Some(pod) = self
            .pods
            .get(&due.key)
            .filter(|pod| self.duties.due(pod).as_ref() == Some(due))
        else {
            return Ok(Requeue::Never);
        };
        let target = target_of(&due.key);
        let stage = self.duties.stages.row(due.stage);
        match self.act(&pod, stage, target).await {
            // The pod changed or is gone; the next watch event queues its next step.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                if pod.pod.ips().next().is_none() {
                    self.addresses.release(&pod.meta().uid);
                }
                Ok(Requeue::Never)
            }
            done => done,
        }
    }

    fn retry(&self, error: &ApiError, failures: u32) -> Retry {
        match failures {
            // The server would reject the same body again.
            _ if error.is_invalid() => Retry::Drop,
            0..10 => Retry::Quietly,
            _ => Retry::BackOff,
        }
    }
}
