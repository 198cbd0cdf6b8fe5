//! The random values of a cluster: names, UIDs, lifetimes of watches, and delays of nodes.
//!
//! With a seed, all values repeat, so that a failing test can be replayed.

use parking_lot::Mutex;

use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Letters of generated names. Vowels are absent, so that names contain no words. Letters and
/// lengths are those of upstream's `apiserver/pkg/storage/names` and `apimachinery/pkg/util/rand`.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// With the suffix, a name has 63 characters, the limit of a DNS label.
const MAX_PREFIX: usize = 58;

/// A sequence of random values. Two sequences with the same seed are equal. Each purpose has its
/// own sequence, so that one more watch does not change the next names.
#[derive(Debug)]
pub(crate) struct Draws(Mutex<StdRng>);

impl Draws {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(
            seed.unwrap_or_else(rand::random),
        )))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock())
    }

    pub(crate) fn within<T: SampleUniform>(&self, range: impl SampleRange<T>) -> T {
        self.with(|random| random.random_range(range))
    }

    pub(crate) fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(self.with(Rng::random))
            .into_uuid()
            .to_string()
    }

    /// A generated name: `prefix`, cut to 58 characters, and five random letters.
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

/// The random values of a server.
#[derive(Debug)]
pub(crate) struct Random {
    /// Names and UIDs.
    pub(crate) identities: Draws,
    /// Durations after which watches end.
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
    fn a_seed_repeats_its_values() {
        let drawn = |seed| {
            let draws = Draws::new(seed);
            (draws.uid(), draws.name("web-"), draws.within(0..1_000_000))
        };
        assert_eq!(drawn(Some(1)), drawn(Some(1)));
        assert_ne!(drawn(Some(1)), drawn(Some(2)));
        assert_ne!(drawn(None), drawn(None));
    }
}
