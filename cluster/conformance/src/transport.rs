//! HTTP: media types, headers, unknown paths and methods, and limits.

use http::Request;
use serde_json::{Value, json};

use super::promises;
use super::world::{APPLY, JSON, MERGE, Outcome, World, at, equal, holds};

promises! { "transport":
    answers_are_json_and_not_cached,
    bodies_can_be_yaml,
    bodies_can_be_protobuf,
    accept_headers_with_alternatives_get_an_answer,
    unknown_media_types_are_refused,
    bodies_have_a_limit,
    paths_of_unknown_groups_and_resources_are_not_found,
    unsupported_methods_are_refused,
    metadata_can_be_requested_alone,
    writes_can_answer_with_metadata,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

async fn answers_are_json_and_not_cached(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let answers = [
        world.map("a", json!({}), json!({})).await.map(|_| None)?,
        Some(world.get(&maps).await?),
        Some(world.get(&format!("{maps}/none")).await?),
        Some(
            world
                .get(&format!("{maps}?watch=1&timeoutSeconds=1"))
                .await?,
        ),
    ];
    for answer in answers.iter().flatten() {
        equal(
            "content-type",
            &json!(answer.header("content-type")),
            &json!(JSON),
        )?;
        equal(
            "cache-control",
            &json!(answer.header("cache-control")),
            &json!("no-cache, private"),
        )?;
        holds("audit-id is set", !answer.header("audit-id").is_empty())?;
    }
    Ok(())
}

async fn bodies_can_be_yaml(world: &World) -> Outcome {
    let request =
        Request::post(world.core("configmaps")).header("content-type", "application/yaml");
    let answer = world
        .send(request, b"metadata: {name: a}\ndata: {k: v}\n".to_vec())
        .await?;
    at(answer.created()?, "/data/k", json!("v"))?;
    let yaml = world
        .get_as(&world.core("configmaps/a"), "application/yaml")
        .await?;
    equal(
        "content-type",
        &json!(yaml.header("content-type")),
        &json!("application/yaml"),
    )?;
    holds("the answer is YAML", yaml.text.contains("k: v"))
}

/// A length-delimited field of a protobuf message.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("fields here are short");
    [&[number << 3 | 2, length], value].concat()
}

async fn bodies_can_be_protobuf(world: &World) -> Outcome {
    let entry = [field(1, b"k"), field(2, b"v")].concat();
    let map = [field(1, &field(1, b"a")), field(2, &entry)].concat();
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let body = [b"k8s\0".to_vec(), field(1, &kind), field(2, &map)].concat();
    let request = Request::post(world.core("configmaps"))
        .header("content-type", PROTOBUF)
        .header("accept", JSON);
    let made = world.send(request, body).await?;
    at(made.created()?, "/metadata/name", json!("a"))?;
    at(&made.body, "/data", json!({"k": "v"}))
}

async fn accept_headers_with_alternatives_get_an_answer(world: &World) -> Outcome {
    let answer = world
        .get_as(&world.core("configmaps"), &format!("{PROTOBUF},{JSON}"))
        .await?;
    holds(
        "the answer has one of both types",
        answer.code == 200 && [PROTOBUF, JSON].contains(&answer.header("content-type")),
    )?;
    for accept in [
        "*/*",
        "text/html, */*;q=0.9",
        "application/*, application/json;q=0.9",
        "application/json;charset=utf-8",
    ] {
        world
            .get_as(&world.core("configmaps"), accept)
            .await?
            .has("/kind", json!("ConfigMapList"))?;
    }
    Ok(())
}

async fn unknown_media_types_are_refused(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    for accept in ["text/csv", "text/html, application/*;q=0.9"] {
        let answer = world.get_as(&maps, accept).await?;
        holds("an unsupported media type answers 406", answer.code == 406)?;
    }
    let accepted = "the body of the request was in an unknown format - accepted media types include: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf";
    for (method, path) in [("POST", maps.clone()), ("PUT", format!("{maps}/a"))] {
        world
            .ask(method, &path, "text/plain", &json!({}))
            .await?
            .refuses(415, "UnsupportedMediaType", accepted)?;
    }
    Ok(())
}

async fn bodies_have_a_limit(world: &World) -> Outcome {
    let large = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(3 << 20)}});
    let why = "Request entity too large: limit is 3145728";
    world
        .post(&world.core("configmaps"), &large)
        .await?
        .refuses(413, "RequestEntityTooLarge", why)
}

async fn paths_of_unknown_groups_and_resources_are_not_found(world: &World) -> Outcome {
    let page = world.get("/apis/nobody.example.com/v1/things").await?;
    holds(
        "an unknown group answers 404 as plain text",
        page.code == 404 && page.text.trim() == "404 page not found",
    )?;
    let unknown = "the server could not find the requested resource";
    for path in [&world.core("gadgets"), "/apis/apps/v9/deployments"] {
        let refused = world.get(path).await?;
        refused.refuses(404, "NotFound", unknown)?;
        refused.has("/details", json!({}))?;
    }
    Ok(())
}

async fn unsupported_methods_are_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let maps = world.core("configmaps");
    let map = world.core("configmaps/a");
    for (method, path) in [
        ("PUT", &maps),
        ("PATCH", &maps),
        ("POST", &map),
        ("DELETE", &"/api/v1/namespaces".to_owned()),
    ] {
        let refused = world.ask(method, path, JSON, &json!({})).await?;
        refused.refuses(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )?;
        refused.has("/details", json!({}))?;
    }
    holds(
        "HEAD answers 405",
        world.ask("HEAD", &map, JSON, &Value::Null).await?.code == 405,
    )
}

async fn metadata_can_be_requested_alone(world: &World) -> Outcome {
    world
        .map("a", json!({"labels": {"x": "y"}}), json!({"k": "v"}))
        .await?;
    let one = world.get_as(&world.core("configmaps/a"), METADATA).await?;
    one.has("/kind", json!("PartialObjectMetadata"))?;
    one.has("/apiVersion", json!("meta.k8s.io/v1"))?;
    one.has("/metadata/labels", json!({"x": "y"}))?;
    one.has("/data", json!(null))?;
    let list = METADATA.replace("Metadata;", "MetadataList;");
    let list = world
        .get_as(&world.core("configmaps?labelSelector=x=y"), &list)
        .await?;
    list.has("/kind", json!("PartialObjectMetadataList"))?;
    list.has("/items/0/kind", json!("PartialObjectMetadata"))?;
    list.has("/items/0/apiVersion", json!("meta.k8s.io/v1"))?;
    let watch = world.core("configmaps?watch=1&timeoutSeconds=1&labelSelector=x=y");
    let frames = world.get_as(&watch, METADATA).await?.frames()?;
    at(
        &json!(frames),
        "/0/object/kind",
        json!("PartialObjectMetadata"),
    )
}

async fn writes_can_answer_with_metadata(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let steps = [
        ("POST", maps.clone(), JSON),
        ("PUT", format!("{maps}/a"), JSON),
        ("PATCH", format!("{maps}/a"), MERGE),
        (
            "PATCH",
            format!("{maps}/a?fieldManager=m&force=true"),
            APPLY,
        ),
    ];
    for (method, path, content_type) in steps {
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", content_type);
        let answer = world
            .send(
                request.header("accept", METADATA),
                map.to_string().into_bytes(),
            )
            .await?;
        answer.has("/kind", json!("PartialObjectMetadata"))?;
        answer.has("/metadata/name", json!("a"))?;
        answer.has("/data", json!(null))?;
    }
    Ok(())
}
