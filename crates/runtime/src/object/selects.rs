//! Owners that adopt by selector.

use super::{Deployment, Object, ReplicaSet, ReplicationController};
use crate::labels::{Selector, SelectorError};

/// An object whose selector says which dependents belong to it.
pub trait Selects: Object {
    /// The parsed selector, or why it cannot be parsed.
    fn selector(&self) -> Result<&Selector, &SelectorError>;
}

/// A view with `spec.selector`, parsed.
macro_rules! selects {
    ($($view:ty),*) => {$(
        impl Selects for $view {
            fn selector(&self) -> Result<&Selector, &SelectorError> {
                self.spec.selector.as_ref()
            }
        }
    )*};
}

selects!(Deployment, ReplicaSet, ReplicationController);
