//! Why an Ingress does not work, as far as objects tell. Its controller is another program.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::Value;
use steersman_values::resource::{INGRESS_CLASSES, SECRETS, SERVICES};
use steersman_why::{Code, Doc, Explanation, Reason, World, existing, named_trouble, pod, warning};

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
    for name in certificates(world, doc) {
        certificate(world, doc, name, answer);
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

/// The class of the AWS Load Balancer Controller, which takes certificates by host, and the controller of such classes.
const BY_HOST: &str = "alb";
const OF_HOSTS: &str = "ingress.k8s.aws/alb";

/// The Secrets of `spec.tls`.
fn certificates<'d>(world: &World, doc: &'d Doc) -> BTreeSet<&'d str> {
    let class = doc.text("/spec/ingressClassName");
    let mut classes = world.list(&INGRESS_CLASSES, "").into_iter().flatten();
    let is_by_host =
        classes.any(|found| found.name() == class && found.text("/spec/controller") == OF_HOSTS);
    if is_by_host || class == BY_HOST || annotation(doc, OLD_CLASS) == Some(BY_HOST) {
        return BTreeSet::new();
    }
    let names = doc.items("/spec/tls").iter();
    let names = names.filter_map(|tls| tls["secretName"].as_str());
    names.filter(|name| !name.is_empty()).collect()
}

/// Adds the reason if the Secret `name` of `spec.tls` is missing or has no certificate. Controllers then serve a
/// certificate of their own, and tell it in their log alone.
fn certificate(world: &World, doc: &Doc, name: &str, answer: &mut Explanation) {
    let namespace = doc.namespace();
    let found = world.get(&SECRETS, namespace, name);
    let since = doc.time("/metadata/creationTimestamp");
    let mut reason = Reason::new(Code::CertificateMissing, "", String::new()).since(since);
    if found.is_absent() {
        let others = world.named(&SECRETS, name).unwrap_or_default();
        let others: Vec<&str> = others.into_iter().map(Doc::namespace).collect();
        let elsewhere = match others.first() {
            None => String::new(),
            Some(other) => format!(
                "; one of this name is in namespace {other}, and an Ingress uses the Secrets of its own namespace alone"
            ),
        };
        reason.message = format!("Secret {namespace}/{name} of spec.tls does not exist{elsewhere}");
        reason.who =
            format!("creator of Secret {namespace}/{name}, or owner of the Ingress (spec.tls)");
        // A program that has just begun makes it next.
        let is_new = since.is_none_or(|at| world.now.duration_since(at) < PATIENCE);
        let about = pod::produced(world, doc, ("secret", name), &mut reason);
        answer.waits_for.extend(about);
        if !is_new || answer.is_stuck() {
            answer.add(reason);
        }
    } else if let Some(secret) = found.found() {
        let data = secret.at("/data").and_then(Value::as_object);
        let has = |key: &&str| data.is_some_and(|data| data.contains_key(*key));
        let missing = ["tls.crt", "tls.key"].into_iter().find(|key| !has(key));
        let Some(missing) = missing else {
            return;
        };
        let known = existing(data.into_iter().flatten().map(|(key, _)| key.as_str()));
        reason.message =
            format!("Secret {namespace}/{name} of spec.tls has no key {missing} ({known})");
        reason.who =
            format!("owner of Secret {namespace}/{name}, or owner of the Ingress (spec.tls)");
        answer.add(reason);
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
