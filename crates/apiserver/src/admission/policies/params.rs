//! The parameters of a binding: objects of the policy's `paramKind`.
//!
//! Upstream: `CollectParams` in `pkg/admission/plugin/policy/generic` of `k8s.io/apiserver`.

use serde_json::Value;

use crate::Server;
use crate::apimachinery::errors::text;
use crate::cel::policy::Policy;
use crate::selectors::selects;

impl Server {
    /// The objects for which a policy is evaluated; one `None` if it takes no parameters.
    pub(super) fn params(
        &self,
        policy: &Policy,
        binding: &Value,
        namespace: &str,
    ) -> Result<Vec<Option<Value>>, String> {
        let reference = &binding["spec"]["paramRef"];
        let Some((version, kind)) = &policy.param_kind else {
            return Ok(vec![None]);
        };
        if !reference.is_object() {
            return Ok(vec![None]);
        }
        let entry = self
            .registry
            .find_kind(version, kind)
            .ok_or_else(|| format!("paramKind kind `{version}, Kind={kind}` not known"))?;
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
        let shown = |object: Value| {
            let resource = &entry.resource;
            Some(resource.converted(resource.shown(object)))
        };
        let found: Vec<Option<Value>> = match text(reference, "name") {
            "" => {
                let objects = entry.store.list(&self.revisions, &prefix).objects;
                let selected = objects
                    .iter()
                    .filter(|object| selects(&reference["selector"], object));
                selected.map(|object| shown(object.to_value())).collect()
            }
            name => {
                let object = entry.store.get(&format!("{prefix}{name}"));
                object
                    .map(|object| shown(object.to_value()))
                    .into_iter()
                    .collect()
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
