//! Owners that adopt dependents with a label selector.
//!
//! The trait lets the code for adoption and release work for all kinds of owners.

use steersman_values::labels::{Selector, SelectorError};

use super::{DaemonSet, Deployment, Job, Object, ReplicaSet, ReplicationController, StatefulSet};

/// An object that selects its dependents by labels.
pub trait Selects: Object {
    /// The parsed selector, or the error of parsing it.
    fn selector(&self) -> Result<&Selector, &SelectorError>;
}

/// Implements [`Selects`] for views that keep the parsed `spec.selector`.
macro_rules! selects {
    ($($view:ty),*) => {$(
        impl Selects for $view {
            fn selector(&self) -> Result<&Selector, &SelectorError> {
                self.spec.selector.as_ref()
            }
        }
    )*};
}

selects!(
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet
);
