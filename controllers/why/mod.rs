//! Why an object does not move: the explanations of all controllers, behind one function.
//!
//! object -> queues of its controllers -> deletion | owners -> `explain.rs` of its controller ->
//! answer
//!
//! Each controller's `explain.rs` is beside its decisions and calls them, so that an explanation and
//! a sync agree.

mod account;
mod ask;
mod bindings;
mod conversion;
mod custom;
mod deletion;
mod drain;
mod foreign;
mod grants;
mod identity;
mod ingress;
mod injected;
mod issued;
mod limit_range;
mod linked;
mod listeners;
mod missing;
mod node;
mod operation;
mod quota;
mod snapshot;
mod stuck;
mod triggers;
mod webhook;

use jiff::SignedDuration;
use steersman_objects::{ReplicaSet, ReplicationController};
use steersman_runtime::leader::DEFAULT_LEASE;
use steersman_values::resource::{
    HORIZONTAL_POD_AUTOSCALERS, LEASES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, ResourceType, SERVICE_ACCOUNTS,
};
use steersman_why::{Code, Doc, Explanation, Known, Reason, Subject, World, keys, pod};

use crate::{
    attachdetach, certificates, cronjob, daemonset, deployment, disruption, endpointslice,
    garbagecollector, job, namespace, nodelifecycle, persistentvolume, podautoscaler, replicaset,
    replicationcontroller, statefulset, tainteviction,
};

pub use ask::{AskError, ask};
pub use stuck::{KINDS, stuck};

/// Types that an autoscaler can scale.
const SCALABLE: [&str; 4] = [
    "deployments",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
];
/// A Lease that was not renewed for this many of its durations has no holder. Two, because a standby
/// may wait a whole duration after the last renewal that it saw.
const EXPIRED: i64 = 2;

/// The controllers that sync objects of a type, apart from those that look at all objects.
///
/// The keys of their queues are `namespace/name`.
fn controllers(of: &ResourceType) -> &'static [&'static str] {
    match (&*of.group, &*of.plural) {
        ("apps", "deployments") => &["deployment-controller"],
        ("apps", "replicasets") => &["replicaset-controller"],
        ("", "replicationcontrollers") => &["replicationcontroller-controller"],
        ("apps", "statefulsets") => &["statefulset-controller"],
        ("apps", "daemonsets") => &["daemonset-controller"],
        ("batch", "jobs") => &["job-controller", "ttl-after-finished-controller"],
        ("batch", "cronjobs") => &["cronjob-controller"],
        ("autoscaling", "horizontalpodautoscalers") => &["horizontal-pod-autoscaler-controller"],
        ("", "namespaces") => &[
            "namespace-controller",
            "serviceaccount-controller",
            "root-ca-certificate-publisher-controller",
        ],
        ("", "services") => &["endpointslice-controller", "endpoints-controller"],
        ("", "persistentvolumeclaims") => &[
            "persistentvolumeclaim-protection-controller",
            "persistentvolume-binder-controller",
            "persistentvolume-expander-controller",
        ],
        ("", "persistentvolumes") => &[
            "persistentvolume-protection-controller",
            "persistentvolume-binder-controller",
        ],
        ("policy", "poddisruptionbudgets") => &["disruption-controller"],
        ("", "pods") => &[
            "taint-eviction-controller",
            "resourceclaim-controller",
            "ephemeral-volume-controller",
        ],
        ("", "nodes") => &[
            "node-lifecycle-controller",
            "node-ipam-controller",
            "ttl-controller",
        ],
        ("", "serviceaccounts") => &["serviceaccount-token-controller"],
        ("", "resourcequotas") => &["resourcequota-controller"],
        ("certificates.k8s.io", "certificatesigningrequests") => &[
            "certificatesigningrequest-signing-controller",
            "certificatesigningrequest-approving-controller",
        ],
        ("resource.k8s.io", "resourceclaims") => &["resourceclaim-controller"],
        ("networking.k8s.io", "servicecidrs") => &["service-cidr-controller"],
        ("storagemigration.k8s.io", "storageversionmigrations") => {
            &["storage-version-migrator-controller"]
        }
        ("rbac.authorization.k8s.io", "clusterroles") => &["clusterrole-aggregation-controller"],
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            &["validatingadmissionpolicy-status-controller"]
        }
        _ => &[],
    }
}

/// The answer about the object `namespace/name` of type `of`. `None` until the object was read, or
/// if the caller may not read it; see [`World::withheld`].
pub fn about(world: &World, of: &ResourceType, namespace: &str, name: &str) -> Option<Explanation> {
    let doc = match world.get(of, namespace, name) {
        Known::Yes(doc) => doc,
        Known::Absent => {
            let mut answer = Explanation::new(Subject::new(of, namespace, name), "does not exist");
            answer.is_absent = true;
            absent(world, of, (namespace, name), &mut answer);
            return Some(answer.sorted());
        }
        Known::Unknown => return None,
    };
    let mut answer = world.explain(of, &doc);
    if doc.deleted().is_none() {
        garbagecollector::explain::owners(world, &doc, &mut answer);
    }
    scaled_by(world, of, &doc, &mut answer);
    manager(world, of, &mut answer);
    Some(answer.sorted())
}

/// Adds the autoscaler that sets the replicas of `doc`. Changes of replicas by other means are undone.
fn scaled_by(world: &World, of: &ResourceType, doc: &Doc, answer: &mut Explanation) {
    if !SCALABLE.contains(&&*of.plural) {
        return;
    }
    let all = world.list(&HORIZONTAL_POD_AUTOSCALERS, doc.namespace());
    let targets = |hpa: &&Doc| {
        hpa.text("/spec/scaleTargetRef/kind") == of.kind
            && hpa.text("/spec/scaleTargetRef/name") == doc.name()
    };
    for hpa in all.unwrap_or_default().iter().filter(targets) {
        let limited = podautoscaler::explain::limited(world, hpa)
            .map(|limited| format!("; {}", limited.message))
            .unwrap_or_default();
        let message = format!(
            "HorizontalPodAutoscaler {} sets the replicas (at most {}){limited}",
            hpa.name(),
            hpa.number("/spec/maxReplicas")
        );
        let who = format!("owner of HorizontalPodAutoscaler {}", hpa.name());
        let by = podautoscaler::DESCRIPTOR.name;
        answer.add(Reason::new(Code::ScaledBy, by, message).who(who));
    }
}

/// Adds what is known about an object that is gone: its namespace is gone too, a controller fails to make
/// it, or a volume is left of it.
fn absent(
    world: &World,
    of: &ResourceType,
    (namespace, name): (&str, &str),
    answer: &mut Explanation,
) {
    if of.namespaced && world.get(&NAMESPACES, "", namespace).is_absent() {
        answer.state = format!("does not exist, nor does namespace {namespace}");
    } else if of == &SERVICE_ACCOUNTS && name == account::DEFAULT {
        answer.reasons.extend(account::failures(world, namespace));
        webhook::name_configurations(world, answer);
    } else if of == &PERSISTENT_VOLUME_CLAIMS {
        let volumes = world
            .list(&PERSISTENT_VOLUMES, "")
            .unwrap_or_default()
            .iter();
        let left = volumes.filter(|volume| {
            volume.text("/spec/claimRef/namespace") == namespace
                && volume.text("/spec/claimRef/name") == name
        });
        for volume in left {
            answer.follow(world.explain(&PERSISTENT_VOLUMES, volume));
        }
    }
}

/// The answer about `doc`, an object of type `of`.
pub fn explain(world: &World, of: &ResourceType, doc: &Doc) -> Explanation {
    let mut answer = Explanation::new(
        doc.subject(of),
        "exists; kube-controller-manager has no controller for its kind",
    );
    let key = match doc.namespace() {
        "" => doc.name().to_owned(),
        namespace => format!("{namespace}/{}", doc.name()),
    };
    let handlers = controllers(of);
    if !handlers.is_empty() {
        answer.state = "waits for nothing".to_owned();
    }
    for controller in handlers {
        answer
            .reasons
            .extend(keys::of_key(world, controller, &key, doc.namespace()));
        answer.reasons.extend(world.memory(controller, &key));
    }
    // A terminating pod is explained by its end, and a terminating namespace by its content.
    let is_pod = of.group.is_empty() && of.plural == "pods";
    if doc.deleted().is_none() || !is_pod {
        by_kind(world, of, doc, &mut answer);
    }
    if doc.deleted().is_some() {
        deletion::explain(world, of, doc, &mut answer);
    }
    account::follow_default(world, doc.namespace(), &mut answer);
    webhook::name_configurations(world, &mut answer);
    conversion::follow(world, &mut answer);
    injected::name_injectors(world, of, doc, &mut answer);
    bindings::name_bindings(world, doc, &mut answer);
    identity::name_account(world, doc, &mut answer);
    limit_range::name_defaults(world, doc.namespace(), &mut answer);
    quota::name_users(world, doc.namespace(), &mut answer);
    missing::name_existing(world, of, &mut answer);
    answer.sorted()
}

fn by_kind(world: &World, of: &ResourceType, doc: &Doc, answer: &mut Explanation) {
    match (&*of.group, &*of.plural) {
        ("apps", "deployments") => deployment::explain::explain(world, doc, answer),
        ("apps", "replicasets") => {
            replicaset::explain::explain::<ReplicaSet>(
                world,
                doc,
                replicaset::DESCRIPTOR.name,
                answer,
            );
        }
        ("", "replicationcontrollers") => {
            let by = replicationcontroller::DESCRIPTOR.name;
            replicaset::explain::explain::<ReplicationController>(world, doc, by, answer);
        }
        ("apps", "statefulsets") => statefulset::explain::explain(world, doc, answer),
        ("apps", "daemonsets") => daemonset::explain::explain(world, doc, answer),
        ("batch", "jobs") => job::explain::explain(world, doc, answer),
        ("batch", "cronjobs") => cronjob::explain::explain(world, doc, answer),
        ("autoscaling", "horizontalpodautoscalers") => {
            podautoscaler::explain::explain(world, doc, answer)
        }
        ("", "namespaces") => namespace::explain::explain(world, doc, answer),
        ("", "services") => endpointslice::explain::explain(world, doc, answer),
        ("", "endpoints") | ("discovery.k8s.io", "endpointslices") => {
            endpointslice::explain::follow_service(world, doc, answer);
        }
        ("", "persistentvolumeclaims") => persistentvolume::explain::claim(world, doc, answer),
        ("", "persistentvolumes") => persistentvolume::explain::volume(world, doc, answer),
        ("policy", "poddisruptionbudgets") => disruption::explain::explain(world, doc, answer),
        ("", "pods") => {
            pod::explain(world, doc, answer);
            storage_driver(world, doc, answer);
            attachdetach::explain::explain(world, doc, answer);
            if answer.is_stuck() {
                tainteviction::explain::explain(world, doc, answer);
                // The key of this memory is the name of a node.
                let node = doc.text("/spec/nodeName");
                let memory = world.memory(nodelifecycle::DESCRIPTOR.name, node);
                answer.reasons.extend(memory);
            }
        }
        ("", "nodes") => node::explain(world, doc, answer),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            certificates::explain::explain(world, doc, answer)
        }
        ("networking.k8s.io", "ingresses") => ingress::explain(world, doc, answer),
        _ if controllers(of).is_empty() => foreign::explain(world, of, doc, answer),
        _ => {}
    }
}

/// Names the DaemonSet that registers a CSI driver and keeps its pods from the node of `doc`, a pod.
fn storage_driver(world: &World, doc: &Doc, answer: &mut Explanation) {
    let node = doc.text("/spec/nodeName");
    for reason in &mut answer.reasons {
        let driver = reason
            .message
            .split_once(pod::UNREGISTERED_DRIVER)
            .and_then(|(start, _)| start.rsplit(' ').next());
        let found = driver.and_then(|driver| {
            let node = world.get(&NODES, "", node).found()?;
            daemonset::explain::storage_driver(world, &node, driver)
        });
        if let Some((set, why)) = found {
            reason.message = format!(
                "{}; DaemonSet {set}, which registers the driver, has no pod on {node}: {why}",
                reason.message
            );
            reason.who = format!("owner of DaemonSet {set} (tolerations, node selector)");
        }
    }
}

/// Adds the state of the manager, if it is itself a cause: no leader, a controller that is switched
/// off, or a cache that is not filled.
fn manager(world: &World, of: &ResourceType, answer: &mut Explanation) {
    let handlers = controllers(of);
    if let Some(inside) = &world.inside {
        let state = inside.manager();
        let who = "operator of the controller manager";
        for controller in handlers
            .iter()
            .filter(|name| state.switched_off.iter().any(|off| off == *name))
        {
            let message = format!("{controller} is switched off in this manager");
            answer.add(
                Reason::new(Code::ControllerOff, *controller, message)
                    .who(format!("{who} (--controllers)")),
            );
        }
        if !state.not_synced.is_empty() {
            let message = format!("caches are not filled: {}", state.not_synced.join(", "));
            answer.add(
                Reason::new(Code::InformerNotSynced, state.identity.clone(), message).who(who),
            );
        }
        for problem in &state.watches {
            answer.add(
                Reason::new(Code::WatchBroken, state.identity.clone(), problem.as_str()).who(who),
            );
        }
        return;
    }
    let waits = !answer.reasons.is_empty() || !answer.waits_for.is_empty();
    // A failed Job stays as it is, with and without a manager.
    if handlers.is_empty() || !waits || answer.has(Code::JobFailed) {
        return;
    }
    if let Some(reason) = without_leader(world) {
        answer.add(reason);
    }
}

/// The reason if no controller manager holds the Lease.
fn without_leader(world: &World) -> Option<Reason> {
    let lease = world
        .get(&LEASES, DEFAULT_LEASE.0, DEFAULT_LEASE.1)
        .found()?;
    let holder = lease.text("/spec/holderIdentity");
    let renewed = lease.time("/spec/renewTime");
    let limit = SignedDuration::from_secs(EXPIRED * lease.number("/spec/leaseDurationSeconds"));
    let is_old = renewed.is_some_and(|at| world.now.duration_since(at) > limit);
    if !holder.is_empty() && !is_old {
        return None;
    }
    let message = match holder {
        "" => {
            "no controller manager holds the Lease kube-system/kube-controller-manager".to_owned()
        }
        holder => format!("the Lease kube-system/kube-controller-manager of {holder} has expired"),
    };
    let reason = Reason::new(Code::NoLeader, "kube-controller-manager", message);
    Some(
        reason
            .who("operator of the controller manager")
            .since(renewed),
    )
}
