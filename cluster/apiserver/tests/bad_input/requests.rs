//! Unknown paths, methods, media types, parameters and fields, and invalid names.

use serde_json::{Value, json};

use super::cases::{
    APPLY, Case, DEPLOYMENT, JSON, JSON_PATCH, MAP, MAPS, MERGE, POD, STRATEGIC, WIDGETS, case,
    cluster, refused,
};
use crate::support::{ask, both_doors};

#[tokio::test]
async fn unknown_media_types_methods_and_paths() {
    let cluster = cluster().await;
    let unsupported = (415, "UnsupportedMediaType");
    let cases = [
        case("a text", ("POST", MAPS), "text/plain", "{}").is(
            unsupported.0,
            unsupported.1,
            "accepted media types include: application/json",
        ),
        case("a patch as an object", ("POST", MAPS), MERGE, "{}").is(
            unsupported.0,
            unsupported.1,
            "",
        ),
        case("an object as a patch", ("PATCH", MAP), JSON, "{}").is(
            unsupported.0,
            unsupported.1,
            "",
        ),
        case("no media type for a patch", ("PATCH", MAP), "", "{}").is(
            unsupported.0,
            unsupported.1,
            "",
        ),
        case(
            "a strategic patch of a custom resource",
            ("PATCH", &format!("{WIDGETS}/a")),
            STRATEGIC,
            "{}",
        )
        .is(unsupported.0, unsupported.1, ""),
        case("a PUT to a collection", ("PUT", MAPS), JSON, "{}").is(405, "MethodNotAllowed", ""),
        case("a POST to an object", ("POST", MAP), JSON, "{}").is(405, "MethodNotAllowed", ""),
        case("a patch of a collection", ("PATCH", MAPS), MERGE, "{}").is(
            405,
            "MethodNotAllowed",
            "",
        ),
        case("another method", ("TRACE", MAP), "", "").is(405, "MethodNotAllowed", ""),
        case("an unknown method", ("BREW", MAP), "", "").is(405, "MethodNotAllowed", ""),
        case(
            "a deletion of all namespaces",
            ("DELETE", "/api/v1/namespaces"),
            "",
            "",
        )
        .is(405, "MethodNotAllowed", ""),
        case(
            "an unknown resource",
            ("GET", "/api/v1/namespaces/default/gadgets"),
            "",
            "",
        )
        .is(404, "NotFound", ""),
        case(
            "an unknown version",
            ("GET", "/apis/apps/v9/deployments"),
            "",
            "",
        )
        .is(404, "NotFound", ""),
        case(
            "an unknown group",
            ("GET", "/apis/nobody.dev/v1/things"),
            "",
            "",
        )
        .is(404, "", ""),
        case(
            "an unknown subresource",
            ("GET", &format!("{POD}/soul")),
            "",
            "",
        )
        .is(404, "NotFound", ""),
        case(
            "a name with an invalid escape",
            ("GET", &format!("{MAPS}/%zz")),
            "",
            "",
        )
        .is(400, "BadRequest", ""),
        case(
            "a name with a zero",
            ("GET", &format!("{MAPS}/a%00b")),
            "",
            "",
        )
        .is(404, "NotFound", ""),
        case(
            "a name that is not UTF-8",
            ("GET", &format!("{MAPS}/%ff%fe")),
            "",
            "",
        )
        .is(404, "NotFound", ""),
        case(
            "a missing namespace",
            ("POST", "/api/v1/namespaces/nowhere/configmaps"),
            JSON,
            "{\"metadata\":{\"name\":\"x\"}}",
        )
        .is(404, "NotFound", "namespaces \"nowhere\" not found"),
    ];
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn invalid_parameters() {
    let cluster = cluster().await;
    // (query, code, reason, part of the message)
    let lists = [
        (
            "labelSelector=a=b=c",
            400,
            "BadRequest",
            "found '=', expected: ',' or 'end of string'",
        ),
        (
            "labelSelector=,,",
            400,
            "BadRequest",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        (
            "labelSelector=a%20in%20(",
            400,
            "BadRequest",
            "unable to parse requirement",
        ),
        (
            "labelSelector=%ff%fe",
            400,
            "BadRequest",
            "unable to parse requirement",
        ),
        (
            "fieldSelector=spec.foo=x",
            400,
            "BadRequest",
            "is not a known field selector",
        ),
        ("fieldSelector=metadata.name%3Ex", 400, "BadRequest", ""),
        (
            "resourceVersion=abc",
            400,
            "BadRequest",
            "invalid resource version",
        ),
        (
            "resourceVersion=-1",
            400,
            "BadRequest",
            "invalid resource version",
        ),
        (
            "resourceVersionMatch=Exact",
            422,
            "Invalid",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "Invalid",
            "",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Roughly",
            422,
            "Invalid",
            "",
        ),
        (
            "sendInitialEvents=true",
            422,
            "Invalid",
            "sendInitialEvents is forbidden for list",
        ),
        ("continue=%%%", 400, "BadRequest", "invalid continue token"),
        ("continue=e30", 400, "BadRequest", "invalid continue token"),
        ("limit=many", 400, "BadRequest", ""),
        ("timeoutSeconds=soon", 400, "BadRequest", ""),
        ("watch=1&sendInitialEvents=true", 422, "Invalid", ""),
    ];
    let mut cases: Vec<Case> = lists
        .into_iter()
        .map(|(query, code, reason, says)| {
            case(query, ("GET", &format!("{MAPS}?{query}")), "", "").is(code, reason, says)
        })
        .collect();
    let map = "{\"metadata\":{\"name\":\"x\"}}";
    cases.extend([
        case(
            "a partial dry run",
            ("POST", &format!("{MAPS}?dryRun=Some")),
            JSON,
            map,
        )
        .is(422, "Invalid", "dryRun"),
        case(
            "a field manager with a control character",
            ("POST", &format!("{MAPS}?fieldManager=a%07")),
            JSON,
            map,
        )
        .is(422, "Invalid", "fieldManager"),
        case(
            "a long field manager",
            ("POST", &format!("{MAPS}?fieldManager={}", "x".repeat(200))),
            JSON,
            map,
        )
        .is(422, "Invalid", "fieldManager"),
        case(
            "a forced merge patch",
            ("PATCH", &format!("{MAP}?force=true")),
            MERGE,
            "{}",
        )
        .is(422, "Invalid", "may not be specified for non-apply patch"),
        case(
            "an apply without a field manager",
            ("PATCH", &format!("{MAPS}/x")),
            APPLY,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}",
        )
        .is(422, "Invalid", "is required for apply patch"),
        case(
            "unknown validation",
            ("POST", &format!("{MAPS}?fieldValidation=Maybe")),
            JSON,
            map,
        )
        .is(422, "Invalid", "Unsupported value: \"Maybe\""),
    ]);
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn invalid_names() {
    let cluster = cluster().await;
    let subdomain = "a lowercase RFC 1123 subdomain must consist of";
    let label = "a lowercase RFC 1123 label must consist of";
    let long = "x".repeat(254);
    // (collection, name, part of the message)
    let names: Vec<(&str, &str, &str)> = vec![
        (MAPS, "Upper", subdomain),
        (MAPS, "under_score", subdomain),
        (MAPS, "-dash", subdomain),
        (MAPS, "dot.", subdomain),
        (MAPS, "a/b", subdomain),
        (MAPS, "ünïcode", subdomain),
        (MAPS, "a\u{0}b", subdomain),
        (MAPS, "a b", subdomain),
        (MAPS, "..", subdomain),
        (MAPS, &long, "must be no more than 253 characters"),
        ("/api/v1/namespaces", "a.b", "must not contain dots"),
        ("/api/v1/namespaces", "A", label),
    ];
    let mut cases: Vec<Case> = names
        .into_iter()
        .map(|(path, name, says)| {
            let body = json!({"metadata": {"name": name}}).to_string();
            case("a name", ("POST", path), JSON, body).is(422, "Invalid", says)
        })
        .collect();
    let metadata = |metadata: Value| json!({"metadata": metadata}).to_string();
    let annotation = "v".repeat(256 << 10);
    cases.extend([
        case("no name", ("POST", MAPS), JSON, metadata(json!({}))).is(422, "Invalid", "name or generateName is required"),
        case("a prefix", ("POST", MAPS), JSON, metadata(json!({"generateName": "Up_"}))).is(422, "Invalid", subdomain),
        case("a label's key", ("POST", MAPS), JSON, metadata(json!({"name": "x", "labels": {"a b": "c"}}))).is(
            422,
            "Invalid",
            "metadata.labels",
        ),
        case("a label's value", ("POST", MAPS), JSON, metadata(json!({"name": "x", "labels": {"a": "b c"}}))).is(
            422,
            "Invalid",
            "metadata.labels",
        ),
        case("an annotation's key", ("POST", MAPS), JSON, metadata(json!({"name": "x", "annotations": {"a/b/c": ""}}))).is(
            422,
            "Invalid",
            "metadata.annotations",
        ),
        case("too large annotations", ("POST", MAPS), JSON, metadata(json!({"name": "x", "annotations": {"a": annotation}})))
            .is(422, "Invalid", "Too long"),
        case("a finalizer", ("POST", MAPS), JSON, metadata(json!({"name": "x", "finalizers": ["a b"]}))).is(
            422,
            "Invalid",
            "metadata.finalizers",
        ),
        case(
            "an owner without kind",
            ("POST", MAPS),
            JSON,
            metadata(json!({"name": "x", "ownerReferences": [{"apiVersion": "v1", "name": "o", "uid": "u"}]})),
        )
        .is(422, "Invalid", "metadata.ownerReferences"),
        case("another namespace", ("POST", MAPS), JSON, metadata(json!({"name": "x", "namespace": "kube-system"}))).is(
            400,
            "BadRequest",
            "does not match the namespace sent on the request",
        ),
        case("a resource version of a new object", ("POST", MAPS), JSON, metadata(json!({"name": "x", "resourceVersion": "1"}))).is(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
        case("a key of data", ("POST", MAPS), JSON, "{\"metadata\":{\"name\":\"x\"},\"data\":{\"a b\":\"\"}}").is(
            422,
            "Invalid",
            "data[a b]",
        ),
        case("another name in the body", ("PUT", MAP), JSON, metadata(json!({"name": "b"}))).is(
            400,
            "BadRequest",
            "does not match the name on the URL",
        ),
        case("no name in the body", ("PUT", MAP), JSON, "{}").is(400, "BadRequest", "name must be provided"),
    ]);
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn unknown_fields() {
    let cluster = cluster().await;
    let body =
        "{\"metadata\":{\"name\":\"x\",\"bogus\":1},\"dat\":{},\"data\":{\"a\":\"1\",\"a\":\"2\"}}";
    let strict = |path: &str| format!("{path}?fieldValidation=Strict&fieldManager=m");
    let cases = [
        case("strict creation", ("POST", &strict(MAPS)), JSON, body).is(
            400,
            "BadRequest",
            "strict decoding error: unknown field \"metadata.bogus\", unknown field \"dat\", duplicate field \"data.a\"",
        ),
        case("strict update", ("PUT", &strict(MAP)), JSON, "{\"metadata\":{\"name\":\"a\"},\"dat\":{}}").is(
            400,
            "BadRequest",
            "strict decoding error: unknown field \"dat\"",
        ),
        case("strict merge patch", ("PATCH", &strict(DEPLOYMENT)), MERGE, "{\"spec\":{\"bogus\":1}}").is(
            422,
            "Invalid",
            "strict decoding error: unknown field \"spec.bogus\"",
        ),
        case("strict strategic patch", ("PATCH", &strict(DEPLOYMENT)), STRATEGIC, "{\"spec\":{\"bogus\":1}}").is(
            422,
            "Invalid",
            "strict decoding error: unknown field \"spec.bogus\"",
        ),
        case(
            "strict JSON patch",
            ("PATCH", &strict(DEPLOYMENT)),
            JSON_PATCH,
            "[{\"op\":\"add\",\"path\":\"/spec/bogus\",\"value\":1}]",
        )
        .is(422, "Invalid", "strict decoding error: unknown field \"spec.bogus\""),
        case(
            "a duplicate field in a strict patch",
            ("PATCH", &strict(DEPLOYMENT)),
            MERGE,
            "{\"spec\":{\"replicas\":1,\"replicas\":2}}",
        )
        .is(422, "Invalid", "strict decoding error: duplicate field \"spec.replicas\""),
        case(
            "apply",
            ("PATCH", &strict(DEPLOYMENT)),
            APPLY,
            "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{\"bogus\":1}}",
        )
        .is(500, "", "failed to create typed patch object"),
    ];
    refused(&cluster, &cases).await;

    let (doors, _open) = both_doors(&cluster).await;
    for (index, (door, client)) in doors.iter().enumerate() {
        // (fieldValidation, warnings)
        let expected = [
            "unknown field \"metadata.bogus\"",
            "unknown field \"dat\"",
            "duplicate field \"data.a\"",
        ];
        for (mode, warnings) in [
            ("Warn", &expected[..]),
            ("", &expected[..]),
            ("Ignore", &[]),
        ] {
            let name = format!("x-{index}-{}", mode.to_lowercase())
                .trim_end_matches('-')
                .to_owned();
            let body = body.replace("\"x\"", &format!("\"{name}\""));
            let path = format!("{MAPS}?fieldValidation={mode}");
            let asked = ask(client, "POST", &path, JSON, body.as_bytes()).await;
            assert_eq!(
                (asked.code, &asked.body["data"], &asked.body["dat"]),
                (201, &json!({"a": "2"}), &Value::Null),
                "{door} {mode}"
            );
            assert_eq!(asked.warnings, warnings, "{door} {mode}");
        }
    }
}

#[tokio::test]
async fn a_dry_run_creates_an_object_with_a_resource_version() {
    let cluster = cluster().await;
    let path = format!("{MAPS}?dryRun=All");
    let body = json!({"metadata": {"name": "x", "resourceVersion": "1"}}).to_string();
    let asked = ask(&cluster.client(), "POST", &path, JSON, body.as_bytes()).await;
    assert_eq!(asked.code, 201, "{}", asked.body);
    assert_eq!(asked.body["metadata"]["resourceVersion"], "1");
}

#[tokio::test]
async fn the_number_of_field_errors_is_limited() {
    let cluster = cluster().await;
    let (doors, _open) = both_doors(&cluster).await;
    let fields: Vec<String> = (0..50_000).map(|i| format!("\"field-{i}\":0")).collect();
    let body = format!("{{\"metadata\":{{\"name\":\"x\"}},{}}}", fields.join(","));
    // Not through HTTP/1.1, because the Rust client accepts at most 100 headers there.
    let asked = ask(
        &cluster.client(),
        "POST",
        &format!("{MAPS}?dryRun=All"),
        JSON,
        body.as_bytes(),
    )
    .await;
    assert_eq!((asked.code, asked.warnings.len()), (201, 100));
    for (door, client) in &doors {
        let asked = ask(
            client,
            "POST",
            &format!("{MAPS}?fieldValidation=Strict"),
            JSON,
            body.as_bytes(),
        )
        .await;
        let message = asked.body["message"].as_str().unwrap();
        assert_eq!(
            (asked.code, message.matches("unknown field").count()),
            (400, 100),
            "{door}"
        );
    }
}

/// The folders of upstream's storage are in the errors.
#[tokio::test]
async fn namespaces_that_no_key_can_have() {
    let cluster = cluster().await;
    let at = |rest: &str| format!("/api/v1/namespaces/../{rest}");
    let name = json!({"metadata": {"name": "x"}}).to_string();
    // (method, path, body, key)
    let requests = [
        ("GET", at("configmaps"), "", "/configmaps/.."),
        ("GET", at("configmaps?watch=1"), "", "/configmaps/.."),
        (
            "GET",
            at("configmaps?fieldSelector=metadata.name=a"),
            "",
            "/configmaps/../a",
        ),
        ("GET", at("configmaps/x"), "", "/configmaps/../x"),
        ("GET", at("pods/x/log"), "", "/pods/../x"),
        ("GET", at("services/x"), "", "/services/specs/../x"),
        ("GET", at("endpoints/x"), "", "/services/endpoints/../x"),
        (
            "GET",
            at("replicationcontrollers/x/scale"),
            "",
            "/controllers/../x",
        ),
        ("DELETE", at("configmaps"), "", "/configmaps/.."),
        ("DELETE", at("configmaps/x"), "", "/configmaps/../x"),
        ("PATCH", at("configmaps/x"), "{}", "/configmaps/../x"),
        ("PUT", at("configmaps/x"), &*name, "/configmaps/../x"),
        (
            "GET",
            "/api/v1/namespaces/./configmaps/x".to_owned(),
            "",
            "/configmaps/./x",
        ),
        (
            "GET",
            "/api/v1/namespaces/%2e%2e/secrets/x".to_owned(),
            "",
            "/secrets/../x",
        ),
        (
            "GET",
            "/apis/networking.k8s.io/v1/namespaces/../ingresses".to_owned(),
            "",
            "/ingress/..",
        ),
        (
            "GET",
            WIDGETS.replace("default", "..") + "/x",
            "",
            "/test.dev/widgets/../x",
        ),
    ];
    let (doors, _open) = both_doors(&cluster).await;
    for (door, client) in &doors {
        for (method, path, body, key) in &requests {
            let content_type = if *method == "PATCH" { MERGE } else { JSON };
            let asked = ask(client, method, path, content_type, body.as_bytes()).await;
            let message = format!("invalid key: {key:?}");
            assert_eq!(
                (asked.code, asked.body["message"].as_str()),
                (500, Some(&*message)),
                "{door}: {method} {path}"
            );
        }
        let posted = ask(client, "POST", &at("configmaps"), JSON, name.as_bytes()).await;
        assert_eq!(
            posted.body["message"],
            "Internal error occurred: invalid resource name \"..\": [may not be '..']",
            "{door}"
        );
    }
}
