//! The validity period of a certificate.
//!
//! Upstream: `duration` in `signer.go`, and `PermissiveSigningPolicy.apply` in `policies.go`.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

/// Time by which the start of a certificate precedes its signature, for clients with slow clocks.
/// It has to stay below [`SHORTEST`], as upstream's comment in `sign` demands.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// A certificate with a shorter lifetime keeps all of it after its signature. Five minutes are
/// about one percent of it. Upstream: `Short`.
const SHORT: SignedDuration = SignedDuration::from_hours(8);

/// The shortest lifetime. Upstream: `min` in `duration`, twice the backdate.
const SHORTEST: Duration = Duration::from_secs(600);

/// The authority ends too early for a new certificate. The field is its end, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Expired {
    /// Before the start of the certificate.
    #[error("the signer has expired: NotAfter={}", go_time(.0))]
    BeforeStart(i64),
    /// Between the start of the certificate and now.
    #[error("refusing to sign a certificate that expired in the past: NotAfter={}", go_time(.0))]
    InThePast(i64),
}

/// Unix seconds as Go prints times.
fn go_time(seconds: &i64) -> String {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let time = epoch.saturating_add(SignedDuration::from_secs(*seconds));
    time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

/// The lifetime of a certificate for which the client asked for `requested` seconds.
///
/// `None` means `longest`. Requests can shorten it, down to [`SHORTEST`]. A `longest` below that
/// does not bind them: they get [`SHORTEST`], as in upstream.
pub(super) fn lifetime(requested: Option<i32>, longest: Duration) -> Duration {
    let Some(requested) = requested else {
        return longest;
    };
    let requested = Duration::from_secs(u64::try_from(requested).unwrap_or(0));
    if requested > longest {
        longest
    } else {
        requested.max(SHORTEST)
    }
}

/// Start and end of a certificate that is signed `now`, in Unix seconds. It ends not later than the
/// authority, whose end is `authority_ends`.
///
/// Start and now are compared with the end of the authority in this order, as upstream does. Both
/// texts are upstream's.
pub(super) fn period(
    now: Timestamp,
    lifetime: Duration,
    authority_ends: i64,
) -> Result<(i64, i64), Expired> {
    let end_of_authority = SignedDuration::from_secs(authority_ends);
    let now = now.as_duration();
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
    let start = now - BACKDATE;
    if start >= end_of_authority {
        return Err(Expired::BeforeStart(authority_ends));
    }
    if now >= end_of_authority {
        return Err(Expired::InThePast(authority_ends));
    }
    let after_now = if lifetime < SHORT {
        lifetime
    } else {
        lifetime - BACKDATE
    };
    let end = now.saturating_add(after_now).min(end_of_authority);
    // A certificate has whole seconds.
    let floor = |time: SignedDuration| (time.as_nanos().div_euclid(1_000_000_000)) as i64;
    Ok((floor(start), floor(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    /// Upstream: `Test_signer_duration`.
    #[test]
    fn signer_duration() {
        let year = 365 * DAY;
        // (case, longest, requested, expected)
        let cases: [(&str, u64, Option<i32>, u64); 7] = [
            (
                "can request shorter duration than TTL",
                HOUR,
                Some(30 * 60),
                30 * MINUTE,
            ),
            (
                "cannot request longer duration than TTL",
                HOUR,
                Some(3 * 3600),
                HOUR,
            ),
            (
                "cannot request negative duration",
                HOUR,
                Some(-60),
                10 * MINUTE,
            ),
            (
                "cannot request duration less than 10 mins",
                HOUR,
                Some(10 * 60 - 1),
                10 * MINUTE,
            ),
            (
                "can request duration of exactly 10 mins",
                HOUR,
                Some(600),
                10 * MINUTE,
            ),
            (
                "can request duration equal to the default",
                HOUR,
                Some(3600),
                HOUR,
            ),
            ("can choose not to request a duration", year, None, year),
        ];
        for (case, longest, requested, expected) in cases {
            let found = lifetime(requested, Duration::from_secs(longest));
            assert_eq!(found, Duration::from_secs(expected), "{case}");
        }
    }

    /// The times of `TestCertificateAuthority`, and the limits between the rules.
    #[test]
    fn a_certificate_starts_early_and_ends_with_its_authority() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let at = |second: i64| now.as_second() + second;
        let years = 10 * 365 * DAY as i64;
        let back = -300;
        // (lifetime, end of the authority after now, start and end after now)
        let cases = [
            (365 * DAY, years, Ok((back, 365 * DAY as i64 - 300))),
            (8 * HOUR, years, Ok((back, 8 * HOUR as i64 - 300))),
            (8 * HOUR - 1, years, Ok((back, 8 * HOUR as i64 - 1))),
            (10 * MINUTE, years, Ok((back, 600))),
            (HOUR, years, Ok((back, 3600))),
            (24 * HOUR, years, Ok((back, 24 * 3600 - 300))),
            (48 * HOUR, 24 * 3600, Ok((back, 24 * 3600))),
            (365 * DAY, 3600, Ok((back, 3600))),
            (HOUR, 1, Ok((back, 1))),
            (HOUR, 0, Err(Expired::InThePast(at(0)))),
            (HOUR, -240, Err(Expired::InThePast(at(-240)))),
            (HOUR, -300, Err(Expired::BeforeStart(at(-300)))),
            (u64::MAX, years, Ok((back, years))),
        ];
        for (seconds, end, expected) in cases {
            let found = period(now, Duration::from_secs(seconds), at(end));
            let expected = expected.map(|(start, end)| (at(start), at(end)));
            assert_eq!(found, expected, "{seconds} s, {end} s");
        }
        assert_eq!(
            Expired::BeforeStart(1_767_323_045).to_string(),
            "the signer has expired: NotAfter=2026-01-02 03:04:05 +0000 UTC"
        );
        assert_eq!(
            Expired::InThePast(253_402_300_799).to_string(),
            "refusing to sign a certificate that expired in the past: NotAfter=9999-12-31 23:59:59 +0000 UTC"
        );
    }
}
