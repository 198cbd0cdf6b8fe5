//! Admission: namespaces, quotas, limits, priorities and accounts.

use serde_json::{Value, json};

use super::promises;
use super::world::{Answer, KEEP, Outcome, World, at, equal, holds, pod_template, text};

promises! { "admission":
    namespaces_must_exist_for_new_objects,
    namespaces_of_the_system_cannot_be_deleted,
    namespaces_that_terminate_refuse_new_objects,
    quotas_refuse_excess_objects,
    limit_ranges_set_defaults,
    limit_ranges_refuse_excess,
    pods_get_a_priority,
    pods_get_an_account_and_its_token,
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = pod_template(json!({"name": name}));
    json_patch::merge(&mut pod["spec"], &spec);
    pod
}

async fn namespaces_must_exist_for_new_objects(world: &World) -> Outcome {
    let map = json!({"metadata": {"name": "a"}});
    let nowhere = world
        .post("/api/v1/namespaces/conformance-nowhere/configmaps", &map)
        .await?;
    nowhere.refuses(
        404,
        "NotFound",
        "namespaces \"conformance-nowhere\" not found",
    )?;
    let empty = world
        .get("/api/v1/namespaces/conformance-nowhere/configmaps")
        .await?;
    at(empty.ok()?, "/items", json!([]))
}

async fn namespaces_of_the_system_cannot_be_deleted(world: &World) -> Outcome {
    for name in ["default", "kube-system", "kube-public"] {
        let refused = world.delete(&format!("/api/v1/namespaces/{name}")).await?;
        refused.refuses(
            403,
            "Forbidden",
            &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
        )?;
    }
    Ok(())
}

async fn namespaces_that_terminate_refuse_new_objects(world: &World) -> Outcome {
    let keep = json!({"metadata": {"generateName": "conformance-", "finalizers": [KEEP]}});
    let made = world.post("/api/v1/namespaces", &keep).await?;
    let name = text(made.created()?, "/metadata/name");
    let path = format!("/api/v1/namespaces/{name}");
    world.remove_finalizers_at_end(&path);
    let going = world.delete(&path).await?;
    at(going.ok()?, "/status/phase", json!("Terminating"))?;
    holds(
        "deletionTimestamp is set",
        going.body["metadata"]["deletionTimestamp"].is_string(),
    )?;
    let late = world
        .post(
            &format!("{path}/configmaps"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?;
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    late.refuses(403, "Forbidden", &why)?;
    let cause = json!({
        "reason": "NamespaceTerminating", "message": format!("namespace {name} is being terminated"), "field": "metadata.namespace",
    });
    late.has("/details/causes", json!([cause]))
}

async fn quotas_refuse_excess_objects(world: &World) -> Outcome {
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"secrets": "0"}}});
    world
        .post(&world.core("resourcequotas"), &quota)
        .await?
        .created()?;
    // Sets the status for servers without a quota controller.
    let counted = json!({"status": {"hard": {"secrets": "0"}, "used": {"secrets": "0"}}});
    world
        .merge(&world.core("resourcequotas/none/status"), &counted)
        .await?
        .ok()?;
    let secret = json!({"metadata": {"name": "a"}});
    // The admission cache may lag behind the new quota, and then allows everything.
    let refused = world
        .until(403, async || {
            world.post(&world.core("secrets?dryRun=All"), &secret).await
        })
        .await?;
    refused.refuses(403, "Forbidden", "secrets \"a\" is forbidden: ")?;
    let exceeded =
        "exceeded quota: none, requested: secrets=1, used: secrets=0, limited: secrets=0";
    refused.refuses(403, "Forbidden", exceeded)
}

async fn limit_ranges_set_defaults(world: &World) -> Outcome {
    let limit =
        json!({"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}});
    let range = json!({"metadata": {"name": "a"}, "spec": {"limits": [limit]}});
    world
        .post(&world.core("limitranges"), &range)
        .await?
        .created()?;
    let expected = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
    let pod = pod("a", json!({}));
    // The admission cache may lag behind the new LimitRange, and then sets no defaults.
    let limited = |answer: &Answer| {
        answer.code == 201 && answer.body["spec"]["containers"][0]["resources"] != json!({})
    };
    let made = world
        .until_so("limits", limited, async || {
            world.post(&world.core("pods?dryRun=All"), &pod).await
        })
        .await?;
    at(&made.body, "/spec/containers/0/resources", expected)
}

async fn limit_ranges_refuse_excess(world: &World) -> Outcome {
    let range = json!({"metadata": {"name": "a"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    world
        .post(&world.core("limitranges"), &range)
        .await?
        .created()?;
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}});
    let pod = pod("a", json!({"containers": [container]}));
    let refused = world
        .until(403, async || {
            world.post_pod(&world.core("pods?dryRun=All"), &pod).await
        })
        .await?;
    refused.refuses(
        403,
        "Forbidden",
        "maximum cpu usage per Container is 1, but limit is 2",
    )
}

async fn pods_get_a_priority(world: &World) -> Outcome {
    let plain = world.pod("a", json!({})).await?;
    at(&plain, "/spec/priority", json!(0))?;
    at(
        &plain,
        "/spec/preemptionPolicy",
        json!("PreemptLowerPriority"),
    )?;
    let pod = pod("b", json!({"priorityClassName": "conformance-none"}));
    let why = "no PriorityClass with name conformance-none was found";
    world
        .post(&world.core("pods?dryRun=All"), &pod)
        .await?
        .refuses(403, "Forbidden", why)
}

/// Servers without the ServiceAccount plugin, such as envtest, leave pods unchanged.
async fn pods_get_an_account_and_its_token(world: &World) -> Outcome {
    let pod = world.pod("a", json!({})).await?;
    let account = text(&pod, "/spec/serviceAccountName");
    if account.is_empty() {
        return Ok(());
    }
    equal("serviceAccountName", &json!(account), &json!("default"))?;
    at(&pod, "/spec/serviceAccount", json!("default"))?;
    let mounts = pod["spec"]["containers"][0]["volumeMounts"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let token = mounts
        .iter()
        .find(|mount| mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount");
    let token = token.cloned().unwrap_or_default();
    at(&token, "/readOnly", json!(true))?;
    let volumes = pod["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let volume = volumes
        .iter()
        .find(|volume| volume["name"] == token["name"])
        .cloned()
        .unwrap_or_default();
    holds(
        "the token volume is projected",
        volume["projected"]["sources"][0]["serviceAccountToken"].is_object(),
    )?;
    let without = json!({"automountServiceAccountToken": false});
    let bare = world.pod_of("b", json!({}), without).await?;
    at(&bare, "/spec/containers/0/volumeMounts", Value::Null)
}
