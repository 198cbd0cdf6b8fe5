//! Custom resources and `kubectl explain`.

use crate::harness::Cluster;

/// A definition of widgets, in a group of its own, because definitions are cluster-scoped and tests
/// run concurrently.
fn definition(group: &str) -> String {
    format!(
        r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: widgets.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: widgets, singular: widget, kind: Widget, shortNames: [wdg], categories: [all]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {{}}
      scale: {{specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    selectableFields: [{{jsonPath: .spec.color}}]
    additionalPrinterColumns:
    - {{name: Size, type: integer, jsonPath: .spec.size}}
    - {{name: Color, type: string, jsonPath: .spec.color, priority: 1}}
    - {{name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget of this test.
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {{type: integer, minimum: 1, maximum: 9, description: How large the widget is.}}
              color: {{type: string, enum: [red, blue], default: red}}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {{name: {{type: string}}, weight: {{type: integer}}}}
          status: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"#
    )
}

fn widget(group: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

/// A cluster that serves widgets, and their group.
fn with_widgets() -> Option<(Cluster, String)> {
    let cluster = Cluster::start()?;
    let group = format!("{}.example.com", cluster.namespace());
    cluster.apply(&definition(&group));
    cluster.kubectl(&format!(
        "wait --for=condition=Established --timeout=60s crd/widgets.{group}"
    ));
    Some((cluster, group))
}

#[test]
fn custom_resources_are_created_shown_scaled_patched_replaced_and_deleted() {
    let Some((cluster, group)) = with_widgets() else {
        return;
    };
    let widgets = format!("widgets.{group}");
    cluster.apply(&widget(&group, "small", "{size: 2}"));
    cluster.apply(&widget(&group, "large", "{size: 9, color: blue}"));

    assert!(
        cluster
            .kubectl(&format!("get crd {widgets}"))
            .contains("CREATED AT")
    );
    let table = cluster.kubectl(&format!("get {widgets}"));
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(table.lines().next().unwrap()),
        ["NAME", "SIZE", "READY"],
        "{table}"
    );
    assert_eq!(
        words(table.lines().nth(1).unwrap()),
        ["large", "9"],
        "{table}"
    );
    let wide = cluster.kubectl(&format!("get {widgets} small -o wide --no-headers"));
    assert_eq!(words(&wide), ["small", "2", "red"], "{wide}");
    assert_eq!(
        cluster.get(
            &format!("{widgets} --field-selector spec.color=blue"),
            "{.items[*].metadata.name}"
        ),
        "large"
    );
    assert!(
        cluster.kubectl("get all").contains("widget"),
        "the category all includes widgets"
    );

    cluster.kubectl(&format!("scale {widgets} small --replicas=5"));
    assert_eq!(
        cluster.get(
            &format!("{widgets} small"),
            "{.spec.size} {.metadata.generation}"
        ),
        "5 2"
    );
    let ready = r#"{"status":{"size":5,"conditions":[{"type":"Ready","status":"True"}]}}"#;
    cluster.kubectl_words(&[
        "patch",
        &widgets,
        "small",
        "--subresource=status",
        "--type=merge",
        "-p",
        ready,
    ]);
    cluster.kubectl(&format!(
        "wait --for=condition=Ready --timeout=60s {widgets}/small"
    ));
    assert!(
        cluster
            .kubectl(&format!("get {widgets} small --no-headers"))
            .contains("True")
    );
    cluster.kubectl_words(&[
        "patch",
        &widgets,
        "small",
        "--type=json",
        "-p",
        r#"[{"op":"replace","path":"/spec/size","value":6}]"#,
    ]);

    // `kubectl edit` also sends the whole object with its resource version.
    let read = cluster.kubectl(&format!("get {widgets} small -o yaml"));
    let replaced = cluster.kubectl_file("replace -f", &read.replace("color: red", "color: blue"));
    assert!(
        replaced.status.success(),
        "{}",
        String::from_utf8_lossy(&replaced.stderr)
    );
    assert_eq!(
        cluster.get(
            &format!("{widgets} small"),
            "{.spec.color} {.spec.size} {.status.size}"
        ),
        "blue 6 5"
    );
    let stale = cluster.kubectl_file("replace -f", &read);
    assert!(String::from_utf8_lossy(&stale.stderr).contains("the object has been modified"));

    // (why, manifest, part of the error)
    let cases = [
        (
            "range",
            widget(&group, "bad", "{size: 10}"),
            "spec.size in body should be less than or equal to 9",
        ),
        (
            "enum",
            widget(&group, "bad", "{size: 1, color: pink}"),
            "supported values: \"red\", \"blue\"",
        ),
        (
            "missing",
            widget(&group, "bad", "{}"),
            "spec.size: Required value",
        ),
        (
            "type",
            widget(&group, "bad", "{size: many}"),
            "spec.size in body must be of type integer: \"string\"",
        ),
        (
            "unknown",
            widget(&group, "bad", "{size: 1, sise: 2}"),
            "unknown field \"spec.sise\"",
        ),
        (
            "twice",
            widget(&group, "bad", "{size: 1, parts: [{name: a}, {name: a}]}"),
            "Duplicate value: {\"name\":\"a\"}",
        ),
    ];
    for (why, manifest, words) in cases {
        let refused = cluster.kubectl_file("apply -f", &manifest);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && error.contains(words),
            "{why}: {error}"
        );
    }

    cluster.kubectl(&format!("delete crd {widgets}"));
    let gone = cluster.try_kubectl(&format!("get {widgets}"));
    assert!(
        String::from_utf8_lossy(&gone.stderr).contains("the server doesn't have a resource type")
    );
}

#[test]
fn server_side_apply_merges_custom_resources_by_their_schema() {
    let Some((cluster, group)) = with_widgets() else {
        return;
    };
    let widgets = format!("widgets.{group}");
    let apply = |manager: &str, spec: &str| {
        cluster.kubectl_file(
            &format!("apply --server-side --field-manager={manager} -f"),
            &widget(&group, "w", spec),
        )
    };
    let ok = |output: std::process::Output| {
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        )
    };
    ok(apply("one", "{size: 1, parts: [{name: a, weight: 1}]}"));
    ok(apply("two", "{size: 1, parts: [{name: b, weight: 2}]}"));
    assert_eq!(
        cluster.get(&format!("{widgets} w"), "{.spec.parts[*].name}"),
        "a b"
    );
    let conflict = apply("two", "{size: 3, parts: [{name: b}]}");
    assert!(
        String::from_utf8_lossy(&conflict.stderr).contains("conflict with \"one\": .spec.size"),
        "{conflict:?}"
    );
    ok(apply("one", "{size: 1}"));
    assert_eq!(
        cluster.get(&format!("{widgets} w"), "{.spec.parts[*].name}"),
        "b",
        "a list entry without an applier is removed"
    );

    let wanted = widget(&group, "w", "{size: 1, color: blue}");
    let differs = cluster.kubectl_file("diff --server-side --force-conflicts -f", &wanted);
    let shown = String::from_utf8_lossy(&differs.stdout);
    assert!(
        differs.status.code() == Some(1) && shown.contains("+  color: blue"),
        "{differs:?}"
    );
    cluster.kubectl(&format!("delete crd {widgets}"));
}

#[test]
fn built_in_and_custom_fields_are_explained() {
    let Some((cluster, group)) = with_widgets() else {
        return;
    };
    // A real API server publishes the schema of a new type with a delay.
    cluster.eventually("explain widgets", |said| said.contains("widget"));
    // (field, part of the output)
    let cases = [
        ("deployment.spec.strategy", "Rolling update config params"),
        ("deployment.spec.strategy", "<DeploymentStrategy>"),
        ("deployment.spec", "-required-"),
        ("pod --recursive", "livenessProbe"),
        ("pod.spec.containers.resources", "<map[string]Quantity>"),
        ("services --api-version=v1", "VERSION:    v1"),
        ("crd.spec.versions.schema", "openAPIV3Schema"),
        // kubectl looks up unknown names in its discovery cache, and refreshes the cache only then.
        // Short names work after the refresh, so they come last.
        ("widgets", "A widget of this test."),
        ("wdg.spec.size", "How large the widget is."),
        ("wdg.spec.parts.weight", "<integer>"),
    ];
    for (what, words) in cases {
        let said = cluster.kubectl(&format!("explain {what}"));
        assert!(said.contains(words), "explain {what}: {said}");
    }
    cluster.kubectl(&format!("delete crd widgets.{group}"));
}

#[test]
fn client_side_apply_merges_lists_by_their_merge_keys() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let pod = |containers: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 0\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: {{containers: {containers}}}\n"
        )
    };
    cluster.apply(&pod("[{name: main, image: a}, {name: side, image: b}]"));
    // Another client adds a container, which an apply must keep.
    let more = r#"{"spec":{"template":{"spec":{"containers":[{"name":"more","image":"c"}]}}}}"#;
    cluster.kubectl_words(&["patch", "deployment", "web", "-p", more]);
    cluster.apply(&pod("[{name: main, image: z}]"));
    let names = cluster.get("deployment web", "{.spec.template.spec.containers[*].name}");
    let mut names: Vec<&str> = names.split(' ').collect();
    names.sort_unstable();
    assert_eq!(names, ["main", "more"]);
    let differs = cluster.kubectl_file("diff -f", &pod("[{name: main, image: other}]"));
    let shown = String::from_utf8_lossy(&differs.stdout);
    assert!(
        differs.status.code() == Some(1) && shown.contains("image: other"),
        "{differs:?}"
    );
}

/// A ConfigMap that the widget `owner` owns, and that blocks the deletion of its owner.
fn owned_map(cluster: &Cluster, group: &str, name: &str, owner: &str) -> String {
    let uid = cluster.get(&format!("widgets.{group} {owner}"), "{.metadata.uid}");
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  ownerReferences:\n  - {{apiVersion: {group}/v1, kind: Widget, name: {owner}, uid: {uid}, blockOwnerDeletion: true}}\n"
    )
}

#[test]
fn custom_resources_are_deleted_with_every_propagation_policy_and_with_their_definition() {
    let Some((cluster, group)) = with_widgets() else {
        return;
    };
    let widgets = format!("widgets.{group}");
    let is_empty = |text: &str| text.is_empty();
    let left =
        "get configmaps --field-selector metadata.name=part -o jsonpath={.items[*].metadata.name}";
    let assemble = || {
        cluster.apply(&widget(&group, "whole", "{size: 1}"));
        cluster.apply(&owned_map(&cluster, &group, "part", "whole"));
    };
    // The garbage collector discovers a new type within half a minute.
    assemble();
    cluster.kubectl(&format!(
        "delete {widgets} whole --cascade=foreground --timeout=90s"
    ));
    assert_eq!(cluster.kubectl(left), "", "the dependent is deleted first");
    assemble();
    cluster.kubectl(&format!(
        "delete {widgets} whole --cascade=background --timeout=60s"
    ));
    cluster.eventually(left, is_empty);
    assemble();
    cluster.kubectl(&format!(
        "delete {widgets} whole --cascade=orphan --timeout=60s"
    ));
    assert_eq!(
        cluster.get(
            "configmap part",
            "{.metadata.name} {.metadata.ownerReferences}"
        ),
        "part "
    );
    cluster.kubectl("delete configmap part");
    assemble();
    let said = cluster.kubectl(&format!("delete crd {widgets} --timeout=60s"));
    assert!(said.contains("deleted"), "{said}");
    cluster.eventually(left, is_empty);
}

#[test]
fn a_terminating_namespace_names_the_custom_resources_it_waits_for() {
    let Some((cluster, group)) = with_widgets() else {
        return;
    };
    let widgets = format!("widgets.{group}");
    let namespace = cluster.namespace().to_owned();
    cluster.apply(&widget(&group, "loose", "{size: 1}"));
    cluster.apply(&widget(&group, "held", "{size: 1}"));
    let patch = |finalizers: &str| format!("{{\"metadata\":{{\"finalizers\":{finalizers}}}}}");
    cluster.kubectl_words(&[
        "patch",
        &widgets,
        "held",
        "--type=merge",
        "-p",
        &patch("[\"example.com/hold\"]"),
    ]);
    cluster.kubectl(&format!("delete namespace {namespace} --wait=false"));
    let message = |kind: &str| {
        format!(
            "get namespace {namespace} -o jsonpath={{.status.conditions[?(@.type==\"{kind}\")].message}}"
        )
    };
    let held = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances";
    cluster.eventually(&message("NamespaceFinalizersRemaining"), |said| {
        said == held
    });
    let remaining = cluster.kubectl(&message("NamespaceContentRemaining"));
    assert_eq!(
        remaining,
        format!("Some resources are remaining: {widgets} has 1 resource instances")
    );
    let created = cluster.try_kubectl("create configmap late");
    assert!(
        String::from_utf8_lossy(&created.stderr).contains("because it is being terminated"),
        "{created:?}"
    );
    cluster.kubectl_words(&[
        "patch",
        &widgets,
        "held",
        "--type=merge",
        "-p",
        &patch("null"),
    ]);
    cluster.kubectl(&format!(
        "wait --for=delete namespace/{namespace} --timeout=60s"
    ));
    cluster.kubectl(&format!("delete crd {widgets}"));
}
