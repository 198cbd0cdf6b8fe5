//! Devices for pods: the simulated allocation of ResourceClaims.
//!
//! claims, classes, slices (informers) -> [`Devices::fits`] per node -> [`Devices::take`] ->
//! finalizer, allocation and reservation of each claim, before the pod is bound
//!
//! A request gets the first free devices of its class that the node reaches. Of CEL selectors, only
//! `device.driver == "..."` is evaluated. Pods whose claims have other selectors, alternatives,
//! constraints or administrative access stay Pending, with the reason in their condition. Pods
//! whose claims are missing are not tried, as upstream. Devices with taints are left alone.
//!
//! Upstream: `pkg/scheduler/framework/plugins/dynamicresources`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{
    AllocatedDevice, DecodeError, Identity, Meta, Object, ObjectKey, ObjectMetadata, PodClaimName,
    ResourceClaim,
};
use steersman_runtime::informer::{Change, InformerFactory, Store};
use steersman_values::resource::{self, ResourceType};

use super::pod::SimPod;

/// The finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A ResourceSlice with the fields that allocation reads.
#[derive(Debug)]
pub(super) struct SimSlice {
    meta: Meta,
    spec: SliceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SliceSpec {
    driver: String,
    pool: Pool,
    node_name: Option<String>,
    all_nodes: bool,
    devices: Vec<PublishedDevice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pool {
    name: String,
    generation: i64,
    resource_slice_count: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PublishedDevice {
    name: String,
    taints: Vec<IgnoredAny>,
}

/// A DeviceClass with the fields that allocation reads.
#[derive(Debug)]
pub(super) struct SimDeviceClass {
    meta: Meta,
    spec: Selectors,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Selectors {
    selectors: Vec<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Selector {
    cel: Cel,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cel {
    expression: String,
}

/// The fields of a claim's spec that the controllers' view lacks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimWire {
    spec: ClaimSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimSpec {
    devices: RequestsWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestsWire {
    requests: Vec<RequestWire>,
    constraints: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestWire {
    name: String,
    exactly: Option<ExactWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExactWire {
    device_class_name: String,
    allocation_mode: String,
    count: usize,
    admin_access: bool,
    selectors: Vec<Selector>,
}

/// Decodes the metadata and the spec of an object.
fn parts<S: serde::de::DeserializeOwned>(
    json: &[u8],
    kind: &'static str,
) -> Result<(Meta, S), DecodeError> {
    #[derive(Deserialize)]
    struct Wire<S> {
        spec: S,
    }
    let wire: Wire<S> =
        serde_json::from_slice(json).map_err(|source| DecodeError::Json { kind, source })?;
    Ok((ObjectMetadata::decode(json)?.meta, wire.spec))
}

impl Object for SimSlice {
    const RESOURCE: &'static ResourceType = &resource::RESOURCE_SLICES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let (meta, spec) = parts(json, "ResourceSlice")?;
        Ok(Self { meta, spec })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Object for SimDeviceClass {
    const RESOURCE: &'static ResourceType = &resource::DEVICE_CLASSES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let (meta, spec) = parts(json, "DeviceClass")?;
        Ok(Self { meta, spec })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// A device: driver, pool and name.
type DeviceId = (String, String, String);

/// Devices with the claims that get them.
type Assumed = Arc<Mutex<HashMap<DeviceId, ObjectKey>>>;

/// Devices of one request.
#[derive(Debug)]
struct Wanted {
    request: String,
    /// The devices are of all these drivers. Two different ones therefore match no device.
    drivers: Vec<String>,
    count: usize,
}

/// The claims of a pod, and the devices that they lack.
#[derive(Debug, Default)]
pub(super) struct Plan(Vec<(Arc<ResourceClaim>, Vec<Wanted>)>);

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The reason for which a pod is not tried on nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPlan {
    /// A claim is missing or is being deleted.
    Missing,
    /// No node can take the pod; the text says why.
    Unresolvable(String),
}

/// The devices of a claim, each with the name of its request.
type Allotted = Vec<(String, DeviceId)>;

/// The devices of each claim that was not allocated yet, and the claims that were.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<(Arc<ResourceClaim>, Allotted)>);

/// The caches, and the devices of claims that the caches show without them. Clones share both.
#[derive(Clone)]
pub(super) struct Devices {
    claims: Store<ResourceClaim>,
    classes: Store<SimDeviceClass>,
    slices: Store<SimSlice>,
    assumed: Assumed,
}

impl Devices {
    /// Follows claims, classes and slices. `retry` is called when unbound pods with claims may have
    /// better prospects.
    pub(super) fn follow(
        informers: &InformerFactory,
        retry: impl Fn() + Clone + Send + Sync + 'static,
    ) -> Self {
        let claims = informers.shared::<ResourceClaim>();
        let classes = informers.shared::<SimDeviceClass>();
        let slices = informers.shared::<SimSlice>();
        let of_claims = retry.clone();
        let of_classes = retry.clone();
        let assumed = Assumed::default();
        let seen = Arc::clone(&assumed);
        claims.add_handler(move |change| {
            let is_free = |claim: &ResourceClaim| claim.status.allocation.is_none();
            let claim = change.object();
            let is_gone = matches!(change, Change::Deleted { .. });
            if is_gone || !is_free(claim) {
                // From now on the cache shows the devices.
                let mut assumed = seen.lock();
                assumed.retain(|_, of| *of != claim.key());
            }
            // An allocation helps no other pod.
            let is_allocation = match change {
                Change::Updated { old, new } => is_free(old) && !is_free(new),
                Change::Added { .. } | Change::Deleted { .. } => false,
            };
            if !is_allocation {
                of_claims();
            }
        });
        classes.add_handler(move |_| of_classes());
        slices.add_handler(move |_| retry());
        Self {
            claims: claims.store(),
            classes: classes.store(),
            slices: slices.store(),
            assumed,
        }
    }

    /// The claims of `pod`. Upstream: `PreEnqueue` and `PreFilter`.
    pub(super) fn plan(&self, pod: &SimPod) -> Result<Plan, NoPlan> {
        let mut plan = Plan::default();
        for reference in &pod.pod.spec.resource_claims {
            let name = match pod.pod.claim_name(reference) {
                PodClaimName::NotNeeded => continue,
                PodClaimName::Named(name) | PodClaimName::Generated(name) => name,
                PodClaimName::NotCreated | PodClaimName::Unsupported => {
                    return Err(NoPlan::Missing);
                }
            };
            let key = ObjectKey::new(&pod.meta().namespace, name);
            let claim = self.claims.get(&key);
            let claim = claim.filter(|claim| !claim.meta.is_terminating());
            let claim = claim.ok_or(NoPlan::Missing)?;
            let wanted = match claim.status.allocation {
                Some(_) => Vec::new(),
                None => self.wanted(&claim).map_err(NoPlan::Unresolvable)?,
            };
            plan.0.push((claim, wanted));
        }
        Ok(plan)
    }

    /// The devices that `claim` asks for.
    fn wanted(&self, claim: &ResourceClaim) -> Result<Vec<Wanted>, String> {
        let unsupported = || format!("resourceclaim {:?} needs a real scheduler", claim.meta.name);
        let wire: ClaimWire =
            serde_json::from_str(&claim.document.text()).map_err(|_| unsupported())?;
        let devices = wire.spec.devices;
        let requests = devices.requests.into_iter().map(|request| {
            let exact = request.exactly.ok_or_else(unsupported)?;
            let key = ObjectKey::new("", &exact.device_class_name);
            let class = self.classes.get(&key).ok_or_else(|| {
                let request = &request.name;
                let class = &exact.device_class_name;
                format!("request {request}: device class {class} does not exist")
            })?;
            let selectors = class.spec.selectors.iter().chain(&exact.selectors);
            let drivers = selectors.map(|selector| driver_in(&selector.cel.expression));
            let drivers: Option<Vec<String>> = drivers.map(|one| one.map(str::to_owned)).collect();
            let is_counted = matches!(&*exact.allocation_mode, "" | "ExactCount");
            if !is_counted || exact.admin_access || !devices.constraints.is_empty() {
                return Err(unsupported());
            }
            Ok(Wanted {
                request: request.name,
                drivers: drivers.ok_or_else(unsupported)?,
                count: exact.count.max(1),
            })
        });
        requests.collect()
    }

    /// Whether `node` has free devices for all claims of `plan`, and reaches those that they have.
    pub(super) fn fits(&self, plan: &Plan, node: &str) -> bool {
        plan.0.is_empty() || self.choose(plan, node, &self.assumed()).is_some()
    }

    /// Takes the devices of `plan` on `node`. `None` if another pod was faster.
    pub(super) fn take(&self, plan: &Plan, node: &str) -> Option<Taken> {
        let mut assumed = self.assumed();
        let taken = self.choose(plan, node, &assumed)?;
        for (claim, devices) in &taken.0 {
            let devices = devices
                .iter()
                .map(|(_, device)| (device.clone(), claim.key()));
            assumed.extend(devices);
        }
        Some(taken)
    }

    /// Gives devices back, because their claims could not be allocated.
    pub(super) fn release(&self, taken: &Taken) {
        let mut assumed = self.assumed();
        let devices = taken.0.iter().flat_map(|(_, devices)| devices);
        devices.for_each(|(_, device)| drop(assumed.remove(device)));
    }

    /// Writes the allocation and the reservation of all claims of a pod.
    pub(super) async fn allocate(
        &self,
        client: &ApiClient,
        pod: &SimPod,
        node: &str,
        taken: &Taken,
    ) -> Result<(), ApiError> {
        let Meta { name, uid, .. } = pod.meta();
        for (claim, devices) in &taken.0 {
            if claim.status.is_reserved_for(uid) {
                continue;
            }
            let document = Value::Object(claim.document.to_object());
            let target = Target::of::<ResourceClaim>(&claim.meta);
            let mut version = claim.meta.resource_version;
            let mut status = json!({});
            if !devices.is_empty() {
                let mut finalizers = items(&document["metadata"]["finalizers"]);
                if !finalizers.contains(&json!(FINALIZER)) {
                    finalizers.push(json!(FINALIZER));
                    let version_text = version.to_string();
                    let metadata =
                        json!({"resourceVersion": version_text, "finalizers": finalizers});
                    let change = json!({ "metadata": metadata });
                    let patched = client.patch(target, PatchKind::Merge, &change).await?;
                    let patched = Identity::decode(&patched);
                    let patched = patched.map_err(|source| ApiError::Decode {
                        request: format!("PATCH resourceclaim {}", claim.key()),
                        source: Box::new(source),
                    })?;
                    version = patched.resource_version;
                }
                status["allocation"] = allocation(devices, node);
            }
            let mut consumers = items(&document["status"]["reservedFor"]);
            consumers.push(json!({"resource": "pods", "name": name, "uid": uid.to_string()}));
            status["reservedFor"] = Value::Array(consumers);
            let change =
                json!({"metadata": {"resourceVersion": version.to_string()}, "status": status});
            client
                .patch(target.status(), PatchKind::Merge, &change)
                .await?;
        }
        Ok(())
    }

    /// The devices of `plan` on `node`, beside those in `assumed`.
    fn choose(
        &self,
        plan: &Plan,
        node: &str,
        assumed: &HashMap<DeviceId, ObjectKey>,
    ) -> Option<Taken> {
        let slices = self.slices.list();
        let reachable = reachable(&slices, node);
        let mut used: HashSet<DeviceId> = assumed.keys().cloned().collect();
        for claim in self.claims.list() {
            used.extend(devices_of(&claim).map(id));
        }
        let mut taken = Vec::new();
        for (claim, wanted) in &plan.0 {
            let is_there = |device: &AllocatedDevice| {
                let mut slices = reachable.iter();
                slices
                    .any(|slice| slice.driver == *device.driver && slice.pool.name == *device.pool)
            };
            if !devices_of(claim).all(is_there) {
                return None;
            }
            let mut devices = Vec::new();
            for Wanted {
                request,
                drivers,
                count,
            } in wanted
            {
                let of_drivers = reachable
                    .iter()
                    .filter(|slice| drivers.iter().all(|driver| *driver == slice.driver));
                let ids = of_drivers.flat_map(|slice| {
                    let healthy = slice
                        .devices
                        .iter()
                        .filter(|device| device.taints.is_empty());
                    healthy.map(|device| {
                        (
                            slice.driver.clone(),
                            slice.pool.name.clone(),
                            device.name.clone(),
                        )
                    })
                });
                let free: Vec<DeviceId> =
                    ids.filter(|id| !used.contains(id)).take(*count).collect();
                if free.len() < *count {
                    return None;
                }
                used.extend(free.iter().cloned());
                devices.extend(free.into_iter().map(|id| (request.clone(), id)));
            }
            taken.push((Arc::clone(claim), devices));
        }
        Some(Taken(taken))
    }

    fn assumed(&self) -> MutexGuard<'_, HashMap<DeviceId, ObjectKey>> {
        self.assumed.lock()
    }
}

/// The slices that `node` reaches, of complete pools in their newest generation, by name.
fn reachable<'a>(slices: &'a [Arc<SimSlice>], node: &str) -> Vec<&'a SliceSpec> {
    let mut pools: HashMap<(&str, &str), (i64, usize)> = HashMap::new();
    for SliceSpec { driver, pool, .. } in slices.iter().map(|slice| &slice.spec) {
        let newest = pools
            .entry((driver.as_str(), pool.name.as_str()))
            .or_default();
        match pool.generation.cmp(&newest.0) {
            std::cmp::Ordering::Greater => *newest = (pool.generation, 1),
            std::cmp::Ordering::Equal => newest.1 += 1,
            std::cmp::Ordering::Less => {}
        }
    }
    let mut all: Vec<&SimSlice> = slices.iter().map(|slice| &**slice).collect();
    all.sort_by(|one, other| one.meta.name.cmp(&other.meta.name));
    let usable = all.into_iter().map(|slice| &slice.spec).filter(|spec| {
        let (generation, count) = pools[&(&*spec.driver, &*spec.pool.name)];
        let is_current = spec.pool.generation == generation;
        let is_complete = count >= spec.pool.resource_slice_count;
        let is_near = spec.all_nodes || spec.node_name.as_deref() == Some(node);
        is_current && is_complete && is_near
    });
    usable.collect()
}

/// The driver in the expression `device.driver == "..."`. `None` for any other expression.
fn driver_in(expression: &str) -> Option<&str> {
    let rest = expression
        .trim()
        .strip_prefix("device.driver")?
        .trim_start();
    let text = rest.strip_prefix("==")?.trim_start();
    let quote = text
        .chars()
        .next()
        .filter(|quote| matches!(quote, '"' | '\''))?;
    let name = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!name.contains([quote, '\\'])).then_some(name)
}

fn devices_of(claim: &ResourceClaim) -> impl Iterator<Item = &AllocatedDevice> {
    let allocation = claim.status.allocation.iter();
    allocation.flat_map(|allocation| &allocation.devices.results)
}

fn id(device: &AllocatedDevice) -> DeviceId {
    let AllocatedDevice {
        driver,
        pool,
        device,
        ..
    } = device;
    (driver.to_string(), pool.to_string(), device.to_string())
}

/// `allocation` of a claim with these devices, all of which `node` reaches.
fn allocation(devices: &[(String, DeviceId)], node: &str) -> Value {
    let result = |(request, (driver, pool, device)): &(String, DeviceId)| json!({"request": request, "driver": driver, "pool": pool, "device": device});
    let results: Vec<Value> = devices.iter().map(result).collect();
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    })
}

fn items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_selectors_of_a_driver_are_evaluated() {
        // (expression, driver)
        let cases = [
            (
                r#"device.driver == "gpu.example.com""#,
                Some("gpu.example.com"),
            ),
            (
                " device.driver=='gpu.example.com' ",
                Some("gpu.example.com"),
            ),
            (r#"device.driver != "gpu.example.com""#, None),
            (r#"device.driver == "a" || true"#, None),
            (r#"device.driver == "a" || device.driver == "b""#, None),
            (r#"device.attributes["a"].model == "x""#, None),
            ("device.driver == \"", None),
            ("true", None),
        ];
        for (expression, driver) in cases {
            assert_eq!(driver_in(expression), driver, "{expression}");
        }
    }
}
