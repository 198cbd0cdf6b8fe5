//! The conformance checks of the API server, run next to nodes and controllers. The server is the
//! embedded one over HTTPS, or the one that `KUBEBUILDER_ASSETS` or `KUBECONFIG` selects.

use std::time::Duration;

use futures::StreamExt;
use steersman_client::{connect, load_config};
use steersman_conformance as conformance;

use crate::harness::Cluster;

/// Time limit of one check.
const LIMIT: Duration = Duration::from_secs(120);

/// Number of concurrent checks; they mostly wait for watches to end.
const AT_ONCE: usize = 16;

#[test]
fn the_api_server_passes_all_checks_next_to_nodes_and_controllers() {
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
