//! The paths of a resource and their operations, from the resource's verbs.
//!
//! Operations have upstream's IDs, because generated clients name their methods after them.

use serde_json::{Map, Value};

use super::schemas::{self, Schemas};
use crate::kinds::{Resource, Subresource};

mod operation;
mod parameters;
mod server;

pub(super) use parameters::TABLE as PARAMETERS;
pub(super) use server::pages;

use operation::{Action, Place};

const OF_COLLECTIONS: [Action; 3] = [Action::List, Action::Post, Action::DeleteCollection];
const OF_OBJECTS: [Action; 4] = [Action::Get, Action::Put, Action::Delete, Action::Patch];
/// Connections to programs by streams, such as `exec`.
const STREAMS: [Action; 2] = [Action::Connect("get"), Action::Connect("post")];
const PROXIES: [Action; 7] = [
    Action::Connect("get"),
    Action::Connect("put"),
    Action::Connect("post"),
    Action::Connect("delete"),
    Action::Connect("options"),
    Action::Connect("head"),
    Action::Connect("patch"),
];

/// The paths of a document, in the making.
struct Paths<'a> {
    schemas: &'a mut Schemas,
    found: Vec<(String, Value)>,
}

impl Paths<'_> {
    /// Adds a path with those of `actions` that `verbs` have.
    fn add(&mut self, path: String, actions: &[Action], verbs: &[&str], place: &Place<'_>) {
        let allowed = |action: &&Action| {
            matches!(action, Action::Connect(_)) || verbs.contains(&action.verb())
        };
        let mut operations: Vec<(&str, Value)> = actions
            .iter()
            .filter(allowed)
            .map(|action| (action.method(), place.operation(*action, self.schemas)))
            .collect();
        if operations.is_empty() {
            return;
        }
        let names = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let variables = names
            .map(|name| parameters::variable(name, place.kind.2))
            .collect();
        let shared = parameters::shared(&mut operations, variables);
        let mut item: Map<String, Value> = operations
            .into_iter()
            .map(|(method, operation)| (method.to_owned(), operation))
            .collect();
        if !shared.is_empty() {
            item.insert("parameters".to_owned(), Value::from(shared));
        }
        self.found.push((path, Value::from(item)));
    }
}

/// The paths of a resource below `prefix`, such as `apis/apps/v1`. The types of their bodies are
/// added to `schemas`.
pub(super) fn of(
    resource: &Resource,
    prefix: &str,
    definition: &str,
    schemas: &mut Schemas,
) -> Vec<(String, Value)> {
    let mut paths = Paths {
        schemas,
        found: Vec::new(),
    };
    let plural = &resource.plural;
    let scope = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let own = Place {
        resource,
        part: "",
        suffix: "",
        kind: (&resource.group, &resource.version, &resource.kind),
        definition: Some(definition),
    };
    let everywhere = Place {
        suffix: "ForAllNamespaces",
        ..own
    };
    let verbs = resource.verbs;
    let collection = format!("{scope}/{plural}");
    let object = format!("/{prefix}{collection}/{{name}}");
    if resource.namespaced {
        paths.add(
            format!("/{prefix}/{plural}"),
            &[Action::List],
            verbs,
            &everywhere,
        );
    }
    paths.add(
        format!("/{prefix}{collection}"),
        &OF_COLLECTIONS,
        verbs,
        &own,
    );
    paths.add(object.clone(), &OF_OBJECTS, verbs, &own);
    for part in resource.subresources {
        add_part(&mut paths, resource, part, &object, definition);
    }
    if resource.custom.is_none() {
        if resource.namespaced {
            let path = format!("/{prefix}/watch/{plural}");
            paths.add(path, &[Action::WatchList], verbs, &everywhere);
        }
        let watched = format!("/{prefix}/watch{collection}");
        paths.add(watched.clone(), &[Action::WatchList], verbs, &own);
        let reads = verbs.contains(&"get");
        let verbs = if reads { verbs } else { &[] };
        paths.add(format!("{watched}/{{name}}"), &[Action::Watch], verbs, &own);
    }
    paths.found
}

/// Adds the paths of a subresource of the objects at `object`.
fn add_part(
    paths: &mut Paths<'_>,
    resource: &Resource,
    part: &Subresource,
    object: &str,
    definition: &str,
) {
    let path = format!("{object}/{}", part.name);
    let body = resource.kind_at(part);
    let (group, version) = part
        .group_version
        .unwrap_or((&*resource.group, &*resource.version));
    let named = schemas::definition(group, version, body);
    if let Some(named) = named.as_deref().filter(|_| body != resource.kind) {
        paths.schemas.kind(group, version, body, named);
    }
    let place = Place {
        resource,
        part: part.name,
        suffix: "",
        // Upstream's operations of custom kinds all have the kind itself.
        kind: match resource.custom {
            Some(_) => (&resource.group, &resource.version, &resource.kind),
            None => (group, version, body),
        },
        definition: match part.name {
            "log" => None,
            _ if body == resource.kind => Some(definition),
            _ => named.as_deref(),
        },
    };
    match part.name {
        "proxy" => {
            paths.add(path.clone(), &PROXIES, &[], &place);
            let inner = Place {
                suffix: "WithPath",
                ..place
            };
            paths.add(format!("{path}/{{path}}"), &PROXIES, &[], &inner);
        }
        "attach" | "exec" | "portforward" => paths.add(path, &STREAMS, &[], &place),
        _ if part.verbs == ["create"] => paths.add(path, &[Action::Post], part.verbs, &place),
        _ => paths.add(path, &OF_OBJECTS, part.verbs, &place),
    }
}
