//! The results of all controllers, kept between runs, as a list and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::explained::Explanation;
use crate::mutant::Mutant;
use crate::trial::Fate;

/// The results by controller.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results(BTreeMap<String, Vec<(Mutant, Fate)>>);

/// The numbers of one row.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    mutants: usize,
    found: usize,
    unreached: usize,
    survived: usize,
    explained: usize,
}

impl Row {
    fn of(fates: &[(Mutant, Fate)], explanations: &[Explanation]) -> Self {
        let mut row = Self::default();
        for (mutant, fate) in fates {
            row.mutants += 1;
            let is_explained = explanations.iter().any(|known| known.is_of(mutant));
            match fate {
                Fate::Found => row.found += 1,
                _ if is_explained => row.explained += 1,
                Fate::Survived => row.survived += 1,
                Fate::Unreached => row.unreached += 1,
            }
        }
        row
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            mutants: self.mutants + other.mutants,
            found: self.found + other.found,
            unreached: self.unreached + other.unreached,
            survived: self.survived + other.survived,
            explained: self.explained + other.explained,
        }
    }

    fn text(&self, name: &str) -> String {
        format!(
            "| {name} | {} | {} | {} | {} | {} | {:.1} % |",
            self.mutants,
            self.found,
            self.explained,
            self.survived,
            self.unreached,
            // Tables of a few thousand mutants lose nothing in `f64`.
            100.0 * self.found as f64 / self.mutants.max(1) as f64,
        )
    }
}

impl Results {
    /// The results of earlier runs, if there are any.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(_) => Ok(Self::default()),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        Ok(std::fs::write(path, serde_json::to_vec_pretty(self)?)?)
    }

    pub(crate) fn set(&mut self, controller: &str, fates: Vec<(Mutant, Fate)>) {
        self.0.insert(controller.to_owned(), fates);
    }

    /// The mutants of a controller that are neither found nor explained, and the explained ones that are found.
    pub(crate) fn open(&self, controller: &str, explanations: &[Explanation]) -> String {
        let mut text = String::new();
        for (mutant, fate) in self.0.get(controller).into_iter().flatten() {
            let is_explained = explanations.iter().any(|known| known.is_of(mutant));
            let found = match fate {
                Fate::Found if is_explained => "explained, but found",
                Fate::Survived if !is_explained => "survived",
                Fate::Unreached if !is_explained => "unreached",
                _ => continue,
            };
            // A String cannot fail to be written.
            let _ = writeln!(
                text,
                "{found}: {}:{} {}: {} => {}",
                mutant.file, mutant.line, mutant.function, mutant.original, mutant.changed
            );
        }
        text
    }

    /// The table in Markdown.
    pub(crate) fn table(&self, explanations: &[Explanation]) -> String {
        let mut text = String::from(
            "| controller | mutants | found | explained | survived | not reached | found |\n|---|---|---|---|---|---|---|\n",
        );
        let mut all = Row::default();
        for (controller, fates) in &self.0 {
            let row = Row::of(fates, explanations);
            let _ = writeln!(text, "{}", row.text(controller));
            all = all.plus(&row);
        }
        let _ = writeln!(text, "{}", all.text("all"));
        text
    }
}
