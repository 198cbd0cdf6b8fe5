//! Label selectors and field selectors.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Answer, Outcome, World, equal, escaped, holds, names};

promises! { "selecting":
    label_selectors_select_objects,
    invalid_label_selectors_are_refused,
    name_and_namespace_are_selectable,
    unknown_fields_are_not_selectable,
    fields_of_pods_are_selectable,
    fields_of_events_are_selectable,
    fields_of_other_kinds_are_selectable,
}

async fn select(
    world: &World,
    plural: &str,
    parameter: &str,
    selector: &str,
) -> Result<Answer, Broken> {
    world
        .get(&format!(
            "{}?{parameter}={}",
            world.core(plural),
            escaped(selector)
        ))
        .await
}

async fn by_fields(world: &World, plural: &str, selector: &str, expected: &[&str]) -> Outcome {
    let found = select(world, plural, "fieldSelector", selector).await?;
    equal(
        &format!("{plural} with {selector}"),
        &json!(names(found.ok()?)),
        &json!(expected),
    )
}

async fn label_selectors_select_objects(world: &World) -> Outcome {
    for (name, tier) in [("c", "back"), ("a", "front"), ("b", "front")] {
        world
            .map(
                name,
                json!({"labels": {"tier": tier, "check": "yes"}}),
                json!({}),
            )
            .await?;
    }
    let cases = [
        ("tier=front", vec!["a", "b"]),
        ("tier==front", vec!["a", "b"]),
        ("tier!=front,check", vec!["c"]),
        ("tier in (back, front)", vec!["a", "b", "c"]),
        ("check,tier notin (front)", vec!["c"]),
        ("check,!tier", vec![]),
        ("check,!other", vec!["a", "b", "c"]),
        ("tier=front,check=no", vec![]),
    ];
    for (selector, expected) in cases {
        let found = select(world, "configmaps", "labelSelector", selector).await?;
        equal(selector, &json!(names(found.ok()?)), &json!(expected))?;
    }
    Ok(())
}

async fn invalid_label_selectors_are_refused(world: &World) -> Outcome {
    let requirement = "unable to parse requirement";
    for (selector, why) in [
        ("a in (", requirement),
        ("a b", requirement),
        ("-a=b", requirement),
        ("a=b=c", "found '='"),
    ] {
        select(world, "configmaps", "labelSelector", selector)
            .await?
            .refuses(400, "BadRequest", why)?;
    }
    Ok(())
}

async fn name_and_namespace_are_selectable(world: &World) -> Outcome {
    for name in ["a", "b"] {
        world.map(name, json!({}), json!({})).await?;
    }
    by_fields(world, "configmaps", "metadata.name=b", &["b"]).await?;
    by_fields(world, "configmaps", "metadata.name==b", &["b"]).await?;
    by_fields(
        world,
        "configmaps",
        "metadata.name!=kube-root-ca.crt,metadata.name!=b",
        &["a"],
    )
    .await?;
    by_fields(
        world,
        "configmaps",
        &format!("metadata.name=b,metadata.namespace={}", world.namespace),
        &["b"],
    )
    .await?;
    by_fields(world, "configmaps", "metadata.namespace=other", &[]).await
}

async fn unknown_fields_are_not_selectable(world: &World) -> Outcome {
    let why =
        "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    select(world, "configmaps", "fieldSelector", "spec.x=y")
        .await?
        .refuses(400, "BadRequest", why)?;
    let deployments = world
        .get(&world.apps("deployments?fieldSelector=spec.x=y"))
        .await?;
    deployments.refuses(400, "BadRequest", why)?;
    let why = "field label not supported: spec.x";
    select(world, "pods", "fieldSelector", "spec.x=y")
        .await?
        .refuses(400, "BadRequest", why)?;
    let refused = select(world, "configmaps", "fieldSelector", "metadata.name>b").await?;
    holds("other operators are refused", refused.code == 400)
}

async fn fields_of_pods_are_selectable(world: &World) -> Outcome {
    let named =
        json!({"restartPolicy": "Never", "hostNetwork": true, "serviceAccountName": "robot"});
    world
        .post(
            &world.core("serviceaccounts"),
            &json!({"metadata": {"name": "robot"}}),
        )
        .await?
        .created()?;
    world.pod_of("a", json!({}), named).await?;
    world.pod("b", json!({})).await?;
    let nominated = json!({"status": {"nominatedNodeName": "other"}});
    world
        .merge(&world.core("pods/a/status"), &nominated)
        .await?
        .ok()?;
    world.bind("b").await?;
    // The gate ClearingNominatedNodeNameAfterBinding is on since 1.35.
    if world.minor().await? >= 35 {
        let why = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node";
        world
            .merge(&world.core("pods/b/status"), &nominated)
            .await?
            .invalid(why)?;
    }
    let status = json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]});
    world
        .merge(&world.core("pods/b/status"), &json!({"status": status}))
        .await?
        .ok()?;
    let node = format!("spec.nodeName={}", super::world::NO_NODE);
    let cases: [(&str, &[&str]); 14] = [
        (&node, &["b"]),
        ("spec.nodeName=", &["a"]),
        ("spec.restartPolicy=Never", &["a"]),
        ("spec.restartPolicy!=Never", &["b"]),
        ("spec.schedulerName=nobody", &["a", "b"]),
        ("spec.schedulerName=default-scheduler", &[]),
        ("spec.serviceAccountName=robot", &["a"]),
        ("spec.hostNetwork=true", &["a"]),
        ("spec.hostNetwork=false", &["b"]),
        ("status.phase=Running", &["b"]),
        ("status.phase=Pending,spec.nodeName=", &["a"]),
        ("status.podIP=10.1.2.3", &["b"]),
        ("status.podIPs=10.1.2.3", &[]),
        ("status.nominatedNodeName=other", &["a"]),
    ];
    for (selector, expected) in cases {
        by_fields(world, "pods", selector, expected).await?;
    }
    Ok(())
}

async fn fields_of_events_are_selectable(world: &World) -> Outcome {
    let about = json!({
        "kind": "Pod", "namespace": world.namespace, "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "7",
        "fieldPath": "spec.containers{c}",
    });
    let event = json!({
        "metadata": {"name": "a"}, "involvedObject": about, "reason": "Tried", "type": "Warning",
        "source": {"component": "checker"}, "reportingComponent": "reporter",
    });
    world.post(&world.core("events"), &event).await?.created()?;
    let namespace = format!("involvedObject.namespace={}", world.namespace);
    let fields = [
        "involvedObject.kind=Pod",
        &namespace,
        "involvedObject.name=p",
        "involvedObject.uid=u",
        "involvedObject.apiVersion=v1",
        "involvedObject.resourceVersion=7",
        "involvedObject.fieldPath=spec.containers{c}",
        "reason=Tried",
        "reportingComponent=reporter",
        "source=checker",
        "type=Warning",
    ];
    for field in fields {
        // Controllers may have recorded other Events in the namespace.
        by_fields(world, "events", &format!("{field},metadata.name=a"), &["a"]).await?;
        let (label, _) = field.split_once('=').unwrap_or_default();
        by_fields(
            world,
            "events",
            &format!("{label}=other,metadata.name=a"),
            &[],
        )
        .await?;
    }
    Ok(())
}

async fn fields_of_other_kinds_are_selectable(world: &World) -> Outcome {
    world
        .post(
            &world.core("secrets"),
            &json!({"metadata": {"name": "a"}, "type": "example.com/x"}),
        )
        .await?
        .created()?;
    by_fields(world, "secrets", "type=example.com/x", &["a"]).await?;
    by_fields(world, "secrets", "type=example.com/y", &[]).await?;
    let template = super::world::workload_spec("a")["template"].clone();
    let controller =
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "template": template}});
    world
        .post(&world.core("replicationcontrollers"), &controller)
        .await?
        .created()?;
    by_fields(world, "replicationcontrollers", "status.replicas=0", &["a"]).await?;
    by_fields(world, "replicationcontrollers", "status.replicas=7", &[]).await?;
    let jobs = world
        .get(&world.group("batch/v1", "jobs?fieldSelector=status.successful=0"))
        .await?;
    equal("jobs", &jobs.ok()?["items"], &json!([]))?;
    let namespaces = world
        .get(&format!(
            "/api/v1/namespaces?fieldSelector=status.phase=Active,metadata.name={}",
            world.namespace
        ))
        .await?;
    equal(
        "namespaces",
        &json!(names(namespaces.ok()?)),
        &json!([world.namespace]),
    )?;
    let short = format!("/api/v1/namespaces?fieldSelector=name={}", world.namespace);
    world
        .get(&short)
        .await?
        .refuses(400, "BadRequest", "field label not supported: name")?;
    let nodes = world
        .get("/api/v1/nodes?fieldSelector=spec.unschedulable=true,metadata.name=conformance-none")
        .await?;
    equal("nodes", &nodes.ok()?["items"], &Value::Array(Vec::new()))
}
