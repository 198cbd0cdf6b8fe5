//! What goes wrong on purpose: refusals, delays, groups that cannot be discovered, and watches that fall silent or break.
//!
//! A rule applies to the requests its [`Matcher`] matches, for the next `n` of them or until it is removed.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use crate::rest::{Target, Verb};
use crate::status::Status;

/// Which requests a rule is about; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// Verb, such as `create`.
    pub verb: Option<String>,
    /// Plural resource, such as `pods`.
    pub resource: Option<String>,
    /// Subresource, such as `status`; `Some("")` matches only requests for the object itself.
    pub subresource: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name in the path.
    pub name: Option<String>,
}

impl Matcher {
    /// Requests with this verb on this resource itself, not on its subresources.
    pub fn new(verb: &str, resource: &str) -> Self {
        Self {
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(String::new()),
            namespace: None,
            name: None,
        }
    }

    /// The same, on one subresource.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// The same, in one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The same, on one object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    fn matches(&self, verb: Verb, target: &Target) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.verb, verb.as_str())
            && is(&self.resource, &target.resource().plural)
            && is(&self.subresource, target.subresource.map_or("", |part| part.name))
            && is(&self.namespace, &target.namespace)
            && is(&self.name, &target.name)
    }
}

/// Handle of a rule, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(u64);

#[derive(Debug, Clone)]
enum Effect {
    Reject(Status),
    Delay(Duration),
}

#[derive(Debug)]
struct Rule {
    id: RuleId,
    matcher: Matcher,
    effect: Effect,
    /// `None` means until removed.
    left: Option<usize>,
    hits: usize,
}

#[derive(Debug, Default)]
struct Rules {
    list: Vec<Rule>,
    issued: u64,
    /// Hits of rules that are used up or removed.
    past_hits: Vec<(RuleId, usize)>,
}

/// What watches are told.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchFaults {
    stalled: Vec<String>,
    /// Grows each time the watches of a resource are to break.
    broken: Vec<(String, u64)>,
}

impl WatchFaults {
    pub(crate) fn stalled(&self, plural: &str) -> bool {
        self.stalled.iter().any(|resource| resource == plural)
    }

    pub(crate) fn breaks(&self, plural: &str) -> u64 {
        self.broken.iter().find(|(resource, _)| resource == plural).map_or(0, |(_, count)| *count)
    }
}

/// The faults of one server.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Rules>,
    watches: watch::Sender<WatchFaults>,
    /// Groups as if their aggregated server were down.
    undiscoverable: Mutex<Vec<String>>,
}

impl Faults {
    /// Answers matching requests with `status`, the next `times` times, or until removed.
    pub fn reject(&self, matcher: Matcher, status: Status, times: Option<usize>) -> RuleId {
        self.add(matcher, Effect::Reject(status), times)
    }

    /// Lets matching requests wait before they are handled, the next `times` times, or until removed.
    pub fn delay(&self, matcher: Matcher, by: Duration, times: Option<usize>) -> RuleId {
        self.add(matcher, Effect::Delay(by), times)
    }

    /// Ends a rule.
    pub fn remove(&self, id: RuleId) {
        let mut rules = self.lock();
        if let Some(position) = rules.list.iter().position(|rule| rule.id == id) {
            let rule = rules.list.remove(position);
            rules.past_hits.push((id, rule.hits));
        }
    }

    /// How many requests a rule has met, also after it ended.
    pub fn hits(&self, id: RuleId) -> usize {
        let rules = self.lock();
        let live = rules.list.iter().find(|rule| rule.id == id).map(|rule| rule.hits);
        live.or_else(|| rules.past_hits.iter().find(|(past, _)| *past == id).map(|(_, hits)| *hits)).unwrap_or(0)
    }

    /// Discovery knows no more than the name of this group, as when the aggregated API server behind it is down; its objects are
    /// still served (refuse them with [`Faults::reject`]).
    pub fn hide_from_discovery(&self, group: &str) {
        let mut hidden = self.hidden();
        if !hidden.iter().any(|known| known == group) {
            hidden.push(group.to_owned());
        }
    }

    /// Ends [`Faults::hide_from_discovery`].
    pub fn show_in_discovery(&self, group: &str) {
        self.hidden().retain(|known| known != group);
    }

    pub(crate) fn is_hidden(&self, group: &str) -> bool {
        self.hidden().iter().any(|known| known == group)
    }

    fn hidden(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.undiscoverable.lock().expect("nothing panics while it holds the lock")
    }

    /// Watches of this resource stay open and say nothing until [`Faults::resume_watches`]; then they send what they missed.
    pub fn stall_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| {
            if !watches.stalled(plural) {
                watches.stalled.push(plural.to_owned());
            }
        });
    }

    /// Ends [`Faults::stall_watches`].
    pub fn resume_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| watches.stalled.retain(|resource| resource != plural));
    }

    /// Closes the watches of this resource that are open now.
    pub fn break_watches(&self, plural: &str) {
        self.watches.send_modify(|watches| match watches.broken.iter_mut().find(|(resource, _)| resource == plural) {
            Some((_, count)) => *count += 1,
            None => watches.broken.push((plural.to_owned(), 1)),
        });
    }

    pub(crate) fn watch_faults(&self) -> watch::Receiver<WatchFaults> {
        self.watches.subscribe()
    }

    /// Applies the rules to a request: waits as long as delays say, and returns the first refusal.
    pub(crate) async fn check(&self, verb: Verb, target: &Target) -> Result<(), Status> {
        let mut refusal = None;
        let mut delay = Duration::ZERO;
        for effect in self.effects(verb, target) {
            match effect {
                Effect::Reject(status) => refusal = refusal.or(Some(status)),
                Effect::Delay(by) => delay += by,
            }
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        refusal.map_or(Ok(()), Err)
    }

    fn effects(&self, verb: Verb, target: &Target) -> Vec<Effect> {
        let mut rules = self.lock();
        let mut effects = Vec::new();
        let mut ended = Vec::new();
        for rule in rules.list.iter_mut().filter(|rule| rule.matcher.matches(verb, target)) {
            effects.push(rule.effect.clone());
            rule.hits += 1;
            if let Some(left) = &mut rule.left {
                *left -= 1;
                if *left == 0 {
                    ended.push((rule.id, rule.hits));
                }
            }
        }
        rules.list.retain(|rule| ended.iter().all(|(id, _)| *id != rule.id));
        rules.past_hits.extend(ended);
        effects
    }

    fn add(&self, matcher: Matcher, effect: Effect, times: Option<usize>) -> RuleId {
        let mut rules = self.lock();
        rules.issued += 1;
        let id = RuleId(rules.issued);
        if times != Some(0) {
            rules.list.push(Rule { id, matcher, effect, left: times, hits: 0 });
        }
        id
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rules> {
        self.rules.lock().expect("nothing panics while it holds the lock")
    }
}
