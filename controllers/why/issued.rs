//! Objects of cert-manager and external-secrets that wait for each other: the issuer or store that they name, and
//! the object that they have made for the next step.

use steersman_values::resource::ResourceType;
use steersman_why::{Doc, Explanation, Known, World, existing, origin};

/// The group of Orders and Challenges.
const ACME: &str = "acme.cert-manager.io";

const ISSUING: &str = "cert-manager.io";

/// Group and kind.
type Kind = (&'static str, &'static str);

/// A kind and the kind of the objects that it owns for its next step.
const STEPS: [(Kind, Kind); 3] = [
    ((ISSUING, "Certificate"), (ISSUING, "CertificateRequest")),
    ((ISSUING, "CertificateRequest"), (ACME, "Order")),
    ((ACME, "Order"), (ACME, "Challenge")),
];

/// A field with the reference to an object that does the work.
struct Reference {
    field: &'static str,
    group: &'static str,
    kind: &'static str,
}

const REFERENCES: [Reference; 2] = [
    Reference {
        field: "issuerRef",
        group: ISSUING,
        kind: "Issuer",
    },
    Reference {
        field: "secretStoreRef",
        group: "external-secrets.io",
        kind: "SecretStore",
    },
];

/// Follows the objects that `doc` waits for. Returns the object that it names and that does not exist, with the people
/// that can act.
pub(super) fn follow(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    answer: &mut Explanation,
) -> Option<(String, String)> {
    let missing = absent(world, of, doc, answer);
    if let Some(step) = next_step(world, of, doc) {
        answer.follow(step);
    }
    missing
}

/// The object of the next step, if it stands still.
fn next_step(world: &World, of: &ResourceType, doc: &Doc) -> Option<Explanation> {
    let (_, (group, kind)) = STEPS
        .iter()
        .find(|((group, kind), _)| of.group == *group && of.kind == *kind)?;
    let next = world.resource(group, kind).found()?;
    let owned = world.controlled(&next, doc.namespace(), doc.uid())?;
    let newest = owned
        .into_iter()
        .max_by_key(|doc| doc.time("/metadata/creationTimestamp"))?;
    let about = world.explain(&next, &newest);
    about.is_stuck().then_some(about)
}

/// The object that `doc` names and that does not exist, with the people that can act. One that exists and stands
/// still is followed.
fn absent(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    answer: &mut Explanation,
) -> Option<(String, String)> {
    for reference in &REFERENCES {
        let text = |name: &str| doc.text(&format!("/spec/{}/{name}", reference.field));
        let or = |text: &str, default: &str| match text {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        let kind = or(text("kind"), reference.kind);
        let group = or(text("group"), reference.group);
        let name = text("name");
        if name.is_empty() {
            continue;
        }
        let Known::Yes(used) = world.resource(&group, &kind) else {
            continue;
        };
        let namespace = if used.namespaced { doc.namespace() } else { "" };
        match world.get(&used, namespace, name) {
            Known::Absent => {
                let others = world.list(&used, namespace).unwrap_or_default();
                let others = existing(others.iter().map(Doc::name));
                let message = format!("{kind} {name} does not exist ({others})");
                let who = format!(
                    "owner of {} (spec.{}), or creator of {kind} {name}",
                    origin(world, of, doc),
                    reference.field
                );
                return Some((message, who));
            }
            Known::Yes(used_doc) => {
                let about = world.explain(&used, &used_doc);
                if about.is_stuck() {
                    answer.follow(about);
                }
            }
            Known::Unknown => {}
        }
    }
    None
}
