//! Authentication and authorization of requests.
//!
//! connection -> authenticate -> impersonate -> authorize (attributes, policy) -> the API
//!
//! Members of `system:masters` can do everything. For all other users, the roles and bindings in
//! the store decide at every request, as upstream's RBAC authorizer does.

mod attributes;
mod authenticate;
mod authority;
mod bootstrap;
mod certificate;
mod escalation;
mod impersonate;
mod jwt;
mod policy;
mod rules;
mod signers;
mod tokens;
mod user;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

pub use attributes::{Attributes, ResourceRequest, Wanted};
pub use authority::{CertificateError, ClientCertificate};
pub use user::User;

pub(crate) use authenticate::{AUDIENCE, bearer_token};
pub(crate) use authority::Authority;
pub(crate) use bootstrap::objects as bootstrap_objects;
pub(crate) use certificate::{
    EXTRA_HEADERS, FRONT_PROXY, GROUP_HEADER, Peer, UID_HEADER, USER_HEADER,
};
pub(crate) use policy::{Decision, Policy};
pub(crate) use rules::Rule;
pub(crate) use tokens::Claims;

use jwt::Signer;
use policy::Sources;
use serde_json::{Value, json};

use crate::Server;
use crate::route::Target;
use crate::status::Status;

/// Path of the public keys that verify ServiceAccount tokens.
const KEY_SET: &str = "/openid/v1/jwks";

/// Credentials and cached policy, which are not part of the store.
#[derive(Debug)]
pub(crate) struct Users {
    authority: Arc<Authority>,
    signer: Arc<Signer>,
    tokens: RwLock<HashMap<String, Arc<User>>>,
    policy: Mutex<Option<(Versions, Arc<Policy>)>>,
}

/// Latest revisions of the four resources from which a policy is compiled.
type Versions = [u64; 4];

impl Users {
    /// New authorities and a new signing key, without any static token.
    pub(crate) fn new() -> Self {
        let authority =
            Authority::generate().expect("keys and certificates of a fixed form can be made");
        let signer = Signer::generate().expect("the machine has randomness for a key");
        Self {
            authority: Arc::new(authority),
            signer: Arc::new(signer),
            tokens: RwLock::default(),
            policy: Mutex::default(),
        }
    }

    /// The same credentials for a forked server. Tokens added later belong to one server only.
    pub(crate) fn fork(&self) -> Self {
        let tokens = self
            .tokens
            .read()
            .expect("nothing panics while it holds the lock")
            .clone();
        Self {
            authority: self.authority.clone(),
            signer: self.signer.clone(),
            tokens: RwLock::new(tokens),
            policy: Mutex::default(),
        }
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Registers a static bearer token of `user`.
    pub(crate) fn add_token(&self, token: String, user: User) {
        self.tokens
            .write()
            .expect("nothing panics while it holds the lock")
            .insert(token, Arc::new(user));
    }

    /// The OpenID discovery document of the token issuer. `host` is the client's name of the
    /// server.
    pub(crate) fn issuer(&self, host: &str) -> Value {
        json!({
            "issuer": AUDIENCE,
            "jwks_uri": format!("https://{host}{KEY_SET}"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [jwt::ALGORITHM],
        })
    }

    /// The public keys of the token issuer.
    pub(crate) fn key_set(&self) -> Value {
        self.signer.key_set()
    }

    fn signer(&self) -> &Signer {
        &self.signer
    }

    fn of_token(&self, token: &str) -> Option<Arc<User>> {
        self.tokens
            .read()
            .expect("nothing panics while it holds the lock")
            .get(token)
            .cloned()
    }
}

impl Server {
    /// 403 for a write that RBAC allows but a further check forbids: privilege escalation, or
    /// approval and signing of certificates. It also writes the requester into a new
    /// CertificateSigningRequest.
    pub(crate) fn check_author(
        &self,
        user: &User,
        target: &Target,
        old: Option<&Value>,
        new: &mut Value,
    ) -> Result<(), Status> {
        self.check_escalation(user, target, old, new)?;
        self.check_signing(user, target, old, new)
    }

    /// Whether a user can do something, and the reason.
    pub(crate) fn decide(&self, user: &User, wanted: &Attributes) -> Decision {
        self.policy().decide(user, wanted)
    }

    /// The policy of the roles and bindings as they are now.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        let kinds = [
            "clusterroles",
            "roles",
            "clusterrolebindings",
            "rolebindings",
        ];
        let kinds = kinds.map(|plural| {
            let found = self.registry.find(escalation::GROUP, "v1", plural);
            found
                .expect("roles and bindings are built in")
                .store
                .clone()
        });
        // The versions are read before the objects. A write in between then only causes one
        // unnecessary compilation.
        let versions = kinds.each_ref().map(|store| store.latest());
        let mut cached = self
            .users
            .policy
            .lock()
            .expect("nothing panics while it holds the lock");
        if let Some((known, policy)) = &*cached
            && *known == versions
        {
            return policy.clone();
        }
        let [cluster_roles, roles, cluster_bindings, bindings] = kinds
            .each_ref()
            .map(|store| store.list(&self.revisions, "").objects);
        let policy = Arc::new(Policy::compile(&Sources {
            cluster_roles: &cluster_roles,
            roles: &roles,
            cluster_bindings: &cluster_bindings,
            bindings: &bindings,
        }));
        *cached = Some((versions, policy.clone()));
        policy
    }
}
