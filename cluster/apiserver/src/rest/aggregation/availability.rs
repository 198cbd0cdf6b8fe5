//! The condition `Available` of APIServices with a Service, as far as it needs no request.

use serde_json::{Value, json};

use super::super::metadata;
use super::Program;
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::calls::transport::{self, Identity, Trust};

/// The state of an APIService before a request to its program.
pub(super) enum Known {
    /// Its condition, which needs no request.
    Condition(Value),
    /// The answer of this program decides.
    Ask(Program),
}

impl Server {
    /// The Service of an APIService; null if it is missing.
    pub(super) fn service_of(&self, spec: &Value) -> Value {
        let service = &spec["service"];
        let key = format!("{}/{}", text(service, "namespace"), text(service, "name"));
        let found = self.find_object("services", &key);
        found.map_or(Value::Null, |found| found.to_value()["spec"].clone())
    }

    /// The condition of an APIService with a Service, if it needs no request.
    pub(in super::super) fn known_condition(&self, spec: &Value) -> Option<Value> {
        match self.known_of(spec, &self.service_of(spec)) {
            Known::Condition(condition) => Some(condition),
            Known::Ask(_) => None,
        }
    }

    /// `found` is the spec of its Service. Upstream: `AvailableConditionController.sync`, which looks at the
    /// ports of Services of the type `ClusterIP` only.
    pub(super) fn known_of(&self, spec: &Value, found: &Value) -> Known {
        let service = &spec["service"];
        let name = text(service, "name");
        let namespace = text(service, "namespace");
        let port = service["port"].as_u64().unwrap_or(443);
        let unavailable = |reason: &str, message: String| {
            Known::Condition(self.available("False", reason, &message))
        };
        let place = format!("service/{name} in {namespace:?}");
        if found.is_null() {
            return unavailable("ServiceNotFound", format!("{place} is not present"));
        }
        if text(found, "type") == "ExternalName" {
            return Known::Ask(self.program(spec, text(found, "externalName"), port));
        }
        let path = format!("/apis/{}/{}", text(spec, "group"), text(spec, "version"));
        let url = format!("https://{}:{port}{path}", text(found, "clusterIP"));
        let unreached = || {
            let message = format!(
                "failing or missing response from {url}: Get {url:?}: simulated pods serve no API"
            );
            unavailable("FailedDiscoveryCheck", message)
        };
        if !matches!(text(found, "type"), "" | "ClusterIP") {
            return unreached();
        }
        let mut ports = list(found, "ports").iter();
        let Some(named) = ports.find(|one| one["port"] == port) else {
            let message = format!("{place} is not listening on port {port}");
            return unavailable("ServicePortError", message);
        };
        let slices = self.slices_of(namespace, name);
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for {place}");
            return unavailable("EndpointsNotFound", message);
        }
        let port_name = text(named, "name");
        let is_ready = |slice: &Value| {
            let mut endpoints = list(slice, "endpoints").iter();
            let mut ports = list(slice, "ports").iter();
            endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false)
                && ports.any(|port| text(port, "name") == port_name && !port["port"].is_null())
        };
        if !slices.iter().any(is_ready) {
            let message = format!(
                "endpointslices for {place} have no addresses with port name {port_name:?}"
            );
            return unavailable("MissingEndpoints", message);
        }
        unreached()
    }

    fn slices_of(&self, namespace: &str, service: &str) -> Vec<Value> {
        let Some(entry) = self
            .registry
            .find("discovery.k8s.io", "v1", "endpointslices")
        else {
            return Vec::new();
        };
        let slices = entry.store.list(&self.revisions, &format!("{namespace}/"));
        let own = slices
            .objects
            .into_iter()
            .filter(|slice| slice.label("kubernetes.io/service-name") == Some(service));
        own.map(|slice| slice.to_value()).collect()
    }

    fn program(&self, spec: &Value, host: &str, port: u64) -> Program {
        let service = &spec["service"];
        let trust = if spec["insecureSkipTLSVerify"] == true {
            Trust::All
        } else {
            Trust::Bundle(text(spec, "caBundle"))
        };
        let certificate = self.aggregated.certificate.get_or_init(|| {
            let made = self.front_proxy_certificate();
            made.inspect_err(|error| tracing::warn!(%error, "no certificate for the front proxy"))
                .ok()
        });
        let own = certificate.as_ref().map(|own| Identity {
            certificate: &own.certificate_pem,
            key: &own.key_pem,
        });
        Program {
            name: format!(
                "{}.{}.svc",
                text(service, "name"),
                text(service, "namespace")
            ),
            host: host.to_owned(),
            port: u16::try_from(port).unwrap_or_default(),
            tls: transport::connector(trust, own),
        }
    }

    /// The condition `Available`.
    pub(in super::super) fn available(&self, status: &str, reason: &str, message: &str) -> Value {
        json!({
            "type": "Available",
            "status": status,
            "lastTransitionTime": metadata::time(self.clock.now()),
            "reason": reason,
            "message": message,
        })
    }
}
