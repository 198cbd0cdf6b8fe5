//! The claims and volumes that the controller knows: those of the caches, and the answers to its own
//! writes.
//!
//! A write to a claim and a volume causes four watch events. With the answers of its writes, the
//! controller knows all four states before the first event arrives, and repeats no write. Upstream:
//! `storeObjectUpdate`, and `persistentVolumeOrderedIndex` in `index.go`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::{Object, ObjectKey, PersistentVolume, PersistentVolumeClaim};
use steersman_values::intern::Sym;

/// Objects of one type, by key.
#[derive(Debug)]
pub(super) struct Known<T> {
    /// The last state of each, from a watch event or from the answer to an own write.
    objects: HashMap<ObjectKey, Arc<T>>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
        }
    }
}

impl<T: Object> Known<T> {
    /// Takes in a state of an object. False if a later state is known; the given one is then to be
    /// ignored.
    ///
    /// The same version passes, as upstream: each sync period brings it again, and its sync retries
    /// failures.
    pub(super) fn store(&mut self, object: &Arc<T>) -> bool {
        let version = |object: &T| object.meta().resource_version;
        let key = object.key();
        let is_outdated = self
            .objects
            .get(&key)
            .is_some_and(|known| version(known) > version(object));
        if !is_outdated {
            self.objects.insert(key, Arc::clone(object));
        }
        !is_outdated
    }

    /// The last state of the object with this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.objects.get(key).cloned()
    }

    /// Forgets the object with this key, and returns its last state.
    ///
    /// Only the event of a deletion leads here. The state tells which object of the other type it
    /// concerns.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        self.objects.remove(key)
    }

    /// Forgets all objects. Their resource versions mean nothing after a rewind of the API server.
    pub(super) fn clear(&mut self) {
        self.objects.clear();
    }

    /// All objects, in any order.
    ///
    /// For metrics.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values()
    }
}

/// A set of access modes. Sets with fewer modes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Modes {
    /// The first field, so that the derived order sorts by it.
    count: u32,
    bits: u8,
}

impl Modes {
    /// The known modes among `modes`. Upstream: `GetAccessModesAsString`.
    ///
    /// A repeated mode counts once. Unknown modes are left out there too.
    pub(super) fn offered(modes: &[Sym]) -> Self {
        let bits = modes.iter().filter_map(bit).fold(0, |all, bit| all | bit);
        Self {
            count: bits.count_ones(),
            bits,
        }
    }

    /// Whether a volume with these modes has all of `requested`.
    ///
    /// Upstream: `ContainsAllAccessModes`, and `CheckAccessModes` for a volume that a claim names. A
    /// claim with an unknown mode therefore fits no volume.
    pub(super) fn contain(self, requested: &[Sym]) -> bool {
        let has = |mode: &Sym| bit(mode).is_some_and(|bit| self.bits & bit != 0);
        requested.iter().all(has)
    }
}

/// The order of the bits only makes groups of equal size comparable.
fn bit(mode: &Sym) -> Option<u8> {
    match mode.as_str() {
        "ReadWriteOnce" => Some(1),
        "ReadOnlyMany" => Some(1 << 1),
        "ReadWriteMany" => Some(1 << 2),
        "ReadWriteOncePod" => Some(1 << 3),
        _ => None,
    }
}

/// Volumes of one group. Their order in it does not matter: among equally small ones, any is right.
type ByKey = HashMap<ObjectKey, Arc<PersistentVolume>>;

/// All known volumes. A search for a claim looks only at volumes without a claim and at those of that
/// claim, so it does not depend on the number of bound volumes.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// The states themselves; the other two fields are indexes of them.
    known: Known<PersistentVolume>,
    /// Volumes without `claimRef`, by access modes.
    free: BTreeMap<Modes, ByKey>,
    /// Volumes by the claim that their `claimRef` names; rarely more than one.
    claimed: HashMap<ObjectKey, Vec<Arc<PersistentVolume>>>,
}

impl Volumes {
    /// As [`Known::store`].
    ///
    /// The indexes follow the state, so a volume that an answer has bound is no candidate any more.
    pub(super) fn store(&mut self, volume: &Arc<PersistentVolume>) -> bool {
        let key = volume.key();
        let old = self.known.get(&key);
        if !self.known.store(volume) {
            return false;
        }
        if let Some(old) = old {
            self.remove_entry(&key, &old);
        }
        let volume = Arc::clone(volume);
        match claim_of(&volume) {
            Some(claim) => self.claimed.entry(claim).or_default().push(volume),
            None => {
                let modes = modes_of(&volume);
                self.free.entry(modes).or_default().insert(key, volume);
            }
        }
        true
    }

    /// As [`Known::get`].
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<PersistentVolume>> {
        self.known.get(key)
    }

    /// As [`Known::remove`].
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<PersistentVolume>> {
        let volume = self.known.remove(key)?;
        self.remove_entry(key, &volume);
        Some(volume)
    }

    /// As [`Known::clear`].
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// As [`Known::all`].
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.known.all()
    }

    /// The volumes that may match `claim`, in groups of equal access modes. Groups with fewer modes
    /// come first. In a group, volumes whose `claimRef` names the claim come first. Upstream:
    /// `allPossibleMatchingAccessModes`.
    ///
    /// Upstream's index holds bound volumes too, and each search goes through all of them. Other
    /// volumes of `claimed` cannot match, since their `claimRef` names another claim.
    pub(super) fn candidates<'a>(
        &'a self,
        claim: &'a PersistentVolumeClaim,
    ) -> impl Iterator<Item = impl Iterator<Item = &'a Arc<PersistentVolume>>> {
        let own = self.claimed.get(&claim.key());
        let own = move || own.into_iter().flatten();
        // Fewer modes first: a volume with more of them is kept for claims that need these.
        let all: BTreeSet<Modes> = own()
            .map(|volume| modes_of(volume))
            .chain(self.free.keys().copied())
            .filter(|modes| modes.contain(&claim.spec.access_modes))
            .collect();
        all.into_iter().map(move |modes| {
            let free = self.free.get(&modes).into_iter().flat_map(ByKey::values);
            own()
                .filter(move |volume| modes_of(volume) == modes)
                .chain(free)
        })
    }

    /// Takes a volume out of the index of its old state.
    fn remove_entry(&mut self, key: &ObjectKey, volume: &PersistentVolume) {
        match claim_of(volume) {
            Some(claim) => remove_from(&mut self.claimed, &claim, key),
            None => {
                let modes = modes_of(volume);
                let entries = self.free.entry(modes).or_default();
                entries.remove(key);
                if entries.is_empty() {
                    self.free.remove(&modes);
                }
            }
        }
    }
}

fn remove_from(
    claimed: &mut HashMap<ObjectKey, Vec<Arc<PersistentVolume>>>,
    claim: &ObjectKey,
    key: &ObjectKey,
) {
    if let Some(entries) = claimed.get_mut(claim) {
        entries.retain(|volume| volume.meta.name != key.name);
        if entries.is_empty() {
            claimed.remove(claim);
        }
    }
}

/// The group of a volume.
fn modes_of(volume: &PersistentVolume) -> Modes {
    Modes::offered(&volume.spec.access_modes)
}

/// The key of the claim that `claimRef` names.
///
/// Upstream: `claimrefToClaimKey`. `None` for a volume without `claimRef`; a mere reservation has a
/// key, too.
pub(super) fn claim_of(volume: &PersistentVolume) -> Option<ObjectKey> {
    let claim = volume.spec.claim_ref.as_ref()?;
    Some(ObjectKey::new(&claim.namespace, &claim.name))
}

/// The known claims and volumes.
///
/// The locks are held for single steps, and never across a request.
#[derive(Debug, Default)]
pub(super) struct Caches {
    claims: Mutex<Known<PersistentVolumeClaim>>,
    volumes: Mutex<Volumes>,
}

impl Caches {
    pub(super) fn claims(&self) -> MutexGuard<'_, Known<PersistentVolumeClaim>> {
        self.claims.lock()
    }

    pub(super) fn volumes(&self) -> MutexGuard<'_, Volumes> {
        self.volumes.lock()
    }
}

/// A type whose states the controller knows.
pub(super) trait KnownType: Object {
    /// Takes in the state of an object that the informer has seen.
    ///
    /// An older one is ignored: the answer to an own write may have come first.
    fn store(caches: &Caches, object: &Arc<Self>);

    /// Forgets all states, and takes in these.
    ///
    /// After a rewind, smaller resource versions are the newer ones.
    fn replace(caches: &Caches, objects: &[Arc<Self>]);
}

impl KnownType for PersistentVolumeClaim {
    fn store(caches: &Caches, claim: &Arc<Self>) {
        caches.claims().store(claim);
    }

    fn replace(caches: &Caches, claims: &[Arc<Self>]) {
        let mut known = caches.claims();
        known.clear();
        claims.iter().for_each(|claim| {
            known.store(claim);
        });
    }
}

impl KnownType for PersistentVolume {
    fn store(caches: &Caches, volume: &Arc<Self>) {
        caches.volumes().store(volume);
    }

    fn replace(caches: &Caches, volumes: &[Arc<Self>]) {
        let mut known = caches.volumes();
        known.clear();
        volumes.iter().for_each(|volume| {
            known.store(volume);
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Upstream: `TestControllerCache`.
    #[test]
    fn only_an_older_state_is_ignored() {
        let mut known = Known::default();
        // (resource version, taken in)
        for (version, is_taken) in [
            ("10", true),
            ("10", true),
            ("1", false),
            ("2", false),
            ("123", true),
        ] {
            let claim =
                json!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": version}});
            let claim = PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap();
            assert_eq!(known.store(&Arc::new(claim)), is_taken, "{version}");
        }
    }

    #[test]
    fn a_volume_moves_between_the_candidates() {
        let claim = json!({
            "metadata": {"name": "c", "namespace": "n"}, "spec": {"accessModes": ["ReadWriteOnce"]},
        });
        let claim = PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap();
        let mut volumes = Volumes::default();
        let mut store = |version: u64, of: Option<&str>| {
            let of = of.map(|name| json!({"namespace": "n", "name": name}));
            let volume = json!({
                "metadata": {"name": "pv", "resourceVersion": version.to_string()},
                "spec": {"accessModes": ["ReadWriteOnce"], "claimRef": of},
            });
            let volume = PersistentVolume::decode(volume.to_string().as_bytes()).unwrap();
            volumes.store(&Arc::new(volume));
            volumes.candidates(&claim).flatten().count()
        };
        assert_eq!(store(1, None), 1);
        assert_eq!(store(2, Some("other")), 0);
        assert_eq!(store(3, Some("c")), 1);
        assert_eq!(store(2, None), 1);
        volumes.remove(&ObjectKey::new("", "pv"));
        assert_eq!(volumes.candidates(&claim).flatten().count(), 0);
        assert!(volumes.free.is_empty() && volumes.claimed.is_empty());
    }
}
