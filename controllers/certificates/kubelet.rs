//! The rules for certificates of kubelets.
//!
//! Upstream: `ValidateKubeletClientCSR` and `ValidateKubeletServingCSR` of `pkg/apis/certificates`.

use std::collections::BTreeSet;

use steersman_pki::x509::CertificateRequest;

/// The node authorizer and the admission plugin `NodeRestriction` know a kubelet by this group and
/// by the prefix of its name.
const ORGANIZATION: &str = "system:nodes";
const USER_PREFIX: &str = "system:node:";

const NOT_A_NODE: &str = "subject organization is not system:nodes";
const NOT_A_USER: &str = "subject common name does not begin with system:node:";
const NO_NAMES: &str = "DNS or IP subjectAltName is required";
const DNS: &str = "DNS subjectAltNames are not allowed";
const EMAILS: &str = "Email subjectAltNames are not allowed";
const IPS: &str = "IP subjectAltNames are not allowed";
const URIS: &str = "URI subjectAltNames are not allowed";
const CLIENT_USAGES: &str = "usages did not match [client auth digital signature key encipherment]";
const SERVING_USAGES: &str =
    "usages did not match [digital signature key encipherment server auth]";

/// Whether a kubelet may have the requested certificate as a client. The error is the first rule
/// that the request breaks. The order of the rules is upstream's, because the first broken one
/// becomes the message of the condition `Failed`. A client certificate has no alternative names:
/// its user is the common name.
pub(super) fn check_client(
    request: &CertificateRequest,
    usages: &[String],
) -> Result<(), &'static str> {
    let names = &request.alternative_names;
    first_broken([
        (is_of_nodes(request), NOT_A_NODE),
        (names.dns.is_empty(), DNS),
        (names.emails.is_empty(), EMAILS),
        (names.ips.is_empty(), IPS),
        (names.uris.is_empty(), URIS),
        (is_of_a_node(request), NOT_A_USER),
        (are_for(usages, "client auth"), CLIENT_USAGES),
    ])
}

/// Whether a kubelet may have the requested certificate as a server. The error is the first rule
/// that the request breaks. Other than for clients, the usages come before the common name, as in
/// upstream. Nothing here compares the names with the addresses of the node: this is the approver's
/// part.
pub(super) fn check_serving(
    request: &CertificateRequest,
    usages: &[String],
) -> Result<(), &'static str> {
    let names = &request.alternative_names;
    first_broken([
        (is_of_nodes(request), NOT_A_NODE),
        (!names.dns.is_empty() || !names.ips.is_empty(), NO_NAMES),
        (names.emails.is_empty(), EMAILS),
        (names.uris.is_empty(), URIS),
        (are_for(usages, "server auth"), SERVING_USAGES),
        (is_of_a_node(request), NOT_A_USER),
    ])
}

fn first_broken<const N: usize>(rules: [(bool, &'static str); N]) -> Result<(), &'static str> {
    let broken = rules.into_iter().find(|(holds, _)| !holds);
    broken.map_or(Ok(()), |(_, rule)| Err(rule))
}

/// Exactly one organization: a further group in the certificate would give its rights.
fn is_of_nodes(request: &CertificateRequest) -> bool {
    request.subject.organizations().eq([ORGANIZATION])
}

/// The name of the node after the prefix may be empty, as in upstream.
fn is_of_a_node(request: &CertificateRequest) -> bool {
    request.subject.common_name().starts_with(USER_PREFIX)
}

/// Whether the usages, as a set, are those of a key for `purpose`. Only RSA keys encipher keys. So
/// "key encipherment" is optional. Order and repetition of usages have no influence.
fn are_for(usages: &[String], purpose: &str) -> bool {
    let mut usages: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    usages.remove("key encipherment");
    usages == BTreeSet::from(["digital signature", purpose])
}
