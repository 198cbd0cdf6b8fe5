//! Queues, informers, requests and the throttle: their numbers now, and a ring of the last ten minutes.
//!
//! request -> sample of the metrics, at most one per [`PERIOD`] -> ring -> JSON
//!
//! A sample is taken only by a request, so a manager without readers does no work. After ten minutes
//! without one, the ring begins anew.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use prometheus::proto::{Metric, MetricFamily};
use serde_json::{Value, json};
use steersman_runtime::workqueue::QueueMetrics;

use super::Shared;

/// The shortest time between two samples.
pub(super) const PERIOD: Duration = Duration::from_secs(6);
/// Samples in the ring: ten minutes.
const SAMPLES: usize = 100;
/// The most series in the ring. With [`SAMPLES`], it limits the memory of the ring to 64 KiB.
const SERIES: usize = 160;

/// The ring, and the registry that fills it.
pub(super) struct Flow {
    registry: Registry,
    queues: QueueMetrics,
    ring: Shared<Ring>,
}

/// The value of each series at some times.
#[derive(Default)]
struct Ring {
    samples: VecDeque<(Timestamp, Vec<f32>)>,
    /// Places of the series in a sample.
    places: HashMap<String, usize>,
    /// The last totals and those before, and the seconds between them, for rates.
    last: Option<(Timestamp, Totals)>,
    before: Totals,
    seconds: f64,
}

/// Counters at one time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Totals {
    queues: BTreeMap<String, Queue>,
    informers: BTreeMap<String, Informer>,
    requests: BTreeMap<String, Requests>,
    /// Seconds that requests of a client waited for its throttle.
    throttle: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Queue {
    depth: f64,
    oldest: f64,
    running: f64,
    syncs: f64,
    seconds: f64,
    retries: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Informer {
    objects: f64,
    bytes: f64,
    age: f64,
    events: f64,
    relists: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Requests {
    count: f64,
    failed: f64,
    answered: f64,
    seconds: f64,
}

impl Flow {
    pub(super) fn new(registry: Registry, queues: QueueMetrics) -> Self {
        Self {
            registry,
            queues,
            ring: Shared::default(),
        }
    }

    /// The numbers now, after a new sample if one is due.
    pub(super) fn view(&self, now: Timestamp) -> Value {
        let mut ring = self.ring.lock();
        if ring.is_due(now) {
            let mut totals = Totals::of(&self.registry.gather());
            for (name, wait) in self.queues.oldest_waits() {
                if let Some(queue) = totals.queues.get_mut(&name) {
                    queue.oldest = wait.as_secs_f64();
                }
            }
            ring.add(now, totals);
        }
        ring.view()
    }
}

impl Totals {
    fn of(families: &[MetricFamily]) -> Self {
        let mut totals = Self::default();
        for family in families {
            for metric in family.get_metric() {
                totals.take(family.name(), metric);
            }
        }
        // Queues that never had a key belong to controllers at rest.
        totals
            .queues
            .retain(|_, queue| queue.syncs > 0.0 || queue.depth > 0.0);
        totals
    }

    fn take(&mut self, family: &str, metric: &Metric) {
        let label = |wanted: &str| {
            let labels = metric.get_label().iter();
            let mut found = labels.filter(|label| label.name() == wanted);
            found
                .next()
                .map_or(String::new(), |label| label.value().to_owned())
        };
        let gauge = || metric.get_gauge().get_value();
        let counter = || metric.get_counter().get_value();
        let (count, sum) = {
            let histogram = metric.get_histogram();
            (
                histogram.get_sample_count() as f64,
                histogram.get_sample_sum(),
            )
        };
        let queue = match family {
            "workqueue_depth"
            | "workqueue_retries_total"
            | "workqueue_longest_running_processor_seconds"
            | "workqueue_work_duration_seconds" => {
                Some(self.queues.entry(label("name")).or_default())
            }
            _ => None,
        };
        if let Some(queue) = queue {
            match family {
                "workqueue_depth" => queue.depth = gauge(),
                "workqueue_retries_total" => queue.retries = counter(),
                "workqueue_longest_running_processor_seconds" => queue.running = gauge(),
                _ => {
                    queue.syncs = count;
                    queue.seconds = sum;
                }
            }
        }
        if let Some(of) = family.strip_prefix("steersman_informer_") {
            let informer = self.informers.entry(label("resource")).or_default();
            match of {
                "objects" => informer.objects = gauge(),
                "bytes" => informer.bytes = gauge(),
                "watch_age_seconds" => informer.age = gauge(),
                "watch_events_total" => informer.events = counter(),
                "relists_total" => informer.relists = counter(),
                _ => {}
            }
        }
        match family {
            "rest_client_requests_total" => {
                let of = self.requests.entry(label("method")).or_default();
                of.count += counter();
                if !label("code").starts_with('2') {
                    of.failed += counter();
                }
            }
            "rest_client_request_duration_seconds" => {
                let of = self.requests.entry(label("verb")).or_default();
                of.answered += count;
                of.seconds += sum;
            }
            "steersman_client_throttle_wait_seconds_total" => {
                *self.throttle.entry(label("client")).or_default() += counter();
            }
            _ => {}
        }
    }
}

/// The difference of two counters per second. A counter that went back began anew.
fn rate(now: f64, before: f64, seconds: f64) -> f64 {
    let grown = if now < before { now } else { now - before };
    round(grown / seconds.max(0.001))
}

/// The mean of the added values; `None` without any.
fn mean(sum: (f64, f64), count: (f64, f64)) -> f64 {
    let added = count.0 - count.1;
    if added <= 0.0 {
        0.0
    } else {
        round((sum.0 - sum.1) / added)
    }
}

/// Four significant digits, which is more than a plot shows.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

impl Ring {
    fn is_due(&self, now: Timestamp) -> bool {
        self.samples
            .back()
            .is_none_or(|(at, _)| millis(now, *at) + 100 >= PERIOD.as_millis() as i64)
    }

    fn add(&mut self, now: Timestamp, totals: Totals) {
        let whole = PERIOD.as_millis() as i64 * SAMPLES as i64;
        let is_old = |at: &Timestamp| millis(now, *at) > whole;
        if self.samples.back().is_some_and(|(at, _)| is_old(at)) {
            self.samples.clear();
            self.places.clear();
            self.last = None;
        }
        let (seconds, before) = match self.last.take() {
            Some((at, before)) => (millis(now, at) as f64 / 1000.0, before),
            // Without an earlier sample, nothing is known about rates.
            None => (1.0, totals.clone()),
        };
        let mut sample = vec![f32::NAN; self.places.len()];
        for (name, value) in compare(&totals, &before, seconds).1 {
            self.plot(&mut sample, name, value);
        }
        self.samples.push_back((now, sample));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        self.last = Some((now, totals));
        self.before = before;
        self.seconds = seconds;
    }

    /// Puts the value of a series into `sample`, unless the ring has too many series.
    fn plot(&mut self, sample: &mut Vec<f32>, name: String, value: f64) {
        let next = self.places.len();
        if next >= SERIES && !self.places.contains_key(&name) {
            return;
        }
        let place = *self.places.entry(name).or_insert(next);
        if place == sample.len() {
            sample.push(f32::NAN);
        }
        sample[place] = value as f32;
    }

    /// The current numbers with the plots.
    fn view(&self) -> Value {
        let mut plots = serde_json::Map::new();
        for (name, place) in &self.places {
            let values = self.samples.iter().map(|(_, sample)| {
                let value = sample.get(*place).copied().unwrap_or(f32::NAN);
                // A gap is null.
                if value.is_nan() {
                    Value::Null
                } else {
                    number(value)
                }
            });
            plots.insert(name.clone(), values.collect());
        }
        let times = self.samples.iter().map(|(at, _)| at.as_millisecond());
        let nothing = Totals::default();
        let now = self.last.as_ref().map_or(&nothing, |(_, totals)| totals);
        let (mut view, _) = compare(now, &self.before, self.seconds);
        view["times"] = times.collect();
        view["plots"] = Value::Object(plots);
        view
    }
}

/// The current numbers, and the values of the series with a plot.
fn compare(now: &Totals, before: &Totals, seconds: f64) -> (Value, Vec<(String, f64)>) {
    let no_queue = Queue::default();
    let no_informer = Informer::default();
    let no_requests = Requests::default();
    let mut plots = Vec::new();
    let mut queues = Vec::new();
    for (name, queue) in &now.queues {
        let old = before.queues.get(name).unwrap_or(&no_queue);
        let syncs = rate(queue.syncs, old.syncs, seconds);
        let took = mean((queue.seconds, old.seconds), (queue.syncs, old.syncs));
        let retries = rate(queue.retries, old.retries, seconds);
        plots.push((format!("queue.depth {name}"), queue.depth));
        plots.push((format!("queue.syncs {name}"), syncs));
        queues.push(json!({
            "name": name, "depth": queue.depth, "oldest": round(queue.oldest),
            "running": round(queue.running), "syncs": syncs, "seconds": took,
            "retries": retries, "total": queue.syncs,
        }));
    }
    let mut informers = Vec::new();
    for (resource, informer) in &now.informers {
        let old = before.informers.get(resource).unwrap_or(&no_informer);
        let events = rate(informer.events, old.events, seconds);
        plots.push((format!("informer.events {resource}"), events));
        informers.push(json!({
            "resource": resource, "objects": informer.objects, "bytes": informer.bytes,
            "age": round(informer.age), "events": events, "relists": informer.relists,
        }));
    }
    let mut requests = Vec::new();
    for (verb, of) in &now.requests {
        let old = before.requests.get(verb).unwrap_or(&no_requests);
        let per_second = rate(of.count, old.count, seconds);
        let took = mean((of.seconds, old.seconds), (of.answered, old.answered));
        plots.push((format!("request.rate {verb}"), per_second));
        plots.push((format!("request.seconds {verb}"), took));
        requests.push(json!({
            "verb": verb, "rate": per_second, "seconds": took,
            "failed": rate(of.failed, old.failed, seconds), "total": of.count,
        }));
    }
    let mut throttle = Vec::new();
    for (client, waited) in &now.throttle {
        let old = before.throttle.get(client).copied().unwrap_or_default();
        let waits = rate(*waited, old, seconds);
        if waits > 0.0 {
            throttle.push(json!({ "client": client, "waits": waits }));
        }
    }
    let view = json!({
        "queues": queues, "informers": informers, "requests": requests, "throttle": throttle,
    });
    (view, plots)
}

/// Whole numbers without a point, others with four digits.
fn number(value: f32) -> Value {
    let value = round(f64::from(value));
    if value.fract() == 0.0 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

fn millis(later: Timestamp, earlier: Timestamp) -> i64 {
    later.as_millisecond() - earlier.as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn totals(depth: f64, syncs: f64, seconds: f64) -> Totals {
        let queue = Queue {
            depth,
            syncs,
            seconds,
            ..Queue::default()
        };
        Totals {
            queues: [("job".to_owned(), queue)].into(),
            ..Totals::default()
        }
    }

    #[test]
    fn numbers_per_second_come_from_two_samples() {
        let mut ring = Ring::default();
        ring.add(at(0), totals(3.0, 100.0, 5.0));
        let first = ring.view();
        assert_eq!(
            (&first["queues"][0]["syncs"], &first["queues"][0]["depth"]),
            (&json!(0.0), &json!(3.0))
        );
        ring.add(at(6), totals(1.0, 130.0, 8.0));
        let queue = ring.view()["queues"][0].clone();
        assert_eq!(
            (&queue["syncs"], &queue["seconds"]),
            (&json!(5.0), &json!(0.1))
        );
        assert_eq!(ring.view()["plots"]["queue.syncs job"], json!([0, 5]));
        // A manager that began anew counts from zero.
        ring.add(at(12), totals(1.0, 12.0, 1.0));
        assert_eq!(ring.view()["queues"][0]["syncs"], 2.0);
    }

    #[test]
    fn the_ring_has_a_fixed_size_and_begins_anew_after_ten_minutes() {
        let mut ring = Ring::default();
        for second in 0..500 {
            if ring.is_due(at(second * 3)) {
                ring.add(at(second * 3), totals(1.0, second as f64, 0.0));
            }
        }
        assert_eq!(ring.samples.len(), SAMPLES);
        let times = ring.view()["times"].as_array().unwrap().clone();
        let first = times[0].as_i64().unwrap();
        let last = times[SAMPLES - 1].as_i64().unwrap();
        assert_eq!(last - first, 594_000);
        ring.add(at(5000), totals(1.0, 1.0, 0.0));
        assert_eq!(ring.samples.len(), 1);
    }

    #[test]
    fn a_new_series_begins_with_a_gap_and_the_number_of_series_is_limited() {
        let mut ring = Ring::default();
        ring.add(at(0), Totals::default());
        ring.add(at(6), totals(2.0, 1.0, 0.0));
        assert_eq!(ring.view()["plots"]["queue.depth job"], json!([null, 2]));
        let mut many = Totals::default();
        for name in 0..SERIES {
            many.queues.insert(
                name.to_string(),
                Queue {
                    syncs: 1.0,
                    ..Queue::default()
                },
            );
        }
        ring.add(at(12), many);
        assert_eq!(ring.places.len(), SERIES);
        let largest = ring.samples.iter().map(|(_, sample)| sample.len()).max();
        assert_eq!(largest, Some(SERIES));
    }

    #[test]
    fn families_of_the_registry_become_totals() {
        let registry = Registry::new();
        let queues = QueueMetrics::register(&registry).unwrap();
        queues
            .immediate("job")
            .processed(Duration::from_millis(250));
        let client = steersman_client::ClientMetrics::register(&registry).unwrap();
        drop(client);
        let found = Totals::of(&registry.gather());
        let queue = &found.queues["job"];
        assert_eq!((queue.syncs, queue.seconds), (1.0, 0.25));
        assert_eq!(found.requests, BTreeMap::new());
    }

    #[test]
    fn four_digits_are_kept() {
        let cases = [
            (0.0, 0.0),
            (1234.56, 1235.0),
            (0.000_123_45, 0.000_123_5),
            (5.0, 5.0),
            (f64::NAN, 0.0),
        ];
        for (value, expected) in cases {
            let found = round(value);
            assert!((found - expected).abs() < 1e-9, "{value}: {found}");
        }
    }
}
