//! The parameters of a binding: objects of the policy's `paramKind`.
//!
//! Upstream: `CollectParams` in `pkg/admission/plugin/policy/generic` of `k8s.io/apiserver`.

use std::sync::Arc;

use serde_json::Value;

use super::super::request::Request;
use crate::Server;
use crate::apimachinery::errors::text;
use crate::cel::policy::Policy;
use crate::registry::Registered;
use crate::selectors::selects;
use crate::status::Status;

impl Server {
    /// The kind of the parameters of a policy, if it takes any.
    pub(super) fn param_kind<R>(
        &self,
        policy: &Policy<R>,
    ) -> Result<Option<Arc<Registered>>, String> {
        let Some((version, kind)) = &policy.param_kind else {
            return Ok(None);
        };
        let core = if version.contains('/') { "" } else { "/" };
        let missing = || {
            format!(
                "failed to find resource referenced by paramKind: '{core}{version}, Kind={kind}'"
            )
        };
        let found = self.registry.find_kind(version, kind);
        found.ok_or_else(missing).map(Some)
    }

    /// The objects for which a policy is evaluated; one `None` if it takes no parameters. The inner
    /// error tells that the binding is wrong, the outer one that a conversion failed.
    pub(super) async fn params(
        &self,
        kind: Option<&Registered>,
        binding: &Value,
        request: &Request<'_>,
    ) -> Result<Result<Vec<Option<Value>>, String>, Status> {
        let reference = &binding["spec"]["paramRef"];
        let Some(entry) = kind.filter(|_| reference.is_object()) else {
            return Ok(Ok(vec![None]));
        };
        let found = match self.stored_params(entry, reference, request.namespace()) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let resource = &entry.resource;
        let found = resource.all_in_version(found, self).await?;
        let shown = found
            .into_iter()
            .map(|param| Some(resource.converted(param)));
        Ok(Ok(shown.collect()))
    }

    /// The referenced objects as they are stored.
    fn stored_params(
        &self,
        entry: &Registered,
        reference: &Value,
        namespace: &str,
    ) -> Result<Vec<Value>, String> {
        let own = text(reference, "namespace");
        let namespace = match (entry.resource.namespaced, own, namespace) {
            (true, "", "") => return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()),
            (true, "", namespace) => namespace,
            (true, own, _) => own,
            (false, "", _) => "",
            (false, ..) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
        };
        let prefix = match namespace {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let found: Vec<Value> = match text(reference, "name") {
            "" => {
                let objects = entry.store.list(&self.revisions, &prefix).objects;
                let selected = objects
                    .iter()
                    .filter(|object| selects(&reference["selector"], object));
                selected.map(|object| object.to_value()).collect()
            }
            name => {
                let object = entry.store.get(&format!("{prefix}{name}"));
                object.map(|object| object.to_value()).into_iter().collect()
            }
        };
        if found.is_empty() && text(reference, "parameterNotFoundAction") == "Deny" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            );
        }
        Ok(found)
    }
}
