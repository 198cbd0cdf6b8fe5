//! The trust bundles of the API server's authority. The informers ask for those of its signer only.
//!
//! The views keep the served [`Document`](super::Document), because the publisher PUTs bundles.
//! Upstream: `k8s.io/api/certificates/v1beta1` and `v1alpha1`.

use steersman_values::resource::{ALPHA_CLUSTER_TRUST_BUNDLES, CLUSTER_TRUST_BUNDLES};

use crate::view;

view! {
    /// A ClusterTrustBundle in version `v1beta1`.
    pub struct ClusterTrustBundle: CLUSTER_TRUST_BUNDLES,
        selects "spec.signerName=kubernetes.io/kube-apiserver-serving", keeps document {
        /// `spec`.
        pub spec: ClusterTrustBundleSpec,
    }

    /// `spec` of a ClusterTrustBundle.
    pub struct ClusterTrustBundleSpec {
        /// Certificates, in PEM.
        pub trust_bundle: Box<str>,
    }
}

view! {
    /// A ClusterTrustBundle in version `v1alpha1`.
    pub struct AlphaClusterTrustBundle: ALPHA_CLUSTER_TRUST_BUNDLES,
        selects "spec.signerName=kubernetes.io/kube-apiserver-serving", keeps document {
        /// `spec`.
        pub spec: ClusterTrustBundleSpec,
    }
}
