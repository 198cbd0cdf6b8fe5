//! Parses Prometheus text into the properties of metric families.

use std::collections::{BTreeMap, BTreeSet};

/// The properties of a family that dashboards depend on.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) labels: BTreeSet<String>,
    /// Upper bounds of the buckets without `+Inf`, in order.
    pub(super) bounds: Vec<f64>,
}

impl Family {
    /// Parses cells of a table: comma-separated lists; a list of bounds may have a name.
    pub(super) fn new(kind: &str, labels: &str, bounds: &str) -> Self {
        let bounds = super::BOUNDS
            .iter()
            .find(|(name, _)| *name == bounds)
            .map_or(bounds, |(_, list)| list);
        let items = |list: &str| {
            list.split(',')
                .map(|item| item.trim().to_owned())
                .filter(|i| !i.is_empty())
                .collect::<Vec<_>>()
        };
        Self {
            kind: kind.to_owned(),
            labels: items(labels).into_iter().collect(),
            bounds: items(bounds)
                .iter()
                .map(|bound| bound.parse().unwrap())
                .collect(),
        }
    }
}

/// The families of a page, by name. All series of a family must have the same label names.
pub(super) fn families(page: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut labels_seen = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            current = name.to_owned();
            families.insert(
                current.clone(),
                Family {
                    kind: kind.to_owned(),
                    ..Family::default()
                },
            );
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let family = families.get_mut(&current).unwrap();
        let (labels, bound) = labels(line);
        if let Some(bound) =
            bound.filter(|bound| bound.is_finite() && !family.bounds.contains(bound))
        {
            family.bounds.push(bound);
        }
        let first = labels_seen
            .entry(current.clone())
            .or_insert_with(|| labels.clone());
        assert_eq!(*first, labels, "labels of {line}");
        family.labels = labels;
    }
    families
}

/// Label names of a sample, and the value of `le`.
fn labels(sample: &str) -> (BTreeSet<String>, Option<f64>) {
    let mut names = BTreeSet::new();
    let mut bound = None;
    let inside = sample
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'))
        .map_or("", |(inside, _)| inside);
    let mut rest = inside;
    while let Some((name, after)) = rest.split_once("=\"") {
        let end = end_of_value(after);
        if name == "le" {
            bound = after[..end].parse().ok();
        } else {
            names.insert(name.to_owned());
        }
        rest = after[end + 1..].trim_start_matches(',');
    }
    (names, bound)
}

/// The position of the quote that ends a label value.
fn end_of_value(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return at,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    panic!("a label value without a closing quote: {text:?}");
}
