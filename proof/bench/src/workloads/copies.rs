//! Copies of a Deployment that a manager has made, with its ReplicaSet and pods.
//!
//! The embedded API server stores a million pods in minutes. A manager that creates them takes an hour.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use steersman_devcluster::DevCluster;

use super::large::PODS_OF_EACH;
use super::{Workloads, name, ours};
use crate::cluster::NAMESPACE;

/// Objects with the name of the first Deployment in their own.
struct Sample {
    /// Owners before dependents.
    objects: Vec<Original>,
    /// The hash of the template, which is in names and labels. Each copy gets a value of its own: controllers look pods up
    /// by it.
    hash: String,
}

/// An object of the sample.
struct Original {
    /// The object as JSON.
    text: String,
    uid: String,
    is_pod: bool,
}

impl Workloads {
    /// Stores copies of the first Deployment until `pods` pods exist, and waits until all are in the cache. No manager
    /// may run: it would create the pods of a ReplicaSet that is stored before them.
    pub(crate) async fn copy(&self, cluster: &DevCluster, pods: usize) -> Result<()> {
        let sample = Sample::take(cluster).await?;
        let nodes = self.nodes.store().list();
        ensure!(!nodes.is_empty(), "the cluster has no nodes for the copies");
        let present = ours(&self.deployments).len();
        let wanted = pods.div_ceil(PODS_OF_EACH);
        let mut nodes = nodes.iter().map(|node| &*node.meta.name).cycle();
        for index in present..wanted {
            for copy in sample.copies(index, &mut nodes)? {
                let stored = cluster.load(copy);
                stored.with_context(|| format!("store a copy for {}", name(index)))?;
            }
            // The watches of the load and of the nodes follow.
            tokio::task::yield_now().await;
        }
        self.settled(wanted).await
    }
}

impl Sample {
    async fn take(cluster: &DevCluster) -> Result<Self> {
        let deployment = cluster.path("deployments", NAMESPACE, &name(0));
        let mut objects = vec![Original::of(&cluster.get(&deployment).await?, false)?];
        let dependents = [
            ("replicasets", "apps/v1", "ReplicaSet", 1),
            ("pods", "v1", "Pod", PODS_OF_EACH),
        ];
        for (plural, api_version, kind, count) in dependents {
            let all = cluster.path(plural, NAMESPACE, "");
            let path = format!(
                "{}?labelSelector=app={}",
                all.trim_end_matches('/'),
                name(0)
            );
            let mut list = cluster.get(&path).await?;
            let items = list["items"].as_array_mut();
            let items = items.context("a list without items")?;
            let found = items.len();
            ensure!(
                found == count,
                "{} has {found} {plural}, not {count}",
                name(0)
            );
            for item in items {
                // Items of a list have no kind of their own.
                item["apiVersion"] = api_version.into();
                item["kind"] = kind.into();
                objects.push(Original::of(item, kind == "Pod")?);
            }
        }
        let replica_set: Value = serde_json::from_str(&objects[1].text)?;
        let hash = replica_set["metadata"]["labels"]["pod-template-hash"].as_str();
        let hash = hash.context("a ReplicaSet without a hash")?.to_owned();
        Ok(Self { objects, hash })
    }

    /// The objects of the Deployment with this number. Pods are bound to the next of `nodes`.
    fn copies<'a>(
        &self,
        index: usize,
        nodes: &mut impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Value>> {
        let owners = self.objects.iter().filter(|original| !original.is_pod);
        let owners: Vec<_> = owners.enumerate().collect();
        let copy = |(number, original): (usize, &Original)| {
            let text = original.text.replace(&name(0), &name(index));
            let text = text.replace(&self.hash, &format!("{index:010x}"));
            let mut text = text.replace(&original.uid, &uid(index, number));
            for (number, owner) in &owners {
                text = text.replace(&owner.uid, &uid(index, *number));
            }
            let mut copy: Value = serde_json::from_str(&text)?;
            if original.is_pod {
                copy["spec"]["nodeName"] = nodes.next().into();
            }
            Ok(copy)
        };
        self.objects.iter().enumerate().map(copy).collect()
    }
}

impl Original {
    fn of(object: &Value, is_pod: bool) -> Result<Self> {
        let uid = object["metadata"]["uid"].as_str();
        Ok(Self {
            text: object.to_string(),
            uid: uid.context("an object without a UID")?.to_owned(),
            is_pod,
        })
    }
}

/// The UID of object `number` of the Deployment `index`.
fn uid(index: usize, number: usize) -> String {
    format!("{index:08x}-{number:04x}-4000-8000-000000000000")
}
