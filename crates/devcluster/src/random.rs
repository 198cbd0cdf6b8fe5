//! What a cluster draws: names, UIDs, how long watches stay open, how long things take on its
//! nodes.

use std::sync::{Mutex, PoisonError};

use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Letters of generated names: no vowels, so that no words appear.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_PREFIX: usize = 58;

/// A sequence of draws; with a seed, the same one each time. Each purpose has a sequence of its
/// own, so that one watch more does not change the names that follow.
#[derive(Debug)]
pub(crate) struct Draws(Mutex<StdRng>);

impl Draws {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(
            seed.unwrap_or_else(rand::random),
        )))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From 0 up to 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.with(Rng::random)
    }

    pub(crate) fn within<T: SampleUniform>(&self, range: impl SampleRange<T>) -> T {
        self.with(|random| random.random_range(range))
    }

    pub(crate) fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(self.with(Rng::random))
            .into_uuid()
            .to_string()
    }

    /// A name that starts with `prefix`.
    pub(crate) fn name(&self, prefix: &str) -> String {
        let cut = prefix
            .char_indices()
            .nth(MAX_PREFIX)
            .map_or(prefix, |(end, _)| &prefix[..end]);
        let letter = |random: &mut StdRng| {
            char::from(SUFFIX_LETTERS[random.random_range(0..SUFFIX_LETTERS.len())])
        };
        let suffix = self.with(|random| {
            (0..SUFFIX_LENGTH)
                .map(|_| letter(random))
                .collect::<String>()
        });
        format!("{cut}{suffix}")
    }
}

/// What a server draws.
#[derive(Debug)]
pub(crate) struct Random {
    /// Names and UIDs.
    pub(crate) identities: Draws,
    /// How long watches stay open.
    pub(crate) lifetimes: Draws,
}

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            identities: Draws::new(seed),
            lifetimes: Draws::new(seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_keeps_at_most_58_characters_of_its_prefix() {
        let name = Draws::new(None).name(&"a".repeat(70));
        assert_eq!(name.len(), 63);
        assert!(
            name.bytes()
                .skip(58)
                .all(|letter| SUFFIX_LETTERS.contains(&letter)),
            "{name}"
        );
    }

    #[test]
    fn a_seed_repeats_what_is_drawn() {
        let drawn = |seed| {
            let draws = Draws::new(seed);
            (
                draws.uid(),
                draws.name("web-"),
                draws.within(0..1_000_000),
                draws.fraction().to_bits(),
            )
        };
        assert_eq!(drawn(Some(1)), drawn(Some(1)));
        assert_ne!(drawn(Some(1)), drawn(Some(2)));
        assert_ne!(drawn(None), drawn(None));
    }
}
