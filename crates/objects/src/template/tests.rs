//! Equality and hash of pod templates: recorded hashes, and the cases of upstream's tests.

use serde_json::json;

use super::*;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    collision_count: Option<i32>,
    hash: String,
    template: Value,
    text: Option<String>,
}

/// Hashes recorded from kube-controller-manager 1.36.2. Three cases also have the dump. For the
/// others, an equal hash shows an equal dump.
fn recorded() -> Vec<Case> {
    include_str!("testdata/cases.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn dumped(template: &Value) -> String {
    let mut text = String::new();
    dump::dump(template, &mut text).unwrap();
    text
}

#[test]
fn every_recorded_hash_is_reproduced() {
    for case in recorded() {
        if let Some(text) = &case.text {
            assert_eq!(&dumped(&case.template), text, "{}", case.name);
        }
        assert_eq!(
            hash(&case.template, case.collision_count),
            case.hash,
            "{}: {}",
            case.name,
            dumped(&case.template)
        );
        let plain = plain::Lines::new().text(&case.template);
        assert_eq!(
            plain::hash(&plain, case.collision_count),
            case.hash,
            "{}, plain implementation",
            case.name
        );
    }
}

#[test]
fn a_collision_count_of_zero_differs_from_none() {
    let template = json!({});
    assert_ne!(hash(&template, Some(0)), hash(&template, None));
}

#[test]
fn recorded_templates_are_equal_only_to_themselves() {
    let mut classes: Vec<(PodTemplate, Value)> = Vec::new();
    for case in recorded() {
        let template = PodTemplate::new(&case.template);
        for (other, value) in &classes {
            let same = case.template == *value;
            assert_eq!(template.equal_ignoring_hash(other), same, "{}", case.name);
        }
        classes.push((template, case.template));
    }
}

/// A template with `spec` and one container.
fn with(mut spec: Value, container: Value) -> Value {
    spec["containers"] = json!([container]);
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": spec })
}

#[test]
fn templates_are_equal_as_upstream_defines_it() {
    let labels = |labels: Value| json!({ "metadata": { "labels": labels } });
    let spec = |spec: Value| with(spec, json!({ "name": "main" }));
    let container = |container: Value| with(json!({}), container);
    let limit = |limit: Value| container(json!({ "resources": { "limits": { "cpu": limit } } }));
    let port = |port: Value| container(json!({ "livenessProbe": { "httpGet": { "port": port } } }));
    let volume = |volume: Value| spec(json!({ "volumes": [volume] }));
    // (case, one, other, equal)
    let cases = [
        (
            "the hash label",
            labels(json!({ "app": "a", "pod-template-hash": "1" })),
            labels(json!({ "app": "a" })),
            true,
        ),
        (
            "the hash label alone",
            labels(json!({ "pod-template-hash": "1" })),
            json!({}),
            true,
        ),
        (
            "two hashes",
            labels(json!({ "pod-template-hash": "1" })),
            labels(json!({ "pod-template-hash": "2" })),
            true,
        ),
        (
            "another label",
            labels(json!({ "app": "a" })),
            labels(json!({ "app": "b" })),
            false,
        ),
        (
            "an additional label",
            labels(json!({ "app": "a", "tier": "" })),
            labels(json!({ "app": "a" })),
            false,
        ),
        (
            "the hash label as an annotation",
            json!({ "metadata": { "annotations": { "pod-template-hash": "1" } } }),
            json!({}),
            false,
        ),
        (
            "the hash label of a claim template",
            volume(
                json!({ "ephemeral": { "volumeClaimTemplate": { "metadata": { "labels": { "pod-template-hash": "1" } } } } }),
            ),
            volume(json!({ "ephemeral": { "volumeClaimTemplate": { "metadata": {} } } })),
            false,
        ),
        (
            "metadata unset and empty",
            json!({ "metadata": {} }),
            json!({}),
            true,
        ),
        (
            "annotations",
            json!({ "metadata": { "annotations": { "a": "b" } } }),
            json!({}),
            false,
        ),
        (
            "null members",
            spec(json!({ "nodeName": null, "affinity": null })),
            spec(json!({})),
            true,
        ),
        (
            "an empty list",
            spec(json!({ "tolerations": [] })),
            spec(json!({})),
            true,
        ),
        (
            "an empty map",
            spec(json!({ "nodeSelector": {} })),
            spec(json!({})),
            true,
        ),
        (
            "an empty string",
            spec(json!({ "nodeName": "" })),
            spec(json!({})),
            true,
        ),
        (
            "false",
            spec(json!({ "hostNetwork": false })),
            spec(json!({})),
            true,
        ),
        (
            "true",
            spec(json!({ "hostNetwork": true })),
            spec(json!({})),
            false,
        ),
        (
            "an optional false",
            spec(json!({ "enableServiceLinks": false })),
            spec(json!({})),
            false,
        ),
        (
            "an optional zero",
            spec(json!({ "terminationGracePeriodSeconds": 0 })),
            spec(json!({})),
            false,
        ),
        (
            "an optional empty object",
            spec(json!({ "securityContext": {} })),
            spec(json!({})),
            false,
        ),
        (
            "an empty list within an optional object",
            spec(json!({ "securityContext": { "sysctls": [] } })),
            spec(json!({ "securityContext": {} })),
            true,
        ),
        (
            "an empty struct",
            container(json!({ "resources": {} })),
            container(json!({})),
            true,
        ),
        (
            "a struct with empty members",
            container(json!({ "resources": { "limits": {} } })),
            container(json!({})),
            true,
        ),
        (
            "quantities by value",
            limit(json!("1000m")),
            limit(json!("1")),
            true,
        ),
        (
            "a quantity as a number",
            limit(json!(1)),
            limit(json!("1")),
            true,
        ),
        (
            "binary and decimal",
            limit(json!("1Ki")),
            limit(json!("1024")),
            true,
        ),
        (
            "quantities with different values",
            limit(json!("1Ki")),
            limit(json!("1k")),
            false,
        ),
        (
            "a limit of zero",
            limit(json!("0")),
            container(json!({})),
            false,
        ),
        (
            "an unset quantity",
            container(
                json!({ "env": [{ "valueFrom": { "resourceFieldRef": { "resource": "r", "divisor": "0" } } }] }),
            ),
            container(
                json!({ "env": [{ "valueFrom": { "resourceFieldRef": { "resource": "r" } } }] }),
            ),
            true,
        ),
        (
            "a size limit by value",
            volume(json!({ "emptyDir": { "sizeLimit": "1Gi" } })),
            volume(json!({ "emptyDir": { "sizeLimit": "1024Mi" } })),
            true,
        ),
        (
            "a size limit of zero",
            volume(json!({ "emptyDir": { "sizeLimit": "0" } })),
            volume(json!({ "emptyDir": {} })),
            false,
        ),
        (
            "a volume source",
            volume(json!({ "emptyDir": {} })),
            volume(json!({})),
            false,
        ),
        (
            "a port as a number and as a string",
            port(json!(80)),
            port(json!("80")),
            false,
        ),
        (
            "equal ports",
            port(json!("http")),
            port(json!("http")),
            true,
        ),
        (
            "the order of a list",
            container(json!({ "args": ["a", "b"] })),
            container(json!({ "args": ["b", "a"] })),
            false,
        ),
        (
            "an empty element",
            container(json!({ "args": [""] })),
            container(json!({ "args": [] })),
            false,
        ),
        (
            "a comma inside a string",
            container(json!({ "args": ["a\",\"b"] })),
            container(json!({ "args": ["a", "b"] })),
            false,
        ),
        (
            "an unknown field",
            spec(json!({ "brandNew": "x" })),
            spec(json!({})),
            false,
        ),
        (
            "an unknown empty field",
            spec(json!({ "brandNew": {} })),
            spec(json!({})),
            false,
        ),
        (
            "the keys of an unknown field in another order",
            spec(json!({ "brandNew": [{ "a": 1, "b": 2 }] })),
            spec(json!({ "brandNew": [{ "b": 2, "a": 1 }] })),
            true,
        ),
        (
            "equal times in different zones",
            json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" } }),
            json!({ "metadata": { "creationTimestamp": "2026-01-01T01:00:00+01:00" } }),
            true,
        ),
        (
            "an unset time",
            json!({ "metadata": { "creationTimestamp": null } }),
            json!({}),
            true,
        ),
        (
            "an optional time",
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            json!({ "metadata": { "deletionTimestamp": null } }),
            false,
        ),
        (
            "a null template",
            Value::Null,
            json!({ "metadata": {}, "spec": {} }),
            true,
        ),
    ];
    for (case, one, other, equal) in cases {
        let one = PodTemplate::new(&one);
        let other = PodTemplate::new(&other);
        assert_eq!(
            one.equal_ignoring_hash(&other),
            equal,
            "{case}: {one:?} and {other:?}"
        );
        assert_eq!(
            other.equal_ignoring_hash(&one),
            equal,
            "{case}, in reverse order"
        );
    }
}

#[test]
fn labels_include_the_hash_label() {
    let template =
        PodTemplate::new(&json!({ "metadata": { "labels": { "pod-template-hash": "1" } } }));
    assert_eq!(
        template
            .labels()
            .get("pod-template-hash")
            .map(|value| value.as_str()),
        Some("1")
    );
}

/// Upstream's `TestEqualIgnoreHash`, with its case names.
#[test]
fn equal_ignore_hash() {
    type Labels = &'static [(&'static str, &'static str)];
    let template = |name: &str, node: &str, annotations: Labels, labels: Labels| {
        let map = |pairs: Labels| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), json!(v)))
                .collect::<serde_json::Map<_, _>>()
        };
        PodTemplate::new(&json!({
            "metadata": {"name": name, "annotations": map(annotations), "labels": map(labels)}, "spec": {"nodeName": node},
        }))
    };
    const HASH: &str = "pod-template-hash";
    let one: Labels = &[(HASH, "value-1"), ("something", "else")];
    let two: Labels = &[(HASH, "value-2"), ("something", "else")];
    let bare: Labels = &[("something", "else")];
    let only_one: Labels = &[(HASH, "value-1")];
    let only_two: Labels = &[(HASH, "value-2")];
    let same = |labels| template("foo", "foo-node", &[], labels);
    // (name, former, latter, equal)
    let cases = [
        ("Same spec, same labels", same(one), same(one), true),
        (
            "Same spec, only pod-template-hash label value is different",
            same(one),
            same(two),
            true,
        ),
        (
            "Same spec, the former doesn't have pod-template-hash label",
            same(bare),
            same(two),
            true,
        ),
        (
            "Same spec, the label is different, the former doesn't have pod-template-hash label, same number of labels",
            same(bare),
            same(only_two),
            false,
        ),
        (
            "Same spec, the label is different, the latter doesn't have pod-template-hash label, same number of labels",
            same(only_one),
            same(bare),
            false,
        ),
        (
            "Same spec, the label is different, and the pod-template-hash label value is the same",
            same(only_one),
            same(one),
            false,
        ),
        (
            "Different spec, same labels",
            template("foo", "foo-node", &[("former", "value")], one),
            template("foo", "foo-node", &[("latter", "value")], one),
            false,
        ),
        (
            "Different spec, different pod-template-hash label value",
            template("foo-1", "foo-node", &[], one),
            template("foo-2", "foo-node", &[], two),
            false,
        ),
        (
            "Different spec, the former doesn't have pod-template-hash label",
            template("foo-1", "foo-node-1", &[], bare),
            template("foo-2", "foo-node-2", &[], two),
            false,
        ),
        (
            "Different spec, different labels",
            template("foo", "foo-node-1", &[], bare),
            template("foo", "foo-node-2", &[], &[("nothing", "else")]),
            false,
        ),
    ];
    for (name, former, latter, equal) in cases {
        assert_eq!(former.equal_ignoring_hash(&latter), equal, "{name}");
        assert_eq!(
            latter.equal_ignoring_hash(&former),
            equal,
            "{name}, in reverse order"
        );
    }
}

/// Upstream's `TestComputeHash`: a different collision count gives a different hash.
#[test]
fn compute_hash() {
    for (name, count, other) in [
        ("simple", Some(1), Some(2)),
        ("using math.MaxInt64", None, Some(i32::MAX)),
    ] {
        assert_ne!(hash(&json!({}), count), hash(&json!({}), other), "{name}");
    }
}

/// Upstream's `TestPodTemplateSpecHash`: 1,000 templates with different image versions have 1,000
/// different hashes.
#[test]
fn pod_template_spec_hash() {
    let template = |version: u32| {
        with(
            json!({}),
            json!({ "name": "main", "image": format!("web:{version}") }),
        )
    };
    let hashes: std::collections::HashSet<String> = (0..1000)
        .map(|version| hash(&template(version), None))
        .collect();
    assert_eq!(hashes.len(), 1000);
}
