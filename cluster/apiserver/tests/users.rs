//! Authentication in the process and through HTTPS, and authorization by roles and bindings.

use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::{ClientCertificate, User};
use steersman_values::clock::Clock;
use tower::Service;

fn cluster() -> DevCluster {
    DevCluster::new(Clock::runtime(
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(),
    ))
}

fn user(name: &str) -> User {
    User::new(name, [""; 0])
}

fn role(kind: &str, name: &str, rules: Value) -> Value {
    let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules});
    if kind == "Role" {
        role["metadata"]["namespace"] = json!("default");
    }
    role
}

/// A binding in the namespace `default`; a `ClusterRoleBinding` applies everywhere.
fn binding(kind: &str, name: &str, role: (&str, &str), subject: Value) -> Value {
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": [subject],
    });
    if kind == "RoleBinding" {
        binding["metadata"]["namespace"] = json!("default");
    }
    binding
}

/// Code and body of a request of `user` with these headers.
async fn ask(
    cluster: &DevCluster,
    user: User,
    request: (&str, &str),
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Value) {
    let mut built = Request::builder()
        .method(request.0)
        .uri(request.1)
        .header("content-type", "application/json");
    for (name, value) in headers {
        built = built.header(*name, *value);
    }
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let response = cluster
        .service_as(user)
        .call(built.body(Full::new(body.into())).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test(start_paused = true)]
async fn roles_are_bound_to_users_groups_and_accounts() {
    let cluster = cluster();
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    cluster
        .create(role("Role", "r", rules.clone()))
        .await
        .unwrap();
    cluster
        .create(role("ClusterRole", "c", rules))
        .await
        .unwrap();
    let subject = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    cluster
        .create(binding(
            "RoleBinding",
            "users",
            ("Role", "r"),
            subject("User", "jane"),
        ))
        .await
        .unwrap();
    cluster
        .create(binding(
            "RoleBinding",
            "groups",
            ("ClusterRole", "c"),
            subject("Group", "readers"),
        ))
        .await
        .unwrap();
    cluster
        .create(binding(
            "RoleBinding",
            "accounts",
            ("Role", "r"),
            subject("ServiceAccount", "bot"),
        ))
        .await
        .unwrap();
    cluster
        .create(binding(
            "ClusterRoleBinding",
            "all",
            ("ClusterRole", "c"),
            subject("User", "auditor"),
        ))
        .await
        .unwrap();
    cluster
        .create(binding(
            "RoleBinding",
            "dangling",
            ("Role", "gone"),
            subject("User", "lost"),
        ))
        .await
        .unwrap();
    // (user, can list in default, can list in kube-system)
    let cases = [
        (user("jane"), true, false),
        (User::new("joe", ["readers"]), true, false),
        (User::service_account("default", "bot"), true, false),
        (User::service_account("other", "bot"), false, false),
        (user("auditor"), true, true),
        (user("lost"), false, false),
        (User::anonymous(), false, false),
        (User::admin(), true, true),
    ];
    for (user, here, there) in cases {
        for (namespace, allowed) in [("default", here), ("kube-system", there)] {
            let pods: Api<Pod> = Api::namespaced(cluster.client_as(user.clone()), namespace);
            let listed = pods.list(&ListParams::default()).await;
            assert_eq!(
                listed.is_ok(),
                allowed,
                "{} in {namespace}: {listed:?}",
                user.name
            );
        }
    }
    let (_, refused) = ask(
        &cluster,
        user("lost"),
        ("GET", "/api/v1/namespaces/default/pods"),
        &[],
        Value::Null,
    )
    .await;
    let why = "pods is forbidden: User \"lost\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\": \
               RBAC: role.rbac.authorization.k8s.io \"gone\" not found";
    assert_eq!(refused["message"], why);
    let last = cluster.requests().pop().unwrap();
    assert_eq!(
        (&*last.user, &*last.verb, &*last.resource, last.status),
        ("lost", "list", "pods", 403)
    );

    // The removal of a binding applies from the next request.
    cluster
        .delete(&cluster.path("rolebindings", "default", "users"))
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client_as(user("jane")), "default");
    assert!(pods.list(&ListParams::default()).await.is_err());
}

/// As upstream: a controller writes the rules of aggregated roles.
#[tokio::test(start_paused = true)]
async fn an_aggregated_role_allows_only_the_rules_in_it() {
    let cluster = cluster();
    let subject = json!({"kind": "User", "name": "jane"});
    let view = ("ClusterRole", "view");
    cluster
        .create(binding("RoleBinding", "view", view, subject))
        .await
        .unwrap();
    let list = async || {
        let pods = ("GET", "/api/v1/namespaces/default/pods");
        ask(&cluster, user("jane"), pods, &[], Value::Null).await.0
    };
    assert_eq!(list().await, 403);
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    cluster
        .patch(
            &cluster.path("clusterroles", "", "view"),
            json!({ "rules": rules }),
        )
        .await
        .unwrap();
    assert_eq!(list().await, 200);
}

#[tokio::test(start_paused = true)]
async fn users_cannot_grant_rights_that_they_lack() {
    let cluster = cluster();
    let rbac = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]);
    cluster.create(role("Role", "keeper", rbac)).await.unwrap();
    let jane = json!({"kind": "User", "name": "jane"});
    cluster
        .create(binding(
            "RoleBinding",
            "keeper",
            ("Role", "keeper"),
            jane.clone(),
        ))
        .await
        .unwrap();
    let rules = |verbs: Value| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let post = |path: &'static str, body| ask(&cluster, user("jane"), ("POST", path), &[], body);

    let (code, _) = post(roles, role("Role", "own", rules(json!(["get"])))).await;
    assert_eq!(code, 201);
    let (code, refused) = post(
        roles,
        role("Role", "more", rules(json!(["get", "list", "delete"]))),
    )
    .await;
    let why = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is attempting \
               to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"delete\"]}";
    assert_eq!((code, &refused["message"]), (403, &json!(why)));
    let change = json!({"rules": rules(json!(["*"]))});
    let own = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/own";
    let patch = [("content-type", "application/merge-patch+json")];
    let request = Request::builder()
        .method("PATCH")
        .uri(own)
        .header(patch[0].0, patch[0].1);
    let request = request.body(Full::new(change.to_string().into())).unwrap();
    assert_eq!(
        cluster
            .service_as(user("jane"))
            .call(request)
            .await
            .unwrap()
            .status(),
        403
    );

    let (code, _) = post(
        bindings,
        binding("RoleBinding", "b1", ("Role", "own"), jane.clone()),
    )
    .await;
    assert_eq!(code, 201);
    let (code, refused) = post(
        bindings,
        binding(
            "RoleBinding",
            "b2",
            ("ClusterRole", "cluster-admin"),
            jane.clone(),
        ),
    )
    .await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    let (code, _) = post(
        bindings,
        binding("RoleBinding", "b3", ("Role", "nope"), jane.clone()),
    )
    .await;
    assert_eq!(code, 404);

    // The verbs `escalate` and `bind` allow it explicitly.
    let allowed = json!([{
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "clusterroles"], "verbs": ["escalate", "bind"],
    }]);
    cluster
        .create(role("Role", "explicit", allowed))
        .await
        .unwrap();
    cluster
        .create(binding(
            "RoleBinding",
            "explicit",
            ("Role", "explicit"),
            jane.clone(),
        ))
        .await
        .unwrap();
    assert_eq!(
        post(roles, role("Role", "more", rules(json!(["*"]))))
            .await
            .0,
        201
    );
    assert_eq!(
        post(
            bindings,
            binding("RoleBinding", "b2", ("ClusterRole", "cluster-admin"), jane)
        )
        .await
        .0,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn users_with_the_right_can_impersonate_others() {
    let cluster = cluster();
    let whoami = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let body = || json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let headers = [
        ("impersonate-user", "jane"),
        ("impersonate-group", "readers"),
        ("impersonate-extra-a%2fb", "c"),
    ];
    let (code, review) = ask(&cluster, User::admin(), whoami, &headers, body()).await;
    let expected = json!({"username": "jane", "groups": ["readers", "system:authenticated"], "extra": {"a/b": ["c"]}});
    assert_eq!((code, &review["status"]["userInfo"]), (201, &expected));
    let headers = [("impersonate-user", "system:serviceaccount:ns:bot")];
    let (_, review) = ask(&cluster, User::admin(), whoami, &headers, body()).await;
    let groups = json!([
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        "system:authenticated"
    ]);
    assert_eq!(review["status"]["userInfo"]["groups"], groups);

    let (code, refused) = ask(
        &cluster,
        user("joe"),
        whoami,
        &[("impersonate-user", "jane")],
        body(),
    )
    .await;
    let why = "users \"jane\" is forbidden: User \"joe\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
    assert_eq!((code, &refused["message"]), (403, &json!(why)));
    assert_eq!(
        ask(
            &cluster,
            User::admin(),
            whoami,
            &[("impersonate-group", "g")],
            body()
        )
        .await
        .0,
        400
    );
    let pods = ("GET", "/api/v1/namespaces/default/pods");
    assert_eq!(
        ask(
            &cluster,
            User::admin(),
            pods,
            &[("impersonate-user", "jane")],
            Value::Null
        )
        .await
        .0,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_expire_and_become_invalid_with_their_account_or_pod() {
    let cluster = cluster();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}});
    let account = cluster.create(account).await.unwrap();
    let request = |spec: Value| {
        let cluster = cluster.clone();
        async move {
            let path = (
                "POST",
                "/api/v1/namespaces/default/serviceaccounts/bot/token",
            );
            ask(
                &cluster,
                User::admin(),
                path,
                &[],
                json!({"kind": "TokenRequest", "spec": spec}),
            )
            .await
        }
    };
    let review = |token: String, audiences: Value| {
        let cluster = cluster.clone();
        async move {
            let path = ("POST", "/apis/authentication.k8s.io/v1/tokenreviews");
            let body = json!({"spec": {"token": token, "audiences": audiences}});
            ask(&cluster, User::admin(), path, &[], body).await.1["status"].clone()
        }
    };
    let token_of = |answer: &Value| answer["status"]["token"].as_str().unwrap().to_owned();

    let (code, answer) = request(json!({})).await;
    assert_eq!(
        (code, &answer["metadata"]["uid"]),
        (201, &account["metadata"]["uid"]),
        "{answer}"
    );
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "2026-01-01T01:00:00Z"
    );
    let token = token_of(&answer);
    let status = review(token.clone(), json!([])).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(
        status["user"]["username"],
        "system:serviceaccount:default:bot"
    );
    assert_eq!(status["user"]["uid"], account["metadata"]["uid"]);
    let groups = json!([
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated"
    ]);
    assert_eq!(status["user"]["groups"], groups);
    let credential = status["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]
        .as_str()
        .unwrap();
    assert!(credential.starts_with("JTI="), "{credential}");

    let bearer = format!("Bearer {token}");
    let whoami = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let (code, who) = ask(
        &cluster,
        User::anonymous(),
        whoami,
        &[("authorization", &bearer)],
        json!({}),
    )
    .await;
    assert_eq!(
        (code, &who["status"]["userInfo"]["username"]),
        (201, &json!("system:serviceaccount:default:bot"))
    );

    let (_, answer) = request(json!({"audiences": ["vault", "other"]})).await;
    let theirs = token_of(&answer);
    assert_eq!(
        review(theirs.clone(), json!(["vault"])).await["audiences"],
        json!(["vault"])
    );
    let why = "token audiences [\"vault\" \"other\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]";
    assert_eq!(
        review(theirs.clone(), json!([])).await,
        json!({"user": {}, "error": format!("[invalid bearer token, {why}]")})
    );
    let bearer = format!("Bearer {theirs}");
    assert_eq!(
        ask(
            &cluster,
            User::anonymous(),
            whoami,
            &[("authorization", &bearer)],
            json!({})
        )
        .await
        .0,
        401
    );

    let (code, refused) = request(json!({"expirationSeconds": 599})).await;
    let why = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a \
               duration less than 10 minutes";
    assert_eq!((code, &refused["message"]), (422, &json!(why)));

    // A token bound to a pod names the pod, and becomes invalid with it.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create(pod).await.unwrap();
    let (_, answer) =
        request(json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}})).await;
    let bound = token_of(&answer);
    let status = review(bound.clone(), json!([])).await;
    assert_eq!(
        status["user"]["extra"]["authentication.kubernetes.io/pod-name"],
        json!(["p"]),
        "{status}"
    );
    cluster
        .delete(&cluster.path("pods", "default", "p"))
        .await
        .unwrap();
    assert_eq!(
        review(bound, json!([])).await["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );

    // All tokens expire, and become invalid with their account, even if a new account has its name.
    let (_, answer) = request(json!({"expirationSeconds": 600})).await;
    let short = token_of(&answer);
    tokio::time::advance(std::time::Duration::from_secs(11 * 60 + 1)).await;
    assert_eq!(
        review(short, json!([])).await["error"],
        "[invalid bearer token, service account token has expired]"
    );
    cluster
        .delete(&cluster.path("serviceaccounts", "default", "bot"))
        .await
        .unwrap();
    assert_eq!(
        review(token.clone(), json!([])).await["error"],
        "[invalid bearer token, serviceaccounts \"bot\" not found]"
    );
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}});
    cluster.create(account).await.unwrap();
    assert!(
        review(token, json!([])).await["error"]
            .as_str()
            .unwrap()
            .contains("does not match claim")
    );
}

#[tokio::test]
async fn certificates_and_tokens_authenticate_users_over_https() {
    let cluster = cluster();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let subject = json!({"kind": "Group", "name": "readers"});
    cluster
        .create(binding(
            "RoleBinding",
            "view",
            ("ClusterRole", "system:aggregate-to-view"),
            subject,
        ))
        .await
        .unwrap();
    let client = |kubeconfig: Kubeconfig| async {
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
        kube::Client::try_from(config).unwrap()
    };
    let reads_but_does_not_write = |client: kube::Client| async {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.list(&ListParams::default()).await.unwrap();
        let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        let refused = maps.create(&PostParams::default(), &map).await.unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    };
    let certificate = cluster
        .client_certificate(&User::new("jane", ["readers"]))
        .unwrap();
    assert!(!format!("{certificate:?}").contains("PRIVATE"));
    let mut kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig_of("jane", &certificate)).unwrap();
    reads_but_does_not_write(client(kubeconfig.clone()).await).await;
    assert_eq!(cluster.requests().pop().unwrap().user, "jane");

    cluster.add_token("s3cret", User::new("joe", ["readers"]));
    let auth = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    auth.client_certificate_data = None;
    auth.client_key_data = None;
    auth.token = Some("s3cret".to_owned().into());
    reads_but_does_not_write(client(kubeconfig.clone()).await).await;

    kubeconfig.auth_infos[0].auth_info.as_mut().unwrap().token = Some("wrong".to_owned().into());
    let maps: Api<ConfigMap> = Api::default_namespaced(client(kubeconfig).await);
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));

    assert!(
        cluster
            .client_certificate(&User::new("jane", ["a", "b"]))
            .is_err()
    );

    // The server trusts the headers of the front proxy, and ignores those of other clients.
    let proxied = |certificate: ClientCertificate| {
        let kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig_of("proxy", &certificate)).unwrap();
        async move {
            let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
                .header("content-type", "application/json")
                .header("x-remote-user", "joe")
                .header("x-remote-group", "readers");
            let request = request.body(b"{}".to_vec()).unwrap();
            client(kubeconfig)
                .await
                .request::<Value>(request)
                .await
                .unwrap()["status"]["userInfo"]
                .clone()
        }
    };
    let user_info = proxied(cluster.front_proxy_certificate().unwrap()).await;
    assert_eq!(
        user_info,
        json!({"username": "joe", "groups": ["readers", "system:authenticated"]})
    );
    assert_eq!(proxied(certificate).await["username"], "jane");
    let trust = cluster
        .get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        .await
        .unwrap();
    assert_eq!(trust["data"]["client-ca-file"], door.authority_pem());
    door.stop().await;
}
