//! The objects that a custom resource names: in the messages of its conditions, as references of its spec and status,
//! and as names in its status. One that stands still tells the cause better than the resource.
//!
//! The types come from discovery, which is read once. No list of objects is read here.

use serde_json::Value;
use steersman_values::resource::ResourceType;
use steersman_why::{Doc, Explanation, Known, World, is_name};

/// Levels of fields below the spec or status in which references are sought.
const DEPTH: usize = 6;
/// Names in one object that are looked up.
const LOOKED_UP: usize = 12;
/// Answers that follow one object.
const FOLLOWED: usize = 3;

/// Kinds that hold data only, so that they never stand still.
const DATA: [&str; 4] = ["secret", "configmap", "serviceaccount", "namespace"];

/// The name of another object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// API group; `None` if the reference does not tell it.
    group: Option<String>,
    /// Kind, in any case.
    kind: String,
    /// Namespace; empty for that of the resource itself.
    namespace: String,
    name: String,
}

/// An object that a resource names and that does not exist.
pub(super) struct Absent {
    pub(super) of: ResourceType,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Follows the objects that `doc` names and that stand still. Those of its `messages` tell the cause; without one of
/// them, those of its fields. Returns the first object that its spec names and that does not exist.
pub(super) fn follow(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    messages: &[&str],
    answer: &mut Explanation,
) -> Option<Absent> {
    let named = messages.iter().flat_map(|message| in_message(message, of));
    let named: Vec<Link> = named.take(LOOKED_UP).collect();
    follow_all(world, of, doc, &named, answer);
    if answer.is_stuck() {
        return None;
    }
    // An object that the status names may have ended, such as a Job.
    follow_all(world, of, doc, &of_fields(doc, of, "/status"), answer);
    if answer.is_stuck() {
        return None;
    }
    follow_all(world, of, doc, &of_fields(doc, of, "/spec"), answer)
}

/// Follows `links`. Returns the first one whose type is certain and whose object does not exist.
fn follow_all(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    links: &[Link],
    answer: &mut Explanation,
) -> Option<Absent> {
    let mut absent = None;
    let mut followed = 0;
    for link in links
        .iter()
        .filter(|link| !is_data(&link.kind))
        .take(LOOKED_UP)
    {
        let Some((used, is_certain)) = resolve(world, of, link) else {
            continue;
        };
        let namespace = match (used.namespaced, &*link.namespace) {
            (false, _) => "",
            (true, "") => doc.namespace(),
            (true, namespace) => namespace,
        };
        match world.get(&used, namespace, &link.name) {
            Known::Absent if is_certain && absent.is_none() => {
                absent = Some(Absent {
                    kind: used.kind.to_string(),
                    namespace: namespace.to_owned(),
                    name: link.name.clone(),
                    of: used,
                });
            }
            Known::Yes(found) if followed < FOLLOWED => {
                let subject = found.subject(&used);
                if answer.followed().contains(&&subject) {
                    continue;
                }
                let about = world.explain(&used, &found);
                if about.is_stuck() {
                    answer.follow(about);
                    followed += 1;
                }
            }
            _ => {}
        }
    }
    absent
}

fn is_data(kind: &str) -> bool {
    DATA.contains(&&*kind.to_lowercase())
}

/// The type of a link, and whether it is certain. A kind without a group is one of the own group, else of any.
fn resolve(world: &World, of: &ResourceType, link: &Link) -> Option<(ResourceType, bool)> {
    let group = link.group.as_deref().unwrap_or(&of.group);
    match world.resource(group, &link.kind) {
        Known::Yes(found) => Some((found, true)),
        Known::Absent if link.group.is_none() => {
            let any = world.resource("*", &link.kind).found()?;
            Some((any, false))
        }
        _ => None,
    }
}

/// The objects that `message` names: `order shop/tls-1`, `HelmChart 'flux/web'`, `HelmRepository source 'charts'`,
/// `Deployment/shop/web`, and `dependency 'flux/infra'`, which is of the own kind.
fn in_message(message: &str, of: &ResourceType) -> Vec<Link> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let mut found: Vec<Link> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let bare = bare(word);
        let before = |steps: usize| at.checked_sub(steps).map(|at| self::bare(words[at]));
        let link = match bare.split('/').collect::<Vec<_>>()[..] {
            [kind, namespace, name] if is_kind(kind) => Some((kind, namespace, name)),
            [kind, name] if is_kind(kind) => Some((kind, "", name)),
            [namespace, name] => kind_of(before(1), before(2)).map(|kind| (kind, namespace, name)),
            [name] if is_quoted(word) => kind_of(before(1), before(2)).map(|kind| (kind, "", name)),
            _ => None,
        };
        let Some((kind, namespace, name)) = link else {
            continue;
        };
        if !is_name(name) || !(namespace.is_empty() || is_name(namespace)) {
            continue;
        }
        let is_own = kind.eq_ignore_ascii_case("dependency");
        let link = Link {
            group: is_own.then(|| of.group.to_string()),
            kind: if is_own {
                of.kind.to_string()
            } else {
                kind.to_owned()
            },
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if !found.contains(&link) {
            found.push(link);
        }
    }
    found
}

/// A word without quotes and punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

fn is_quoted(word: &str) -> bool {
    word.starts_with(['"', '\'', '`'])
}

/// Whether `word` is written as a kind: `HelmChart`.
fn is_kind(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(char::is_alphanumeric)
}

/// Words between a kind and a name.
const BETWEEN: [&str; 7] = [
    "named",
    "name",
    "object",
    "reference",
    "resource",
    "source",
    "with",
];

/// The kind in the words before a name, the nearest one first.
fn kind_of<'a>(near: Option<&'a str>, far: Option<&'a str>) -> Option<&'a str> {
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(char::is_alphabetic);
    let near = near.filter(is_word)?;
    if BETWEEN.contains(&near) {
        far.filter(is_word)
    } else {
        Some(near)
    }
}

/// The objects that fields of a `part` of `doc` name, its spec or its status.
fn of_fields(doc: &Doc, of: &ResourceType, part: &str) -> Vec<Link> {
    let mut found = Vec::new();
    if let Some(value) = doc.at(part) {
        collect(value, "", DEPTH, of, &mut found);
    }
    if let Some(Value::Object(fields)) = doc.at(part) {
        let named = fields.iter().filter_map(|(field, value)| {
            let is_status = part == "/status";
            named(field, value.as_str()?, is_status)
        });
        found.extend(named);
    }
    found
}

fn collect(value: &Value, field: &str, depth: usize, of: &ResourceType, found: &mut Vec<Link>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            let link = reference(value, field, of);
            found.extend(link.filter(|link| !found.contains(link)));
            let fields = fields.iter().filter(|(name, _)| *name != "conditions");
            for (name, value) in fields {
                collect(value, name, depth - 1, of, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, field, depth - 1, of, found);
            }
        }
        _ => {}
    }
}

/// The object that `value`, the field `field`, refers to: a field that ends with `Ref`, an item of `dependsOn`, or an
/// item of `resources` that is told to be unhealthy.
fn reference(value: &Value, field: &str, of: &ResourceType) -> Option<Link> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let name = text("name");
    let version = text("apiVersion").split_once('/').map(|(group, _)| group);
    let group = value["group"]
        .as_str()
        .or(value["apiGroup"].as_str())
        .or(version);
    let link = |group: Option<&str>, kind: &str| Link {
        group: group.filter(|group| !group.is_empty()).map(str::to_owned),
        kind: kind.to_owned(),
        namespace: text("namespace").to_owned(),
        name: name.to_owned(),
    };
    if !is_name(name) {
        return None;
    }
    let by_field = field.strip_suffix("Ref").or(field.strip_suffix("Refs"));
    match (field, text("kind"), by_field) {
        ("dependsOn", ..) => Some(link(Some(&of.group), &of.kind)),
        ("parentRefs", "", _) => Some(link(Some("gateway.networking.k8s.io"), "Gateway")),
        // Argo CD.
        ("resources", kind, _) if !kind.is_empty() => {
            let health = value["health"]["status"].as_str()?;
            (health != "Healthy").then(|| link(group, kind))
        }
        (_, "", Some(kind)) if !kind.is_empty() => Some(link(group, kind)),
        (_, kind, Some(_)) if !kind.is_empty() => Some(link(group, kind)),
        _ => None,
    }
}

/// The object that the text field `field` names: the class in `gatewayClassName`; in a status also
/// `helmChart: flux/web` and `latestCreatedRevisionName: web-1`.
fn named(field: &str, value: &str, is_status: bool) -> Option<Link> {
    let last_word = |text: &str| text.rfind(|c: char| c.is_ascii_uppercase()).unwrap_or(0);
    let (kind, namespace, name) = match (field.strip_suffix("Name"), value.split_once('/')) {
        (Some(class), None) if class.ends_with("Class") => (class, "", value),
        (Some(kind), None) if is_status => (&kind[last_word(kind)..], "", value),
        (None, Some((namespace, name))) if is_status => (field, namespace, name),
        _ => return None,
    };
    let is_right = is_name(name) && (namespace.is_empty() || is_name(namespace));
    (is_right && !kind.is_empty()).then(|| Link {
        group: None,
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The Secrets that `doc` refers to, with their fields: `Secret flux/charts (spec.secretRef)`.
pub(super) fn secrets(doc: &Doc) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(spec) = doc.at("/spec") {
        collect_secrets(spec, "spec", DEPTH, doc.namespace(), &mut found);
    }
    found
}

fn collect_secrets(value: &Value, path: &str, depth: usize, own: &str, found: &mut Vec<String>) {
    let Value::Object(fields) = value else {
        return;
    };
    if depth == 0 {
        return;
    }
    for (field, value) in fields {
        let path = format!("{path}.{field}");
        let name = value["name"].as_str();
        let is_secret = field.to_lowercase().ends_with("secretref") || value["kind"] == "Secret";
        // The key of an account is made by its program, and so is no cause.
        if let Some(name) = name.filter(|_| is_secret && field != "privateKeySecretRef") {
            let namespace = value["namespace"].as_str().unwrap_or(own);
            let place = if namespace.is_empty() {
                name.to_owned()
            } else {
                format!("{namespace}/{name}")
            };
            found.push(format!("Secret {place} ({path})"));
        }
        collect_secrets(value, &path, depth - 1, own, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use steersman_values::resource::JOBS;

    fn own() -> ResourceType {
        ResourceType {
            group: "kustomize.toolkit.fluxcd.io".into(),
            kind: "Kustomization".into(),
            plural: "kustomizations".into(),
            ..JOBS.clone()
        }
    }

    fn texts(links: &[Link]) -> Vec<String> {
        let texts = links.iter().map(|link| {
            let group = link.group.as_deref().map(|group| format!(" of {group}"));
            format!(
                "{} {}/{}{}",
                link.kind,
                link.namespace,
                link.name,
                group.unwrap_or_default()
            )
        });
        texts.collect()
    }

    #[test]
    fn objects_are_read_from_messages() {
        // (message, objects)
        let cases: [(&str, &[&str]); 9] = [
            (
                "Waiting on certificate issuance from order shop/tls-1-309: \"pending\"",
                &["order shop/tls-1-309"],
            ),
            (
                "HelmChart 'flux/web' is not ready: no artifact available for HelmRepository source 'charts'",
                &["HelmChart flux/web", "HelmRepository /charts"],
            ),
            (
                "timeout waiting for: [Deployment/shop/web status: 'InProgress', Job/shop/init status: 'Failed']",
                &["Deployment shop/web", "Job shop/init"],
            ),
            (
                "dependency 'flux/infra' is not ready",
                &["Kustomization flux/infra of kustomize.toolkit.fluxcd.io"],
            ),
            ("secret \"db\" not found", &["secret /db"]),
            ("Issuing certificate as Secret does not exist", &[]),
            (
                "failed to fetch https://charts.acme.io/stable/index.yaml : 401 Unauthorized",
                &[],
            ),
            (
                "Get \"http://a.acme.io/.well-known/acme\": dial tcp: lookup a.acme.io on 10.96.0.10:53: no such host",
                &[],
            ),
            ("", &[]),
        ];
        for (message, expected) in cases {
            assert_eq!(texts(&in_message(message, &own())), expected, "{message}");
        }
    }

    #[test]
    fn objects_are_read_from_references_and_from_names_in_the_status() {
        let doc = Doc::new(json!({
            "metadata": {"namespace": "flux"},
            "spec": {
                "sourceRef": {"kind": "GitRepository", "name": "fleet"},
                "dependsOn": [{"name": "infra"}],
                "infrastructureRef": {"apiVersion": "infra.example.com/v1", "kind": "Rack", "name": "r1", "namespace": "dc"},
                "parentRefs": [{"name": "public"}],
                "gatewayClassName": "eg", "displayName": "web",
                "secretRef": {"name": "token"}, "deep": {"passwordSecretRef": {"name": "db", "key": "x"}},
                "acme": {"privateKeySecretRef": {"name": "account"}},
            },
            "status": {
                "helmChart": "flux/web", "latestCreatedRevisionName": "web-1", "url": "http://x/y",
                "resources": [
                    {"group": "apps", "kind": "Deployment", "name": "web", "health": {"status": "Degraded"}},
                    {"kind": "Service", "name": "web", "health": {"status": "Healthy"}},
                ],
                "conditions": [{"objectRef": {"kind": "Old", "name": "old"}}],
            },
        }));
        let mut links = of_fields(&doc, &own(), "/status");
        links.extend(of_fields(&doc, &own(), "/spec"));
        let mut found = texts(&links);
        found.sort();
        let mut expected = [
            "Deployment /web of apps",
            "helmChart flux/web",
            "Revision /web-1",
            "Gateway /public of gateway.networking.k8s.io",
            "GitRepository /fleet",
            "Kustomization /infra of kustomize.toolkit.fluxcd.io",
            "Rack dc/r1 of infra.example.com",
            "gatewayClass /eg",
            "passwordSecret /db",
            "privateKeySecret /account",
            "secret /token",
        ];
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(
            secrets(&doc),
            [
                "Secret flux/token (spec.secretRef)",
                "Secret flux/db (spec.deep.passwordSecretRef)"
            ]
        );
    }
}
