//! ResourceQuotas: refuse objects that exceed a quota, and keep the `used` part of its status
//! exact.
//!
//! Upstream's quota controller counts usage periodically and after changes. This server counts
//! synchronously with each change in a namespace with quotas, so tests need no controller.
//! Upstream: `k8s.io/apiserver/pkg/admission/plugin/resourcequota` and the evaluators in
//! `pkg/quota/v1/evaluator/core`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};

use serde_json::{Value, json};

use super::amounts::{Amounts, of_pod};
use crate::Server;
use crate::defaults::qos_class;
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::route::Target;
use crate::schema::quantity::Quantity;
use crate::status::Status;
use crate::store::{Change, Object};

/// Resource names of quotas that count objects of the same plural name, besides `count/...`.
const COUNTED_BY_NAME: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// If a quota limits one of these, every container must specify its amount.
const MUST_BE_SPECIFIED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Separates the StorageClass from the resource in names of quotas per class.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Lock over quota usage. While a request holds it, no other request can use quota.
pub(crate) type Charge<'a> = Option<MutexGuard<'a, ()>>;

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
    ) -> Result<Charge<'_>, Status> {
        let resource = target.resource();
        let part = target.subresource.map(|part| part.name);
        let handled = old.is_none_or(|old| may_grow(resource, part, object, old));
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
            let counted_before = old
                .filter(|old| in_scope(&value["spec"], resource, old))
                .map(|old| self::usage(resource, old));
            let asked = usage
                .only(|name| hard.get(name).is_some())
                .beyond(&counted_before.unwrap_or_default());
            if let Some(missing) = unspecified(&hard, resource, object) {
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
                let part =
                    |amounts: &Amounts| amounts.only(|name| exceeded.get(name).is_some()).to_text();
                let (requested, used, limited) = (part(&asked), part(&used), part(&hard));
                let why = format!(
                    "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
                );
                return Err(refused(why));
            }
        }
        Ok(Some(guard))
    }

    /// Counts usage again and updates the status of all quotas of a namespace.
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
                    // A parallel write won; try again with its result.
                    Err(_raced) => match entry.store.get(&current.key) {
                        Some(newer) => current = newer,
                        None => break,
                    },
                }
            }
        }
    }

    /// Whether the namespace has quotas that may count objects of `resource`.
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

    /// Usage of all resources that a quota limits. A limited resource without usage is 0.
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

/// Whether an update may increase usage. Updates of all other resources cannot change usage.
fn may_grow(resource: &Resource, part: Option<&str>, new: &Value, old: &Value) -> bool {
    match part {
        None if resource.is("Pod") => has_deadline(&new["spec"]) != has_deadline(&old["spec"]),
        None => resource.is("Service") || resource.is("PersistentVolumeClaim"),
        Some(part) => part == "resize",
    }
}

/// Whether a change makes a new count of quotas necessary. Most changes of pods only touch their
/// status and need none.
pub(crate) fn matters(resource: &Resource, old: &Value, new: &Value) -> bool {
    resource.is("ResourceQuota")
        || usage(resource, old) != usage(resource, new)
        || (resource.is("Pod") && old["spec"] != new["spec"])
}

/// Group and plural of the objects that a resource of a quota counts.
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

/// Usage of one object.
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

/// Usage of a pod; zero after it has finished.
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
    // One node port per service port; load balancers allocate them unless
    // `allocateLoadBalancerNodePorts` is false.
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

/// Claims count in total, and once more for their StorageClass.
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

/// Limited resources that containers do not specify: `limits.cpu for: a,b; memory for: c`.
fn unspecified(hard: &Amounts, resource: &Resource, pod: &Value) -> Option<String> {
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
        for name in MUST_BE_SPECIFIED
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
    let to_text = |(name, containers): (&str, BTreeSet<&str>)| {
        format!(
            "{name} for: {}",
            containers.into_iter().collect::<Vec<_>>().join(",")
        )
    };
    let words: Vec<String> = missing.into_iter().map(to_text).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Whether a quota counts the object. Only pods can match scopes.
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

/// Whether a pod has an `activeDeadlineSeconds`.
fn has_deadline(pod: &Value) -> bool {
    pod["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0)
}

fn matches_scope(scope: &str, term: Option<&Value>, pod: &Value) -> bool {
    match scope {
        "Terminating" => has_deadline(pod),
        "NotTerminating" => !has_deadline(pod),
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
        // Upstream's scopes of pod affinity and volume attributes are not implemented.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limited_resource_counts_one_kind_of_object() {
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
    fn scopes_select_pods() {
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
