//! Hashes with 128 bits, over texts that are never stored.
//!
//! Upstream orders ports and subsets by the hash of Go's dump, so users see this order. Upstream:
//! `DeepHashObject` with `fnv.New128a`, and with `md5.New` before 1.35.

use std::fmt;

use md5::{Digest, Md5};
use steersman_releases::Release;

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = (1 << 88) + 0x13b;

/// Why writing to a hasher has no error.
const INFALLIBLE: &str = "hashing does not fail";

/// The hash that orders the ports and subsets of a release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PortOrder {
    /// MD5.
    Md5,
    /// FNV-1a with 128 bits.
    #[default]
    Fnv128a,
}

impl PortOrder {
    /// The order of `release`. A manager of an older release writes Endpoints in another order anew.
    pub fn of(release: Release) -> Self {
        if release.orders_ports_by_md5() {
            Self::Md5
        } else {
            Self::Fnv128a
        }
    }

    /// The hash of a text. Numbers order as the texts of upstream do.
    pub(super) fn hash(self, text: fmt::Arguments<'_>) -> u128 {
        match self {
            Self::Md5 => {
                let mut hasher = OfText(Md5::new());
                fmt::Write::write_fmt(&mut hasher, text).expect(INFALLIBLE);
                u128::from_be_bytes(hasher.0.finalize().into())
            }
            Self::Fnv128a => {
                let mut hasher = Fnv128a(OFFSET);
                fmt::Write::write_fmt(&mut hasher, text).expect(INFALLIBLE);
                hasher.0
            }
        }
    }
}

struct OfText(Md5);

impl fmt::Write for OfText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

struct Fnv128a(u128);

impl fmt::Write for Fnv128a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

/// A pointer to a text or a number, as Go dumps it.
pub(super) struct Pointer<'a, T>(pub(super) &'static str, pub(super) Option<&'a T>);

impl<T: fmt::Display> fmt::Display for Pointer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(value) => write!(f, "(*{}){value}", self.0),
            None => write!(f, "(*{})<nil>", self.0),
        }
    }
}
