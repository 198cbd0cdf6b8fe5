//! The rights of nodes, in two parts as upstream: an authorizer, and an admission plugin for the
//! content of writes.

mod authorizer;
mod restriction;

pub(super) use restriction::restrict;

use super::User;

/// Prefix of the user names of nodes.
const PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// The namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";
/// The refusal of a Lease of another node.
const OTHER_LEASE: &str = "can only access node lease with the same name as the requesting node";

/// The name of the node that a user is; empty for the bare prefix. `None` for other users.
fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|_| user.is_in(GROUP))
}

/// Whether the Node authorizer decides about the user.
pub(crate) fn is_node(user: &User) -> bool {
    node_of(user).is_some()
}

/// The refusal of a Lease in another namespace.
fn other_namespace() -> String {
    format!("can only access leases in the {LEASES:?} system namespace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_users_of_a_group() {
        let node = |name: &str, groups: &[&str]| {
            node_of(&User::new(name, groups.iter().copied())).map(str::to_owned)
        };
        assert_eq!(node("system:node:a", &[GROUP]).as_deref(), Some("a"));
        assert_eq!(node("system:node:", &[GROUP]).as_deref(), Some(""));
        assert_eq!(node("system:node:a", &[]), None);
        assert_eq!(node("jane", &[GROUP]), None);
    }
}
