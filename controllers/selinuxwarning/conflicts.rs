//! The uses of volumes by pods, and their conflicts.
//!
//! Upstream: `cache/volumecache.go` and `cache/conflict.go`.
//!
//! The state lives only in memory. After a start, each pod is added again, so a conflict is reported
//! again as well.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use steersman_objects::{ObjectKey, Uid};
use steersman_values::intern::Sym;

use super::labels::{self, Use};

/// A conflict as one of its two pods sees it.
///
/// Each conflict exists twice, with the pods exchanged, since both owners have to learn of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Conflict {
    /// `SELinuxLabel` or `SELinuxChangePolicy`.
    ///
    /// Also a label of the metric.
    pub(super) property: &'static str,
    /// The pod that gets the Event.
    pub(super) pod: ObjectKey,
    /// The property of that pod: a label, or a policy.
    pub(super) value: String,
    pub(super) other: ObjectKey,
    pub(super) other_value: String,
}

impl Conflict {
    /// Reason of the Event.
    pub(super) fn reason(&self) -> String {
        format!("{}Conflict", self.property)
    }

    /// Message of the Event. Names and values of other namespaces stay secret.
    ///
    /// Upstream: `EventMessage`. The text is the API of tools that search Events, with its flaw.
    pub(super) fn message(&self) -> String {
        let Self {
            property,
            pod,
            value,
            other,
            other_value,
        } = self;
        let end = "If both pods land on the same node, only one of them may access the volume.";
        if pod.namespace == other.namespace {
            let other = &other.name;
            format!(
                "{property} {value:?} conflicts with pod {other} that uses the same volume as this pod with {property} {other_value:?}. {end}"
            )
        } else {
            // The blank is missing upstream, too.
            format!(
                "{property}{value:?} conflicts with another pod that uses the same volume as this pod with a different {property}. {end}"
            )
        }
    }

    /// Whether `pod` is one of the two.
    fn is_of(&self, pod: &ObjectKey) -> bool {
        self.pod == *pod || self.other == *pod
    }
}

/// A volume, with its pods.
///
/// Upstream: `usedVolume`, and the entry of `conflicts`.
#[derive(Debug, Default)]
struct UsedVolume {
    /// Name of the CSI driver; empty for other plugins.
    ///
    /// The label support of other plugins never changes, so their pods need no search by driver.
    driver: Sym,
    /// Sorted, so that Events have a stable order.
    pods: BTreeMap<ObjectKey, Use>,
    /// The conflicts between these pods, for the metric.
    conflicts: Vec<Conflict>,
}

/// All volumes that pods use, by unique name.
///
/// Upstream: `volumeCache`.
#[derive(Debug, Default)]
pub(super) struct UsedVolumes {
    volumes: HashMap<Sym, UsedVolume>,
    /// The same uses by pod, so that the end of a pod needs no search.
    by_pod: HashMap<ObjectKey, OfPod>,
}

/// The volumes of one pod.
///
/// Upstream keeps no UID, and so mixes up two pods of one name if the watch skips a deletion.
#[derive(Debug)]
struct OfPod {
    uid: Uid,
    volumes: BTreeSet<Sym>,
}

impl UsedVolumes {
    /// Notes that a pod uses a volume. Returns the conflicts of a new or changed use, each as both
    /// pods see it.
    ///
    /// An equal use returns none: its conflicts were reported before. Upstream: `AddVolume`.
    pub(super) fn add(
        &mut self,
        volume: &Sym,
        driver: &Sym,
        (pod, uid): (&ObjectKey, &Uid),
        new: Use,
    ) -> Vec<Conflict> {
        let used = self.volumes.entry(volume.clone()).or_default();
        used.driver = driver.clone();
        // An unchanged use is common: each event of a claim or a driver repeats the sync of its pods.
        if used.pods.get(pod) == Some(&new) {
            return Vec::new();
        }
        let of_pod = self.by_pod.entry(pod.clone()).or_insert_with(|| OfPod {
            uid: uid.clone(),
            volumes: BTreeSet::new(),
        });
        of_pod.volumes.insert(volume.clone());
        let mut found = Vec::new();
        for (other, use_of_other) in used.pods.iter().filter(|(other, _)| *other != pod) {
            let mut add = |property, value: &str, other_value: &str| {
                let conflict =
                    |pod: &ObjectKey, value: &str, other: &ObjectKey, other_value: &str| Conflict {
                        property,
                        pod: pod.clone(),
                        value: value.to_owned(),
                        other: other.clone(),
                        other_value: other_value.to_owned(),
                    };
                found.push(conflict(pod, value, other, other_value));
                found.push(conflict(other, other_value, pod, value));
            };
            if use_of_other.policy != new.policy {
                add("SELinuxChangePolicy", &new.policy, &use_of_other.policy);
            }
            if labels::conflict(&use_of_other.label, &new.label) {
                add("SELinuxLabel", &new.label, &use_of_other.label);
            }
        }
        used.pods.insert(pod.clone(), new);
        // The pod may have resolved older conflicts, for example with a driver that changed its
        // support.
        used.conflicts.retain(|conflict| !conflict.is_of(pod));
        used.conflicts.extend(found.iter().cloned());
        found
    }

    /// Forgets a former pod of the same name, whose deletion the watch did not show.
    pub(super) fn remove_namesake(&mut self, pod: &ObjectKey, uid: &Uid) {
        if self.by_pod.get(pod).is_some_and(|known| known.uid != *uid) {
            self.remove(pod);
        }
    }

    /// Forgets a pod.
    ///
    /// Upstream: `DeletePod`. A volume without pods goes too.
    pub(super) fn remove(&mut self, pod: &ObjectKey) {
        let Some(known) = self.by_pod.remove(pod) else {
            return;
        };
        for volume in known.volumes {
            let Some(used) = self.volumes.get_mut(&volume) else {
                continue;
            };
            used.pods.remove(pod);
            used.conflicts.retain(|conflict| !conflict.is_of(pod));
            if used.pods.is_empty() {
                self.volumes.remove(&volume);
            }
        }
    }

    /// The pods that use volumes of a CSI driver.
    ///
    /// Upstream: `GetPodsForCSIDriver`.
    pub(super) fn pods_of_driver(&self, driver: &str) -> BTreeSet<ObjectKey> {
        let volumes = self.volumes.values().filter(|used| used.driver == *driver);
        volumes.flat_map(|used| used.pods.keys().cloned()).collect()
    }

    /// All present conflicts, sorted.
    ///
    /// Upstream: `GetConflicts`. Two volumes with the same pods give one conflict.
    pub(super) fn conflicts(&self) -> BTreeSet<&Conflict> {
        self.volumes
            .values()
            .flat_map(|used| &used.conflicts)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(label: &str) -> Use {
        Use {
            label: label.to_owned(),
            policy: "MountOption".to_owned(),
        }
    }

    /// Upstream's `TestVolumeCache_AddVolumeSendConflicts` and `TestVolumeCache_DeleteAll`.
    #[test]
    fn conflicts_are_told_once_and_end_with_their_pods() {
        let volume = Sym::new("v");
        let driver = Sym::new("d");
        let a = ObjectKey::new("ns1", "a");
        let b = ObjectKey::new("ns1", "b");
        let mut used = UsedVolumes::default();
        let of_a = Uid::new("of-a");
        let of_b = Uid::new("of-b");
        assert!(
            used.add(&volume, &driver, (&a, &of_a), labelled(":::s0:c1,c2"))
                .is_empty()
        );
        let found = used.add(&volume, &driver, (&b, &of_b), labelled(":::s0:c98,c99"));
        let expected = "SELinuxLabel \":::s0:c1,c2\" conflicts with pod b that uses the same volume as this pod with SELinuxLabel \":::s0:c98,c99\". If both pods land on the same node, only one of them may access the volume.";
        let told = found.iter().find(|conflict| conflict.pod == a).unwrap();
        assert_eq!((found.len(), &*told.message()), (2, expected));
        assert_eq!(told.reason(), "SELinuxLabelConflict");
        assert!(
            used.add(&volume, &driver, (&b, &of_b), labelled(":::s0:c98,c99"))
                .is_empty()
        );
        assert_eq!(used.conflicts().len(), 2);
        assert_eq!(used.pods_of_driver("d").len(), 2);
        let recursive = Use {
            label: String::new(),
            policy: "Recursive".to_owned(),
        };
        let found = used.add(&volume, &driver, (&b, &of_b), recursive);
        let properties: Vec<&str> = found.iter().map(|conflict| conflict.property).collect();
        assert_eq!(
            properties,
            [
                "SELinuxChangePolicy",
                "SELinuxChangePolicy",
                "SELinuxLabel",
                "SELinuxLabel"
            ]
        );
        assert_eq!(used.conflicts().len(), 4);
        used.remove_namesake(&b, &of_b);
        assert_eq!(used.conflicts().len(), 4);
        used.remove_namesake(&b, &Uid::new("of-another-b"));
        assert!(used.conflicts().is_empty());
        used.remove(&b);
        used.remove(&a);
        assert!(used.pods_of_driver("d").is_empty());
    }

    #[test]
    fn pods_of_other_namespaces_stay_secret() {
        let volume = Sym::new("v");
        let driver = Sym::default();
        let a = ObjectKey::new("ns1", "a");
        let b = ObjectKey::new("ns2", "b");
        let mut used = UsedVolumes::default();
        used.add(&volume, &driver, (&a, &Uid::new("a")), labelled(":::s1"));
        let found = used.add(&volume, &driver, (&b, &Uid::new("b")), labelled(":::s2"));
        let expected = "SELinuxLabel\":::s2\" conflicts with another pod that uses the same volume as this pod with a different SELinuxLabel. If both pods land on the same node, only one of them may access the volume.";
        assert_eq!(found[0].message(), expected);
    }
}
