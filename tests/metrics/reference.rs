//! Parses the reference of upstream's metrics, if it is available.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::exposition::Family;

/// Whether a family has no counterpart: Go's garbage collection of transports, and families that
/// upstream never registers.
fn has_no_counterpart(name: &str, idle: &str) -> bool {
    name == "rest_client_transport_cache_gc_calls_total" || idle.starts_with("not registered")
}

/// The families in the sections about implemented parts, by name; `None` without the reference.
pub(super) fn families() -> Option<BTreeMap<String, Family>> {
    let folder = std::env::var_os("STEERSMAN_SHARED").map(PathBuf::from)?;
    let path = folder.join("reference/metrics.md");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no {}", path.display());
        return None;
    };
    let mut families = BTreeMap::new();
    let mut columns: Vec<&str> = Vec::new();
    let mut is_core = false;
    let mut labels_above = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('#') {
            is_core = title.contains("[core]") || title.contains("Informers");
        }
        let Some(cells) = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'))
            .filter(|_| is_core)
        else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        if cells[0] == "family" {
            columns = cells;
            continue;
        }
        let cell = |title: &str| {
            columns
                .iter()
                .position(|column| *column == title)
                .map(|at| cells[at])
        };
        let (Some(names), Some(kind), Some(labels)) =
            (cell("family"), cell("type"), cell("labels"))
        else {
            continue;
        };
        if kind.starts_with('-') || cell("tag") == Some("[later]") {
            continue;
        }
        let labels = if labels == "same" {
            labels_above.clone()
        } else {
            label_names(labels)
        };
        labels_above.clone_from(&labels);
        let bounds = cell("buckets").map_or("", |bounds| bounds.trim_matches('-'));
        for name in names
            .split(", ")
            .filter(|name| !has_no_counterpart(name, cell("idle").unwrap_or_default()))
        {
            families.insert(name.to_owned(), Family::new(kind, &labels, bounds));
        }
    }
    Some(families)
}

/// The label names in a cell such as `name = value, value; other (remark)`.
fn label_names(cell: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0;
    for c in cell.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let parts = plain.split(';').map(|part| {
        part.split(['=', ':'])
            .next()
            .unwrap_or_default()
            .trim_matches([' ', '-'])
    });
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}
