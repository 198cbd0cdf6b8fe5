//! Users, rights, admission.

use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Answer, Broken, Outcome, PATIENCE, PAUSE, World, at, holds, promises, text};

promises! { "access":
    roles_and_bindings_decide,
    nobody_grants_what_they_do_not_have,
    access_is_reviewed,
    accounts_get_tokens_that_are_recognized,
    namespaces_must_be_there_and_stay,
    namespaces_go_in_two_steps,
    quotas_are_kept,
    custom_resources_are_served_as_defined,
}

impl World {
    async fn ask_as(&self, user: &str, method: &str, path: &str, body: &Value) -> Result<Answer, Broken> {
        let request = Request::builder().method(method).uri(path).header("impersonate-user", user);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send(request.header("content-type", "application/json"), body).await
    }

    /// Asks again until the answer has that code: a real server's caches may be behind.
    async fn until(&self, code: u16, ask: impl AsyncFn() -> Result<Answer, Broken>) -> Result<Answer, Broken> {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = ask().await?;
            if answer.code == code {
                return Ok(answer);
            }
            if Instant::now() > until {
                return Err(answer.broken(&code.to_string()));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Lets a user do what `rules` say, in the namespace.
    async fn grant(&self, user: &str, rules: Value) -> Outcome {
        let path = |what: &str| self.group("rbac.authorization.k8s.io/v1", what);
        self.post(&path("roles"), &json!({"metadata": {"name": user}, "rules": rules})).await?.created()?;
        let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let role = json!({"kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"metadata": {"name": user}, "roleRef": role, "subjects": [subject]});
        self.post(&path("rolebindings"), &binding).await?.created().map(|_| ())
    }
}

fn reading_maps() -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}])
}

async fn roles_and_bindings_decide(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let refused = world.ask_as("ann", "GET", &maps, &Value::Null).await?;
    let why = format!(
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{}\"",
        world.namespace
    );
    refused.refuses(403, "Forbidden", &why)?;
    world.grant("ann", reading_maps()).await?;
    world.until(200, async || world.ask_as("ann", "GET", &maps, &Value::Null).await).await?;
    let refused = world.ask_as("ann", "DELETE", &format!("{maps}/a"), &Value::Null).await?;
    refused.refuses(403, "Forbidden", "configmaps \"a\" is forbidden: User \"ann\" cannot delete resource \"configmaps\"")
}

async fn nobody_grants_what_they_do_not_have(world: &World) -> Outcome {
    let roles = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]});
    world.grant("bob", json!([roles, reading_maps()[0]])).await?;
    let path = world.group("rbac.authorization.k8s.io/v1", "roles");
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    world.until(201, async || world.ask_as("bob", "POST", &path, &role("less", reading_maps())).await).await?;
    let more = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let refused = world.ask_as("bob", "POST", &path, &role("more", more)).await?;
    refused.refuses(403, "Forbidden", "is attempting to grant RBAC permissions not currently held")
}

async fn access_is_reviewed(world: &World) -> Outcome {
    world.grant("ann", reading_maps()).await?;
    let review = async |verb: &str| {
        let attributes = json!({"namespace": world.namespace, "verb": verb, "resource": "configmaps"});
        let review = json!({"spec": {"user": "ann", "resourceAttributes": attributes}});
        world.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await
    };
    let until = Instant::now() + PATIENCE;
    while review("list").await?.created()?["status"]["allowed"] != true {
        holds("what is granted is allowed", Instant::now() < until)?;
        tokio::time::sleep(PAUSE).await;
    }
    at(review("delete").await?.created()?, "/status/allowed", json!(false))?;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = world.ask_as("ann", "POST", path, &json!({})).await?;
    at(me.created()?, "/status/userInfo/username", json!("ann"))
}

async fn accounts_get_tokens_that_are_recognized(world: &World) -> Outcome {
    let made = world.post(&world.core("serviceaccounts"), &json!({"metadata": {"name": "robot"}})).await?;
    let path = world.core("serviceaccounts/robot/token");
    let short = world.post(&path, &json!({"spec": {"expirationSeconds": 60}})).await?;
    short.refuses(422, "Invalid", "may not specify a duration less than 10 minutes")?;
    let answer = world.post(&path, &json!({})).await?;
    let token = text(answer.created()?, "/status/token");
    let review = async |token: &str| {
        let review = json!({"spec": {"token": token}});
        world.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await
    };
    let known = review(token).await?;
    at(known.created()?, "/status/authenticated", json!(true))?;
    let name = format!("system:serviceaccount:{}:robot", world.namespace);
    at(&known.body, "/status/user/username", json!(name))?;
    at(&known.body, "/status/user/uid", made.created()?["metadata"]["uid"].clone())?;
    let unknown = review("nonsense").await?;
    at(unknown.created()?, "/status/authenticated", Value::Null)?;
    let missing = world.post(&world.core("serviceaccounts/nobody/token"), &json!({})).await?;
    missing.refuses(404, "NotFound", "serviceaccounts \"nobody\" not found")
}

async fn namespaces_must_be_there_and_stay(world: &World) -> Outcome {
    let map = json!({"metadata": {"name": "a"}});
    let nowhere = world.post("/api/v1/namespaces/conformance-nowhere/configmaps", &map).await?;
    nowhere.refuses(404, "NotFound", "namespaces \"conformance-nowhere\" not found")?;
    let system = world.delete("/api/v1/namespaces/kube-system").await?;
    system.refuses(403, "Forbidden", "this namespace may not be deleted")
}

async fn namespaces_go_in_two_steps(world: &World) -> Outcome {
    let keep = json!({"metadata": {"generateName": "conformance-", "finalizers": ["conformance.example.com/keep"]}});
    let made = world.post("/api/v1/namespaces", &keep).await?;
    let path = format!("/api/v1/namespaces/{}", text(made.created()?, "/metadata/name"));
    let going = world.delete(&path).await?;
    at(going.ok()?, "/status/phase", json!("Terminating"))?;
    let late = world.post(&format!("{path}/configmaps"), &json!({"metadata": {"name": "a"}})).await?;
    let refused = late.refuses(403, "Forbidden", "because it is being terminated");
    let freed = world.patch(&path, super::MERGE, &json!({"metadata": {"finalizers": null}})).await?;
    holds("the finalizer can be taken away", freed.code == 200)?;
    refused?;
    late.has("/details/causes/0/reason", json!("NamespaceTerminating"))
}

async fn quotas_are_kept(world: &World) -> Outcome {
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"secrets": "0"}}});
    world.post(&world.core("resourcequotas"), &quota).await?.created()?;
    let secret = json!({"metadata": {"generateName": "a-"}});
    // Before it was counted for the first time, everything is refused, in other words.
    let refused = world.until(403, async || world.post(&world.core("secrets"), &secret).await).await?;
    refused.refuses(403, "Forbidden", "quota: none")
}

async fn custom_resources_are_served_as_defined(world: &World) -> Outcome {
    // Its name is unique in the cluster, because several runs may be under way.
    let group = format!("{}.example.com", world.namespace);
    let size = json!({"type": "integer", "minimum": 1, "default": 3});
    let spec = json!({"type": "object", "properties": {"size": size}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    let definition = json!({
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.post(definitions, &definition).await?.created()?;
    let outcome = served_as_defined(world, &group).await;
    world.delete(&format!("{definitions}/widgets.{group}")).await?.ok()?;
    outcome
}

async fn served_as_defined(world: &World, group: &str) -> Outcome {
    let path = world.group(&format!("{group}/v1"), "widgets");
    world.until(200, async || world.get(&path).await).await?;
    let widget = |name: &str, spec: Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": name}, "spec": spec});
    let made = world.until(201, async || world.post(&path, &widget("a", json!({"colour": "red"}))).await).await?;
    at(&made.body, "/spec", json!({"size": 3}))?;
    at(&made.body, "/metadata/generation", json!(1))?;
    let small = world.post(&path, &widget("b", json!({"size": 0}))).await?;
    small.refuses(422, "Invalid", "spec.size in body should be greater than or equal to 1")?;
    let kindless = world.post(&path, &json!({"metadata": {"name": "b"}})).await?;
    kindless.refuses(400, "BadRequest", "Object 'Kind' is missing")?;
    let strategic = world.patch(&format!("{path}/a"), super::STRATEGIC, &json!({})).await?;
    strategic.refuses(415, "UnsupportedMediaType", "application/apply-patch+yaml")
}
