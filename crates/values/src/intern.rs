//! Tables that keep one copy of strings and small values that many objects share.
//!
//! A cluster with 100,000 pods has a few hundred namespaces, nodes and label sets. A table keeps
//! each distinct value once. When the table grows, and at [`release_unused`], it removes the values
//! that only the table itself still refers to, so its size follows the cluster.
//!
//! Decoding one pod needs about twenty look-ups. The tables therefore hash with foldhash, which
//! takes a third of the time of the standard hasher. Both hashers have a random seed per process.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use arcstr::ArcStr;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::capacity::ReleaseSpare;

/// A pointer to a value that others may share.
pub trait Shared: Clone + Eq + Hash {
    /// Whether a second pointer to the value exists.
    fn has_others(&self) -> bool;
}

impl Shared for ArcStr {
    fn has_others(&self) -> bool {
        // A literal has no count.
        Self::strong_count(self).is_none_or(|count| count > 1)
    }
}

/// A shared slice. It takes 8 bytes beside the shared elements, and an `Arc<[T]>` would take 16.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SharedSlice<T>(Arc<Box<[T]>>);

impl<T> SharedSlice<T> {
    /// Whether both are one allocation.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Eq + Hash> Shared for SharedSlice<T> {
    fn has_others(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T> Default for SharedSlice<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> From<&[T]> for SharedSlice<T> {
    fn from(values: &[T]) -> Self {
        Self(Arc::new(values.into()))
    }
}

impl<T> Borrow<[T]> for SharedSlice<T> {
    fn borrow(&self) -> &[T] {
        &self.0
    }
}

impl<T> Deref for SharedSlice<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A table that can remove its unused values.
trait Sweep: Send {
    /// Removes the unused values, and returns their number.
    fn sweep(&mut self) -> usize;
}

/// All tables in use, for [`release_unused`].
static TABLES: Mutex<Vec<Arc<Mutex<dyn Sweep>>>> = Mutex::new(Vec::new());

/// Removes the values that only their table still refers to, from all tables.
///
/// A table by itself removes them only when it grows. After a burst it would keep thousands of
/// small allocations, and each keeps a page of the heap resident.
pub fn release_unused() {
    // A removed value may be the last to refer to one of another table.
    let sweep = || -> usize {
        let tables = lock(&TABLES);
        tables.iter().map(|table| lock(table).sweep()).sum()
    };
    while sweep() > 0 {}
}

/// Makes `table` known to [`release_unused`].
fn register<T: Sweep + 'static>(table: T) -> Arc<Mutex<T>> {
    let table = Arc::new(Mutex::new(table));
    lock(&TABLES).push(Arc::clone(&table) as _);
    table
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// A table of shared values behind pointers of type `P`. Equal values share one allocation.
pub struct Interner<P> {
    table: LazyLock<Arc<Mutex<Table<P>>>>,
}

struct Table<P> {
    values: HashSet<P, RandomState>,
    /// Number of values at which the next insertion removes unused values.
    sweep_at: usize,
}

/// Smallest number of values for a sweep. In a smaller table, a sweep costs more than it frees.
const FIRST_SWEEP: usize = 1024;

/// The number of values for the next sweep, after one that left `len`. Doubling keeps the average
/// cost of an insertion constant.
fn next_sweep(len: usize) -> usize {
    (len * 2).max(FIRST_SWEEP)
}

impl<P> Default for Table<P> {
    fn default() -> Self {
        Self {
            values: HashSet::default(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl<P: Shared + Send> Sweep for Table<P> {
    fn sweep(&mut self) -> usize {
        let before = self.values.len();
        self.values.retain(Shared::has_others);
        self.values.release_spare();
        self.sweep_at = next_sweep(self.values.len());
        before - self.values.len()
    }
}

impl<P: Shared + Send + 'static> Interner<P> {
    /// An empty table, for a `static`.
    pub const fn new() -> Self {
        Self {
            table: LazyLock::new(|| register(Table::default())),
        }
    }

    /// The shared copy of `value`. The first call for a value copies it into the table.
    pub fn intern<'a, T>(&self, value: &'a T) -> P
    where
        T: Eq + Hash + ?Sized,
        P: From<&'a T> + Borrow<T>,
    {
        let mut table = lock(&self.table);
        if let Some(found) = table.values.get(value) {
            return found.clone();
        }
        if table.values.len() >= table.sweep_at {
            table.sweep();
        }
        let fresh = P::from(value);
        table.values.insert(fresh.clone());
        fresh
    }
}

impl<P: Shared + Send + 'static> Default for Interner<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// A table of values that are costly to compute, by the text from which they are computed.
///
/// API servers send the same part of an object many times: with each status update, and in each
/// object of one template. [`Memo::get`] finds the value of a known text without parsing the text.
pub struct Memo<K, V> {
    table: LazyLock<Arc<Mutex<MemoTable<K, V>>>>,
}

struct MemoTable<K, V> {
    values: HashMap<K, Arc<V>, RandomState>,
    /// Number of values at which the next insertion removes unused values.
    sweep_at: usize,
}

impl<K, V> Default for MemoTable<K, V> {
    fn default() -> Self {
        Self {
            values: HashMap::default(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl<K: Eq + Hash + Send, V: Send + Sync> Sweep for MemoTable<K, V> {
    fn sweep(&mut self) -> usize {
        let before = self.values.len();
        self.values.retain(|_, value| Arc::strong_count(value) > 1);
        self.values.release_spare();
        self.sweep_at = next_sweep(self.values.len());
        before - self.values.len()
    }
}

impl<K: Eq + Hash + Send + 'static, V: Send + Sync + 'static> Memo<K, V> {
    /// An empty table, for a `static`.
    pub const fn new() -> Self {
        Self {
            table: LazyLock::new(|| register(MemoTable::default())),
        }
    }

    /// The shared value of `key`. If the table lacks it, `make` computes it. The table is unlocked
    /// during `make`, so `make` can use other tables. Errors of `make` are not stored.
    pub fn get<Q, E>(&self, key: &Q, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E>
    where
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
        K: Borrow<Q>,
    {
        if let Some(found) = lock(&self.table).values.get(key) {
            return Ok(Arc::clone(found));
        }
        let fresh = Arc::new(make()?);
        let mut table = lock(&self.table);
        if table.values.len() >= table.sweep_at {
            table.sweep();
        }
        // Another thread may have inserted the value during `make`; then its value is shared.
        Ok(Arc::clone(
            table.values.entry(key.to_owned()).or_insert(fresh),
        ))
    }
}

impl<K: Eq + Hash + Send + 'static, V: Send + Sync + 'static> Default for Memo<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// A key of several byte strings. It stores the length of each part, so keys are equal only if all
/// parts are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PartsKey(Vec<u8>);

impl PartsKey {
    /// An empty key with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Appends a part.
    pub fn push(&mut self, part: &[u8]) {
        self.0.extend_from_slice(&part.len().to_le_bytes());
        self.0.extend_from_slice(part);
    }
}

static STRINGS: Interner<ArcStr> = Interner::new();

/// An interned string, for strings that many objects share: namespaces, node names, label keys and
/// label values. It takes 8 bytes beside the shared text.
#[derive(Clone, PartialOrd, Ord)]
pub struct Sym(ArcStr);

impl Sym {
    /// The shared copy of `text`.
    pub fn new(text: &str) -> Self {
        Self(STRINGS.intern(text))
    }

    /// A copy of the string.
    pub fn to_arc(&self) -> Arc<str> {
        Arc::from(self.as_str())
    }

    /// The string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Hash for Sym {
    /// Hashes the string, so that a look-up with a `&str` works in maps with `Sym` keys.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialEq for Sym {
    fn eq(&self, other: &Self) -> bool {
        // Both sides come from one table, so equal strings have one address while both are alive.
        ArcStr::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Sym {}

impl PartialEq<str> for Sym {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Sym {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl Deref for Sym {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Sym {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Default for Sym {
    fn default() -> Self {
        Self::new("")
    }
}

impl From<&str> for Sym {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Sym {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SymVisitor;
        impl Visitor<'_> for SymVisitor {
            type Value = Sym;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Sym, E> {
                Ok(Sym::new(text))
            }
        }
        deserializer.deserialize_str(SymVisitor)
    }
}

impl Serialize for Sym {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl fmt::Display for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_allocation() {
        let a = Sym::new("intern-a");
        let b = Sym::new("intern-a");
        assert_eq!(a, b);
        assert!(ArcStr::ptr_eq(&a.0, &b.0));
        assert_eq!(size_of::<Option<Sym>>(), 8);
        assert_ne!(a, Sym::new("intern-b"));
    }

    #[test]
    fn unused_values_are_removed_when_the_table_grows() {
        static TABLE: Interner<ArcStr> = Interner::new();
        let kept = TABLE.intern("kept");
        for i in 0..3 * FIRST_SWEEP {
            TABLE.intern(format!("gone-{i}").as_str());
        }
        let table = lock(&TABLE.table);
        assert!(
            table.values.len() <= FIRST_SWEEP + 1,
            "{} values left",
            table.values.len()
        );
        assert!(table.values.contains(&kept));
    }

    #[test]
    fn a_memo_computes_a_value_once_while_it_is_in_use() {
        static MEMO: Memo<String, usize> = Memo::new();
        let length = |text: &str| MEMO.get(text, || Ok::<_, &str>(text.len()));
        let held = length("held").unwrap();
        let again = MEMO.get("held", || Err("made twice")).unwrap();
        assert!(Arc::ptr_eq(&held, &again));
        assert_eq!(MEMO.get("bad", || Err("no value")), Err("no value"));
        for i in 0..3 * FIRST_SWEEP {
            length(&format!("gone-{i}")).unwrap();
        }
        let table = lock(&MEMO.table);
        assert!(table.values.len() <= FIRST_SWEEP + 1 && table.values.contains_key("held"));
    }

    #[test]
    fn a_release_removes_unused_values_of_all_tables() {
        static TABLE: Interner<ArcStr> = Interner::new();
        static MEMO: Memo<String, usize> = Memo::new();
        let length = |text: &str| MEMO.get(text, || Ok::<_, ()>(text.len())).unwrap();
        let kept = (TABLE.intern("kept"), length("held"));
        for i in 0..FIRST_SWEEP {
            TABLE.intern(format!("gone-{i}").as_str());
            length(&format!("gone-{i}"));
        }
        release_unused();
        let table = lock(&TABLE.table);
        let memo = lock(&MEMO.table);
        assert!(table.values.len() == 1 && table.values.contains(&kept.0));
        assert!(memo.values.len() == 1 && memo.values.contains_key("held"));
        assert!(table.values.capacity() < FIRST_SWEEP / 4);
    }
}
