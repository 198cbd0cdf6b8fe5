//! A Kubernetes API server in memory: the API of kube-apiserver without etcd, for development and tests.
//! By default it is that of 1.36; [`Server::of_release`] serves another known release.
//!
//! in-process client or HTTPS -> authentication -> `rest` -> admission, defaults, validation ->
//! `store` -> watches
//!
//! [`Server`] promises the answers of a real server, as far as `docs/devcluster.md` does not list a
//! gap: the checks of `steersman-conformance` and recorded answers of kube-apiserver compare them.
//! In one process, a test needs no installed binaries, can pause Tokio's time, and can inject
//! [`faults`] at any request. The facts about kinds are tables (`kinds`, `schema`, `defaults`,
//! `tables`), because kinds differ in data and not in code.
//!
//! [`Server`] is in this file, because `auth`, `admission` and `rest` each implement a part of it.
//! They share [`route`], and depend on each other in one direction: `rest` -> `admission`, `auth`.
//!
//! Upstream: `k8s.io/apiserver`, `k8s.io/apiextensions-apiserver`, and `pkg/apis`, `pkg/registry`
//! and `plugin/pkg` of `k8s.io/kubernetes`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use steersman_releases::Release;
use steersman_values::cidr::Cidr;
use steersman_values::clock::Clock;

pub mod auth;
pub mod defaults;
pub mod faults;
pub mod fielderror;
pub mod go_format;
pub mod https;
pub mod kinds;
pub mod patch;
pub mod registry;
pub mod requests;
pub mod rest;
pub mod route;
pub mod schema;
pub mod selectors;
pub mod status;
pub mod store;
pub mod tables;
pub mod validate;
pub mod yaml;

mod admission;
mod apimachinery;
mod calls;
mod cel;
mod compaction;
mod containers;
mod custom;
mod depth;
mod expiry;
mod in_process;
mod managed_fields;
mod metrics;
mod openapi;
mod random;

pub use admission::Admission;
pub use compaction::{COMPACTION_INTERVAL, compact_revisions};
pub use expiry::expire_events;
pub use in_process::InProcess;
pub use rest::aggregate;

use auth::{CertificateError, ClientCertificate, KeyError, User, Users};
use faults::Faults;
use metrics::Metrics;
use random::Random;
use registry::Registry;
use requests::RequestLog;
use rest::{Addresses, Aggregated, Components, Definitions, Holdings, ServiceRangeError};
use store::Revisions;

/// The state behind both doors.
#[derive(Debug)]
pub struct Server {
    /// The resources being served.
    pub registry: Registry,
    /// The revision counter.
    pub revisions: Revisions,
    /// Tells the time of everything that is stored.
    pub clock: Clock,
    /// Injected failures.
    pub faults: Faults,
    /// The latest requests.
    pub log: RequestLog,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) users: Users,
    /// Admission of new pods.
    pub(crate) admission: Admission,
    pub(crate) random: Random,
    pub(crate) policies: admission::Policies,
    pub(crate) webhooks: admission::Webhooks,
    /// Held while quotas are checked and used up.
    pub(crate) quota_lock: Mutex<()>,
    addresses: Addresses,
    /// The files that clients wrote into simulated containers.
    pub(crate) disks: Arc<containers::Disks>,
    /// The definitions found last. The lock is held while the registry follows the stored
    /// definitions.
    settling: Mutex<Definitions>,
    /// The APIs of other programs.
    aggregated: Aggregated,
    components: Components,
    /// Whether entries of managed fields begin with creation, rather than with the first apply.
    pub(crate) tracks_creations: bool,
    /// The gate `ManagedFieldsOptOut` of 1.38: clients may ask for objects without managed fields.
    pub(crate) managed_fields_opt_out: bool,
    /// Whether the Status in the answer to a DELETE has the version of the deletion, as since 1.38.
    pub(crate) deletion_versions: bool,
}

impl Server {
    /// A server with the built-in kinds and the namespaces of every cluster. With
    /// `tracks_creations`, managed fields are recorded from creation on, else from the first
    /// server-side apply on.
    pub fn new(clock: Clock, tracks_creations: bool) -> Self {
        Self::seeded(clock, tracks_creations, None)
    }

    /// The same; a seed makes names, UIDs and lifetimes repeat.
    pub fn seeded(clock: Clock, tracks_creations: bool, seed: Option<u64>) -> Self {
        Self::of_release(Release::DEFAULT, clock, tracks_creations, seed)
    }

    /// The same with the resources, fields and feature gates of `release`, as far as the table of
    /// releases knows them. docs/releases.md tells the differences to real servers.
    pub fn of_release(
        release: Release,
        clock: Clock,
        tracks_creations: bool,
        seed: Option<u64>,
    ) -> Self {
        let server = Self {
            registry: Registry::of_release(release),
            revisions: Revisions::default(),
            clock,
            faults: Faults::default(),
            log: RequestLog::default(),
            metrics: Arc::default(),
            users: Users::new(),
            admission: Admission::default(),
            random: Random::new(seed),
            policies: admission::Policies::default(),
            webhooks: admission::Webhooks::default(),
            quota_lock: Mutex::default(),
            addresses: Addresses::default(),
            disks: Arc::default(),
            settling: Mutex::default(),
            aggregated: Aggregated::default(),
            components: Components::default(),
            tracks_creations,
            managed_fields_opt_out: false,
            deletion_versions: false,
        };
        server.create_system_objects();
        server
    }

    /// A server of its own with the same objects, at the same revision. It starts with empty
    /// history, request log and fault rules.
    pub fn fork(&self) -> Self {
        let (registry, revisions) = self.registry.fork(&self.revisions);
        let services = registry
            .find("", "v1", "services")
            .expect("services are built in")
            .store
            .list(&revisions, "")
            .objects;
        let addresses = self
            .addresses
            .fork(services.iter().map(|service| Holdings::of(service)));
        Self {
            registry,
            revisions,
            clock: self.clock.clone(),
            faults: Faults::default(),
            log: RequestLog::default(),
            metrics: Arc::default(),
            users: self.users.fork(),
            admission: self.admission,
            random: Random::new(None),
            policies: admission::Policies::default(),
            webhooks: admission::Webhooks::default(),
            quota_lock: Mutex::default(),
            addresses,
            disks: Arc::default(),
            settling: Mutex::default(),
            aggregated: Aggregated::default(),
            components: Components::default(),
            tracks_creations: self.tracks_creations,
            managed_fields_opt_out: self.managed_fields_opt_out,
            deletion_versions: self.deletion_versions,
        }
    }

    /// Lets clients ask for objects without `metadata.managedFields`, by the parameter `drop` in `Accept`.
    /// This is the gate `ManagedFieldsOptOut` of 1.38, which is off by default there, too.
    pub fn allow_managed_fields_opt_out(&mut self) {
        self.managed_fields_opt_out = true;
    }

    /// Tells the version of a deletion in the answer to a DELETE, if the answer is a Status. API servers do so
    /// since kubernetes#138724, which is a part of 1.38.
    pub fn tell_deletion_versions(&mut self) {
        self.deletion_versions = true;
    }

    /// The same, with a clock of its own. With a seed, the server generates the same names and
    /// UIDs in every run.
    pub fn fork_with(&self, clock: Clock, tracks_creations: bool, seed: Option<u64>) -> Self {
        Self {
            clock,
            tracks_creations,
            random: Random::new(seed),
            ..self.fork()
        }
    }

    /// The release that the server serves.
    pub fn release(&self) -> Release {
        self.registry.release()
    }

    /// Authenticates requests with this bearer token as `user`.
    pub fn add_token(&self, token: String, user: User) {
        self.users.add_token(token, user);
    }

    /// Accepts ServiceAccount tokens that other keys sign, as `--service-account-key-file` of
    /// kube-apiserver. `pem` has blocks `PUBLIC KEY` with RSA, P-256, P-384 or P-521 keys.
    pub fn add_service_account_keys(&self, pem: &str) -> Result<(), KeyError> {
        self.users.add_keys(pem)
    }

    /// Names the issuer of ServiceAccount tokens, which is the audience of the API server, too: the
    /// first value of `--service-account-issuer` of kube-apiserver. A second call has no effect.
    pub fn set_token_issuer(&self, issuer: String) {
        self.users.set_issuer(issuer);
    }

    /// Allows all requests of all users, and refuses anonymous ones: the mode AlwaysAllow of
    /// kube-apiserver's `--authorization-mode`, after Node and RBAC.
    pub fn set_always_allow(&self) {
        self.users.set_always_allow();
    }

    /// Replaces the service CIDR, which is 10.96.0.0/16: `--service-cluster-ip-range` of kube-apiserver.
    /// Call it before the first port opens, which makes the Service `kubernetes`.
    pub fn set_service_range(&self, cidr: Cidr) -> Result<(), ServiceRangeError> {
        self.addresses.set_range(cidr)
    }

    /// The private key that signs ServiceAccount tokens, as a PEM block `PRIVATE KEY`. A manager
    /// signs the tokens of Secrets with it.
    pub fn service_account_key_pem(&self) -> &str {
        self.users.signing_key_pem()
    }

    /// The certificate of the authority for users and servers, as PEM.
    pub fn authority_pem(&self) -> String {
        self.users.authority().pem()
    }

    /// A certificate of that authority for a server at `host`, with the authority's behind it, and its
    /// key, as PEM.
    pub fn serving_certificate(&self, host: &str) -> Result<(String, String), CertificateError> {
        Ok(self.users.authority().server_certificate(host)?)
    }

    /// The private key of that authority, as a PEM block `PRIVATE KEY`. A manager signs
    /// certificates with it.
    pub fn authority_key_pem(&self) -> String {
        self.users.authority().key_pem()
    }

    /// Signs a client certificate for `user`.
    pub fn client_certificate(&self, user: &User) -> Result<ClientCertificate, CertificateError> {
        self.users.authority().client_certificate(user)
    }

    /// Signs the client certificate of an authenticating proxy, which names users in
    /// `X-Remote-User`.
    pub fn front_proxy_certificate(&self) -> Result<ClientCertificate, CertificateError> {
        self.users.authority().front_proxy_certificate()
    }

    /// All objects of a plural resource, in the order of their keys; nothing for an unknown one.
    pub fn objects(&self, plural: &str) -> Vec<Value> {
        let found = self.registry.find_plural(plural);
        found.map_or_else(Vec::new, |entry| {
            entry
                .store
                .list(&self.revisions, "")
                .objects
                .iter()
                .map(|object| object.to_value())
                .collect()
        })
    }
}
