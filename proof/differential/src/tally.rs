//! Counts of a comparison, and their table.

use std::fmt::Write as _;

/// Counts of one project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Different definitions.
    pub(crate) definitions: usize,
    /// Definitions that the real server accepts.
    pub(crate) accepted: usize,
    /// Definitions to which the embedded server answers otherwise.
    pub(crate) answered_otherwise: usize,
    /// Definitions that were stored.
    pub(crate) stored: usize,
    /// Definitions that the embedded server stores otherwise, with their status.
    pub(crate) stored_otherwise: usize,
    /// Replacements of stored definitions.
    pub(crate) replacements: usize,
    /// Replacements with another answer or stored object.
    pub(crate) replaced_otherwise: usize,
    /// Other documents.
    pub(crate) manifests: usize,
    /// Manifests that the real server accepts.
    pub(crate) manifests_accepted: usize,
    /// Manifests with equal answers.
    pub(crate) manifests_equal: usize,
    /// Documents of kinds that the real server lacks, which are not compared.
    pub(crate) of_no_kind: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.definitions += other.definitions;
        self.accepted += other.accepted;
        self.answered_otherwise += other.answered_otherwise;
        self.stored += other.stored;
        self.stored_otherwise += other.stored_otherwise;
        self.replacements += other.replacements;
        self.replaced_otherwise += other.replaced_otherwise;
        self.manifests += other.manifests;
        self.manifests_accepted += other.manifests_accepted;
        self.manifests_equal += other.manifests_equal;
        self.of_no_kind += other.of_no_kind;
    }
}

/// A table in Markdown, with a row for each project and one for all.
pub(crate) fn table(projects: &[(String, Tally)]) -> String {
    let mut table = "\
| project | definitions | accepted | refused | other answer | stored | otherwise | replaced | otherwise | manifests \
| accepted | refused | equal | share |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"
    .to_owned();
    let mut all = Tally::default();
    for (name, tally) in projects {
        all += *tally;
        row(&mut table, name, tally);
    }
    row(&mut table, "all", &all);
    table
}

fn row(table: &mut String, name: &str, tally: &Tally) {
    let counts = [
        tally.definitions,
        tally.accepted,
        tally.definitions - tally.accepted,
        tally.answered_otherwise,
        tally.stored,
        tally.stored_otherwise,
        tally.replacements,
        tally.replaced_otherwise,
        tally.manifests,
        tally.manifests_accepted,
        tally.manifests - tally.manifests_accepted,
        tally.manifests_equal,
    ];
    let counts = counts.map(|count| count.to_string()).join(" | ");
    let share = share(tally.manifests_equal, tally.manifests);
    // A text takes every row.
    let _ = writeln!(table, "| {name} | {counts} | {share} |");
}

/// A share in percent, rounded down to a tenth, so that 100 % means all.
fn share(part: usize, all: usize) -> String {
    match (part * 1000).checked_div(all) {
        Some(share) => format!("{}.{} %", share / 10, share % 10),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_project_and_the_sums() {
        let one = Tally {
            definitions: 3,
            accepted: 2,
            answered_otherwise: 1,
            stored: 2,
            manifests: 2000,
            manifests_accepted: 1500,
            manifests_equal: 1999,
            ..Tally::default()
        };
        let other = Tally {
            definitions: 1,
            accepted: 1,
            stored: 1,
            stored_otherwise: 1,
            replacements: 4,
            replaced_otherwise: 2,
            ..Tally::default()
        };
        let table = table(&[("one".to_owned(), one), ("other".to_owned(), other)]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let expected = [
            "| one | 3 | 2 | 1 | 1 | 2 | 0 | 0 | 0 | 2000 | 1500 | 500 | 1999 | 99.9 % |",
            "| other | 1 | 1 | 0 | 0 | 1 | 1 | 4 | 2 | 0 | 0 | 0 | 0 |  |",
            "| all | 4 | 3 | 1 | 1 | 3 | 1 | 4 | 2 | 2000 | 1500 | 500 | 1999 | 99.9 % |",
        ];
        assert_eq!(rows, expected);
    }
}
