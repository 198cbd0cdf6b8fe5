//! Why an Ingress does not work, as far as objects tell. Its controller is another program.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::Value;
use steersman_values::resource::{INGRESS_CLASSES, SERVICES};
use steersman_why::{Code, Doc, Explanation, Reason, World, existing, named_trouble, warning};

/// The annotation that older manifests have in place of `spec.ingressClassName`.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
/// The annotation of the class for Ingresses that name none.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// Time after which a missing address is worth a look.
const PATIENCE: SignedDuration = SignedDuration::from_secs(120);

fn annotation<'a>(doc: &'a Doc, key: &str) -> Option<&'a str> {
    doc.at("/metadata/annotations")?.get(key)?.as_str()
}

/// Adds the reasons about `doc`, and the answers about the Services that it names.
pub(super) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let addresses = doc.items("/status/loadBalancer/ingress").iter();
    let addresses = addresses.filter_map(|one| one["ip"].as_str().or(one["hostname"].as_str()));
    let addresses: Vec<&str> = addresses.collect();
    answer.state = match addresses.as_slice() {
        [] => "has no address".to_owned(),
        some => format!("has the address {}", some.join(", ")),
    };
    if addresses.is_empty() {
        unserved(world, doc, answer);
    }
    for (name, ports) in backends(doc) {
        let found = world.get(&SERVICES, doc.namespace(), name);
        if found.is_absent() {
            let message = format!("Service {}/{name} does not exist", doc.namespace());
            let who = format!("creator of the Service, or owner of the Ingress (backend {name})");
            answer.add(Reason::new(Code::BackendMissing, "", message).who(who));
        } else if let Some(service) = found.found() {
            for port in ports {
                answer.reasons.extend(missing_port(&service, port));
            }
            let about = world.explain(&SERVICES, &service);
            if about.is_stuck() {
                answer.follow(about);
            }
        }
    }
}

/// The Services that the Ingress sends requests to, with the ports that it names.
fn backends(doc: &Doc) -> BTreeMap<&str, Vec<&Value>> {
    let paths = doc.items("/spec/rules").iter().filter_map(|rule| {
        let paths = rule.pointer("/http/paths").and_then(Value::as_array);
        Some(paths?.iter().map(|path| &path["backend"]))
    });
    let default = doc.at("/spec/defaultBackend").into_iter();
    let backends = paths.flatten().chain(default);
    let mut services = BTreeMap::<_, Vec<_>>::new();
    for backend in backends {
        let Some(name) = backend.pointer("/service/name").and_then(Value::as_str) else {
            continue;
        };
        // The AWS Load Balancer Controller takes such a backend from an annotation.
        if backend["service"]["port"]["name"] == "use-annotation" {
            continue;
        }
        let ports = services.entry(name).or_default();
        let port = &backend["service"]["port"];
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    services
}

/// The reason if `service` lacks the port that a backend names by number or name.
fn missing_port(service: &Doc, port: &Value) -> Option<Reason> {
    let ports = service.items("/spec/ports");
    let is_it = |known: &Value| match &port["name"] {
        Value::String(name) => known["name"] == **name,
        _ => known["port"] == port["number"],
    };
    // A Service for an external name may have no ports.
    if ports.is_empty() || ports.iter().any(is_it) {
        return None;
    }
    let wanted = match &port["name"] {
        Value::String(name) => name.clone(),
        _ => port["number"].to_string(),
    };
    let known = ports.iter().map(|known| match &known["name"] {
        Value::String(name) => format!("{} ({name})", known["port"]),
        _ => known["port"].to_string(),
    });
    let known: Vec<String> = known.collect();
    let object = format!("Service {}/{}", service.namespace(), service.name());
    let message = format!("{object} has no port {wanted}; it has {}", known.join(", "));
    let who = format!("owner of the Ingress (port of the backend), or owner of {object}");
    Some(Reason::new(Code::BackendPort, "", message).who(who))
}

/// The reason why no controller has given the Ingress an address: its class, or an Event of the controller.
fn unserved(world: &World, doc: &Doc, answer: &mut Explanation) {
    let since = doc.time("/metadata/creationTimestamp");
    if let Some(event) = warning(world, doc, &[]) {
        let message = format!("{}: {}", event.reason, event.message.trim());
        let who = format!("owner of the Ingress, or operator of {}", event.from);
        let mut reason = Reason::new(Code::LoadBalancerPending, event.from, message).who(who);
        reason.last_try = event.at;
        reason.attempts = event.count;
        answer.add(reason.since(event.first));
        return;
    }
    let Some(classes) = world.list(&INGRESS_CLASSES, "") else {
        return;
    };
    let known = existing(classes.iter().map(Doc::name));
    let missing = |message: String, who: &str| {
        let reason = Reason::new(Code::IngressClassMissing, "", message);
        reason.who(who).since(since)
    };
    let class = match doc.text("/spec/ingressClassName") {
        "" => annotation(doc, OLD_CLASS).unwrap_or_default(),
        class => class,
    };
    if class.is_empty() {
        let is_default = |class: &Doc| annotation(class, IS_DEFAULT) == Some("true");
        if !classes.iter().any(is_default) {
            let message = format!(
                "the Ingress names no class, and no IngressClass is the default ({known}), so controllers leave it alone"
            );
            let who = format!(
                "owner of the Ingress (spec.ingressClassName), or administrator of the cluster ({IS_DEFAULT} of a class)"
            );
            answer.add(missing(message, &who));
        }
        return;
    }
    // Controllers know the class of the old annotation without an object.
    let is_named = !doc.text("/spec/ingressClassName").is_empty();
    match classes.iter().find(|found| found.name() == class) {
        None if is_named => {
            let message = format!("IngressClass {class} does not exist ({known})");
            let who = format!(
                "owner of the Ingress (spec.ingressClassName), or creator of IngressClass {class}"
            );
            answer.add(missing(message, &who));
        }
        Some(found) if since.is_some_and(|at| world.now.duration_since(at) > PATIENCE) => {
            let controller = found.text("/spec/controller");
            if let Some((trouble, about)) = named_trouble(world, controller) {
                let message = format!(
                    "the controller {controller} of class {class} has given no address; {trouble}"
                );
                let who = format!("operator of {controller}");
                let reason = Reason::new(Code::ProgramDown, controller, message).who(who);
                answer.add(reason.since(since));
                answer.waits_for.extend(about);
                return;
            }
            let message = format!(
                "the controller {controller} of class {class} has given no address; some controllers never do"
            );
            answer.add(Reason::new(Code::NoAddress, "", message).since(since));
        }
        _ => {}
    }
}
