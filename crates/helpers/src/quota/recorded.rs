//! Usage that upstream's evaluators computed: `testdata/quota-usage.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use steersman_objects::{
    DeviceClass, Object, PersistentVolumeClaim, Pod, ResourceClaim, ResourceQuotaSpec,
    ScopeRequirement,
};
use steersman_values::intern::Sym;

use super::scopes::{Scoped, is_met_by};
use super::*;

#[derive(Deserialize)]
struct Recorded {
    conventions: Conventions,
    objects: Vec<ObjectCase>,
    quotas: Vec<QuotaCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conventions {
    scopes_checked: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectCase {
    name: String,
    object: Value,
    usage: BTreeMap<String, String>,
    matched_scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuotaCase {
    name: String,
    objects: Vec<Value>,
    used: BTreeMap<String, String>,
    error: Option<String>,
    #[serde(flatten)]
    spec: ResourceQuotaSpec,
}

fn recorded() -> Recorded {
    serde_json::from_str(include_str!("testdata/quota-usage.json")).unwrap()
}

fn decode<T: Object>(object: &Value) -> Arc<T> {
    Arc::new(T::decode(object.to_string().as_bytes()).unwrap())
}

/// The time of the cases: their pods are terminating since long ago, or until far in the future.
fn counting() -> PodCounting {
    PodCounting {
        now: "2026-07-01T00:00:00Z".parse().unwrap(),
        pod_level_resources: true,
        status_resources: true,
    }
}

/// The classes of devices of the cases.
fn devices() -> DeviceCounting {
    let classes = [
        json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}),
        json!({"metadata": {"name": "nic"}, "spec": {}}),
    ];
    let classes: Vec<_> = classes.iter().map(decode::<DeviceClass>).collect();
    DeviceCounting::Extended(ExtendedResources::of(classes.iter().map(|class| &**class)))
}

/// The pod of the extended resource claim.
fn owner() -> Arc<Pod> {
    let resources = json!({"requests": {"example.com/gpu": "1"}});
    decode(&json!({
        "metadata": {"name": "owner", "namespace": "ns", "uid": "o1"},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }))
}

/// The type of an object of the cases.
fn counted(object: &Value) -> Counted {
    let api_version = object["apiVersion"].as_str().unwrap();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap();
    Counted::new(group, &format!("{}s", kind.to_lowercase()))
}

fn usage(object: &Value) -> Amounts {
    match object["kind"].as_str().unwrap() {
        "Pod" => pod_usage(&decode(object), counting()),
        "Service" => service_usage(&decode(object)),
        "PersistentVolumeClaim" => claim_usage(&decode(object), ClaimCounting::ALL),
        "ResourceClaim" => {
            let claim: Arc<ResourceClaim> = decode(object);
            let pod = owner();
            let of_pod = is_extended_resource_claim_of(&claim, &pod, [&*claim])
                .then(|| pod_usage(&pod, counting()));
            device_usage(&claim, &devices(), of_pod.as_ref())
        }
        _ => object_count(&counted(object)),
    }
}

fn texts(amounts: &Amounts) -> BTreeMap<String, String> {
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.to_string(), amount.canonical()))
        .collect()
}

#[test]
fn the_usage_of_each_object_equals_upstreams() {
    for case in recorded().objects {
        assert_eq!(texts(&usage(&case.object)), case.usage, "{}", case.name);
    }
}

#[test]
fn each_object_is_in_the_scopes_that_upstream_finds() {
    let Recorded {
        conventions,
        objects,
        ..
    } = recorded();
    for case in objects {
        let Some(expected) = case.matched_scopes else {
            continue;
        };
        let is_met = |text: &&String| {
            let requirement = requirement(text);
            let met = match case.object["kind"].as_str().unwrap() {
                "Pod" => is_met_by(&requirement, Scoped::Pod(&decode(&case.object))),
                "PersistentVolumeClaim" => {
                    is_met_by(&requirement, Scoped::Claim(&decode(&case.object)))
                }
                _ => is_met_by(&requirement, Scoped::Other),
            };
            met.unwrap()
        };
        let mut met: Vec<_> = conventions.scopes_checked.iter().filter(is_met).collect();
        met.sort();
        let mut expected: Vec<_> = expected.iter().collect();
        expected.sort();
        assert_eq!(met, expected, "{}", case.name);
    }
}

/// The requirement of a text such as `PriorityClass In (high,mid)`.
fn requirement(text: &str) -> ScopeRequirement {
    let mut words = text.splitn(3, ' ').map(Sym::new);
    let mut next = || words.next().unwrap_or_default();
    let scope_name = next();
    let operator = next();
    let values = next();
    let values = values.trim_matches(['(', ')']).split(',');
    ScopeRequirement {
        scope_name,
        operator,
        values: values
            .filter(|value| !value.is_empty())
            .map(Sym::new)
            .collect(),
    }
}

/// The sum over all types of the case, and over the two that quotas of the cases name without
/// objects.
fn used(case: &QuotaCase) -> Amounts {
    let scopes = Scopes::of(&case.spec);
    let devices = devices();
    let of_kind = |kind: &str| -> Vec<&Value> {
        let objects = case.objects.iter();
        objects.filter(|object| object["kind"] == kind).collect()
    };
    fn all<T: Object>(objects: Vec<&Value>) -> Vec<Arc<T>> {
        objects.into_iter().map(decode).collect()
    }
    let mut types: Vec<Counted> = [
        ("", "pods"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("resource.k8s.io", "resourceclaims"),
        ("", "configmaps"),
        ("", "secrets"),
        ("", "replicationcontrollers"),
        ("", "resourcequotas"),
        ("apps", "deployments"),
        ("example.com", "widgets"),
    ]
    .map(|(group, plural)| Counted::new(group, plural))
    .into();
    types.extend(case.objects.iter().map(counted));
    types.sort();
    types.dedup();
    let mut used = Amounts::default();
    for of in types {
        let hard = case.spec.hard.keys();
        let Some(tally) = Tally::of(&of, hard, &scopes, &devices) else {
            continue;
        };
        used.add(&match &*of.plural {
            "pods" => tally.pods(&all(of_kind("Pod")), counting()),
            "services" => tally.services(&all(of_kind("Service"))),
            "persistentvolumeclaims" => tally.claims(
                &all::<PersistentVolumeClaim>(of_kind("PersistentVolumeClaim")),
                ClaimCounting::ALL,
            ),
            "resourceclaims" => tally.device_claims(
                &all(of_kind("ResourceClaim")),
                &devices,
                |name| (name == "owner").then(owner),
                counting(),
            ),
            _ => {
                let number = case.objects.iter().filter(|object| counted(object) == of);
                tally.objects(&of, number.count())
            }
        });
    }
    used
}

#[test]
fn the_usage_of_each_quota_equals_upstreams() {
    for case in recorded().quotas {
        assert_eq!(texts(&used(&case)), case.used, "{}", case.name);
        assert_eq!(case.error, None, "{}", case.name);
    }
}
