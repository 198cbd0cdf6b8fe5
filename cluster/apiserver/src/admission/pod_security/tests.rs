//! Each check against many of upstream's cases, and namespaces with labels end to end.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use steersman_values::clock::Clock;

use super::checks::{detailed, violations};
use super::{Level, Policy};
use crate::auth::User;
use crate::{InProcess, Server};

/// A container that meets every standard.
fn container(name: &str) -> Value {
    let security = json!({
        "allowPrivilegeEscalation": false,
        "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    json!({"name": name, "image": "i", "securityContext": security})
}

/// A pod that meets every standard, with these containers, after `change`.
fn pod(containers: &[&str], change: impl FnOnce(&mut Value)) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| container(name)).collect();
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    change(&mut pod);
    pod
}

#[test]
fn each_check_reports_the_violations_of_upstream() {
    type Change = fn(&mut Value);
    fn each(pod: &mut Value, change: impl Fn(&mut Value)) {
        pod["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(change);
    }
    const LATEST: u8 = u8::MAX;
    let baseline = Level::Baseline;
    let restricted = Level::Restricted;
    // (level, version, change of a compliant pod with two containers, expected violations)
    let cases: [(Level, u8, Change, &str); 33] = [
        (restricted, LATEST, |_| {}, ""),
        (
            Level::Privileged,
            LATEST,
            |p| p["spec"]["hostNetwork"] = json!(true),
            "",
        ),
        (
            baseline,
            LATEST,
            |p| {
                (
                    p["spec"]["hostNetwork"],
                    p["spec"]["hostPID"],
                    p["spec"]["hostIPC"],
                ) = (json!(true), json!(true), json!(true))
            },
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            baseline,
            LATEST,
            |p| each(p, |c| c["securityContext"]["privileged"] = json!(true)),
            r#"privileged (containers "a", "b" must not set securityContext.privileged=true)"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["containers"][0]["securityContext"]["capabilities"] =
                    json!({"add": ["SYS_ADMIN", "NET_RAW", "CHOWN"]})
            },
            r#"non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["containers"][0]["securityContext"]["capabilities"] =
                    json!({"add": ["CHOWN", "NET_BIND_SERVICE"]})
            },
            r#"unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a" must not include "CHOWN" in securityContext.capabilities.add)"#,
        ),
        (
            restricted,
            21,
            |p| {
                p["spec"]["containers"][0]["securityContext"]["capabilities"] =
                    json!({"add": ["CHOWN"]})
            },
            "",
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["volumes"] =
                    json!([{"name": "x", "hostPath": {"path": "/"}}, {"name": "y", "emptyDir": {}}])
            },
            r#"hostPath volumes (volume "x")"#,
        ),
        (
            restricted,
            LATEST,
            |p| p["spec"]["volumes"] = json!([{"name": "x", "hostPath": {}}, {"name": "y", "nfs": {}}, {"name": "z", "secret": {}}]),
            r#"restricted volume types (volumes "x", "y" use restricted volume types "hostPath", "nfs")"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                each(
                    p,
                    |c| {
                        c["ports"] =
                            json!([{"hostPort": 80}, {"containerPort": 1}, {"hostPort": 0}])
                    },
                )
            },
            r#"hostPort (containers "a", "b" use hostPort 80)"#,
        ),
        (
            baseline,
            LATEST,
            |p| p["spec"]["containers"][1]["ports"] = json!([{"hostPort": 8080}, {"hostPort": 80}]),
            r#"hostPort (container "b" uses hostPorts 80, 8080)"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["containers"][0]["livenessProbe"] =
                    json!({"httpGet": {"host": "example.com", "port": 1}})
            },
            r#"probe or lifecycle host (container "a" uses probe or lifecycle host "example.com")"#,
        ),
        (
            baseline,
            33,
            |p| p["spec"]["containers"][0]["livenessProbe"] = json!({"httpGet": {"host": "x"}}),
            "",
        ),
        (
            baseline,
            LATEST,
            |p| p["spec"]["containers"][0]["securityContext"]["procMount"] = json!("Unmasked"),
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["hostUsers"] = json!(false);
                p["spec"]["containers"][0]["securityContext"]["procMount"] = json!("Unmasked");
            },
            "",
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["hostUsers"] = json!(false);
                p["spec"]["containers"][0]["securityContext"]["procMount"] = json!("Unmasked");
            },
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["securityContext"] =
                    json!({"seLinuxOptions": {"type": "foo", "user": "bar"}});
                p["spec"]["containers"][0]["securityContext"]["seLinuxOptions"] =
                    json!({"type": "container_t", "role": "baz"});
            },
            r#"seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "foo"; user may not be set; role may not be set)"#,
        ),
        (
            baseline,
            30,
            |p| {
                p["spec"]["securityContext"] =
                    json!({"seLinuxOptions": {"type": "container_engine_t"}})
            },
            r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "container_engine_t")"#,
        ),
        (
            baseline,
            31,
            |p| {
                p["spec"]["securityContext"] =
                    json!({"seLinuxOptions": {"type": "container_engine_t"}})
            },
            "",
        ),
        (
            baseline,
            LATEST,
            |p| p["spec"]["securityContext"] = json!({"seccompProfile": {"type": "Unconfined"}}),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            restricted,
            LATEST,
            |p| {
                each(p, |c| {
                    drop(
                        c["securityContext"]
                            .as_object_mut()
                            .unwrap()
                            .remove("seccompProfile"),
                    )
                })
            },
            r#"seccompProfile (pod or containers "a", "b" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["securityContext"] = json!({"sysctls": [{"name": "a"}, {"name": "net.ipv4.tcp_rmem"}, {"name": "b"}]})
            },
            "forbidden sysctls (a, b)",
        ),
        (
            baseline,
            31,
            |p| p["spec"]["securityContext"] = json!({"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}),
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["spec"]["securityContext"] = json!({"windowsOptions": {"hostProcess": true}});
                each(p, |c| {
                    c["securityContext"]["windowsOptions"] = json!({"hostProcess": true})
                });
            },
            r#"hostProcess (pod and containers "a", "b" must not set securityContext.windowsOptions.hostProcess=true)"#,
        ),
        (
            baseline,
            LATEST,
            |p| {
                p["metadata"]["annotations"] =
                    json!({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"});
                p["spec"]["containers"][1]["securityContext"]["appArmorProfile"] =
                    json!({"type": "Unconfined"});
            },
            "forbidden AppArmor profiles (container \"b\" and annotation must not set AppArmor profile type to \"Unconfined\", \
             \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] =
                    json!(true)
            },
            r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)"#,
        ),
        (
            restricted,
            LATEST,
            |p| p["spec"]["containers"][0]["securityContext"]["runAsNonRoot"] = json!(false),
            r#"runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (
            restricted,
            LATEST,
            |p| p["spec"]["containers"][0]["securityContext"]["runAsNonRoot"] = Value::Null,
            r#"runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)"#,
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["securityContext"] = json!({"runAsNonRoot": true});
                p["spec"]["containers"][0]["securityContext"]["runAsNonRoot"] = Value::Null;
            },
            "",
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["hostUsers"] = json!(false);
                p["spec"]["securityContext"] = json!({"runAsNonRoot": false, "runAsUser": 0});
            },
            "",
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["securityContext"] = json!({"runAsUser": 0});
                p["spec"]["containers"][1]["securityContext"]["runAsUser"] = json!(0);
            },
            r#"runAsUser=0 (pod and container "b" must not set runAsUser=0)"#,
        ),
        (
            restricted,
            LATEST,
            |p| {
                p["spec"]["os"] = json!({"name": "windows"});
                each(p, |c| c["securityContext"] = json!({"runAsNonRoot": true}));
            },
            "",
        ),
        (
            restricted,
            LATEST,
            |p| p["spec"]["initContainers"] = json!([{"name": "z", "image": "i"}]),
            r#"allowPrivilegeEscalation != false (container "z" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "z" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "z" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "z" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
        ),
    ];
    for (level, minor, change, expected) in cases {
        let pod = pod(&["a", "b"], change);
        assert_eq!(
            detailed(&violations(level, minor, &pod)),
            expected,
            "{level:?} v1.{minor} {pod:#}"
        );
    }
}

#[test]
fn labels_select_standards_by_the_rules_of_upstream() {
    // (labels, enforced standard, warned standard, errors)
    type Labels = &'static [(&'static str, &'static str)];
    let cases: [(Labels, &str, &str, &[&str]); 9] = [
        (&[], "privileged:latest", "privileged:latest", &[]),
        (
            &[("enforce", "restricted")],
            "restricted:latest",
            "restricted:latest",
            &[],
        ),
        (
            &[("enforce", "baseline"), ("enforce-version", "v1.30")],
            "baseline:v1.30",
            "baseline:v1.30",
            &[],
        ),
        (
            &[("enforce", "baseline"), ("warn-version", "v1.0")],
            "baseline:latest",
            "baseline:v1.0",
            &[],
        ),
        (
            &[("enforce", "restricted"), ("warn", "privileged")],
            "restricted:latest",
            "privileged:latest",
            &[],
        ),
        (
            &[("warn", "restricted"), ("warn-version", "latest")],
            "privileged:latest",
            "restricted:latest",
            &[],
        ),
        (
            &[("enforce", "strict"), ("warn", "some")],
            "restricted:latest",
            "privileged:latest",
            &[
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, \
                 restricted",
                "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"some\": must be one of privileged, baseline, \
                 restricted",
            ],
        ),
        (
            &[("audit-version", "1.30")],
            "privileged:latest",
            "privileged:latest",
            &[
                "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"1.30\": must be \"latest\" or \"v1.x\"",
            ],
        ),
        (
            &[("enforce-version", "v1.01")],
            "privileged:latest",
            "privileged:latest",
            &[
                "metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"v1.01\": must be \"latest\" or \"v1.x\"",
            ],
        ),
    ];
    for (labels, enforced, warned, errors) in cases {
        let label = |key: &str| {
            let key = key.strip_prefix("pod-security.kubernetes.io/").unwrap();
            labels
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        };
        let (policy, found) = Policy::of(label);
        assert_eq!(
            (policy.enforce.to_string(), policy.warn.to_string()),
            (enforced.to_owned(), warned.to_owned()),
            "{labels:?}"
        );
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            errors,
            "{labels:?}"
        );
    }
}

/// Status, warnings and message of a write.
async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    body: Value,
) -> (u16, Vec<String>, String) {
    let kind = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    let response = client
        .send(request.body(body.to_string().into_bytes().into()).unwrap())
        .await
        .unwrap();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap().replace("\\\"", "\""))
        .collect();
    let (head, body) = response.into_parts();
    let bytes = http_body_util::BodyExt::collect(body)
        .await
        .unwrap()
        .to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    (
        head.status.as_u16(),
        warnings,
        answer["message"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_the_pods_that_its_labels_allow_and_warns_of_others() {
    let clock = Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap());
    let door = InProcess::new(Arc::new(Server::new(clock, false)), User::admin());
    let client = kube::Client::new(door, "default");
    let label = |mode: &str, level: &str| json!({"metadata": {"labels": {format!("pod-security.kubernetes.io/{mode}"): level}}});
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let all = "/api/v1/namespaces";
    let safe = "/api/v1/namespaces/safe";
    let created = send(&client, Method::POST, all, namespace("safe")).await;
    assert_eq!(created.0, 201);

    // Without labels, every pod is accepted.
    let host = pod(&["a"], |p| {
        (p["spec"]["hostNetwork"], p["metadata"]["name"]) = (json!(true), json!("host"))
    });
    let host = json!({"apiVersion": "v1", "kind": "Pod", "metadata": host["metadata"], "spec": host["spec"]});
    assert_eq!(
        send(&client, Method::POST, &format!("{safe}/pods"), host.clone())
            .await
            .0,
        201
    );

    let mut strict = namespace("strict");
    strict["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "strict"});
    let (status, _, message) = send(&client, Method::POST, all, strict).await;
    assert_eq!(status, 422);
    assert!(
        message.ends_with("must be one of privileged, baseline, restricted"),
        "{message}"
    );
    let (status, _, message) =
        send(&client, Method::PATCH, safe, label("warn-version", "new")).await;
    assert_eq!(
        (status, message.contains("must be \"latest\" or \"v1.x\"")),
        (422, true),
        "{message}"
    );

    let (status, warnings, _) =
        send(&client, Method::PATCH, safe, label("enforce", "restricted")).await;
    let expected = [
        "299 - \"existing pods in namespace \"safe\" violate the new PodSecurity enforce level \"restricted:latest\"\"",
        "299 - \"host: host namespaces\"",
    ];
    assert_eq!(
        (status, warnings),
        (200, expected.map(str::to_owned).to_vec())
    );
    assert_eq!(
        send(&client, Method::PATCH, safe, label("enforce", "baseline"))
            .await
            .1,
        [""; 0],
        "a lower level causes no warnings"
    );
    send(&client, Method::PATCH, safe, label("enforce", "restricted")).await;

    let (status, _, message) = send(&client, Method::POST, &format!("{safe}/pods"), {
        let mut again = host.clone();
        again["metadata"]["name"] = json!("again");
        again
    })
    .await;
    let expected = "pods \"again\" is forbidden: violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true)";
    assert_eq!((status, message.as_str()), (403, expected));

    // A workload with such a template is accepted with a warning; its pods are refused later.
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": host["spec"]});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    let (status, warnings, _) = send(
        &client,
        Method::POST,
        "/apis/apps/v1/namespaces/safe/deployments",
        deployment,
    )
    .await;
    let expected = "299 - \"would violate PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true)\"";
    assert_eq!((status, warnings), (201, vec![expected.to_owned()]));

    // An existing pod can stay and change its labels, but not its image.
    let path = format!("{safe}/pods/host");
    assert_eq!(
        send(
            &client,
            Method::PATCH,
            &path,
            json!({"metadata": {"labels": {"a": "b"}}})
        )
        .await
        .0,
        200
    );
    let mut containers = host["spec"]["containers"].clone();
    containers[0]["image"] = json!("other");
    assert_eq!(
        send(
            &client,
            Method::PATCH,
            &path,
            json!({"spec": {"containers": containers}})
        )
        .await
        .0,
        403
    );
}
