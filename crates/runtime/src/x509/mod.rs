//! X.509: certificates, requests for them, and new certificates. Go programs use crypto/x509 for
//! this.
//!
//! The bytes come from clients, also before any authority has verified them. So the parsers return
//! a value or an error for all inputs, and never panic.

mod certificate;
mod issue;
mod key_pair;
mod name;
mod pem;
mod request;

pub use certificate::Certificate;
pub use issue::{KeyUsages, Template, issue, serial_number};
pub use key_pair::key_pair;
pub use name::{COMMON_NAME, Name, ORGANIZATION};
pub use pem::{certificate_to_pem, certificates_in_pem, certificates_without_headers};
pub use request::{AlternativeNames, CertificateRequest, RequestError};

pub use der::asn1::ObjectIdentifier;
