//! How long the work stands still when the leader of three managers ends: from the signal until a
//! new Deployment has a ReplicaSet.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_runtime::clock::Clock;

use crate::process::Program;

/// How a leader ends, and what is said of it.
const WAYS: [(&str, &str); 3] = [
    ("TERM", "SIGTERM: it is told to end"),
    ("KILL", "SIGKILL: it dies"),
    ("STOP", "SIGSTOP: it freezes"),
];

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Prints a table of `rounds` measurements of each way, in Markdown.
pub(crate) async fn measure(
    binary: &Path,
    arguments: &[String],
    rounds: usize,
    scratch: &Path,
) -> Result<()> {
    println!("| the leader | shortest s | median s | longest s |\n|---|---|---|---|");
    for (signal, what) in WAYS {
        let mut took = Vec::new();
        for _ in 0..rounds {
            took.push(
                round(binary, arguments, signal, scratch)
                    .await?
                    .as_secs_f64(),
            );
        }
        took.sort_by(f64::total_cmp);
        if let [shortest, .., longest] | [shortest @ longest] = took.as_slice() {
            println!(
                "| {what} | {shortest:.2} | {:.2} | {longest:.2} |",
                took[took.len() / 2]
            );
        }
    }
    Ok(())
}

/// One manager and the door that only it uses.
struct Member {
    manager: Program,
    door: HttpsDoor,
}

async fn round(
    binary: &Path,
    arguments: &[String],
    signal: &str,
    scratch: &Path,
) -> Result<Duration> {
    let cluster = DevCluster::new(Clock::system());
    let leader = start(&cluster, binary, arguments, scratch).await?;
    wait(&cluster, "leases", |lease| {
        lease["spec"]["holderIdentity"]
            .as_str()
            .is_some_and(|holder| !holder.is_empty())
    })
    .await?;
    let standbys = [
        start(&cluster, binary, arguments, scratch).await?,
        start(&cluster, binary, arguments, scratch).await?,
    ];
    for standby in &standbys {
        until_warm(&cluster, &standby.door).await?;
    }
    let began = Instant::now();
    leader.manager.signal(signal)?;
    if let Err(refusal) = cluster.create(deployment()).await {
        bail!("create the Deployment: {}", refusal.message);
    }
    wait(&cluster, "replicasets", |_| true).await?;
    Ok(began.elapsed())
}

async fn start(
    cluster: &DevCluster,
    binary: &Path,
    arguments: &[String],
    scratch: &Path,
) -> Result<Member> {
    let door = cluster
        .serve_https(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await?;
    let name = door.address().port();
    let (kubeconfig, log) = (
        scratch.join(format!("{name}.kubeconfig")),
        scratch.join(format!("{name}.log")),
    );
    std::fs::write(&kubeconfig, door.kubeconfig())?;
    let mut all = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--secure-port=0".to_owned(),
    ];
    all.extend(arguments.iter().cloned());
    Ok(Member {
        manager: Program::start(binary, &all, &log)?,
        door,
    })
}

/// Waits for an object of this resource that is as wanted.
async fn wait(
    cluster: &DevCluster,
    plural: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<()> {
    let Err(objects) = cluster
        .wait_for(plural, LIMIT, |objects| objects.iter().any(&is_wanted))
        .await
    else {
        return Ok(());
    };
    bail!("after {LIMIT:?} there is nothing to see among the {plural}: {objects:?}")
}

/// Waits until the manager behind `door` watches pods and the Lease, as a standby does.
async fn until_warm(cluster: &DevCluster, door: &HttpsDoor) -> Result<()> {
    let began = Instant::now();
    let watches = |resource: &str| {
        let is_it = |r: &steersman_devcluster::requests::RequestRecord| {
            r.door == Some(door.address()) && r.verb == "watch" && r.resource == resource
        };
        cluster.requests().iter().any(is_it)
    };
    while !(watches("pods") && watches("leases")) {
        if began.elapsed() > LIMIT {
            bail!("a standby does not watch pods and leases after {LIMIT:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}
