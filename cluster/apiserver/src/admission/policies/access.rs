//! Reviews of `authorizer` in expressions, by the roles of the cluster.

use std::sync::Arc;

use crate::auth::{Attributes, Policy, ResourceRequest, User, Wanted};
use crate::cel::{Access, Decision, ResourceCheck};

/// The user of a review, and the rules that decide.
#[derive(Debug)]
pub(super) struct Subject {
    user: User,
    policy: Arc<Policy>,
}

impl Subject {
    pub(super) fn access(user: User, policy: Arc<Policy>) -> Arc<dyn Access> {
        Arc::new(Self { user, policy })
    }

    fn decide(&self, wanted: &Attributes) -> Decision {
        let decision = self.policy.decide(&self.user, wanted);
        Decision {
            allowed: decision.allowed,
            reason: decision.reason,
        }
    }
}

impl Access for Subject {
    fn of_service_account(&self, namespace: &str, name: &str) -> Arc<dyn Access> {
        let user = User::service_account(namespace, name);
        Self::access(user, Arc::clone(&self.policy))
    }

    fn to_path(&self, verb: &str, path: &str) -> Decision {
        self.decide(&Attributes {
            verb: verb.to_owned(),
            object: Wanted::Path(path.to_owned()),
        })
    }

    fn to_resource(&self, verb: &str, check: &ResourceCheck) -> Decision {
        let request = ResourceRequest {
            group: check.group.clone(),
            resource: check.resource.clone(),
            subresource: check.subresource.clone(),
            namespace: check.namespace.clone(),
            name: check.name.clone(),
            ..ResourceRequest::default()
        };
        self.decide(&Attributes::resource(verb, request))
    }
}
