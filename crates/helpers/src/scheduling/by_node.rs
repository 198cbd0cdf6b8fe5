//! The pods of each node.
//!
//! Upstream: `AddPodNodeNameIndexer` in `pkg/controller/controller_utils.go`.

use std::sync::Arc;

use steersman_objects::Pod;
use steersman_runtime::informer::{Index, Store};

/// The pods in a cache, indexed by the node that they are bound to.
#[derive(Clone)]
pub struct PodsByNode {
    index: Index<Pod>,
}

impl PodsByNode {
    /// Adds the index to `pods` and reads from it.
    pub fn of(pods: &Store<Pod>) -> Self {
        Self {
            index: pods.add_index("node", |pod| pod.node.iter().cloned().collect()),
        }
    }

    /// The pods that are bound to `node`, in any order.
    pub fn bound_to(&self, node: &str) -> Vec<Arc<Pod>> {
        self.index.get(node)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::Object;

    use super::*;

    #[test]
    fn pods_are_found_by_the_name_of_their_node() {
        let pod = |name: &str, node: &str| {
            let json = json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
            Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
        };
        let store: Store<Pod> = [pod("a", "n1"), pod("b", "n2"), pod("c", "")]
            .into_iter()
            .collect();
        let pods = PodsByNode::of(&store);
        let names = |node: &str| -> Vec<String> {
            let found = pods.bound_to(node);
            found.iter().map(|pod| pod.meta.name.to_string()).collect()
        };
        assert_eq!(names("n1"), ["a"]);
        assert_eq!(names("n3"), [""; 0]);
        assert_eq!(names(""), [""; 0], "an unbound pod has no node");
    }
}
