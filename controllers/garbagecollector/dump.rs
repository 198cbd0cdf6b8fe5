//! The debug page of the graph, in the DOT language of Graphviz.
//!
//! The text equals upstream's byte for byte, so tools for upstream's page work here too. Only missing
//! owners differ; see `Picture::of`. Upstream: `dump.go`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use steersman_objects::Uid;
use steersman_values::intern::Sym;

use super::coordinates::{Coordinates, split_api_version};
use super::graph::{Graph, NodeView};

/// A node of the page. Upstream: `dotVertex`.
struct Vertex {
    coordinates: Coordinates,
    /// Only references name the object, and the graph has no node of it.
    missing: bool,
    being_deleted: bool,
    deleting_dependents: bool,
    is_virtual: bool,
}

impl Vertex {
    fn of(node: NodeView) -> Self {
        let NodeView {
            coordinates,
            being_deleted,
            deleting_dependents,
            is_virtual,
            ..
        } = node;
        Self {
            coordinates,
            missing: false,
            being_deleted,
            deleting_dependents,
            is_virtual,
        }
    }

    /// An owner without a node, known only from references.
    fn missing(coordinates: Coordinates) -> Self {
        let being_deleted = false;
        let deleting_dependents = false;
        let is_virtual = false;
        Self {
            coordinates,
            missing: true,
            being_deleted,
            deleting_dependents,
            is_virtual,
        }
    }
}

/// A snapshot of the nodes and edges of a graph. `Display` writes DOT.
pub(super) struct Picture {
    vertices: BTreeMap<Uid, Vertex>,
    edges: BTreeSet<(Uid, Uid)>,
}

impl Picture {
    /// All nodes with owners or dependents. If `around` is not empty, only those connected to these
    /// UIDs. Nodes without any edge are left out: they are most of a cluster, and tell nothing
    /// about ownership.
    pub(super) fn of(graph: &Graph, around: &[Uid]) -> Self {
        let wanted = (!around.is_empty()).then(|| connected(graph, around));
        let mut vertices = BTreeMap::new();
        let mut edges = BTreeSet::new();
        let mut missing = BTreeMap::new();
        for (node, owners, has_dependents) in graph.iter() {
            let uid = &node.coordinates.uid;
            let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted.contains(uid));
            if !is_wanted || owners.is_empty() && !has_dependents {
                continue;
            }
            for owner in owners.iter() {
                edges.insert((uid.clone(), owner.uid.clone()));
                missing
                    .entry(owner.uid.clone())
                    .or_insert_with(|| Coordinates::of_owner(owner, &Sym::default()));
            }
            vertices.insert(uid.clone(), Vertex::of(node));
        }
        // One vertex per missing owner. Upstream files it under the UID of the dependent by
        // mistake, so two dependents give it two vertices.
        for (uid, coordinates) in missing {
            vertices.entry(uid).or_insert(Vertex::missing(coordinates));
        }
        Self { vertices, edges }
    }
}

/// The UIDs in the query of a request. The parameter `uid` with an empty value selects no node.
/// Several parameters select several nodes. Upstream: `ServeHTTP` of its debug handler.
pub(super) fn asked_for(query: &str) -> Vec<Uid> {
    let pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .filter(|(name, _)| *name == "uid")
        .map(|(_, uid)| Uid::new(uid))
        .collect()
}

/// The UIDs of all nodes reachable from `from` along edges in either direction. Upstream:
/// `toDOTNodesAndEdgesForObj`.
fn connected(graph: &Graph, from: &[Uid]) -> HashSet<Uid> {
    let mut neighbours: HashMap<Uid, Vec<Uid>> = HashMap::new();
    for (node, owners, _) in graph.iter() {
        let uid = node.coordinates.uid;
        for owner in owners.iter() {
            neighbours
                .entry(owner.uid.clone())
                .or_default()
                .push(uid.clone());
        }
        neighbours
            .entry(uid)
            .or_default()
            .extend(owners.iter().map(|owner| owner.uid.clone()));
    }
    // A UID that only references name has edges, but no node, and ends the search.
    let nodes: HashSet<Uid> = graph
        .iter()
        .map(|(node, ..)| node.coordinates.uid)
        .collect();
    let mut found = HashSet::new();
    let mut open: Vec<Uid> = from.to_vec();
    while let Some(uid) = open.pop() {
        if nodes.contains(&uid) && found.insert(uid.clone()) {
            open.extend(neighbours.remove(&uid).unwrap_or_default());
        }
    }
    found
}

impl fmt::Display for Picture {
    /// Nodes and edges follow in the order of their UIDs, as in upstream's `toDOTNodesAndEdges`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("strict digraph full {\n")?;
        if !self.vertices.is_empty() {
            f.write_str("  // Node definitions.\n")?;
        }
        for (uid, vertex) in &self.vertices {
            writeln!(f, "  {:?} [", uid.to_string())?;
            for (name, value) in attributes(vertex) {
                writeln!(f, "    {name}={value:?}")?;
            }
            f.write_str("  ];\n")?;
        }
        if !self.edges.is_empty() {
            f.write_str("  // Edge definitions.\n")?;
        }
        for (from, to) in &self.edges {
            writeln!(f, "  {:?} -> {:?};", from.to_string(), to.to_string())?;
        }
        f.write_str("}\n")
    }
}

/// Names and values in upstream's order. The label repeats some of them, for pictures.
fn attributes(vertex: &Vertex) -> Vec<(&'static str, String)> {
    let Coordinates {
        kind,
        api_version,
        namespace,
        name,
        uid,
    } = &vertex.coordinates;
    let (group, version) = split_api_version(api_version);
    let flags = [
        ("beingDeleted", vertex.being_deleted),
        ("deletingDependents", vertex.deleting_dependents),
        ("virtual", vertex.is_virtual),
        ("missingFromGraph", vertex.missing),
    ];
    let set: Vec<&str> = flags
        .iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(flag, _)| *flag)
        .collect();
    let dot = if group.is_empty() { "" } else { "." };
    let end = if set.is_empty() { "" } else { "\n" };
    let label = format!(
        "uid={uid}\nnamespace={namespace}\n{kind}.{version}{dot}{group}/{name}\n{}{end}",
        set.join(",")
    );
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
