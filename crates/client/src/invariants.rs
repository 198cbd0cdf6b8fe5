//! Invariants: rules for each write, independent of the decision of its controller.
//!
//! decision -> check -> [`ApiClient::permit`] -> write, or [`ApiError::Refused`]
//!
//! A check is a pure function over the data of the decision. It shares no rule with the decision,
//! sends no request, and allocates only for a violation. A violation is a bug of Steersman.
//! docs/invariants.md lists the checks with their reasons.

use super::{ApiClient, ApiError, Category, Refusal, Target, Violation};

impl ApiClient {
    /// Exports the counts of these invariants from now on, with zeros. An alert on their increase then
    /// sees the first violation.
    pub fn counts_violations_of(&self, invariants: &[&str]) {
        for invariant in invariants {
            self.exchange.violations(invariant);
        }
    }

    /// Allows a write about the object `target` if `checked` is `Ok`.
    ///
    /// Otherwise the caller sends no write. The violation is counted
    /// (`steersman_invariant_violations_total`) and logged, and the sync fails with the error.
    pub fn permit(
        &self,
        target: Target<'_>,
        checked: Result<(), Violation>,
    ) -> Result<(), ApiError> {
        let Err(violation) = checked else {
            return Ok(());
        };
        let Violation {
            invariant,
            decision,
        } = &violation;
        self.exchange.violations(invariant).inc();
        let object = name_of(target);
        let category = Category::Invariant.as_str();
        tracing::error!(
            category,
            invariant,
            object,
            decision,
            "Write refused: the decision breaks an invariant. This is a bug, please report"
        );
        Err(ApiError::Refused(Box::new(Refusal { object, violation })))
    }
}

/// `replicasets default/web`.
fn name_of(target: Target<'_>) -> String {
    let plural = &target.resource.plural;
    let name = target.name.unwrap_or_default();
    match target.namespace {
        Some(namespace) => format!("{plural} {namespace}/{name}"),
        None => format!("{plural} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use kube::client::Body;
    use prometheus::Registry;
    use steersman_values::resource::{NODES, PODS};

    use super::*;
    use crate::{ClientMetrics, ClientSettings};

    fn client(registry: &Registry) -> ApiClient {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Err::<http::Response<Body>, _>(io::Error::other("no request is expected"))
        });
        let settings = ClientSettings {
            user_agent: "test/replicaset-controller".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(5),
        };
        let metrics = ClientMetrics::register(registry).unwrap();
        ApiClient::new(kube::Client::new(service, "default"), settings, metrics)
    }

    fn counts(registry: &Registry) -> Vec<(String, f64)> {
        let families = registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == "steersman_invariant_violations_total");
        let series = family.into_iter().flat_map(|family| family.get_metric());
        series
            .map(|series| {
                let labels = series.get_label().iter().map(|label| label.value());
                let labels: Vec<_> = labels.collect();
                (labels.join(" "), series.get_counter().get_value())
            })
            .collect()
    }

    #[tokio::test]
    async fn a_violation_refuses_the_write_and_is_counted_from_zero() {
        let registry = Registry::new();
        let client = client(&registry);
        let series = "replicaset-controller wanted_pods".to_owned();
        client.counts_violations_of(&["wanted_pods"]);
        assert_eq!(counts(&registry), [(series.clone(), 0.0)]);
        let checked =
            |holds| Violation::unless(holds, "wanted_pods", || "delete 2 of 3".to_owned());
        let pod = Target {
            resource: &PODS,
            namespace: Some("default"),
            name: Some("web-1"),
            subresource: None,
        };
        assert!(client.permit(pod, checked(true)).is_ok());
        assert_eq!(counts(&registry), [(series.clone(), 0.0)]);
        let error = client.permit(pod, checked(false)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "pods default/web-1: not written, the decision breaks the invariant wanted_pods: delete 2 of 3"
        );
        assert_eq!(Category::of(&error).as_str(), "invariant");
        assert!(!error.may_be_done() && !error.is_transient() && !error.is_fenced());
        assert_eq!(error.request(), "not sent");
        assert_eq!(counts(&registry), [(series, 1.0)]);
    }

    #[test]
    fn objects_without_a_namespace_have_their_name_alone() {
        let node = Target {
            resource: &NODES,
            namespace: None,
            name: Some("n1"),
            subresource: None,
        };
        assert_eq!(name_of(node), "nodes n1");
    }
}
