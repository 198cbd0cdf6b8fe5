//! The graph of explored states, and its fair cycles.

use crate::action::Action;

/// A state of the graph.
pub(crate) struct Node {
    /// The canonical state.
    pub(crate) id: u128,
    /// The state and the action by which it was found first.
    pub(crate) found_by: Option<(usize, Action)>,
    /// The possible actions as a number without names.
    pub(crate) choices: u64,
    /// Number of actions on the shortest way.
    pub(crate) depth: usize,
    /// The states that actions without faults lead to.
    pub(crate) next: Vec<usize>,
    /// Whether all actions have been explored.
    pub(crate) is_expanded: bool,
    /// Whether only time or a fault can change the state.
    pub(crate) is_settled: bool,
}

/// The actions from the start to a state.
pub(crate) fn way_to(nodes: &[Node], state: usize) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut state = state;
    while let Some((before, action)) = &nodes[state].found_by {
        actions.push(action.clone());
        state = *before;
    }
    actions.reverse();
    actions
}

/// Groups of states that reach each other by actions without faults and that no such action leaves.
/// A fair way without further faults ends in one of them: each action that stays possible comes at
/// some time. Groups with states that are not expanded are left out.
pub(crate) fn ends(nodes: &[Node]) -> Vec<Vec<usize>> {
    let components = components(nodes);
    let mut of = vec![0; nodes.len()];
    for (number, component) in components.iter().enumerate() {
        component.iter().for_each(|state| of[*state] = number);
    }
    let stays = |component: &Vec<usize>| {
        component.iter().all(|state| {
            let node = &nodes[*state];
            node.is_expanded && node.next.iter().all(|next| of[*next] == of[*state])
        })
    };
    components
        .iter()
        .filter(|component| stays(component))
        .cloned()
        .collect()
}

/// Tarjan's strongly connected components, without recursion.
fn components(nodes: &[Node]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut index = vec![UNSEEN; nodes.len()];
    let mut low = vec![0; nodes.len()];
    let mut is_open = vec![false; nodes.len()];
    let mut open = Vec::new();
    let mut components = Vec::new();
    let mut seen = 0;
    for root in 0..nodes.len() {
        if index[root] != UNSEEN {
            continue;
        }
        // State, and number of its next edge.
        let mut calls = vec![(root, 0)];
        while let Some((state, edge)) = calls.pop() {
            if edge == 0 {
                index[state] = seen;
                low[state] = seen;
                seen += 1;
                open.push(state);
                is_open[state] = true;
            }
            if let Some(next) = nodes[state].next.get(edge).copied() {
                calls.push((state, edge + 1));
                if index[next] == UNSEEN {
                    calls.push((next, 0));
                } else if is_open[next] {
                    low[state] = low[state].min(index[next]);
                }
                continue;
            }
            if let Some((caller, _)) = calls.last() {
                low[*caller] = low[*caller].min(low[state]);
            }
            if low[state] == index[state] {
                let from = open
                    .iter()
                    .rposition(|member| *member == state)
                    .unwrap_or(0);
                let component = open.split_off(from);
                component.iter().for_each(|member| is_open[*member] = false);
                components.push(component);
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[&[usize]]) -> Vec<Node> {
        let node = |next: &&[usize]| Node {
            id: 0,
            found_by: None,
            choices: 0,
            depth: 0,
            next: next.to_vec(),
            is_expanded: true,
            is_settled: false,
        };
        edges.iter().map(node).collect()
    }

    #[test]
    fn fair_ways_end_in_groups_that_nothing_leaves() {
        // (why, edges, ends)
        let cases: [(&str, &[&[usize]], &[&[usize]]); 4] = [
            ("a chain", &[&[1], &[2], &[2]], &[&[2]]),
            (
                "a cycle with an exit is left",
                &[&[1], &[0, 2], &[]],
                &[&[2]],
            ),
            ("a cycle without an exit", &[&[1], &[2], &[1]], &[&[1, 2]]),
            ("two ends", &[&[1, 2], &[1], &[2]], &[&[1], &[2]]),
        ];
        for (why, edges, expected) in cases {
            let mut found = ends(&graph(edges));
            found.iter_mut().for_each(|end| end.sort_unstable());
            found.sort();
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn a_group_with_an_unexplored_state_is_no_end() {
        let mut nodes = graph(&[&[1], &[0]]);
        nodes[1].is_expanded = false;
        assert_eq!(ends(&nodes), Vec::<Vec<usize>>::new());
    }
}
