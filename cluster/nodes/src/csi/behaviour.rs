//! The behaviour of the simulated CSI driver, by annotations on a claim or its StorageClass.
//!
//! | annotation | value | effect |
//! |---|---|---|
//! | `simulate.steersman.dev/volume-latency` | `5s` | time of each creation, expansion and deletion |
//! | `simulate.steersman.dev/volume` | `fails` | each call fails; it is repeated |
//! | | `hangs` | no call is answered |
//!
//! An annotation of the claim precedes that of the class. A malformed value is a failure.

use std::collections::HashMap;
use std::time::Duration;

use jiff::SignedDuration;

/// Annotation with the time of a call.
const LATENCY: &str = "simulate.steersman.dev/volume-latency";
/// Annotation with the outcome of calls.
const OUTCOME: &str = "simulate.steersman.dev/volume";

/// The answer to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::csi) enum Outcome {
    /// It succeeds.
    Success,
    /// It fails with this message.
    Failure(String),
    /// It never comes.
    Silence,
}

/// The answer to a call, and the time until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::csi) struct Behaviour {
    pub(in crate::csi) latency: Duration,
    pub(in crate::csi) outcome: Outcome,
}

impl Behaviour {
    /// The behaviour that the first of these sets of annotations asks for.
    pub(in crate::csi) fn of<'a>(
        annotations: impl IntoIterator<Item = &'a HashMap<String, String>> + Clone,
    ) -> Self {
        let value = |key: &str| {
            let mut sets = annotations.clone().into_iter();
            sets.find_map(|set| set.get(key).map(String::as_str))
        };
        let latency = value(LATENCY).map(|text| {
            let parsed = text.parse::<SignedDuration>().ok();
            let latency = parsed.and_then(|parsed| Duration::try_from(parsed).ok());
            latency.ok_or_else(|| wrong(LATENCY, text, "no duration such as 500ms"))
        });
        let outcome = match value(OUTCOME) {
            None => Outcome::Success,
            Some("fails") => {
                Outcome::Failure("rpc error: code = Internal desc = simulated failure".to_owned())
            }
            Some("hangs") => Outcome::Silence,
            Some(other) => Outcome::Failure(wrong(OUTCOME, other, "none of fails, hangs")),
        };
        match latency.unwrap_or(Ok(Duration::ZERO)) {
            Ok(latency) => Self { latency, outcome },
            Err(message) => Self {
                latency: Duration::ZERO,
                outcome: Outcome::Failure(message),
            },
        }
    }
}

fn wrong(annotation: &str, value: &str, why: &str) -> String {
    format!("annotation {annotation}: {value:?} is {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    #[test]
    fn a_claim_precedes_its_class() {
        let class = annotations(&[(LATENCY, "5s"), (OUTCOME, "hangs")]);
        let claim = annotations(&[(OUTCOME, "fails")]);
        let found = Behaviour::of([&claim, &class]);
        assert_eq!(found.latency, Duration::from_secs(5));
        assert!(matches!(found.outcome, Outcome::Failure(message) if message.contains("Internal")));
        assert_eq!(Behaviour::of([&class]).outcome, Outcome::Silence);
        assert_eq!(Behaviour::of([&HashMap::new()]).outcome, Outcome::Success);
    }

    #[test]
    fn malformed_values_are_failures() {
        for pair in [(LATENCY, "soon"), (LATENCY, "-1s"), (OUTCOME, "explodes")] {
            let found = Behaviour::of([&annotations(&[pair])]);
            assert!(matches!(found.outcome, Outcome::Failure(message) if message.contains(pair.1)));
        }
    }
}
