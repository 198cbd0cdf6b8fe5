//! The scenarios of all controllers, each under its plans.
//! `cargo test -p steersman-perturb --test suite -- --help` lists the options.

mod accounts;
mod attachdetach;
mod bootstrap;
mod certificates;
mod cloud;
mod clusterroleaggregation;
mod cronjob;
mod daemonset;
mod deployment;
mod devicetainteviction;
mod disruption;
mod endpoints;
mod endpointslice;
mod endpointslicemirroring;
mod ephemeralvolume;
mod garbagecollector;
mod jobs;
mod namespace;
mod nodeipam;
mod nodes;
mod objects;
mod oldtokens;
mod podautoscaler;
mod podgc;
mod pods;
mod policies;
mod poolstatus;
mod protection;
mod resourceclaim;
mod resourcequota;
mod rootca;
mod selinuxwarning;
mod servicecidrs;
mod statefulset;
mod storageversions;
mod tainteviction;
mod trustbundles;
mod ttl;
mod ttlafterfinished;
mod volumes;

use std::process::ExitCode;
use std::sync::LazyLock;

use steersman_perturb::Scenario;

/// Plans that run each time: they once found a bug, or they alone detect that a check is missing.
/// Their points name verb, resource and object, because plain numbers shift when controllers
/// change. A known plan fails if its fault does not happen.
const KNOWN: &[(&str, &str)] = &[
    // A new leader with a stale cache scaled ReplicaSets by their old sizes, or created a second
    // one for the same template. Pods exceeded the surge, or too few were available.
    ("deployment/rollover", "lag:replicasets:create/pods#6:3"),
    ("deployment/pause", "lag:replicasets:create/pods#6:3"),
    // The event of the controller's own resize was lost. The sum of the cached sizes left room for
    // pods beyond the surge.
    (
        "deployment/rollover",
        "event:replicasets:@web-688f86cb67#4:drop",
    ),
    // A new leader whose cache lacked a pod detached the volume of that pod.
    (
        "attachdetach/late-claim",
        "lag:pods:create/volumeattachments#1:1",
    ),
    // A VolumeAttachment that the cache of a new leader lacked was never deleted.
    (
        "attachdetach/out-of-service",
        "stale:patch/nodes/status#2:5",
    ),
    // A new leader whose cache showed a finished migration as new cleared the stored versions.
    ("svm/custom", "stale:storageversionmigrations:@m#3:5"),
    // The cache lacked the first count of a quota, whose pods were then not counted again.
    ("resourcequota/scopes", "event:resourcequotas:@q#1:delay"),
    // A new leader replaced ready pods, which its cache showed as not ready, beyond the limit of a
    // rolling update. It also took the second newest revision for the newest one.
    (
        "daemonset/rollout",
        "lag:pods:create/controllerrevisions#2:3",
    ),
    (
        "daemonset/rollback",
        "lag:controllerrevisions:create/controllerrevisions#2:1",
    ),
    // A new leader had missed a change of the schedule, and the run before it was never recorded.
    ("cronjob/rescheduled", "lag:cronjobs:1:1"),
    // A scale-down had taken the finalizer off a pod. The next manager deleted another pod instead.
    ("job/scale", "crash:before:delete/pods#1"),
    // After the write of a pod, the loss of the Lease stopped that of the status: an error in the log.
    ("statefulset/parallel", "stale:pods:3:2"),
    // A new leader deleted a pod whose claim its cache lacked, and left the claim without an owner.
    (
        "statefulset/retention",
        "lag:persistentvolumeclaims:create/pods#3:3",
    ),
    (
        "statefulset/retention",
        "lag:persistentvolumeclaims:create/pods#4:3",
    ),
    // podgc deleted a pod again while the cache still showed it.
    ("podgc/terminated", "event:pods:@e#2:stall"),
    ("podgc/out-of-service", "event:pods:@a#1:stall"),
    // podgc reads a missing node from the API server before it treats its pods as orphaned.
    ("podgc/node-returns", "event:nodes:@late#1:stall"),
    // A new leader reads the owner or its pods from the API server before it scales by a stale
    // cache.
    ("replicaset/create", "stale:create/pods#1:2"),
    ("replicaset/create", "stale:create/pods#2:5"),
    // Orphaned pods that the cache still showed with their former owner did not count, and the
    // controller created others in their place.
    ("replicaset/orphaned", "lag:pods:patch/pods#4:3"),
    ("replicationcontroller/orphaned", "lag:pods:patch/pods#4:3"),
    // A new leader finished the foreground deletion of an owner, because its cache lacked the
    // dependents.
    (
        "garbagecollector/deployment",
        "lag:replicasets:update/deployments/status#1:1",
    ),
    // A new leader with a stale cache of pods or nodes removed the endpoints of ready pods.
    ("endpoint/pods", "lag:pods:update/endpoints#1:1"),
    (
        "endpointslice/target-port",
        "lag:nodes:create/endpointslices#1:1",
    ),
    // The cache of a new leader lacked the Endpoints of a deleted Service, which stayed for ever.
    ("endpoint/deleted", "lag:endpoints:create/endpoints#2:1"),
    // The Endpoints of a Service came into the cache after its deletion, and stayed for ever.
    ("endpoint/deleted", "event:endpoints:1:drop"),
    // The cache of a new leader showed former addresses, which equalled the present ones. The
    // previous leader had written others.
    ("endpoint/readiness", "lag:endpoints:update/endpoints#1:1"),
    ("endpoint/relabelled", "lag:endpoints:update/endpoints#1:1"),
    // The cache had lost the event with the range of a node, and another node got the same range.
    ("nodeipam/recreated", "event:nodes:1:drop"),
    ("nodeipam/exhausted", "event:nodes:1:drop"),
    // A node was replaced while the answer about its range was awaited: an error in the log.
    ("nodeipam/recreated", "answer:3:timeout-after"),
    ("nodeipam/recreated", "answer:4:timeout-after"),
    // A removal of NoExecute taints failed when all nodes were lost, and the pods were evicted.
    ("nodelifecycle/all-lost", "answer:14:500"),
    ("nodelifecycle/all-lost", "event:nodes:5:stall"),
    // A new leader bound a claim to a large volume, because its cache lacked the volume that fits.
    (
        "persistentvolume-binder/static",
        "lag:persistentvolumes:1:1",
    ),
    // A new leader bound a volume to a claim that was gone, so no other claim got it.
    (
        "persistentvolume-binder/retained",
        "lag:persistentvolumeclaims:7:3",
    ),
    // A new leader made claims for pods that were gone.
    ("ephemeral-volume/deleted", "lag:pods:5:3"),
    // The cache of a new leader lacked the template of a claim: an error, and an Event.
    (
        "resource-claim-controller/templates",
        "lag:resourceclaimtemplates:1:3",
    ),
    // The watch event of an own claim was lost, and the pod got a second claim.
    (
        "resource-claim-controller/templates",
        "event:resourceclaims:2:drop",
    ),
    // A count before the event of the last charge saw no difference, and none followed.
    ("resourcequota/release", "event:resourcequotas:3:close"),
    ("resourcequota/types", "lag:resourcequotas:2:3"),
    // A new leader attached volumes of pods that were gone.
    ("attachdetach/detach", "lag:pods:5:1"),
    ("attachdetach/move", "lag:pods:5:1"),
    ("attachdetach/detach", "stale:nodes:3:12"),
    // A new leader detached a volume in use, because its cache lacked the claim.
    ("attachdetach/late-claim", "lag:persistentvolumeclaims:1:1"),
    // An attachment without an answer counted as used until the next status of the kubelet.
    ("attachdetach/slow-driver", "answer:7:timeout-after"),
    // A 410 for the rewrite of one object ended a migration as failed.
    ("svm/built-in", "answer:10:410"),
    // A status for the namesake of a deleted policy was refused: an error in the log.
    (
        "validatingadmissionpolicy-status/recreated",
        "lag:validatingadmissionpolicies:1:3",
    ),
    // The cache of a new leader still showed a deleted Service, and its Endpoints were created
    // again.
    ("endpoint/deleted", "lag:services:delete/endpoints#1:1"),
    // A new leader kept a ServiceCIDR until a bookmark, because no event reached its caches.
    (
        "service-cidr/unused",
        "failover:before:patch/servicecidrs#2",
    ),
    // A new leader sent a PATCH with another range for a node that its cache showed without one.
    ("nodeipam/join", "lag:nodes:patch/nodes#2:1"),
    // The stale cache lacked the `Ready` condition of a pod, so the pod of a lost node stayed ready.
    ("nodelifecycle/lost", "lag:pods:patch/nodes/status#1:3"),
    // A new leader tainted a lost node while all others were silent, but still ready in the cache.
    (
        "nodelifecycle/all-lost",
        "crash:before:patch/nodes/status#2:before:patch/pods/status#1",
    ),
    // A pod is deleted by UID, because another pod may have its name by now.
    ("replicaset/namesake", "event:pods:@one#5:stall"),
    ("replicationcontroller/namesake", "event:pods:@one#5:stall"),
];

static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    let all = [
        attachdetach::scenarios(),
        bootstrap::scenarios(),
        clusterroleaggregation::scenarios(),
        certificates::scenarios(),
        oldtokens::scenarios(),
        trustbundles::scenarios(),
        daemonset::scenarios(),
        cronjob::scenarios(),
        deployment::scenarios(),
        pods::scenarios(),
        podautoscaler::scenarios(),
        podgc::scenarios(),
        resourcequota::scenarios(),
        protection::scenarios(),
        ephemeralvolume::scenarios(),
        garbagecollector::scenarios(),
        jobs::scenarios(),
        namespace::scenarios(),
        nodeipam::scenarios(),
        nodes::scenarios(),
        statefulset::scenarios(),
        disruption::scenarios(),
        endpoints::scenarios(),
        endpointslice::scenarios(),
        endpointslicemirroring::scenarios(),
        policies::scenarios(),
        poolstatus::scenarios(),
        resourceclaim::scenarios(),
        rootca::scenarios(),
        accounts::scenarios(),
        selinuxwarning::scenarios(),
        servicecidrs::scenarios(),
        storageversions::scenarios(),
        tainteviction::scenarios(),
        devicetainteviction::scenarios(),
        ttl::scenarios(),
        ttlafterfinished::scenarios(),
        cloud::scenarios(),
        volumes::scenarios(),
    ];
    all.into_iter().flatten().collect()
});

fn main() -> ExitCode {
    steersman_perturb::main(&SCENARIOS, KNOWN)
}
