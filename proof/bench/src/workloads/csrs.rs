//! The load `csrs`: requests of kubelets for client certificates, and the authority that signs them.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use steersman_objects::CertificateSigningRequest;

use super::Workloads;
use crate::run::Bench;

impl Workloads {
    pub(super) async fn csrs(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        let specs = (0..count).map(|_| spec());
        let specs: Vec<Value> = specs.collect::<Result<_>>()?;
        bench
            .phase("approve and sign", 0, async {
                for (index, spec) in specs.iter().enumerate() {
                    self.create::<CertificateSigningRequest>(index, spec)
                        .await?;
                }
                self.all(&self.csrs, specs.len(), |csr| csr.status.certificate.0)
                    .await
            })
            .await?;
        bench
            .phase("delete", 0, async {
                self.delete_all(&self.csrs).await?;
                self.all(&self.csrs, 0, |_| true).await
            })
            .await
    }
}

/// Writes the files of an authority with a P-256 key into `folder`. Returns the flags of a manager
/// that signs with them.
pub(crate) fn authority(folder: &Path) -> Result<[String; 2]> {
    let mut params = named(DnType::CommonName, "bench");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let write = |file: &str, flag: &str, content: &str| {
        let path = folder.join(file);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        anyhow::Ok(format!("--cluster-signing-{flag}-file={}", path.display()))
    };
    Ok([
        write("ca.crt", "cert", &certificate.pem())?,
        write("ca.key", "key", &key.serialize_pem())?,
    ])
}

/// `spec` of the request of a kubelet with a new P-256 key.
fn spec() -> Result<Value> {
    let mut params = named(DnType::OrganizationName, "system:nodes");
    params
        .distinguished_name
        .push(DnType::CommonName, "system:node:bench");
    let request = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    Ok(json!({
        "request": STANDARD.encode(request),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }))
}

fn named(kind: DnType, name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(kind, name);
    params
}
