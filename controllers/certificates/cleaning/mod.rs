//! Deletes old requests for certificates, in one pass over the cache after another.
//!
//! Upstream: `pkg/controller/certificates/cleaner`. [`Cleaner`] lists the differences.
//!
//! [`Cleaner`]: steersman_helpers::cleaner::Cleaner

pub mod pods;
pub mod requests;
#[cfg(test)]
mod tests;
