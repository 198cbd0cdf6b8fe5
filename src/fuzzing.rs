//! Entry points for the fuzz targets in `proof/fuzz`: private readers of bytes from strangers.
//!
//! The readers themselves stay private; this module is the only public way to them.

use crate::access;

/// Examines the certificate chain of a client, leaf first, as the HTTPS server does at the Unix time
/// `now`. `authorities` is a PEM bundle. `None` if the handshake refuses the chain, else whether an
/// authority verifies it.
///
/// # Errors
/// If the bundle is invalid.
pub fn client_chain(
    chain: &[Vec<u8>],
    authorities: &[u8],
    now: i64,
) -> Result<Option<bool>, String> {
    access::examine(chain, authorities, now)
}
