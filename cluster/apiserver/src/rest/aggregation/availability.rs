//! The checks of programs behind APIServices, and the condition `Available`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_all};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::api_services::MANAGED;
use super::super::metadata;
use super::{Program, Remote};
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::calls::transport::{self, Identity, Trust};
use crate::store::Object;

/// A program is asked again after this time, as upstream's resync.
const RESYNC: Duration = Duration::from_secs(30);
/// The first wait after a failed check. Later ones double up to [`RESYNC`].
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// The kinds that decide about APIServices.
const WATCHED: [(&str, &str, &str); 3] = [
    ("apiregistration.k8s.io", "v1", "apiservices"),
    ("", "v1", "services"),
    ("discovery.k8s.io", "v1", "endpointslices"),
];

/// The state of an APIService before a request to its program.
enum Known {
    /// Its condition, which needs no request.
    Condition(Value),
    /// The answer of this program decides.
    Ask(Program),
}

/// The last check of an APIService.
#[derive(Clone)]
struct Check {
    /// The UID and spec of the APIService, and the spec of its Service. A change asks for a new check.
    about: String,
    due: Option<Instant>,
    failures: u32,
    condition: Value,
    remote: Arc<Remote>,
}

/// Checks the programs behind APIServices and proxies requests to them, until dropped.
pub async fn aggregate(server: Arc<Server>) {
    let kinds = WATCHED.iter();
    let found = kinds.filter_map(|(group, version, plural)| {
        Some(
            server
                .registry
                .find(group, version, plural)?
                .store
                .committed(),
        )
    });
    let mut changes: Vec<_> = found.collect();
    let mut checks = BTreeMap::new();
    loop {
        for change in &mut changes {
            change.borrow_and_update();
        }
        let due = server.check_remotes(&mut checks).await;
        let next_is_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let waits = changes.iter_mut().map(|change| Box::pin(change.changed()));
        tokio::select! {
            () = next_is_due => {}
            (changed, ..) = select_all(waits) => if changed.is_err() { return },
        }
    }
}

impl Server {
    /// Checks all APIServices that are due. Returns the time of the next check.
    async fn check_remotes(&self, checks: &mut BTreeMap<String, Check>) -> Option<Instant> {
        let entry = self.api_service_kind();
        let objects = entry.store.list(&self.revisions, "").objects;
        let objects: Vec<(Arc<Object>, Value)> = objects
            .into_iter()
            .filter(|object| object.label(MANAGED).is_none())
            .map(|object| (object.clone(), object.to_value()))
            .filter(|(_, value)| value["spec"]["service"].is_object())
            .collect();
        let checked = objects.iter().map(|(object, value)| {
            let last = checks.get(object.name());
            self.check_remote(value, last)
        });
        let checked = join_all(checked).await;
        let remotes = checked.iter().map(|check| {
            let remote = &check.remote;
            let key = (remote.group.clone(), remote.version.clone());
            (key, Arc::clone(remote))
        });
        // Clients wait for the condition, so the program is reachable before.
        *self.aggregated.remotes.write() = remotes.collect();
        checks.clear();
        for ((object, _), check) in objects.iter().zip(checked) {
            self.set_availability(&entry, object, check.condition.clone());
            checks.insert(object.name().to_owned(), check);
        }
        checks.values().filter_map(|check| check.due).min()
    }

    /// The last check, if it is still valid, or a new one.
    async fn check_remote(&self, object: &Value, last: Option<&Check>) -> Check {
        let spec = &object["spec"];
        let service = self.service_of(spec);
        let about = format!("{}{spec}{service}", object["metadata"]["uid"]);
        let last = last.filter(|last| last.about == about);
        let is_valid = |last: &&Check| last.due.is_some_and(|due| Instant::now() < due);
        if let Some(last) = last.filter(is_valid) {
            return last.clone();
        }
        let path = format!("/apis/{}/{}", text(spec, "group"), text(spec, "version"));
        let mut remote = Remote {
            group: text(spec, "group").to_owned(),
            version: text(spec, "version").to_owned(),
            priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            program: None,
            is_available: false,
            resources: None,
            documents: serde_json::Map::new(),
        };
        let program = match self.known_of(spec, &service) {
            Known::Condition(condition) => {
                return Check {
                    about,
                    due: None,
                    failures: 0,
                    condition,
                    remote: Arc::new(remote),
                };
            }
            Known::Ask(program) => Arc::new(program),
        };
        remote.program = Some(Arc::clone(&program));
        let checked = program.check(&path).await;
        let mut failures = 0;
        if checked.is_ok() {
            remote.is_available = true;
            (remote.resources, remote.documents) = futures::join!(
                program.resources(&remote.group, &remote.version),
                program.documents(&path)
            );
        } else {
            failures = last.map_or(0, |last| last.failures).saturating_add(1);
        }
        let wait = match failures {
            0 => RESYNC,
            count => FIRST_RETRY
                .saturating_mul(2_u32.saturating_pow(count - 1))
                .min(RESYNC),
        };
        let condition = match checked {
            Ok(()) => self.available("True", "Passed", "all checks passed"),
            Err(why) => self.available("False", "FailedDiscoveryCheck", &why),
        };
        Check {
            about,
            due: Some(Instant::now() + wait),
            failures,
            condition,
            remote: Arc::new(remote),
        }
    }

    /// The Service of an APIService; null if it is missing.
    fn service_of(&self, spec: &Value) -> Value {
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
    fn known_of(&self, spec: &Value, found: &Value) -> Known {
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
