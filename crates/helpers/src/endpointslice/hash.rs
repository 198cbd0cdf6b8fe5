//! FNV-1a with 128 bits, over texts that are never stored.
//!
//! Upstream orders ports and subsets by the hash of Go's dump, so users see this order. Upstream:
//! `DeepHashObject` with `fnv.New128a`.

use std::fmt;

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = (1 << 88) + 0x13b;

/// The hash of a text. Numbers order as the texts of upstream do.
pub(super) fn hash(text: fmt::Arguments<'_>) -> u128 {
    let mut hasher = Fnv128a(OFFSET);
    fmt::Write::write_fmt(&mut hasher, text).expect("hashing does not fail");
    hasher.0
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
