//! The ConfigMap `kube-public/cluster-info`: the kubeconfig with which new nodes find the cluster,
//! and its signatures.
//!
//! The view keeps the served [`Document`](super::Document), because the bootstrap signer PUTs the
//! whole ConfigMap. Upstream caches all ConfigMaps of the cluster.

use std::collections::BTreeMap;

use steersman_values::resource::CONFIG_MAPS;

use crate::view;

view! {
    /// The ConfigMap `kube-public/cluster-info`.
    pub struct ClusterInfo: CONFIG_MAPS,
        selects "metadata.name=cluster-info" in "kube-public", keeps document {
        /// `data`.
        pub data: BTreeMap<String, String>,
    }
}
