//! Why a request for a certificate has none.

use jiff::SignedDuration;
use steersman_why::{Code, Doc, Explanation, Reason, World};

use super::{approving, signing};

/// Time after which an approval or a certificate is worth a look. Programs need a second.
const SOON: SignedDuration = SignedDuration::from_secs(60);

/// The certificates of a signer that signs those of kubelets alone.
fn of_kubelets(signer: &str) -> Option<&'static str> {
    match signer {
        "kubernetes.io/kubelet-serving" => Some(
            "serving certificates of kubelets (organization system:nodes, common name system:node:NAME)",
        ),
        "kubernetes.io/kube-apiserver-client-kubelet" => Some(
            "client certificates of kubelets (organization system:nodes, common name system:node:NAME)",
        ),
        _ => None,
    }
}

/// Adds the reasons about `doc`, a CertificateSigningRequest.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let signer = doc.text("/spec/signerName");
    let said = |condition: &Doc| match condition.text("/message") {
        "" => condition.text("/reason").to_owned(),
        message => message.to_owned(),
    };
    if !doc.text("/status/certificate").is_empty() {
        answer.state = "has its certificate".to_owned();
        return;
    }
    if let Some(denied) = doc.condition("Denied") {
        answer.state = format!("was denied: {}", said(&denied));
        return;
    }
    if let Some(failed) = doc.condition("Failed") {
        answer.state = "is approved, and was refused by its signer".to_owned();
        let mut message = format!("signer {signer}: {}", said(&failed));
        let mut who = "owner of the request (a new request)".to_owned();
        // The user is a kubelet if the request is one of its own.
        if let Some(limits) = of_kubelets(signer)
            && !doc.text("/spec/username").starts_with("system:node:")
        {
            message = format!("{message}; this signer signs only {limits}");
            who = "owner of the request: a new one for another signer, such as that of cert-manager or of an own \
                   authority"
                .to_owned();
        }
        let reason = Reason::new(Code::SignerRefused, signing::DESCRIPTOR.name, message).who(who);
        answer.add(reason.since(failed.time("/lastUpdateTime")));
        return;
    }
    let Some(approved) = doc.condition("Approved") else {
        answer.state = "is not approved".to_owned();
        let created = doc.time("/metadata/creationTimestamp");
        if created.is_some_and(|at| world.now.duration_since(at) > SOON) {
            let message = "no person or program has approved the request";
            let who = format!(
                "approver for signer {signer} (kubectl certificate approve {})",
                doc.name()
            );
            let by = approving::DESCRIPTOR.name;
            answer.add(
                Reason::new(Code::ApprovalPending, by, message)
                    .who(who)
                    .since(created),
            );
        }
        return;
    };
    answer.state = "is approved, and has no certificate yet".to_owned();
    let since = approved.time("/lastUpdateTime");
    let is_late = since.is_none_or(|at| world.now.duration_since(at) > SOON);
    if !signing::SIGNERS.contains(&signer) && is_late {
        let message = format!(
            "signer {signer} is none of this manager's ({}), and has issued nothing",
            signing::SIGNERS.join(", ")
        );
        let who = format!(
            "operator of signer {signer}, or owner of the request (a new one with another signerName)"
        );
        answer.add(
            Reason::new(Code::SignerElsewhere, signer, message)
                .who(who)
                .since(since),
        );
    }
}
