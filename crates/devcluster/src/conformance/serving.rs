//! Doors, media types, discovery.

use http::Request;
use serde_json::json;

use super::{Outcome, World, at, equal, holds, promises};

promises! { "serving":
    bodies_may_be_yaml,
    media_types_there_are_not_are_refused,
    paths_there_are_not_are_told_apart,
    metadata_can_be_asked_for_alone,
    tables_have_columns_and_cells,
    discovery_tells_every_resource,
    discovery_is_aggregated_and_not_sent_twice,
    openapi_tells_who_validates,
    health_and_version_are_told,
}

async fn bodies_may_be_yaml(world: &World) -> Outcome {
    let request = Request::post(world.core("configmaps")).header("content-type", "application/yaml");
    let answer = world.send(request, b"metadata: {name: a}\ndata: {k: v}\n".to_vec()).await?;
    at(answer.created()?, "/data/k", json!("v"))?;
    let yaml = world.get_as(&world.core("configmaps/a"), "application/yaml").await?;
    holds(
        "YAML is answered where it is asked for",
        yaml.headers["content-type"] == "application/yaml" && yaml.text.contains("k: v"),
    )
}

async fn media_types_there_are_not_are_refused(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let said = world.get_as(&maps, "text/csv").await?;
    holds("what cannot be answered is 406", said.code == 406)?;
    let accepted = "the body of the request was in an unknown format - accepted media types include: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf";
    world.ask("POST", &maps, "text/plain", &json!({})).await?.refuses(415, "UnsupportedMediaType", accepted)
}

async fn paths_there_are_not_are_told_apart(world: &World) -> Outcome {
    let page = world.get("/apis/nobody.example.com/v1/things").await?;
    holds("an unknown group is no Status", page.code == 404 && page.text.trim() == "404 page not found")?;
    let unknown = "the server could not find the requested resource";
    world.get(&world.core("gadgets")).await?.refuses(404, "NotFound", unknown)?;
    world.get("/apis/apps/v9/deployments").await?.refuses(404, "NotFound", unknown)
}

async fn metadata_can_be_asked_for_alone(world: &World) -> Outcome {
    world.map("a", json!({"labels": {"x": "y"}}), json!({"k": "v"})).await?;
    let accept = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    let one = world.get_as(&world.core("configmaps/a"), &accept("PartialObjectMetadata")).await?;
    one.has("/kind", json!("PartialObjectMetadata"))?;
    one.has("/metadata/labels", json!({"x": "y"}))?;
    one.has("/data", json!(null))?;
    let list = world.get_as(&world.core("configmaps?labelSelector=x=y"), &accept("PartialObjectMetadataList")).await?;
    list.has("/items/0/kind", json!("PartialObjectMetadata"))
}

async fn tables_have_columns_and_cells(world: &World) -> Outcome {
    world.map("a", json!({"labels": {"x": "y"}}), json!({"k": "v"})).await?;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = world.get_as(&world.core("configmaps?labelSelector=x=y"), accept).await?;
    table.has("/kind", json!("Table"))?;
    let names: Vec<_> = table.body["columnDefinitions"].as_array().into_iter().flatten().map(|column| &column["name"]).collect();
    equal("columns", &json!(names), &json!(["Name", "Data", "Age"]))?;
    equal("cells", &json!(&table.body["rows"][0]["cells"].as_array().map(|cells| &cells[..2])), &json!(["a", 1]))?;
    table.has("/rows/0/object/kind", json!("PartialObjectMetadata"))
}

async fn discovery_tells_every_resource(world: &World) -> Outcome {
    let list = world.get("/apis/apps/v1").await?;
    let resources = list.ok()?["resources"].as_array().cloned().unwrap_or_default();
    let find = |name: &str| resources.iter().find(|resource| resource["name"] == name).cloned().unwrap_or_default();
    let deployments = find("deployments");
    at(&deployments, "/kind", json!("Deployment"))?;
    at(&deployments, "/namespaced", json!(true))?;
    at(&deployments, "/shortNames", json!(["deploy"]))?;
    let verbs = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    at(&deployments, "/verbs", verbs)?;
    at(&find("deployments/scale"), "/group", json!("autoscaling"))
}

async fn discovery_is_aggregated_and_not_sent_twice(world: &World) -> Outcome {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let whole = world.get_as("/apis", accept).await?;
    whole.has("/kind", json!("APIGroupDiscoveryList"))?;
    let groups = whole.body["items"].as_array().cloned().unwrap_or_default();
    let apps = groups.iter().find(|group| group["metadata"]["name"] == "apps").cloned().unwrap_or_default();
    at(&apps, "/versions/0/version", json!("v1"))?;
    at(&apps, "/versions/0/freshness", json!("Current"))?;
    holds("the answer has a tag", whole.headers.contains_key("etag"))?;
    let request = Request::get("/apis").header("accept", accept).header("if-none-match", &whole.headers["etag"]);
    holds("what did not change is not sent again", world.send(request, Vec::new()).await?.code == 304)
}

async fn openapi_tells_who_validates(world: &World) -> Outcome {
    let index = world.get("/openapi/v3").await?;
    let path = index.ok()?["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
    let document = world.get(&path).await?;
    let object = "/paths/~1apis~1apps~1v1~1namespaces~1{namespace}~1deployments~1{name}/patch";
    let patch = document.ok()?.pointer(object).cloned().unwrap_or_default();
    at(&patch, "/x-kubernetes-group-version-kind", json!({"group": "apps", "version": "v1", "kind": "Deployment"}))?;
    let has = patch["parameters"].as_array().into_iter().flatten().any(|parameter| parameter["name"] == "fieldValidation");
    holds("patches are validated by the server", has)
}

async fn health_and_version_are_told(world: &World) -> Outcome {
    for path in ["/healthz", "/livez", "/readyz"] {
        equal(path, &json!(world.get(path).await?.text), &json!("ok"))?;
    }
    world.get("/version").await?.has("/major", json!("1"))
}
