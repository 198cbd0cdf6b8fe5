//! Buckets whose bounds grow exponentially, and that exist only where values were observed.

use std::collections::BTreeMap;

use prometheus::proto::{Metric, Quantile, Summary};

/// The first schema: eight buckets for each power of two, so that a bucket is at most 10 % wider
/// than the one before. Upstream: `BucketFactor` 1.1 of `nativehistograms.go`.
const FINEST: i32 = 3;
/// The last schema: a bucket spans 16 powers of two. Upstream: `nativeHistogramSchemaMinimum`.
const COARSEST: i32 = -4;
/// Most buckets of one histogram. Upstream: `MaxBucketNumber` of `nativehistograms.go`.
const MOST: usize = 160;
/// The largest absolute value that counts as zero. Upstream: `DefNativeHistogramZeroThreshold`.
pub const ZERO_THRESHOLD: f64 = 2.938735877055719e-39;
/// Upper bounds of the buckets of [`FINEST`] between 0.5 and 1, without 1. Coarser schemas have
/// every second or fourth one. Upstream: `nativeHistogramBounds`.
const BOUNDS: [f64; 1 << FINEST] = [
    0.5,
    0.5452538663326288,
    0.5946035575013605,
    0.6484197773255048,
    0.7071067811865475,
    0.7711054127039704,
    0.8408964152537144,
    0.9170040432046711,
];

/// The observations of one series by native bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeBuckets {
    /// The resolution: 2 to the power of it is the number of buckets for each power of two.
    pub schema: i32,
    /// Observations with at most [`ZERO_THRESHOLD`] as absolute value.
    pub zeros: u64,
    /// Observations above zero by index of their bucket. Index 0 ends at 1.
    pub positive: BTreeMap<i32, u64>,
    /// The same for observations below zero, by their absolute value.
    pub negative: BTreeMap<i32, u64>,
}

impl Default for NativeBuckets {
    fn default() -> Self {
        Self {
            schema: FINEST,
            zeros: 0,
            positive: BTreeMap::new(),
            negative: BTreeMap::new(),
        }
    }
}

/// Neighbouring buckets of the protobuf message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Buckets between the end of the span before and this one. For the first span, its index.
    pub offset: i32,
    /// Number of buckets.
    pub length: u32,
}

impl NativeBuckets {
    /// Counts one value. A value that is no number belongs to no bucket.
    pub(crate) fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        if value.abs() <= ZERO_THRESHOLD {
            self.zeros += 1;
            return;
        }
        let index = index_of(value.abs(), self.schema);
        let side = if value > 0.0 {
            &mut self.positive
        } else {
            &mut self.negative
        };
        *side.entry(index).or_default() += 1;
        self.limit();
    }

    /// Number of observations in all buckets.
    pub fn count(&self) -> u64 {
        self.zeros + self.positive.values().sum::<u64>() + self.negative.values().sum::<u64>()
    }

    /// Adds the observations of `other`, at the coarser one of both resolutions.
    pub fn add(&mut self, mut other: Self) {
        while self.schema > other.schema {
            self.double_width();
        }
        while other.schema > self.schema {
            other.double_width();
        }
        self.zeros += other.zeros;
        for (index, count) in other.positive {
            *self.positive.entry(index).or_default() += count;
        }
        for (index, count) in other.negative {
            *self.negative.entry(index).or_default() += count;
        }
        self.limit();
    }

    /// Widens buckets until there are at most [`MOST`]. Upstream: `limitBuckets`, which neither
    /// resets nor widens the bucket of zero with the settings of Kubernetes.
    fn limit(&mut self) {
        while self.positive.len() + self.negative.len() > MOST && self.schema > COARSEST {
            self.double_width();
        }
    }

    /// Joins two buckets each. Upstream: `doubleBucketWidth`.
    fn double_width(&mut self) {
        self.schema -= 1;
        for side in [&mut self.positive, &mut self.negative] {
            let mut wide = BTreeMap::new();
            for (index, count) in std::mem::take(side) {
                *wide.entry((index + 1).div_euclid(2)).or_default() += count;
            }
            *side = wide;
        }
    }

    /// Puts the buckets into `metric`, a message of a histogram, in place of those it has.
    ///
    /// The messages of the crate `prometheus` have no place for native buckets, and a histogram
    /// leaves its summary empty. So the buckets travel there, and [`Self::of`] reads them.
    pub fn attach(&self, metric: &mut Metric) {
        let bucket = |index: i32, count: f64| {
            let mut quantile = Quantile::default();
            quantile.set_quantile(f64::from(index));
            quantile.set_value(count);
            quantile
        };
        let positive = self.positive.iter();
        let negative = self.negative.iter();
        let mut summary = Summary::default();
        summary.set_sample_sum(f64::from(self.schema));
        summary.set_sample_count(self.zeros);
        summary.set_quantile(
            positive
                .map(|(index, count)| bucket(*index, *count as f64))
                .chain(negative.map(|(index, count)| bucket(*index, -(*count as f64))))
                .chain([bucket(i32::MAX, 0.0)])
                .collect(),
        );
        metric.set_summary(summary);
    }

    /// The native buckets of a histogram's message, unless it has classic ones only.
    pub fn of(metric: &Metric) -> Option<Self> {
        let summary = metric.get_summary();
        // The last one is the mark of native buckets: a message without them has no quantile.
        let (_, buckets) = summary.get_quantile().split_last()?;
        let side = |sign: f64| {
            buckets
                .iter()
                .filter(|bucket| bucket.value() * sign > 0.0)
                .map(|bucket| (bucket.quantile() as i32, bucket.value().abs() as u64))
                .collect()
        };
        Some(Self {
            schema: summary.sample_sum() as i32,
            zeros: summary.sample_count(),
            positive: side(1.0),
            negative: side(-1.0),
        })
    }

    /// The buckets of one side as the protobuf message has them: spans of neighbours, and for each
    /// bucket the difference to the count of the one before. Upstream: `makeBuckets`.
    pub fn spans(side: &BTreeMap<i32, u64>) -> (Vec<Span>, Vec<i64>) {
        let mut spans: Vec<Span> = Vec::new();
        let mut deltas = Vec::new();
        let mut before = 0;
        let mut next = 0;
        for (&index, &count) in side {
            let gap = index - next;
            // As upstream, up to two empty buckets do not end a span.
            let filled = match spans.last_mut() {
                Some(span) if gap <= 2 => {
                    span.length += gap as u32 + 1;
                    gap
                }
                _ => {
                    spans.push(Span {
                        offset: gap,
                        length: 1,
                    });
                    0
                }
            };
            let empty = std::iter::repeat_n(0, filled as usize);
            for count in empty.chain([count as i64]) {
                deltas.push(count - before);
                before = count;
            }
            next = index + 1;
        }
        (spans, deltas)
    }
}

/// The index of the bucket of `value`, which is above zero. Infinity has the bucket after that of
/// the largest number. Upstream: `histogramCounts.observe`.
fn index_of(value: f64, schema: i32) -> i32 {
    if value.is_infinite() {
        return index_of(f64::MAX, schema) + 1;
    }
    let (fraction, exponent) = parts_of(value);
    if schema > 0 {
        let step = 1 << (FINEST - schema);
        let bounds = BOUNDS.iter().step_by(step);
        let below = bounds.filter(|bound| **bound < fraction).count();
        return below as i32 + (exponent - 1) * (1 << schema);
    }
    let power = if fraction == 0.5 {
        exponent - 1
    } else {
        exponent
    };
    let last = (1 << -schema) - 1;
    (power + last) >> -schema
}

/// A fraction of at least 0.5 and below 1, and the power of two that gives `value` with it.
/// `value` is a normal number above zero. Go: `math.Frexp`.
fn parts_of(value: f64) -> (f64, i32) {
    const EXPONENT: u64 = 0x7ff << 52;
    let bits = value.to_bits();
    let exponent = ((bits & EXPONENT) >> 52) as i32 - 1022;
    (f64::from_bits(bits & !EXPONENT | 1022 << 52), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(values: &[f64]) -> NativeBuckets {
        let mut buckets = NativeBuckets::default();
        for value in values {
            buckets.observe(*value);
        }
        buckets
    }

    #[test]
    fn values_have_the_buckets_of_upstream() {
        // Bounds of schema 3 are powers of 2^(1/8), and a bound belongs to the bucket below it.
        for (value, index) in [
            (1.0, 0),
            (1.0000001, 1),
            (2.0, 8),
            (0.5, -8),
            (0.75, -3),
            (3.0, 13),
            (1000.0, 80),
            (0.001, -79),
            (f64::MAX, 8192),
            (f64::INFINITY, 8193),
        ] {
            assert_eq!(index_of(value, FINEST), index, "{value}");
        }
        for (value, schema, index) in [
            (3.0, 2, 7),
            (3.0, 1, 4),
            (3.0, 0, 2),
            (4.0, 0, 2),
            (3.0, -1, 1),
            (5.0, -1, 2),
            (0.25, -2, 0),
            (0.001, -4, 0),
            (1e300, -4, 63),
        ] {
            assert_eq!(index_of(value, schema), index, "{value} at {schema}");
        }
    }

    #[test]
    fn zeros_negative_values_and_nan_have_places_of_their_own() {
        let buckets = observed(&[0.0, 1e-40, -1.5, 1.5, f64::NAN]);
        assert_eq!(buckets.zeros, 2);
        assert_eq!(buckets.positive, BTreeMap::from([(5, 1)]));
        assert_eq!(buckets.negative, BTreeMap::from([(5, 1)]));
        assert_eq!(buckets.count(), 4);
    }

    #[test]
    fn a_histogram_widens_its_buckets_beyond_160() {
        let spread: Vec<f64> = (0..161)
            .map(|n| 2f64.powf((f64::from(n) + 0.5) / 8.0))
            .collect();
        let all = observed(&spread[..160]);
        assert_eq!((all.schema, all.positive.len()), (3, 160));
        let wide = observed(&spread[..161]);
        assert_eq!((wide.schema, wide.positive.len()), (2, 81));
        assert_eq!(wide.count(), 161);
        // Widening and observing at once agree.
        let mut direct = NativeBuckets {
            schema: 2,
            ..NativeBuckets::default()
        };
        for value in &spread[..161] {
            direct.observe(*value);
        }
        assert_eq!(wide, direct);
    }

    #[test]
    fn small_gaps_stay_in_a_span() {
        let side = BTreeMap::from([(-4, 2), (-3, 5), (0, 1), (4, 3)]);
        let (spans, deltas) = NativeBuckets::spans(&side);
        let spans: Vec<_> = spans
            .iter()
            .map(|span| (span.offset, span.length))
            .collect();
        assert_eq!(spans, [(-4, 5), (3, 1)]);
        assert_eq!(deltas, [2, 3, -5, 0, 1, 2]);
        assert_eq!(NativeBuckets::spans(&BTreeMap::new()), (vec![], vec![]));
    }

    #[test]
    fn buckets_survive_the_message_and_a_sum() {
        let mut metric = Metric::default();
        assert_eq!(NativeBuckets::of(&metric), None);
        NativeBuckets::default().attach(&mut metric);
        assert_eq!(NativeBuckets::of(&metric), Some(NativeBuckets::default()));
        let buckets = observed(&[0.0, 3.0, 3.0, -0.25]);
        buckets.attach(&mut metric);
        assert_eq!(NativeBuckets::of(&metric), Some(buckets.clone()));

        let mut coarse = buckets.clone();
        coarse.double_width();
        let mut sum = buckets.clone();
        sum.add(coarse.clone());
        assert_eq!(sum.schema, 2);
        assert_eq!(sum.positive, BTreeMap::from([(7, 4)]));
        let mut other = coarse;
        other.add(buckets);
        assert_eq!(sum, other);
    }
}
