//! Sets of completion indexes, such as `1,3-5,7`.
//!
//! An Indexed Job with a million completions has a short text in its status, if most indexes
//! succeed in order. So a set is a list of intervals, and no function here visits single indexes.
//! Upstream: `orderedIntervals` in `indexed_job_utils.go`.
//!
//! Indexes are `i64`, so that sums and limits need no checks; the API has 32 bits.

use std::fmt;

/// A set of completion indexes: disjoint intervals in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<Interval>);

/// The indexes from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    first: i64,
    last: i64,
}

impl Interval {
    fn len(self) -> i64 {
        self.last - self.first + 1
    }
}

impl Indexes {
    /// The indexes below `completions` in `text`. A malformed member is skipped, as in upstream's
    /// `parseIndexesFromString`: other programs can write a status.
    ///
    /// Members above `completions` are cut, also in the middle of an interval: a user may have lowered the
    /// completions. Members are in ascending order, so the first one beyond ends the search.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut result = Self::default();
        if text.is_empty() {
            return result;
        }
        for member in text.split(',') {
            let mut limits = member.split('-').map(str::parse::<i64>);
            let Some(Ok(first)) = limits.next() else {
                tracing::info!(member, "Corrupted indexes interval, ignoring");
                continue;
            };
            if first >= completions {
                break;
            }
            let last = match limits.next() {
                None => first,
                Some(Ok(last)) => last.min(completions - 1),
                // Only the first two parts of `1-3-9` are read, as upstream.
                Some(Err(_)) => {
                    tracing::info!(member, "Corrupted indexes interval, ignoring");
                    continue;
                }
            };
            // A text such as `1,2` has two members for neighbours, and they become one interval.
            match result.0.last_mut() {
                Some(before) if before.last == first - 1 => before.last = last,
                _ => result.0.push(Interval { first, last }),
            }
        }
        result
    }

    /// The set of `indexes`, which are in ascending order. Upstream: `withOrderedIndexes`.
    pub(super) fn of(indexes: impl IntoIterator<Item = i64>) -> Self {
        let mut result = Self::default();
        for index in indexes {
            result.append(Interval {
                first: index,
                last: index,
            });
        }
        result
    }

    /// The indexes of both sets. Upstream: `merge`. Both lists are walked once, so the cost is that of their
    /// lengths.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut ours = &self.0[..];
        let mut theirs = &other.0[..];
        let mut result = Self::default();
        while let Some(a) = ours.first()
            && let Some(b) = theirs.first()
        {
            let next = if a.first < b.first {
                &mut ours
            } else {
                &mut theirs
            };
            result.append(next[0]);
            *next = &next[1..];
        }
        ours.iter()
            .chain(theirs)
            .for_each(|interval| result.append(*interval));
        result
    }

    /// Adds an interval that begins after all others, or joins it with the last one.
    fn append(&mut self, next: Interval) {
        match self.0.last_mut() {
            Some(last) if next.first <= last.last + 1 => last.last = last.last.max(next.last),
            _ => self.0.push(next),
        }
    }

    /// Whether the set has no index.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of indexes.
    pub(super) fn len(&self) -> i64 {
        self.0.iter().map(|interval| interval.len()).sum()
    }

    /// Whether the set has `index`.
    pub(super) fn contains(&self, index: i64) -> bool {
        let at = self.0.partition_point(|interval| interval.last < index);
        self.0
            .get(at)
            .is_some_and(|interval| interval.first <= index)
    }

    /// The number of indexes that both sets have. Upstream: the sum in `matchSucceededIndexesRule`.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let mut ours = &self.0[..];
        let mut theirs = &other.0[..];
        let mut common = 0;
        while let Some(a) = ours.first()
            && let Some(b) = theirs.first()
        {
            common += (a.last.min(b.last) - a.first.max(b.first) + 1).max(0);
            if a.last <= b.last {
                ours = &ours[1..];
            }
            if b.last <= a.last {
                theirs = &theirs[1..];
            }
        }
        common
    }

    /// The `count` lowest indexes below `completions` that the set lacks. Upstream: the second half of
    /// `firstPendingIndexes`. The cost depends on the intervals and on `count`, and `completions` may be
    /// huge.
    pub(super) fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut from = 0;
        for interval in &self.0 {
            missing.extend((from..interval.first.min(completions)).take(count - missing.len()));
            from = from.max(interval.last + 1);
        }
        missing.extend((from..completions).take(count - missing.len()));
        missing
    }
}

impl fmt::Display for Indexes {
    /// The form of `status.completedIndexes`: `a`, `a,b` for two neighbours, `a-c` for more. A dash between
    /// neighbours would save nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Interval { first, last }) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            write!(f, "{first}")?;
            if last > first {
                let separator = if *last == first + 1 { ',' } else { '-' };
                write!(f, "{separator}{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Cases that were computed with the functions of Kubernetes 1.36.
    fn cases(list: &str) -> Vec<Value> {
        let mut file: Value = serde_json::from_str(include_str!("job-indexes.json")).unwrap();
        serde_json::from_value(file[list].take()).unwrap()
    }

    fn parse(text: &Value, completions: i64) -> Indexes {
        Indexes::parse(text.as_str().unwrap(), completions)
    }

    fn intervals(set: &Indexes) -> Value {
        set.0.iter().map(|i| vec![i.first, i.last]).collect()
    }

    #[test]
    fn texts_are_parsed_as_upstream_parses_them() {
        for case in cases("parse") {
            let set = parse(&case["in"], case["completions"].as_i64().unwrap());
            assert_eq!(intervals(&set), case["intervals"], "{case}");
            assert_eq!(set.to_string(), case["formatted"], "{case}");
            assert_eq!(set.len(), case["total"].as_i64().unwrap(), "{case}");
            assert_eq!(set.is_empty(), set.0.is_empty(), "{case}");
        }
    }

    #[test]
    fn sets_are_joined_as_upstream_joins_them() {
        for case in cases("merge") {
            let set = parse(&case["a"], i64::MAX).union(&parse(&case["b"], i64::MAX));
            assert_eq!(intervals(&set), case["intervals"], "{case}");
            assert_eq!(set.to_string(), case["formatted"], "{case}");
            assert_eq!(set.len(), case["total"].as_i64().unwrap(), "{case}");
        }
        for case in cases("mergeIndexes") {
            let indexes: Vec<i64> = serde_json::from_value(case["indexes"].clone()).unwrap();
            let set = parse(&case["set"], i64::MAX).union(&Indexes::of(indexes));
            assert_eq!(intervals(&set), case["intervals"], "{case}");
            assert_eq!(set.to_string(), case["formatted"], "{case}");
        }
    }

    #[test]
    fn intervals_have_index() {
        for case in cases("has") {
            let set = parse(&case["set"], i64::MAX);
            let index = case["index"].as_i64().unwrap();
            assert_eq!(Value::from(set.contains(index)), case["has"], "{case}");
        }
        // (why, index, contained in 3-5,8,10-12)
        let cases = [
            ("left of the first interval", 2, false),
            ("left of an interval", 9, false),
            ("right of the last interval", 13, false),
            ("at the start", 10, true),
            ("at the end", 5, true),
            ("alone", 8, true),
            ("in the middle", 11, true),
        ];
        let set = Indexes::parse("3-5,8,10-12", 100);
        for (why, index, expected) in cases {
            assert_eq!(set.contains(index), expected, "{why}");
        }
    }

    #[test]
    fn common_indexes_are_found_by_intervals() {
        for case in cases("overlap") {
            let completions = case["completions"].as_i64().unwrap();
            let sets = ["completed", "failed"].map(|name| parse(&case[name], completions));
            let overlap = case["error"] != "";
            assert_eq!(sets[0].common(&sets[1]) > 0, overlap, "{case}");
        }
    }

    #[test]
    fn first_pending_indexes() {
        // (upstream's case, indexes that are not pending, count, completions, expected)
        let cases: [(&str, &str, usize, i64, &[i64]); 7] = [
            ("cnt greater than completions", "", 5, 3, &[0, 1, 2]),
            ("cnt less than completions", "", 2, 5, &[0, 1]),
            ("first pods running", "0,1", 3, 10, &[2, 3, 4]),
            ("last pods running or succeeded", "6-9", 3, 6, &[0, 1, 2]),
            ("mixed", "0,2,5-8", 5, 20, &[1, 3, 4, 9, 10]),
            ("none is wanted", "0", 0, 5, &[]),
            ("all are taken", "0-4", 3, 5, &[]),
        ];
        for (why, taken, count, completions, expected) in cases {
            let taken = Indexes::parse(taken, i64::MAX);
            assert_eq!(taken.first_missing(count, completions), expected, "{why}");
        }
    }
}
