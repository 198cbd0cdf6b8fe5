//! Special cases of Services: allocation of cluster IPs and ports.
//!
//! old and new spec -> fields that the update keeps -> reservation of new numbers -> validation ->
//! commit
//!
//! Upstream is `pkg/registry/core/service/storage` and `pkg/registry/core/service/strategy.go`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Map, Value, json};
use steersman_values::cidr::Cidr;

use super::address::{Full, Holdings, PORTS, Reservation, Unavailable};
use super::{Server, metadata, service_families};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::status::{Qualified, Status};
use crate::store::Object;

impl Server {
    /// Allocates the addresses and ports that a Service lacks. They stay reserved until the caller
    /// drops the result.
    pub(super) fn reserve(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Reservation<'_>, Status> {
        if let Some(old) = old {
            keep(object, old);
        }
        let name = metadata::text(object, "name").to_owned();
        let invalid = |errors: &[FieldError]| {
            let kind = Qualified {
                group: "",
                name: "Service",
            };
            Status::invalid(kind, &name, errors)
        };
        service_families::link_addresses(object, old);
        let errors = service_families::complete(self.release(), object, old);
        if !errors.is_empty() {
            return Err(invalid(&errors));
        }
        let reserved = reserve(self.addresses.reserve(dry_run), object, old);
        if let Some(old) = old {
            drop_fields_of_other_types(object, old);
        }
        reserved.map_err(|refusal| match refusal {
            Refusal::Wrong(field, value, why) => {
                let error = FieldError {
                    field,
                    problem: Problem::Invalid(value, why),
                };
                invalid(&[error])
            }
            Refusal::Full(why) => Status::internal(why),
        })
    }

    /// Updates the allocations after a commit of any object.
    pub(crate) fn hand_over(
        &self,
        resource: &Resource,
        old: Option<&Object>,
        new: Option<&Object>,
    ) {
        if resource.is("Service") {
            let holdings =
                |object: Option<&Object>| object.map_or_else(Holdings::default, Holdings::of);
            self.addresses.change(&holdings(old), &holdings(new));
        }
    }
}

impl Holdings {
    /// The allocated numbers of a stored Service.
    pub(crate) fn of(service: &Object) -> Self {
        Self::of_spec(&service.to_value()["spec"])
    }

    fn of_spec(spec: &Value) -> Self {
        let list = spec["clusterIPs"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let listed = if list.is_empty() {
            std::slice::from_ref(&spec["clusterIP"])
        } else {
            list
        };
        let addresses = listed
            .iter()
            .filter_map(|address| address.as_str()?.parse().ok())
            .collect();
        let mut ports: Vec<u32> = node_ports(spec).collect();
        ports.extend(spec["healthCheckNodePort"].as_u64().and_then(number));
        ports.sort_unstable();
        ports.dedup();
        Self { addresses, ports }
    }
}

fn number(value: u64) -> Option<u32> {
    u32::try_from(value).ok().filter(|number| *number > 0)
}

/// The chosen node ports of a spec.
fn node_ports(spec: &Value) -> impl Iterator<Item = u32> {
    spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(node_port)
}

fn node_port(port: &Value) -> Option<u32> {
    port["nodePort"].as_u64().and_then(number)
}

fn kind_of(spec: &Value) -> &str {
    spec["type"].as_str().unwrap_or("ClusterIP")
}

fn has_address(spec: &Value) -> bool {
    kind_of(spec) != "ExternalName"
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(kind_of(spec), "NodePort" | "LoadBalancer")
}

/// Whether clients outside of the cluster reach the Service.
fn is_reachable(spec: &Value) -> bool {
    let addresses = spec["externalIPs"].as_array();
    has_node_ports(spec)
        || kind_of(spec) == "ClusterIP" && addresses.is_some_and(|addresses| !addresses.is_empty())
}

fn has_health_port(spec: &Value) -> bool {
    kind_of(spec) == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Copies allocated values that the client omits from the old Service (upstream's
/// `patchAllocatedValues`).
fn keep(service: &mut Value, old: &Value) {
    let old = &old["spec"];
    let (address, ports, health) = {
        let new = &service["spec"];
        let both = |has: fn(&Value) -> bool| has(old) && has(new);
        (
            both(has_address),
            both(has_node_ports),
            both(has_health_port),
        )
    };
    let kept: Vec<u32> = node_ports(old)
        .filter(|port| node_ports(&service["spec"]).any(|new| new == *port))
        .collect();
    let Some(spec) = service["spec"].as_object_mut() else {
        return;
    };
    let mut missing: Vec<&str> = Vec::new();
    if address {
        let is_unlisted = spec.get("clusterIPs").and_then(Value::as_array);
        let is_unlisted = is_unlisted.is_none_or(Vec::is_empty);
        let is_unset = spec.get("clusterIP").and_then(Value::as_str);
        let is_unset = is_unset.is_none_or(str::is_empty);
        missing.extend(is_unset.then_some("clusterIP"));
        missing.extend(is_unlisted.then_some("clusterIPs"));
    }
    if health
        && spec
            .get("healthCheckNodePort")
            .and_then(Value::as_u64)
            .unwrap_or_default()
            == 0
    {
        missing.push("healthCheckNodePort");
    }
    for field in missing {
        if let Some(value) = old.get(field) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    if !ports {
        return;
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter(|port| node_port(port).is_none())
    {
        let same_name = |old: &&Value| old["name"] == port["name"];
        let before = old["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .rfind(same_name)
            .and_then(node_port);
        if let Some(number) = before.filter(|number| !kept.contains(number)) {
            port["nodePort"] = Value::from(number);
        }
    }
}

/// Removes the fields that the new type does not have, if the client left them unchanged
/// (upstream's `dropTypeDependentFields`).
fn drop_fields_of_other_types(service: &mut Value, old: &Value) {
    let new = &service["spec"];
    let old = &old["spec"];
    let lost = |has: fn(&Value) -> bool| has(old) && !has(new);
    let same = |field: &str| new.get(field) == old.get(field);
    let mut removed: Vec<&str> = Vec::new();
    if lost(has_address) {
        if same("clusterIP") && same("clusterIPs") {
            removed.extend(["clusterIP", "clusterIPs"]);
        }
        removed.extend(
            ["ipFamilies", "ipFamilyPolicy"]
                .into_iter()
                .filter(|field| same(field)),
        );
    }
    if lost(has_health_port) && same("healthCheckNodePort") {
        removed.push("healthCheckNodePort");
    }
    if lost(|spec| kind_of(spec) == "LoadBalancer") {
        removed.extend(
            ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
                .into_iter()
                .filter(|field| same(field)),
        );
    }
    if lost(is_reachable) && same("externalTrafficPolicy") {
        removed.push("externalTrafficPolicy");
    }
    let no_port_is_new = node_ports(new).all(|port| node_ports(old).any(|known| known == port));
    let ports_go = lost(has_node_ports) && no_port_is_new;
    let is_balanced = kind_of(new) == "LoadBalancer";
    if let Some(spec) = service["spec"].as_object_mut() {
        removed
            .into_iter()
            .for_each(|field| drop(spec.remove(field)));
        if ports_go {
            let ports = spec
                .get_mut("ports")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten();
            ports
                .filter_map(Value::as_object_mut)
                .for_each(|port| drop(port.remove("nodePort")));
        }
    }
    if !is_balanced && service["status"].is_object() {
        service["status"]["loadBalancer"] = json!({});
    }
}

/// The reason why an allocation failed.
enum Refusal {
    Wrong(String, Value, String),
    Full(String),
}

/// Reserves the numbers of a Service that `old` does not hold already.
fn reserve<'a>(
    mut reservation: Reservation<'a>,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<Reservation<'a>, Refusal> {
    let held = old.map_or_else(Holdings::default, |old| Holdings::of_spec(&old["spec"]));
    let wants_address = has_address(&service["spec"]);
    let wants_ports = has_node_ports(&service["spec"]);
    let wants_health_port = has_health_port(&service["spec"]);
    // A load balancer may need no node ports. Ports that its spec names are allocated in any case.
    let allocates = kind_of(&service["spec"]) == "NodePort"
        || service["spec"]["allocateLoadBalancerNodePorts"] != false;
    let Some(spec) = service["spec"].as_object_mut() else {
        return Ok(reservation);
    };
    if wants_address {
        reserve_address(&mut reservation, spec, &held)?;
    }
    if wants_ports && let Some(ports) = spec.get_mut("ports").and_then(Value::as_array_mut) {
        reserve_ports(&mut reservation, ports, &held, allocates, old.is_none())?;
    }
    if wants_health_port {
        reserve_health_port(&mut reservation, spec, &held)?;
    }
    Ok(reservation)
}

/// Reserves the cluster IP: none if headless, the requested one, or the next free one.
fn reserve_address(
    reservation: &mut Reservation<'_>,
    spec: &mut Map<String, Value>,
    held: &Holdings,
) -> Result<(), Refusal> {
    const FIELD: &str = "spec.clusterIPs";
    let given = spec
        .get("clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let address = match given.as_str() {
        "None" => given,
        "" => {
            let full =
                |Full| Refusal::Full("failed to allocate a serviceIP: range is full".to_owned());
            reservation.next_address().map_err(full)?.to_string()
        }
        _ => {
            let parsed: IpAddr = given.parse().map_err(|_| {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                Refusal::Wrong(
                    format!("{FIELD}[0]"),
                    Value::from(given.as_str()),
                    why.to_owned(),
                )
            })?;
            let IpAddr::V4(wanted) = parsed else {
                let why = "IPv6 is not configured on this cluster".to_owned();
                return Err(Refusal::Wrong(format!("{FIELD}[0]"), json!([given]), why));
            };
            if !held.addresses.contains(&wanted) {
                let range = reservation.range();
                reservation
                    .address(wanted)
                    .map_err(|why| refused_address(FIELD, wanted, range, &why))?;
            }
            given
        }
    };
    let listed = spec.get("clusterIPs").and_then(Value::as_array);
    if listed.is_none_or(Vec::is_empty) {
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
    spec.insert("clusterIP".to_owned(), Value::from(address));
    Ok(())
}

fn refused_address(field: &str, wanted: Ipv4Addr, range: Cidr, why: &Unavailable) -> Refusal {
    let why = match why {
        Unavailable::Held => "provided IP is already allocated".to_owned(),
        Unavailable::Elsewhere => {
            "the provided network does not match the current range".to_owned()
        }
        Unavailable::OutOfRange => {
            format!(
                "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {range}"
            )
        }
    };
    Refusal::Wrong(
        field.to_owned(),
        json!([wanted]),
        format!("failed to allocate IP {wanted}: {why}"),
    )
}

/// Allocates node ports. Equal ports of several protocols share one number in a new Service.
fn reserve_ports(
    reservation: &mut Reservation<'_>,
    ports: &mut [Value],
    held: &Holdings,
    allocates: bool,
    shares_ports: bool,
) -> Result<(), Refusal> {
    let mut by_port: HashMap<Value, u32> = HashMap::new();
    for (index, port) in ports.iter().enumerate() {
        let Some(wanted) = node_port(port) else {
            continue;
        };
        if !held.ports.contains(&wanted) {
            reservation.port(wanted).map_err(|why| {
                let why = match why {
                    Unavailable::Held => "provided port is already allocated".to_owned(),
                    Unavailable::Elsewhere | Unavailable::OutOfRange => {
                        let first = PORTS.start();
                        let last = PORTS.end();
                        format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
                    }
                };
                Refusal::Wrong(format!("spec.ports[{index}].nodePort"), Value::from(wanted), why)
            })?;
        }
        by_port.entry(port["port"].clone()).or_insert(wanted);
    }
    for port in ports
        .iter_mut()
        .filter(|port| allocates && node_port(port).is_none())
    {
        let shared = by_port.get(&port["port"]).copied().filter(|_| shares_ports);
        let chosen = shared.map_or_else(
            || reservation.next_port().map_err(|Full| no_port_left()),
            Ok,
        )?;
        by_port.entry(port["port"].clone()).or_insert(chosen);
        port["nodePort"] = Value::from(chosen);
    }
    Ok(())
}

/// Reserves the port of health checks, which load balancers with local traffic have.
fn reserve_health_port(
    reservation: &mut Reservation<'_>,
    spec: &mut Map<String, Value>,
    held: &Holdings,
) -> Result<(), Refusal> {
    match spec
        .get("healthCheckNodePort")
        .and_then(Value::as_u64)
        .and_then(number)
    {
        None => {
            let port = reservation.next_port().map_err(|Full| no_port_left())?;
            spec.insert("healthCheckNodePort".to_owned(), Value::from(port));
        }
        Some(wanted) if !held.ports.contains(&wanted) => {
            let unavailable = |_| {
                Refusal::Full(format!(
                    "failed to allocate requested HealthCheck NodePort {wanted}"
                ))
            };
            reservation.port(wanted).map_err(unavailable)?;
        }
        Some(_) => {}
    }
    Ok(())
}

fn no_port_left() -> Refusal {
    Refusal::Full("failed to allocate a nodePort: range is full".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::address::Addresses;
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"kind": "Service", "metadata": {"name": "s"}, "spec": spec})
    }

    /// The spec of `new` after it replaced `old`, in a cluster without other Services.
    fn updated(old: &Value, new: Value) -> Value {
        let addresses = Addresses::default();
        let mut old = service(old.clone());
        let reserved = reserve(addresses.reserve(false), &mut old, None)
            .ok()
            .expect("the range has free numbers");
        addresses.change(&Holdings::default(), &Holdings::of_spec(&old["spec"]));
        drop(reserved);
        let mut new = service(new);
        keep(&mut new, &old);
        let _reserved = reserve(addresses.reserve(false), &mut new, Some(&old))
            .ok()
            .expect("the range has free numbers");
        drop_fields_of_other_types(&mut new, &old);
        new["spec"].take()
    }

    #[test]
    fn an_update_keeps_allocated_values_and_drops_fields_of_the_old_type() {
        let plain = json!({"type": "ClusterIP", "ports": [{"port": 80}]});
        let open = json!({"type": "NodePort", "externalTrafficPolicy": "Cluster", "ports": [{"port": 80}]});
        let first = json!({"clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2"]});
        let with = |base: &Value, more: Value| {
            let mut spec = base.clone();
            spec.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            spec
        };
        // (why, old, new, expected)
        let cases = [
            (
                "the address is kept",
                &plain,
                plain.clone(),
                with(&plain, first.clone()),
            ),
            (
                "the node port is kept",
                &open,
                open.clone(),
                with(
                    &with(&open, first.clone()),
                    json!({"ports": [{"port": 80, "nodePort": 30000}]}),
                ),
            ),
            (
                "from ClusterIP to NodePort",
                &plain,
                open.clone(),
                with(
                    &with(&open, first.clone()),
                    json!({"ports": [{"port": 80, "nodePort": 30000}]}),
                ),
            ),
            (
                "from NodePort to ClusterIP",
                &open,
                json!({"type": "ClusterIP", "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30000}]}),
                with(&plain, first.clone()),
            ),
            (
                "an ExternalName has no address",
                &plain,
                with(
                    &first,
                    json!({"type": "ExternalName", "externalName": "x.test"}),
                ),
                json!({"type": "ExternalName", "externalName": "x.test"}),
            ),
            (
                "one port is added",
                &open,
                with(
                    &open,
                    json!({"ports": [{"name": "", "port": 80, "nodePort": 30000}, {"name": "b", "port": 81}]}),
                ),
                with(
                    &with(&open, first.clone()),
                    json!({"ports": [{"name": "", "port": 80, "nodePort": 30000}, {"name": "b", "port": 81, "nodePort": 30001}]}),
                ),
            ),
        ];
        for (why, old, new, expected) in cases {
            assert_eq!(updated(old, new), expected, "{why}");
        }
    }

    #[test]
    fn a_new_service_has_one_node_port_for_a_port_of_two_protocols() {
        let addresses = Addresses::default();
        let dns =
            json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80}]);
        let mut service = service(json!({"type": "NodePort", "ports": dns}));
        let _reserved = reserve(addresses.reserve(false), &mut service, None)
            .ok()
            .unwrap();
        assert_eq!(
            node_ports(&service["spec"]).collect::<Vec<_>>(),
            [30000, 30000, 30001]
        );
        assert_eq!(Holdings::of_spec(&service["spec"]).ports, [30000, 30001]);
    }

    #[test]
    fn a_load_balancer_with_local_traffic_has_a_health_check_port() {
        let addresses = Addresses::default();
        let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false,
            "ports": [{"port": 80}]});
        let mut service = service(spec);
        let _reserved = reserve(addresses.reserve(false), &mut service, None)
            .ok()
            .unwrap();
        assert_eq!(Holdings::of_spec(&service["spec"]).ports, [30000]);
        assert!(service["spec"]["ports"][0].get("nodePort").is_none());
    }
}
