//! Requests and limits that a LimitRange has given to the containers of a pod. The pod template lacks them, so people do
//! not find them there.
//!
//! Upstream: the admission plugin `limitranger`, which notes them in an annotation.

use serde_json::Value;
use steersman_values::quantity::Quantity;

use crate::demand::quantity;
use crate::{Doc, World};

const ANNOTATION: &str = "/metadata/annotations/kubernetes.io~1limit-ranger";

/// A field of a container that a LimitRange has defaults for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// `resources.requests`.
    Request,
    /// `resources.limits`.
    Limit,
}

impl Bound {
    /// The word in the annotation.
    fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Limit => "limit",
        }
    }

    /// The field of a LimitRange.
    fn field(self) -> &'static str {
        match self {
            Self::Request => "defaultRequest",
            Self::Limit => "default",
        }
    }
}

/// The LimitRange with a default of `value`.
pub(crate) struct Origin {
    /// The object as `LimitRange shop/defaults`.
    range: String,
    bound: Bound,
}

impl Origin {
    /// The origin of the `bound` for `resource` of the container `name` of `pod`, which is `value`. `None` if the pod
    /// template sets it, or if no LimitRange has this default now.
    pub(crate) fn of(
        world: &World,
        pod: &Doc,
        name: &str,
        bound: Bound,
        (resource, value): (&str, &Value),
    ) -> Option<Self> {
        if !was_set(pod.text(ANNOTATION), name, bound, resource) {
            return None;
        }
        let name = default_of(world, pod.namespace(), bound, (resource, quantity(value)?))?;
        let range = format!("LimitRange {}/{name}", pod.namespace());
        Some(Self { range, bound })
    }

    /// `the default of LimitRange shop/defaults (annotation kubernetes.io/limit-ranger)`.
    pub(crate) fn words(&self) -> String {
        format!(
            "the default of {} (annotation kubernetes.io/limit-ranger)",
            self.range
        )
    }

    /// The people that can change the default.
    pub(crate) fn who(&self) -> String {
        format!("of {} ({})", self.range, self.bound.field())
    }
}

/// The name of the first LimitRange of `namespace` whose default for the `bound` of `resource` in containers is `value`.
/// `None` if none has this default, or if they are unread.
pub fn default_of(
    world: &World,
    namespace: &str,
    bound: Bound,
    (resource, value): (&str, Quantity),
) -> Option<String> {
    let of = world.resource("", "limitranges").found()?;
    let sets = |one: &Value| {
        let default = quantity(&one[bound.field()][resource]);
        one["type"] == "Container" && default == Some(value)
    };
    let mut all = world.list(&of, namespace)?.iter();
    let found = all.find(|doc| doc.items("/spec/limits").iter().any(sets))?;
    Some(found.name().to_owned())
}

/// Whether `annotation` tells the `bound` for `resource` of the container `name`: `LimitRanger plugin set: cpu, memory
/// request for container main; memory limit for container main`.
fn was_set(annotation: &str, name: &str, bound: Bound, resource: &str) -> bool {
    let (_, list) = annotation.split_once(": ").unwrap_or_default();
    let ends =
        ["container", "init container"].map(|kind| format!(" {} for {kind} {name}", bound.word()));
    list.split("; ").any(|one| {
        let resources = ends.iter().find_map(|end| one.strip_suffix(end.as_str()));
        resources.is_some_and(|all| all.split(", ").any(|one| one == resource))
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::{PODS, ResourceType};

    use super::*;
    use crate::{Explanation, Loaded, Need};

    #[test]
    fn the_annotation_tells_the_containers_with_defaults() {
        let text = "LimitRanger plugin set: cpu, memory request for container main; memory limit for container main; cpu limit for \
                    init container init";
        let cases = [
            ("main", Bound::Request, "cpu", true),
            ("main", Bound::Request, "memory", true),
            ("main", Bound::Limit, "memory", true),
            ("main", Bound::Limit, "cpu", false),
            ("init", Bound::Limit, "cpu", true),
            ("main", Bound::Request, "mem", false),
            ("n", Bound::Limit, "memory", false),
        ];
        for (name, bound, resource, expected) in cases {
            let found = was_set(text, name, bound, resource);
            assert_eq!(found, expected, "{name} {bound:?} {resource}");
        }
        assert!(!was_set("", "main", Bound::Limit, "memory"));
    }

    #[test]
    fn the_limit_range_with_the_value_is_the_origin() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let of = ResourceType {
            kind: "LimitRange".into(),
            plural: "limitranges".into(),
            ..PODS.clone()
        };
        let typed = Need::Type {
            group: String::new(),
            name: "limitranges".to_owned(),
        };
        world.load(typed, Loaded::Type(Some(of.clone())));
        let all = Need::List {
            of,
            namespace: "shop".to_owned(),
            fields: String::new(),
        };
        let range = |name: &str, kind: &str, memory: &str| {
            Doc::new(
                json!({"metadata": {"name": name}, "spec": {"limits": [{"type": kind, "default": {"memory": memory}}]}}),
            )
        };
        let ranges = vec![
            range("pods", "Pod", "256Mi"),
            range("small", "Container", "64Mi"),
            range("usual", "Container", "0.25Gi"),
        ];
        world.load(all, Loaded::Objects(ranges));
        let origin = |annotation: &str, value: &str| {
            let pod = Doc::new(
                json!({"metadata": {"namespace": "shop", "annotations": {"kubernetes.io/limit-ranger": annotation}}}),
            );
            let found = Origin::of(
                &world,
                &pod,
                "main",
                Bound::Limit,
                ("memory", &json!(value)),
            );
            found.map(|origin| (origin.words(), origin.who()))
        };
        let set = "LimitRanger plugin set: memory limit for container main";
        let words = "the default of LimitRange shop/usual (annotation kubernetes.io/limit-ranger)";
        let expected = (
            words.to_owned(),
            "of LimitRange shop/usual (default)".to_owned(),
        );
        assert_eq!(origin(set, "256Mi"), Some(expected));
        assert_eq!(origin(set, "1Gi"), None);
        assert_eq!(origin("", "256Mi"), None);
    }
}
