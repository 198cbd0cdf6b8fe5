//! Admission: what the server adds to new objects beyond defaults, and what it does not let in.
//!
//! defaults -> limits' defaults -> account -> priority -> validation -> limits -> pod security ->
//! quota -> store

mod accounts;
mod amounts;
mod limits;
mod pod_security;
mod priority;
mod quota;

use serde_json::Value;

pub(crate) use priority::system_classes;
pub(crate) use quota::matters;

use crate::rest::{Server, Target};
use crate::status::Status;

/// What happens to new pods beyond limits and quotas, which always act. A real API server does it
/// all; where no controllers run, such as under envtest, pods are usually left alone, because
/// without its account none can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    /// Every namespace has the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` from
    /// its beginning on, and pods get an account and the volume with its token. What makes the two
    /// are controllers upstream.
    pub service_accounts: bool,
    /// Pods get the number of their PriorityClass, or of the default one, or 0.
    pub priority: bool,
}

impl Admission {
    /// All of it, as in a cluster of kubeadm's.
    pub const FULL: Self = Self {
        service_accounts: true,
        priority: true,
    };
}

impl Server {
    /// Completes a new object after its defaults. `name` is what a refusal calls it.
    pub(crate) fn admit(
        &self,
        target: &Target,
        name: &str,
        object: &mut Value,
    ) -> Result<(), Status> {
        let refused = |why: String| Status::forbidden(target.resource().named(), name, &why);
        let resource = target.resource();
        if resource.is("PriorityClass") {
            return self.check_priority_class(object).map_err(refused);
        }
        if !resource.is("Pod") {
            return Ok(());
        }
        let limits = self.limits_of(&target.namespace);
        if !limits.is_empty() {
            limits::complete(object, &limits);
        }
        if self.admission.service_accounts {
            self.give_account(&target.namespace, object)
                .map_err(refused)?;
        }
        if self.admission.priority {
            self.give_priority(object).map_err(refused)?;
        }
        Ok(())
    }

    /// 403 for a complete new object that must not come in, whatever quotas say.
    pub(crate) fn permit(&self, target: &Target, object: &Value) -> Result<(), Status> {
        self.permit_by_limits(target, object)?;
        self.check_pod_security(target, object, None)
    }

    fn permit_by_limits(&self, target: &Target, object: &Value) -> Result<(), Status> {
        let resource = target.resource();
        if !resource.is("Pod") && !resource.is("PersistentVolumeClaim") {
            return Ok(());
        }
        let limits = self.limits_of(&target.namespace);
        match limits::violations(&resource.kind, object, &limits) {
            Some(why) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                Err(Status::forbidden(target.resource().named(), name, &why))
            }
            None => Ok(()),
        }
    }
}
