//! Keys, certificates and signed tokens, as controllers and servers of Kubernetes need them.
//!
//! [`keys`] reads and writes private keys, [`x509`] reads, checks and signs certificates, and
//! [`jws`] signs service account tokens. Upstream takes these from Go's `crypto` packages.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod asn1;
pub mod jws;
pub mod keys;
pub mod x509;
