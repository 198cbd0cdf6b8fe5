//! The requests that a manager has sent, from its own metric `rest_client_requests_total`.
//!
//! Both managers count in the same way, on any API server. The counts lack resources, because
//! upstream's metric does.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result};
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, connect};
use steersman_runtime::metrics::Registry;

/// Number of requests by method and status code.
pub(crate) type RequestCounts = BTreeMap<(String, String), u64>;

/// The metrics of a manager.
pub(crate) struct Requests {
    client: ApiClient,
}

/// A local port that no process uses at present.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

impl Requests {
    /// The metrics of the manager on this local port, which must allow anonymous reads.
    pub(crate) fn of_manager(port: u16) -> Result<Self> {
        let url = format!("https://127.0.0.1:{port}").parse()?;
        let mut config = kube::Config::new(url);
        // The manager signs its certificate itself.
        config.accept_invalid_certs = true;
        let settings = ClientSettings {
            user_agent: "steersman-bench/0".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(10),
        };
        let metrics = ClientMetrics::register(&Registry::new())?;
        let client = ApiClient::new(connect(&config)?, settings, metrics);
        Ok(Self { client })
    }

    /// Requests of the manager so far; empty while it does not serve its metrics yet.
    pub(crate) async fn count(&self) -> RequestCounts {
        let answer = self.client.get_path_as("/metrics", "text/plain").await;
        let bytes = answer.unwrap_or_default();
        parse(&String::from_utf8_lossy(&bytes))
    }
}

fn parse(metrics: &str) -> RequestCounts {
    let mut counts = RequestCounts::new();
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("rest_client_requests_total{"));
    for (labels, value) in lines.filter_map(|line| line.split_once("} ")) {
        let label = |name: &str| {
            let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
            let found = pairs.into_iter().find(|(key, _)| *key == name);
            found
                .map_or("", |(_, text)| text.trim_matches('"'))
                .to_owned()
        };
        let count = value.parse::<f64>().unwrap_or_default() as u64;
        *counts.entry((label("method"), label("code"))).or_default() += count;
    }
    counts
}

/// The requests in `now` that are not in `before`.
pub(crate) fn since(before: &RequestCounts, now: &RequestCounts) -> RequestCounts {
    let more = |(key, count): (&(String, String), &u64)| {
        let new = count - before.get(key).copied().unwrap_or(0);
        (new > 0).then(|| (key.clone(), new))
    };
    now.iter().filter_map(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_method_and_code() {
        let metrics = "# HELP rest_client_requests_total x\n\
            rest_client_requests_total{code=\"200\",host=\"a:1\",method=\"GET\"} 3\n\
            rest_client_requests_total{code=\"200\",host=\"b:1\",method=\"GET\"} 1e+00\n\
            rest_client_requests_total{code=\"201\",host=\"a:1\",method=\"POST\"} 7\n\
            other{code=\"200\"} 9\n";
        let key = |method: &str, code: &str| (method.to_owned(), code.to_owned());
        let expected = BTreeMap::from([(key("GET", "200"), 4), (key("POST", "201"), 7)]);
        assert_eq!(parse(metrics), expected);
        let before = BTreeMap::from([(key("GET", "200"), 4), (key("POST", "201"), 5)]);
        let more = BTreeMap::from([(key("POST", "201"), 2)]);
        assert_eq!(since(&before, &expected), more);
    }
}
