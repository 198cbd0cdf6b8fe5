//! The rules by which a node accepts a pod, and the pods of each node.
//!
//! The rules are part of the views, because a view holds the parsed rules of its pod template.

pub mod amounts;
mod by_node;

pub use steersman_objects::scheduling::{
    Comparisons, Constraints, NodeSelector, tolerates, untolerated,
};

pub use self::by_node::PodsByNode;
