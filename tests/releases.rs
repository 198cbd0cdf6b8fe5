//! docs/releases.md agrees with the tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use steersman_releases::{
    ADDED, BEHAVIOURS, CONFIGZ, Effect, FAMILIES, FLAGS, GATED, Gate, READ, Release, SERVED_SINCE,
    Spec, Stage, source,
};
use steersman_values::resource::SERVED_DIFFERENTLY;

use crate::docs::keep_part;

const PAGE: &str = "docs/releases.md";

/// The known releases, oldest first.
fn releases() -> impl Iterator<Item = Release> {
    Release::known().rev()
}

/// The head of a table with a column for each release, and further ones.
fn heads(first: &str, last: &[&str]) -> String {
    let releases = releases().map(|release| release.to_string());
    let last = last.iter().map(|name| (*name).to_owned());
    let names: Vec<_> = std::iter::once(first.to_owned())
        .chain(releases)
        .chain(last)
        .collect();
    format!(
        "| {} |\n|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    )
}

const CHANGE: &str = "upstream's change";

/// The state of a gate in one release, such as `beta, on`.
fn state(spec: &Spec) -> String {
    let stage = match spec.stage {
        Stage::Alpha => "alpha",
        Stage::Beta => "beta",
        Stage::Stable => "stable",
        Stage::Deprecated => "deprecated",
    };
    let default = if spec.default { "on" } else { "off" };
    if spec.locked {
        format!("locked {default}")
    } else {
        format!("{stage}, {default}")
    }
}

fn effect(effect: Effect) -> String {
    let state = |state: bool| if state { "on" } else { "off" };
    match effect {
        Effect::Acts => "acts".to_owned(),
        Effect::Same(reason) => format!("no difference: {reason}"),
        Effect::Locked => "locked".to_owned(),
        Effect::Always(fixed, reason) => format!("always {}: {reason}", state(fixed)),
    }
}

#[test]
fn the_page_lists_the_resources_of_some_releases() {
    let mut table = heads("resource", &["version", CHANGE]);
    for (group, plural, _, change) in SERVED_SINCE {
        write!(table, "| `{plural}.{group}` |").unwrap();
        for release in releases() {
            let is_served = release.serves(group, plural);
            let text = if is_served { "yes" } else { "-" };
            write!(table, " {text} |").unwrap();
        }
        writeln!(table, " `v1` | {change} |").unwrap();
    }
    keep_part(PAGE, "resources", &table);
}

#[test]
fn the_page_lists_the_known_differences_to_real_servers() {
    const KNOWN: &str = include_str!("../cluster/apiserver/tests/releases/known.txt");
    let mut by_answer: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for line in KNOWN.lines() {
        let (id, reason) = line.split_once(' ').unwrap();
        let (release, answer) = id.split_once('/').unwrap();
        by_answer.entry((answer, reason)).or_default().push(release);
    }
    let mut table = "| answer | releases | difference |\n|---|---|---|\n".to_owned();
    for ((answer, reason), releases) in by_answer {
        let answer = answer.replacen('-', " ", 1);
        writeln!(table, "| {answer} | {} | {reason} |", releases.join(", ")).unwrap();
    }
    keep_part(PAGE, "known differences", &table);
}

#[test]
fn the_default_release_has_the_version_of_the_program() {
    assert_eq!(
        Release::DEFAULT.git_version(),
        steersman::version::GIT_VERSION
    );
}

#[test]
fn the_page_lists_the_gates_that_the_manager_reads() {
    let mut table = heads("gate", &[CHANGE, "here"]);
    for (name, of_gate) in READ {
        let gate = Gate::find(name).unwrap();
        write!(table, "| `{name}` |").unwrap();
        for release in releases() {
            let spec = gate.at(release).filter(|_| !gate.is_removed_in(release));
            let text = spec.map_or_else(|| "-".to_owned(), state);
            write!(table, " {text} |").unwrap();
        }
        let change = source(name).unwrap();
        writeln!(table, " {change} | {} |", effect(*of_gate)).unwrap();
    }
    keep_part(PAGE, "gates", &table);
}

#[test]
fn the_page_lists_the_controllers_of_some_releases() {
    let mut table = heads("controller", &["with feature gates", CHANGE]);
    let added = ADDED.iter().map(|(name, ..)| *name);
    let gated = GATED.iter().map(|(name, _)| *name);
    let names: std::collections::BTreeSet<_> = added.chain(gated).collect();
    for name in names {
        write!(table, "| `{name}` |").unwrap();
        for release in releases() {
            let text = if release.has_controller(name) {
                "yes"
            } else {
                "-"
            };
            write!(table, " {text} |").unwrap();
        }
        let gates = steersman_releases::gates_of(name);
        let shown: Vec<_> = gates.iter().map(|gate| format!("`{gate}`")).collect();
        let added = ADDED.iter().find(|(added, ..)| *added == name);
        let added = added.map(|(.., change)| *change);
        let changes: Vec<_> = added
            .into_iter()
            .chain(gates.iter().map(|gate| source(gate).unwrap()))
            .collect();
        writeln!(table, " {} | {} |", shown.join(", "), changes.join(", ")).unwrap();
    }
    keep_part(PAGE, "controllers", &table);
}

#[test]
fn the_page_lists_the_behaviour_of_some_releases() {
    let mut table = heads("behaviour", &[CHANGE]);
    for row in BEHAVIOURS {
        write!(table, "| {} |", row.text).unwrap();
        for release in releases() {
            let text = if row.is_of(release) { "yes" } else { "-" };
            write!(table, " {text} |").unwrap();
        }
        writeln!(table, " {} |", row.change).unwrap();
    }
    keep_part(PAGE, "behaviour", &table);
}

#[test]
fn the_page_lists_the_flags_of_some_releases() {
    let mut table = heads("flag", &[CHANGE]);
    for span in FLAGS {
        assert!(
            steersman_options::find(span.name).is_some(),
            "{}",
            span.name
        );
        write!(table, "| `--{}` |", span.name).unwrap();
        for release in releases() {
            let has = release.has_flag(span.name);
            write!(table, " {} |", if has { "yes" } else { "-" }).unwrap();
        }
        writeln!(table, " {} |", span.change).unwrap();
    }
    keep_part(PAGE, "flags", &table);
}

#[test]
fn the_page_lists_the_fields_of_configz_of_some_releases() {
    let mut table = heads("field", &[CHANGE]);
    for (path, _, change) in CONFIGZ {
        write!(table, "| `{path}` |").unwrap();
        for release in releases() {
            let has = release.has_configz_field(path);
            write!(table, " {} |", if has { "yes" } else { "-" }).unwrap();
        }
        writeln!(table, " {change} |").unwrap();
    }
    keep_part(PAGE, "configz", &table);
}

#[test]
fn the_page_lists_the_metrics_of_some_releases() {
    let mut table = heads("family", &[CHANGE]);
    for span in FAMILIES {
        write!(table, "| `{}` |", span.name).unwrap();
        for release in releases() {
            write!(table, " {} |", span.text(release)).unwrap();
        }
        writeln!(table, " {} |", span.change).unwrap();
    }
    keep_part(PAGE, "families", &table);
}

#[test]
fn the_page_lists_the_types_with_several_versions() {
    let mut table = format!("| type | version | other versions | {CHANGE} |\n|---|---|---|---|\n");
    for (resource, change, others) in &SERVED_DIFFERENTLY {
        let versions = others
            .iter()
            .map(|other| format!("`{}` ({})", other.version, other.releases));
        let versions: Vec<_> = versions.collect();
        let own = (&*resource.version, *change);
        let others = others.iter().map(|other| (other.version, other.change));
        let changes = std::iter::once(own)
            .chain(others)
            .map(|(version, change)| format!("`{version}`: {change}"));
        let changes: Vec<_> = changes.collect();
        writeln!(
            table,
            "| `{resource}` | `{}` | {} | {} |",
            resource.version,
            versions.join(", "),
            changes.join(", ")
        )
        .unwrap();
    }
    keep_part(PAGE, "versions", &table);
}

#[test]
fn the_page_counts_the_gates_of_each_release() {
    let mut table =
        "| release | feature gates | can be set to both values |\n|---|---|---|\n".to_owned();
    for release in releases() {
        let known = Gate::all()
            .iter()
            .filter(|gate| !gate.is_removed_in(release) && gate.at(release).is_some());
        let free = Gate::all().iter().filter(|gate| gate.is_free_in(release));
        writeln!(
            table,
            "| {release} | {} | {} |",
            known.count(),
            free.count()
        )
        .unwrap();
    }
    keep_part(PAGE, "counts", &table);
}
