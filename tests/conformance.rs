//! The promises of an API server, kept where nodes and controllers are at work: by the embedded
//! server through HTTPS, or by the cluster that `KUBEBUILDER_ASSETS` or `KUBECONFIG` names.

use std::time::Duration;

use futures::StreamExt;
use steersman_devcluster::conformance;
use steersman_runtime::client::{connect, load_config};

use crate::harness::Cluster;

/// How long one check may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Checks under way at once; most of their time is waiting for watches to end.
const AT_ONCE: usize = 16;

#[test]
fn every_promise_is_kept_among_nodes_and_controllers() {
    let Some(cluster) = Cluster::start_apart() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let broken: Vec<String> = runtime.block_on(async {
        let config = load_config(Some(cluster.kubeconfig()), None).unwrap();
        let client = kube::Client::from(connect(&config).unwrap());
        let checks = futures::stream::iter(conformance::checks()).map(|check| {
            let client = client.clone();
            async move {
                let why = match tokio::time::timeout(LIMIT, conformance::run(check, &client)).await
                {
                    Ok(outcome) => outcome.err()?.to_string(),
                    Err(_) => format!("not done within {LIMIT:?}"),
                };
                Some(format!("{} {}: {why}", check.area, check.name))
            }
        });
        checks
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await
    });
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
