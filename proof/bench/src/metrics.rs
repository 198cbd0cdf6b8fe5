//! Samples of a page in Prometheus' text format.

/// One sample of a metric.
pub(crate) struct Sample<'a> {
    labels: &'a str,
    pub(crate) value: f64,
}

impl<'a> Sample<'a> {
    /// The value of this label; empty without it. Values with commas are cut.
    pub(crate) fn label(&self, name: &str) -> &'a str {
        let mut pairs = self
            .labels
            .split(',')
            .filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(key, _)| *key == name);
        found.map_or("", |(_, text)| text.trim_matches('"'))
    }
}

/// The samples of the metric `name`, which has labels.
pub(crate) fn samples<'a>(page: &'a str, name: &str) -> impl Iterator<Item = Sample<'a>> {
    let of_metric = move |line: &'a str| line.strip_prefix(name)?.strip_prefix('{');
    let lines = page.lines().filter_map(of_metric);
    lines.filter_map(|line| {
        let (labels, value) = line.split_once("} ")?;
        let value = value.parse().ok()?;
        Some(Sample { labels, value })
    })
}

/// The sum of all samples of the metric `name`.
pub(crate) fn sum(page: &str, name: &str) -> u64 {
    samples(page, name).map(|sample| sample.value).sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_belong_to_one_metric() {
        let page = "# HELP events x\n\
            events{resource=\"pods\",state=\"a\"} 3\n\
            events{resource=\"nodes\"} 1e+01\n\
            events_total{resource=\"nodes\"} 100\n\
            events{resource=\"broken\"} x\n";
        let found: Vec<_> = samples(page, "events")
            .map(|sample| {
                (
                    sample.label("resource"),
                    sample.label("state"),
                    sample.value,
                )
            })
            .collect();
        assert_eq!(found, [("pods", "a", 3.0), ("nodes", "", 10.0)]);
        assert_eq!(sum(page, "events"), 13);
    }
}
