//! The objects that every cluster has: namespaces, roles, and the address of the API server.
//!
//! Upstream is `pkg/controlplane/controller` (`systemnamespaces`, `kubernetesservice`,
//! `clusterauthenticationtrust`).

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::definitions::MANAGER;
use super::managers::Tracking;
use super::{Server, metadata};
use crate::admission::{Admission, system_classes};
use crate::auth;
use crate::calls::at_once;
use crate::managed_fields::{Author, Operation};
use crate::registry::Registered;
use crate::store::Change;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Server {
    pub(crate) fn create_system_objects(&self) {
        for name in NAMESPACES {
            let mut namespace = json!({
                "kind": "Namespace",
                "apiVersion": "v1",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            });
            self.sign(&mut namespace);
            // What the server adds at creation has no manager.
            namespace["spec"] = json!({"finalizers": ["kubernetes"]});
            namespace["status"] = json!({"phase": "Active"});
            self.create_system_object(namespace);
        }
        for mut object in system_classes().chain(auth::bootstrap_objects()) {
            self.sign(&mut object);
            self.create_system_object(object);
        }
        self.create_api_services();
    }

    /// Publishes the address of the server, its certificate authorities, and since when it records
    /// uses of token Secrets. Existing objects stay unchanged.
    pub(crate) fn publish(&self, address: SocketAddr) {
        let mut trust = self.trust();
        self.sign(&mut trust);
        self.create_system_object(trust);
        self.create_token_tracking();
        for object in self.service(address) {
            self.create_system_object(object);
        }
        let range = self.service_range();
        self.create_system_object(range);
    }

    /// The ServiceCIDR of the addresses of Services.
    /// Upstream: `pkg/controlplane/controller/defaultservicecidr`.
    fn service_range(&self) -> Value {
        let mut range = json!({
            "kind": "ServiceCIDR",
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [self.addresses.range().to_string()]},
        });
        self.sign(&mut range);
        let time = self.time();
        range["status"] = json!({"conditions": [{
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": time,
            "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
        }]});
        if let Some(entries) = range["metadata"]["managedFields"].as_array_mut() {
            let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {}});
            let applied = json!({
                "manager": "kubernetes-service-cidr-controller",
                "operation": "Apply",
                "apiVersion": "networking.k8s.io/v1",
                "time": time,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": condition}}},
                "subresource": "status",
            });
            entries.insert(0, applied);
        }
        range
    }

    /// The Service `kubernetes`, its Endpoints and its EndpointSlice.
    fn service(&self, address: SocketAddr) -> [Value; 3] {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let port = address.port();
        let cluster_ip = self.addresses.first();
        let ports = json!([{"name": "https", "protocol": "TCP", "port": port}]);
        let mut service = json!({
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {
                "name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
                "clusterIP": cluster_ip,
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        });
        let mut endpoints = json!({
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": address.ip()}], "ports": &ports}],
        });
        let mut slice = json!({
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": family,
            "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
            "ports": ports,
        });
        for object in [&mut service, &mut endpoints, &mut slice] {
            self.sign(object);
        }
        // Allocated fields have no manager.
        service["spec"]["clusterIPs"] = json!([cluster_ip]);
        service["spec"]["ipFamilies"] = json!(["IPv4"]);
        service["status"] = json!({"loadBalancer": {}});
        [service, endpoints, slice]
    }

    /// The ConfigMap with which other API servers of the cluster authenticate users.
    fn trust(&self) -> Value {
        let authority = self.users.authority();
        let list = |text: &str| json!([text]).to_string();
        json!({
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": authority.pem(),
                "requestheader-allowed-names": list(auth::FRONT_PROXY),
                "requestheader-client-ca-file": authority.front_proxy_pem(),
                "requestheader-extra-headers-prefix": list(auth::EXTRA_HEADERS),
                "requestheader-group-headers": list(auth::GROUP_HEADER),
                "requestheader-uid-headers": list(auth::UID_HEADER),
                "requestheader-username-headers": list(auth::USER_HEADER),
            },
        })
    }

    /// Enables admission plugins. Call it before the first request.
    pub fn set_admission(&mut self, admission: Admission) {
        self.admission = admission;
        let namespaces = self
            .registry
            .find("", "v1", "namespaces")
            .expect("namespaces are built in");
        let present = namespaces.store.list(&self.revisions, "").objects;
        present
            .iter()
            .for_each(|namespace| self.create_namespace_defaults(namespace.name()));
    }

    /// Makes the server itself the manager of all fields of a new object, if the server records
    /// managers from creation on.
    pub(super) fn sign(&self, object: &mut Value) {
        let entry = self.system_kind(object);
        let author = Author {
            manager: MANAGER.to_owned(),
            operation: Operation::Update,
            api_version: entry.resource.api_version(),
            subresource: "".into(),
        };
        let tracking = Tracking::Update(&author);
        at_once(self.manage_new(&entry.resource, object, None, tracking));
    }

    fn system_kind(&self, object: &Value) -> Arc<Registered> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        self.registry
            .find_kind(text("apiVersion"), text("kind"))
            .expect("kinds of system objects are built in")
    }

    /// Stores an object without admission and validation.
    pub(super) fn create_system_object(&self, mut object: Value) {
        let entry = self.system_kind(&object);
        metadata::begin(
            &entry.resource,
            &mut object,
            self.random.identities.uid(),
            self.clock.now(),
        );
        let key = match metadata::text(&object, "namespace") {
            "" => metadata::text(&object, "name").to_owned(),
            namespace => format!("{namespace}/{}", metadata::text(&object, "name")),
        };
        // An existing object stays unchanged.
        if let Ok(created) = entry.store.commit(
            &entry.resource,
            &self.revisions,
            &key,
            None,
            Change::Put(object),
        ) {
            self.hand_over(&entry.resource, None, Some(&created));
        }
    }
}
