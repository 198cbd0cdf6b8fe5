//! X.509: certificates, requests for them, and new certificates. Go programs use crypto/x509 for
//! this.
//!
//! The bytes come from clients, also before any authority has verified them. So the parsers return
//! a value or an error for all inputs, and never panic.

mod certificate;
mod fields;
mod issue;
mod key_pair;
mod name;
mod pem;
mod request;
mod strings;

pub use certificate::Certificate;
pub use issue::{KeyUsages, Template, issue, serial_number};
pub use key_pair::key_pair;
pub use name::{COMMON_NAME, Name, ORGANIZATION};
pub use pem::{certificate_to_pem, certificates_in_pem, certificates_without_headers};
pub use request::{AlternativeNames, CertificateRequest, RequestError};

pub use der::asn1::ObjectIdentifier;

/// An error of crypto/x509.
fn x509(text: impl std::fmt::Display) -> String {
    format!("x509: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_bytes_are_refused_in_the_words_of_go() {
        let blocks = ::pem::parse_many(include_str!("testdata/malformed.pem")).unwrap();
        let answers = include_str!("testdata/malformed.txt").lines().skip(1);
        let mut compared = 0;
        for answer in answers {
            let [block, place, change, expected] = answer.splitn(4, ' ').collect::<Vec<_>>()[..]
                .try_into()
                .unwrap();
            let block = &blocks[block.parse::<usize>().unwrap()];
            let mut der = block.contents().to_vec();
            let place = place.parse().unwrap();
            match change {
                "end" => der.truncate(place),
                byte => der[place] = u8::from_str_radix(byte, 16).unwrap(),
            }
            let found = match block.tag() {
                "CERTIFICATE" => Certificate::read(&der).unwrap_err(),
                _ => CertificateRequest::from_der(&der).unwrap_err().to_string(),
            };
            assert_eq!(found, expected, "{answer}");
            compared += 1;
        }
        assert!(compared > 100, "{compared}");
    }
}
