//! Authorization by roles, impersonation, ServiceAccount tokens and reviews.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Answer, Outcome, World, at, equal, holds, text};

promises! { "access":
    roles_and_bindings_decide,
    each_verb_needs_its_own_permission,
    subresources_need_their_own_permission,
    apply_of_a_missing_object_needs_the_create_permission,
    roles_cannot_grant_more_than_their_author_has,
    subject_access_reviews_answer,
    self_subject_reviews_answer,
    service_accounts_get_tokens,
    tokens_have_a_lifetime_and_identify_the_account,
    token_reviews_answer,
    tokens_end_with_their_bound_object,
}

impl World {
    /// Grants a user `rules` in the namespace of the check.
    async fn grant(&self, user: &str, rules: Value) -> Outcome {
        let path = |resource: &str| self.group("rbac.authorization.k8s.io/v1", resource);
        self.post(
            &path("roles"),
            &json!({"metadata": {"name": user}, "rules": rules}),
        )
        .await?
        .created()?;
        let subject =
            json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let role = json!({"kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"metadata": {"name": user}, "roleRef": role, "subjects": [subject]});
        self.post(&path("rolebindings"), &binding)
            .await?
            .created()
            .map(|_| ())
    }
}

/// Rules with these verbs on ConfigMaps.
fn rules(verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])
}

async fn roles_and_bindings_decide(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let refused = world.ask_as("ann", "GET", &maps, &Value::Null).await?;
    let why = format!(
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{}\"",
        world.namespace
    );
    refused.refuses(403, "Forbidden", &why)?;
    refused.has("/details", json!({"kind": "configmaps"}))?;
    world.grant("ann", rules(&["get", "list"])).await?;
    world
        .until(200, async || {
            world.ask_as("ann", "GET", &maps, &Value::Null).await
        })
        .await?;
    let refused = world
        .ask_as("ann", "DELETE", &format!("{maps}/a"), &Value::Null)
        .await?;
    refused.refuses(
        403,
        "Forbidden",
        "configmaps \"a\" is forbidden: User \"ann\" cannot delete resource \"configmaps\"",
    )?;
    let everywhere = world
        .ask_as("ann", "GET", "/api/v1/configmaps", &Value::Null)
        .await?;
    everywhere.refuses(403, "Forbidden", "in API group \"\" at the cluster scope")
}

async fn each_verb_needs_its_own_permission(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let map = world.core("configmaps/a");
    world.map("a", json!({}), json!({})).await?;
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let cases = [
        ("get", "GET", map.clone(), Value::Null),
        ("list", "GET", maps.clone(), Value::Null),
        (
            "watch",
            "GET",
            format!("{maps}?watch=1&timeoutSeconds=1"),
            Value::Null,
        ),
        (
            "create",
            "POST",
            format!("{maps}?dryRun=All"),
            json!({"metadata": {"name": "b"}}),
        ),
        (
            "update",
            "PUT",
            map.clone(),
            json!({"metadata": {"name": "a"}}),
        ),
        ("patch", "PATCH", format!("{map}?fieldManager=m"), applied),
        ("delete", "DELETE", format!("{map}?dryRun=All"), Value::Null),
        (
            "deletecollection",
            "DELETE",
            format!("{maps}?dryRun=All"),
            Value::Null,
        ),
    ];
    for (verb, method, path, body) in &cases {
        let refused = world.ask_as(verb, method, path, body).await?;
        refused.refuses(
            403,
            "Forbidden",
            &format!("User \"{verb}\" cannot {verb} resource \"configmaps\""),
        )?;
        world.grant(verb, rules(&[verb])).await?;
    }
    for (verb, method, path, body) in &cases {
        let code = if *verb == "create" { 201 } else { 200 };
        world
            .until(code, async || world.ask_as(verb, method, path, body).await)
            .await?;
    }
    Ok(())
}

async fn subresources_need_their_own_permission(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    world
        .grant(
            "ann",
            json!([{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"]}]),
        )
        .await?;
    let status = world.core("pods/a/status");
    world
        .until(200, async || {
            world.ask_as("ann", "GET", &status, &Value::Null).await
        })
        .await?;
    let refused = world
        .ask_as("ann", "GET", &world.core("pods/a"), &Value::Null)
        .await?;
    refused.refuses(
        403,
        "Forbidden",
        "pods \"a\" is forbidden: User \"ann\" cannot get resource \"pods\"",
    )
}

async fn apply_of_a_missing_object_needs_the_create_permission(world: &World) -> Outcome {
    world.grant("ann", rules(&["patch"])).await?;
    world.map("a", json!({}), json!({})).await?;
    let apply = async |name: &str| {
        let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let path = world.core(&format!("configmaps/{name}?fieldManager=m"));
        world.ask_as("ann", "PATCH", &path, &applied).await
    };
    world.until(200, async || apply("a").await).await?;
    apply("b").await?.refuses(
        403,
        "Forbidden",
        "User \"ann\" cannot create resource \"configmaps\"",
    )
}

async fn roles_cannot_grant_more_than_their_author_has(world: &World) -> Outcome {
    let roles = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]});
    let reading = rules(&["get", "list"]);
    world.grant("bob", json!([roles, reading[0]])).await?;
    let path = world.group("rbac.authorization.k8s.io/v1", "roles");
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    world
        .until(201, async || {
            world
                .ask_as("bob", "POST", &path, &role("less", reading.clone()))
                .await
        })
        .await?;
    let more = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let refused = world
        .ask_as("bob", "POST", &path, &role("more", more))
        .await?;
    refused.refuses(
        403,
        "Forbidden",
        "is attempting to grant RBAC permissions not currently held",
    )
}

/// Repeats an access review until it is allowed. Caches of a real server may lag behind new roles.
async fn allowed(world: &World, ask: impl AsyncFn() -> Result<Answer, Broken>) -> Outcome {
    world
        .until_so(
            "status.allowed",
            |answer| answer.body["status"]["allowed"] == true,
            ask,
        )
        .await?
        .created()
        .map(|_| ())
}

async fn subject_access_reviews_answer(world: &World) -> Outcome {
    world.grant("ann", rules(&["get", "list"])).await?;
    let cluster = "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned();
    let local = world.group("authorization.k8s.io/v1", "localsubjectaccessreviews");
    let review = |verb: &str, user: &Value| {
        let attributes =
            json!({"namespace": world.namespace, "verb": verb, "resource": "configmaps"});
        let mut review = json!({"metadata": {"namespace": world.namespace}, "spec": {"resourceAttributes": attributes}});
        json_patch::merge(&mut review["spec"], user);
        review
    };
    for path in [cluster, local] {
        let mut ann = review("list", &json!({"user": "ann"}));
        let mut denied = review("delete", &json!({"user": "ann"}));
        let mut master = review(
            "delete",
            &json!({"user": "cy", "groups": ["system:masters"]}),
        );
        if !path.contains("/namespaces/") {
            for review in [&mut ann, &mut denied, &mut master] {
                review["metadata"] = json!({});
            }
        }
        allowed(world, async || world.post(&path, &ann).await).await?;
        at(
            world.post(&path, &denied).await?.created()?,
            "/status/allowed",
            json!(false),
        )?;
        at(
            world.post(&path, &master).await?.created()?,
            "/status/allowed",
            json!(true),
        )?;
    }
    Ok(())
}

async fn self_subject_reviews_answer(world: &World) -> Outcome {
    world.grant("ann", rules(&["list"])).await?;
    let attributes =
        json!({"namespace": world.namespace, "verb": "list", "resource": "configmaps"});
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    allowed(world, async || {
        world.ask_as("ann", "POST", path, &review).await
    })
    .await?;
    let denied = world.ask_as("bob", "POST", path, &review).await?;
    at(denied.created()?, "/status/allowed", json!(false))?;
    let me = world
        .ask_as(
            "ann",
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &json!({}),
        )
        .await?;
    at(me.created()?, "/status/userInfo/username", json!("ann"))
}

/// Creates a ServiceAccount. Returns it and the path of its token subresource.
async fn account(world: &World, name: &str) -> Result<(Value, String), Broken> {
    let made = world
        .post(
            &world.core("serviceaccounts"),
            &json!({"metadata": {"name": name}}),
        )
        .await?;
    Ok((
        made.created()?.clone(),
        world.core(&format!("serviceaccounts/{name}/token")),
    ))
}

async fn service_accounts_get_tokens(world: &World) -> Outcome {
    let (made, path) = account(world, "robot").await?;
    let short = world
        .post(&path, &json!({"spec": {"expirationSeconds": 60}}))
        .await?;
    short.invalid("may not specify a duration less than 10 minutes")?;
    let answer = world.post(&path, &json!({})).await?;
    holds(
        "the answer has a token",
        text(answer.created()?, "/status/token").split('.').count() == 3,
    )?;
    holds(
        "the token expires",
        !text(&answer.body, "/status/expirationTimestamp").is_empty(),
    )?;
    at(&answer.body, "/metadata/name", json!("robot"))?;
    at(&answer.body, "/metadata/namespace", json!(world.namespace))?;
    at(&answer.body, "/spec/expirationSeconds", json!(3600))?;
    at(
        &answer.body,
        "/metadata/uid",
        made["metadata"]["uid"].clone(),
    )?;
    let missing = world
        .post(&world.core("serviceaccounts/missing/token"), &json!({}))
        .await?;
    missing.refuses(404, "NotFound", "serviceaccounts \"missing\" not found")
}

async fn tokens_have_a_lifetime_and_identify_the_account(world: &World) -> Outcome {
    let (made, path) = account(world, "robot").await?;
    let answer = world
        .post(
            &path,
            &json!({"spec": {"expirationSeconds": 1200, "audiences": ["someone"]}}),
        )
        .await?;
    let token = text(answer.created()?, "/status/token");
    let claims = token.split('.').nth(1).unwrap_or_default();
    let claims = URL_SAFE_NO_PAD
        .decode(claims)
        .map_err(|error| Broken(error.to_string()))?;
    let claims: Value =
        serde_json::from_slice(&claims).map_err(|error| Broken(error.to_string()))?;
    at(
        &claims,
        "/sub",
        json!(format!("system:serviceaccount:{}:robot", world.namespace)),
    )?;
    at(&claims, "/aud", json!(["someone"]))?;
    let time = |claim: &str| claims[claim].as_i64().unwrap_or_default();
    equal(
        "lifetime in seconds",
        &json!(time("exp") - time("iat")),
        &json!(1200),
    )?;
    equal("nbf equals iat", &claims["nbf"], &claims["iat"])?;
    holds(
        "iss and jti are set",
        claims["iss"].is_string() && claims["jti"].is_string(),
    )?;
    let account = json!({"name": "robot", "uid": made["metadata"]["uid"]});
    let expected = json!({"namespace": world.namespace, "serviceaccount": account});
    super::world::includes("kubernetes.io claims", &claims["kubernetes.io"], &expected)
}

async fn review(world: &World, token: &str) -> Result<Answer, Broken> {
    let review = json!({"spec": {"token": token}});
    world
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await
}

async fn token_reviews_answer(world: &World) -> Outcome {
    let (made, path) = account(world, "robot").await?;
    let answer = world.post(&path, &json!({})).await?;
    let known = review(world, text(answer.created()?, "/status/token")).await?;
    at(known.created()?, "/status/authenticated", json!(true))?;
    let user = &known.body["status"]["user"];
    at(
        user,
        "/username",
        json!(format!("system:serviceaccount:{}:robot", world.namespace)),
    )?;
    at(user, "/uid", made["metadata"]["uid"].clone())?;
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", world.namespace),
        "system:authenticated".to_owned(),
    ];
    at(user, "/groups", json!(groups))?;
    let id = &user["extra"]["authentication.kubernetes.io/credential-id"][0];
    holds(
        "the credential id is a JTI",
        id.as_str().is_some_and(|id| id.starts_with("JTI=")),
    )?;
    let unknown = review(world, "nonsense").await?;
    at(unknown.created()?, "/status/authenticated", Value::Null)?;
    holds(
        "status.error has the reason",
        text(&unknown.body, "/status/error").contains("invalid bearer token"),
    )
}

async fn tokens_end_with_their_bound_object(world: &World) -> Outcome {
    let (_, path) = account(world, "robot").await?;
    let secret = world
        .post(&world.core("secrets"), &json!({"metadata": {"name": "a"}}))
        .await?
        .created()?
        .clone();
    let bound = json!({"kind": "Secret", "apiVersion": "v1", "name": "a", "uid": secret["metadata"]["uid"]});
    let of_secret = world
        .post(&path, &json!({"spec": {"boundObjectRef": bound}}))
        .await?;
    let of_account = world.post(&path, &json!({})).await?;
    let tokens = [
        text(of_secret.created()?, "/status/token"),
        text(of_account.created()?, "/status/token"),
    ];
    for token in tokens {
        at(
            review(world, token).await?.created()?,
            "/status/authenticated",
            json!(true),
        )?;
    }
    for (token, path) in tokens
        .iter()
        .zip([world.core("secrets/a"), world.core("serviceaccounts/robot")])
    {
        world.delete(&path).await?.ok()?;
        let ended = |answer: &Answer| answer.body["status"]["authenticated"] != true;
        world
            .until_so("an invalid token", ended, async || {
                review(world, token).await
            })
            .await?
            .created()?;
    }
    Ok(())
}
