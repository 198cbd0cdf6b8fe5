//! The graph as a picture, in Graphviz's language, to the letter of upstream's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use steersman_runtime::object::Uid;

use super::coordinates::{Coordinates, split_api_version};
use super::graph::Graph;

struct Vertex {
    coordinates: Coordinates,
    missing: bool,
    being_deleted: bool,
    deleting_dependents: bool,
    is_virtual: bool,
}

/// All that owns or is owned; with `around`, what is connected to these UIDs.
pub(super) fn graphviz(graph: &Graph, around: &[Uid]) -> String {
    let mut vertices: BTreeMap<String, Vertex> = BTreeMap::new();
    let mut edges: BTreeSet<(String, String)> = BTreeSet::new();
    let mut missing: BTreeMap<String, Coordinates> = BTreeMap::new();
    for (node, owners, has_dependents) in graph.iter() {
        if owners.is_empty() && !has_dependents {
            continue;
        }
        let uid = node.coordinates.uid.to_string();
        for owner in owners.iter() {
            let owner_uid = owner.uid.to_string();
            missing.entry(owner_uid.clone()).or_insert_with(|| Coordinates::of_owner(owner, &node.coordinates.namespace));
            edges.insert((uid.clone(), owner_uid));
        }
        let (being_deleted, deleting_dependents, is_virtual) = (node.being_deleted, node.deleting_dependents, node.is_virtual);
        let vertex = Vertex { coordinates: node.coordinates, missing: false, being_deleted, deleting_dependents, is_virtual };
        vertices.insert(uid, vertex);
    }
    for (uid, coordinates) in missing {
        let (being_deleted, deleting_dependents, is_virtual) = (false, false, false);
        vertices.entry(uid).or_insert(Vertex { coordinates, missing: true, being_deleted, deleting_dependents, is_virtual });
    }
    if !around.is_empty() {
        let connected = connected(&edges, around.iter().map(ToString::to_string).collect());
        vertices.retain(|uid, _| connected.contains(uid));
        edges.retain(|(from, _)| connected.contains(from));
    }
    write(&vertices, &edges)
}

/// The UIDs that the query of a request names.
pub(super) fn asked_for(query: &str) -> Vec<Uid> {
    query.split('&').filter_map(|pair| pair.strip_prefix("uid=")).filter(|uid| !uid.is_empty()).map(Uid::new).collect()
}

/// What can be reached from `found` along edges in either direction.
fn connected(edges: &BTreeSet<(String, String)>, mut found: BTreeSet<String>) -> BTreeSet<String> {
    loop {
        let before = found.len();
        for (from, to) in edges {
            if found.contains(from) || found.contains(to) {
                found.extend([from.clone(), to.clone()]);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn write(vertices: &BTreeMap<String, Vertex>, edges: &BTreeSet<(String, String)>) -> String {
    let mut text = String::from("strict digraph full {\n");
    if !vertices.is_empty() {
        text.push_str("  // Node definitions.\n");
    }
    for (uid, vertex) in vertices {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {uid:?} [");
        for (name, value) in attributes(vertex) {
            let _ = writeln!(text, "    {name}={value:?}");
        }
        text.push_str("  ];\n");
    }
    if !edges.is_empty() {
        text.push_str("  // Edge definitions.\n");
    }
    for (from, to) in edges {
        let _ = writeln!(text, "  {from:?} -> {to:?};");
    }
    text + "}\n"
}

fn attributes(vertex: &Vertex) -> Vec<(&'static str, String)> {
    let Coordinates { kind, api_version, namespace, name, uid } = &vertex.coordinates;
    let (group, version) = split_api_version(api_version);
    let flags = [
        ("beingDeleted", vertex.being_deleted),
        ("deletingDependents", vertex.deleting_dependents),
        ("virtual", vertex.is_virtual),
        ("missingFromGraph", vertex.missing),
    ];
    let set: Vec<&str> = flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| *flag).collect();
    let dot = if group.is_empty() { "" } else { "." };
    let end = if set.is_empty() { "" } else { "\n" };
    let label = format!("uid={uid}\nnamespace={namespace}\n{kind}.{version}{dot}{group}/{name}\n{}{end}", set.join(","));
    vec![
        ("label", label),
        ("group", group.to_owned()),
        ("version", version.to_owned()),
        ("kind", kind.to_string()),
        ("namespace", namespace.to_string()),
        ("name", name.to_string()),
        ("uid", uid.to_string()),
        ("missing", vertex.missing.to_string()),
        ("beingDeleted", vertex.being_deleted.to_string()),
        ("deletingDependents", vertex.deleting_dependents.to_string()),
        ("virtual", vertex.is_virtual.to_string()),
    ]
}
