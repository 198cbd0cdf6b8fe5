//! The object that should make a Secret or ConfigMap which a pod lacks. Its program tells why it is missing.

use steersman_values::resource::ResourceType;

use crate::{Code, Doc, Explanation, Known, Reason, World};

/// A kind whose objects make a Secret or ConfigMap.
struct Producer {
    group: &'static str,
    kind: &'static str,
    /// The kind that it makes, in the kubelet's words.
    makes: &'static str,
    /// Fields with the name of the made object. Without them it has the name of its producer.
    named_by: &'static [&'static str],
}

const PRODUCERS: [Producer; 4] = [
    Producer {
        group: "cert-manager.io",
        kind: "Certificate",
        makes: "secret",
        named_by: &["/spec/secretName"],
    },
    Producer {
        group: "external-secrets.io",
        kind: "ExternalSecret",
        makes: "secret",
        named_by: &["/spec/target/name"],
    },
    Producer {
        group: "bitnami.com",
        kind: "SealedSecret",
        makes: "secret",
        named_by: &["/spec/template/metadata/name"],
    },
    Producer {
        group: "trust.cert-manager.io",
        kind: "Bundle",
        makes: "configmap",
        named_by: &[],
    },
];

/// Follows the objects that should make the Secrets and ConfigMaps which the kubelet misses for `doc`.
pub(super) fn follow(world: &World, doc: &Doc, answer: &mut Explanation) {
    let mut followed = Vec::new();
    for reason in &mut answer.reasons {
        let missing = match reason.code {
            Code::VolumeMount | Code::ContainerConfig => missing(&reason.message),
            Code::ImagePull => pull_secret(&reason.message).into_iter().collect(),
            _ => continue,
        };
        let missing: Vec<(&'static str, String)> = missing
            .into_iter()
            .map(|(kind, name)| (kind, name.to_owned()))
            .collect();
        let objects = missing.iter().map(|(kind, name)| object(doc, kind, name));
        let objects = objects.collect::<Vec<_>>().join(" and of ");
        if !missing.is_empty() && reason.code != Code::ImagePull {
            reason.who = format!("creator of {objects}, or owner of the pod template");
        }
        for (kind, name) in &missing {
            followed.extend(produced(world, doc, (kind, name), reason));
        }
    }
    for about in followed {
        answer.follow(about);
    }
}

fn object(doc: &Doc, kind: &str, name: &str) -> String {
    format!("{} {}/{name}", title(kind), doc.namespace())
}

/// Names the object that should make the missing Secret or ConfigMap `name` in `reason`; `kind` is in lower case. Returns the answer about it if it stands still.
pub fn produced(
    world: &World,
    doc: &Doc,
    (kind, name): (&str, &str),
    reason: &mut Reason,
) -> Option<Explanation> {
    let (of, producer) = producer(world, doc.namespace(), kind, name)?;
    let subject = producer.subject(&of).long();
    let about = world.explain(&of, &producer);
    reason.message = format!(
        "{}; {subject} makes this {}",
        reason.message.trim(),
        title(kind)
    );
    if about.is_stuck() {
        reason.who = Reason::see(&subject);
        return Some(about);
    }
    reason.who = format!(
        "operator of the controller of {}, which makes {} from {subject}",
        of.group,
        object(doc, kind, name)
    );
    None
}

/// Kind and name in each `secret "tls" not found`. The kubelet may put the namespace before the name.
fn missing(message: &str) -> Vec<(&'static str, &str)> {
    let mut found = Vec::new();
    for kind in ["configmap", "secret"] {
        let start = format!("{kind} \"");
        for rest in message.split(&*start).skip(1) {
            let Some((name, rest)) = rest.split_once('"') else {
                continue;
            };
            let name = name.rsplit('/').next().unwrap_or_default();
            if rest.starts_with(" not found") && !found.contains(&(kind, name)) {
                found.push((kind, name));
            }
        }
    }
    found
}

/// The first Secret in `Secret shop/registry of imagePullSecrets cannot be read`.
fn pull_secret(message: &str) -> Option<(&'static str, &str)> {
    let (start, _) = message.split_once(" of imagePullSecrets cannot be read")?;
    let (_, names) = start.rsplit_once("Secret ")?;
    let (_, name) = names.split(", ").next()?.split_once('/')?;
    Some(("secret", name))
}

fn title(kind: &str) -> &'static str {
    match kind {
        "secret" => "Secret",
        _ => "ConfigMap",
    }
}

/// The object that makes the Secret or ConfigMap `name`, if the API server serves a kind that does.
fn producer(world: &World, namespace: &str, made: &str, name: &str) -> Option<(ResourceType, Doc)> {
    let kinds = PRODUCERS.iter().filter(|producer| producer.makes == made);
    kinds
        .filter_map(|producer| {
            let Known::Yes(of) = world.resource(producer.group, producer.kind) else {
                return None;
            };
            let within = if of.namespaced { namespace } else { "" };
            let makes = |doc: &&Doc| {
                let named = producer.named_by.iter().map(|field| doc.text(field));
                let named = named.into_iter().find(|text| !text.is_empty());
                named.unwrap_or(doc.name()) == name
            };
            let found = world.list(&of, within)?.iter().find(makes)?.clone();
            Some((of, found))
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_object_is_read_from_the_kubelets_words() {
        let cases = [
            (
                "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found",
                &[("secret", "web-tls")][..],
            ),
            (
                "MountVolume.SetUp failed for volume \"all\" : [configmap \"settings\" not found, secret \"tls\" not found]",
                &[("configmap", "settings"), ("secret", "tls")],
            ),
            ("object \"shop\"/\"web\" not registered", &[]),
            (
                "container main cannot be started (CreateContainerConfigError): configmap \"settings\" not found",
                &[("configmap", "settings")],
            ),
            ("references non-existent secret key: tls.crt", &[]),
            ("secret \"web-tls\" is forbidden", &[]),
        ];
        for (message, expected) in cases {
            assert_eq!(missing(message), expected, "{message}");
        }
        let pull = "image \"app\" cannot be pulled; Secret shop/one, shop/two of imagePullSecrets cannot be read, so the pull";
        assert_eq!(pull_secret(pull), Some(("secret", "one")));
        assert_eq!(pull_secret("image \"app\" cannot be pulled"), None);
    }
}
