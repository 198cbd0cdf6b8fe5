//! The selectors of Services, so that the Services of a pod are found by look-ups.
//!
//! Selectors are grouped by their keys. The Services of a namespace have few lists of keys, such as
//! `app`, or `app.kubernetes.io/instance` and `app.kubernetes.io/name`. The labels of a pod give one
//! list of values for each list of keys, and a map has the Services with exactly these values. The
//! work for a pod thus grows with the number of different lists of keys. It does not grow with the
//! number of Services, even if all of them share a pair such as `app.kubernetes.io/part-of: shop`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use steersman_objects::ObjectKey;
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

/// The selectors of Services that are not empty.
#[derive(Default)]
pub(super) struct Selectors {
    by_namespace: HashMap<Sym, HashMap<Keys, ByValues>>,
    /// The selector under which each Service is found.
    by_service: HashMap<ObjectKey, Labels>,
}

/// Keys of a selector, sorted.
type Keys = Box<[Sym]>;

/// Names of Services by the values of their selectors, in the order of the keys.
type ByValues = HashMap<Box<[Sym]>, BTreeSet<Arc<str>>>;

impl Selectors {
    /// Records the selector of `service`. An empty one selects no pods.
    pub(super) fn set(&mut self, service: &ObjectKey, selector: &Labels) {
        if self.by_service.get(service) == Some(selector) {
            return;
        }
        self.remove(service);
        if selector.is_empty() {
            return;
        }
        let (keys, values) = parts(selector);
        self.by_namespace
            .entry(service.namespace.clone())
            .or_default()
            .entry(keys)
            .or_default()
            .entry(values)
            .or_default()
            .insert(Arc::clone(&service.name));
        self.by_service.insert(service.clone(), selector.clone());
    }

    /// Forgets a deleted Service.
    pub(super) fn remove(&mut self, service: &ObjectKey) {
        let Some(selector) = self.by_service.remove(service) else {
            return;
        };
        let (keys, values) = parts(&selector);
        let Some(lists) = self.by_namespace.get_mut(&service.namespace) else {
            return;
        };
        if let Some(by_values) = lists.get_mut(&keys) {
            if let Some(services) = by_values.get_mut(&values) {
                services.remove(&service.name);
                if services.is_empty() {
                    by_values.remove(&values);
                }
            }
            if by_values.is_empty() {
                lists.remove(&keys);
            }
        }
        if lists.is_empty() {
            self.by_namespace.remove(&service.namespace);
        }
    }

    /// The keys of the Services of `namespace` that select pods with `labels`, sorted.
    pub(super) fn selecting(&self, namespace: &Sym, labels: &Labels) -> Vec<ObjectKey> {
        let lists = self.by_namespace.get(namespace).into_iter().flatten();
        let mut services: Vec<ObjectKey> = lists
            .filter_map(|(keys, by_values)| {
                let values = keys.iter().map(|key| labels.get(key).cloned());
                by_values.get(&*values.collect::<Option<Vec<Sym>>>()?)
            })
            .flatten()
            .map(|name| ObjectKey {
                namespace: namespace.clone(),
                name: Arc::clone(name),
            })
            .collect();
        services.sort_unstable();
        services
    }
}

fn parts(selector: &Labels) -> (Keys, Box<[Sym]>) {
    let keys = selector.iter().map(|(key, _)| key.clone()).collect();
    let values = selector.iter().map(|(_, value)| value.clone()).collect();
    (keys, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(selectors: &Selectors, labels: &Labels) -> Vec<String> {
        let found = selectors.selecting(&Sym::new("ns"), labels);
        found.iter().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn a_service_is_found_under_its_last_selector() {
        let web = ObjectKey::new("ns", "web");
        let [front, back, both] = [
            Labels::new([("app", "front")]),
            Labels::new([("app", "back")]),
            Labels::new([("app", "front"), ("tier", "1")]),
        ];
        // (why, selector, found for `front`, `back` and `both`)
        let steps = [
            ("new", &front, [true, false, true]),
            ("the same", &front, [true, false, true]),
            ("other values", &back, [false, true, false]),
            ("other keys", &both, [false, false, true]),
            ("none", &Labels::default(), [false; 3]),
            ("again", &front, [true, false, true]),
        ];
        let mut selectors = Selectors::default();
        for (why, selector, expected) in steps {
            selectors.set(&web, selector);
            let found = [&front, &back, &both].map(|labels| !names(&selectors, labels).is_empty());
            assert_eq!(found, expected, "{why}");
        }
        selectors.remove(&web);
        assert!(selectors.by_namespace.is_empty() && selectors.by_service.is_empty());
        selectors.remove(&web);
    }

    #[test]
    fn services_that_share_a_pair_cost_one_look_up() {
        let mut selectors = Selectors::default();
        let labels = |name: &str| Labels::new([("part-of", "shop"), ("name", name)]);
        for n in 0..1_000 {
            let name = format!("s-{n}");
            selectors.set(&ObjectKey::new("ns", &name), &labels(&name));
        }
        assert_eq!(names(&selectors, &labels("s-7")), ["s-7"]);
        let lists = &selectors.by_namespace["ns"];
        assert_eq!(lists.len(), 1, "lists of keys, which a pod looks up");
        assert!(
            lists
                .values()
                .flat_map(HashMap::values)
                .all(|services| services.len() == 1)
        );
    }
}
