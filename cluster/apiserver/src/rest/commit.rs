//! Commits changes, and applies their direct consequences.
//!
//! A commit also updates allocated addresses, the objects that every namespace has, and the usage
//! of quotas. Upstream leaves the last two to controllers; here they happen at once, so that tests
//! need not wait.

use std::sync::Arc;

use serde_json::json;

use super::Server;
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::status::Status;
use crate::store::{Change, Object, Raced};

/// The reason why a write did not happen.
pub(super) enum NotWritten {
    /// Another write changed the object first. The caller can retry with the new state.
    Raced,
    Refused(Status),
}

impl From<Status> for NotWritten {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl Server {
    /// Replaces `expected` under `key`, and does the work of the controllers that this server
    /// replaces.
    pub(super) fn commit(
        &self,
        entry: &Registered,
        key: &str,
        expected: Option<&Arc<Object>>,
        change: Change,
    ) -> Result<Arc<Object>, Raced> {
        let resource = &entry.resource;
        let removed = matches!(change, Change::Remove);
        let committed = entry
            .store
            .commit(resource, &self.revisions, key, expected, change)?;
        self.hand_over(
            resource,
            expected.map(|old| &**old),
            (!removed).then_some(&committed),
        );
        self.restore_token_tracking(resource, &committed, removed);
        match expected {
            None if resource.is("Namespace") => self.create_namespace_defaults(key),
            Some(_) if removed && is_namespace_default(resource, committed.name()) => {
                self.create_namespace_defaults(committed.namespace())
            }
            _ => {}
        }
        let namespace = committed.namespace();
        if !self.admission.quota_controller
            && self.is_counted(resource, namespace)
            && expected.is_none_or(|old| {
                removed || self.matters(resource, &old.to_value(), &committed.to_value())
            })
        {
            self.recount(namespace);
        }
        Ok(committed)
    }

    /// Creates the ServiceAccount and the certificate that pods need, as far as no controller does,
    /// if the namespace is not terminating.
    pub(super) fn create_namespace_defaults(&self, namespace: &str) {
        let namespaces = self
            .registry
            .find("", "v1", "namespaces")
            .expect("namespaces are built in");
        if namespaces
            .store
            .get(namespace)
            .is_none_or(|namespace| namespace.deleting)
        {
            return;
        }
        if self.admission.default_accounts {
            self.create_system_object(json!({
                "kind": "ServiceAccount",
                "apiVersion": "v1",
                "metadata": {"name": ACCOUNT, "namespace": namespace},
            }));
        }
        if self.admission.root_ca {
            self.create_system_object(json!({
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {
                    "name": CERTIFICATE,
                    "namespace": namespace,
                    "annotations": {"kubernetes.io/description": ROOT_CERTIFICATE},
                },
                "data": {"ca.crt": self.users.authority().pem()},
            }));
        }
    }
}

fn is_namespace_default(resource: &Resource, name: &str) -> bool {
    (resource.is("ServiceAccount") && name == ACCOUNT)
        || (resource.is("ConfigMap") && name == CERTIFICATE)
}

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";
/// The annotation that upstream's publisher writes.
const ROOT_CERTIFICATE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
                                the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                                Kubernetes clusters.";
