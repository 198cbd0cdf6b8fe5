//! The sum of the usage of all objects of one type, for one quota.
//!
//! Upstream: `CalculateUsageStats` of `k8s.io/apiserver/pkg/quota/v1/generic`.

use std::sync::Arc;

use steersman_objects::{PersistentVolumeClaim, Pod, ResourceClaim, Service};
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;
use super::claims::{ClaimCounting, claim_usage};
use super::counted::{Counted, object_count};
use super::devices::{
    DeviceCounting, device_usage, is_extended_resource_claim_of, pod_of_extended_resources,
};
use super::pods::{PodCounting, TemplateUsage, pod_usage};
use super::scopes::{Scoped, Scopes};
use super::services::service_usage;

/// The part of one type in a quota: the resources of the quota that the type counts for, and the
/// scopes. A resource without objects is 0.
#[derive(Debug)]
pub struct Tally<'a> {
    names: Vec<&'a Sym>,
    scopes: &'a Scopes,
}

impl<'a> Tally<'a> {
    /// The part of `counted` in a quota with the resources `hard`. `None` if the type counts for none
    /// of them.
    pub fn of(
        counted: &Counted,
        hard: impl IntoIterator<Item = &'a Sym>,
        scopes: &'a Scopes,
        devices: &DeviceCounting,
    ) -> Option<Self> {
        let names = hard.into_iter();
        let names: Vec<_> = names
            .filter(|name| counted.handles(name, devices))
            .collect();
        (!names.is_empty()).then_some(Self { names, scopes })
    }

    /// The resources that the type counts for.
    pub fn names(&self) -> &[&'a Sym] {
        &self.names
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| **known == *name)
    }

    /// Sums over `objects` with `add`, which adds the usage of one object.
    fn sum<T>(
        &self,
        objects: impl IntoIterator<Item = T>,
        scoped: impl Fn(&T) -> Scoped<'_>,
        mut add: impl FnMut(&mut Amounts, &T),
    ) -> Amounts {
        let zeros = self.names.iter();
        let zeros = zeros.map(|name| ((*name).clone(), Quantity::whole(0)));
        let mut total: Amounts = zeros.collect();
        for object in objects {
            match self.scopes.select(scoped(&object)) {
                Ok(true) => add(&mut total, &object),
                Ok(false) => {}
                // As upstream: a malformed selector ends the sum without an error.
                Err(_malformed) => break,
            }
        }
        total.only(|name| self.has(name))
    }

    /// The usage of the pods of a namespace.
    pub fn pods(&self, pods: &[Arc<Pod>], counting: PodCounting) -> Amounts {
        let mut templates = TemplateUsage::new(counting, |name| self.has(name));
        self.sum(
            pods,
            |pod| Scoped::Pod(pod),
            |total, pod| templates.add(total, pod),
        )
    }

    /// The usage of the Services of a namespace.
    pub fn services(&self, services: &[Arc<Service>]) -> Amounts {
        self.sum(
            services,
            |_| Scoped::Other,
            |total, service| total.add(&service_usage(service)),
        )
    }

    /// The usage of the PersistentVolumeClaims of a namespace.
    pub fn claims(
        &self,
        claims: &[Arc<PersistentVolumeClaim>],
        counting: ClaimCounting,
    ) -> Amounts {
        self.sum(
            claims,
            |claim| Scoped::of_claim(claim, counting),
            |total, claim| total.add(&claim_usage(claim, counting)),
        )
    }

    /// The usage of the claims for devices of a namespace. `pod` finds a pod of the namespace by name.
    pub fn device_claims(
        &self,
        claims: &[Arc<ResourceClaim>],
        devices: &DeviceCounting,
        pod: impl Fn(&str) -> Option<Arc<Pod>>,
        counting: PodCounting,
    ) -> Amounts {
        let of_pod = |claim: &ResourceClaim| {
            pod_of_extended_resources(claim)?;
            let pod = pod(&claim.meta.controller()?.name)?;
            let others = claims.iter().map(|other| &**other);
            let is_own = is_extended_resource_claim_of(claim, &pod, others);
            is_own.then(|| pod_usage(&pod, counting))
        };
        self.sum(
            claims,
            |_| Scoped::Other,
            |total, claim| total.add(&device_usage(claim, devices, of_pod(claim).as_ref())),
        )
    }

    /// The usage of `number` objects of a type without further rules.
    pub fn objects(&self, counted: &Counted, number: usize) -> Amounts {
        let one = object_count(counted);
        self.sum(0..number, |_| Scoped::Other, |total, _| total.add(&one))
    }
}
