//! Pods of a new namespace wait for its account.
//!
//! The service account controller makes the account `default` a moment after the namespace. Upstream's
//! plugin `plugin/pkg/admission/serviceaccount` looks it up ten times before it refuses a pod.

use std::time::Duration;

use super::Server;
use crate::route::Target;

/// Look-ups after the first one.
const LOOK_UPS: usize = 9;
/// Time between two look-ups. Upstream: a random time between 100 and 200 ms.
const PAUSE: Duration = Duration::from_millis(150);

impl Server {
    /// Before the creation of a pod, waits until its namespace has the account `default`, for at
    /// most nine pauses. Without such a namespace, the request fails anyway.
    pub(super) async fn await_account(&self, target: &Target) {
        let is_new = target.resource().is("Pod") && target.name.is_empty();
        if !is_new || !self.admission.service_accounts {
            return;
        }
        let namespace = &target.namespace;
        let account = format!("{namespace}/default");
        for _ in 0..LOOK_UPS {
            let lives = self.find_object("namespaces", namespace);
            if lives.is_none_or(|namespace| namespace.deleting)
                || self.find_object("serviceaccounts", &account).is_some()
            {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
