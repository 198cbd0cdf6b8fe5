//! The active rules, with their remaining matches and the number of their hits.

use std::collections::HashMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::matcher::Seen;
use super::{EventFault, Matcher, RequestFault, RuleId};

#[derive(Debug, Clone)]
pub(super) enum Effect {
    Request(RequestFault),
    Event(EventFault),
}

#[derive(Debug)]
struct Rule {
    id: RuleId,
    matcher: Matcher,
    effect: Effect,
    /// Remaining matches; `None` means until removed.
    left: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Rules {
    list: Vec<Rule>,
    issued: u64,
    /// Number of hits of each rule, and its last hit. Finished rules stay listed.
    hits: HashMap<RuleId, (usize, String)>,
    random: StdRng,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            issued: 0,
            hits: HashMap::new(),
            random: StdRng::seed_from_u64(0),
        }
    }
}

impl Rules {
    pub(super) fn seed(&mut self, seed: u64) {
        self.random = StdRng::seed_from_u64(seed);
    }

    pub(super) fn issue(&mut self) -> RuleId {
        self.issued += 1;
        RuleId(self.issued)
    }

    pub(super) fn add(&mut self, matcher: Matcher, effect: Effect, times: Option<usize>) -> RuleId {
        let id = self.issue();
        if times != Some(0) {
            self.list.push(Rule {
                id,
                matcher,
                effect,
                left: times,
            });
        }
        id
    }

    pub(super) fn remove(&mut self, id: RuleId) {
        self.list.retain(|rule| rule.id != id);
    }

    pub(super) fn hits(&self, id: RuleId) -> usize {
        self.hits.get(&id).map_or(0, |(hits, _)| *hits)
    }

    pub(super) fn last(&self, id: RuleId) -> Option<String> {
        self.hits.get(&id).map(|(_, last)| last.clone())
    }

    pub(super) fn event_rule_count(&self) -> usize {
        self.list
            .iter()
            .filter(|rule| matches!(rule.effect, Effect::Event(_)))
            .count()
    }

    /// The effects of all rules that match `seen` and that `select` selects. Counts their hits.
    pub(super) fn meet<T>(
        &mut self,
        seen: &Seen<'_>,
        select: impl Fn(&Effect) -> Option<T>,
    ) -> Vec<T> {
        let mut effects = Vec::new();
        let hits = &mut self.hits;
        self.list.retain_mut(|rule| {
            let Some(effect) = select(&rule.effect).filter(|_| rule.matcher.matches(seen)) else {
                return true;
            };
            if rule.matcher.skip > 0 {
                rule.matcher.skip -= 1;
                return true;
            }
            effects.push(effect);
            let (count, last) = hits.entry(rule.id).or_default();
            *count += 1;
            *last = seen.to_string();
            rule.left = rule.left.map(|left| left - 1);
            rule.left != Some(0)
        });
        effects
    }

    /// A random duration up to `limit`.
    pub(super) fn up_to(&mut self, limit: Duration) -> Duration {
        limit.mul_f64(self.random.random())
    }
}
