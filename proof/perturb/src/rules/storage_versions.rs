//! Rules of the controllers of storage versions.

use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// The garbage collector keeps the entries of API servers with a Lease.
pub const LIVE_SERVERS: Rule = Rule {
    name: "no API server with a Lease loses its entry",
    check: live_servers,
};
/// Two migrations of one resource never run at the same time.
pub const ONE_MIGRATION: Rule = Rule {
    name: "one migration of a resource runs at a time",
    check: one_migration,
};

fn servers(version: &Value) -> impl Iterator<Item = &str> {
    let entries = version["status"]["storageVersions"].as_array();
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["apiServerID"].as_str())
}

fn live_servers(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "storageversions" || !change.is_by("storage-version-garbage-collector") {
        return Ok(());
    }
    let is_kept = |server: &str| {
        change.kind != ChangeKind::Deleted && servers(&change.object).any(|kept| kept == server)
    };
    let before = change.before.as_deref();
    let mut removed = before.into_iter().flat_map(servers);
    let live = removed.find(|server| {
        !is_kept(server)
            && state
                .get("leases", &format!("kube-system/{server}"))
                .is_some()
    });
    match live {
        Some(server) => Err(format!("{} lost the entry of {server}", change.key)),
        None => Ok(()),
    }
}

fn has(migration: &Value, kind: &str) -> bool {
    let conditions = migration["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Whether the migration is admitted and has no result.
fn is_active(migration: &Value) -> bool {
    has(migration, "Running") && !has(migration, "Succeeded") && !has(migration, "Failed")
}

fn one_migration(state: &State, change: &Change) -> Result<(), String> {
    let migration = &*change.object;
    if &*change.plural != "storageversionmigrations" || !is_active(migration) {
        return Ok(());
    }
    let name = &migration["metadata"]["name"];
    let resource = &migration["spec"]["resource"];
    let mut all = state.all("storageversionmigrations");
    let other = all.find(|other| {
        other["metadata"]["name"] != *name
            && other["spec"]["resource"] == *resource
            && is_active(other)
    });
    match other {
        Some(other) => Err(format!("{name} runs beside {}", other["metadata"]["name"])),
        None => Ok(()),
    }
}
