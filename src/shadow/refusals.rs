//! Creations that failed at a webhook without an answer, as the API server counts them in `/metrics`.
//!
//! The count has neither namespace nor resource. So it is asked only about revisions of controllers: the present
//! manager sends no Event about a refused one.

use std::time::Duration;

use tokio::time::Instant;

/// The metric with one series for each webhook and operation.
const METRIC: &str = "apiserver_admission_webhook_rejection_count{";
/// Labels of the series that count here. A webhook that answers with a refusal has another error type.
const LABELS: [&str; 2] = [
    "operation=\"CREATE\"",
    "error_type=\"calling_webhook_error\"",
];
/// The time for which a refusal counts. The present manager tries again after 1000 s at the latest.
const LATEST: Duration = Duration::from_secs(1020);

/// The age of a text of `/metrics` after which it is read anew.
const FRESH: Duration = Duration::from_secs(10);

/// The count at the last look, and the look that last showed a higher one.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: Option<f64>,
    seen: Option<Instant>,
    rose: Option<Instant>,
}

impl Refusals {
    /// Notes the text of `/metrics`, read at `now`. The first text is the base: its refusals may be old.
    pub(super) fn note(&mut self, metrics: &str, now: Instant) {
        let count = count(metrics);
        self.seen = Some(now);
        if self.count.replace(count).is_some_and(|last| count > last) {
            self.rose = Some(now);
        }
    }

    /// Whether the last text is young enough. The text is large, and many revisions may ask.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.seen
            .is_some_and(|seen| now.duration_since(seen) < FRESH)
    }

    /// Whether the count rose shortly before `now`.
    pub(super) fn are_recent(&self, now: Instant) -> bool {
        self.rose
            .is_some_and(|rose| now.duration_since(rose) < LATEST)
    }
}

fn count(metrics: &str) -> f64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(METRIC));
    let counted = series.filter(|series| LABELS.iter().all(|label| series.contains(label)));
    counted
        .filter_map(|series| series.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_rises_tells_of_refusals() {
        let series = |error: &str, operation: &str, count: u32| {
            format!(
                "{METRIC}error_type=\"{error}\",name=\"w\",operation=\"{operation}\"}} {count}\n"
            )
        };
        let closed = "calling_webhook_error";
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        // (why, series at the start, series a minute later, whether it tells of refusals)
        let cases = [
            ("new", String::new(), series(closed, "CREATE", 1), true),
            (
                "more",
                series(closed, "CREATE", 7),
                series(closed, "CREATE", 8),
                true,
            ),
            (
                "as many",
                series(closed, "CREATE", 7),
                series(closed, "CREATE", 7),
                false,
            ),
            (
                "another server",
                series(closed, "CREATE", 7),
                series(closed, "CREATE", 2),
                false,
            ),
            ("updates", String::new(), series(closed, "UPDATE", 1), false),
            (
                "an answer",
                String::new(),
                series("no_error", "CREATE", 1),
                false,
            ),
        ];
        for (why, before, after, expected) in cases {
            let mut refusals = Refusals::default();
            refusals.note(&before, start);
            assert!(!refusals.are_recent(start), "{why}");
            refusals.note(&after, later);
            assert_eq!(refusals.are_recent(later), expected, "{why}");
            assert!(!refusals.are_recent(later + LATEST), "{why}");
        }
    }
}
