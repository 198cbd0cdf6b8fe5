//! Users, permissions, tokens and quotas under the commands of the real kubectl.

use std::process::Output;

use crate::harness::Cluster;

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout)
        .expect("kubectl prints UTF-8")
        .trim()
}

/// The error of a command that must fail.
fn refusal(cluster: &Cluster, words: &str) -> String {
    let output = cluster.try_kubectl(words);
    assert!(
        !output.status.success(),
        "kubectl {words}: {}",
        stdout(&output)
    );
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn roles_are_granted_checked_and_revoked() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let can = |words: &str| stdout(&cluster.try_kubectl(&format!("auth can-i {words}"))).to_owned();
    assert_eq!(can("delete pods"), "yes");
    assert_eq!(can("list pods --as=ann"), "no");
    let why = refusal(&cluster, "get pods --as=ann");
    let expected = format!(
        "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"{}\"",
        cluster.namespace()
    );
    assert!(why.contains(&expected), "{why}");

    cluster.kubectl("create role reader --verb=get,list,watch --resource=pods,pods/log");
    cluster.kubectl("create rolebinding readers --role=reader --user=ann --group=auditors");
    for who in ["--as=ann", "--as=joe --as-group=auditors"] {
        cluster.eventually(&format!("auth can-i list pods {who}"), |said| {
            said.trim() == "yes"
        });
        assert_eq!(
            can(&format!("get pods --subresource=log {who}")),
            "yes",
            "{who}"
        );
        assert_eq!(can(&format!("list secrets {who}")), "no", "{who}");
        cluster.kubectl(&format!("get pods {who}"));
    }
    let listed = cluster.kubectl("auth can-i --list --as=ann");
    assert!(
        listed
            .lines()
            .any(|line| line.starts_with("pods/log ") && line.contains("[get list watch]")),
        "{listed}"
    );

    // A user cannot grant permissions beyond their own (privilege escalation).
    cluster.kubectl("create role granter --verb=create --resource=roles.rbac.authorization.k8s.io");
    cluster.kubectl("create rolebinding granters --role=granter --user=bob");
    cluster.kubectl("create rolebinding bobs --role=reader --user=bob");
    cluster.eventually_refused(
        "create role more --verb=list --resource=nodes --as=bob",
        |why| why.contains("attempting to grant RBAC permissions not currently held"),
    );
    cluster.kubectl("create role less --verb=list --resource=pods --as=bob");

    cluster.kubectl("delete rolebinding readers");
    cluster.eventually_refused("get pods --as=ann", |why| {
        why.contains("cannot list resource")
    });
}

#[test]
fn a_service_account_authenticates_with_its_token() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.kubectl("create serviceaccount robot");
    cluster.kubectl("create role reader --verb=list --resource=pods");
    let subject = format!("--serviceaccount={}:robot", cluster.namespace());
    cluster.kubectl(&format!(
        "create rolebinding robots --role=reader {subject}"
    ));
    let token = cluster.kubectl("create token robot --duration=20m");
    assert_eq!(token.trim().split('.').count(), 3, "a JWT");

    // Use no kubeconfig, because its certificate belongs to another user.
    let server =
        cluster.kubectl("config view --raw --minify -o jsonpath={.clusters[0].cluster.server}");
    let as_robot = format!(
        "--kubeconfig=/dev/null --server={server} --insecure-skip-tls-verify --token={}",
        token.trim()
    );
    let me = cluster.kubectl(&format!(
        "auth whoami -o jsonpath={{.status.userInfo.username}} {as_robot}"
    ));
    assert_eq!(
        me,
        format!("system:serviceaccount:{}:robot", cluster.namespace())
    );
    cluster.eventually(&format!("get pods {as_robot}"), |_| true);
    let why = refusal(&cluster, &format!("get secrets {as_robot}"));
    assert!(why.contains("cannot list resource \"secrets\""), "{why}");

    let why = refusal(&cluster, "create token robot --duration=1m");
    assert!(
        why.contains("may not specify a duration less than 10 minutes"),
        "{why}"
    );
    let why = refusal(&cluster, "create token nobody");
    assert!(
        why.contains("serviceaccounts \"nobody\" not found"),
        "{why}"
    );
    cluster.kubectl("delete serviceaccount robot");
    cluster.eventually_refused(&format!("get pods {as_robot}"), |why| {
        why.contains("Unauthorized") || why.contains("must be logged in")
    });

    let table = cluster.kubectl("auth whoami --as=ann --as-group=auditors");
    assert!(
        table.contains("ann") && table.contains("[auditors system:authenticated]"),
        "{table}"
    );
}

#[test]
fn a_quota_limits_pods_and_is_shown_by_kubectl() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.kubectl("create quota few --hard=pods=2");
    cluster.kubectl("create deployment web --image=app:v1 --replicas=3");
    cluster.eventually(
        "get deployment web -o jsonpath={.status.readyReplicas}",
        |ready| ready == "2",
    );
    cluster.eventually("get quota few -o jsonpath={.status.used.pods}", |used| {
        used == "2"
    });
    let table = cluster.kubectl("get quota --no-headers");
    assert!(table.contains("pods: 2/2"), "{table}");
    let told = cluster.kubectl("describe quota few");
    assert!(
        told.lines()
            .any(|line| line.split_whitespace().eq(["pods", "2", "2"])),
        "{told}"
    );
    let why = refusal(&cluster, "run one --image=app:v1");
    let expected = "pods \"one\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(why.contains(expected), "{why}");
    let reason = "{.status.conditions[?(@.type==\"ReplicaFailure\")].reason}";
    cluster.eventually(
        &format!("get deployment web -o jsonpath={reason}"),
        |reason| reason == "FailedCreate",
    );

    cluster.kubectl("delete quota few");
    cluster.kubectl("rollout status deployment/web --timeout=60s");
}

#[test]
fn pods_get_the_service_account_and_priority_of_a_real_cluster() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.eventually("get serviceaccounts -o name", |names| {
        names.trim() == "serviceaccount/default"
    });
    cluster.eventually("get configmaps -o name", |names| {
        names
            .lines()
            .any(|name| name == "configmap/kube-root-ca.crt")
    });
    cluster.kubectl("run one --image=app:v1");
    let pod = cluster
        .get("pod/one", "{.spec.serviceAccountName} {.spec.priority} {.spec.volumes[0].projected.sources[1].configMap.name}");
    assert_eq!(pod, "default 0 kube-root-ca.crt");
}
