//! Documents of OpenAPI with the parts of a program.

use super::program::LIST_METADATA;
use super::*;

#[tokio::test]
async fn documents_have_the_paths_and_types_of_the_program() {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = aggregating(&listener, &certificate).await;
    let alone = ask(&cluster, "GET", "/openapi/v2", &[], "").await;
    let tag = alone.headers()["etag"].clone();
    let (_, alone) = read(alone).await;
    let alone: Value = serde_json::from_str(&alone).unwrap();
    let _program = Program::start(listener, certificate.acceptor());
    condition(&cluster, "Passed").await;

    let known = [("if-none-match", tag.to_str().unwrap())];
    let (code, whole) = read(ask(&cluster, "GET", "/openapi/v2", &known, "").await).await;
    assert_eq!(code, 200);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let things = "/apis/things.example.com/v1/namespaces/{namespace}/things";
    let schema = &whole["paths"][things]["get"]["responses"]["200"]["schema"]["$ref"];
    assert_eq!(schema, "#/definitions/com.example.ThingList");
    let definitions = &whole["definitions"];
    let list = &definitions["com.example.ThingList"]["properties"]["metadata"]["$ref"];
    let renamed = format!("{LIST_METADATA}_v2");
    assert_eq!(list, &json!(format!("#/definitions/{renamed}")));
    let color = json!({"type": "object", "properties": {"color": {"type": "string"}}});
    assert_eq!(definitions[&renamed], color);
    assert_eq!(
        definitions[LIST_METADATA],
        alone["definitions"][LIST_METADATA]
    );
    // `/version/` is a path of the server, and the program's type for it has no use.
    assert_eq!(whole["paths"]["/version/"], alone["paths"]["/version/"]);
    assert_eq!(definitions["Own"], Value::Null);

    let (_, index) = get(&cluster, "/openapi/v3").await;
    let index: Value = serde_json::from_str(&index).unwrap();
    let url = index["paths"]["apis/things.example.com/v1"]["serverRelativeURL"].as_str();
    assert_eq!(url, Some(&*format!("{DOCUMENT}?hash=1")));
    let document = (200, json!({"openapi": "3.0.0", "paths": {}}).to_string());
    assert_eq!(get(&cluster, DOCUMENT).await, document);

    delete(&cluster).await;
    let (_, after) = get(&cluster, "/openapi/v2").await;
    assert_eq!(serde_json::from_str::<Value>(&after).unwrap(), alone);
}

#[tokio::test]
async fn a_document_of_version_2_is_converted_for_version_3() {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = aggregating(&listener, &certificate).await;
    let _program = Program::without("/openapi/v3", listener, certificate.acceptor());
    condition(&cluster, "Passed").await;

    let (_, index) = get(&cluster, "/openapi/v3").await;
    let index: Value = serde_json::from_str(&index).unwrap();
    let url = index["paths"]["apis/things.example.com/v1"]["serverRelativeURL"].as_str();
    let url = url.unwrap();
    assert!(url.starts_with(&format!("{DOCUMENT}?hash=")), "{url}");
    let (code, document) = get(&cluster, url).await;
    assert_eq!(code, 200);
    let document: Value = serde_json::from_str(&document).unwrap();
    let list = &document["components"]["schemas"]["com.example.ThingList"];
    let metadata = format!("#/components/schemas/{LIST_METADATA}");
    assert_eq!(list["properties"]["metadata"]["$ref"], metadata);
}
