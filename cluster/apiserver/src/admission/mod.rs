//! Admission: completes new objects beyond defaults, and refuses objects that plugins forbid.
//!
//! Each submodule stands for one upstream plugin, and sends its messages. The order follows
//! upstream's (`pkg/kubeapiserver/options/plugins.go`): mutating plugins run before validation, and
//! quota runs last, so that only accepted objects count.
//!
//! defaults -> limits' defaults -> account -> taints of nodes -> priority, tolerations, storage class
//! -> finalizers of storage -> runtime class, labels of topology, ingress class -> mutating policies, webhooks
//! -> validation -> limits, size of claims -> account -> pod security -> overhead -> certificates
//! -> resizes -> validating policies, webhooks -> quota -> store

mod accounts;
mod amounts;
mod certificates;
mod limits;
mod matching;
mod pod_security;
mod policies;
mod priority;
mod quota;
mod request;
mod resize;
mod rounds;
mod runtime_class;
mod secrets;
mod storage;
mod taints;
mod topology;
mod versions;
mod webhooks;

use serde_json::Value;

pub(crate) use policies::Policies;
pub(crate) use priority::system_classes;
pub(crate) use request::{Operation, Origin, Request};
pub(crate) use webhooks::Webhooks;

use crate::Server;
use crate::route::Target;
use crate::status::Status;
use matching::is_exempt;
use rounds::Rounds;

/// Whether the object is being deleted. LimitRanges do not apply to such objects.
fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Optional admission plugins for pods and nodes. LimitRanges, pod security and quotas are always
/// active.
///
/// A real API server has all of them. Test servers without controllers, such as envtest, usually
/// disable the first one, which refuses pods of missing ServiceAccounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    /// Pods get an account and the volume with its token.
    pub service_accounts: bool,
    /// The server creates the ServiceAccount `default` in each namespace. It takes the place of the
    /// service account controller; do not combine them.
    pub default_accounts: bool,
    /// The server creates the ConfigMap `kube-root-ca.crt` in each namespace. It takes the place of
    /// the root CA certificate publisher; do not combine them.
    pub root_ca: bool,
    /// Pods get the priority of their PriorityClass, of the default class, or 0.
    pub priority: bool,
    /// Pods tolerate the NoExecute taints of failed nodes for 300 seconds, unless they have
    /// tolerations of their own. Upstream: DefaultTolerationSeconds.
    pub tolerations: bool,
    /// New nodes have the taint `node.kubernetes.io/not-ready:NoSchedule`. The node lifecycle
    /// controller removes it; without that controller, few pods fit such nodes. Upstream:
    /// TaintNodesByCondition.
    pub node_taints: bool,
    /// The quota controller counts the usage of quotas. The server then refuses objects by the usage
    /// in the status, and only raises it, as upstream. Without the controller, the server counts
    /// usage at once.
    pub quota_controller: bool,
    /// New PersistentVolumeClaims have the finalizer `kubernetes.io/pvc-protection`. Only its
    /// controller removes the finalizer; without that controller, deletions of claims would never
    /// end. Upstream: StorageObjectInUseProtection, which is these three fields.
    pub protected_claims: bool,
    /// Likewise PersistentVolumes, `kubernetes.io/pv-protection`.
    pub protected_volumes: bool,
    /// Likewise VolumeAttributesClasses, `kubernetes.io/vac-protection`.
    pub protected_classes: bool,
}

impl Admission {
    /// All plugins, as in a cluster made by kubeadm, and the objects of each namespace and the usage
    /// of quotas, for clusters without controllers. Such clusters have no protecting finalizers.
    pub const FULL: Self = Self {
        service_accounts: true,
        default_accounts: true,
        root_ca: true,
        priority: true,
        tolerations: true,
        node_taints: true,
        quota_controller: false,
        protected_claims: false,
        protected_volumes: false,
        protected_classes: false,
    };
}

impl Server {
    /// Runs the mutating plugins on a new object, after its defaults. `name` is the name of the
    /// object in refusals.
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
        if resource.is("PersistentVolumeClaim") {
            self.set_default_class(object);
        }
        if resource.is("Ingress") {
            self.set_default_ingress_class(object);
        }
        if let Some(finalizer) = self.admission.protecting_finalizer(resource) {
            storage::protect(object, finalizer);
        }
        if resource.is("Node") && self.admission.node_taints {
            taints::taint_as_not_ready(object);
        }
        if !resource.is("Pod") {
            return Ok(());
        }
        if let Some(note) = limits::complete(object, &self.limits_of(&target.namespace)) {
            limits::annotate(object, note);
        }
        if self.admission.service_accounts {
            self.set_account(&target.namespace, object)
                .map_err(refused)?;
        }
        if self.admission.priority {
            self.set_priority(object).map_err(refused)?;
        }
        self.tolerate(target, object);
        if let Some(why) = runtime_class::unusable_name(object) {
            return Err(Status::unclassified(&why));
        }
        if let Some(class) = self.runtime_class_of(object).map_err(refused)? {
            runtime_class::complete(object, &class.to_value()).map_err(refused)?;
        }
        self.label_by_topology(object);
        Ok(())
    }

    /// Gives the containers of a resized pod the defaults of LimitRanges. The endpoint cannot change
    /// annotations.
    pub(crate) fn admit_resize(&self, target: &Target, pod: &mut Value, old: &Value) {
        if !is_terminating(old) {
            limits::complete(pod, &self.limits_of(&target.namespace));
        }
    }

    /// Runs the mutating plugins that also complete a changed pod.
    pub(crate) fn admit_change(&self, target: &Target, object: &mut Value, old: &Value) {
        if self.admission.priority && target.resource().is("Pod") {
            priority::keep(object, old);
        }
        self.tolerate(target, object);
    }

    fn tolerate(&self, target: &Target, object: &mut Value) {
        if self.admission.tolerations && target.resource().is("Pod") {
            taints::tolerate_failed_nodes(object);
        }
    }

    /// Runs the validating plugins except quota on a complete new object. 403 if one of them
    /// refuses.
    pub(crate) fn permit(&self, target: &Target, object: &Value) -> Result<(), Status> {
        self.permit_by_limits(target, object)?;
        if target.resource().is("Pod") && self.admission.service_accounts {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            self.check_account(&target.namespace, object)
                .map_err(|why| Status::forbidden(target.resource().named(), name, &why))?;
        }
        self.check_pod_security(target, object, None)?;
        if target.resource().is("Pod") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let refused = |why: &str| Status::forbidden(target.resource().named(), name, why);
            let class = self
                .runtime_class_of(object)
                .map_err(|why| refused(&why))?
                .map(|class| class.to_value());
            runtime_class::check(object, class.as_ref()).map_err(refused)?;
        }
        Ok(())
    }

    /// Runs the validating plugins except quota on a change of the spec. 403 if one of them refuses.
    pub(crate) fn permit_change(
        &self,
        target: &Target,
        object: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        let refused = |why: &str| Status::forbidden(target.resource().named(), &target.name, why);
        if target.resource().is("PersistentVolumeClaim") {
            if !is_terminating(old) {
                self.permit_by_limits(target, object)?;
            }
            self.check_resize(object, old).map_err(refused)?;
        }
        if target.resource().is("Pod") && target.subresource.is_some() {
            self.check_ephemeral_secrets(target, object)?;
        }
        self.check_pod_security(target, object, Some(old))
    }

    /// Lets the mutating policies and webhooks of the cluster change the new object, which `request`
    /// does not have yet. After a change, `built_in` runs the plugins again that ran before, and
    /// policies and webhooks may see the object again. Whether it changed.
    pub(crate) async fn mutate_by_cluster(
        &self,
        request: &Request<'_>,
        object: &mut Value,
        built_in: impl FnOnce(&mut Value) -> Result<(), Status>,
    ) -> Result<bool, Status> {
        if !self.has_mutators(request) {
            return Ok(false);
        }
        let before = object.clone();
        let mut policies = Rounds::default();
        let mut webhooks = Rounds::default();
        self.mutate_by_policies(request, object, &mut policies)
            .await?;
        self.mutate_by_webhooks(request, object, &mut webhooks)
            .await?;
        if policies.is_changed() || webhooks.is_changed() {
            policies.repeat();
            webhooks.repeat();
            built_in(object)?;
            self.mutate_by_policies(request, object, &mut policies)
                .await?;
            self.mutate_by_webhooks(request, object, &mut webhooks)
                .await?;
        }
        Ok(before != *object)
    }

    /// Whether a policy or webhook could change the object of the request.
    fn has_mutators(&self, request: &Request<'_>) -> bool {
        !is_exempt(request) && (self.has_mutating_policies() || self.has_mutating_webhooks())
    }

    /// Runs the validating plugins that decide by user: those of certificates, and the policies and
    /// webhooks of the cluster.
    pub(crate) async fn permit_by_cluster(&self, request: &Request<'_>) -> Result<(), Status> {
        self.permit_signing(request)?;
        self.check_policies(request).await?;
        self.validate_by_webhooks(request).await
    }

    /// 403 for a pod or claim that violates a LimitRange. Limits apply to these two kinds only.
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
