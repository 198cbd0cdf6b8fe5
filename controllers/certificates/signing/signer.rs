//! The signers: their names, flags and rules.

use steersman_options::Options;
use steersman_pki::x509::CertificateRequest;

use crate::certificates::kubelet;

/// A signer, in the order in which upstream starts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signer {
    /// Certificates of kubelets as servers.
    KubeletServing,
    /// Certificates of kubelets as clients.
    KubeletClient,
    /// Certificates of all other clients of the API server. No controller approves them:
    /// the subject may name almost any user or group.
    KubeApiserverClient,
    /// Requests that releases before 1.22 stored. The API server refuses new ones.
    LegacyUnknown,
}

/// The files of an authority: certificate and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Signer {
    /// All signers.
    pub(super) const ALL: [Self; 4] = [
        Self::KubeletServing,
        Self::KubeletClient,
        Self::KubeApiserverClient,
        Self::LegacyUnknown,
    ];

    /// The names of all signers.
    pub(super) const NAMES: [&'static str; 4] = [
        Self::KubeletServing.name(),
        Self::KubeletClient.name(),
        Self::KubeApiserverClient.name(),
        Self::LegacyUnknown.name(),
    ];

    /// The name in `spec.signerName`. The API defines these names. Requests for other signers
    /// belong to other programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::KubeletServing => "kubernetes.io/kubelet-serving",
            Self::KubeletClient => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::KubeApiserverClient => "kubernetes.io/kube-apiserver-client",
            Self::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    /// The files in the flags of this signer alone. A half pair fails when it is read. Upstream:
    /// `getKubeletServingSignerFiles` and its siblings.
    fn own_files(self, options: &Options) -> Option<Files> {
        Files::of(
            options,
            match self {
                Self::KubeletServing => "cluster-signing-kubelet-serving",
                Self::KubeletClient => "cluster-signing-kubelet-client",
                Self::KubeApiserverClient => "cluster-signing-kube-apiserver-client",
                Self::LegacyUnknown => "cluster-signing-legacy-unknown",
            },
        )
    }

    /// Whether this signer may issue a certificate for `request`. The error is the first rule that
    /// the request breaks. Upstream: `getCSRVerificationFuncForSignerName`.
    pub(super) fn check(
        self,
        request: &CertificateRequest,
        usages: &[String],
    ) -> Result<(), String> {
        match self {
            Self::KubeletServing => kubelet::check_serving(request, usages).map_err(str::to_owned),
            Self::KubeletClient => kubelet::check_client(request, usages).map_err(str::to_owned),
            Self::KubeApiserverClient => check_client_usages(usages),
            // Without restrictions for the sake of old clients, as in upstream's `isLegacyUnknown`.
            Self::LegacyUnknown => Ok(()),
        }
    }
}

impl Files {
    /// The files in the two flags that begin with `prefix`. `None` if both are empty.
    fn of(options: &Options, prefix: &str) -> Option<Self> {
        let [certificate, key] =
            ["cert", "key"].map(|part| options.text(&format!("{prefix}-{part}-file")));
        (!certificate.is_empty() || !key.is_empty()).then_some(Self { certificate, key })
    }
}

/// The signers that run, with the files of their authorities. Flags of one signer turn off the
/// common pair for all signers. Upstream: `newCertificateSigningRequestSigningController`.
pub(super) fn running(options: &Options) -> Vec<(Signer, Files)> {
    let own: Vec<_> = Signer::ALL
        .iter()
        .filter_map(|signer| Some((*signer, signer.own_files(options)?)))
        .collect();
    if !own.is_empty() {
        return own;
    }
    // Half of the common pair is no pair: the signers stay off, and the start does not fail. Both
    // kinds of flags together were refused when the flags were read.
    let common = Files::of(options, "cluster-signing")
        .filter(|files| !files.certificate.is_empty() && !files.key.is_empty());
    let with_common = |files: Files| Signer::ALL.map(|signer| (signer, files.clone())).to_vec();
    common.map(with_common).unwrap_or_default()
}

/// Upstream: `validAPIServerClientUsages`. The error names the first wrong usage in the order of
/// the request.
fn check_client_usages(usages: &[String]) -> Result<(), String> {
    let optional = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages
        .iter()
        .find(|usage| !optional.contains(&usage.as_str()))
    {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestCertSpecified`.
    #[test]
    fn cert_specified() {
        let common = ["/cluster-signing-cert", "/cluster-signing-key"].map(str::to_owned);
        let own = |index: usize, cert: &str, key: &str| {
            let mut files = vec![None; 4];
            files[index] = Some([cert, key].map(str::to_owned));
            files
        };
        let mut cases = vec![
            (vec![], vec![None; 4]),
            (
                vec![
                    ("cluster-signing-cert-file", "/cluster-signing-cert"),
                    ("cluster-signing-key-file", "/cluster-signing-key"),
                ],
                vec![Some(common); 4],
            ),
            (
                vec![("cluster-signing-cert-file", "/cluster-signing-cert")],
                vec![None; 4],
            ),
            (
                vec![("cluster-signing-key-file", "/cluster-signing-key")],
                vec![None; 4],
            ),
        ];
        let flags = [
            (
                "cluster-signing-kubelet-serving-cert-file",
                "cluster-signing-kubelet-serving-key-file",
            ),
            (
                "cluster-signing-kubelet-client-cert-file",
                "cluster-signing-kubelet-client-key-file",
            ),
            (
                "cluster-signing-kube-apiserver-client-cert-file",
                "cluster-signing-kube-apiserver-client-key-file",
            ),
            (
                "cluster-signing-legacy-unknown-cert-file",
                "cluster-signing-legacy-unknown-key-file",
            ),
        ];
        for (index, (cert, key)) in flags.into_iter().enumerate() {
            cases.push((vec![(cert, "/cert")], own(index, "/cert", "")));
            cases.push((vec![(key, "/key")], own(index, "", "/key")));
            cases.push((
                vec![(cert, "/cert"), (key, "/key")],
                own(index, "/cert", "/key"),
            ));
            let common = ("cluster-signing-cert-file", "/cluster-signing-cert");
            cases.push((
                vec![common, (cert, "/cert"), (key, "/key")],
                own(index, "/cert", "/key"),
            ));
        }
        for (flags, expected) in cases {
            let mut options = Options::default();
            for (flag, value) in &flags {
                options.set(flag, value).unwrap();
            }
            let running = running(&options);
            let found: Vec<_> = Signer::ALL
                .iter()
                .map(|signer| {
                    let files = running.iter().find(|(running, _)| running == signer);
                    files.map(|(_, files)| [files.certificate.clone(), files.key.clone()])
                })
                .collect();
            assert_eq!(found, expected, "{flags:?}");
        }
    }
}
