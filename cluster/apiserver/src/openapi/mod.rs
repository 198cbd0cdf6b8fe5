//! `/openapi/v3` and `/openapi/v2`: documents of the served types, for `kubectl explain` and for
//! clients that merge by them.
//!
//! table of types + descriptions -> `schemas`, also of custom kinds; table of kinds -> `paths`;
//! version 3 -> `older` (version 2) -> `merge` (with other programs) -> `message` (protobuf)
//!
//! The documents are built at request time, because custom resource definitions change them.
//! Upstream is `k8s.io/kube-openapi` (`pkg/builder3`, `pkg/handler3`, `pkg/handler`).

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::registry::{Registered, Registry};
use crate::schema::descriptions;

mod enums;
mod merge;
mod message;
mod newer;
mod older;
mod paths;
mod published;
mod schemas;

pub(crate) use message::document as message;
pub(crate) use older::document as older_document;
use schemas::Schemas;

/// The hash of the tables that documents of built-in types are made from.
static BUILT_IN: LazyLock<u64> = LazyLock::new(|| {
    fingerprint(
        [
            descriptions::TEXT,
            crate::schema::TABLE,
            paths::PARAMETERS,
            env!("CARGO_PKG_VERSION"),
        ]
        .into_iter(),
    )
});

/// The index of version 3: group versions and the URLs of their documents. The hash in a URL lets
/// clients cache the document for good.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for group in registry.groups() {
        for version in &group.versions {
            let path = path_of(&group.name, version);
            let url = format!(
                "/openapi/v3/{path}?hash={}",
                hash(registry, &registry.resources(&group.name, version))
            );
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    for page in paths::pages(registry) {
        let url = format!("/openapi/v3/{}?hash={}", page.path, hash(registry, &[]));
        let entry = paths.entry(page.path);
        entry.or_insert_with(|| json!({"serverRelativeURL": url}));
    }
    paths.sort_keys();
    json!({"paths": paths})
}

/// The release in the documents: those of upstream have no patch number.
fn version_of(registry: &Registry) -> String {
    let (major, minor) = registry.release().parts();
    format!("{major}.{minor}")
}

/// The authentication that all operations have.
fn bearer() -> Value {
    json!({"BearerToken": {
        "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
    }})
}

/// The path of a group version below `/openapi/v3`.
fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// A document and the hash of its content.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) hash: String,
    pub(crate) json: Value,
}

/// The document of a group version, such as `apis/apps/v1`, or of a page of the server.
pub(crate) fn document(registry: &Registry, path: &str) -> Option<Document> {
    let own = match path.split('/').collect::<Vec<_>>()[..] {
        ["api", version] => Some(("", version)),
        ["apis", group, version] => Some((group, version)),
        _ => None,
    };
    let entries = own.map(|(group, version)| registry.resources(group, version));
    let entries = entries.unwrap_or_default();
    let page = paths::pages(registry)
        .into_iter()
        .find(|page| page.path == path);
    if entries.is_empty() && page.is_none() {
        return None;
    }
    let core = ("", "v1");
    let known = [core].into_iter().chain(own.filter(|own| *own != core));
    let mut schemas = Schemas::of(registry.release(), known);
    let mut paths = Map::new();
    paths.extend(page.as_ref().map(|page| page.item(&mut schemas)));
    for entry in &entries {
        let definition = schemas.add_kind(&entry.resource);
        paths.extend(paths::of(&entry.resource, path, &definition, &mut schemas));
    }
    paths.sort_keys();
    let mut components = Map::new();
    let schemas = schemas.into_value();
    if schemas
        .as_object()
        .is_some_and(|schemas| !schemas.is_empty())
    {
        components.insert("schemas".to_owned(), schemas);
    }
    let info = if page.is_some() {
        components.insert("securitySchemes".to_owned(), bearer());
        json!({"title": "Kubernetes", "version": version_of(registry)})
    } else {
        // Documents of custom kinds come from another server upstream.
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    };
    let json = json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": components});
    Some(Document {
        hash: hash(registry, &entries),
        json,
    })
}

/// A hash that changes whenever the document of these resources changes.
fn hash(registry: &Registry, entries: &[std::sync::Arc<Registered>]) -> String {
    let custom = entries
        .iter()
        .filter_map(|entry| Some((&entry.resource, entry.resource.custom.as_ref()?)));
    let texts: Vec<String> = custom
        .map(|(resource, custom)| {
            let document = custom.document_hash(|text| fingerprint(std::iter::once(text)));
            format!("{}{document:016X}", resource.kind)
        })
        .collect();
    let version = registry.release().git_version();
    let own = fingerprint(texts.iter().map(String::as_str).chain([&*version]));
    format!("{:016X}{:016X}", *BUILT_IN ^ entries.len() as u64, own)
}

/// The FNV-1a hash of the texts.
fn fingerprint<'a, T: AsRef<[u8]> + ?Sized + 'a>(texts: impl Iterator<Item = &'a T>) -> u64 {
    texts
        .flat_map(|text| text.as_ref())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}
