//! Why a Service has no endpoints: the pods that it selects, and why each of them is left out.

use std::sync::Arc;

use steersman_helpers::endpointslice::pods::{declared_ports, is_endpoint, target_port};
use steersman_objects::{Pod, PodSpec, Service, ServicePort, TargetPort};
use steersman_values::resource::{ENDPOINT_SLICES, PODS, SERVICES};
use steersman_why::{
    Code, Doc, Explanation, Program, Reason, World, count, existing, pod, warning,
};

use super::{NAME, unselected};

/// Pointer to the label that gives a slice to its Service.
const SERVICE_LABEL: &str = "/metadata/labels/kubernetes.io~1service-name";

/// Follows the Service of `doc`, its Endpoints or one of its EndpointSlices.
pub(crate) fn follow_service(world: &World, doc: &Doc, answer: &mut Explanation) {
    let name = match doc.text(SERVICE_LABEL) {
        "" => doc.name(),
        name => name,
    };
    if let Some(service) = world.get(&SERVICES, doc.namespace(), name).found() {
        answer.state = format!("has the endpoints of Service {name}");
        answer.follow(world.explain(&SERVICES, &service));
    }
}

/// Adds the reasons about `doc`, and the answers about the pods that it selects.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(service) = doc.view::<Service>() else {
        return;
    };
    if &*service.spec.service_type == "ExternalName" {
        answer.state = "is of type ExternalName, which has no endpoints".to_owned();
        return;
    }
    // Its deletion is the matter then.
    if doc.deleted().is_some() {
        return;
    }
    // Missing endpoints do not explain a missing load balancer, so both are looked at.
    endpoints(world, doc, &service, answer);
    if &*service.spec.service_type == "LoadBalancer" {
        load_balancer(world, doc, answer);
    }
}

/// The reasons of Events about a Service whose load balancer fails: of MetalLB, of cloud controller
/// managers, and of the AWS load balancer controller.
const FAILED_BALANCERS: [&str; 4] = [
    "AllocationFailed",
    "SyncLoadBalancerFailed",
    "FailedBuildModel",
    "FailedDeployModel",
];

/// Adds the reason if no load balancer has given the Service an address.
fn load_balancer(world: &World, doc: &Doc, answer: &mut Explanation) {
    if !doc.items("/status/loadBalancer/ingress").is_empty() {
        return;
    }
    let created = doc.time("/metadata/creationTimestamp");
    // A new load balancer needs some time. Within the first minute, its absence is no problem.
    if created.is_none_or(|at| world.now.duration_since(at).as_secs() < 60) {
        return;
    }
    let (by, message) = match doc.text("/spec/loadBalancerClass") {
        "" => (
            "service-lb-controller".to_owned(),
            "type LoadBalancer: no cloud and no other load balancer has given an address"
                .to_owned(),
        ),
        class => (
            class.to_owned(),
            format!("type LoadBalancer: the load balancer of class {class} has given no address"),
        ),
    };
    let who = match doc.text("/spec/loadBalancerClass") {
        "" => "operator of the cloud controller manager or of a load balancer such as MetalLB"
            .to_owned(),
        class => format!(
            "operator of the load balancer {class}, or owner of the Service (loadBalancerClass)"
        ),
    };
    // Without an Event, the class is the only trace of the responsible controller.
    let Some(event) = warning(world, doc, &FAILED_BALANCERS) else {
        let trouble = Program::of_domain("cloudprovider.kubernetes.io")
            .filter(|_| doc.text("/spec/loadBalancerClass").is_empty())
            .and_then(|cloud| cloud.trouble(world));
        let message = match &trouble {
            Some((trouble, _)) => format!("{message}; {trouble}"),
            None => message,
        };
        let reason = Reason::new(Code::LoadBalancerPending, by, message);
        answer.add(reason.who(who).since(created));
        answer
            .waits_for
            .extend(trouble.and_then(|(_, about)| about));
        return;
    };
    let message = format!("type LoadBalancer has no address: {}", event.message.trim());
    // The AWS Load Balancer Controller sends its Events as `service`.
    let who = match &*event.from {
        "service" | "service-controller" => {
            "administrator of the cloud account, operator of the controller of its load balancers, or owner of the Service"
                .to_owned()
        }
        from => format!("operator of {from}, or owner of the Service"),
    };
    let mut reason = Reason::new(Code::LoadBalancerPending, event.from, message)
        .who(who)
        .since(created);
    reason.last_try = event.at;
    reason.attempts = event.count;
    answer.add(reason);
}

/// Adds the reasons about the endpoints of `service`.
fn endpoints(world: &World, doc: &Doc, service: &Service, answer: &mut Explanation) {
    if service.spec.selector.is_empty() {
        answer.state = "has no selector".to_owned();
        let message = "spec.selector is empty, so no controller makes its EndpointSlices";
        answer
            .add(Reason::new(Code::NoSelector, NAME, message).who("creator of its EndpointSlices"));
        if let Some(slices) = world.list(&ENDPOINT_SLICES, doc.namespace()) {
            unlabelled(doc, slices, answer);
        }
        return;
    }
    let slices = world.list(&ENDPOINT_SLICES, doc.namespace());
    let pods = world.list(&PODS, doc.namespace());
    let (Some(slices), Some(pods)) = (slices, pods) else {
        return;
    };
    let selected: Vec<(&Doc, Arc<Pod>)> = pods
        .iter()
        .filter_map(|doc| Some((doc, doc.view::<Pod>()?)))
        .filter(|(_, pod)| pod.meta.labels.contains_all(&service.spec.selector))
        .collect();
    let own: Vec<&Doc> = slices
        .iter()
        .filter(|slice| slice.text(SERVICE_LABEL) == doc.name())
        .collect();
    let ready_in_slices: usize = own
        .iter()
        .map(|slice| {
            slice
                .items("/endpoints")
                .iter()
                .filter(|end| end["conditions"]["ready"] == true)
                .count()
        })
        .sum();
    let serving = |pod: &Pod| {
        is_endpoint(pod, false) && (pod.is_ready() || service.spec.publish_not_ready_addresses)
    };
    // Terminating pods are left out: their endpoints are `ready` only with
    // `publishNotReadyAddresses`.
    let ready = selected.iter().filter(|(_, pod)| serving(pod)).count();
    answer.state = format!(
        "has {}, and selects {}",
        count(ready_in_slices, "ready endpoint"),
        count(selected.len(), "pod")
    );
    if selected.is_empty() {
        unselected::explain(world, doc, (pods, &own), service, answer);
        return;
    }
    ports(service, &selected, answer);
    if ready > ready_in_slices {
        let message =
            format!("{ready} pods are ready, and the EndpointSlices have {ready_in_slices}");
        answer.add(Reason::new(Code::SlicesBehind, NAME, message));
    }
    // Some pods serve. The other ones are explained only if the Service has another problem.
    if ready > 0 && !answer.is_stuck() {
        return;
    }
    if ready == 0 {
        let message = format!("none of the {} selected pods is ready", selected.len());
        answer.add(Reason::new(Code::EndpointOut, NAME, message).who(Reason::see("the pods")));
    }
    let out: Vec<Doc> = selected
        .iter()
        .filter(|(_, pod)| !serving(pod))
        .map(|(doc, _)| (*doc).clone())
        .collect();
    for about in pod::unavailable(world, &out, 0) {
        answer.follow(about);
    }
}

/// Adds a slice made by hand for a Service without a selector, if the label is missing that
/// says so. Slices that belong to another Service are no candidates. A candidate has the name of
/// the Service as a label whose key ends with `service-name`, or as the start of its own name.
fn unlabelled(doc: &Doc, slices: &[Doc], answer: &mut Explanation) {
    let of_service = |slice: &&Doc| slice.text(SERVICE_LABEL) == doc.name();
    if slices.iter().any(|slice| of_service(&slice)) {
        return;
    }
    let label_of = |slice: &Doc| -> Option<String> {
        let labels = slice.at("/metadata/labels")?.as_object()?;
        let mut similar = labels.iter().filter(|(_, value)| *value == doc.name());
        similar
            .find(|(key, _)| key.ends_with("service-name"))
            .map(|(key, _)| format!("it has {key}={} instead", doc.name()))
    };
    let is_named = |slice: &Doc| {
        slice.name() == doc.name() || slice.name().starts_with(&format!("{}-", doc.name()))
    };
    let free = slices
        .iter()
        .filter(|slice| slice.text(SERVICE_LABEL).is_empty());
    let mut meant = free.filter(|slice| label_of(slice).is_some() || is_named(slice));
    let Some(slice) = meant.next() else {
        return;
    };
    let found = label_of(slice).map(|label| format!("; {label}"));
    let message = format!(
        "no EndpointSlice has the label kubernetes.io/service-name={}, and {} lacks it{}",
        doc.name(),
        slice.name(),
        found.unwrap_or_default()
    );
    let who = format!(
        "owner of EndpointSlice {} (label kubernetes.io/service-name)",
        slice.name()
    );
    let reason = Reason::new(Code::SliceUnlabelled, NAME, message).who(who);
    answer.add(reason.since(slice.time("/metadata/creationTimestamp")));
}

/// Target ports that a pod lacks. One pod per port is named, since the pods of one template all lack it.
fn ports(service: &Service, selected: &[(&Doc, Arc<Pod>)], answer: &mut Explanation) {
    for port in &service.spec.ports {
        let mut pods = selected.iter();
        let reason = pods.find_map(|(doc, pod)| lacking(port, doc.name(), &pod.spec));
        answer.reasons.extend(reason);
    }
}

/// The reason if no container of `pod` has the target port of `port`. Containers may listen on ports that they do not
/// declare, so a number is only told beside other ports.
fn lacking(port: &ServicePort, pod: &str, spec: &PodSpec) -> Option<Reason> {
    let declared = declared_ports(spec).map(|one| {
        let number = format!("{}/{}", one.container_port, one.protocol);
        match &*one.name {
            "" => number,
            name => format!("{name} ({number})"),
        }
    });
    let declared: Vec<String> = declared.collect();
    let known = existing(declared.iter().map(String::as_str));
    match &port.target_port {
        TargetPort::Name(name) if target_port(spec, port).is_none() => {
            let message = format!(
                "port {} has the named target port {name}, and no container of pod {pod} has it ({known})",
                port.port
            );
            let who = "owner of the Service (targetPort), or of the pod template (ports)";
            Some(Reason::new(Code::PortMissing, NAME, message).who(who))
        }
        TargetPort::Number(number) if is_undeclared(spec, *number) => {
            let message = format!(
                "port {} has the target port {number}, which no container of pod {pod} declares ({known}); a container \
                 may listen there all the same",
                port.port
            );
            let who = "owner of the Service (targetPort), if its calls fail";
            Some(Reason::new(Code::PortUndeclared, NAME, message).who(who))
        }
        _ => None,
    }
}

/// Whether containers declare ports, and not this one. The default is 0.
fn is_undeclared(spec: &PodSpec, number: i32) -> bool {
    let mut ports = declared_ports(spec).peekable();
    number > 0 && ports.peek().is_some() && ports.all(|one| one.container_port != number)
}
