//! Mutants that no test can find, with the reason.

use anyhow::Result;
use serde::Deserialize;

use crate::mutant::Mutant;

const FILE: &str = include_str!("../explained.yaml");

/// The reason why a mutant behaves as the original does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    file: String,
    function: String,
    original: String,
    changed: String,
    /// For readers.
    reason: String,
}

impl Explanation {
    pub(crate) fn is_of(&self, mutant: &Mutant) -> bool {
        let key = [&self.file, &self.function, &self.original, &self.changed];
        mutant.key() == key.map(String::as_str)
    }
}

/// The explanations beside this program.
pub(crate) fn explanations() -> Result<Vec<Explanation>> {
    Ok(serde_saphyr::from_str(FILE)?)
}

/// The explanations without a mutant or without a reason, as texts.
pub(crate) fn stale(explanations: &[Explanation], mutants: &[Mutant]) -> Vec<String> {
    explanations
        .iter()
        .filter(|explanation| {
            explanation.reason.is_empty() || !mutants.iter().any(|mutant| explanation.is_of(mutant))
        })
        .map(|explanation| format!("{explanation:?}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{build, files};

    #[test]
    fn each_explanation_has_a_mutant() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let texts = files::decisions(&root).unwrap();
        let mutants = build::all_mutants(&texts).unwrap();
        let none: Vec<String> = stale(&explanations().unwrap(), &mutants);
        assert!(none.is_empty(), "{none:#?}");
        assert!(mutants.len() > 1_000, "{} mutants", mutants.len());
    }
}
