//! Types and statuses of the conditions of an object.
//!
//! Most objects of one kind have the same types and statuses, for example all ready pods. Such
//! objects share one list, so conditions cost a cached object one pointer.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::Deserializer;

use steersman_values::intern::{Memo, PartsKey, Sym};

use super::wire::Text;

static LISTS: Memo<PartsKey, Vec<ConditionState>> = Memo::new();

/// Type and status of each condition, in the served order. Equal lists share one allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Conditions(Arc<Vec<ConditionState>>);

/// Type and status of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionState {
    /// Type, such as `Ready`.
    pub kind: Sym,
    /// `True`, `False` or `Unknown`; empty when unset.
    pub status: Sym,
}

impl Conditions {
    /// The shared list with the pairs of type and status in `states`.
    pub fn new<'a>(states: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let mut key = PartsKey::with_capacity(256);
        for (kind, status) in states.clone() {
            key.push(kind.as_bytes());
            key.push(status.as_bytes());
        }
        let list = LISTS.get(&key, || {
            let state = |(kind, status)| ConditionState {
                kind: Sym::new(kind),
                status: Sym::new(status),
            };
            Ok::<_, Infallible>(states.map(state).collect())
        });
        match list {
            Ok(list) => Self(list),
        }
    }

    /// Whether the first condition of this type is `True`.
    pub fn is_true(&self, kind: &str) -> bool {
        let first = self.0.iter().find(|state| state.kind == *kind);
        first.is_some_and(|state| state.status == *"True")
    }
}

impl Default for Conditions {
    fn default() -> Self {
        Self::new([].into_iter())
    }
}

impl std::ops::Deref for Conditions {
    type Target = [ConditionState];
    fn deref(&self) -> &[ConditionState] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(rename = "type", borrow)]
            kind: Text<'a>,
            #[serde(borrow)]
            status: Option<Text<'a>>,
        }
        let wire: Vec<Wire<'de>> = Vec::deserialize(deserializer)?;
        Ok(Self::new(wire.iter().map(|condition| {
            let status = condition.status.as_deref();
            (&*condition.kind, status.unwrap_or_default())
        })))
    }
}

impl fmt::Debug for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
