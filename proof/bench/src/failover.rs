//! Failover time: from the signal that ends the leader of three managers until a new Deployment has
//! a ReplicaSet. The standbys have filled caches before the signal.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use steersman_controlplane::Program;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_values::clock::Clock;

/// Signals to the leader, with their text in the table.
const SIGNALS: [(&str, &str); 3] = [
    ("TERM", "SIGTERM: orderly stop"),
    ("KILL", "SIGKILL: crash"),
    ("STOP", "SIGSTOP: freeze"),
];

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(120);

/// Prints a table of `rounds` measurements for each signal, in Markdown.
pub(crate) async fn measure(
    binary: &Path,
    arguments: &[String],
    rounds: usize,
    scratch: &Path,
) -> Result<()> {
    println!("| signal to the leader | shortest s | median s | longest s |\n|---|---|---|---|");
    for (signal, text) in SIGNALS {
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
                "| {text} | {shortest:.2} | {:.2} | {longest:.2} |",
                took[took.len() / 2]
            );
        }
    }
    Ok(())
}

/// One manager, and the HTTPS address that only this manager uses. The log of requests thus tells
/// managers apart.
struct Member {
    manager: Program,
    door: HttpsDoor,
}

/// One measurement with a new cluster and three new managers.
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
        until_caches_fill(&cluster, &standby.door).await?;
    }
    let began = Instant::now();
    leader.manager.signal(signal)?;
    if let Err(status) = cluster.create(deployment()).await {
        bail!("create the Deployment: {}", status.message);
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
    let kubeconfig = scratch.join(format!("{name}.kubeconfig"));
    let log = scratch.join(format!("{name}.log"));
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

/// Waits for an object of this resource that meets the condition.
async fn wait(cluster: &DevCluster, plural: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
    let Err(objects) = cluster
        .wait_for(plural, LIMIT, |objects| objects.iter().any(&holds))
        .await
    else {
        return Ok(());
    };
    bail!("none of the {plural} meets the condition after {LIMIT:?}: {objects:?}")
}

/// Waits until the manager behind `door` watches pods and the Lease. A standby watches both.
async fn until_caches_fill(cluster: &DevCluster, door: &HttpsDoor) -> Result<()> {
    let began = Instant::now();
    let watches = |resource: &str| {
        let is_watch = |r: &steersman_devcluster::requests::RequestRecord| {
            r.door == Some(door.address()) && r.verb == "watch" && r.resource == resource
        };
        cluster.requests().iter().any(is_watch)
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
