//! Requests about the objects of the loads.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Identity, Namespace, Object, ServiceAccount};

/// The most requests for one deletion of all objects of a type.
const MAX_DELETIONS: usize = 10;

/// Creates an object of `body`, which needs no kind and no metadata.
pub(crate) async fn create<T: Object>(
    client: &ApiClient,
    namespace: &str,
    name: &str,
    mut body: Value,
) -> Result<(), ApiError> {
    body["apiVersion"] = json!(T::RESOURCE.api_version());
    body["kind"] = json!(T::RESOURCE.kind);
    body["metadata"] = json!({ "name": name });
    let target = Target::collection::<T>(namespace);
    client.create(target, &body).await.map(drop)
}

/// Creates a namespace with its account, which pods need on other API servers.
pub(crate) async fn create_namespace(client: &ApiClient, name: &str) -> Result<(), ApiError> {
    create::<Namespace>(client, "", name, json!({})).await?;
    match create::<ServiceAccount>(client, name, "default", json!({})).await {
        // The controller of accounts was faster.
        Err(error) if error.is_already_exists() => Ok(()),
        created => created,
    }
}

/// Deletes a namespace. It ends when its controller runs.
pub(crate) async fn delete_namespace(client: &ApiClient, name: &str) -> Result<(), ApiError> {
    let target = Target::named::<Namespace>("", name);
    client.delete(target, &json!({})).await.map(drop)
}

/// Applies `patch` to objects by namespace and name, and returns the last new resourceVersion.
pub(crate) async fn patch_all<T: Object>(
    client: &ApiClient,
    targets: impl Iterator<Item = (String, String)>,
    patch: &Value,
) -> Result<u64> {
    let mut version = 0;
    for (namespace, name) in targets {
        let target = Target::named::<T>(&namespace, &name);
        let patched = client.patch(target, PatchKind::Strategic, patch).await;
        let answer = patched.with_context(|| format!("patch {} {name}", T::RESOURCE))?;
        version = Identity::decode(&answer)?.resource_version;
    }
    Ok(version)
}

/// Deletes all objects of the type in the namespace. Their dependents follow.
pub(crate) async fn delete_all<T: Object>(client: &ApiClient, namespace: &str) -> Result<()> {
    let options = json!({"propagationPolicy": "Background"});
    let mut tries = 0;
    loop {
        tries += 1;
        match client
            .delete(Target::collection::<T>(namespace), &options)
            .await
        {
            // A busy server ends the request after a minute, and objects are left.
            Err(error) if error.is_transient() && tries < MAX_DELETIONS => {}
            deleted => {
                let failed = || format!("delete all {} in {namespace}", T::RESOURCE);
                return deleted.map(drop).with_context(failed);
            }
        }
    }
}
