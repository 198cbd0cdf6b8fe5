//! The memory of an autoscaler, told as a reason: the sizes that it has computed.
//!
//! It answers the question why a target keeps a size that its metrics no longer ask for. The lists of
//! `history.rs` are its only source, so after a change of leader it starts empty.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::HorizontalPodAutoscaler;
use steersman_why::{Code, Reason};

use super::NAME;
use super::history::{History, Timed, before, seconds};

/// Recommendations in one sentence. The newest ones come first. More would hide the essence.
const SHOWN: usize = 5;

/// The recommendations in the window of stabilization, and the time at which a smaller size is
/// possible. `default` is the window if the autoscaler has no rules. `None` without recommendations in the
/// window. Windows are those of `limits.rs` and `behavior.rs`; only shrinking is told, since growth has no
/// window by default.
pub(super) fn recall(
    history: &History,
    hpa: &HorizontalPodAutoscaler,
    default: Duration,
    now: Timestamp,
) -> Option<Reason> {
    let rules = hpa
        .spec
        .behavior
        .as_ref()
        .map(|behavior| &behavior.scale_down);
    let of_rules = rules.and_then(|rules| rules.stabilization_window_seconds);
    let window = of_rules.map_or(default, seconds);
    let cutoff = before(now, window);
    let in_window = history.recommendations.iter().filter(|old| old.at > cutoff);
    let mut recent: Vec<Timed> = in_window.copied().collect();
    // `history.rs` reuses places, so its lists have no order.
    recent.sort_by_key(|old| std::cmp::Reverse(old.at));
    let newest = recent.first()?;
    let highest = recent.iter().map(|old| old.replicas).max()?;
    // The last one of this size leaves the window last.
    let holding = recent.iter().find(|old| old.replicas == highest)?;
    let list: Vec<String> = recent
        .iter()
        .take(SHOWN)
        .map(|old| old.replicas.to_string())
        .collect();
    let list = list.join(", ");
    let seconds = window.as_secs();
    let span = SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX);
    // A target that grows is not held. The same is true if its newest recommendation is the highest.
    let is_held = newest.replicas < highest && newest.replicas < hpa.status.current_replicas;
    let (message, until) = if is_held {
        let message = format!(
            "the metrics ask for {} replicas now; the last sizes in the window of {seconds} s are {list}, and {highest} holds \
             the size until it leaves the window",
            newest.replicas
        );
        // Users then see a time: at the latest, the holding recommendation is gone by then.
        (message, holding.at.checked_add(span).ok())
    } else {
        let is_one = recent.iter().all(|old| old.replicas == highest);
        let message = if is_one {
            format!("all sizes that were computed in the last {seconds} s are {highest}")
        } else {
            format!("the last sizes in the window of {seconds} s are {list}")
        };
        (message, None)
    };
    let code = if is_held {
        Code::Stabilized
    } else {
        Code::Recommendations
    };
    let reason = Reason::new(code, NAME, message).field("highest", highest);
    Some(reason.field("newest", newest.replicas).next(until))
}

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn the_highest_recommendation_of_the_window_holds_the_size() {
        let served = serde_json::json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}},
            "status": {"currentReplicas": 6, "desiredReplicas": 6},
        });
        let hpa = HorizontalPodAutoscaler::decode(served.to_string().as_bytes()).unwrap();
        let now: Timestamp = "2026-11-28T12:10:00Z".parse().unwrap();
        let ago = |seconds: u64| before(now, Duration::from_secs(seconds));
        let told = |list: &[(i32, u64)]| {
            let recommendations = list
                .iter()
                .map(|&(replicas, seconds)| Timed {
                    replicas,
                    at: ago(seconds),
                })
                .collect();
            let history = History {
                recommendations,
                ..History::default()
            };
            let reason = recall(&history, &hpa, Duration::from_secs(300), now)?;
            Some((reason.code, reason.next_try))
        };
        let at = |text: &str| text.parse().ok();
        // (why, (replicas, seconds ago), code and end)
        let cases: [(&str, &[(i32, u64)], _); 5] = [
            ("no memory", &[], None),
            ("outside the window", &[(9, 300)], None),
            (
                "a higher one holds the size",
                &[(9, 400), (6, 200), (6, 90), (3, 15)],
                Some((Code::Stabilized, at("2026-11-28T12:13:30Z"))),
            ),
            (
                "the newest is the highest",
                &[(3, 90), (6, 15)],
                Some((Code::Recommendations, None)),
            ),
            (
                "the newest is larger than the size",
                &[(9, 90), (8, 15)],
                Some((Code::Recommendations, None)),
            ),
        ];
        for (why, list, expected) in cases {
            assert_eq!(told(list), expected, "{why}");
        }
    }
}
