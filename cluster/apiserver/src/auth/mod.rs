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
mod bootstrap_tokens;
mod certificate;
mod escalation;
mod impersonate;
mod jwt;
mod legacy_tokens;
mod node;
mod policy;
mod rules;
mod tokens;
mod user;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

pub use attributes::{Attributes, ResourceRequest, Selected, Wanted};
pub use authority::{CertificateError, ClientCertificate};
pub use jwt::KeyError;
pub use user::User;

pub(crate) use authenticate::{Warning, bearer_token};

use authenticate::AUDIENCE;
pub(crate) use authority::Authority;
pub(crate) use bootstrap::objects as bootstrap_objects;
pub(crate) use certificate::{
    EXTRA_HEADERS, FRONT_PROXY, GROUP_HEADER, Peer, UID_HEADER, USER_HEADER,
};
pub(crate) use node::is_node;
pub(crate) use policy::{Decision, Policy};
pub(crate) use rules::Rule;
pub(crate) use tokens::Claims;
pub(crate) use user::MASTERS;

use jwt::{PublicKey, Signer};
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
    /// Keys that verify ServiceAccount tokens, beginning with that of `signer`.
    keys: RwLock<Arc<[PublicKey]>>,
    tokens: RwLock<HashMap<String, Arc<User>>>,
    /// Issuer of ServiceAccount tokens, and the audience of the API server.
    issuer: OnceLock<String>,
    /// Whether the authorizer AlwaysAllow follows RBAC.
    always_allow: AtomicBool,
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
            keys: RwLock::new([signer.public().clone()].into()),
            signer: Arc::new(signer),
            tokens: RwLock::default(),
            issuer: OnceLock::new(),
            always_allow: AtomicBool::new(false),
            policy: Mutex::default(),
        }
    }

    /// The same credentials for a forked server. Tokens and keys added later belong to one server
    /// only.
    pub(crate) fn fork(&self) -> Self {
        let tokens = self.tokens.read().clone();
        Self {
            authority: self.authority.clone(),
            signer: self.signer.clone(),
            keys: RwLock::new(self.keys()),
            tokens: RwLock::new(tokens),
            issuer: self.issuer.clone(),
            always_allow: AtomicBool::new(self.always_allow.load(Ordering::Relaxed)),
            policy: Mutex::default(),
        }
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Registers a static bearer token of `user`.
    pub(crate) fn add_token(&self, token: String, user: User) {
        self.tokens.write().insert(token, Arc::new(user));
    }

    /// Names the issuer. Only the first call has an effect, because tokens are not signed again.
    pub(crate) fn set_issuer(&self, issuer: String) {
        self.issuer.get_or_init(|| issuer);
    }

    /// Lets every user do everything that RBAC does not allow. Anonymous requests are refused.
    pub(crate) fn set_always_allow(&self) {
        self.always_allow.store(true, Ordering::Relaxed);
    }

    fn always_allows(&self) -> bool {
        self.always_allow.load(Ordering::Relaxed)
    }

    /// The issuer of ServiceAccount tokens. The API server accepts tokens for this audience.
    pub(crate) fn audience(&self) -> &str {
        self.issuer.get().map_or(AUDIENCE, String::as_str)
    }

    /// The OpenID discovery document of the token issuer. `host` is the client's name of the
    /// server.
    pub(crate) fn issuer(&self, host: &str) -> Value {
        let keys = self.keys();
        let algorithms: BTreeSet<&str> = keys.iter().map(PublicKey::algorithm).collect();
        json!({
            "issuer": self.audience(),
            "jwks_uri": format!("https://{host}{KEY_SET}"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    /// The public keys of ServiceAccount tokens, as a JSON Web Key Set.
    pub(crate) fn key_set(&self) -> Value {
        let keys = self.keys();
        json!({"keys": keys.iter().map(PublicKey::jwk).collect::<Vec<_>>()})
    }

    /// The private key that signs ServiceAccount tokens, as PEM.
    pub(crate) fn signing_key_pem(&self) -> &str {
        self.signer.pem()
    }

    /// Accepts ServiceAccount tokens of further keys: the PEM blocks `PUBLIC KEY` of a text.
    pub(crate) fn add_keys(&self, pem: &str) -> Result<(), KeyError> {
        let added = PublicKey::all_of_pem(pem)?;
        let mut keys = self.keys.write();
        *keys = keys.iter().cloned().chain(added).collect();
        Ok(())
    }

    fn signer(&self) -> &Signer {
        &self.signer
    }

    fn keys(&self) -> Arc<[PublicKey]> {
        self.keys.read().clone()
    }

    fn of_token(&self, token: &str) -> Option<Arc<User>> {
        self.tokens.read().get(token).cloned()
    }
}

impl Server {
    /// 403 for a write that authorization allows but a further check forbids: privilege
    /// escalation, or a node that writes objects of another one.
    pub(crate) fn check_author(
        &self,
        user: &User,
        target: &Target,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Status> {
        node::restrict(user, target, old, new)?;
        self.check_escalation(user, target, old, new)
    }

    /// Whether a user can do something, and the reason. The Node authorizer comes before RBAC, and
    /// AlwaysAllow after it.
    pub(crate) fn decide(&self, user: &User, wanted: &Attributes) -> Decision {
        let without_reason = Decision {
            allowed: true,
            reason: String::new(),
        };
        let opinion = self.opinion_about_node(user, wanted);
        if opinion == Some(Ok(())) {
            return without_reason;
        }
        let mut decision = self.policy().decide(user, wanted);
        if !decision.allowed && self.users.always_allows() {
            return without_reason;
        }
        if !decision.allowed
            && let Some(Err(reason)) = opinion
        {
            let reasons = [reason, decision.reason];
            let given = reasons.into_iter().filter(|reason| !reason.is_empty());
            decision.reason = given.collect::<Vec<_>>().join("\n");
        }
        decision
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
        let mut cached = self.users.policy.lock();
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
