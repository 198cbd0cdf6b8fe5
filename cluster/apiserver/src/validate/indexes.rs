//! Index sets of Jobs, such as `1,3-5`: their format, size and overlap.
//!
//! Upstream is `validateIndexesFormat` in `pkg/apis/batch/validation`.

/// First and last index of one part of a set.
type Interval = (i64, i64);

/// Number of indexes in a set. The error is the defect of the text. Indexes have to be below
/// `completions`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut last = None;
    let mut total = 0;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both sets. Malformed parts are skipped.
pub(super) fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let parts = |text: &str| -> Vec<Interval> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts
            .filter_map(|part| interval(part, completions).ok())
            .collect()
    };
    let one = parts(one);
    let other = parts(other);
    let mut left = one.iter().peekable();
    let mut right = other.iter().peekable();
    while let Some((a, b)) = left.peek()
        && let Some((x, y)) = right.peek()
    {
        if a <= y && x <= b {
            return Some(*a.max(x));
        }
        if a <= x {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

fn interval(part: &str, completions: i64) -> Result<Interval, String> {
    let limits: Vec<&str> = part.split('-').collect();
    let number = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {text:?}"
        )),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    match limits[..] {
        [one] => number(one).map(|index| (index, index)),
        [first, last] => {
            let first = number(first)?;
            let last = number(last)?;
            if first >= last {
                return Err(format!(
                    "non-increasing order, previous: {first}, current: {last}"
                ));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}
