//! The release to equal, from the versions of the API servers that were seen.
//!
//! answers to `/version` -> [`Sightings`] -> [`Sightings::release`]
//!
//! A manager must not be newer than an API server that it may reach, and may be one minor version
//! older. So an older server counts once seen, and a newer one counts when no older one was seen for
//! [`WINDOW`]. Behind one address there may be several servers: those of a control plane in the
//! middle of its upgrade.
//! <https://kubernetes.io/releases/version-skew-policy/>

use std::collections::BTreeMap;
use std::time::Duration;

use super::release::Release;

/// The time without a sight of the older servers after which the upgrade counts as complete.
pub const WINDOW: Duration = Duration::from_secs(300);

/// The time between two looks.
pub const INTERVAL: Duration = Duration::from_secs(30);

/// When the API servers of each release were seen. Times are durations since any fixed point.
#[derive(Debug, Clone, Default)]
pub struct Sightings {
    seen: BTreeMap<Release, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    first: Duration,
    last: Duration,
}

impl Sightings {
    /// Records that an API server of `release` has answered at the time `now`.
    pub fn record(&mut self, release: Release, now: Duration) {
        self.seen
            .retain(|_, seen| now.saturating_sub(seen.last) < WINDOW);
        let seen = self.seen.entry(release).or_insert(Seen {
            first: now,
            last: now,
        });
        seen.last = now;
    }

    /// The oldest release of the servers seen within [`WINDOW`].
    pub fn oldest(&self, now: Duration) -> Option<Release> {
        self.recent(now).next().map(|(release, _)| release)
    }

    /// The known release to equal at the time `now`, if the manager equals `current` so far.
    pub fn release(&self, current: Release, now: Duration) -> Release {
        let Some((oldest, seen)) = self.recent(now).next() else {
            return current;
        };
        let oldest = oldest.nearest_known();
        let is_settled = now.saturating_sub(seen.first) >= WINDOW;
        if oldest < current || is_settled {
            oldest
        } else {
            current
        }
    }

    fn recent(&self, now: Duration) -> impl Iterator<Item = (Release, Seen)> {
        let recent = self
            .seen
            .iter()
            .filter(move |(_, seen)| now.saturating_sub(seen.last) < WINDOW);
        recent.map(|(release, seen)| (*release, *seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the given minutes; each has the minor releases of the servers that answered.
    fn releases(start: u64, looks: &[(u64, &[u64])], minutes: &[u64]) -> Vec<u64> {
        let mut sightings = Sightings::default();
        let mut current = Release::of_minor(start);
        let mut looks = looks.iter().peekable();
        let mut found = Vec::new();
        for minute in minutes {
            while let Some((at, seen)) = looks.next_if(|(at, _)| at <= minute) {
                let at = Duration::from_secs(at * 60);
                for minor in *seen {
                    sightings.record(Release::of_minor(*minor), at);
                }
                current = sightings.release(current, at);
            }
            current = sightings.release(current, Duration::from_secs(minute * 60));
            found.push(current.minor());
        }
        found
    }

    #[test]
    fn the_oldest_server_counts_and_an_upgrade_counts_when_it_is_complete() {
        type Looks = &'static [(u64, &'static [u64])];
        // (why, release at the start, looks, minutes, releases at these minutes)
        let cases: [(&str, u64, Looks, &[u64], &[u64]); 9] = [
            ("no answer yet", 36, &[], &[0, 100], &[36, 36]),
            ("an older server", 36, &[(0, &[34])], &[0], &[34]),
            (
                "an older server beside a newer one",
                36,
                &[(0, &[36]), (1, &[35])],
                &[0, 1],
                &[36, 35],
            ),
            (
                "a complete upgrade",
                35,
                &[(0, &[35]), (1, &[36]), (3, &[36]), (5, &[36]), (6, &[36])],
                &[1, 3, 5, 6],
                &[35, 35, 35, 36],
            ),
            (
                "a mixed control plane stays with the oldest server",
                35,
                &[
                    (0, &[35]),
                    (2, &[36]),
                    (4, &[35, 36]),
                    (7, &[36]),
                    (8, &[36]),
                ],
                &[4, 7, 8],
                &[35, 35, 35],
            ),
            (
                "a server that was away returns with a newer release",
                35,
                &[
                    (0, &[35]),
                    (20, &[36]),
                    (22, &[36]),
                    (24, &[36]),
                    (25, &[36]),
                ],
                &[20, 24, 25],
                &[35, 35, 36],
            ),
            (
                "servers that stopped answering keep the release",
                35,
                &[(0, &[35])],
                &[60],
                &[35],
            ),
            ("newer than known", 37, &[(0, &[40])], &[0], &[37]),
            ("older than known", 36, &[(0, &[20])], &[0], &[33]),
        ];
        for (why, start, looks, minutes, expected) in cases {
            assert_eq!(releases(start, looks, minutes), expected, "{why}");
        }
    }

    #[test]
    fn sightings_of_past_releases_are_forgotten() {
        let mut sightings = Sightings::default();
        for minor in 0..1_000 {
            let now = WINDOW * u32::try_from(minor).unwrap();
            sightings.record(Release::of_minor(minor), now);
            assert_eq!(sightings.oldest(now), Some(Release::of_minor(minor)));
        }
        assert_eq!(sightings.seen.len(), 1);
    }
}
