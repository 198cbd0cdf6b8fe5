//! Custom resources: served as defined, including their differences from built-in kinds.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{
    APPLY, MERGE, Outcome, STRATEGIC, TABLE, World, at, equal, escaped, holds, names, text,
};

promises! { "custom":
    custom_resources_are_served_as_defined,
    custom_resources_are_validated_by_their_schema,
    custom_resources_need_a_kind,
    custom_resources_refuse_strategic_patches,
    custom_resources_have_a_status_subresource,
    custom_resources_have_a_scale_subresource,
    custom_resources_need_a_version_for_updates,
    custom_resources_have_selectable_fields,
    custom_resources_have_printer_columns,
    lists_of_custom_resources_merge_by_their_schema,
}

/// The path of a new custom kind. The group is unique in the cluster, because several runs can be
/// active.
struct Widgets {
    path: String,
    group: String,
}

impl Widgets {
    async fn defined(world: &World) -> Result<Self, Broken> {
        let group = format!("{}.example.com", world.namespace);
        let part = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}}});
        let parts = json!({"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
        let size = json!({"type": "integer", "minimum": 1, "default": 3});
        let spec = json!({"type": "object", "properties": {"size": size, "colour": {"type": "string"}, "parts": parts}});
        let status = json!({"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
        let scale = json!({
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector",
        });
        let version = json!({
            "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}, "scale": scale},
            "selectableFields": [{"jsonPath": ".spec.colour"}],
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
            ],
        });
        let named = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["cwdg"]});
        let definition = json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "versions": [version], "names": named},
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        world.delete_definition_at_end(format!("{definitions}/widgets.{group}"));
        world.post(definitions, &definition).await?.created()?;
        let path = world.group(&format!("{group}/v1"), "widgets");
        let widgets = Self { path, group };
        world
            .until(200, async || world.get(&widgets.path).await)
            .await?;
        // With several API servers, one of them may not serve the kind yet.
        world
            .until(201, async || {
                world
                    .post(
                        &format!("{}?dryRun=All", widgets.path),
                        &widgets.widget("a", json!({})),
                    )
                    .await
            })
            .await?;
        Ok(widgets)
    }

    fn widget(&self, name: &str, spec: Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
    }

    async fn made(&self, world: &World, name: &str, spec: Value) -> Result<Value, Broken> {
        world
            .post(&self.path, &self.widget(name, spec))
            .await?
            .created()
            .cloned()
    }
}

async fn custom_resources_are_served_as_defined(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    let made = widgets.made(world, "a", json!({"unknown": "red"})).await?;
    at(&made, "/spec", json!({"size": 3}))?;
    at(&made, "/metadata/generation", json!(1))?;
    let list = world.get(&widgets.path).await?;
    at(list.ok()?, "/kind", json!("WidgetList"))?;
    at(&list.body, "/items/0/kind", json!("Widget"))?;
    let discovered = world.get(&format!("/apis/{}/v1", widgets.group)).await?;
    let resources = discovered.ok()?["resources"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found: Vec<&str> = resources.iter().map(|one| text(one, "/name")).collect();
    equal(
        "resources",
        &json!(found),
        &json!(["widgets", "widgets/status", "widgets/scale"]),
    )
}

async fn custom_resources_are_validated_by_their_schema(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    let small = world
        .post(&widgets.path, &widgets.widget("b", json!({"size": 0})))
        .await?;
    small.invalid("spec.size in body should be greater than or equal to 1")?;
    let wrong = world
        .post(&widgets.path, &widgets.widget("b", json!({"size": "many"})))
        .await?;
    wrong.invalid("spec.size")?;
    let strict = format!("{}?fieldValidation=Strict", widgets.path);
    let unknown = world
        .post(&strict, &widgets.widget("b", json!({"unknown": "red"})))
        .await?;
    unknown.refuses(
        400,
        "BadRequest",
        "strict decoding error: unknown field \"spec.unknown\"",
    )
}

async fn custom_resources_need_a_kind(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    let kindless = world
        .post(&widgets.path, &json!({"metadata": {"name": "b"}}))
        .await?;
    kindless.refuses(400, "BadRequest", "Object 'Kind' is missing")
}

async fn custom_resources_refuse_strategic_patches(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    widgets.made(world, "a", json!({})).await?;
    let path = format!("{}/a", widgets.path);
    let strategic = world.patch(&path, STRATEGIC, &json!({})).await?;
    let accepted = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                    application/merge-patch+json, application/apply-patch+yaml";
    strategic.refuses(415, "UnsupportedMediaType", accepted)?;
    at(
        world
            .merge(&path, &json!({"spec": {"size": 5}}))
            .await?
            .ok()?,
        "/metadata/generation",
        json!(2),
    )?;
    let labelled = world
        .merge(&path, &json!({"metadata": {"labels": {"x": "y"}}}))
        .await?;
    at(labelled.ok()?, "/metadata/generation", json!(2))
}

async fn custom_resources_have_a_status_subresource(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    let mut new = widgets.widget("a", json!({"size": 4}));
    new["status"] = json!({"size": 9});
    let made = world.post(&widgets.path, &new).await?;
    at(made.created()?, "/status", Value::Null)?;
    let path = format!("{}/a", widgets.path);
    let change = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}, "spec": {"size": 7}, "status": {"size": 2}});
    let changed = world
        .patch(&format!("{path}/status"), MERGE, &change)
        .await?;
    at(changed.ok()?, "/status/size", json!(2))?;
    at(&changed.body, "/spec/size", json!(4))?;
    at(&changed.body, "/metadata/labels", Value::Null)?;
    at(&changed.body, "/metadata/annotations", Value::Null)?;
    at(&changed.body, "/metadata/generation", json!(1))?;
    let kept = world.merge(&path, &json!({"status": {"size": 9}})).await?;
    at(kept.ok()?, "/status/size", json!(2))
}

async fn custom_resources_have_a_scale_subresource(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    widgets.made(world, "a", json!({})).await?;
    let path = format!("{}/a", widgets.path);
    let status = json!({"status": {"size": 2, "selector": "app=a"}});
    world
        .merge(&format!("{path}/status"), &status)
        .await?
        .ok()?;
    let scale = world.get(&format!("{path}/scale")).await?;
    at(scale.ok()?, "/kind", json!("Scale"))?;
    at(&scale.body, "/spec", json!({"replicas": 3}))?;
    at(
        &scale.body,
        "/status",
        json!({"replicas": 2, "selector": "app=a"}),
    )?;
    world
        .merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 5}}))
        .await?
        .ok()?;
    at(world.get(&path).await?.ok()?, "/spec/size", json!(5))
}

async fn custom_resources_need_a_version_for_updates(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    let made = widgets.made(world, "a", json!({})).await?;
    let path = format!("{}/a", widgets.path);
    let without = world
        .put(&path, &widgets.widget("a", json!({"size": 4})))
        .await?;
    without
        .invalid("metadata.resourceVersion: Invalid value: 0: must be specified for an update")?;
    world.put(&path, &made).await?.ok().map(|_| ())
}

async fn custom_resources_have_selectable_fields(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    for (name, colour) in [("a", "red"), ("b", "blue")] {
        widgets.made(world, name, json!({"colour": colour})).await?;
    }
    let select = async |selector: &str| {
        world
            .get(&format!(
                "{}?fieldSelector={}",
                widgets.path,
                escaped(selector)
            ))
            .await
    };
    equal(
        "selected by colour",
        &json!(names(select("spec.colour=red").await?.ok()?)),
        &json!(["a"]),
    )?;
    equal(
        "selected by name",
        &json!(names(select("metadata.name=b").await?.ok()?)),
        &json!(["b"]),
    )?;
    select("spec.size=3")
        .await?
        .refuses(400, "BadRequest", "field label not supported: spec.size")
}

async fn custom_resources_have_printer_columns(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    widgets.made(world, "a", json!({"colour": "red"})).await?;
    let table = world.get_as(&format!("{}/a", widgets.path), TABLE).await?;
    let columns = table.ok()?["columnDefinitions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let shown: Vec<Value> = columns
        .iter()
        .map(|one| json!([one["name"], one["type"], one["priority"]]))
        .collect();
    equal(
        "columns",
        &json!(shown),
        &json!([
            ["Name", "string", 0],
            ["Size", "integer", 0],
            ["Colour", "string", 1]
        ]),
    )?;
    at(&table.body, "/rows/0/cells", json!(["a", 3, "red"]))
}

async fn lists_of_custom_resources_merge_by_their_schema(world: &World) -> Outcome {
    let widgets = Widgets::defined(world).await?;
    let apply = async |manager: &str, parts: Value| {
        let path = format!("{}/a?fieldManager={manager}", widgets.path);
        world
            .patch(&path, APPLY, &widgets.widget("a", json!({"parts": parts})))
            .await
    };
    apply("one", json!([{"name": "x", "weight": 1}]))
        .await?
        .created()?;
    let both = apply("two", json!([{"name": "y", "weight": 2}])).await?;
    let parts = both.ok()?["spec"]["parts"].as_array().map_or(0, Vec::len);
    equal("parts of both managers", &json!(parts), &json!(2))?;
    let conflict = apply("two", json!([{"name": "x", "weight": 7}])).await?;
    holds("the element is owned by its manager", conflict.code == 409)?;
    conflict.refuses(409, "Conflict", ".spec.parts[name=\"x\"].weight")
}
