//! Certificates that kube-controller-manager 1.36.2 issued, compared byte by byte.
//!
//! `issued.json` has requests of OpenSSL with all kinds of subjects, names, keys and requested
//! extensions, also of an authority. The keys of the authorities make equal signatures each time.
//! Names that begin with `computed-` mark certificates of Go 1.26.4 with upstream's template
//! (`authority.go`), which made all others equally.

use serde::Deserialize;
use steersman_pki::keys::PrivateKey;
use steersman_pki::x509::{self, Certificate, CertificateRequest, Template};

use crate::certificates::signing::usages;

#[derive(Deserialize)]
struct Recorded {
    authorities: std::collections::BTreeMap<String, Authority>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Authority {
    certificate: String,
    key: String,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    authority: String,
    request: String,
    usages: Vec<String>,
    serial: String,
    certificate: String,
}

fn read(pem: &str) -> Certificate {
    Certificate::read(&x509::certificates_in_pem(pem.as_bytes())[0]).unwrap()
}

#[test]
fn certificates_equal_those_of_upstream() {
    let recorded: Recorded =
        serde_json::from_str(include_str!("../../testdata/issued.json")).unwrap();
    assert!(recorded.cases.len() >= 15);
    for case in recorded.cases {
        let authority = &recorded.authorities[&case.authority];
        let request = CertificateRequest::from_pem(case.request.as_bytes()).unwrap();
        assert_eq!(request.check_signature(), Ok(()), "{}", case.name);
        let issued = read(&case.certificate);
        let template = Template {
            request: &request,
            serial: u128::from_str_radix(&case.serial, 16)
                .unwrap()
                .to_be_bytes(),
            not_before: issued.not_before,
            not_after: issued.not_after,
            usages: usages::key_usages(&case.usages).unwrap(),
        };
        let key = PrivateKey::from_pem(authority.key.as_bytes()).unwrap();
        let der = x509::issue(&template, &read(&authority.certificate), &key).unwrap();
        assert_eq!(
            x509::certificate_to_pem(&der),
            case.certificate,
            "{}",
            case.name
        );
    }
}
