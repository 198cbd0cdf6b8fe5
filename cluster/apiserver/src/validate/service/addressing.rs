//! Cluster IPs and IP families of Services.
//!
//! Upstream: `ValidateServiceClusterIPsRelatedFields`, `validateUpgradeDowngradeClusterIPs` and
//! `validateUpgradeDowngradeIPFamilies`.

use std::collections::HashSet;

use serde_json::Value;

use super::super::errors::{Errors, list, text};
use super::SPEC;
use crate::apimachinery::addresses;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const IPS: &str = "spec.clusterIPs";
const FIXED: &str = "may not change once set";

/// Whether clients of a Service reach its pods directly.
pub(super) fn is_headless(spec: &Value) -> bool {
    matches!(list(spec, "clusterIPs"), [ip] if ip == "None")
}

/// Checks cluster IPs and families.
pub(super) fn check(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let ips = list(spec, "clusterIPs");
    let shown = || Value::Array(ips.to_vec());
    let first = text(spec, "clusterIP");
    if first.is_empty() {
        if !ips.is_empty() {
            errors.invalid(
                IPS,
                shown(),
                "must be empty when `clusterIP` is not specified",
            );
        }
    } else if ips.is_empty() {
        errors.required(IPS, "");
    } else if ips[0] != first {
        errors.invalid(IPS, shown(), "first value must match `clusterIP`");
    }
    families(spec, errors);
    let known = old.map_or(&[][..], |old| list(&old["spec"], "clusterIPs"));
    let before = errors.len();
    let path = SPEC.child("clusterIPs");
    for (index, ip) in ips.iter().enumerate() {
        let text = ip.as_str().unwrap_or_default();
        if index == 0 && text == "None" {
            if ips.len() > 1 {
                errors.invalid(IPS, shown(), "'None' must be the first and only value");
            }
        } else if !known.contains(ip) {
            addresses::check(path.index(index), text, errors);
        }
    }
    let all_valid = errors.len() == before;
    if ips.len() > 2 {
        errors.invalid(IPS, shown(), "may only hold up to 2 values");
    }
    if !all_valid {
        return;
    }
    if ips.len() > 1 && !addresses::is_dual_stack(ips.iter().filter_map(Value::as_str)) {
        errors.invalid(
            IPS,
            shown(),
            "may specify no more than one IP for each IP family",
        );
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.iter().zip(list(spec, "ipFamilies")).enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        let family = family.as_str().unwrap_or_default();
        let is_v6 = addresses::sloppy(ip).is_some_and(|ip| ip.is_ipv6());
        if FAMILIES.contains(&family) && is_v6 != (family == "IPv6") {
            let detail =
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(path.index(index), ip, detail);
        }
    }
}

fn families(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("ipFamilies");
    let mut seen = HashSet::new();
    for (index, family) in list(spec, "ipFamilies").iter().enumerate() {
        let family = family.as_str().unwrap_or_default();
        errors.one_of(path.index(index), family, &FAMILIES);
        if !seen.insert(family) {
            errors.duplicate(path.index(index), family);
        }
    }
    if let Some(policy) = spec["ipFamilyPolicy"].as_str() {
        errors.one_of("spec.ipFamilyPolicy", policy, &POLICIES);
    }
}

/// Checks the changes of an update. The second IP and family can come and go.
pub(super) fn update(spec: &Value, before: &Value, errors: &mut Errors) {
    if [spec, before]
        .iter()
        .any(|spec| text(spec, "type") == "ExternalName")
    {
        return;
    }
    let now = is_headless(spec);
    let was = is_headless(before);
    if now && was {
        return;
    }
    cluster_ips(spec, before, errors);
    if !now && !was {
        ip_families(spec, before, errors);
    }
}

/// Without the second entry, the policy must say so.
fn released(spec: &Value, what: &str, errors: &mut Errors) {
    if spec["ipFamilyPolicy"] != "SingleStack" {
        errors.invalid(
            "spec.ipFamilyPolicy",
            spec["ipFamilyPolicy"].clone(),
            format!("must be set to 'SingleStack' when releasing the secondary {what}"),
        );
    }
}

fn cluster_ips(spec: &Value, before: &Value, errors: &mut Errors) {
    let ips = list(spec, "clusterIPs");
    let old = list(before, "clusterIPs");
    let shown = || spec["clusterIPs"].clone();
    let first = SPEC.child("clusterIPs");
    let first = first.index(0);
    let first_differs = old
        .first()
        .is_some_and(|ip| ips.first().is_some_and(|now| now != ip));
    if ips.len() == old.len() {
        let path = SPEC.child("clusterIPs");
        for (index, _) in ips
            .iter()
            .zip(old)
            .enumerate()
            .filter(|(_, (now, old))| now != old)
        {
            errors.invalid(path.index(index), shown(), FIXED);
        }
        return;
    }
    if old.len() > ips.len() && ips.is_empty() {
        errors.invalid(first, shown(), "primary clusterIP can not be unset");
    }
    if first_differs {
        errors.invalid(first, shown(), FIXED);
    }
    if old.len() > ips.len() && ips.len() == 1 {
        released(spec, "clusterIP", errors);
    }
}

fn ip_families(spec: &Value, before: &Value, errors: &mut Errors) {
    const FIRST: &str = "spec.ipFamilies[0]";
    let families = list(spec, "ipFamilies");
    let old = list(before, "ipFamilies");
    if families.len() == old.len() {
        for _ in families.iter().zip(old).filter(|(now, old)| now != old) {
            errors.invalid(FIRST, families.to_vec(), FIXED);
        }
        return;
    }
    let first_differs = old
        .first()
        .is_some_and(|family| families.first().is_some_and(|now| now != family));
    if old.len() > families.len() && list(spec, "clusterIPs").is_empty() {
        errors.invalid(
            FIRST,
            spec["ipFamilies"].clone(),
            "primary ipFamily can not be unset",
        );
    }
    if first_differs {
        // Upstream shows the cluster IPs here.
        errors.invalid(FIRST, spec["clusterIPs"].clone(), FIXED);
    }
    if old.len() > families.len() && families.len() == 1 {
        released(spec, "ipFamily", errors);
    }
}
