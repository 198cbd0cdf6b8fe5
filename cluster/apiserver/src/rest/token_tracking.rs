//! The ConfigMap that tells since when the server records uses of ServiceAccount tokens in Secrets.
//! The controller that removes unused tokens reads it.
//!
//! Upstream: `pkg/controlplane/controller/legacytokentracking`. Upstream's controller recreates the
//! ConfigMap at most every 30 minutes; this server does so at once.

use jiff::civil::Date;
use serde_json::{Value, json};

use super::Server;
use crate::kinds::Resource;
use crate::store::{Change, Object};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const FORMAT: &str = "%Y-%m-%d";

impl Server {
    /// Creates the ConfigMap, unless it exists.
    pub(super) fn create_token_tracking(&self) {
        let mut map = json!({
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": {"since": self.today()},
        });
        self.sign(&mut map);
        self.create_system_object(map);
    }

    /// Restores the ConfigMap after a commit that deleted it or damaged its date.
    pub(super) fn restore_token_tracking(
        &self,
        resource: &Resource,
        committed: &Object,
        removed: bool,
    ) {
        if !resource.is("ConfigMap")
            || committed.namespace() != NAMESPACE
            || committed.name() != NAME
        {
            return;
        }
        if removed {
            return self.create_token_tracking();
        }
        let mut map = committed.to_value();
        let since = map["data"]["since"].as_str().unwrap_or_default();
        let maps = self.registry.find("", "v1", "configmaps");
        if Date::strptime(FORMAT, since).is_err()
            && let Some(maps) = maps
            && let Some(current) = maps.store.get(&committed.key)
            && current.revision == committed.revision
        {
            map["data"]["since"] = Value::from(self.today());
            // A lost race means that another commit has checked the date.
            let _ = maps.store.commit(
                resource,
                &self.revisions,
                &current.key,
                Some(&current),
                Change::Put(map),
            );
        }
    }

    fn today(&self) -> String {
        self.clock.now().strftime(FORMAT).to_string()
    }
}
