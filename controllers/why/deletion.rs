//! Why an object is still being deleted: each finalizer, with the component that removes it.

use steersman_objects::{CollectorFinalizers, JOB_TRACKING};
use steersman_values::resource::{NODES, ResourceType};
use steersman_why::{
    Code, Doc, Explanation, LastEvent, Program, Reason, World, event, is_tool, trouble_of_domain,
    warning,
};

use super::{drain, snapshot};
use crate::{garbagecollector, job, persistentvolume, protection};

/// The finalizer of a Service with a load balancer of the cloud, and the domain of the program that removes it.
const LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";
const OF_CLOUD: &str = "cloudprovider.kubernetes.io";

/// Finalizers of other components without a domain that tells the component.
const FOREIGN: [(&str, &str); 1] = [(LOAD_BALANCER, "cloud-controller-manager")];

/// Finalizers of controllers of this manager without an explanation of their own.
const OWN: [(&str, &str); 6] = [
    (
        "resource.kubernetes.io/delete-protection",
        "resourceclaim-controller",
    ),
    (
        "networking.k8s.io/service-cidr-finalizer",
        "service-cidr-controller",
    ),
    (
        "scheduling.k8s.io/podgroup-protection",
        "podgroup-protection-controller",
    ),
    (
        "kubernetes.io/vac-protection",
        "volumeattributesclass-protection-controller",
    ),
    (
        "kubernetes.io/pv-controller",
        "persistentvolume-binder-controller",
    ),
    (
        "kubernetes.io/legacy-token-invalid-since",
        "legacy-serviceaccount-token-cleaner-controller",
    ),
];

/// The finalizer of a definition, which the API server removes after the last custom resource.
const CUSTOM_RESOURCES: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Custom resources that one answer looks into.
const SHOWN: usize = 3;

/// Time after the end of the grace period for which the kubelet may still report.
const PATIENCE: i64 = 60;

/// Adds the reasons why `doc` is still there.
pub(super) fn explain(world: &World, of: &ResourceType, doc: &Doc, answer: &mut Explanation) {
    let deleted = doc.deleted_since();
    let is_namespace = of.group.is_empty() && of.plural == "namespaces";
    if !is_namespace {
        answer.state = "is being deleted".to_owned();
        answer.since = deleted;
    }
    let finalizers = doc.texts("/metadata/finalizers");
    if of == &NODES {
        drain::explain(world, doc, &finalizers, answer);
    }
    if of.kind == drain::NODE_CLAIM {
        drain::follow_node(world, doc, answer);
    }
    let is_pod = of.group.is_empty() && of.plural == "pods";
    // The finalizers of a pod go after its containers.
    if is_pod {
        pod(world, doc, finalizers.is_empty(), answer);
    }
    for name in &finalizers {
        finalizer(world, of, doc, name, answer);
    }
    if !is_pod && finalizers.is_empty() && !is_namespace {
        let message = "no finalizer is left, and the API server removes the object";
        answer.add(Reason::new(Code::GracePeriod, "kube-apiserver", message).since(deleted));
    }
}

fn finalizer(world: &World, of: &ResourceType, doc: &Doc, name: &str, answer: &mut Explanation) {
    match name {
        CollectorFinalizers::FOREGROUND => {
            garbagecollector::explain::foreground(world, doc, answer)
        }
        CollectorFinalizers::ORPHAN => {
            let message = "orphaning deletion: the garbage collector removes the owner references of dependents";
            let reason = Reason::new(
                Code::OrphanPending,
                garbagecollector::DESCRIPTOR.name,
                message,
            );
            answer.add(reason.since(doc.deleted_since()));
        }
        "kubernetes.io/pvc-protection" => protection::claims::explain::explain(world, doc, answer),
        "kubernetes.io/pv-protection" => {
            persistentvolume::explain::volume_in_use(world, doc, answer)
        }
        JOB_TRACKING => job::explain::tracking(world, doc, answer),
        CUSTOM_RESOURCES => custom_resources(world, doc, answer),
        snapshot::SOURCE => snapshot::explain(world, doc, answer),
        _ => other(world, of, doc, name, answer),
    }
}

/// The custom resources that are left of `doc`, a definition that is being deleted.
fn custom_resources(world: &World, doc: &Doc, answer: &mut Explanation) {
    const BY: &str = "kube-apiserver";
    let of = world.resource(doc.text("/spec/group"), doc.text("/spec/names/plural"));
    let of = of.found();
    let left = of.as_ref().and_then(|of| world.list(of, ""));
    let left = left.unwrap_or_default();
    let Some(of) = of.filter(|_| !left.is_empty()) else {
        let message =
            format!("finalizer {CUSTOM_RESOURCES}: the custom resources are deleted first");
        answer.add(Reason::new(Code::GracePeriod, BY, message).since(doc.deleted_since()));
        return;
    };
    let names: Vec<String> = left
        .iter()
        .take(SHOWN)
        .map(|object| match object.namespace() {
            "" => object.name().to_owned(),
            namespace => format!("{namespace}/{}", object.name()),
        })
        .collect();
    let more = match left.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "finalizer {CUSTOM_RESOURCES}: {} left: {}{more}",
        steersman_why::count(left.len(), "custom resource"),
        names.join(", ")
    );
    let who = "owners of these objects; the finalizer of the definition goes by itself after them";
    answer.add(
        Reason::new(Code::ContentRemains, BY, message)
            .who(who)
            .since(doc.deleted_since()),
    );
    for object in left.iter().take(SHOWN) {
        answer.follow(world.explain(&of, object));
    }
}

fn other(world: &World, of: &ResourceType, doc: &Doc, name: &str, answer: &mut Explanation) {
    let since = doc.deleted_since();
    let starts = |(start, _): &&(&str, &str)| name.starts_with(start);
    if let Some((_, owner)) = OWN.iter().find(starts) {
        let message = format!("finalizer {name} is left");
        answer.add(
            Reason::new(Code::Finalizer, *owner, message)
                .who("operator of the controller manager")
                .since(since),
        );
        return;
    }
    let set_by = doc.set_by(name);
    let owner = FOREIGN.iter().find(starts).map(|(_, owner)| *owner);
    // The domain names the controller. The program that set the finalizer may have been a person's.
    let domain = match name {
        LOAD_BALANCER => Some(OF_CLOUD),
        _ => name.split_once('/').map(|(domain, _)| domain),
    };
    let program = Program::of_domain(domain.unwrap_or(name));
    let program = program.filter(Program::has_workload).or(match program {
        Some(_) => Program::of_type(of).or(program),
        None => None,
    });
    let owner = owner.or(program.map(|program| program.name));
    let manager = set_by.filter(|manager| !is_tool(manager));
    let (by, who) = match (owner, domain, manager) {
        (Some(owner), _, _) => (owner, format!("operator of {owner}")),
        (None, Some(domain), _) => (domain, format!("operator of the controller of {domain}")),
        (None, None, Some(manager)) => (manager, format!("operator of {manager}")),
        (None, None, None) => ("", "operator of the controller that set it".to_owned()),
    };
    let set = set_by
        .map(|manager| format!(" (set by {manager})"))
        .unwrap_or_default();
    let mut message =
        format!("finalizer {name}{set} is left; no controller of this manager removes it");
    let content = doc.condition("NamespaceContentRemaining");
    if content.is_some_and(|content| content.text("/status") == "False") {
        message.push_str("; the content of the namespace is gone");
    }
    // The program runs, and says why it keeps the finalizer.
    let mut said = last_words(world, doc);
    let trouble = match &said {
        Some(_) => None,
        None => trouble(world, program, domain),
    };
    if name == LOAD_BALANCER && trouble.is_none() {
        said = said.or_else(|| started(world, doc));
    }
    if let Some(event) = &said {
        message = format!(
            "{message}; {}: {}: {}",
            event.from,
            event.reason,
            event.message.trim()
        );
    }
    let who = if answer.has(Code::DrainHeld) || answer.has(Code::DisruptionBlocked) {
        Reason::see("the pods that hold the drain of the node")
    } else if said.is_some() && name == LOAD_BALANCER {
        format!("administrator of the cloud account, by these words; or {who}{LEFT_BEHIND}")
    } else if said.is_some() {
        format!("owner of the object, by these words; or {who}")
    } else if let Some((trouble, about)) = trouble {
        message = format!("{message}; {trouble}");
        match about {
            Some(about) => {
                answer.follow(about);
                who
            }
            None => {
                format!("{who} (start it again), or owner of the object (remove the finalizer)")
            }
        }
    } else {
        let end = match name {
            LOAD_BALANCER => LEFT_BEHIND,
            _ => "",
        };
        format!("{who}; if that program is gone, owner of the object (remove the finalizer){end}")
    };
    answer.add(
        Reason::new(Code::ForeignFinalizer, by, message)
            .who(who)
            .since(since)
            .field("finalizer", name),
    );
}

/// The end of the actors about a load balancer.
const LEFT_BEHIND: &str = "; without the finalizer, the load balancer stays in the cloud";

/// The last Warning about the deletion of `doc`. Upstream: `syncLoadBalancerIfNeeded` of cloud-provider, whose last try
/// may also be that before a change of the type.
fn last_words(world: &World, doc: &Doc) -> Option<LastEvent> {
    let since = doc.deleted_since();
    warning(world, doc, &[]).filter(|event| {
        event.at >= since || event.message.contains("failed to delete load balancer")
    })
}

/// The start of the deletion of a load balancer, by its controller.
fn started(world: &World, doc: &Doc) -> Option<LastEvent> {
    let since = doc.deleted_since();
    event(world, doc, "DeletingLoadBalancer").filter(|event| event.at >= since)
}

/// The reason why the program of a finalizer does not work.
fn trouble(
    world: &World,
    program: Option<Program>,
    domain: Option<&str>,
) -> Option<(String, Option<Explanation>)> {
    match program {
        Some(program) => program.trouble(world),
        None => trouble_of_domain(world, domain?),
    }
}

/// The end of a pod: first the kubelet stops its containers, then finalizers go.
fn pod(world: &World, doc: &Doc, is_free: bool, answer: &mut Explanation) {
    let node = doc.text("/spec/nodeName");
    let Some(due) = doc.deleted() else {
        return;
    };
    if doc.has_ended() && !is_free {
        return;
    }
    let found = world.get(&NODES, "", node);
    let ready = found
        .clone()
        .found()
        .and_then(|node| node.condition("Ready"));
    let is_silent = ready
        .as_ref()
        .is_some_and(|ready| ready.text("/status") != "True");
    let left = due.as_second() - world.now.as_second();
    let reason = if !node.is_empty() && found.is_absent() {
        let message =
            format!("node {node} does not exist, so pod garbage collection deletes the pod");
        Reason::new(
            Code::NodeNotReady,
            "pod-garbage-collector-controller",
            message,
        )
        .who("administrator of the nodes")
    } else if is_silent {
        let message = format!(
            "node {node} is not ready, so its kubelet cannot confirm the end of the containers: {}",
            ready
                .map(|ready| ready.text("/message").to_owned())
                .unwrap_or_default()
        );
        let who = format!(
            "administrator of node {node} (repair, delete, or taint it node.kubernetes.io/out-of-service)"
        );
        Reason::new(Code::NodeNotReady, "kubelet", message).who(who)
    } else if left > 0 {
        let seconds = doc.number("/metadata/deletionGracePeriodSeconds");
        let message = format!("the containers may run until the grace period of {seconds} s ends");
        Reason::new(Code::GracePeriod, "kubelet", message).next(Some(due))
    } else if -left < PATIENCE {
        Reason::new(
            Code::GracePeriod,
            "kubelet",
            "the kubelet stops the containers and confirms the end",
        )
    } else if is_free {
        let event = warning(world, doc, &["FailedKillPod"]);
        let said = event.map(|event| format!(": {}", event.message.trim()));
        let message = format!(
            "the grace period is over, and the kubelet of {node} has not confirmed the end{}",
            said.unwrap_or_default()
        );
        Reason::new(Code::KubeletSilent, "kubelet", message).who(format!(
            "administrator of node {node} (its container runtime)"
        ))
    } else {
        return;
    };
    answer.add(reason.since(doc.deleted_since()));
}
