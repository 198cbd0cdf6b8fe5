//! Admission that could refuse the manager's writes: plugins and webhooks of the API server.
//!
//! The API server has no list of its plugins. `/metrics` shows those that have handled a request.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::finding::Finding;

const CHECK: &str = "admission";

/// The metric with one series for each plugin.
const PLUGINS: &str = "apiserver_admission_controller_admission_duration_seconds_count{";

/// Plugins that refuse or drop writes of a controller manager: name, effect, remedy.
const STRICT: [(&str, &str, &str); 4] = [
    ("AlwaysDeny", "refuses every write", "turn the plugin off"),
    (
        "EventRateLimit",
        "drops Events above its limit",
        "allow the burst of Events of a new leader: its limits by user and source",
    ),
    (
        "OwnerReferencesPermissionEnforcement",
        "refuses owner references without the right to update finalizers of the owner",
        "bind the roles of kube-controller-manager or of the chart, which have that right",
    ),
    (
        "SecurityContextDeny",
        "refuses pods with a security context",
        "turn the plugin off, or expect refused pods of such templates",
    ),
];

/// The names of plugins in the text of `/metrics`.
pub(super) fn plugins(metrics: &str) -> BTreeSet<&str> {
    let series = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(PLUGINS));
    let name = |series: &'_ str| -> Option<(usize, usize)> {
        let start = series.find("name=\"")? + "name=\"".len();
        Some((start, start + series[start..].find('"')?))
    };
    series
        .filter_map(|series| name(series).map(|(start, end)| &series[start..end]))
        .collect()
}

/// The findings about `plugins`; `Err` if they cannot be seen.
pub(super) fn of_plugins(plugins: Result<BTreeSet<&str>, String>) -> Vec<Finding> {
    let plugins = match plugins {
        Ok(plugins) => plugins,
        Err(error) => {
            return vec![Finding::warning(
                CHECK,
                format!("admission plugins are not visible: {error}"),
                "run the check with a kubeconfig that may read /metrics, or see --enable-admission-plugins of kube-apiserver",
            )];
        }
    };
    let strict = STRICT.iter().filter(|(name, ..)| plugins.contains(name));
    let mut findings: Vec<Finding> = strict
        .map(|(name, effect, remedy)| {
            Finding::warning(CHECK, format!("admission plugin {name} {effect}"), *remedy)
        })
        .collect();
    if findings.is_empty() {
        let count = plugins.len();
        findings.push(Finding::ok(
            CHECK,
            format!("none of the {count} visible plugins refuses writes of a manager"),
        ));
    }
    findings
}

/// A list of webhook configurations.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Configurations {
    #[serde(default)]
    items: Vec<Configuration>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    metadata: Meta,
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    client_config: ClientConfig,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
struct ClientConfig {
    service: Option<Service>,
    url: Option<String>,
}

/// The Service behind a webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
struct Rule {
    #[serde(default)]
    resources: Vec<String>,
}

impl Webhook {
    /// Whether writes of workloads fail without an answer of the webhook.
    fn is_needed(&self) -> bool {
        let workloads = [
            "*",
            "*/*",
            "pods",
            "pods/*",
            "replicasets",
            "jobs",
            "endpointslices",
            "controllerrevisions",
        ];
        let mut resources = self.rules.iter().flat_map(|rule| &rule.resources);
        self.failure_policy == "Fail" && resources.any(|resource| workloads.contains(&&**resource))
    }

    /// The Service without which writes of workloads fail.
    fn needed_service(&self) -> Option<&Service> {
        let service = self.client_config.service.as_ref();
        service.filter(|_| self.is_needed())
    }
}

impl Configurations {
    /// The Services that the writes of workloads depend on.
    pub(super) fn services(&self) -> BTreeSet<Service> {
        let webhooks = self.items.iter().flat_map(|one| &one.webhooks);
        webhooks
            .filter_map(Webhook::needed_service)
            .cloned()
            .collect()
    }
}

/// The findings about `configurations`; `without_endpoints` are the Services that nothing answers for.
pub(super) fn of_webhooks(
    configurations: &[Configurations],
    without_endpoints: &BTreeSet<Service>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let all = configurations.iter().flat_map(|list| &list.items);
    for (configuration, webhook) in
        all.flat_map(|one| one.webhooks.iter().map(move |webhook| (one, webhook)))
    {
        let service = webhook.needed_service();
        if let Some(Service { namespace, name }) =
            service.filter(|one| without_endpoints.contains(one))
        {
            findings.push(Finding::warning(
                CHECK,
                format!(
                    "webhook {} of {} fails closed, and its Service {namespace}/{name} has no ready endpoint: writes of pods and their owners fail",
                    webhook.name, configuration.metadata.name
                ),
                "start its pods, or set failurePolicy: Ignore until they run",
            ));
        }
    }
    let all = configurations.iter().flat_map(|list| &list.items);
    let webhooks = all.flat_map(|one| &one.webhooks);
    let by_url = webhooks.filter(|one| one.client_config.url.is_some() && one.is_needed());
    let by_url: Vec<&str> = by_url.map(|one| &*one.name).collect();
    if !by_url.is_empty() {
        findings.push(Finding::warning(
            CHECK,
            format!(
                "webhooks that workloads depend on are outside the cluster, and are not checked: {}",
                by_url.join(", ")
            ),
            "make sure that the API server reaches them",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            CHECK,
            "every webhook that workloads depend on has a ready endpoint",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level::{Ok, Warning};
    use super::super::finding::tests::words;
    use super::*;

    #[test]
    fn strict_plugins_are_found_in_the_metrics() {
        let metrics = "# TYPE x histogram\n\
            apiserver_admission_controller_admission_duration_seconds_count{name=\"NamespaceLifecycle\",operation=\"CREATE\",rejected=\"false\",type=\"admit\"} 3\n\
            apiserver_admission_controller_admission_duration_seconds_count{name=\"EventRateLimit\",operation=\"CREATE\",rejected=\"true\",type=\"validate\"} 1\n\
            other{name=\"AlwaysDeny\"} 1\n";
        let seen = plugins(metrics);
        assert_eq!(
            seen,
            BTreeSet::from(["EventRateLimit", "NamespaceLifecycle"])
        );
        let found = of_plugins(Result::Ok(seen));
        assert_eq!(
            words(&found),
            [(
                Warning,
                "admission plugin EventRateLimit drops Events above its limit"
            )]
        );
        let found = of_plugins(Result::Ok(BTreeSet::from(["NamespaceLifecycle"])));
        assert_eq!(found[0].level, Ok);
        assert_eq!(of_plugins(Err("forbidden".to_owned()))[0].level, Warning);
    }

    #[test]
    fn a_closed_webhook_needs_its_service() {
        let list = |policy: &str, resource: &str| -> Configurations {
            let service = serde_json::json!({"namespace": "n", "name": "s"});
            let webhook = serde_json::json!({
                "name": "w", "failurePolicy": policy, "clientConfig": {"service": service}, "rules": [{"resources": [resource]}],
            });
            let item = serde_json::json!({"metadata": {"name": "c"}, "webhooks": [webhook]});
            serde_json::from_value(serde_json::json!({ "items": [item] })).unwrap()
        };
        let service = Service {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
        };
        let dead = BTreeSet::from([service.clone()]);
        // (policy, resource, Services without endpoints, level)
        let cases = [
            ("Fail", "pods", &dead, Warning),
            ("Fail", "*", &dead, Warning),
            ("Ignore", "pods", &dead, Ok),
            ("Fail", "widgets", &dead, Ok),
            ("Fail", "pods", &BTreeSet::new(), Ok),
        ];
        for (policy, resource, dead, level) in cases {
            let found = of_webhooks(&[list(policy, resource)], dead);
            assert_eq!(found[0].level, level, "{policy} {resource}");
        }
        assert_eq!(list("Fail", "jobs").services(), BTreeSet::from([service]));
        let webhook = serde_json::json!({
            "name": "far", "failurePolicy": "Fail", "clientConfig": {"url": "https://far"}, "rules": [{"resources": ["pods"]}],
        });
        let item = serde_json::json!({"metadata": {"name": "c"}, "webhooks": [webhook]});
        let far = serde_json::from_value(serde_json::json!({ "items": [item] })).unwrap();
        let found = of_webhooks(&[far], &BTreeSet::new());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].level, Warning);
    }
}
