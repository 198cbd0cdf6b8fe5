//! The paths of the server itself: discovery, its version and the keys of its tokens.

use serde_json::{Map, Value, json};

use super::operation::{JSON, PROTOBUF, YAML, group_word, identifier, tag};
use crate::openapi::schemas::{self, Schemas};
use crate::registry::Registry;

const OF_DISCOVERY: &[&str] = &[JSON, YAML, PROTOBUF];

/// A path that answers a GET with a document of the server.
pub(in crate::openapi) struct Page {
    /// The path, without slashes around it. In version 3 it is the name of a document, too.
    pub(in crate::openapi) path: String,
    tag: String,
    id: String,
    description: &'static str,
    media: &'static [&'static str],
    /// The type of the answer and its name in OpenAPI; `None` for texts.
    shape: Option<(&'static str, &'static str)>,
}

impl Page {
    /// The path with slashes, and its operation. The type of the answer is added to `schemas`.
    pub(in crate::openapi) fn item(&self, schemas: &mut Schemas) -> (String, Value) {
        let schema = match self.shape {
            Some((name, definition)) => {
                json!({"$ref": schemas::reference(&schemas.shape(name, definition))})
            }
            None => json!({"type": "string"}),
        };
        let media = self.media.iter();
        let content: Map<String, Value> = media
            .map(|media| ((*media).to_owned(), json!({"schema": schema})))
            .collect();
        let operation = json!({
            "tags": [self.tag],
            "description": self.description,
            "operationId": self.id,
            "responses": {
                "200": {"description": "OK", "content": content},
                "401": {"description": "Unauthorized"},
            },
        });
        (format!("/{}/", self.path), json!({"get": operation}))
    }
}

/// The pages of the server. Groups of custom kinds have none, as upstream's.
pub(in crate::openapi) fn pages(registry: &Registry) -> Vec<Page> {
    let versions = |path: &str, tag: &str, id: &str, shape| Page {
        path: path.to_owned(),
        tag: tag.to_owned(),
        id: id.to_owned(),
        description: "get available API versions",
        media: OF_DISCOVERY,
        shape: Some(shape),
    };
    let legacy = (
        "meta.APIVersions",
        "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions",
    );
    let groups = (
        "meta.APIGroupList",
        "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList",
    );
    let mut pages = vec![
        versions("api", "core", "getCoreAPIVersions", legacy),
        versions("apis", "apis", "getAPIVersions", groups),
    ];
    for group in registry.groups() {
        let is_built_in = |version: &&String| {
            let resources = registry.resources(&group.name, version);
            resources
                .iter()
                .any(|entry| entry.resource.custom.is_none())
        };
        let built_in: Vec<&String> = group.versions.iter().filter(is_built_in).collect();
        if !built_in.is_empty() && !group.name.is_empty() {
            pages.push(of_group(&group.name));
        }
        pages.extend(
            built_in
                .iter()
                .map(|version| of_version(&group.name, version)),
        );
    }
    pages.extend(of_server());
    pages
}

fn of_group(group: &str) -> Page {
    let name = group_word(group);
    Page {
        path: format!("apis/{group}"),
        tag: identifier(name, false),
        id: format!("get{}APIGroup", identifier(name, true)),
        description: "get information of a group",
        media: OF_DISCOVERY,
        shape: Some((
            "meta.APIGroup",
            "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup",
        )),
    }
}

fn of_version(group: &str, version: &str) -> Page {
    let name = identifier(group_word(group), true);
    Page {
        path: crate::openapi::path_of(group, version),
        tag: tag(group, version),
        id: format!("get{name}{}APIResources", identifier(version, true)),
        description: "get available resources",
        media: OF_DISCOVERY,
        shape: Some((
            "meta.APIResourceList",
            "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
        )),
    }
}

fn of_server() -> [Page; 3] {
    let page = |path: &str, tag: &str, id: &str| Page {
        path: path.to_owned(),
        tag: tag.to_owned(),
        id: id.to_owned(),
        description: "get the version information for this server",
        media: &[JSON],
        shape: None,
    };
    let info = ("version.Info", "io.k8s.apimachinery.pkg.version.Info");
    [
        Page {
            shape: Some(info),
            ..page("version", "version", "getCodeVersion")
        },
        Page {
            description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            ..page(
                ".well-known/openid-configuration",
                "WellKnown",
                "getServiceAccountIssuerOpenIDConfiguration",
            )
        },
        Page {
            description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            media: &["application/jwk-set+json"],
            ..page(
                "openid/v1/jwks",
                "openid",
                "getServiceAccountIssuerOpenIDKeyset",
            )
        },
    ]
}
