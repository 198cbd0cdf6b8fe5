//! ResourceQuotas: what objects use, what is left, and the status that tells it.
//!
//! Upstream has a controller that counts; here the server counts itself, at once, whenever
//! something in a namespace with quotas changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};

use serde_json::{Value, json};

use super::amounts::{Amounts, of_pod};
use crate::defaults::qos_class;
use crate::kinds::{Registered, Resource};
use crate::rest::{Server, Target};
use crate::schema::quantity::Quantity;
use crate::status::Status;
use crate::store::{Change, Object};

/// Resources that count objects of the same name, besides `count/...`.
const COUNTED_BY_NAME: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// Where a quota limits one of these, every container must say how much of it it wants.
const MUST_BE_SAID: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Whoever holds this is the only one to use up quotas.
pub(crate) type Charge<'a> = Option<MutexGuard<'a, ()>>;

impl Server {
    /// 403 if a new object, or what a change adds to the `old` one, is more than the quotas of its
    /// namespace allow. Until the answer is dropped nothing else uses them up.
    pub(crate) fn charge(
        &self,
        target: &Target,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Charge<'_>, Status> {
        let resource = target.resource();
        let part = target.subresource.map(|part| part.name);
        let handled = old.is_none_or(|old| is_charged_again(resource, part, object, old));
        if !handled || !self.is_counted(resource, &target.namespace) {
            return Ok(None);
        }
        let guard = self
            .quota_lock
            .lock()
            .expect("nothing panics while it holds the lock");
        let usage = usage(resource, object);
        for quota in self.quotas_of(&target.namespace) {
            let refused = |why: String| {
                Status::forbidden(
                    resource.named(),
                    object["metadata"]["name"].as_str().unwrap_or(""),
                    &why,
                )
            };
            let (name, value) = (quota.name(), quota.to_value());
            let hard = Amounts::parse(&value["spec"]["hard"]);
            if !in_scope(&value["spec"], resource, object) {
                continue;
            }
            let billed = old
                .filter(|old| in_scope(&value["spec"], resource, old))
                .map(|old| self::usage(resource, old));
            let asked = usage
                .only(|name| hard.get(name).is_some())
                .beyond(&billed.unwrap_or_default());
            if let Some(missing) = unsaid(&hard, resource, object) {
                return Err(refused(format!(
                    "failed quota: {name}: must specify {missing}"
                )));
            }
            let used = self.used(&value["spec"], &target.namespace);
            let exceeded = asked.only(|name| {
                let (asked, used) = (asked.get(name), used.get(name));
                let total = asked
                    .zip(used)
                    .map_or_else(|| asked.copied(), |(asked, used)| Some(used.plus(*asked)));
                total.as_ref() > hard.get(name)
            });
            if !exceeded.0.is_empty() {
                let part = |amounts: &Amounts| {
                    amounts.only(|name| exceeded.get(name).is_some()).in_words()
                };
                let (requested, used, limited) = (part(&asked), part(&used), part(&hard));
                let why = format!(
                    "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
                );
                return Err(refused(why));
            }
        }
        Ok(Some(guard))
    }

    /// Brings the status of the quotas of a namespace up to date.
    pub(crate) fn recount(&self, namespace: &str) {
        let entry = self.quotas();
        for quota in self.quotas_of(namespace) {
            let mut current = quota;
            loop {
                let old = current.to_value();
                let mut new = old.clone();
                let used = self.used(&old["spec"], namespace);
                new["status"] = json!({"hard": Amounts::parse(&old["spec"]["hard"]).to_value(), "used": used.to_value()});
                if new == old {
                    break;
                }
                let change = Change::Put(new);
                match entry.store.commit(
                    &entry.resource,
                    &self.revisions,
                    &current.key,
                    Some(&current),
                    change,
                ) {
                    Ok(_) => break,
                    Err(_raced) => match entry.store.get(&current.key) {
                        Some(newer) => current = newer,
                        None => break,
                    },
                }
            }
        }
    }

    /// Whether there are quotas in the namespace that objects of `resource` may use up.
    pub(crate) fn is_counted(&self, resource: &Resource, namespace: &str) -> bool {
        resource.namespaced && !resource.is("Event") && !self.quotas_of(namespace).is_empty()
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

    /// How much is used of everything that a quota limits.
    fn used(&self, spec: &Value, namespace: &str) -> Amounts {
        let mut used = Amounts::default();
        let hard: Vec<&str> = spec["hard"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        let sources: BTreeSet<(&str, &str)> = hard.iter().filter_map(|name| source(name)).collect();
        for (group, plural) in sources {
            let Some(entry) = self.registry.find_in_group(group, plural) else {
                continue;
            };
            for object in entry
                .store
                .list(&self.revisions, &format!("{namespace}/"))
                .objects
            {
                let value = object.to_value();
                if in_scope(spec, &entry.resource, &value) {
                    used.add(&usage(&entry.resource, &value).only(|name| hard.contains(&name)));
                }
            }
        }
        for name in hard {
            if used.get(name).is_none() && source(name).is_some() {
                used.set(name, Quantity::whole(0));
            }
        }
        used
    }
}

/// Whether a change may use up more of a quota. All other objects are counted, and what they are
/// does not change.
fn is_charged_again(resource: &Resource, part: Option<&str>, new: &Value, old: &Value) -> bool {
    match part {
        None if resource.is("Pod") => ends(&new["spec"]) != ends(&old["spec"]),
        None => resource.is("Service") || resource.is("PersistentVolumeClaim"),
        Some(part) => part == "resize",
    }
}

/// Whether quotas have to be counted again after a change. Most changes of pods are of their
/// status, and do not matter.
pub(crate) fn matters(resource: &Resource, old: &Value, new: &Value) -> bool {
    resource.is("ResourceQuota")
        || usage(resource, old) != usage(resource, new)
        || (resource.is("Pod") && old["spec"] != new["spec"])
}

/// Group and plural of the objects that a quota's resource is used up by.
fn source(name: &str) -> Option<(&str, &str)> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some((group, plural));
    }
    if name == "requests.storage" || name.contains(OF_STORAGE_CLASS) {
        return Some(("", "persistentvolumeclaims"));
    }
    if name.starts_with("services.") {
        return Some(("", "services"));
    }
    if COUNTED_BY_NAME.contains(&name) {
        return Some(("", name));
    }
    let resource = name
        .strip_prefix("requests.")
        .or_else(|| name.strip_prefix("limits."))
        .unwrap_or(name);
    let of_pods = name == "pods"
        || COMPUTE.contains(&resource)
        || resource.starts_with("hugepages-")
        || resource.contains('/');
    of_pods.then_some(("", "pods"))
}

/// What one object uses up.
fn usage(resource: &Resource, object: &Value) -> Amounts {
    let mut usage = Amounts::default();
    let one = Quantity::whole(1);
    let dot = if resource.group.is_empty() { "" } else { "." };
    usage.set(
        format!("count/{}{dot}{}", resource.plural, resource.group),
        one,
    );
    if !resource.group.is_empty() {
        return usage;
    }
    if COUNTED_BY_NAME.contains(&&*resource.plural) {
        usage.set(resource.plural.to_string(), one);
    }
    match &*resource.plural {
        "pods" => usage.add(&pod_usage(object)),
        "services" => usage.add(&service_usage(&object["spec"])),
        "persistentvolumeclaims" => usage.add(&claim_usage(object)),
        _ => {}
    }
    usage
}

/// A pod that has ended uses nothing up any more.
fn pod_usage(pod: &Value) -> Amounts {
    let mut usage = Amounts::default();
    if matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    ) {
        return usage;
    }
    usage.set("pods", Quantity::whole(1));
    for (name, amount) in of_pod(&pod["spec"], "requests").0 {
        if COMPUTE.contains(&&*name) || name.starts_with("hugepages-") {
            usage.set(name.clone(), amount);
        }
        usage.set(format!("requests.{name}"), amount);
    }
    for (name, amount) in of_pod(&pod["spec"], "limits").0 {
        if COMPUTE.contains(&&*name) {
            usage.set(format!("limits.{name}"), amount);
        }
    }
    usage
}

fn service_usage(spec: &Value) -> Amounts {
    let mut usage = Amounts::default();
    let ports = i64::try_from(spec["ports"].as_array().map_or(0, Vec::len)).unwrap_or(i64::MAX);
    let balanced = spec["type"] == "LoadBalancer";
    if balanced {
        usage.set("services.loadbalancers", Quantity::whole(1));
    }
    if spec["type"] == "NodePort" || (balanced && spec["allocateLoadBalancerNodePorts"] != false) {
        usage.set("services.nodeports", Quantity::whole(ports));
    }
    usage
}

fn claim_usage(claim: &Value) -> Amounts {
    let mut usage = Amounts::default();
    let class = claim["spec"]["storageClassName"]
        .as_str()
        .unwrap_or_default();
    if !class.is_empty() {
        usage.set(
            format!("{class}{OF_STORAGE_CLASS}persistentvolumeclaims"),
            Quantity::whole(1),
        );
    }
    if let Some(storage) = Amounts::parse(&claim["spec"]["resources"]["requests"]).get("storage") {
        usage.set("requests.storage", *storage);
        if !class.is_empty() {
            usage.set(
                format!("{class}{OF_STORAGE_CLASS}requests.storage"),
                *storage,
            );
        }
    }
    usage
}

/// What containers do not say although a quota limits it: `limits.cpu for: a,b; memory for: c`.
fn unsaid(hard: &Amounts, resource: &Resource, pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    if !resource.is("Pod")
        || spec["resources"]
            .as_object()
            .is_some_and(|resources| !resources.is_empty())
    {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec[*list].as_array().into_iter().flatten())
    {
        for name in MUST_BE_SAID
            .into_iter()
            .filter(|name| hard.get(name).is_some())
        {
            let (side, amount) = match name.split_once('.') {
                Some((side, amount)) => (side, amount),
                None => ("requests", name),
            };
            if container["resources"][side][amount].is_null() {
                missing
                    .entry(name)
                    .or_default()
                    .insert(container["name"].as_str().unwrap_or_default());
            }
        }
    }
    let in_words = |(name, containers): (&str, BTreeSet<&str>)| {
        format!(
            "{name} for: {}",
            containers.into_iter().collect::<Vec<_>>().join(",")
        )
    };
    let words: Vec<String> = missing.into_iter().map(in_words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Whether a quota is about the object: scopes are about pods.
fn in_scope(spec: &Value, resource: &Resource, object: &Value) -> bool {
    let named = spec["scopes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|scope| (scope.as_str().unwrap_or_default(), None));
    let selected = spec["scopeSelector"]["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let selected =
        selected.map(|term| (term["scopeName"].as_str().unwrap_or_default(), Some(term)));
    let mut scopes = named.chain(selected).peekable();
    if scopes.peek().is_none() {
        return true;
    }
    resource.is("Pod") && scopes.all(|(scope, term)| matches_scope(scope, term, &object["spec"]))
}

/// Whether a pod has a time to end at.
fn ends(pod: &Value) -> bool {
    pod["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0)
}

fn matches_scope(scope: &str, term: Option<&Value>, pod: &Value) -> bool {
    match scope {
        "Terminating" => ends(pod),
        "NotTerminating" => !ends(pod),
        "BestEffort" => qos_class(pod) == "BestEffort",
        "NotBestEffort" => qos_class(pod) != "BestEffort",
        "PriorityClass" => {
            let class = pod["priorityClassName"]
                .as_str()
                .filter(|class| !class.is_empty());
            let mut values = term
                .and_then(|term| term["values"].as_array())
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            match term.and_then(|term| term["operator"].as_str()) {
                None | Some("Exists") => class.is_some(),
                Some("DoesNotExist") => class.is_none(),
                Some("In") => class.is_some_and(|class| values.any(|value| value == class)),
                Some("NotIn") => class.is_none_or(|class| values.all(|value| value != class)),
                Some(_) => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_used_up_by_one_kind_of_object() {
        let cases = [
            ("pods", Some(("", "pods"))),
            ("cpu", Some(("", "pods"))),
            ("limits.memory", Some(("", "pods"))),
            ("requests.nvidia.com/gpu", Some(("", "pods"))),
            ("hugepages-2Mi", Some(("", "pods"))),
            ("configmaps", Some(("", "configmaps"))),
            ("count/configmaps", Some(("", "configmaps"))),
            ("count/deployments.apps", Some(("apps", "deployments"))),
            (
                "count/crontabs.stable.example.com",
                Some(("stable.example.com", "crontabs")),
            ),
            ("services.nodeports", Some(("", "services"))),
            ("requests.storage", Some(("", "persistentvolumeclaims"))),
            (
                "gold.storageclass.storage.k8s.io/requests.storage",
                Some(("", "persistentvolumeclaims")),
            ),
            ("nonsense", None),
        ];
        for (name, expected) in cases {
            assert_eq!(source(name), expected, "{name}");
        }
    }

    #[test]
    fn scopes_choose_pods() {
        let pod = |extra: Value| {
            let mut pod = json!({"containers": [{"name": "c"}]});
            pod.as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            pod
        };
        let class = |operator: &str| json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
        let cases = [
            (
                "Terminating",
                None,
                json!({"activeDeadlineSeconds": 5}),
                true,
            ),
            ("NotTerminating", None, json!({}), true),
            ("BestEffort", None, json!({}), true),
            ("NotBestEffort", None, json!({}), false),
            (
                "PriorityClass",
                None,
                json!({"priorityClassName": "low"}),
                true,
            ),
            (
                "PriorityClass",
                Some(class("In")),
                json!({"priorityClassName": "low"}),
                false,
            ),
            (
                "PriorityClass",
                Some(class("In")),
                json!({"priorityClassName": "high"}),
                true,
            ),
            ("PriorityClass", Some(class("NotIn")), json!({}), true),
            ("CrossNamespacePodAffinity", None, json!({}), false),
        ];
        for (scope, term, extra, expected) in cases {
            assert_eq!(
                matches_scope(scope, term.as_ref(), &pod(extra)),
                expected,
                "{scope} {term:?}"
            );
        }
    }
}
