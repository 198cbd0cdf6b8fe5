//! Why an Ingress does not work, as far as objects tell. Its controller is another program.

use std::collections::BTreeSet;

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
    for name in services(doc) {
        let found = world.get(&SERVICES, doc.namespace(), &name);
        if found.is_absent() {
            let message = format!("Service {}/{name} does not exist", doc.namespace());
            let who = format!("creator of the Service, or owner of the Ingress (backend {name})");
            answer.add(Reason::new(Code::BackendMissing, "", message).who(who));
        } else if let Some(service) = found.found() {
            let about = world.explain(&SERVICES, &service);
            if about.is_stuck() {
                answer.follow(about);
            }
        }
    }
}

/// The names of the Services that the Ingress sends requests to.
fn services(doc: &Doc) -> BTreeSet<String> {
    let paths = doc.items("/spec/rules").iter().filter_map(|rule| {
        let paths = rule.pointer("/http/paths").and_then(Value::as_array);
        Some(paths?.iter().map(|path| &path["backend"]))
    });
    let default = doc.at("/spec/defaultBackend").into_iter();
    let backends = paths.flatten().chain(default);
    backends
        .filter_map(|backend| Some(backend.pointer("/service/name")?.as_str()?.to_owned()))
        .collect()
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
