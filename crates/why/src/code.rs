//! The closed set of reasons.
//!
//! Tools compare codes, so a code never changes its meaning. The text of a reason is for people and
//! may change.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The weight of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The object stands still until somebody acts, or until another component does.
    Cause,
    /// The object waits for a time or an event that comes by itself.
    Wait,
    /// A rule or a number that helps to understand the other reasons.
    Fact,
}

macro_rules! codes {
    ($($code:ident $role:ident $meaning:literal,)*) => {
        /// A reason's code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $code,)*
        }

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// The name in JSON and in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)*
                }
            }

            /// The meaning in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$code => $meaning,)*
                }
            }

            /// The weight.
            pub fn role(self) -> Role {
                match self {
                    $(Self::$code => Role::$role,)*
                }
            }
        }
    };
}

codes! {
    QuotaExceeded Cause "A ResourceQuota refuses the object.",
    QuotaDemands Cause "A ResourceQuota demands requests or limits that a container of the object lacks.",
    WebhookRefused Cause "An admission webhook refuses the object.",
    WebhookUnreachable Cause "The API server cannot call an admission webhook.",
    ConversionFailed Cause "The conversion webhook of a CustomResourceDefinition fails.",
    LimitRangeViolated Cause "A LimitRange refuses the object.",
    ServiceAccountMissing Cause "The ServiceAccount of the pod template does not exist.",
    ReferenceMissing Cause "The API server refuses the object, because an object that it names does not exist.",
    PodSecurityViolated Cause "The Pod Security level of the namespace refuses the pod.",
    PolicyRefused Cause "A ValidatingAdmissionPolicy refuses the object.",
    NamespaceTerminating Cause "The namespace is being deleted, so it takes no new objects.",
    ObjectInvalid Cause "The API server rejects the object as invalid.",
    Forbidden Cause "The client lacks a right.",
    RequestFailed Cause "A request fails for another reason.",
    SyncFailed Cause "The last sync of the object failed in the manager.",
    SyncDropped Cause "The sync failed, and the manager waits for a change of the object.",
    SyncRunning Wait "A sync of the object is running.",
    SyncQueued Wait "The object waits in the queue of its controller.",
    RetryScheduled Fact "The controller returns to the object at a set time.",
    Throttled Wait "Requests of the controller wait for the limit of its client.",
    CacheBehind Wait "The sync waits until a cache shows the manager's own write.",
    ExpectationsOutstanding Wait "The controller waits for the watch events of its own writes.",
    ControllerOff Cause "The controller of the object is switched off.",
    InformerNotSynced Cause "A cache of the manager is not filled.",
    WatchBroken Cause "A watch of the manager has a problem, so its cache may be old.",
    NoLeader Cause "No controller manager holds the Lease.",
    NotObserved Cause "The controller has not seen the latest spec of the object.",
    Paused Cause "The object is paused by its spec.",
    Suspended Cause "The object is suspended by its spec.",
    ManagedElsewhere Cause "The spec gives the object to another controller.",
    SelectorInvalid Cause "The selector of the object cannot be used.",
    RolloutWindow Fact "The limits of a rolling update allow no further step now.",
    RolloutStep Wait "The next step of the rollout is allowed and follows.",
    DeadlineLeft Fact "The rollout is reported as failed at a later time.",
    DeadlineExceeded Fact "The rollout took longer than its deadline.",
    RolloutDeadlock Cause "The new pod needs the node or the claim of an old pod, which stays until the new one is available.",
    OldPodsRunning Wait "Old pods must end before new pods start.",
    PodsMissing Wait "Pods have to be created.",
    NameTaken Cause "Another object has the name of the object that has to be created.",
    PodsSurplus Wait "Pods have to be deleted.",
    PodUnscheduled Cause "The scheduler finds no node for the pod.",
    VolumeUnreachable Cause "No node that reaches a volume of the pod takes pods.",
    VolumeTopology Fact "Only some nodes reach a volume of the pod.",
    PortTaken Cause "Another pod has the host port of the pod.",
    ClaimTaken Cause "Another pod uses the claim of the pod, and its access mode allows one pod.",
    DeviceClaimMissing Cause "A resource claim of the pod, or its template, does not exist.",
    PodGated Cause "A scheduling gate holds the pod.",
    ImagePull Cause "The kubelet cannot pull an image.",
    ContainerCrash Cause "A container ends again and again.",
    ProbeKills Cause "The kubelet ends a container again and again, because its probe fails.",
    ContainerConfig Cause "The kubelet cannot create a container.",
    SandboxFailed Cause "The kubelet cannot create the pod's sandbox.",
    VolumeMount Cause "The kubelet cannot mount a volume of the pod.",
    InitContainer Cause "An init container does not complete.",
    PodNotReady Cause "The pod runs and is not ready.",
    SidecarRuns Cause "A container of a Job's pod has ended, and another container goes on.",
    ReadinessGate Cause "A readiness gate of the pod is not fulfilled.",
    PodStarting Wait "The pod starts.",
    PodFailed Cause "The pod has failed.",
    PodsEvicted Cause "The kubelet has evicted pods of the workload, because their node lacks a resource or they exceed a limit.",
    MinReadySeconds Wait "The pod is ready, and becomes available after minReadySeconds.",
    NodeNotReady Cause "The node of the pod does not report.",
    NodePressure Cause "A node lacks disk space, memory, process ids or a network, so its taint keeps pods away.",
    NodeUninitialized Cause "A program has not removed its taint from a new node, so the taint keeps pods away.",
    GracePeriod Wait "The kubelet ends the pod within its grace period.",
    KubeletSilent Cause "The kubelet has not ended the pod after its grace period.",
    Finalizer Cause "A finalizer holds the deletion.",
    ForeignFinalizer Cause "A finalizer that no controller of this manager removes holds the deletion.",
    DrainHeld Cause "A pod on a node that is being deleted forbids its eviction, so the drain of the node waits for its end.",
    DrainLeft Fact "Pods are left on a node that is being deleted, and its drain waits for them.",
    JobTracking Cause "The Job controller has not counted the pod, so the pod keeps its finalizer.",
    ClaimInUse Cause "Pods use the claim, so its deletion waits for them.",
    VolumeBound Cause "A claim is bound to the volume, so its deletion waits for the claim.",
    DependentsRemain Cause "Foreground deletion waits for dependents.",
    OrphanPending Wait "The garbage collector removes owner references before it lets the object go.",
    OwnerUnresolvable Cause "The garbage collector cannot look up the type of an owner.",
    OwnersGone Wait "All owners of the object are gone, so the garbage collector deletes it.",
    OwnerElsewhere Cause "An owner reference names an object of another namespace.",
    ContentRemains Cause "Objects are left in the namespace, or of the type that a definition defines.",
    DiscoveryFailed Cause "The API server cannot list a group of resources.",
    NamespaceFinalizer Cause "A finalizer in the spec of the namespace is left.",
    ScheduleInvalid Cause "The schedule or its time zone cannot be read.",
    NextRun Fact "The next run of the schedule.",
    RunForbidden Cause "An active Job forbids the next run.",
    RunsReplaced Cause "Each run is replaced by the next one before it ends.",
    StartDeadlineMissed Cause "The run was missed, and its starting deadline has passed.",
    TooManyMissedRuns Cause "Too many runs were missed.",
    OrdinalBlocks Fact "A pod of a lower ordinal blocks the following pods.",
    GoverningServiceMissing Cause "A pod of the StatefulSet does not find its DNS name, because the Service of serviceName does not exist.",
    PodNamesMissing Fact "The pods of the StatefulSet have no DNS names, because the Service of serviceName does not exist.",
    RevisionBroken Cause "A pod of a replaced revision is not ready, and the ordered update waits for it.",
    PartitionHolds Fact "The partition keeps pods at the old revision.",
    UpdateOnDelete Fact "The update strategy changes a pod only after its deletion.",
    ClaimPending Cause "A claim of the pod is not bound.",
    ClaimTerminating Cause "The claim of a pod is being deleted, so the pod is not created.",
    SchedulerBypassed Cause "The pod that uses the claim was put on a node without the scheduler, which alone chooses a node for the claim.",
    WaitsForConsumer Wait "The claim is bound when a pod that uses it is scheduled.",
    ProvisionerPending Cause "An external provisioner has not made the volume.",
    ClassMissing Cause "The StorageClass of the claim does not exist.",
    SourceMissing Cause "The object with the data for the claim does not exist.",
    NoMatchingVolume Cause "No PersistentVolume fits the claim, and no class provisions one.",
    ResizePending Cause "The storage driver has not given the claim its new size.",
    ClaimUnused Cause "The file system of the claim grows when a pod mounts it, and no pod does.",
    ReclaimPending Cause "The storage driver has not deleted the released volume.",
    VolumeLost Cause "The volume of the claim is gone.",
    NodeExcluded Fact "The DaemonSet has no pod on some nodes, by their taints or labels.",
    DaemonBackOff Cause "A pod of the DaemonSet fails again and again on a node.",
    NoPodSelected Cause "The selector of the Service matches no pod.",
    NoReplicas Cause "The workload whose pods the Service selects has no replicas.",
    SliceUnlabelled Cause "An EndpointSlice is meant for the Service, and its labels do not say so.",
    NoSelector Fact "The Service has no selector, so its endpoints are made by hand.",
    EndpointOut Cause "Pods of the Service are not ready.",
    PortMissing Cause "No container has the named target port of the Service.",
    PortUndeclared Fact "No container declares the numbered target port of the Service. A container may listen without that.",
    LoadBalancerPending Cause "The load balancer of the Service has no address.",
    IngressClassMissing Cause "No controller takes the Ingress, because its IngressClass does not exist, or it names none and none is the default.",
    BackendMissing Cause "A Service that the Ingress names does not exist.",
    BackendPort Cause "A Service has no port that the Ingress names.",
    CertificateMissing Cause "A Secret that the Ingress names for TLS does not exist, or has no certificate.",
    NoAddress Fact "The controller of the class has given the Ingress no address.",
    ConditionBad Cause "A condition of the object, which another program sets, tells of a failure.",
    ProgramDown Cause "The program that handles objects of this kind does not run.",
    ConditionOpen Fact "A condition of the object, which another program sets, is not true.",
    ReportedElsewhere Fact "Another component has sent a Warning about the object.",
    SlicesBehind Wait "The EndpointSlices do not show the pods yet.",
    JobFailed Cause "The Job has failed.",
    JobBackOff Wait "The Job creates its next pod after a back-off.",
    JobPodsActive Wait "Pods of the Job run.",
    JobUncounted Wait "Pods of the Job have ended and are not counted yet.",
    PodEndAwaited Wait "The Job counts and replaces a terminating pod only after its end.",
    ScaleTargetMissing Cause "The target of the autoscaler does not exist, or cannot be scaled.",
    MetricsFailed Cause "The metrics of the autoscaler cannot be read.",
    TargetUnreachable Cause "A target of the autoscaler is beyond the limits of its pods, so it never scales up.",
    TargetInCores Fact "A target of the autoscaler counts cores, and is far beyond the requests of its pods.",
    AmbiguousSelector Cause "Several autoscalers select the same pods.",
    ScalingDisabled Cause "The target has no replicas, so the autoscaler is off.",
    DirectionDisabled Cause "The rules of the autoscaler switch off the direction in which its metrics ask it to scale.",
    ScaledBy Fact "An autoscaler sets the number of replicas.",
    ScalingLimited Fact "The autoscaler's limit decides the size.",
    Stabilized Wait "The stabilization window holds a change of the size.",
    Recommendations Fact "The sizes that the autoscaler has computed in its stabilization window.",
    WithinTolerance Fact "The metrics are within the tolerance.",
    MetricHolds Fact "A metric of the autoscaler asks for its current size, so the other metrics cannot lower it.",
    PodsOfOthers Fact "The autoscaler counts pods of other workloads, because the selector of its target matches them.",
    TaintTolerated Fact "The pod tolerates the taint of its node for a time.",
    ZoneSlowed Wait "The node waits for its NoExecute taint, because the zone limits the rate.",
    ZoneStopped Cause "Too many nodes of the zone are not ready, so the controller evicts no pods.",
    DisruptionBlocked Cause "The budget allows no disruption of its pods.",
    BudgetsOverlap Cause "Several budgets select a pod, so the API server evicts it by none of them.",
    UnmanagedPods Cause "The budget counts pods without a controller, so it cannot compute.",
    AttachPending Cause "A volume is not attached to the node.",
    AttachedElsewhere Cause "A volume is attached to another node.",
    DetachWaits Wait "The controller waits before it detaches the volume.",
    ApprovalPending Cause "Nobody has approved the request for a certificate.",
    SignerElsewhere Cause "The signer of the request is no controller of this manager, and has issued no certificate.",
    SignerRefused Cause "The signer of the request for a certificate has refused it.",
    SeveralCauses Fact "Further causes are left out of this answer.",
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = Self::ALL.iter().find(|code| code.name() == name);
        known.copied().ok_or_else(|| {
            D::Error::custom(format!(
                "unknown code {name:?}; the manager is of another release"
            ))
        })
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Cause => "cause",
            Self::Wait => "wait",
            Self::Fact => "fact",
        })
    }
}
