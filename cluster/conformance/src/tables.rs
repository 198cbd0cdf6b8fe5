//! Tables, the form that `kubectl get` prints.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Outcome, TABLE, World, at, equal, holds, text, version, workload_spec};

promises! { "tables":
    tables_have_columns_and_cells,
    include_object_selects_the_embedded_object,
    core_kinds_have_their_columns,
    kinds_of_other_groups_have_their_columns,
    workloads_show_replica_counts,
    pods_show_a_status,
    pods_show_wide_cells,
    services_show_addresses_and_ports,
    events_show_the_involved_object,
    ages_are_shown_in_short_form,
}

async fn table(world: &World, path: &str) -> Result<Value, Broken> {
    world.get_as(path, TABLE).await?.ok().cloned()
}

/// The cell of the first row in the column of this name.
fn cell<'a>(table: &'a Value, column: &str) -> &'a Value {
    let columns = table["columnDefinitions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let position = columns
        .iter()
        .position(|definition| definition["name"] == column);
    position.map_or(&Value::Null, |position| {
        &table["rows"][0]["cells"][position]
    })
}

fn has_cells(table: &Value, expected: &[(&str, Value)]) -> Outcome {
    expected
        .iter()
        .try_for_each(|(column, value)| equal(column, cell(table, column), value))
}

async fn tables_have_columns_and_cells(world: &World) -> Outcome {
    let made = world
        .map("a", json!({"labels": {"x": "y"}}), json!({"k": "v"}))
        .await?;
    let list = table(world, &world.core("configmaps?labelSelector=x=y")).await?;
    at(&list, "/kind", json!("Table"))?;
    at(&list, "/apiVersion", json!("meta.k8s.io/v1"))?;
    at(&list, "/columnDefinitions/0/format", json!("name"))?;
    has_cells(&list, &[("Name", json!("a")), ("Data", json!(1))])?;
    at(&list, "/rows/0/object/kind", json!("PartialObjectMetadata"))?;
    holds(
        "the table has a resourceVersion",
        !version(&list).is_empty(),
    )?;
    let one = table(world, &world.core("configmaps/a")).await?;
    equal(
        "number of rows of one object",
        &json!(one["rows"].as_array().map_or(0, Vec::len)),
        &json!(1),
    )?;
    at(&one, "/metadata/resourceVersion", json!(version(&made)))
}

async fn include_object_selects_the_embedded_object(world: &World) -> Outcome {
    world.map("a", json!({}), json!({"k": "v"})).await?;
    let path = world.core("configmaps/a?includeObject=");
    at(
        &table(world, &format!("{path}None")).await?,
        "/rows/0/object",
        Value::Null,
    )?;
    at(
        &table(world, &format!("{path}Metadata")).await?,
        "/rows/0/object/data",
        Value::Null,
    )?;
    let whole = table(world, &format!("{path}Object")).await?;
    at(&whole, "/rows/0/object/kind", json!("ConfigMap"))?;
    at(&whole, "/rows/0/object/data", json!({"k": "v"}))
}

/// Compares the columns of a collection. Columns after the bar are wide.
async fn has_columns(world: &World, path: &str, expected: &str) -> Outcome {
    let table = table(world, &format!("{path}?limit=1")).await?;
    let named = |wide: bool| -> Vec<&str> {
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        columns
            .filter(|one| (one["priority"] != 0) == wide)
            .filter_map(|one| one["name"].as_str())
            .collect()
    };
    let narrow = named(false).join(", ");
    let wide = named(true).join(", ");
    let found = if wide.is_empty() {
        narrow
    } else {
        format!("{narrow} | {wide}")
    };
    equal(path, &json!(found), &json!(expected))
}

async fn core_kinds_have_their_columns(world: &World) -> Outcome {
    let cases = [
        (
            "pods",
            "Name, Ready, Status, Restarts, Age | IP, Node, Nominated Node, Readiness Gates",
        ),
        (
            "replicationcontrollers",
            "Name, Desired, Current, Ready, Age | Containers, Images, Selector",
        ),
        (
            "events",
            "Last Seen, Type, Reason, Object, Message | Subobject, Source, First Seen, Count, Name",
        ),
        (
            "services",
            "Name, Type, Cluster-IP, External-IP, Port(s), Age | Selector",
        ),
        ("configmaps", "Name, Data, Age"),
        ("secrets", "Name, Type, Data, Age"),
    ];
    for (plural, expected) in cases {
        has_columns(world, &world.core(plural), expected).await?;
    }
    let nodes = "Name, Status, Roles, Age, Version | Internal-IP, External-IP, OS-Image, Kernel-Version, Container-Runtime";
    has_columns(world, "/api/v1/nodes", nodes).await?;
    has_columns(world, "/api/v1/namespaces", "Name, Status, Age").await
}

async fn kinds_of_other_groups_have_their_columns(world: &World) -> Outcome {
    let cases = [
        (
            "apps/v1",
            "deployments",
            "Name, Ready, Up-to-date, Available, Age | Containers, Images, Selector",
        ),
        (
            "apps/v1",
            "replicasets",
            "Name, Desired, Current, Ready, Age | Containers, Images, Selector",
        ),
        (
            "apps/v1",
            "daemonsets",
            "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age | Containers, Images, Selector",
        ),
        (
            "apps/v1",
            "statefulsets",
            "Name, Ready, Age | Containers, Images",
        ),
        (
            "batch/v1",
            "jobs",
            "Name, Status, Completions, Duration, Age | Containers, Images, Selector",
        ),
        ("coordination.k8s.io/v1", "leases", "Name, Holder, Age"),
        (
            "policy/v1",
            "poddisruptionbudgets",
            "Name, Min Available, Max Unavailable, Allowed Disruptions, Age",
        ),
    ];
    for (group_version, plural, expected) in cases {
        has_columns(world, &world.group(group_version, plural), expected).await?;
    }
    Ok(())
}

async fn workloads_show_replica_counts(world: &World) -> Outcome {
    world.deployment("a").await?;
    let deployment = table(world, &world.apps("deployments/a")).await?;
    let expected = [
        ("Ready", json!("0/0")),
        ("Up-to-date", json!(0)),
        ("Available", json!(0)),
        ("Containers", json!("c")),
        ("Images", json!("registry.k8s.io/pause:3.10")),
        ("Selector", json!("app=a")),
    ];
    has_cells(&deployment, &expected)?;
    world
        .post(
            &world.apps("replicasets"),
            &json!({"metadata": {"name": "a"}, "spec": workload_spec("a")}),
        )
        .await?
        .created()?;
    let set = table(world, &world.apps("replicasets/a")).await?;
    has_cells(
        &set,
        &[
            ("Desired", json!(0)),
            ("Current", json!(0)),
            ("Ready", json!(0)),
        ],
    )
}

async fn pods_show_a_status(world: &World) -> Outcome {
    let of = |name: &str, state: Value| json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let main = |state: Value| json!({"containerStatuses": [of("c", state)]});
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let ended =
        |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
    let signalled = json!({"terminated": {"exitCode": 137, "signal": 9}});
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let init = |state: Value| json!({"initContainerStatuses": [of("i", state)]});
    let cases = [
        (json!({}), "Pending"),
        (json!({"phase": "Running"}), "Running"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "SchedulingGated",
        ),
        (main(waiting), "CrashLoopBackOff"),
        (main(ended("Error", 1)), "Error"),
        (main(ended("", 7)), "ExitCode:7"),
        (main(signalled.clone()), "Signal:9"),
        (main(running), "Pending"),
        (init(ended("Error", 1)), "Init:Error"),
        (init(ended("", 7)), "Init:ExitCode:7"),
        (init(signalled), "Init:Signal:9"),
        (
            init(json!({"waiting": {"reason": "ImagePullBackOff"}})),
            "Init:ImagePullBackOff",
        ),
        (
            init(json!({"waiting": {"reason": "PodInitializing"}})),
            "Init:0/1",
        ),
    ];
    for (index, (status, expected)) in cases.into_iter().enumerate() {
        let name = format!("p{index}");
        world
            .pod_of(
                &name,
                json!({}),
                json!({"initContainers": [{"name": "i", "image": "i"}]}),
            )
            .await?;
        world
            .merge(
                &world.core(&format!("pods/{name}/status")),
                &json!({"status": status}),
            )
            .await?
            .ok()?;
        let shown = table(world, &world.core(&format!("pods/{name}"))).await?;
        equal(
            &status.to_string(),
            cell(&shown, "Status"),
            &json!(expected),
        )?;
    }
    Ok(())
}

async fn pods_show_wide_cells(world: &World) -> Outcome {
    world
        .pod("a", json!({"finalizers": [super::world::KEEP]}))
        .await?;
    let none = json!("<none>");
    let shown = table(world, &world.core("pods/a")).await?;
    let expected = [
        ("Ready", json!("0/1")),
        ("Restarts", json!("0")),
        ("IP", none.clone()),
        ("Node", none.clone()),
        ("Nominated Node", none.clone()),
        ("Readiness Gates", none.clone()),
    ];
    has_cells(&shown, &expected)?;
    world.bind("a").await?;
    let container = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 2, "state": {"running": {}}});
    let status = json!({"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}], "containerStatuses": [container]});
    world
        .merge(&world.core("pods/a/status"), &json!({"status": status}))
        .await?
        .ok()?;
    let shown = table(world, &world.core("pods/a")).await?;
    let expected = [
        ("Ready", json!("1/1")),
        ("Status", json!("Running")),
        ("Restarts", json!("2")),
        ("IP", json!("10.1.2.3")),
        ("Node", json!(super::world::NO_NODE)),
    ];
    has_cells(&shown, &expected)?;
    world.delete(&world.core("pods/a")).await?.ok()?;
    has_cells(
        &table(world, &world.core("pods/a")).await?,
        &[("Status", json!("Terminating"))],
    )
}

async fn services_show_addresses_and_ports(world: &World) -> Outcome {
    let spec = json!({"clusterIP": "None", "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 53, "protocol": "UDP"}], "selector": {"a": "b"}});
    world
        .post(
            &world.core("services"),
            &json!({"metadata": {"name": "a"}, "spec": spec}),
        )
        .await?
        .created()?;
    let shown = table(world, &world.core("services/a")).await?;
    let expected = [
        ("Type", json!("ClusterIP")),
        ("Cluster-IP", json!("None")),
        ("External-IP", json!("<none>")),
        ("Port(s)", json!("80/TCP,53/UDP")),
        ("Selector", json!("a=b")),
    ];
    has_cells(&shown, &expected)
}

async fn events_show_the_involved_object(world: &World) -> Outcome {
    let about = json!({"kind": "Pod", "namespace": world.namespace, "name": "p", "fieldPath": "spec.containers{c}"});
    let event = json!({
        "metadata": {"name": "a"}, "involvedObject": about, "reason": "Tried", "message": "it was tried", "type": "Warning",
        "source": {"component": "checker", "host": "here"},
    });
    world.post(&world.core("events"), &event).await?.created()?;
    let shown = table(world, &world.core("events/a")).await?;
    let expected = [
        ("Last Seen", json!("<unknown>")),
        ("Type", json!("Warning")),
        ("Reason", json!("Tried")),
        ("Object", json!("pod/p")),
        ("Subobject", json!("spec.containers{c}")),
        ("Source", json!("checker, here")),
        ("Message", json!("it was tried")),
        ("Count", json!(1)),
        ("Name", json!("a")),
    ];
    has_cells(&shown, &expected)
}

async fn ages_are_shown_in_short_form(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let shown = table(world, &world.core("configmaps/a")).await?;
    let age = cell(&shown, "Age").as_str().unwrap_or_default();
    let seconds = age
        .strip_suffix('s')
        .and_then(|seconds| seconds.parse::<u64>().ok());
    holds(
        &format!("{age:?} is less than two minutes"),
        seconds.is_some_and(|seconds| seconds < 120),
    )?;
    let now: jiff::Timestamp = text(&made, "/metadata/creationTimestamp")
        .parse()
        .map_err(|error: jiff::Error| Broken(error.to_string()))?;
    // Events have a settable time in a column, which other kinds lack.
    let cases = [
        (190, "3m"),
        (4_000, "66m"),
        (3_600 * 4, "4h"),
        (3_600 * 24, "24h"),
        (86_400 * 3, "3d"),
        (86_400 * 30, "30d"),
    ];
    for (ago, expected) in cases {
        let name = format!("e{ago}");
        let seen = (now - jiff::SignedDuration::from_secs(ago))
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let about = json!({"kind": "Pod", "namespace": world.namespace});
        let event =
            json!({"metadata": {"name": name}, "involvedObject": about, "lastTimestamp": seen});
        world.post(&world.core("events"), &event).await?.created()?;
        let shown = table(world, &world.core(&format!("events/{name}"))).await?;
        let age = cell(&shown, "Last Seen")
            .as_str()
            .unwrap_or_default()
            .to_owned();
        holds(
            &format!("{age:?} begins with {expected:?}"),
            age.starts_with(expected),
        )?;
    }
    Ok(())
}
