//! The cached view of a ServiceAccount.
//!
//! The token controller needs the identity, and the cleaner of old tokens the list of Secrets.
//! Upstream: `k8s.io/api/core/v1`.

use steersman_values::resource::SERVICE_ACCOUNTS;

use crate::view;

view! {
    /// A ServiceAccount.
    pub struct ServiceAccount: SERVICE_ACCOUNTS {
        /// Secrets of the account, by name. Servers before 1.24 listed the token Secret that they
        /// created.
        pub secrets: Vec<SecretName>,
    }

    /// A reference to a Secret in the namespace of the account.
    pub struct SecretName {
        /// Name.
        pub name: Box<str>,
    }
}
