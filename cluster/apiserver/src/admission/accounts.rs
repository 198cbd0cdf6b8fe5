//! The ServiceAccount admission plugin: gives every new pod an account, and mounts a token volume
//! into its containers.
//!
//! A pod or its ServiceAccount can opt out of the volume with `automountServiceAccountToken:
//! false`. `secrets.rs` limits the Secrets of the pod. Upstream: `plugin/pkg/admission/serviceaccount`.

use serde_json::{Value, json};

use super::secrets;
use crate::Server;
use crate::random::Draws;
use crate::route::Target;
use crate::status::Status;

/// The account of a pod that does not name one.
const DEFAULT: &str = "default";
/// Directory in which containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Lifetime of the token in seconds. The token request endpoint gives tokens of exactly this
/// lifetime a longer one; see `rest::token_request`.
const TOKEN_SECONDS: i64 = 3_607;
/// Annotation of mirror pods, which a kubelet creates from static pod files. They have no account.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Server {
    /// Sets account, token volume and image pull secrets of a new pod. The error is the reason for
    /// a 403, such as a missing ServiceAccount.
    pub(super) fn set_account(&self, namespace: &str, pod: &mut Value) -> Result<(), String> {
        if !pod["metadata"]["annotations"][MIRROR].is_null() {
            return self.check_account(namespace, pod);
        }
        let spec = &mut pod["spec"];
        let name = spec["serviceAccountName"]
            .as_str()
            .filter(|name| !name.is_empty())
            .unwrap_or(DEFAULT)
            .to_owned();
        spec["serviceAccountName"] = Value::from(name.as_str());
        spec["serviceAccount"] = Value::from(name.as_str());
        let account = self.find_account(namespace, &name)?;
        let automount = |object: &Value| object["automountServiceAccountToken"].as_bool();
        if automount(spec)
            .or_else(|| automount(&account))
            .unwrap_or(true)
        {
            mount_token(spec, &self.random.identities);
        }
        let has_secrets = spec["imagePullSecrets"]
            .as_array()
            .is_some_and(|secrets| !secrets.is_empty());
        if !has_secrets
            && let Some(secrets) = account["imagePullSecrets"]
                .as_array()
                .filter(|secrets| !secrets.is_empty())
        {
            spec["imagePullSecrets"] = Value::from(secrets.clone());
        }
        secrets::unlisted(&account, spec).map_or(Ok(()), Err)
    }

    /// Checks account and Secrets of a new pod. Policies and webhooks may have changed them since
    /// [`Server::set_account`].
    pub(super) fn check_account(&self, namespace: &str, pod: &Value) -> Result<(), String> {
        let spec = &pod["spec"];
        if !pod["metadata"]["annotations"][MIRROR].is_null() {
            let refusal = forbidden_to_mirrors(spec);
            return refusal.map_or(Ok(()), |why| Err(why.to_owned()));
        }
        let account = spec["serviceAccountName"].as_str().unwrap_or_default();
        if account.is_empty() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            return Err(format!(
                "no service account specified for pod {namespace}/{name}"
            ));
        }
        let account = self.find_account(namespace, account)?;
        secrets::unlisted(&account, spec).map_or(Ok(()), Err)
    }

    /// Checks the Secrets of the ephemeral containers of a pod.
    pub(super) fn check_ephemeral_secrets(
        &self,
        target: &Target,
        pod: &Value,
    ) -> Result<(), Status> {
        if !self.admission.service_accounts {
            return Ok(());
        }
        let refused = |why: &str| Status::forbidden(target.resource().named(), &target.name, why);
        let namespace = &*target.namespace;
        let name = pod["spec"]["serviceAccountName"]
            .as_str()
            .unwrap_or_default();
        if name.is_empty() {
            let why = format!(
                "no service account specified for pod {namespace}/{}",
                target.name
            );
            return Err(refused(&why));
        }
        let account = self
            .find_account(namespace, name)
            .map_err(|why| refused(&why))?;
        // Upstream makes no API error of this refusal.
        let unlisted = secrets::unlisted_by_ephemeral(&account, &pod["spec"]);
        unlisted.map_or(Ok(()), |why| Err(Status::unclassified(why)))
    }

    fn find_account(&self, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.find_object("serviceaccounts", &format!("{namespace}/{name}"));
        let account = found
            .ok_or_else(|| format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"))?;
        Ok(account.to_value())
    }
}

/// The refusal of a mirror pod; `None` if it is accepted.
fn forbidden_to_mirrors(spec: &Value) -> Option<&'static str> {
    let account = spec["serviceAccountName"].as_str().unwrap_or_default();
    if !account.is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if secrets::uses_any(spec) {
        return Some("a mirror pod may not reference secrets");
    }
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut sources = volumes.flat_map(|volume| {
        volume["projected"]["sources"]
            .as_array()
            .into_iter()
            .flatten()
    });
    let has_token = sources.any(|source| !source["serviceAccountToken"].is_null());
    has_token.then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// Adds the token volume, and its mount in each container that has no mount at [`MOUNT_PATH`].
fn mount_token(spec: &mut Value, draws: &Draws) {
    let volumes = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["name"].as_str());
    let known = volumes
        .into_iter()
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    // A pod that already has such a volume keeps it, so a repeated call changes nothing.
    let is_new = known.is_none();
    let volume = known.unwrap_or_else(|| draws.name(VOLUME_PREFIX));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            let mounts = &mut container["volumeMounts"];
            if mounts
                .as_array()
                .into_iter()
                .flatten()
                .any(|mount| mount["mountPath"] == MOUNT_PATH)
            {
                continue;
            }
            if !mounts.is_array() {
                *mounts = json!([]);
            }
            if let Some(mounts) = mounts.as_array_mut() {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
                mounted = true;
            }
        }
    }
    if is_new && mounted {
        if !spec["volumes"].is_array() {
            spec["volumes"] = json!([]);
        }
        if let Some(volumes) = spec["volumes"].as_array_mut() {
            volumes.push(token_volume(&volume));
        }
    }
}

/// The projected volume of token, CA certificate and namespace, with the content of upstream's.
fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_without_a_mount_at_the_token_path_get_one() {
        let taken = json!({"name": "own", "mountPath": MOUNT_PATH});
        let mut spec = json!({
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a", "volumeMounts": [taken]}, {"name": "b"}],
        });
        mount_token(&mut spec, &Draws::new(None));
        let volume = spec["volumes"][0]["name"].as_str().unwrap().to_owned();
        assert!(
            volume.starts_with(VOLUME_PREFIX) && volume.len() == VOLUME_PREFIX.len() + 5,
            "{volume}"
        );
        assert_eq!(spec["containers"][0]["volumeMounts"], json!([taken]));
        for container in [&spec["initContainers"][0], &spec["containers"][1]] {
            assert_eq!(container["volumeMounts"][0]["name"], volume.as_str());
        }
        let before = spec.clone();
        mount_token(&mut spec, &Draws::new(None));
        assert_eq!(spec, before);
    }
}
