//! Rules of custom kinds (`x-kubernetes-validations`). All messages are those of kube-apiserver
//! 1.36.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{ask, clock};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/ex.com/v1/namespaces/default/widgets";
const RULES: &str = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
const TOO_EXPENSIVE: &str = "exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

fn definition(properties: Value, rules: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.com"},
        "spec": {
            "group": "ex.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {
                    "type": "object", "properties": properties, "x-kubernetes-validations": rules,
                }},
            }}}],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ex.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// The code, the causes as `field: message`, and the warnings of an answer.
async fn send(
    cluster: &DevCluster,
    method: &str,
    path: &str,
    body: Value,
) -> (u16, Vec<String>, Vec<String>) {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.to_string();
    let answer = ask(&cluster.client(), method, path, kind, body.as_bytes()).await;
    let causes = answer.body["details"]["causes"].as_array();
    let shown = |cause: &Value| {
        format!(
            "{}: {}",
            cause["field"].as_str().unwrap(),
            cause["message"].as_str().unwrap()
        )
    };
    let causes = causes.into_iter().flatten().map(shown).collect();
    (answer.code, causes, answer.warnings)
}

async fn refused_definition(properties: Value, rule: Value) -> Vec<String> {
    let cluster = DevCluster::new(clock());
    let definition = definition(properties, json!([rule]));
    let (code, causes, _) = send(&cluster, "POST", DEFINITIONS, definition).await;
    assert_eq!(code == 201, causes.is_empty(), "{causes:?}");
    causes
}

fn text() -> Value {
    json!({"x": {"type": "string"}})
}

/// The value of an error about a rule: the rule as Go marshals it.
fn go(rule: &str, message_expression: &str) -> String {
    let rule = json!(rule).to_string().replace('>', "\\u003e");
    format!(
        "{{\"Rule\":{rule},\"Message\":\"\",\"MessageExpression\":\"{message_expression}\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}"
    )
}

#[tokio::test(start_paused = true)]
async fn definitions_with_wrong_rules_are_refused() {
    let compilation = [
        (
            "self.y == 'a'",
            "compilation failed: ERROR: <input>:1:5: undefined field 'y'\n | self.y == 'a'\n | ....^",
        ),
        (
            "self.x == 1",
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(string, int)'\n | self.x == 1\n | .......^",
        ),
        ("self.x", "cel expression must evaluate to a bool"),
        (
            "self.x.foo()",
            "compilation failed: ERROR: <input>:1:11: undeclared reference to 'foo' (in container '')\n | self.x.foo()\n | ..........^",
        ),
        (
            "[1,'a'].size() > 0",
            "compilation failed: ERROR: <input>:1:4: expected type 'int' but found 'string'\n | [1,'a'].size() > 0\n | ...^",
        ),
        (
            "self.x.all(a.b, true)",
            "compilation failed: ERROR: <input>:1:13: argument must be a simple name\n | self.x.all(a.b, true)\n | ............^",
        ),
        (
            "duration('x') == duration('1s')",
            "compilation failed: ERROR: <input>:1:10: invalid duration argument\n | duration('x') == duration('1s')\n | .........^",
        ),
    ];
    for (rule, problem) in compilation {
        let expected = format!("{RULES}.rule: Invalid value: {}: {problem}", go(rule, ""));
        assert_eq!(
            refused_definition(text(), json!({"rule": rule})).await,
            [expected]
        );
    }
    let value = |expression: &str| go("true", expression);
    let others = [
        (json!({"rule": ""}), "rule: Required value: rule is not specified".to_owned()),
        (json!({"rule": "true", "message": "  "}), "message: Invalid value: \"  \": must be non-empty if specified".to_owned()),
        (json!({"rule": "true\n|| false"}), "message: Required value: message must be specified if rule contains line breaks".to_owned()),
        (json!({"rule": "true", "reason": "Foo"}), "reason: Unsupported value: \"Foo\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"".to_owned()),
        (json!({"rule": "true", "fieldPath": ".z"}), "fieldPath: Invalid value: \".z\": must be a valid path".to_owned()),
        (json!({"rule": "true", "optionalOldSelf": true}), "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule".to_owned()),
        (json!({"rule": "true", "messageExpression": "1"}), format!("messageExpression: Invalid value: {}: messageExpression must evaluate to a string", value("1"))),
        (json!({"rule": "true", "messageExpression": "self.y"}), format!("messageExpression: Invalid value: {}: messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'y'\n | self.y\n | ....^", value("self.y"))),
    ];
    for (rule, problem) in others {
        assert_eq!(
            refused_definition(text(), rule).await,
            [format!("{RULES}.{problem}")]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_with_expensive_rules_are_refused() {
    let list = json!({"x": {"type": "array", "items": {"type": "string"}}});
    for rule in [
        "self.x.all(a, self.x.all(b, a == b))",
        "self.x.exists(a, a.matches('a.*b'))",
    ] {
        let causes = refused_definition(list.clone(), json!({"rule": rule})).await;
        let expected = [
            format!("{RULES}.rule: Forbidden: estimated rule cost {TOO_EXPENSIVE}"),
            format!(
                "{RULES}.rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema {TOO_EXPENSIVE}"
            ),
        ];
        assert_eq!(causes, expected, "{rule}");
    }
    let rule = json!({"rule": "self.x.all(a, self.x.exists_one(b, a == b))"});
    // Upstream knows no size of objects, and counts a comparison of two as free.
    for item in [
        json!({"type": "string", "maxLength": 10}),
        json!({"type": "object", "properties": {"y": {"type": "string"}}}),
    ] {
        let short = json!({"x": {"type": "array", "maxItems": 5, "items": item}});
        assert!(refused_definition(short, rule.clone()).await.is_empty());
    }
    // A key relates the values of an atomic map to the old ones, too.
    let field =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let atomic = json!({"x": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"y": field}}});
    let rule = json!({"rule": "true"});
    assert!(refused_definition(atomic, rule).await.is_empty());
    // Keys of maps count as empty, and a hyphen after a class is a character in Go.
    let map = json!({"x": {"type": "object", "additionalProperties": {"type": "string"}}});
    let rule = json!({"rule": "self.x.all(k, k.matches('^[\\\\w-.]+$'))"});
    assert!(refused_definition(map.clone(), rule).await.is_empty());
    let rule = json!({"rule": "self.x.all(k, self.x[k].matches('a'))"});
    assert_eq!(refused_definition(map, rule).await.len(), 3);
    let either = json!({"x": {"x-kubernetes-int-or-string": true}});
    let rule = json!({"rule": "type(self.x) == int ? self.x > 0 : self.x == '1'"});
    assert!(refused_definition(either, rule).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn estimates_of_costs_are_those_of_upstream() {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let map = json!({"type": "object", "additionalProperties": text});
    let element = json!({"type": "object", "properties": {"s": text, "x": map}});
    let of_fields = |properties: Value| json!({"type": "object", "properties": properties});
    let cluster = DevCluster::new(clock());
    let mut wrong = Vec::new();
    let rows = include_str!("rule_costs.txt").lines();
    for row in rows.filter(|row| !row.starts_with('#')) {
        let [schema, factor, rule] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns: {row}");
        };
        let mut spec = match schema {
            "keys" => of_fields(json!({"x": map})),
            "object" => of_fields(json!({
                "x": map, "s": text, "l": texts, "ll": {"type": "array", "items": texts},
                "o": {"type": "array", "items": element},
            })),
            "map" => map.clone(),
            "text" => text.clone(),
            "short" => json!({"type": "string", "maxLength": 100}),
            "list" => texts.clone(),
            _ => panic!("no such schema: {row}"),
        };
        spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let mut definition = definition(json!({}), json!([]));
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = spec;
        let path = format!("{DEFINITIONS}?dryRun=All");
        let (_, causes, _) = send(&cluster, "POST", &path, definition).await;
        let found = causes.first().map_or("-", |cause| {
            let cause = cause.as_str();
            let after = cause.split_once("estimated rule cost exceeds budget by factor of ");
            after.map_or(cause, |(_, rest)| {
                rest.split_once(" (").map_or(rest, |(factor, _)| factor)
            })
        });
        if found != factor {
            wrong.push(format!("{row}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn transition_rules_need_elements_with_keys() {
    let item = json!({"type": "object", "properties": {"y": {"type": "string", "maxLength": 9}}, "x-kubernetes-validations": [{"rule": "self.y == oldSelf.y"}]});
    let list = json!({"x": {"type": "array", "maxItems": 3, "items": item}});
    let place = "spec.validation.openAPIV3Schema.properties[spec].properties[x]";
    assert_eq!(
        refused_definition(list, json!({"rule": "true"})).await,
        [format!(
            "{place}.items.x-kubernetes-validations[0].rule: Invalid value: \"self.y == oldSelf.y\": oldSelf cannot be used on the uncorrelatable portion of the schema within {place}"
        )]
    );
}

fn rules() -> (Value, Value) {
    let properties = json!({
        "min": {"type": "integer"}, "max": {"type": "integer"}, "replicas": {"type": "integer"},
        "names": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
        "div": {"type": "integer"}, "any": {"x-kubernetes-int-or-string": true},
        "color": {"type": "string", "enum": ["red", "blue"],
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "color is immutable"}]},
        "host": {"type": "string", "maxLength": 100, "x-kubernetes-validations": [{"rule": "self.size() > 2"}]},
        "note": {"type": "string"},
    });
    let rules = json!([
        {"rule": "self.min <= self.max", "message": "min must not exceed max"},
        {"rule": "self.replicas >= oldSelf.replicas", "messageExpression": "'replicas may ' + 'not shrink'", "fieldPath": ".replicas", "reason": "FieldValueForbidden"},
        {"rule": "!has(self.names) || self.names.all(n, n.startsWith('a'))"},
        {"rule": "!has(self.div) || 10 / self.div > 1"},
        {"rule": "!has(self.any) || self.any + 1 > 2", "message": "any"},
        {"rule": "oldSelf.hasValue() || self.min >= 0", "optionalOldSelf": true, "message": "first min must not be negative"},
    ]);
    (properties, rules)
}

#[tokio::test(start_paused = true)]
async fn objects_fulfil_the_rules_of_their_kind() {
    let cluster = DevCluster::new(clock());
    let (properties, rules) = rules();
    let definition = definition(properties, rules);
    assert_eq!(send(&cluster, "POST", DEFINITIONS, definition).await.0, 201);
    let valid = json!({"min": 1, "max": 2, "replicas": 3, "color": "red"});
    let with = |field: &str, value: Value| {
        let mut spec = valid.clone();
        spec[field] = value;
        spec
    };
    let creations = [
        (
            with("min", json!(3)),
            vec!["spec: Invalid value: min must not exceed max"],
        ),
        (
            with("names", json!(["b"])),
            vec![
                "spec: Invalid value: failed rule: !has(self.names) || self.names.all(n, n.startsWith('a'))",
            ],
        ),
        (
            with("div", json!(0)),
            vec![
                "spec: Invalid value: \"object\": division by zero evaluating rule: !has(self.div) || 10 / self.div > 1",
            ],
        ),
        (
            with("any", json!("x")),
            vec![
                "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: any",
            ],
        ),
        (
            with("host", json!("x")),
            vec!["spec.host: Invalid value: \"x\": failed rule: self.size() > 2"],
        ),
        (
            with("min", json!(-1)),
            vec!["spec: Invalid value: first min must not be negative"],
        ),
        (
            json!({"max": 2}),
            vec![
                "spec: Invalid value: \"object\": no such key: min evaluating rule: min must not exceed max",
                "spec: Invalid value: \"object\": no such key: min evaluating rule: first min must not be negative",
            ],
        ),
        (
            with("min", json!("x")),
            vec![
                "spec.min: Invalid value: \"string\": spec.min in body must be of type integer: \"string\"",
                "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ],
        ),
    ];
    for (spec, expected) in creations {
        let (code, causes, _) = send(&cluster, "POST", WIDGETS, widget("b", spec)).await;
        assert_eq!(
            (code, causes),
            (422, expected.into_iter().map(str::to_owned).collect())
        );
    }
    let created = send(&cluster, "POST", WIDGETS, widget("a", valid)).await;
    assert_eq!(created, (201, Vec::new(), Vec::new()));

    let one = format!("{WIDGETS}/a");
    let changes = [
        (
            json!({"replicas": 1}),
            "spec.replicas: Forbidden: replicas may not shrink",
        ),
        (
            json!({"color": "blue"}),
            "spec.color: Invalid value: \"blue\": color is immutable",
        ),
    ];
    for (spec, expected) in changes {
        let (code, causes, _) = send(&cluster, "PATCH", &one, json!({"spec": spec})).await;
        assert_eq!((code, causes), (422, vec![expected.to_owned()]));
    }
    // The rule about the first minimum does not apply to changes.
    let changed = send(&cluster, "PATCH", &one, json!({"spec": {"min": -1}})).await;
    assert_eq!(changed.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_an_update_keeps_only_warns() {
    let cluster = DevCluster::new(clock());
    let (properties, rules) = rules();
    let mut definition = definition(properties, rules);
    let stored = cluster.create(definition.clone()).await.unwrap();
    let valid = json!({"min": 1, "max": 2, "replicas": 3, "color": "red"});
    cluster.create(widget("a", valid.clone())).await.unwrap();
    definition["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["color"]["x-kubernetes-validations"] =
        json!([{"rule": "self != 'red'", "message": "no red"}]);
    let path = format!("{DEFINITIONS}/widgets.ex.com");
    definition["metadata"]["resourceVersion"] =
        cluster.get(&path).await.unwrap()["metadata"]["resourceVersion"].clone();
    assert_eq!(send(&cluster, "PUT", &path, definition).await.0, 200);

    let expected = "spec.color: Invalid value: \"red\": no red".to_owned();
    let change = json!({"spec": {"note": "x"}});
    let changed = send(&cluster, "PATCH", &format!("{WIDGETS}/a"), change).await;
    assert_eq!(changed, (200, Vec::new(), vec![expected.clone()]));
    let created = send(&cluster, "POST", WIDGETS, widget("c", valid)).await;
    assert_eq!(created, (422, vec![expected], Vec::new()));
}
