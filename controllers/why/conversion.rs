//! The webhook that converts custom resources. An error of it names the type, and neither the definition nor
//! the reason why the webhook is down.

use serde_json::Value;
use steersman_values::resource::{CUSTOM_RESOURCE_DEFINITIONS, SERVICES};
use steersman_why::{Code, Doc, Explanation, World};

use super::webhook::follow_service;

/// Names the definition and the webhook of failed conversions in `answer`, and follows the Service.
pub(super) fn follow(world: &World, answer: &mut Explanation) {
    let mut called = Vec::new();
    for reason in &mut answer.reasons {
        if reason.code != Code::ConversionFailed {
            continue;
        }
        let field = |name: &str| reason.fields.get(name).and_then(Value::as_str);
        let definition = field("group").zip(field("kind"));
        let Some(doc) = definition.and_then(|(group, kind)| definition_of(world, group, kind))
        else {
            continue;
        };
        let definition = format!("CustomResourceDefinition {}", doc.name());
        let text = |field: &str| {
            let at = format!("/spec/conversion/webhook/clientConfig/{field}");
            doc.text(&at).to_owned()
        };
        let service = (text("service/namespace"), text("service/name"));
        let webhook = match (&*service.1, &*text("url")) {
            ("", "") => continue,
            ("", url) => url.to_owned(),
            (name, _) => format!("Service {}/{name}", service.0),
        };
        let is_gone =
            !service.1.is_empty() && world.get(&SERVICES, &service.0, &service.1).is_absent();
        let gone = if is_gone {
            ", which does not exist"
        } else {
            ""
        };
        reason.message = format!(
            "{}; {definition} converts by {webhook}{gone}",
            reason.message
        );
        reason.who = format!("operator of {webhook}, or owner of {definition} (spec.conversion)");
        if !service.1.is_empty() {
            called.push(service);
        }
    }
    called.dedup();
    for (namespace, name) in called {
        follow_service(world, &namespace, &name, answer);
    }
}

/// The definition of `kind`.
fn definition_of(world: &World, group: &str, kind: &str) -> Option<Doc> {
    let of = world.resource(group, kind).found()?;
    let name = format!("{}.{group}", of.plural);
    world.get(&CUSTOM_RESOURCE_DEFINITIONS, "", &name).found()
}
