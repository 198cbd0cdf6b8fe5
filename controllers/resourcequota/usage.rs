//! The usage of one quota, from the caches.
//!
//! Upstream: `CalculateUsage` of `k8s.io/apiserver/pkg/quota/v1`.

use std::collections::BTreeSet;
use std::sync::Arc;

use steersman_client::Decision;
use steersman_helpers::quota::{
    Amounts, ClaimCounting, Counted, DeviceCounting, PodCounting, Scopes, Tally,
};
use steersman_objects::{
    Object, ObjectKey, PersistentVolumeClaim, Pod, ResourceClaim, ResourceQuota, Service,
};
use steersman_runtime::informer::SharedInformer;
use steersman_values::clock::Clock;
use steersman_values::intern::Sym;

use super::types::{Source, Types};

/// The caches from which usage is computed.
pub(super) struct Usage {
    pub(super) types: Arc<Types>,
    pub(super) pods: SharedInformer<Pod>,
    pub(super) services: SharedInformer<Service>,
    pub(super) claims: SharedInformer<PersistentVolumeClaim>,
    pub(super) device_claims: SharedInformer<ResourceClaim>,
    pub(super) clock: Clock,
    pub(super) claim_counting: ClaimCounting,
    /// Gate `PodLevelResources`.
    pub(super) pod_level_resources: bool,
    /// Gate `InPlacePodVerticalScaling`.
    pub(super) status_resources: bool,
}

/// The result of counting.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The usage of the resources of the quota that some type counts for.
    pub(super) used: Amounts,
    /// The types that could not be counted. `used` lacks their resources.
    pub(super) failure: Option<UsageError>,
}

/// Some types could not be counted.
#[derive(Debug, thiserror::Error)]
#[error("{failures}")]
pub(super) struct UsageError {
    failures: String,
    #[source]
    decision: Decision,
}

/// The decision to keep the usage of a type whose objects are unknown.
const UNKNOWN: Decision = Decision("usage_unknown");

impl Usage {
    /// Counts the objects in the namespace of `quota`.
    ///
    /// A resource that several types count for is their sum. If one of them is unknown, the
    /// resource is left out as a whole: a partial sum would be too low.
    pub(super) fn count(&self, quota: &ResourceQuota) -> Counts {
        let scopes = Scopes::of(&quota.spec);
        let devices = self.types.devices();
        let mut used = Amounts::default();
        let mut unknown = BTreeSet::new();
        let mut failures = vec![];
        for (of, source) in self.types.all() {
            let hard = quota.spec.hard.keys();
            let Some(tally) = Tally::of(&of, hard, &scopes, &devices) else {
                continue;
            };
            let counting = Counting {
                usage: self,
                namespace: &quota.meta.namespace,
                devices: &devices,
            };
            match counting.one(&of, &source, &tally) {
                Some(amounts) => used.add(&amounts),
                None => {
                    failures.push(format!("failed to list content: {of} not yet synced"));
                    unknown.extend(tally.names().iter().copied());
                }
            }
        }
        Counts {
            used: used.only(|name| !unknown.iter().any(|unknown: &&Sym| **unknown == *name)),
            failure: UsageError::of(failures),
        }
    }
}

/// The count of one namespace.
struct Counting<'a> {
    usage: &'a Usage,
    namespace: &'a str,
    devices: &'a DeviceCounting,
}

impl Counting<'_> {
    /// The usage of one type; `None` if its objects are not known yet.
    fn one(&self, of: &Counted, source: &Source, tally: &Tally<'_>) -> Option<Amounts> {
        let counting = PodCounting {
            now: self.usage.clock.now(),
            pod_level_resources: self.usage.pod_level_resources,
            status_resources: self.usage.status_resources,
        };
        if let Source::Number(monitor) = source {
            return Some(tally.objects(of, monitor.number_in(self.namespace)?));
        }
        Some(match &*of.plural {
            "pods" => tally.pods(&self.objects(&self.usage.pods)?, counting),
            "services" => tally.services(&self.objects(&self.usage.services)?),
            "persistentvolumeclaims" => tally.claims(
                &self.objects(&self.usage.claims)?,
                self.usage.claim_counting,
            ),
            // The scheduler makes claims for the extended resources of a pod. Their usage depends
            // on the pod.
            _ => {
                let pods = self.usage.pods.store();
                let pod = |name: &str| pods.get(&ObjectKey::new(self.namespace, name));
                let claims = self.objects(&self.usage.device_claims)?;
                tally.device_claims(&claims, self.devices, pod, counting)
            }
        })
    }

    /// The objects in the namespace; `None` before the first list.
    fn objects<T: Object>(&self, informer: &SharedInformer<T>) -> Option<Vec<Arc<T>>> {
        let is_synced = informer.is_synced();
        is_synced.then(|| informer.store().in_namespace(self.namespace))
    }
}

impl UsageError {
    fn of(mut failures: Vec<String>) -> Option<Self> {
        let failures = match failures.len() {
            0 => return None,
            1 => failures.remove(0),
            _ => format!("[{}]", failures.join(", ")),
        };
        let decision = UNKNOWN;
        Some(Self { failures, decision })
    }
}
