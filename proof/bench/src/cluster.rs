//! The user's cluster: checks before the measurement, and the deletion of all objects after it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::{ApiClient, Target};
use steersman_objects::{
    CertificateSigningRequest, Lease, Namespace, Node, Object, PersistentVolume,
};

/// Namespace of the objects of the loads. Further namespaces and other objects without one have
/// names that begin with [`PREFIX`].
pub(crate) const NAMESPACE: &str = "bench";
/// Prefix of the names of objects.
pub(crate) const PREFIX: &str = "bench-";
/// Namespace and name of the Lease of controller managers.
const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");
/// Time limit for the end of the namespaces of the loads.
const LIMIT: Duration = Duration::from_secs(300);
/// Pause between two looks at them.
const PAUSE: Duration = Duration::from_secs(1);

/// Fails if the cluster has no nodes, a controller manager at work, or objects of an earlier run.
pub(crate) async fn check(client: &ApiClient) -> Result<()> {
    let nodes = names::<Node>(client).await?;
    ensure!(
        !nodes.is_empty(),
        "the cluster has no nodes; `steersman nodes --schedule` adds simulated ones"
    );
    let left = left(client).await?;
    ensure!(
        left.is_empty(),
        "an earlier run left {}; delete them first",
        left.join(", ")
    );
    if let Some(holder) = holder(client, Timestamp::now()).await? {
        bail!(
            "{holder} holds the Lease {}/{}, so it would do the work of the managers under \
             measurement; stop it first",
            LEASE.0,
            LEASE.1
        );
    }
    Ok(())
}

/// Deletes all objects of the loads. A manager must be at work, because it ends the namespaces.
pub(crate) async fn clean(client: &ApiClient) -> Result<()> {
    delete::<Namespace>(client).await?;
    delete::<Node>(client).await?;
    delete::<CertificateSigningRequest>(client).await?;
    delete::<PersistentVolume>(client).await?;
    let started = Instant::now();
    loop {
        let left = left(client).await?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(
            started.elapsed() < LIMIT,
            "{} are still there after {LIMIT:?}; delete them",
            left.join(", ")
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// The objects of the loads that have no namespace.
async fn left(client: &ApiClient) -> Result<Vec<String>> {
    let mut left = Vec::new();
    left.extend(ours::<Namespace>(client).await?);
    left.extend(ours::<Node>(client).await?);
    left.extend(ours::<CertificateSigningRequest>(client).await?);
    left.extend(ours::<PersistentVolume>(client).await?);
    Ok(left)
}

/// The objects of the loads of this type, such as `namespaces/bench`.
async fn ours<T: Object>(client: &ApiClient) -> Result<Vec<String>> {
    let names = names::<T>(client).await?.into_iter();
    let ours = names.filter(|name| is_ours(name));
    Ok(ours
        .map(|name| format!("{}/{name}", T::RESOURCE.plural))
        .collect())
}

fn is_ours(name: &str) -> bool {
    name == NAMESPACE || name.starts_with(PREFIX)
}

async fn delete<T: Object>(client: &ApiClient) -> Result<()> {
    for name in names::<T>(client).await? {
        if !is_ours(&name) {
            continue;
        }
        let target = Target::named::<T>("", &name);
        match client.delete(target, &json!({})).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                return Err(error).with_context(|| format!("delete {} {name}", T::RESOURCE));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn names<T: Object>(client: &ApiClient) -> Result<Vec<String>> {
    let listed = client.list(Target::collection::<T>(""), "").await;
    let listed = listed.with_context(|| format!("list {}", T::RESOURCE))?;
    let list: Value = serde_json::from_slice(&listed)?;
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The holder of the Lease of controller managers, unless its Lease has expired.
async fn holder(client: &ApiClient, now: Timestamp) -> Result<Option<String>> {
    let target = Target::named::<Lease>(LEASE.0, LEASE.1);
    match client.get(target).await {
        Ok(lease) => Ok(live_holder(&serde_json::from_slice(&lease)?, now)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error).context("read the Lease of controller managers"),
    }
}

fn live_holder(lease: &Value, now: Timestamp) -> Option<String> {
    let spec = &lease["spec"];
    let renewed: Timestamp = spec["renewTime"].as_str()?.parse().ok()?;
    let seconds = spec["leaseDurationSeconds"].as_i64()?;
    let holder = spec["holderIdentity"].as_str()?;
    let age = now.duration_since(renewed).as_secs();
    (age < seconds && !holder.is_empty()).then(|| holder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_renewed_lease_has_a_holder() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a time");
        let lease = |holder: &str, renewed: &str| json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}});
        // (why, Lease, holder)
        let cases = [
            ("renewed", lease("a", "2026-01-01T00:00:50Z"), Some("a")),
            ("expired", lease("a", "2026-01-01T00:00:40Z"), None),
            ("released", lease("", "2026-01-01T00:00:59Z"), None),
            ("never held", json!({"spec": {}}), None),
        ];
        for (why, lease, expected) in cases {
            assert_eq!(live_holder(&lease, now).as_deref(), expected, "{why}");
        }
    }

    #[test]
    fn objects_of_the_loads_are_known_by_their_names() {
        for (name, expected) in [("bench", true), ("bench-quota-1", true), ("benches", false)] {
            assert_eq!(is_ours(name), expected, "{name}");
        }
    }
}
