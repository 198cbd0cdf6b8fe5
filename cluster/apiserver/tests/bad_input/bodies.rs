//! Bodies that are truncated, too large, too deep, not UTF-8 or not objects.

use serde_json::json;

use super::cases::{
    APPLY, DEPLOYMENT, JSON, JSON_PATCH, MAP, MAPS, MERGE, PROTOBUF, STRATEGIC, WIDGETS, YAML,
    case, cluster, refused,
};
use crate::support::{ask, both_doors};

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

#[tokio::test]
async fn bodies_that_are_not_objects() {
    let cluster = cluster().await;
    let create = ("POST", MAPS);
    let large = |bytes: usize| {
        json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(bytes)}}).to_string()
    };
    let deep = nested("[", "]", 100_000);
    let deep_labels = format!(
        "{{\"metadata\":{{\"name\":\"d\",\"labels\":{}}}}}",
        nested("{\"a\":", "}", 20_000).replace(":}", ":1}")
    );
    let bad = (400, "BadRequest");
    let cases = [
        case("nothing", create, JSON, "").is(bad.0, bad.1, "unexpected end of JSON input"),
        case("cut off", create, JSON, "{\"kind\":\"ConfigMap\",").is(
            bad.0,
            bad.1,
            "unexpected end of JSON input",
        ),
        case("no JSON", create, JSON, "kind: ConfigMap").is(
            bad.0,
            bad.1,
            "the object provided is unrecognized",
        ),
        case("two values", create, JSON, "{}{}").is(
            bad.0,
            bad.1,
            "the object provided is unrecognized",
        ),
        case("a list", create, JSON, "[]").is(bad.0, bad.1, ""),
        case("a text", create, JSON, "\"x\"").is(bad.0, bad.1, ""),
        case(
            "wrong type of field",
            create,
            JSON,
            "{\"metadata\":{\"name\":\"x\"},\"data\":7}",
        )
        .is(bad.0, bad.1, "cannot be handled as a ConfigMap"),
        case("wrong type of metadata", create, JSON, "{\"metadata\":[]}").is(
            bad.0,
            bad.1,
            "cannot be handled as a ConfigMap",
        ),
        case(
            "another kind",
            create,
            JSON,
            "{\"kind\":\"Secret\",\"apiVersion\":\"v1\"}",
        )
        .is(bad.0, bad.1, "cannot be handled as a ConfigMap"),
        case(
            "another version",
            create,
            JSON,
            "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v7\"}",
        )
        .is(bad.0, bad.1, ""),
        case(
            "a custom resource without kind",
            ("POST", WIDGETS),
            JSON,
            "{\"metadata\":{\"name\":\"x\"}}",
        )
        .is(bad.0, bad.1, "Object 'Kind' is missing"),
        case("invalid UTF-8 outside of strings", create, JSON, b"{\xff}").is(bad.0, bad.1, ""),
        case(
            "YAML that is not UTF-8",
            create,
            YAML,
            b"metadata: {name: \xff\xfe}",
        )
        .is(bad.0, bad.1, ""),
        case(
            "a merge patch with invalid UTF-8 outside of strings",
            ("PATCH", MAP),
            MERGE,
            b"{\xff}",
        )
        .is(bad.0, bad.1, ""),
        case(
            "a JSON patch with invalid UTF-8 outside of strings",
            ("PATCH", MAP),
            JSON_PATCH,
            b"[\xff]",
        )
        .is(bad.0, bad.1, ""),
        case(
            "an apply that is not UTF-8",
            ("PATCH", &format!("{MAP}?fieldManager=m")),
            APPLY,
            b"kind: \xff\xfe",
        )
        .is(bad.0, bad.1, "error decoding YAML"),
        case(
            "an apply that is not well formed",
            ("PATCH", &format!("{MAP}?fieldManager=m")),
            APPLY,
            "kind: [",
        )
        .is(bad.0, bad.1, "error decoding YAML"),
        case(
            "options that are not an object",
            ("DELETE", MAP),
            JSON,
            "[]",
        )
        .is(bad.0, bad.1, ""),
        case(
            "options that are cut off",
            ("DELETE", MAP),
            JSON,
            "{\"propagationPolicy\":",
        )
        .is(bad.0, bad.1, ""),
        case(
            "YAML that is not well formed",
            create,
            YAML,
            "metadata: {name: [}",
        )
        .is(bad.0, bad.1, ""),
        case("YAML with an alias bomb", create, YAML, alias_bomb()).is(bad.0, bad.1, ""),
        case("protobuf cut off", create, PROTOBUF, b"k8s\0\x0a\x10\x0a").is(bad.0, bad.1, ""),
        case(
            "protobuf without the magic bytes",
            create,
            PROTOBUF,
            b"\x0a\x02\x08\x01",
        )
        .is(bad.0, bad.1, ""),
        case(
            "protobuf with a huge length",
            create,
            PROTOBUF,
            b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        )
        .is(bad.0, bad.1, ""),
        case("deep JSON", create, JSON, deep.clone()).is(bad.0, bad.1, ""),
        case("deep JSON in a field", create, JSON, deep_labels.clone()).is(bad.0, bad.1, ""),
        case("deep YAML", create, YAML, deep.clone()).is(bad.0, bad.1, ""),
        case(
            "deep JSON for a custom resource",
            ("POST", WIDGETS),
            JSON,
            deep_labels.clone(),
        )
        .is(bad.0, bad.1, ""),
        case(
            "a deep merge patch",
            ("PATCH", MAP),
            MERGE,
            deep_labels.clone(),
        )
        .is(bad.0, bad.1, ""),
        case(
            "a deep strategic patch",
            ("PATCH", DEPLOYMENT),
            STRATEGIC,
            deep_labels.clone(),
        )
        .is(bad.0, bad.1, ""),
        case(
            "a deep JSON patch",
            ("PATCH", MAP),
            JSON_PATCH,
            deep.clone(),
        )
        .is(bad.0, bad.1, ""),
        case("deep options", ("DELETE", MAP), JSON, deep.clone()).is(bad.0, bad.1, ""),
        case("too large", create, JSON, large(3 << 20)).is(
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
        ),
        case("far too large", create, JSON, large(9 << 20)).is(
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
        ),
        case(
            "a patch that is too large",
            ("PATCH", MAP),
            MERGE,
            large(3 << 20),
        )
        .is(413, "RequestEntityTooLarge", "limit is 3145728"),
        case(
            "more data than a ConfigMap holds",
            create,
            JSON,
            large(2 << 20),
        )
        .is(422, "Invalid", "Too long"),
    ];
    refused(&cluster, &cases).await;
}

/// Nine levels of aliases with nine aliases each: half a billion texts after expansion.
fn alias_bomb() -> String {
    let mut yaml = "metadata: {name: bomb}\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (level, before) in ('b'..='i').zip('a'..) {
        let many = vec![format!("*{before}"); 9].join(", ");
        yaml.push_str(&format!("{level}: &{level} [{many}]\n"));
    }
    yaml
}

/// Go's decoder replaces invalid UTF-8 with U+FFFD, and so does this server.
#[tokio::test]
async fn invalid_utf_8_becomes_replacement_characters() {
    let cluster = cluster().await;
    let (doors, _open) = both_doors(&cluster).await;
    for (index, (door, client)) in doors.iter().enumerate() {
        let mut body =
            format!("{{\"metadata\":{{\"name\":\"x-{index}\"}},\"data\":{{\"k\":\"a").into_bytes();
        body.extend_from_slice(b"\xffb\"}}");
        let asked = ask(client, "POST", MAPS, JSON, &body).await;
        assert_eq!(
            (asked.code, &asked.body["data"]["k"]),
            (201, &json!("a\u{fffd}b")),
            "{door}"
        );
    }
}
