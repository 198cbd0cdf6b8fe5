//! Rules of the controllers of CertificateSigningRequests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steersman_pki::x509::CertificateRequest;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// The client of the controllers.
const CLIENT: &str = "certificate-controller";

/// A certificate is only issued for a request that is approved, and neither denied nor failed. It
/// is never replaced.
pub const ONLY_APPROVED: Rule = Rule {
    name: "only approved requests are signed, and once",
    check: only_approved,
};
/// The controllers approve only requests of kubelets for client certificates. They sign for no
/// user and usage outside the rules of the signer.
pub const SIGNER_RULES: Rule = Rule {
    name: "nothing is approved or signed outside the rules of the signer",
    check: signer_rules,
};
/// A request that waits for its approval lives for a day, and another one for an hour.
pub const OLD_REQUESTS: Rule = Rule {
    name: "only old requests are deleted",
    check: old_requests,
};

fn has(csr: &Value, kind: &str) -> bool {
    let conditions = csr["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == kind))
}

/// The request before a write of the controllers to it.
fn written(change: &Change) -> Option<&Value> {
    let is_write = &*change.plural == "certificatesigningrequests"
        && change.kind == ChangeKind::Updated
        && change.is_by(CLIENT);
    change.before.as_deref().filter(|_| is_write)
}

fn only_approved(_state: &State, change: &Change) -> Result<(), String> {
    let Some(before) = written(change) else {
        return Ok(());
    };
    let certificate = |csr: &Value| csr["status"]["certificate"].clone();
    if certificate(before) == certificate(&change.object) {
        return Ok(());
    }
    let is_signable = has(before, "Approved") && !has(before, "Denied") && !has(before, "Failed");
    if !is_signable || !certificate(before).is_null() {
        return Err(format!("{} was signed as {}", change.key, before["status"]));
    }
    Ok(())
}

fn signer_rules(_state: &State, change: &Change) -> Result<(), String> {
    let Some(before) = written(change) else {
        return Ok(());
    };
    let spec = &change.object["spec"];
    let text = STANDARD.decode(spec["request"].as_str().unwrap_or_default());
    let request = CertificateRequest::from_pem(&text.unwrap_or_default())
        .map_err(|error| format!("{}: {error}", change.key))?;
    let is_of_node = request.subject.organizations().eq(["system:nodes"])
        && request.subject.common_name().starts_with("system:node:");
    let usages = spec["usages"].as_array();
    let has_usage = |usage: &str| usages.is_some_and(|all| all.iter().any(|one| one == usage));
    let names = &request.alternative_names;
    let fits = match spec["signerName"].as_str().unwrap_or_default() {
        "kubernetes.io/kube-apiserver-client-kubelet" => {
            is_of_node && has_usage("client auth") && names.dns.is_empty() && names.ips.is_empty()
        }
        "kubernetes.io/kubelet-serving" => {
            is_of_node && has_usage("server auth") && !has_usage("client auth")
        }
        "kubernetes.io/kube-apiserver-client" => {
            has_usage("client auth") && !has_usage("server auth")
        }
        _ => false,
    };
    let is_approval = has(&change.object, "Approved") && !has(before, "Approved");
    let is_kubelets = spec["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet";
    let is_signed = before["status"]["certificate"].is_null()
        && change.object["status"]["certificate"].is_string();
    if (is_signed && !fits) || (is_approval && !(fits && is_kubelets)) {
        return Err(format!("{} with {spec}", change.key));
    }
    Ok(())
}

fn old_requests(_state: &State, change: &Change) -> Result<(), String> {
    let is_deletion = &*change.plural == "certificatesigningrequests" && change.begins_deletion();
    if !is_deletion || !change.is_by(CLIENT) {
        return Ok(());
    }
    let Some(csr) = change.before.as_deref() else {
        return Ok(());
    };
    let age = |time: &Value| {
        let time: Option<jiff::Timestamp> = time.as_str().and_then(|text| text.parse().ok());
        time.map_or(0, |time| change.at.as_second() - time.as_second())
    };
    let conditions = csr["status"]["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let decided = conditions
        .iter()
        .map(|condition| age(&condition["lastUpdateTime"]))
        .max();
    let is_old = match decided {
        None => age(&csr["metadata"]["creationTimestamp"]) > 24 * 3600,
        Some(age) => age > 3600,
    };
    if is_old {
        Ok(())
    } else {
        Err(format!("{} was deleted as {}", change.key, csr["status"]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object, with};
    use super::*;

    fn csr(conditions: &[&str], certificate: Option<&str>) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|kind| json!({"type": kind}))
            .collect();
        let csr = object("c", json!({"signerName": "kubernetes.io/kubelet-serving"}));
        let mut status = json!({"conditions": conditions});
        if let Some(certificate) = certificate {
            status["certificate"] = json!(certificate);
        }
        with(csr, "/status", status)
    }

    #[test]
    fn only_approved_requests_are_signed() {
        const PLURAL: &str = "certificatesigningrequests";
        let case = |why, before: &[&str], certificate, by, breaks| {
            let world = vec![(PLURAL, csr(before, certificate))];
            let after = csr(before, Some("new"));
            (why, world, by, PLURAL, ChangeKind::Updated, after, breaks)
        };
        check(
            ONLY_APPROVED,
            [
                case("approved", &["Approved"], None, CLIENT, false),
                case("pending", &[], None, CLIENT, true),
                case("denied", &["Denied"], None, CLIENT, true),
                case("failed", &["Approved", "Failed"], None, CLIENT, true),
                case("signed", &["Approved"], Some("old"), CLIENT, true),
                case("by a user", &[], None, "kubectl", false),
            ],
        );
    }
}
