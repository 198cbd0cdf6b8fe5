//! X.509: certificates and the names in them. Go programs use crypto/x509 for this.
//!
//! The bytes come from clients, also before any authority has verified them. So the parsers return
//! a value or an error for all inputs, and never panic.

mod certificate;
mod name;

pub use certificate::Certificate;
pub use name::{COMMON_NAME, Name, ORGANIZATION};

pub use der::asn1::ObjectIdentifier;
