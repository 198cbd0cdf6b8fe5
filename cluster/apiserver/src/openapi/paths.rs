//! The paths of a resource and their operations, from the resource's verbs.
//!
//! Operations have upstream's IDs, because generated clients name their methods after them.

use serde_json::{Map, Value, json};

use super::schemas::{self, Schemas};
use crate::kinds::{Resource, Subresource};

/// (verb, method, prefix of the operation ID)
const OF_COLLECTIONS: [(&str, &str, &str); 3] = [
    ("list", "get", "list"),
    ("create", "post", "create"),
    ("deletecollection", "delete", "delete"),
];
const OF_OBJECTS: [(&str, &str, &str); 4] = [
    ("get", "get", "read"),
    ("update", "put", "replace"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
];
/// Operations of subresources that only accept POST, such as `pods/binding`.
const OF_MADE_PARTS: [(&str, &str, &str); 1] = [("create", "post", "create")];

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// The paths of a resource below `prefix`, such as `apis/apps/v1`. The types of their bodies are
/// added to `schemas`.
pub(super) fn of(
    resource: &Resource,
    prefix: &str,
    definition: &str,
    schemas: &mut Schemas,
) -> Vec<(String, Value)> {
    let plural = &resource.plural;
    let place = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let own = Kind {
        group: resource.group.to_string(),
        version: resource.version.to_string(),
        kind: resource.kind.to_string(),
        definition: definition.to_owned(),
    };
    let scope: &[&str] = if resource.namespaced {
        &["namespace"]
    } else {
        &[]
    };
    let object: Vec<&str> = ["name"].iter().chain(scope).copied().collect();
    let collection = format!("/{prefix}{place}/{plural}");
    let mut paths = Vec::new();
    let mut add = |path: String,
                   operations: &[(&str, &str, &str)],
                   verbs: &[&str],
                   kind: &Kind,
                   variables: &[&str],
                   part: &str| {
        let operations = operations.iter().filter(|(verb, ..)| verbs.contains(verb));
        let mut item: Map<String, Value> = operations
            .map(|operation| {
                (
                    (*operation.1).to_owned(),
                    kind.operation(resource, *operation, part, schemas),
                )
            })
            .collect();
        if !item.is_empty() {
            let variable = |name: &&str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}});
            item.insert(
                "parameters".to_owned(),
                variables.iter().map(variable).collect(),
            );
            paths.push((path, Value::from(item)));
        }
    };
    if resource.namespaced && resource.verbs.contains(&"list") {
        add(
            format!("/{prefix}/{plural}"),
            &OF_COLLECTIONS[..1],
            resource.verbs,
            &own,
            &[],
            "ForAllNamespaces",
        );
    }
    add(
        collection.clone(),
        &OF_COLLECTIONS,
        resource.verbs,
        &own,
        scope,
        "",
    );
    add(
        format!("{collection}/{{name}}"),
        &OF_OBJECTS,
        resource.verbs,
        &own,
        &object,
        "",
    );
    for part in resource.subresources {
        let Some(kind) = Kind::of_part(resource, part, &own) else {
            continue;
        };
        let path = format!("{collection}/{{name}}/{}", part.name);
        let operations: &[_] = if part.verbs == ["create"] {
            &OF_MADE_PARTS
        } else {
            &OF_OBJECTS
        };
        add(
            path,
            operations,
            part.verbs,
            &kind,
            &object,
            &capitalized(part.name),
        );
    }
    paths
}

/// The kind of the bodies at a path.
struct Kind {
    group: String,
    version: String,
    kind: String,
    definition: String,
}

impl Kind {
    /// The kind of a subresource. `None` for bodies that are no objects, such as logs.
    fn of_part(resource: &Resource, part: &Subresource, own: &Kind) -> Option<Self> {
        let (group, version) = part
            .group_version
            .unwrap_or((&resource.group, &resource.version));
        let kind = resource.kind_at(part);
        let definition = if kind == own.kind {
            own.definition.clone()
        } else {
            schemas::definition(group, version, kind)?
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            definition,
        })
        .filter(|_| part.name != "log")
    }

    /// The operation of a verb, with its parameters, body and answer.
    fn operation(
        &self,
        resource: &Resource,
        (verb, method, word): (&str, &str, &str),
        part: &str,
        schemas: &mut Schemas,
    ) -> Value {
        let action = match verb {
            "create" => "post",
            "update" => "put",
            other => other,
        };
        let answer = match verb {
            "list" => schemas.list_of(&self.definition, resource),
            "delete" | "deletecollection" => schemas.shape("meta.Status", STATUS),
            _ => schemas.kind(&self.group, &self.version, &self.kind, &self.definition),
        };
        let schema = |definition: &str| json!({"schema": {"$ref": schemas::reference(definition)}});
        let mut operation = json!({
            "operationId": self.name(resource, word, verb == "deletecollection", part),
            "parameters": query_of(verb).iter().map(|(name, kind)| parameter(name, kind)).collect::<Vec<_>>(),
            "responses": {
                "200": {"description": "OK", "content": {"application/json": schema(&answer)}}, "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": self.group, "kind": self.kind, "version": self.version},
        });
        let body = match method {
            "post" | "put" => Some(json!({"*/*": schema(&self.definition)})),
            "patch" => Some(patches(resource)),
            "delete" => {
                Some(json!({"*/*": schema(&schemas.shape("meta.DeleteOptions", DELETE_OPTIONS))}))
            }
            _ => None,
        };
        if let Some(content) = body {
            operation["requestBody"] = json!({"content": content});
            if method != "delete" {
                operation["requestBody"]["required"] = json!(true);
            }
        }
        operation
    }

    /// The operation ID, such as `patchAppsV1NamespacedDeploymentScale`.
    fn name(&self, resource: &Resource, word: &str, whole: bool, part: &str) -> String {
        let group = match resource
            .group
            .strip_suffix(".k8s.io")
            .unwrap_or(&resource.group)
        {
            "" => "Core".to_owned(),
            group => group.split('.').map(capitalized).collect(),
        };
        let scope = if resource.namespaced && part != "ForAllNamespaces" {
            "Namespaced"
        } else {
            ""
        };
        let whole = if whole { "Collection" } else { "" };
        format!(
            "{word}{group}{}{whole}{scope}{}{part}",
            capitalized(&resource.version),
            resource.kind
        )
    }
}

/// The media types of patches. Custom resources have no merge keys for strategic merge patches.
fn patches(resource: &Resource) -> Value {
    let mut kinds = vec![
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    if resource.custom.is_none() {
        kinds.push("application/strategic-merge-patch+json");
    }
    let patch = json!({"schema": {"$ref": schemas::reference(schemas::PATCH)}});
    Value::Object(
        kinds
            .into_iter()
            .map(|kind| (kind.to_owned(), patch.clone()))
            .collect(),
    )
}

/// The query parameters of a verb. kubectl reads them to find out whether the server validates
/// fields.
fn query_of(verb: &str) -> &'static [(&'static str, &'static str)] {
    const WRITE: [(&str, &str); 4] = [
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
        ("force", "boolean"),
    ];
    match verb {
        "list" => &[
            ("allowWatchBookmarks", "boolean"),
            ("continue", "string"),
            ("fieldSelector", "string"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
            ("sendInitialEvents", "boolean"),
            ("timeoutSeconds", "integer"),
            ("watch", "boolean"),
        ],
        "patch" => &WRITE,
        "create" | "update" => WRITE.first_chunk::<3>().expect("there are four"),
        "delete" => &[
            ("dryRun", "string"),
            ("gracePeriodSeconds", "integer"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ],
        "deletecollection" => &[
            ("dryRun", "string"),
            ("fieldSelector", "string"),
            ("gracePeriodSeconds", "integer"),
            ("labelSelector", "string"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ],
        _ => &[],
    }
}

fn parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
