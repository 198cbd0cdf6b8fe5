//! Discovery documents, OpenAPI, version and health.

use http::Request;
use serde_json::{Value, json};

use super::promises;
use super::world::{Outcome, World, at, equal, holds, text};

promises! { "discovery":
    discovery_lists_groups_and_versions,
    discovery_lists_resources,
    discovery_shows_groups_of_subresources,
    aggregated_discovery_has_etags,
    aggregated_discovery_shows_subresources_and_scopes,
    openapi_declares_field_validation,
    openapi_describes_fields,
    openapi_is_served_as_version_2,
    the_version_endpoint_answers,
    health_endpoints_answer,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The first element of a list with this value at the pointer.
fn find(list: &Value, field: &str, value: &str) -> Value {
    list.as_array()
        .into_iter()
        .flatten()
        .find(|one| text(one, field) == value)
        .cloned()
        .unwrap_or_default()
}

async fn discovery_lists_groups_and_versions(world: &World) -> Outcome {
    let core = world.get("/api").await?;
    core.has("/kind", json!("APIVersions"))?;
    core.has("/versions", json!(["v1"]))?;
    holds(
        "server addresses are listed",
        core.body["serverAddressByClientCIDRs"].is_array(),
    )?;
    let groups = world.get("/apis").await?;
    groups.has("/kind", json!("APIGroupList"))?;
    let apps = find(&groups.body["groups"], "/name", "apps");
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    at(&apps, "/versions/0", version.clone())?;
    at(&apps, "/preferredVersion", version.clone())?;
    let group = world.get("/apis/apps").await?;
    group.has("/kind", json!("APIGroup"))?;
    group.has("/name", json!("apps"))?;
    group.has("/preferredVersion", version)
}

async fn discovery_lists_resources(world: &World) -> Outcome {
    let list = world.get("/apis/apps/v1").await?;
    list.has("/kind", json!("APIResourceList"))?;
    list.has("/groupVersion", json!("apps/v1"))?;
    let deployments = find(&list.body["resources"], "/name", "deployments");
    at(&deployments, "/kind", json!("Deployment"))?;
    at(&deployments, "/singularName", json!("deployment"))?;
    at(&deployments, "/namespaced", json!(true))?;
    at(&deployments, "/shortNames", json!(["deploy"]))?;
    at(&deployments, "/categories", json!(["all"]))?;
    let verbs = json!([
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch"
    ]);
    at(&deployments, "/verbs", verbs)?;
    holds(
        "storageVersionHash is set",
        !text(&deployments, "/storageVersionHash").is_empty(),
    )?;
    let core = world.get("/api/v1").await?;
    at(
        &find(&core.ok()?["resources"], "/name", "nodes"),
        "/namespaced",
        json!(false),
    )?;
    let namespaces = find(&core.body["resources"], "/name", "namespaces");
    at(
        &namespaces,
        "/verbs",
        json!([
            "create", "delete", "get", "list", "patch", "update", "watch"
        ]),
    )
}

async fn discovery_shows_groups_of_subresources(world: &World) -> Outcome {
    let apps = world.get("/apis/apps/v1").await?;
    let scale = find(&apps.ok()?["resources"], "/name", "deployments/scale");
    at(&scale, "/group", json!("autoscaling"))?;
    at(&scale, "/kind", json!("Scale"))?;
    at(
        &find(&apps.body["resources"], "/name", "deployments/status"),
        "/verbs",
        json!(["get", "patch", "update"]),
    )?;
    let core = world.get("/api/v1").await?;
    let eviction = find(&core.ok()?["resources"], "/name", "pods/eviction");
    equal(
        "eviction",
        &json!([eviction["group"], eviction["version"]]),
        &json!(["policy", "v1"]),
    )
}

async fn aggregated_discovery_has_etags(world: &World) -> Outcome {
    for path in ["/api", "/apis"] {
        let whole = world.get_as(path, AGGREGATED).await?;
        whole.has("/kind", json!("APIGroupDiscoveryList"))?;
        whole.has("/apiVersion", json!("apidiscovery.k8s.io/v2"))?;
        equal(
            "content-type",
            &json!(whole.header("content-type")),
            &json!(AGGREGATED),
        )?;
        holds(
            "cache-control is public",
            whole.header("cache-control").contains("public"),
        )?;
        holds("vary names Accept", whole.header("vary").contains("Accept"))?;
        let request = Request::get(path)
            .header("accept", AGGREGATED)
            .header("if-none-match", whole.header("etag"));
        holds(
            "an unchanged document answers 304",
            world.send(request, Vec::new()).await?.code == 304,
        )?;
    }
    Ok(())
}

async fn aggregated_discovery_shows_subresources_and_scopes(world: &World) -> Outcome {
    let whole = world.get_as("/apis", AGGREGATED).await?;
    let apps = find(&whole.ok()?["items"], "/metadata/name", "apps");
    at(&apps, "/versions/0/version", json!("v1"))?;
    at(&apps, "/versions/0/freshness", json!("Current"))?;
    let deployments = find(
        &apps["versions"][0]["resources"],
        "/resource",
        "deployments",
    );
    at(&deployments, "/scope", json!("Namespaced"))?;
    at(&deployments, "/singularResource", json!("deployment"))?;
    at(&deployments, "/responseKind/kind", json!("Deployment"))?;
    let scale = find(&deployments["subresources"], "/subresource", "scale");
    at(
        &scale,
        "/responseKind",
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
    )?;
    let core = world.get_as("/api", AGGREGATED).await?;
    let group = &core.ok()?["items"][0];
    holds(
        "the core group has no name",
        text(group, "/metadata/name").is_empty(),
    )?;
    at(
        &find(&group["versions"][0]["resources"], "/resource", "nodes"),
        "/scope",
        json!("Cluster"),
    )
}

/// The OpenAPI document of a group version.
async fn document(world: &World, group_version: &str) -> Result<Value, super::Broken> {
    let index = world.get("/openapi/v3").await?;
    let path = text(&index.ok()?["paths"][group_version], "/serverRelativeURL").to_owned();
    holds(
        "the document has a hash in its path",
        path.contains("?hash="),
    )?;
    world.get(&path).await?.ok().cloned()
}

async fn openapi_declares_field_validation(world: &World) -> Outcome {
    let cases = [
        (
            "api/v1",
            "/api/v1/namespaces/{namespace}/configmaps/{name}",
            json!({"group": "", "version": "v1", "kind": "ConfigMap"}),
        ),
        (
            "apis/apps/v1",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
            json!({"group": "apps", "version": "v1", "kind": "Deployment"}),
        ),
    ];
    for (group_version, path, kind) in cases {
        let patch = document(world, group_version).await?["paths"][path]["patch"].clone();
        at(&patch, "/x-kubernetes-group-version-kind", kind)?;
        let parameter = find(&patch["parameters"], "/name", "fieldValidation");
        at(&parameter, "/in", json!("query"))?;
    }
    Ok(())
}

async fn openapi_describes_fields(world: &World) -> Outcome {
    let document = document(world, "apis/apps/v1").await?;
    let spec = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
    let replicas = &spec["properties"]["replicas"];
    at(replicas, "/type", json!("integer"))?;
    holds(
        "the field has a description",
        text(replicas, "/description").contains("pods"),
    )?;
    let required = spec["required"].as_array().cloned().unwrap_or_default();
    holds(
        "required fields are listed",
        required.contains(&json!("selector")) && required.contains(&json!("template")),
    )
}

async fn openapi_is_served_as_version_2(world: &World) -> Outcome {
    let older = world.get("/openapi/v2").await?;
    older.has("/swagger", json!("2.0"))?;
    let definitions = &older.body["definitions"];
    let kinds = &definitions["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"];
    equal(
        "kinds",
        kinds,
        &json!([{"group": "apps", "kind": "Deployment", "version": "v1"}]),
    )?;
    let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    at(containers, "/x-kubernetes-patch-merge-key", json!("name"))?;
    at(
        containers,
        "/items/$ref",
        json!("#/definitions/io.k8s.api.core.v1.Container"),
    )?;
    let patch =
        &older.body["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    at(
        &find(&patch["parameters"], "/name", "dryRun"),
        "/in",
        json!("query"),
    )?;
    // client-go requests this media type.
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let message = world.get_as("/openapi/v2", accept).await?;
    let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    equal(
        "content-type",
        &json!(message.header("content-type")),
        &json!(kind),
    )
}

async fn the_version_endpoint_answers(world: &World) -> Outcome {
    let version = world.get("/version").await?;
    version.has("/major", json!("1"))?;
    for field in [
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ] {
        holds(
            &format!("{field} is a string"),
            version.body[field].is_string(),
        )?;
    }
    holds(
        "gitVersion starts with v1.",
        text(&version.body, "/gitVersion").starts_with("v1."),
    )
}

async fn health_endpoints_answer(world: &World) -> Outcome {
    for path in ["/healthz", "/livez", "/readyz"] {
        equal(path, &json!(world.get(path).await?.text), &json!("ok"))?;
        let verbose = world.get(&format!("{path}?verbose")).await?;
        holds(
            "verbose output lists the checks",
            verbose.code == 200 && verbose.text.contains("[+]ping ok"),
        )?;
        let verdict = format!("{} check passed", path.trim_start_matches('/'));
        holds(
            "the last line names the endpoint",
            verbose.text.trim_end().ends_with(&verdict),
        )?;
    }
    Ok(())
}
