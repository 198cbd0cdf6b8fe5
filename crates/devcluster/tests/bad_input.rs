//! What no well-behaved client sends: each request gets upstream's answer, or its connection closed, and changes nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use support::{Asked, ask, both_doors, clock};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const PODS: &str = "/api/v1/namespaces/default/pods";
const POD: &str = "/api/v1/namespaces/default/pods/a";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";
const WIDGETS: &str = "/apis/test.dev/v1/namespaces/default/widgets";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn pod() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn deployment() -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

/// A cluster with one object called `a` of each kind that the cases are about.
async fn cluster() -> DevCluster {
    let cluster = DevCluster::with_managed_fields(clock());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.test.dev"},
        "spec": {
            "group": "test.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    cluster.create(definition).await.unwrap();
    let of = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "default"}});
        for (key, value) in rest.as_object().unwrap() {
            if key != "metadata" {
                object[key] = value.clone();
            }
        }
        object
    };
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let objects = [
        of("v1", "ConfigMap", json!({"data": {"k": "v"}, "immutable": true})),
        of("v1", "Pod", pod()),
        of("apps/v1", "Deployment", deployment()),
        of("batch/v1", "Job", json!({"spec": {"template": template}})),
        of("v1", "Service", json!({"spec": {"ports": [{"port": 80}]}})),
        of("v1", "Secret", json!({"type": "Opaque"})),
        of("v1", "PersistentVolumeClaim", json!({"spec": claim})),
        of("test.dev/v1", "Widget", json!({"spec": {}})),
    ];
    for object in objects {
        cluster.create(object).await.unwrap();
    }
    cluster
}

/// One request that must change nothing, and what the answer says.
struct Case {
    why: &'static str,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    code: u16,
    reason: &'static str,
    /// Part of the message.
    says: &'static str,
}

fn case(why: &'static str, request: (&'static str, &str), content_type: &'static str, body: impl Into<Vec<u8>>) -> Case {
    let (method, path) = request;
    Case { why, method, path: path.to_owned(), content_type, body: body.into(), code: 0, reason: "", says: "" }
}

impl Case {
    fn is(mut self, code: u16, reason: &'static str, says: &'static str) -> Self {
        (self.code, self.reason, self.says) = (code, reason, says);
        self
    }
}

/// Sends every case through both doors.
async fn refused(cluster: &DevCluster, cases: &[Case]) {
    let (doors, _open) = both_doors(cluster).await;
    let mut wrong = Vec::new();
    for (door, client) in &doors {
        for case in cases {
            let before = cluster.revision();
            let Asked { code, body, .. } = ask(client, case.method, &case.path, case.content_type, &case.body).await;
            let (reason, message) = (body["reason"].as_str().unwrap_or(""), body["message"].as_str().unwrap_or(""));
            if (code, reason) != (case.code, case.reason) || !message.contains(case.says) {
                wrong.push(format!("{door}: {}: {code} {reason:?} {message}", case.why));
            }
            if cluster.revision() != before {
                wrong.push(format!("{door}: {}: something changed", case.why));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

#[tokio::test]
async fn bodies_that_are_no_objects() {
    let cluster = cluster().await;
    let create = ("POST", MAPS);
    let large = |bytes: usize| json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(bytes)}}).to_string();
    let deep = nested("[", "]", 100_000);
    let deep_labels =
        format!("{{\"metadata\":{{\"name\":\"d\",\"labels\":{}}}}}", nested("{\"a\":", "}", 20_000).replace(":}", ":1}"));
    let bad = (400, "BadRequest");
    let cases = [
        case("nothing", create, JSON, "").is(bad.0, bad.1, "unexpected end of JSON input"),
        case("cut off", create, JSON, "{\"kind\":\"ConfigMap\",").is(bad.0, bad.1, "unexpected end of JSON input"),
        case("no JSON", create, JSON, "kind: ConfigMap").is(bad.0, bad.1, "the object provided is unrecognized"),
        case("two values", create, JSON, "{}{}").is(bad.0, bad.1, "the object provided is unrecognized"),
        case("a list", create, JSON, "[]").is(bad.0, bad.1, ""),
        case("a text", create, JSON, "\"x\"").is(bad.0, bad.1, ""),
        case("wrong type of field", create, JSON, "{\"metadata\":{\"name\":\"x\"},\"data\":7}").is(
            bad.0,
            bad.1,
            "cannot be handled as a ConfigMap",
        ),
        case("wrong type of metadata", create, JSON, "{\"metadata\":[]}").is(bad.0, bad.1, "cannot be handled as a ConfigMap"),
        case("another kind", create, JSON, "{\"kind\":\"Secret\",\"apiVersion\":\"v1\"}").is(
            bad.0,
            bad.1,
            "cannot be handled as a ConfigMap",
        ),
        case("another version", create, JSON, "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v7\"}").is(bad.0, bad.1, ""),
        case("a custom resource without kind", ("POST", WIDGETS), JSON, "{\"metadata\":{\"name\":\"x\"}}").is(
            bad.0,
            bad.1,
            "Object 'Kind' is missing",
        ),
        case("bytes that are no text, outside of texts", create, JSON, b"{\xff}").is(bad.0, bad.1, ""),
        case("YAML that is no text", create, YAML, b"metadata: {name: \xff\xfe}").is(bad.0, bad.1, ""),
        case("YAML that is not well formed", create, YAML, "metadata: {name: [}").is(bad.0, bad.1, ""),
        case("YAML that grows", create, YAML, bomb()).is(bad.0, bad.1, ""),
        case("protobuf cut off", create, PROTOBUF, b"k8s\0\x0a\x10\x0a").is(bad.0, bad.1, ""),
        case("protobuf without the mark", create, PROTOBUF, b"\x0a\x02\x08\x01").is(bad.0, bad.1, ""),
        case("protobuf with a length of everything", create, PROTOBUF, b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
            .is(bad.0, bad.1, ""),
        case("deep JSON", create, JSON, deep.clone()).is(bad.0, bad.1, ""),
        case("deep JSON in a field", create, JSON, deep_labels.clone()).is(bad.0, bad.1, ""),
        case("deep YAML", create, YAML, deep.clone()).is(bad.0, bad.1, ""),
        case("deep JSON for a custom resource", ("POST", WIDGETS), JSON, deep_labels.clone()).is(bad.0, bad.1, ""),
        case("a deep merge patch", ("PATCH", MAP), MERGE, deep_labels.clone()).is(bad.0, bad.1, ""),
        case("a deep strategic patch", ("PATCH", DEPLOYMENT), STRATEGIC, deep_labels.clone()).is(bad.0, bad.1, ""),
        case("a deep JSON patch", ("PATCH", MAP), JSON_PATCH, deep.clone()).is(bad.0, bad.1, ""),
        case("deep options", ("DELETE", MAP), JSON, deep.clone()).is(bad.0, bad.1, ""),
        case("too large", create, JSON, large(3 << 20)).is(413, "RequestEntityTooLarge", "limit is 3145728"),
        case("far too large", create, JSON, large(9 << 20)).is(413, "RequestEntityTooLarge", "limit is 3145728"),
        case("a patch that is too large", ("PATCH", MAP), MERGE, large(3 << 20)).is(
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
        ),
        case("more data than a ConfigMap holds", create, JSON, large(2 << 20)).is(422, "Invalid", "Too long"),
    ];
    refused(&cluster, &cases).await;
}

/// Nine levels of aliases, each of nine of the level before: half a billion texts.
fn bomb() -> String {
    let mut yaml = "metadata: {name: bomb}\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (level, before) in ('b'..='i').zip('a'..) {
        let many = vec![format!("*{before}"); 9].join(", ");
        yaml.push_str(&format!("{level}: &{level} [{many}]\n"));
    }
    yaml
}

#[tokio::test]
async fn media_types_methods_and_paths_there_are_not() {
    let cluster = cluster().await;
    let unsupported = (415, "UnsupportedMediaType");
    let cases = [
        case("a text", ("POST", MAPS), "text/plain", "{}").is(
            unsupported.0,
            unsupported.1,
            "accepted media types include: application/json",
        ),
        case("a patch as an object", ("POST", MAPS), MERGE, "{}").is(unsupported.0, unsupported.1, ""),
        case("an object as a patch", ("PATCH", MAP), JSON, "{}").is(unsupported.0, unsupported.1, ""),
        case("no media type for a patch", ("PATCH", MAP), "", "{}").is(unsupported.0, unsupported.1, ""),
        case("a strategic patch of a custom resource", ("PATCH", &format!("{WIDGETS}/a")), STRATEGIC, "{}").is(
            unsupported.0,
            unsupported.1,
            "",
        ),
        case("an object that is written to a list", ("PUT", MAPS), JSON, "{}").is(405, "MethodNotAllowed", ""),
        case("a creation in an object", ("POST", MAP), JSON, "{}").is(405, "MethodNotAllowed", ""),
        case("a patch of all", ("PATCH", MAPS), MERGE, "{}").is(405, "MethodNotAllowed", ""),
        case("another method", ("TRACE", MAP), "", "").is(405, "MethodNotAllowed", ""),
        case("another method of one's own", ("BREW", MAP), "", "").is(405, "MethodNotAllowed", ""),
        case("the namespaces at once", ("DELETE", "/api/v1/namespaces"), "", "").is(405, "MethodNotAllowed", ""),
        case("an unknown resource", ("GET", "/api/v1/namespaces/default/gadgets"), "", "").is(404, "NotFound", ""),
        case("an unknown version", ("GET", "/apis/apps/v9/deployments"), "", "").is(404, "NotFound", ""),
        case("an unknown group", ("GET", "/apis/nobody.dev/v1/things"), "", "").is(404, "", ""),
        case("an unknown part", ("GET", &format!("{POD}/soul")), "", "").is(404, "NotFound", ""),
        case("a name in broken percent signs", ("GET", &format!("{MAPS}/%zz")), "", "").is(404, "NotFound", ""),
        case("a name with a zero", ("GET", &format!("{MAPS}/a%00b")), "", "").is(404, "NotFound", ""),
        case("a name that is no text", ("GET", &format!("{MAPS}/%ff%fe")), "", "").is(404, "NotFound", ""),
        case(
            "a namespace that is not there",
            ("POST", "/api/v1/namespaces/nowhere/configmaps"),
            JSON,
            "{\"metadata\":{\"name\":\"x\"}}",
        )
        .is(404, "NotFound", "namespaces \"nowhere\" not found"),
    ];
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn parameters_that_make_no_sense() {
    let cluster = cluster().await;
    // (query, code, reason, part of the message)
    let lists = [
        ("labelSelector=a=b=c", 400, "BadRequest", "found '=', expected: ',' or 'end of string'"),
        ("labelSelector=,,", 400, "BadRequest", "found ',', expected: !, identifier, or 'end of string'"),
        ("labelSelector=a%20in%20(", 400, "BadRequest", "unable to parse requirement"),
        ("fieldSelector=spec.foo=x", 400, "BadRequest", "is not a known field selector"),
        ("fieldSelector=metadata.name%3Ex", 400, "BadRequest", ""),
        ("resourceVersion=abc", 400, "BadRequest", "invalid resource version"),
        ("resourceVersion=-1", 400, "BadRequest", "invalid resource version"),
        ("resourceVersionMatch=Exact", 422, "Invalid", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid", ""),
        ("resourceVersion=1&resourceVersionMatch=Roughly", 422, "Invalid", ""),
        ("sendInitialEvents=true", 422, "Invalid", "sendInitialEvents is forbidden for list"),
        ("continue=%%%", 400, "BadRequest", "invalid continue token"),
        ("continue=e30", 400, "BadRequest", "invalid continue token"),
        ("limit=many", 400, "BadRequest", ""),
        ("timeoutSeconds=soon", 400, "BadRequest", ""),
        ("watch=1&sendInitialEvents=true", 422, "Invalid", ""),
    ];
    let mut cases: Vec<Case> = lists
        .into_iter()
        .map(|(query, code, reason, says)| case(query, ("GET", &format!("{MAPS}?{query}")), "", "").is(code, reason, says))
        .collect();
    let map = "{\"metadata\":{\"name\":\"x\"}}";
    cases.extend([
        case("a partial dry run", ("POST", &format!("{MAPS}?dryRun=Some")), JSON, map).is(422, "Invalid", "dryRun"),
        case("a field manager that cannot be printed", ("POST", &format!("{MAPS}?fieldManager=a%07")), JSON, map).is(
            422,
            "Invalid",
            "fieldManager",
        ),
        case("a long field manager", ("POST", &format!("{MAPS}?fieldManager={}", "x".repeat(200))), JSON, map).is(
            422,
            "Invalid",
            "fieldManager",
        ),
        case("a forced merge patch", ("PATCH", &format!("{MAP}?force=true")), MERGE, "{}").is(
            422,
            "Invalid",
            "may not be specified for non-apply patch",
        ),
        case("an apply by nobody", ("PATCH", &format!("{MAPS}/x")), APPLY, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}").is(
            422,
            "Invalid",
            "is required for apply patch",
        ),
        case("unknown validation", ("POST", &format!("{MAPS}?fieldValidation=Maybe")), JSON, map).is(
            422,
            "Invalid",
            "Unsupported value: \"Maybe\"",
        ),
    ]);
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn fields_that_nobody_knows() {
    let cluster = cluster().await;
    let body = "{\"metadata\":{\"name\":\"x\",\"bogus\":1},\"dat\":{},\"data\":{\"a\":\"1\",\"a\":\"2\"}}";
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
        let told = ["unknown field \"metadata.bogus\"", "unknown field \"dat\"", "duplicate field \"data.a\""];
        for (mode, warnings) in [("Warn", &told[..]), ("", &told[..]), ("Ignore", &[])] {
            let name = format!("x-{index}-{}", mode.to_lowercase()).trim_end_matches('-').to_owned();
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
async fn patches_that_do_not_apply() {
    let cluster = cluster().await;
    let failed = "the server rejected our request due to an error in our request";
    let cases = [
        case("a failing test", ("PATCH", POD), JSON_PATCH, r#"[{"op":"test","path":"/spec/nodeName","value":"n"}]"#)
            .is(422, "Invalid", failed),
        case(
            "half of it works",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"remove","path":"/nope"}]"#,
        )
        .is(422, "Invalid", failed),
        case("an unknown operation", ("PATCH", POD), JSON_PATCH, r#"[{"op":"frob","path":"/spec"}]"#).is(422, "Invalid", failed),
        case("a path that is none", ("PATCH", POD), JSON_PATCH, r#"[{"op":"add","path":"spec","value":1}]"#)
            .is(422, "Invalid", failed),
        case("an index past the end", ("PATCH", POD), JSON_PATCH, r#"[{"op":"add","path":"/spec/containers/9","value":{}}]"#)
            .is(422, "Invalid", failed),
        case(
            "an index past all numbers",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"add","path":"/spec/containers/99999999999999999999","value":{}}]"#,
        )
        .is(422, "Invalid", failed),
        case("the whole object taken away", ("PATCH", POD), JSON_PATCH, r#"[{"op":"replace","path":"","value":null}]"#)
            .is(422, "Invalid", ""),
        case("no list", ("PATCH", POD), JSON_PATCH, r#"{"op":"add"}"#).is(400, "BadRequest", "cannot unmarshal object"),
        case(
            "too many",
            ("PATCH", POD),
            JSON_PATCH,
            format!("[{}]", vec![r#"{"op":"test","path":"/kind","value":"Pod"}"#; 10_001].join(",")),
        )
        .is(413, "RequestEntityTooLarge", "10000"),
        case("a merge patch that is a list", ("PATCH", POD), MERGE, "[]").is(400, "BadRequest", ""),
        case("a merge patch cut off", ("PATCH", POD), MERGE, "{\"spec\":").is(400, "BadRequest", ""),
        case("a result of another type", ("PATCH", POD), MERGE, r#"{"spec":{"containers":"x"}}"#).is(422, "Invalid", "patch"),
        case("metadata taken away", ("PATCH", POD), MERGE, r#"{"metadata":null}"#).is(422, "Invalid", ""),
        case("another kind", ("PATCH", POD), MERGE, r#"{"kind":"Secret"}"#).is(422, "Invalid", ""),
        case("another name", ("PATCH", POD), MERGE, r#"{"metadata":{"name":"b"}}"#).is(
            400,
            "BadRequest",
            "does not match the name on the URL",
        ),
        case("another namespace", ("PATCH", POD), MERGE, r#"{"metadata":{"namespace":"b"}}"#).is(
            400,
            "BadRequest",
            "does not match the namespace",
        ),
        case("another uid", ("PATCH", POD), MERGE, r#"{"metadata":{"uid":"1"}}"#).is(422, "Invalid", "field is immutable"),
        case("an old version", ("PATCH", POD), MERGE, r#"{"metadata":{"resourceVersion":"1"}}"#).is(
            409,
            "Conflict",
            "the object has been modified",
        ),
        case("a version that is none", ("PATCH", POD), MERGE, r#"{"metadata":{"resourceVersion":"x"}}"#).is(500, "", ""),
        case("an element without its key", ("PATCH", POD), STRATEGIC, r#"{"spec":{"containers":[{"image":"x"}]}}"#).is(
            500,
            "",
            "does not contain declared merge key: name",
        ),
        case("a directive there is not", ("PATCH", POD), STRATEGIC, r#"{"spec":{"$patch":"frobnicate"}}"#).is(500, "", ""),
        case(
            "an order of what is not there",
            ("PATCH", POD),
            STRATEGIC,
            r#"{"spec":{"$setElementOrder/containers":7,"containers":[{"name":"c"}]}}"#,
        )
        .is(400, "BadRequest", "invalid patch format of setElementOrder list"),
        case("a patch of what is not there", ("PATCH", &format!("{PODS}/nobody")), MERGE, "{}").is(
            404,
            "NotFound",
            "pods \"nobody\" not found",
        ),
        case(
            "applied managed fields",
            ("PATCH", &format!("{MAP}?fieldManager=m")),
            APPLY,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{}]}}"#,
        )
        .is(400, "BadRequest", "metadata.managedFields must be nil"),
    ];
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn names_that_break_the_rules() {
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
        case("annotations in all", ("POST", MAPS), JSON, metadata(json!({"name": "x", "annotations": {"a": annotation}})))
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
        case("a version at birth", ("POST", MAPS), JSON, metadata(json!({"name": "x", "resourceVersion": "1"}))).is(
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
async fn changes_that_may_not_be() {
    let cluster = cluster().await;
    let at = |plural: &str| cluster.path(plural, "default", "a");
    let widget = format!("{WIDGETS}/a");
    cluster.patch(&widget, json!({"metadata": {"finalizers": ["a.dev/keep"]}})).await.unwrap();
    cluster.delete(&widget).await.unwrap();
    let bind = |node: &str| json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}).to_string();
    cluster.call(http::Method::POST, &format!("{POD}/binding"), JSON, bind("n")).await.unwrap();
    let scale = json!({"metadata": {"name": "a"}, "spec": {"replicas": -1}}).to_string();
    let cases = [
        case(
            "a selector",
            ("PATCH", DEPLOYMENT),
            MERGE,
            r#"{"spec":{"selector":{"matchLabels":{"x":"y"}},"template":{"metadata":{"labels":{"x":"y"}}}}}"#,
        )
        .is(422, "Invalid", "field is immutable"),
        case("a Job's template", ("PATCH", &at("jobs")), MERGE, r#"{"spec":{"template":{"spec":{"hostNetwork":true}}}}"#).is(
            422,
            "Invalid",
            "field is immutable",
        ),
        case(
            "a container's name",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"replace","path":"/spec/containers/0/name","value":"d"}]"#,
        )
        .is(422, "Invalid", "pod updates may not change fields other than"),
        case("a Service's address", ("PATCH", &at("services")), MERGE, r#"{"spec":{"clusterIP":"10.96.7.7"}}"#).is(
            422,
            "Invalid",
            "may not change once set",
        ),
        case("a Secret's type", ("PATCH", &at("secrets")), MERGE, r#"{"type":"x"}"#).is(422, "Invalid", "field is immutable"),
        case("what is immutable", ("PATCH", MAP), MERGE, r#"{"data":{"k":"w"}}"#).is(
            422,
            "Invalid",
            "field is immutable when `immutable` is set",
        ),
        case("immutability itself", ("PATCH", MAP), MERGE, r#"{"immutable":false}"#).is(
            422,
            "Invalid",
            "field is immutable when `immutable` is set",
        ),
        case(
            "a finalizer for what goes",
            ("PATCH", &widget),
            MERGE,
            r#"{"metadata":{"finalizers":["a.dev/keep","b.dev/more"]}}"#,
        )
        .is(422, "Invalid", "no new finalizers can be added if the object is being deleted"),
        case("a second node", ("POST", &format!("{POD}/binding")), JSON, bind("m")).is(
            409,
            "Conflict",
            "is already assigned to node \"n\"",
        ),
        case("fewer than none", ("PUT", &format!("{DEPLOYMENT}/scale")), JSON, scale).is(
            422,
            "Invalid",
            "must be greater than or equal to 0",
        ),
        case("a namespace of the system", ("DELETE", "/api/v1/namespaces/kube-system"), "", "").is(
            403,
            "Forbidden",
            "this namespace may not be deleted",
        ),
        case("a policy there is not", ("DELETE", MAP), JSON, r#"{"propagationPolicy":"Foo"}"#).is(
            422,
            "Invalid",
            "Unsupported value: \"Foo\"",
        ),
        case("two policies", ("DELETE", MAP), JSON, r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#).is(
            422,
            "Invalid",
            "cannot be both set",
        ),
        case("the uid of another", ("DELETE", MAP), JSON, r#"{"preconditions":{"uid":"x"}}"#).is(
            409,
            "Conflict",
            "the UID in the precondition",
        ),
        case("options of another type", ("DELETE", MAP), JSON, r#"{"gracePeriodSeconds":"x"}"#).is(400, "BadRequest", ""),
        case("an eviction of another", ("POST", &format!("{POD}/eviction")), JSON, r#"{"metadata":{"name":"b"}}"#).is(
            400,
            "BadRequest",
            "name in URL does not match",
        ),
        case(
            "a pod as eviction",
            ("POST", &format!("{POD}/eviction")),
            JSON,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
        )
        .is(400, "BadRequest", "unknown conversion"),
        case(
            "an eviction of what was there before",
            ("POST", &format!("{POD}/eviction")),
            JSON,
            r#"{"metadata":{"name":"a"},"deleteOptions":{"preconditions":{"uid":"u"}}}"#,
        )
        .is(409, "Conflict", "the UID in the precondition"),
        case("a token for a moment", ("POST", "/api/v1/namespaces/default/serviceaccounts/none/token"), JSON, "{}")
            .is(404, "NotFound", ""),
    ];
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn no_number_of_unknown_fields_is_too_much_to_tell() {
    let cluster = cluster().await;
    let (doors, _open) = both_doors(&cluster).await;
    let fields: Vec<String> = (0..50_000).map(|i| format!("\"field-{i}\":0")).collect();
    let body = format!("{{\"metadata\":{{\"name\":\"x\"}},{}}}", fields.join(","));
    // Not over HTTP/1.1: the Rust client takes no more than 100 headers there.
    let asked = ask(&cluster.client(), "POST", &format!("{MAPS}?dryRun=All"), JSON, body.as_bytes()).await;
    assert_eq!((asked.code, asked.warnings.len()), (201, 100));
    for (door, client) in &doors {
        let asked = ask(client, "POST", &format!("{MAPS}?fieldValidation=Strict"), JSON, body.as_bytes()).await;
        let message = asked.body["message"].as_str().unwrap();
        assert_eq!((asked.code, message.matches("unknown field").count()), (400, 100), "{door}");
    }
}

#[tokio::test]
async fn addresses_of_services_are_given_once() {
    let cluster = cluster().await;
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let ports = json!([{"port": 80, "nodePort": 30_001}]);
    let asked = json!({"type": "NodePort", "clusterIP": "10.96.0.4", "ports": ports});
    cluster.create(service("b", asked.clone())).await.unwrap();
    // (what is asked for, the refusal)
    let refusals = [
        (
            asked,
            "spec.clusterIPs: Invalid value: [\"10.96.0.4\"]: failed to allocate IP 10.96.0.4: provided IP is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": ports}),
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            json!({"clusterIP": "10.0.0.4", "ports": [{"port": 80}]}),
            "the provided IP (10.0.0.4) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        ),
        (json!({"clusterIP": "ten", "ports": [{"port": 80}]}), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ];
    for (spec, why) in refusals {
        let refused = cluster.create(service("c", spec)).await.unwrap_err();
        assert_eq!(refused.code, 422, "{why}");
        assert!(refused.message.contains(why), "{}", refused.message);
    }
    let mut given = std::collections::BTreeSet::new();
    for name in ["d", "e", "f"] {
        let made = cluster.create(service(name, json!({"type": "NodePort", "ports": [{"port": 80}]}))).await.unwrap();
        given.insert((made["spec"]["clusterIP"].to_string(), made["spec"]["ports"][0]["nodePort"].as_u64()));
        assert!(made["spec"]["clusterIP"] != "10.96.0.4" && made["spec"]["ports"][0]["nodePort"] != 30_001, "{made}");
    }
    assert_eq!(given.len(), 3);
}

/// Go's decoder puts U+FFFD in the place of what is no UTF-8, and so do we.
#[tokio::test]
async fn texts_that_are_no_utf_8_are_mended() {
    let cluster = cluster().await;
    let (doors, _open) = both_doors(&cluster).await;
    for (index, (door, client)) in doors.iter().enumerate() {
        let mut body = format!("{{\"metadata\":{{\"name\":\"x-{index}\"}},\"data\":{{\"k\":\"a").into_bytes();
        body.extend_from_slice(b"\xffb\"}}");
        let asked = ask(client, "POST", MAPS, JSON, &body).await;
        assert_eq!((asked.code, &asked.body["data"]["k"]), (201, &json!("a\u{fffd}b")), "{door}");
    }
}

/// Random damage to good requests: whatever the answer is, the server has it in its words, and a refusal changed nothing.
#[tokio::test]
async fn damaged_requests_are_refused_or_done() {
    let mut random = StdRng::seed_from_u64(7);
    let cluster = cluster().await;
    let client = cluster.client();
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 2}});
    let strategic = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
        "containers": [{"name": "d", "image": "x", "ports": [{"containerPort": 1}]}, {"$patch": "delete", "name": "e"}],
    }}}});
    let operations = json!([
        {"op": "test", "path": "/kind", "value": "Deployment"},
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
        {"op": "copy", "from": "/spec/template/spec/containers/0", "path": "/spec/template/spec/containers/-"},
        {"op": "replace", "path": "/spec/template/spec/containers/1/name", "value": "z"},
    ]);
    let options = json!({"propagationPolicy": "Orphan", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 5});
    let requests = [
        ("POST", PODS, JSON, pod()),
        ("POST", "/apis/apps/v1/namespaces/default/deployments", JSON, deployment()),
        ("PUT", DEPLOYMENT, JSON, deployment()),
        ("PATCH", DEPLOYMENT, MERGE, json!({"metadata": {"labels": {"a": null}}, "spec": {"replicas": 3}})),
        ("PATCH", DEPLOYMENT, STRATEGIC, strategic),
        ("PATCH", DEPLOYMENT, JSON_PATCH, operations),
        ("PATCH", "/apis/apps/v1/namespaces/default/deployments/a?fieldManager=m", APPLY, applied),
        (
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/a/scale",
            JSON,
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods/a/eviction",
            JSON,
            json!({"metadata": {"name": "a"}, "deleteOptions": options}),
        ),
        ("DELETE", MAP, JSON, options.clone()),
    ];
    for (method, path, content_type, body) in requests {
        let good = body.to_string().into_bytes();
        for _ in 0..300 {
            let damaged = damage(&good, &mut random);
            let before = cluster.revision();
            let asked = ask(&client, method, path, content_type, &damaged).await;
            let sent = String::from_utf8_lossy(&damaged);
            assert!(asked.body.is_object(), "{method} {path} {sent}: {}", asked.code);
            if asked.code >= 400 {
                assert_eq!(asked.body["status"], "Failure", "{method} {path} {sent}");
                assert_eq!(cluster.revision(), before, "{method} {path} {sent}");
                // What upstream does not classify either: patches that lack a key, odd versions, applies of unknown fields.
                let known = ["merge key", "typed patch", "ParseUint", "resourceVersion should not be set", "patch", "unable to"];
                let message = asked.body["message"].as_str().unwrap();
                assert!(
                    asked.code < 500 || known.iter().any(|known| message.contains(known)),
                    "{method} {path} {sent}: {message}"
                );
            }
        }
    }
    for plural in ["pods", "deployments", "configmaps"] {
        for object in cluster.objects(plural) {
            let path = cluster.path(plural, "default", object["metadata"]["name"].as_str().unwrap());
            if object["metadata"]["namespace"] == "default" {
                assert_eq!(cluster.replace(object.clone()).await.unwrap(), object, "{path} can be written back");
            }
        }
    }
}

/// Cut, doubled, exchanged or overwritten in one to three places.
fn damage(good: &[u8], random: &mut StdRng) -> Vec<u8> {
    const PIECES: [&str; 14] =
        ["{", "}", "[", "]", "\"", ",", ":", "null", "true", "-1", "1e99", "\"x\"", "99999999999999999999", "\\u0000"];
    let mut bytes = good.to_vec();
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = random.random(),
            2 => {
                let end = random.random_range(at..bytes.len());
                bytes.drain(at..end.max(at + 1).min(bytes.len()));
            }
            3 => {
                let piece = PIECES[random.random_range(0..PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            // A value of another type in the place of one.
            _ => {
                let piece = PIECES[random.random_range(7..PIECES.len())];
                if let Some(colon) = bytes[at..].iter().position(|byte| *byte == b':') {
                    let start = at + colon + 1;
                    let end = bytes[start..].iter().position(|byte| b",}]".contains(byte)).map_or(bytes.len(), |end| start + end);
                    bytes.splice(start..end, piece.bytes());
                }
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}
