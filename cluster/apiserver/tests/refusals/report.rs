//! The comparison of all answers, the list of known differences, and the table of the
//! documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cases::{Answer, split};
use super::file;
use crate::support::recorded::known;

const KNOWN: &str = "tests/refusals/known.txt";
const TABLE: &str = "../../docs/refusals.md";

/// The answers of both servers, by case.
pub(crate) struct Comparison<'a> {
    recorded: &'a BTreeMap<String, Answer>,
    found: &'a BTreeMap<String, Answer>,
}

/// Numbers of cases.
#[derive(Default)]
struct Count {
    cases: usize,
    /// Cases with the recorded code and reason.
    agreeing: usize,
    /// Cases with the recorded answer.
    equal: usize,
}

impl Count {
    fn add(&mut self, recorded: &Answer, found: &Answer) {
        self.cases += 1;
        self.agreeing += usize::from(recorded.agrees_with(found));
        self.equal += usize::from(recorded == found);
    }

    fn row(&self, name: &str) -> String {
        // Rounded down: only a row without differences shows 100.
        let share = |part: usize| {
            let tenths = part * 1000 / self.cases;
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        let agreeing = share(self.agreeing);
        let equal = share(self.equal);
        format!("| {name} | {} | {agreeing} | {equal} |\n", self.cases)
    }
}

impl<'a> Comparison<'a> {
    /// Both maps have the same names.
    pub(crate) fn new(
        recorded: &'a BTreeMap<String, Answer>,
        found: &'a BTreeMap<String, Answer>,
    ) -> Self {
        Self { recorded, found }
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a Answer, &'a Answer)> {
        let pairs = self.recorded.iter().zip(self.found.values());
        pairs.map(|((name, recorded), found)| (name.as_str(), recorded, found))
    }

    /// Fails for an unlisted difference, for a stale line of the list, and for a stale table. In
    /// write mode, it writes the list and the table.
    pub(crate) fn check(&self) {
        let known = known(&std::fs::read_to_string(file(KNOWN)).unwrap_or_default());
        let differences = self.differences(&known);
        let table = self.table(&differences);
        if std::env::var("STEERSMAN_GOLDEN").is_ok_and(|mode| mode == "write") {
            let lines = differences
                .iter()
                .fold(HEAD.to_owned(), |text, (name, reason)| {
                    text + name + " " + reason + "\n"
                });
            std::fs::write(file(KNOWN), lines).unwrap();
            std::fs::write(file(TABLE), table).unwrap();
            self.print();
            return;
        }
        let mut problems = String::new();
        for (name, recorded, found) in self.pairs() {
            match (recorded == found, known.contains_key(name)) {
                (false, false) => writeln!(
                    problems,
                    "{name}\n  recorded {recorded:?}\n  answered {found:?}"
                ),
                (true, true) => writeln!(problems, "{name}\n  listed as different, but equal"),
                _ => Ok(()),
            }
            .unwrap();
        }
        assert!(problems.is_empty(), "\n{problems}");
        assert!(
            std::fs::read_to_string(file(TABLE)).is_ok_and(|current| current == table),
            "docs/refusals.md is out of date: run this test with STEERSMAN_GOLDEN=write"
        );
    }

    /// Names and reasons of all differences. Reasons that a person wrote stay.
    fn differences(&self, known: &BTreeMap<String, String>) -> BTreeMap<&'a str, String> {
        let differing = self
            .pairs()
            .filter(|(_, recorded, found)| recorded != found);
        differing
            .map(|(name, recorded, found)| {
                let written = known
                    .get(name)
                    .filter(|why| !DERIVED.contains(&why.as_str()));
                let reason = written.cloned().unwrap_or_else(|| derived(recorded, found));
                (name, reason)
            })
            .collect()
    }

    fn table(&self, differences: &BTreeMap<&str, String>) -> String {
        let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
        let mut total = Count::default();
        let answered = self
            .pairs()
            .filter(|(_, recorded, _)| **recorded != Answer::LOST);
        for (name, recorded, found) in answered {
            let (resource, _) = split(name);
            counts.entry(resource).or_default().add(recorded, found);
            total.add(recorded, found);
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in differences.values() {
            *reasons.entry(reason).or_default() += 1;
        }
        let mut text = TABLE_HEAD.to_owned();
        text += &total.row("all");
        for (resource, count) in &counts {
            text += &count.row(&format!("`{resource}`"));
        }
        text += REASONS_HEAD;
        for (reason, cases) in reasons {
            writeln!(text, "| {reason} | {cases} |").unwrap();
        }
        text
    }

    /// Prints all differences.
    fn print(&self) {
        for (name, recorded, found) in self
            .pairs()
            .filter(|(_, recorded, found)| recorded != found)
        {
            println!("{name}\n  recorded {recorded:?}\n  answered {found:?}");
        }
    }
}

/// Reasons that the answers themselves show.
const DERIVED: [&str; 5] = [
    "accepted, where upstream refuses",
    "refused, where upstream accepts",
    "refused with another code or reason",
    "refused with another message",
    "kube-apiserver panics",
];

fn derived(recorded: &Answer, found: &Answer) -> String {
    let index = match (recorded.code < 300, found.code < 300) {
        _ if recorded == &Answer::LOST => 4,
        (false, true) => 0,
        (true, false) => 1,
        _ if !recorded.agrees_with(found) => 2,
        _ => 3,
    };
    DERIVED[index].to_owned()
}

const HEAD: &str = "# Cases whose answers are known to differ: case, reason.\n";

const TABLE_HEAD: &str = "# Refusals of the embedded API server

`cluster/apiserver/tests/refusals` sends generated requests, most of them invalid, and compares the
answers with those of kube-apiserver 1.36.2. `known.txt` in that folder lists each case with
another answer. This page is written by the test itself; see
[CONTRIBUTING.md](../CONTRIBUTING.md#tests). Where kube-apiserver panics, it closes the connection
without an answer; these cases are in the second table only.

| resource | cases | equal in code and reason, % | equal in messages too, % |
|---|--:|--:|--:|
";

const REASONS_HEAD: &str = "
| difference | cases |
|---|--:|
";
