use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::*;

/// A field with a length: text, bytes or a message.
fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    assert!(number < 16, "the tag has one byte");
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend_from_slice(content);
    bytes
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version), field(2, kind)].concat();
    [
        MAGIC.to_vec(),
        field(1, meta),
        field(2, raw),
        field(3, ""),
        field(4, ""),
    ]
    .concat()
}

/// A pod as Go clients encode it: with zero texts and times, a string port, a quantity and an
/// embedded volume source.
fn pod() -> Vec<u8> {
    let metadata = [
        field(1, "p"),
        field(2, ""),
        number(7, 0),
        field(8, ""),
        field(11, [field(1, "app"), field(2, "web")].concat()),
        field(11, [field(1, "empty"), field(2, "")].concat()),
    ];
    let limits = field(1, [field(1, "cpu"), field(2, field(1, "1500m"))].concat());
    let get = [
        field(1, "/"),
        field(2, [number(1, 1), number(2, 0), field(3, "http")].concat()),
    ]
    .concat();
    let probe = [field(1, field(2, get)), number(2, 5)].concat();
    let container = [
        field(1, "c"),
        field(2, "app:v1"),
        field(3, "sh"),
        field(3, "-c"),
        field(6, [field(1, "http"), number(2, 0), number(3, 80)].concat()),
        field(8, limits),
        field(10, probe),
    ];
    let volume = [field(1, "v"), field(2, field(2, field(1, "Memory")))].concat();
    let spec = [
        field(1, volume),
        field(2, container.concat()),
        number(4, 0),
        number(11, 0),
    ]
    .concat();
    let status = [field(1, ""), field(3, "")].concat();
    envelope(
        "v1",
        "Pod",
        &[
            field(1, metadata.concat()),
            field(2, spec),
            field(3, status),
        ]
        .concat(),
    )
}

/// A field whose number needs a tag of two bytes.
fn far_field(number: u16, content: impl AsRef<[u8]>) -> Vec<u8> {
    let tag = number << 3 | 2;
    let low = u8::try_from(tag & 0x7f).unwrap() | 0x80;
    let mut bytes = vec![low, u8::try_from(tag >> 7).unwrap()];
    bytes.extend_from_slice(&field(1, content)[1..]);
    bytes
}

/// A definition whose schema has the message `schema`.
fn definition(schema: &[u8]) -> Vec<u8> {
    let version = [
        field(1, "v1"),
        number(2, 1),
        number(3, 1),
        field(4, field(1, schema)),
    ]
    .concat();
    let names = [field(1, "tries"), field(4, "Try")].concat();
    let spec = [
        field(1, "g"),
        field(3, names),
        field(4, "Cluster"),
        field(7, version),
    ]
    .concat();
    envelope(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[field(1, field(1, "tries.g")), field(2, spec)].concat(),
    )
}

fn deployment() -> Vec<u8> {
    let selector = field(1, [field(1, "app"), field(2, "d")].concat());
    let surge = [number(1, 1), number(2, 0), field(3, "25%")].concat();
    let unavailable = [number(1, 0), number(2, 1), field(3, "")].concat();
    let strategy = [
        field(1, "RollingUpdate"),
        field(2, [field(1, unavailable), field(2, surge)].concat()),
    ]
    .concat();
    let spec = [
        number(1, 0),
        field(2, &selector),
        field(4, strategy),
        number(9, 60),
    ]
    .concat();
    envelope(
        "apps/v1",
        "Deployment",
        &[field(1, field(1, "d")), field(2, spec)].concat(),
    )
}

#[test]
fn messages_become_the_json_of_their_types() {
    let lease_time = [8, 0x80, 0x8c, 0xa3, 0xac, 0x06, 16, 0xf8, 0xc0, 0x07];
    let lease = [
        field(1, field(1, "l")),
        field(2, [field(1, "me"), field(4, lease_time)].concat()),
    ]
    .concat();
    let secret = [
        field(1, field(1, "s")),
        field(2, [field(1, "k"), field(2, [0, 255])].concat()),
        field(3, "Opaque"),
    ]
    .concat();
    let extra = field(
        5,
        [
            field(1, "scopes"),
            field(2, [field(1, "a"), field(1, "b")].concat()),
        ]
        .concat(),
    );
    let review = [field(1, ""), field(2, [field(3, "u"), extra].concat())].concat();
    let revision = [
        field(1, field(1, "r")),
        field(2, field(1, r#"{"spec":1}"#)),
        number(3, 7),
    ]
    .concat();
    let index = [
        field(1, field(1, "j")),
        field(
            2,
            [vec![
                8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
            ]]
            .concat(),
        ),
    ];
    let cases = [
        (
            pod(),
            json!({
                "metadata": {"name": "p", "labels": {"app": "web", "empty": ""}},
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
                    "containers": [{
                        "name": "c", "image": "app:v1", "command": ["sh", "-c"], "ports": [{"name": "http", "containerPort": 80}],
                        "resources": {"limits": {"cpu": "1500m"}},
                        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 5},
                    }],
                    "terminationGracePeriodSeconds": 0,
                },
                "status": {},
                "kind": "Pod", "apiVersion": "v1",
            }),
        ),
        (
            deployment(),
            json!({
                "metadata": {"name": "d"},
                "spec": {
                    "replicas": 0, "selector": {"matchLabels": {"app": "d"}},
                    "template": {"metadata": {}, "spec": {"containers": null}},
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}},
                    "progressDeadlineSeconds": 60,
                },
                "status": {},
                "kind": "Deployment", "apiVersion": "apps/v1",
            }),
        ),
        (
            envelope("coordination.k8s.io/v1", "Lease", &lease),
            json!({
                "metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "2023-12-25T00:00:00.000123Z"},
                "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            }),
        ),
        (
            envelope("v1", "Secret", &secret),
            json!({"metadata": {"name": "s"}, "data": {"k": "AP8="}, "type": "Opaque", "kind": "Secret", "apiVersion": "v1"}),
        ),
        (
            envelope("authorization.k8s.io/v1", "SubjectAccessReview", &review),
            json!({
                "metadata": {}, "spec": {"user": "u", "extra": {"scopes": ["a", "b"]}}, "status": {"allowed": false},
                "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            }),
        ),
        (
            envelope("apps/v1", "ControllerRevision", &revision),
            json!({
                "metadata": {"name": "r"}, "data": {"spec": 1}, "revision": 7,
                "kind": "ControllerRevision", "apiVersion": "apps/v1",
            }),
        ),
        (
            envelope("batch/v1", "Job", &index.concat()),
            json!({
                "metadata": {"name": "j"},
                "spec": {"parallelism": -1, "template": {"metadata": {}, "spec": {"containers": null}}},
                "status": {}, "kind": "Job", "apiVersion": "batch/v1",
            }),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(object("", &body).unwrap(), expected);
    }
}

/// Upstream: `apiextensions/v1/marshal.go`.
#[test]
fn unions_of_schemas_become_the_member_that_is_set() {
    let text = field(5, "string");
    let raw = |json: &str| field(1, json);
    let entry = |key: &str, value: &[u8]| [field(1, key), field(2, value)].concat();
    let cases = [
        (
            far_field(24, field(1, &text)),
            json!({"items": {"type": "string"}}),
        ),
        (
            far_field(24, [field(2, &text), field(2, "")].concat()),
            json!({"items": [{"type": "string"}, {}]}),
        ),
        (far_field(24, ""), json!({})),
        (
            far_field(30, number(1, 1)),
            json!({"additionalProperties": true}),
        ),
        (
            far_field(30, number(1, 0)),
            json!({"additionalProperties": false}),
        ),
        (far_field(33, ""), json!({"additionalItems": false})),
        (
            far_field(30, [number(1, 1), field(2, &text)].concat()),
            json!({"additionalProperties": {"type": "string"}}),
        ),
        (
            [
                far_field(32, entry("a", &[field(2, "b"), field(2, "c")].concat())),
                far_field(32, entry("d", &field(1, &text))),
            ]
            .concat(),
            json!({"dependencies": {"a": ["b", "c"], "d": {"type": "string"}}}),
        ),
        (
            [
                field(8, raw("{\"a\":[1]}")),
                far_field(20, raw("1")),
                far_field(20, raw("null")),
            ]
            .concat(),
            json!({"default": {"a": [1]}, "enum": [1, null]}),
        ),
        (
            far_field(
                29,
                entry(
                    "p",
                    &far_field(24, field(1, far_field(30, field(2, &text)))),
                ),
            ),
            json!({"properties": {"p": {"items": {"additionalProperties": {"type": "string"}}}}}),
        ),
    ];
    for (schema, expected) in cases {
        let read = object("", &definition(&schema)).unwrap();
        let found = &read["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(*found, expected);
    }
}

#[test]
fn schemas_in_schemas_have_a_limited_depth() {
    let nested = |depth| (0..depth).fold(field(5, "string"), |schema, _| far_field(28, schema));
    assert!(object("", &definition(&nested(100))).is_ok());
    assert_eq!(object("", &definition(&nested(200))), Err(Malformed::Depth));
    let items = (0..10_000).fold(Vec::new(), |schema, _| far_field(24, field(1, schema)));
    assert_eq!(object("", &definition(&items)), Err(Malformed::Depth));
}

#[test]
fn the_kind_of_the_resource_applies_when_the_envelope_has_none() {
    let body = [MAGIC.to_vec(), field(2, field(1, field(1, "n")))].concat();
    let expected = json!({"metadata": {"name": "n"}, "spec": {}, "status": {}});
    assert_eq!(object("Namespace", &body).unwrap(), expected);
    assert_eq!(
        object("Widget", &body).unwrap(),
        json!({}),
        "an unknown kind keeps no fields"
    );
}

#[test]
fn malformed_messages_have_upstreams_errors() {
    let with_raw = |raw: &[u8]| envelope("v1", "Pod", raw);
    let wire = |field: &str, wire| Malformed::WireType {
        field: field.to_owned(),
        wire,
    };
    let cases: Vec<(&str, Vec<u8>, Malformed)> = vec![
        ("JSON", b"{}".to_vec(), Malformed::Prefix),
        (
            "a truncated length",
            [MAGIC, &[18, 200]].concat(),
            Malformed::Truncated,
        ),
        (
            "a length beyond memory",
            [MAGIC, &[18, 255, 255, 255, 255, 255, 255, 255, 255, 127]].concat(),
            Malformed::Truncated,
        ),
        (
            "a number without end",
            with_raw(&[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            Malformed::Overflow,
        ),
        ("field 0", with_raw(&[2, 0]), Malformed::Tag(2)),
        ("a group", with_raw(&[11]), Malformed::Tag(11)),
        (
            "a number for a message",
            with_raw(&number(1, 1)),
            wire("metadata", 0),
        ),
        (
            "a text for a number",
            with_raw(&field(2, field(4, "x"))),
            wire("terminationGracePeriodSeconds", 2),
        ),
        (
            "a text that is not UTF-8",
            with_raw(&field(1, field(1, [0xff]))),
            Malformed::Value {
                field: "name".to_owned(),
                why: "invalid UTF-8",
            },
        ),
        (
            "compressed",
            [MAGIC.to_vec(), field(3, "gzip")].concat(),
            Malformed::Encoding("gzip".to_owned()),
        ),
    ];
    for (why, body, expected) in cases {
        assert_eq!(object("", &body), Err(expected), "{why}");
    }
}

#[test]
fn damaged_bodies_never_panic() {
    let mut random = StdRng::seed_from_u64(7);
    let mut refused = 0;
    for body in [pod(), deployment()] {
        for end in 0..body.len() {
            refused += usize::from(object("Pod", &body[..end]).is_err());
        }
        for _ in 0..20_000 {
            let mut damaged = body.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..damaged.len());
                damaged[at] ^= 1 << random.random_range(0..8);
            }
            damaged.truncate(random.random_range(0..=damaged.len()));
            refused += usize::from(object("Pod", &damaged).is_err());
        }
    }
    assert!(
        refused > 10_000,
        "only {refused} damaged bodies were rejected"
    );
}

#[test]
fn fields_except_kind_and_version_have_unique_numbers() {
    // `/version` has no protobuf upstream.
    let shapes = crate::schema::all().filter(|shape| shape.name() != "version.Info");
    for shape in shapes {
        let mut seen = std::collections::HashSet::new();
        for field in shape
            .fields()
            .iter()
            .filter(|field| !matches!(field.name, "kind" | "apiVersion") || field.number.own > 0)
        {
            let crate::schema::FieldNumber { embedded_in, own } = field.number;
            assert!(own > 0, "{} {}", shape.name(), field.name);
            assert!(
                seen.insert((embedded_in, own)),
                "{} {}",
                shape.name(),
                field.name
            );
        }
    }
}
