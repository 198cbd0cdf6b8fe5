//! ResourceQuotas: refuse objects that exceed a quota, and charge those that are admitted.
//!
//! With the quota controller, the server compares with the usage in the status of a quota and raises
//! it, as upstream. Without the controller, the server counts at once with each change in a namespace
//! with quotas, so tests need no controller. Upstream:
//! `k8s.io/apiserver/pkg/admission/plugin/resourcequota`.

mod measure;
mod unspecified;

use std::sync::Arc;

use parking_lot::MutexGuard;
use serde_json::{Value, json};
use steersman_helpers::quota::{
    Amounts, ClaimCounting, Counted, Scopes, is_claim_replenished, is_terminating_scope,
};
use steersman_objects::{Object as _, ResourceList, ResourceQuota};

use self::measure::View;
use self::unspecified::unspecified;
use super::amounts::parse;
use crate::Server;
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::route::Target;
use crate::status::Status;
use crate::store::{Change, Object};

/// Lock over quota usage. While a request holds it, no other request can use quota.
pub(crate) type Charge<'a> = Option<MutexGuard<'a, ()>>;

/// A quota at the time of a request.
struct Ledger {
    stored: Arc<Object>,
    scopes: Scopes,
    hard: Amounts,
    used: Amounts,
}

impl Server {
    /// 403 if a new object, or the growth from `old` to `object`, exceeds a quota of its namespace.
    ///
    /// The caller keeps the returned lock until the object is stored. Otherwise a parallel request
    /// could use the same remaining quota.
    pub(crate) fn charge(
        &self,
        target: &Target,
        object: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Charge<'_>, Status> {
        let resource = target.resource();
        let namespace = &target.namespace;
        let part = target.subresource.map(|part| part.name);
        if !self.is_counted(resource, namespace) {
            return Ok(None);
        }
        let of = Counted::new(&resource.group, &resource.plural);
        let [new, old] = [Some(object), old].map(|object| object.map(|o| View::of(&of, o)));
        let claims = self.claim_counting();
        let Some(new) = new.filter(|new| may_change(&of, part, new, old.as_ref(), claims)) else {
            return Ok(None);
        };
        let guard = self.quota_lock.lock();
        let refused = |why: String| {
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            Status::forbidden(resource.named(), name, &why)
        };
        let ledgers = self.ledgers(&of, &new, namespace);
        for ledger in &ledgers {
            let name = ledger.stored.name();
            let missing = if of.is_core("pods") {
                unspecified(&ledger.hard, object)
            } else {
                None
            };
            if let Some(missing) = missing {
                let why = format!("failed quota: {name}: must specify {missing}");
                return Err(refused(why));
            }
            if let Some(resources) = self.unknown(&of, ledger) {
                let why = format!("status unknown for quota: {name}, resources: {resources}");
                return Err(refused(why));
            }
        }
        let usage = self.usage(&of, &new, namespace);
        let before = old.as_ref().map(|old| self.usage(&of, old, namespace));
        let mut charged = Vec::new();
        for ledger in ledgers {
            let was_counted = |old: &View| ledger.scopes.select(old.scoped(claims)) == Ok(true);
            let before = before
                .as_ref()
                .filter(|_| old.as_ref().is_some_and(was_counted));
            let asked = usage
                .only(|name| ledger.hard.has(name))
                .beyond(before.unwrap_or(&Amounts::default()));
            // A status reports growth that has happened.
            if let Some(why) = ledger.exceeded_by(&asked)
                && part != Some("status")
            {
                return Err(refused(why));
            }
            if !asked.is_empty() {
                charged.push((ledger.stored, asked));
            }
        }
        if self.admission.quota_controller && !dry_run {
            for (quota, asked) in charged {
                self.raise(quota, &asked);
            }
        }
        Ok(Some(guard))
    }

    /// The quotas of a namespace that count `object`.
    fn ledgers(&self, of: &Counted, object: &View, namespace: &str) -> Vec<Ledger> {
        let devices = self.device_counting();
        let claims = self.claim_counting();
        let quotas = self.quotas_of(namespace).into_iter();
        let ledgers = quotas.filter_map(|stored| {
            let quota = decoded(&stored)?;
            let scopes = Scopes::of(&quota.spec);
            let status = &quota.status;
            let counted = self.counted_by_controller(&quota);
            let hard = Amounts::of(counted.unwrap_or(&quota.spec.hard));
            let is_limited = hard.iter().any(|(name, _)| of.handles(name, &devices));
            if !is_limited || scopes.select(object.scoped(claims)) != Ok(true) {
                return None;
            }
            let used = match counted {
                Some(_) => status.used.as_ref().map(Amounts::of).unwrap_or_default(),
                None => self.used(&quota),
            };
            Some(Ledger {
                stored,
                scopes,
                hard,
                used,
            })
        });
        ledgers.collect()
    }

    /// The limits in the status, if the quota controller has set them. Upstream enforces no limits
    /// before. Here the server counts until then, so the order of two requests decides, and not the
    /// speed of a controller.
    fn counted_by_controller<'a>(&self, quota: &'a ResourceQuota) -> Option<&'a ResourceList> {
        let hard = quota.status.hard.as_ref();
        hard.filter(|_| self.admission.quota_controller)
    }

    /// The resources of the type `of` in the quota, if the usage of one of them is not known yet.
    fn unknown(&self, of: &Counted, ledger: &Ledger) -> Option<String> {
        let devices = self.device_counting();
        let limited = ledger.hard.only(|name| of.handles(name, &devices));
        let names: Vec<&str> = limited.iter().map(|(name, _)| &**name).collect();
        let is_known = names.iter().all(|name| ledger.used.has(name));
        (!is_known).then(|| names.join(","))
    }

    /// Raises the usage in the status of a quota, after its first count.
    fn raise(&self, quota: Arc<Object>, by: &Amounts) {
        self.write_quota(quota, |old| {
            if old["status"]["hard"].is_null() {
                return None;
            }
            let mut used = parse(&old["status"]["used"]);
            used.add(by);
            Some(json!({"hard": old["status"]["hard"], "used": used}))
        });
    }

    /// Does the work of the quota controller: counts usage again and updates the status of all quotas
    /// of a namespace.
    pub(crate) fn recount(&self, namespace: &str) {
        for quota in self.quotas_of(namespace) {
            self.write_quota(quota, |old| {
                let bytes = old.to_string();
                let used = ResourceQuota::decode(bytes.as_bytes()).map(|quota| self.used(&quota));
                let hard = parse(&old["spec"]["hard"]);
                Some(json!({"hard": hard, "used": used.unwrap_or_default()}))
            });
        }
    }

    /// Writes the status that `status` makes from the current state of a quota, unless it is equal
    /// or `None`.
    fn write_quota(&self, quota: Arc<Object>, status: impl Fn(&Value) -> Option<Value>) {
        let entry = self.quotas();
        let mut current = quota;
        loop {
            let old = current.to_value();
            let Some(status) = status(&old) else { return };
            let mut new = old.clone();
            new["status"] = status;
            if new == old {
                return;
            }
            let committed = entry.store.commit(
                &entry.resource,
                &self.revisions,
                &current.key,
                Some(&current),
                Change::Put(new),
            );
            match committed {
                Ok(_) => return,
                // A parallel write won; try again with its result.
                Err(_raced) => match entry.store.get(&current.key) {
                    Some(newer) => current = newer,
                    None => return,
                },
            }
        }
    }

    /// Whether the namespace has quotas that may count objects of `resource`.
    pub(crate) fn is_counted(&self, resource: &Resource, namespace: &str) -> bool {
        resource.namespaced && !resource.is("Event") && !self.quotas_of(namespace).is_empty()
    }

    /// Whether a change makes a new count of quotas necessary. Most changes of pods only touch their
    /// status and need none.
    pub(crate) fn matters(&self, resource: &Resource, old: &Value, new: &Value) -> bool {
        if resource.is("ResourceQuota") {
            return true;
        }
        let of = Counted::new(&resource.group, &resource.plural);
        let namespace = new["metadata"]["namespace"].as_str().unwrap_or_default();
        let views = [old, new].map(|object| View::of(&of, object));
        let [before, after] = [&views[0], &views[1]].map(|view| self.usage(&of, view, namespace));
        let is_scoped_otherwise = match &views {
            [View::Pod(_), View::Pod(_)] => old["spec"] != new["spec"],
            [View::Claim(old), View::Claim(new)] => {
                is_claim_replenished(old, new, self.claim_counting())
            }
            _ => false,
        };
        before != after || is_scoped_otherwise
    }

    fn quotas(&self) -> Arc<Registered> {
        self.registry
            .find("", "v1", "resourcequotas")
            .expect("quotas are built in")
    }

    fn quotas_of(&self, namespace: &str) -> Vec<Arc<Object>> {
        let entry = self.quotas();
        if entry.store.is_empty() {
            return Vec::new();
        }
        entry
            .store
            .list(&self.revisions, &format!("{namespace}/"))
            .objects
    }
}

impl Ledger {
    /// Why the quota refuses the growth `asked`; `None` if it does not.
    fn exceeded_by(&self, asked: &Amounts) -> Option<String> {
        let exceeded = asked.only(|name| {
            let total = asked.get(name).map(|asked| {
                let used = self.used.get(name);
                used.map_or(asked, |used| used.plus(asked))
            });
            total > self.hard.get(name)
        });
        if exceeded.is_empty() {
            return None;
        }
        let part = |amounts: &Amounts| amounts.only(|name| exceeded.has(name)).to_text();
        let requested = part(asked);
        let used = part(&self.used);
        let limited = part(&self.hard);
        let name = self.stored.name();
        Some(format!(
            "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
        ))
    }
}

fn decoded(quota: &Object) -> Option<ResourceQuota> {
    // Quotas are validated before they are stored.
    ResourceQuota::decode(&quota.json()).ok()
}

/// Whether the request can change usage. Upstream: `Handles` of the evaluators.
fn may_change(
    of: &Counted,
    part: Option<&str>,
    new: &View,
    old: Option<&View>,
    claims: ClaimCounting,
) -> bool {
    let Some(old) = old else {
        return part.is_none();
    };
    match (part, old, new) {
        (None, View::Pod(old), View::Pod(new)) => {
            is_terminating_scope(old) != is_terminating_scope(new)
        }
        (Some("resize"), ..) => of.is_core("pods"),
        (Some("status"), View::Claim(old), View::Claim(new)) => {
            is_claim_replenished(old, new, claims)
        }
        (Some(_), ..) | (None, View::Other, _) => false,
        (None, ..) => true,
    }
}
