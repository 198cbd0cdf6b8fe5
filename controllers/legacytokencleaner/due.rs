//! The token Secrets that are old and unused, and the next step for each.
//!
//! All comparisons are of whole days in UTC, so a step may come up to a day late. Example with a
//! period of 365 days, on 2026-05-10: a Secret that was last used on 2025-05-09 is due, and one that
//! was last used on 2025-05-10 is not.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::de::{Deserialize, Deserializer, Error};
use steersman_objects::{Object, ServiceAccount, TokenSecret};

/// The label with the day of the last use of the token, which the API server sets.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label with the day since which the API server refuses the token.
pub(super) const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The next step for an unused Secret that no pod names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Set [`INVALID_SINCE`].
    Invalidate,
    /// Delete the Secret: its token has been invalid for a period.
    Delete,
    /// Wait: the token is invalid, and the period is not over.
    Later,
}

/// The times that one sweep compares with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    now: Timestamp,
    /// One period before `now`.
    time: Timestamp,
    /// The day of `time`.
    day: Date,
}

impl Cut {
    /// The times of a sweep at `now`. `None` if the use of tokens has been tracked for less than
    /// `period`, beginning with the day after `since`.
    pub(super) fn at(now: Timestamp, period: Duration, since: Date) -> Option<Self> {
        let first_day = since.tomorrow().ok()?;
        let tracked = first_day.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let time = now
            .checked_sub(SignedDuration::try_from(period).ok()?)
            .ok()?;
        (time >= tracked).then(|| Self {
            now,
            time,
            day: day(time),
        })
    }

    /// The time of the sweep.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether the Secret is older than the period, was not used within it, and was created
    /// automatically: its account lists it.
    pub(super) fn is_unused(&self, secret: &TokenSecret, account: &ServiceAccount) -> bool {
        let meta = &secret.meta;
        let uid = &secret.annotations.account_uid;
        meta.created
            .is_some_and(|created| Timestamp::from(created) < self.time)
            && !meta.is_terminating()
            && self.is_before(secret, LAST_USED) != Some(false)
            && (uid.is_empty() || **uid == *account.meta.uid.to_string())
            && account
                .secrets
                .iter()
                .any(|listed| listed.name[..] == meta.name[..])
    }

    /// The next step for an unused Secret.
    pub(super) fn due(&self, secret: &TokenSecret) -> Due {
        match secret
            .meta
            .labels
            .get(INVALID_SINCE)
            .map(|label| parse(label))
        {
            None | Some(None) => Due::Invalidate,
            Some(Some(since)) if since < self.day => Due::Delete,
            Some(Some(_)) => Due::Later,
        }
    }

    /// Whether the day in `label` is before the cut; `None` without the label. A label that is no
    /// day counts as recent, so that its Secret stays.
    fn is_before(&self, secret: &TokenSecret, label: &str) -> Option<bool> {
        let text = secret.meta.labels.get(label)?;
        let day = parse(text);
        if day.is_none() {
            tracing::error!(secret = %secret.key(), label, value = text.as_str(), "the label is no date");
        }
        Some(day.is_some_and(|day| day < self.day))
    }
}

/// The day of `time` in UTC.
pub(super) fn day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// A day in the form `2006-01-02`, and in no other form.
fn parse(text: &str) -> Option<Date> {
    let date: Date = text.parse().ok()?;
    (date.to_string() == text).then_some(date)
}

/// Decodes a day in the form `2006-01-02`.
pub(super) fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Date, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| D::Error::custom(format_args!("{text:?} is no date")))
}
