//! CertificateSigningRequests.
//!
//! Upstream is `pkg/apis/certificates/validation`.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steersman_pki::x509::{self, CertificateRequest};
use x509_parser::pem::Pem;

use super::errors::{Errors, at, list, text};
use super::formats;

/// The known usages of a key, sorted.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Types of conditions that cannot be removed. Their status can only be `True`.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

const MIN_SECONDS: i64 = 600;
const MAX_SUBDOMAIN: usize = 253;
/// Domain, slash, label, dot and name.
const MAX_SIGNER_NAME: usize = MAX_SUBDOMAIN + 1 + MAX_SUBDOMAIN + 63 + 1;

/// Checks a request: its PEM block, usages, signer, lifetime, conditions and certificate.
pub(super) fn request(object: &Value, errors: &mut Errors) {
    if let Err(why) = check_signature(object) {
        let request = Some(text(object, "spec.request")).filter(|request| !request.is_empty());
        errors.invalid(
            "spec.request",
            request.map_or(Value::Null, Value::from),
            why,
        );
    }
    let usages = list(object, "spec.usages");
    if usages.is_empty() {
        errors.required("spec.usages", "");
    }
    for (index, usage) in usages.iter().enumerate() {
        errors.one_of(
            format!("spec.usages[{index}]"),
            usage.as_str().unwrap_or_default(),
            &USAGES,
        );
    }
    let mut seen = HashSet::new();
    for (index, usage) in usages
        .iter()
        .enumerate()
        .filter(|(_, usage)| !seen.insert(usage.as_str()))
    {
        errors.duplicate(format!("spec.usages[{index}]"), usage.clone());
    }
    match text(object, "spec.signerName") {
        legacy @ "kubernetes.io/legacy-unknown" => {
            errors.invalid(
                "spec.signerName",
                legacy,
                "the legacy signerName is not allowed via this API version",
            );
        }
        name => signer_name("spec.signerName", name, errors),
    }
    if let Some(seconds) = at(object, "spec.expirationSeconds")
        .as_i64()
        .filter(|seconds| *seconds < MIN_SECONDS)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid("spec.expirationSeconds", seconds, why);
    }
    conditions(list(object, "status.conditions"), errors);
    if let Err(why) = certificates(text(object, "status.certificate")) {
        errors.invalid("status.certificate", "<certificate data>", why);
    }
}

/// Checks the parts that this endpoint (main, `status` or `approval`) cannot change.
pub(super) fn request_update(part: Option<&str>, new: &Value, old: &Value, errors: &mut Errors) {
    const CONDITIONS: &str = "status.conditions";
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        list(object, CONDITIONS)
            .iter()
            .filter(|condition| condition["type"] == kind)
            .cloned()
            .collect()
    };
    for kind in FINAL {
        if of(new, kind).len() < of(old, kind).len() {
            errors.forbidden(
                CONDITIONS,
                format!("updates may not remove a condition of type {kind:?}"),
            );
        }
    }
    if part != Some("approval") {
        for kind in ["Approved", "Denied"] {
            let before = of(old, kind);
            let after = of(new, kind);
            if after.len() > before.len() {
                errors.forbidden(
                    CONDITIONS,
                    format!("updates may not add a condition of type {kind:?}"),
                );
            } else if after.len() == before.len() && after != before {
                errors.forbidden(
                    CONDITIONS,
                    format!("updates may not modify a condition of type {kind:?}"),
                );
            }
        }
    }
    let before = text(old, "status.certificate");
    let after = text(new, "status.certificate");
    if before != after {
        if part != Some("status") {
            errors.forbidden(
                "status.certificate",
                "updates may not set certificate content",
            );
        } else if !before.is_empty() {
            errors.forbidden(
                "status.certificate",
                "updates may not modify existing certificate content",
            );
        }
    }
}

/// The subject of a request, as far as the API server reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The last common name; empty without one. It is the user of a client certificate.
    pub(crate) common_name: String,
    /// Groups of a client certificate.
    pub(crate) organizations: Vec<String>,
}

/// The subject of a request, whose signature may be wrong. An error if the request is malformed.
pub(crate) fn subject(object: &Value) -> Result<Subject, String> {
    let subject = parsed(object)?.subject;
    Ok(Subject {
        common_name: subject.common_name().to_owned(),
        organizations: subject.organizations().map(str::to_owned).collect(),
    })
}

/// An error if the request is malformed, or if its signature is wrong.
fn check_signature(object: &Value) -> Result<(), String> {
    let request = parsed(object)?;
    request.check_signature().map_err(|error| error.to_string())
}

fn parsed(object: &Value) -> Result<CertificateRequest, String> {
    let pem = STANDARD
        .decode(text(object, "spec.request"))
        .map_err(|error| error.to_string())?;
    CertificateRequest::from_pem(&pem).map_err(|error| error.to_string())
}

fn certificates(base64: &str) -> Result<(), String> {
    if base64.is_empty() {
        return Ok(());
    }
    let bytes = STANDARD.decode(base64).map_err(|error| error.to_string())?;
    let mut blocks = 0;
    for pem in Pem::iter_from_buffer(&bytes) {
        let Ok(pem) = pem else { break };
        if pem.label != "CERTIFICATE" {
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {:?}",
                pem.label
            ));
        }
        x509::Certificate::read(&pem.contents)?;
        blocks += 1;
    }
    if blocks == 0 {
        Err("must contain at least one CERTIFICATE PEM block".to_owned())
    } else {
        Ok(())
    }
}

/// Checks the conditions: one per type, and not both `Approved` and `Denied`.
fn conditions(conditions: &[Value], errors: &mut Errors) {
    const PATH: &str = "status.conditions";
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if kind.is_empty() {
            errors.required(format!("{PATH}[{index}].type"), "");
        }
        let known: &[&str] = if FINAL.contains(&kind) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        match text(condition, "status") {
            "" => errors.required(format!("{PATH}[{index}].status"), ""),
            status => errors.one_of(format!("{PATH}[{index}].status"), status, known),
        }
        let excluded = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(excluded) {
            errors.invalid(
                PATH,
                kind,
                "Approved and Denied conditions are mutually exclusive",
            );
        }
        if !seen.insert(kind) {
            errors.duplicate(format!("{PATH}[{index}].type"), kind);
        }
    }
}

/// Checks a signer name of the form `domain/name`.
fn signer_name(field: &str, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(field, "");
    }
    let [domain, path] = name.split('/').collect::<Vec<_>>()[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(field, name, why);
    };
    let mut check = |whole: &str, format: fn(&str) -> Vec<String>| {
        let bad = whole
            .split('.')
            .map(|label| (label, format(label)))
            .find(|(_, complaints)| !complaints.is_empty());
        for complaint in bad
            .iter()
            .flat_map(|(label, complaints)| complaints.iter().map(move |why| (label, why)))
        {
            errors.invalid(
                field,
                whole,
                format!("validating label {:?}: {}", complaint.0, complaint.1),
            );
        }
    };
    check(domain, formats::label);
    check(path, formats::subdomain);
    if domain.len() > MAX_SUBDOMAIN {
        errors.too_long(field, MAX_SUBDOMAIN);
    }
    if !domain.contains('.') {
        errors.invalid(
            field,
            domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
    if name.len() > MAX_SIGNER_NAME {
        errors.too_long(field, MAX_SIGNER_NAME);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `spec.request` of a request that `rcgen` signed.
    fn request_of(organization: &str) -> String {
        let mut params = rcgen::CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, organization);
        let key = rcgen::KeyPair::generate().unwrap();
        STANDARD.encode(params.serialize_request(&key).unwrap().pem().unwrap())
    }

    fn found(object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        request(object, &mut errors);
        errors.into_list().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_needs_a_signature_usages_and_a_signer_name() {
        let good = json!({"spec": {"request": request_of("team"), "signerName": "example.com/s", "usages": ["client auth"]}});
        assert_eq!(found(&good), [""; 0]);
        assert_eq!(subject(&good).unwrap().organizations, ["team"]);
        let with = |path: &str, value: Value| {
            let mut object = good.clone();
            object["spec"][path] = value;
            object
        };
        let mut forged = STANDARD.decode(request_of("team")).unwrap();
        let middle = forged.len() / 2;
        forged[middle] ^= 1;
        // (object, part of the only error)
        let cases = [
            (
                with("request", json!("eA==")),
                "PEM block type must be CERTIFICATE REQUEST",
            ),
            (with("usages", json!([])), "spec.usages: Required value"),
            (
                with("usages", json!(["flying"])),
                "spec.usages[0]: Unsupported value: \"flying\": supported values: \"any\"",
            ),
            (
                with("usages", json!(["any", "any"])),
                "spec.usages[1]: Duplicate value: \"any\"",
            ),
            (
                with("signerName", json!("")),
                "spec.signerName: Required value",
            ),
            (
                with("signerName", json!("x")),
                "must be a fully qualified domain and path of the form",
            ),
            (
                with("signerName", json!("x/y")),
                "should be a domain with at least two segments separated by dots",
            ),
            (
                with("signerName", json!("a.B/y")),
                "validating label \"B\": a lowercase RFC 1123 label must consist of",
            ),
            (
                with("signerName", json!("a.b/_")),
                "validating label \"_\": a lowercase RFC 1123 subdomain must consist of",
            ),
            (
                with("signerName", json!("kubernetes.io/legacy-unknown")),
                "the legacy signerName is not allowed via this API version",
            ),
            (
                with("expirationSeconds", json!(599)),
                "may not specify a duration less than 600 seconds (10 minutes)",
            ),
        ];
        for (object, expected) in cases {
            let found = found(&object);
            assert!(
                found.len() == 1 && found[0].contains(expected),
                "{expected}: {found:?}"
            );
        }
        assert_eq!(
            found(&with("request", json!(STANDARD.encode(forged)))).len(),
            1
        );
    }

    #[test]
    fn damaged_requests_never_panic() {
        let pem = STANDARD.decode(request_of("team")).unwrap();
        let der = Pem::iter_from_buffer(&pem)
            .next()
            .unwrap()
            .unwrap()
            .contents;
        let read = CertificateRequest::from_der;
        assert!(read(&der).unwrap().check_signature().is_ok());
        for at in 0..der.len() {
            let cut_off = read(&der[..at]);
            assert!(cut_off.is_err(), "cut off at {at}");
            for bit in 0..8 {
                let mut damaged = der.clone();
                damaged[at] ^= 1 << bit;
                // Changes of some bits have no effect, such as those of the outer tag. The test
                // only requires a result.
                let _answer = read(&damaged).map(|request| request.check_signature());
            }
        }
    }

    #[test]
    fn approvals_are_final_and_need_the_approval_endpoint() {
        let with = |conditions: &[&str], certificate: &str| {
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|kind| json!({"type": kind, "status": "True"}))
                .collect();
            json!({"status": {"conditions": conditions, "certificate": certificate}})
        };
        // (endpoint, old, new, part of the only error; empty for none)
        let cases = [
            (Some("approval"), with(&[], ""), with(&["Approved"], ""), ""),
            (
                Some("status"),
                with(&[], ""),
                with(&["Approved"], ""),
                "updates may not add a condition of type \"Approved\"",
            ),
            (Some("status"), with(&[], ""), with(&["Failed"], ""), ""),
            (
                Some("approval"),
                with(&["Denied"], ""),
                with(&[], ""),
                "updates may not remove a condition of type \"Denied\"",
            ),
            (
                Some("approval"),
                with(&[], ""),
                with(&[], "x"),
                "updates may not set certificate content",
            ),
            (Some("status"), with(&[], ""), with(&[], "x"), ""),
            (
                Some("status"),
                with(&[], "x"),
                with(&[], "y"),
                "updates may not modify existing certificate content",
            ),
        ];
        for (part, old, new, expected) in cases {
            let mut errors = Errors::default();
            request_update(part, &new, &old, &mut errors);
            let found: Vec<String> = errors.into_list().iter().map(ToString::to_string).collect();
            let fits = if expected.is_empty() {
                found.is_empty()
            } else {
                found.len() == 1 && found[0].contains(expected)
            };
            assert!(fits, "{part:?} {expected:?}: {found:?}");
        }
        let mut errors = Errors::default();
        conditions(
            with(&["Approved", "Denied"], "")["status"]["conditions"]
                .as_array()
                .unwrap(),
            &mut errors,
        );
        assert_eq!(
            errors.into_list()[0].to_string(),
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive"
        );
    }
}
