//! The cached view of a Service: selector, ports, and the fields that decide about its endpoints.
//!
//! Upstream: `k8s.io/api/core/v1`.

use serde::Deserialize;

use steersman_values::intern::Sym;
use steersman_values::labels::Labels;
use steersman_values::resource::SERVICES;

use crate::view;

view! {
    /// A Service.
    pub struct Service: SERVICES, annotations: ServiceAnnotations {
        /// `spec`.
        pub spec: ServiceSpec,
    }

    /// Annotations of a Service that controllers read.
    pub struct ServiceAnnotations {
        /// Topology mode under its deprecated key.
        #[serde(rename = "service.kubernetes.io/topology-aware-hints")]
        pub topology_aware_hints: Option<Sym>,
        /// Topology mode: `Auto` asks for hints by the CPU of zones.
        #[serde(rename = "service.kubernetes.io/topology-mode")]
        pub topology_mode: Option<Sym>,
    }

    /// `spec` of a Service.
    pub struct ServiceSpec {
        /// Labels of the selected pods. Empty when unset: the API server stores an empty selector as
        /// unset.
        pub selector: Labels,
        /// Ports, in the served order.
        pub ports: Vec<ServicePort>,
        /// Cluster IP; `None` for a headless Service, empty before one is assigned.
        #[serde(rename = "clusterIP")]
        pub cluster_ip: Box<str>,
        /// `IPv4`, `IPv6` or both; empty when unset.
        pub ip_families: Vec<Sym>,
        /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
        #[serde(rename = "type")]
        pub service_type: Sym,
        /// Whether pods that are not ready count as ready.
        pub publish_not_ready_addresses: bool,
        /// Preference for endpoints near the client, such as `PreferSameZone`.
        pub traffic_distribution: Option<Sym>,
        /// Whether a load balancer needs node ports; unset means true.
        pub allocate_load_balancer_node_ports: Option<bool>,
    }

    /// A port of a Service.
    pub struct ServicePort {
        /// Name; empty when unset.
        pub name: Sym,
        /// `TCP`, `UDP` or `SCTP`.
        pub protocol: Sym,
        /// Application protocol.
        pub app_protocol: Option<Sym>,
        /// Number of the port at the cluster IP.
        pub port: i32,
        /// The port of the pods.
        pub target_port: TargetPort,
        /// Port at each node; 0 without one.
        pub node_port: i32,
    }
}

/// `targetPort`: the port of the pods behind a port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum TargetPort {
    /// A number.
    Number(i32),
    /// The name of a port of a container.
    Name(Sym),
}

impl Default for TargetPort {
    /// The value of Go for an absent field. The API server sets the field.
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Service {
    /// Whether the Service has no cluster IP: `None` or empty. Upstream: `IsServiceIPSet`, negated.
    pub fn is_headless(&self) -> bool {
        matches!(&*self.spec.cluster_ip, "" | "None")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn service(spec: &Value) -> Service {
        let json = json!({
            "metadata": {"name": "web", "annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
            "spec": spec,
        });
        Service::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_service_is_decoded() {
        let Service {
            annotations, spec, ..
        } = service(&json!({
            "selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv6", "IPv4"], "type": "NodePort",
            "publishNotReadyAddresses": true, "trafficDistribution": "PreferClose",
            "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web", "appProtocol": "h2c"},
                {"protocol": "UDP", "port": 53, "targetPort": 5353},
            ],
        }));
        assert_eq!(annotations.topology_mode, Some(Sym::new("Auto")));
        assert_eq!(annotations.topology_aware_hints, None);
        assert_eq!(spec.selector, Labels::new([("app", "web")]));
        assert_eq!(
            (&*spec.cluster_ip, &*spec.service_type),
            ("10.0.0.1", "NodePort")
        );
        assert_eq!(spec.ip_families, [Sym::new("IPv6"), Sym::new("IPv4")]);
        assert!(spec.publish_not_ready_addresses);
        assert_eq!(spec.traffic_distribution, Some(Sym::new("PreferClose")));
        let port = |name, protocol, app_protocol: Option<&str>, port, target_port| ServicePort {
            name: Sym::new(name),
            protocol: Sym::new(protocol),
            app_protocol: app_protocol.map(Sym::new),
            port,
            target_port,
            node_port: 0,
        };
        let web = TargetPort::Name(Sym::new("web"));
        let expected = [
            port("http", "TCP", Some("h2c"), 80, web),
            port("", "UDP", None, 53, TargetPort::Number(5353)),
        ];
        assert_eq!(spec.ports, expected);
    }

    #[test]
    fn absent_and_null_members_of_a_service_are_unset() {
        let null = json!({
            "selector": null, "ports": null, "clusterIP": null, "ipFamilies": null, "type": null,
            "publishNotReadyAddresses": null, "trafficDistribution": null,
        });
        for spec in [json!({}), json!({"selector": {}}), null] {
            let service = service(&spec);
            assert_eq!(service.spec, ServiceSpec::default(), "{spec}");
            assert!(service.spec.selector.is_empty() && service.is_headless());
        }
    }

    #[test]
    fn services_without_a_cluster_ip_are_headless() {
        // (cluster IP, headless)
        for (ip, expected) in [
            ("None", true),
            ("", true),
            ("10.0.0.1", false),
            ("::1", false),
        ] {
            let service = service(&json!({"clusterIP": ip}));
            assert_eq!(service.is_headless(), expected, "{ip:?}");
        }
    }
}
