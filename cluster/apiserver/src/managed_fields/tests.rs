//! Tables of applies and updates without a server. Expectations are answers of a real kube-apiserver
//! 1.36.2, or follow from upstream's source.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::custom::Custom;
use crate::kinds::Resource;
use crate::registry::Registry;
use crate::status::Status;

fn built_in(group: &str, version: &str, plural: &str) -> Resource {
    let entry = Registry::built_in().find(group, version, plural);
    entry.unwrap().resource.clone()
}

/// A custom kind whose objects have these fields.
fn custom(properties: Value) -> Resource {
    let version = json!({
        "name": "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    });
    let custom = Custom::parse(&json!({"spec": {}}), &version, None);
    Resource {
        group: "x.example".into(),
        kind: "Gad".into(),
        subresources: &[],
        custom: Some(Arc::new(custom)),
        ..built_in("", "v1", "configmaps")
    }
}

/// The conversions of a kind with one version, which has nothing to await.
struct OneVersion;

impl Convert for OneVersion {
    fn convert<'a>(&'a self, _: &'a Value, _: &'a str) -> BoxFuture<'a, Result<Converted, Status>> {
        std::future::ready(Ok(None)).boxed()
    }
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

/// An object and its entries.
struct Story {
    resource: Resource,
    object: Value,
    managed: Managed,
}

impl Story {
    fn new(resource: Resource) -> Self {
        Self {
            resource,
            object: json!({"metadata": {}}),
            managed: Managed::default(),
        }
    }

    /// Applies a configuration; the error is a message.
    fn try_apply(&mut self, manager: &str, config: Value) -> Result<(), String> {
        let mut config = config;
        config["apiVersion"] = json!(self.resource.api_version());
        config["kind"] = json!(self.resource.kind);
        let applied = Applied {
            versions: Versions {
                resource: &self.resource,
                part: None,
                convert: &OneVersion,
            },
            config: &config,
            set: declared(self.resource.release, self.resource.shape(&config), &config)?,
            part: None,
            author: self.author(manager, Operation::Apply),
            force: false,
            time: "2026-01-01T00:00:00Z".to_owned(),
        };
        let merged = at_once(apply(&self.object, &self.managed, &applied));
        let (mut object, managed) = merged.map_err(|refusal| match refusal {
            NotApplied::Conflicts(conflicts) => conflicts.message(),
            NotApplied::Failed(status) => status.message,
        })?;
        follow_last_applied(&mut object, &applied);
        self.object = object;
        self.object["metadata"]["uid"] = json!("u");
        self.managed = managed;
        Ok(())
    }

    fn apply(mut self, manager: &str, config: Value) -> Self {
        self.try_apply(manager, config).unwrap();
        self
    }

    /// Replaces the object.
    fn update(mut self, manager: &str, new: Value) -> Self {
        let versions = Versions {
            resource: &self.resource,
            part: None,
            convert: &OneVersion,
        };
        let author = self.author(manager, Operation::Update);
        let written = updated(self.managed, versions, &self.object, &new, author, None);
        self.managed = at_once(written).unwrap();
        self.object = new;
        self
    }

    fn author(&self, manager: &str, operation: Operation) -> Author {
        Author {
            manager: manager.to_owned(),
            operation,
            api_version: self.resource.api_version(),
            subresource: "".into(),
        }
    }

    /// The fields of a manager.
    fn fields(&self, manager: &str) -> Value {
        let entries = self.managed.clone().into_value().unwrap_or_default();
        let entries = entries.as_array().cloned().unwrap_or_default();
        let own = entries
            .into_iter()
            .find(|entry| entry["manager"] == manager);
        own.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }
}

#[test]
fn an_empty_keyed_list_is_not_owned_but_empty_maps_and_atomic_lists_are() {
    let story = Story::new(built_in("", "v1", "configmaps")).apply(
        "a",
        json!({"metadata": {"finalizers": [], "labels": {}}, "data": {}}),
    );
    assert_eq!(
        story.fields("a"),
        json!({"f:data": {}, "f:metadata": {"f:labels": {}}})
    );
    let container = json!({"name": "c", "image": "i", "env": [], "ports": [], "args": []});
    let spec = json!({"containers": [container], "volumes": [], "tolerations": []});
    let story = Story::new(built_in("", "v1", "podtemplates"))
        .apply("a", json!({"template": {"spec": spec}}));
    assert_eq!(
        story.fields("a")["f:template"]["f:spec"],
        json!({"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:args": {}, "f:image": {}, "f:name": {}}}, "f:tolerations": {}})
    );
}

#[test]
fn dropping_the_last_label_leaves_an_object_with_metadata() {
    let story = Story::new(built_in("", "v1", "configmaps"))
        .apply(
            "a",
            json!({"metadata": {"name": "c", "labels": {"x": "1"}}}),
        )
        .apply("a", json!({"metadata": {"name": "c"}}));
    assert_eq!(story.object["metadata"]["name"], "c");
    assert_eq!(story.object["metadata"].get("labels"), None);
    assert_eq!(story.fields("a"), Value::Null);
}

#[test]
fn metadata_of_custom_kinds_has_sets_and_keyed_lists() {
    let finalizers = |all: &[&str]| json!({"metadata": {"finalizers": all}});
    let story = Story::new(custom(json!({})))
        .apply("one", finalizers(&["e/1"]))
        .apply("two", finalizers(&["e/2"]));
    assert_eq!(
        story.object["metadata"]["finalizers"],
        json!(["e/1", "e/2"])
    );
    let story = story.apply("one", json!({"metadata": {}}));
    assert_eq!(story.object["metadata"]["finalizers"], json!(["e/2"]));
}

#[test]
fn maps_that_a_configuration_empties_stay_empty() {
    let schema = json!({"spec": {"type": "object", "properties": {
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}});
    let story = Story::new(custom(schema))
        .apply(
            "a",
            json!({"spec": {"m": {"k": "v"}, "o": {"x": 1}, "free": {"k": 1}}}),
        )
        .apply("a", json!({"spec": {"m": {}, "o": {}, "free": {}}}));
    assert_eq!(story.object["spec"], json!({"m": {}, "o": {}, "free": {}}));
}

#[test]
fn an_atomic_map_of_a_custom_kind_is_one_field() {
    let schema = json!({"spec": {"type": "object", "x-kubernetes-map-type": "atomic",
        "x-kubernetes-preserve-unknown-fields": true}});
    let mut story = Story::new(custom(schema)).apply("a", json!({"spec": {"x": 1, "y": {"z": 2}}}));
    assert_eq!(story.fields("a"), json!({"f:spec": {}}));
    let refused = story.try_apply("b", json!({"spec": {"w": 1}}));
    assert_eq!(
        refused.unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"a\": .spec"
    );
}

#[test]
fn unknown_fields_in_atomic_lists_are_refused() {
    let schema = json!({"l": {"type": "array", "items": {"type": "object",
        "properties": {"a": {"type": "string"}}}}});
    let refused = Story::new(custom(schema)).try_apply("a", json!({"l": [{"a": "1"}, {"b": 1}]}));
    assert_eq!(
        refused.unwrap_err(),
        ".l[1].b: field not declared in schema"
    );
}

#[test]
fn values_of_wrong_types_are_named_in_go_words() {
    let template =
        |container: Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let cases = [
        (
            json!({"spec": {"replicas": "text"}}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            json!({"spec": {"paused": "text"}}),
            ".spec.paused: expected boolean, got &{text}",
        ),
        (
            template(json!({"name": "a", "image": 7})),
            ".spec.template.spec.containers[name=\"a\"].image: expected string, got &value.valueUnstructured{Value:7}",
        ),
        (
            template(json!({"name": "m", "env": [{"name": "A"}, {"name": "A"}]})),
            ".spec.template.spec.containers[name=\"m\"].env: duplicate entries for key [name=\"A\"]",
        ),
    ];
    for (config, expected) in cases {
        let mut story = Story::new(built_in("apps", "v1", "deployments"));
        assert_eq!(story.try_apply("a", config).unwrap_err(), expected);
    }
}

#[test]
fn duplicates_of_a_key_are_one_field() {
    let schema = json!({"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}});
    let story =
        Story::new(custom(schema)).update("u", json!({"metadata": {}, "set": ["a", "b", "a"]}));
    assert_eq!(
        story.fields("u"),
        json!({"f:set": {".": {}, "v:\"a\"": {}, "v:\"b\"": {}}})
    );
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let pod = json!({"metadata": {}, "template": {"metadata": {}, "spec": {"containers": [{"name": "m", "env": env}]}}});
    let mut story = Story::new(built_in("", "v1", "podtemplates")).update("u", pod);
    let container =
        &story.fields("u")["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"m\"}"];
    assert_eq!(
        container["f:env"],
        json!({".": {}, "k:{\"name\":\"A\"}": {}})
    );
    let applied = json!({"template": {"spec": {"containers": [{"name": "m", "env": [{"name": "A", "value": "9"}]}]}}});
    assert_eq!(
        story.try_apply("a", applied).unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"u\" using v1: .template.spec.containers[name=\"m\"].env[name=\"A\"]"
    );
}

#[test]
fn the_annotation_of_client_side_apply_follows_an_apply_by_kubectl() {
    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let before =
        json!({"metadata": {"name": "c", "annotations": {LAST_APPLIED: "{}"}}, "data": {}});
    for (manager, expected) in [
        (
            "kubectl",
            "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"\\u003cb\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\"}}\n",
        ),
        ("other", "{}"),
    ] {
        let story = Story::new(built_in("", "v1", "configmaps"))
            .update("u", before.clone())
            .apply(
                manager,
                json!({"metadata": {"name": "c"}, "data": {"k": "<b>"}}),
            );
        assert_eq!(
            story.object["metadata"]["annotations"][LAST_APPLIED],
            expected
        );
    }
}

#[test]
fn conflicts_list_the_fields_of_one_level_before_those_below() {
    let new = json!({"metadata": {}, "spec": {"a": {"b": 1}, "z": 1, "ports": {"80": 1}}});
    let schema = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut story = Story::new(custom(schema)).update("u", new);
    let refused = story
        .try_apply("a", json!({"spec": {"a": {"b": 2}, "z": 2}}))
        .unwrap_err();
    assert_eq!(
        refused,
        "Apply failed with 2 conflicts: conflicts with \"u\" using x.example/v1:\n- .spec.z\n- .spec.a.b"
    );
}

#[test]
fn a_key_without_value_is_left_out_of_the_name_of_an_element() {
    let schema = json!({"parts": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "side"], "items": {"type": "object",
        "properties": {"name": {"type": "string"}, "side": {"type": "string"}}}}});
    let story = Story::new(custom(schema)).apply("a", json!({"parts": [{"name": "p"}]}));
    assert_eq!(
        story.fields("a"),
        json!({"f:parts": {"k:{\"name\":\"p\"}": {".": {}, "f:name": {}}}})
    );
}

#[test]
fn names_of_elements_are_safe_in_html() {
    let schema = json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}},
    });
    let object = |size| json!({"metadata": {}, "set": ["a&b"], "parts": [{"name": "<0%\u{2028}", "size": size}]});
    let mut story = Story::new(custom(schema)).update("u", object(1));
    let part = json!({".": {}, "f:name": {}, "f:size": {}});
    assert_eq!(
        story.fields("u"),
        json!({
            "f:set": {".": {}, "v:\"a\\u0026b\"": {}},
            "f:parts": {".": {}, "k:{\"name\":\"\\u003c0%\\u2028\"}": part},
        })
    );
    let refused = story.try_apply("a", object(2)).unwrap_err();
    assert!(
        refused.ends_with(": .parts[name=\"<0%\u{2028}\"].size"),
        "{refused}"
    );
}

#[test]
fn a_set_that_was_sent_has_safe_names_of_elements() {
    let sent = json!({"f:<a>": {"k:{\"name\":\"<b>\"}": {}, "v:\"\\u003cc>\"": {}}});
    let safe =
        json!({"f:<a>": {"k:{\"name\":\"\\u003cb\\u003e\"}": {}, "v:\"\\u003cc\\u003e\"": {}}});
    assert_eq!(FieldSet::parse(&sent).unwrap().into_value(), safe);
}

#[test]
fn updates_of_many_writers_join_by_version() {
    let mut managed = Managed::default();
    let resource = built_in("", "v1", "configmaps");
    let versions = Versions {
        resource: &resource,
        part: None,
        convert: &OneVersion,
    };
    let object = |count: usize| {
        let data: serde_json::Map<_, _> = (0..count)
            .map(|at| (format!("k{at}"), json!("1")))
            .collect();
        json!({"metadata": {"uid": "u"}, "data": data})
    };
    for at in 1..=12 {
        let author = Author {
            manager: format!("m{at}"),
            operation: Operation::Update,
            api_version: "v1".to_owned(),
            subresource: "".into(),
        };
        let time = Some(format!("2026-01-01T00:00:{at:02}Z"));
        let old = object(at - 1);
        let new = object(at);
        managed = at_once(updated(managed, versions, &old, &new, author, time)).unwrap();
    }
    let entries = managed.into_value().unwrap();
    let managers: Vec<&str> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers.len(), 10);
    assert_eq!((managers[0], managers[1]), ("ancient-changes", "m4"));
}

#[test]
fn four_thousand_owners_are_merged() {
    let owners = |count: usize| -> Value {
        (0..count)
            .map(|at| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{at}"), "uid": format!("u{at}")}))
            .collect()
    };
    let story = Story::new(built_in("", "v1", "configmaps"))
        .apply("a", json!({"metadata": {"ownerReferences": owners(4000)}}))
        .apply("a", json!({"metadata": {"ownerReferences": owners(3999)}}));
    assert_eq!(story.object["metadata"]["ownerReferences"], owners(3999));
}
