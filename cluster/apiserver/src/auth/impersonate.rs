//! Impersonation: `Impersonate-*` headers let a permitted user act as another one.
//!
//! Upstream: `k8s.io/apiserver/pkg/endpoints/filters/impersonation`.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::attributes::{Attributes, ResourceRequest};
use super::user::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups, split_service_account,
};
use crate::Server;
use crate::route::percent_decode;
use crate::status::Status;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA_PREFIX: &str = "impersonate-extra-";

impl Server {
    /// The user that the headers name, or `user` itself if they name none.
    ///
    /// Every part needs the verb `impersonate`: name, groups, UID and extra fields. Otherwise the
    /// answer is 403.
    pub(crate) fn impersonated(
        &self,
        user: &Arc<User>,
        headers: &HeaderMap,
    ) -> Result<Arc<User>, Status> {
        let extras: Vec<(String, &str)> = headers
            .iter()
            .filter_map(|(name, value)| extra(name, value))
            .collect();
        let groups: Vec<&str> = headers
            .get_all(&GROUP)
            .iter()
            .filter_map(|group| group.to_str().ok())
            .collect();
        let text = |name: &HeaderName| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let name = text(&USER);
        let uid = text(&UID);
        if name.is_empty() {
            if groups.is_empty() && extras.is_empty() && uid.is_empty() {
                return Ok(user.clone());
            }
            return Err(Status::bad_request(
                "groups, extra fields or a UID were requested without impersonating a user",
            ));
        }

        let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
            let wanted = Attributes::resource(
                "impersonate",
                ResourceRequest {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    subresource: subresource.to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    ..ResourceRequest::default()
                },
            );
            let decision = self.decide(user, &wanted);
            if decision.allowed {
                Ok(())
            } else {
                Err(wanted.forbidden(user, &decision.reason))
            }
        };
        let mut other = User {
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..User::default()
        };
        match split_service_account(name) {
            Some((namespace, account)) => {
                // Without explicit groups, a ServiceAccount gets the groups of its namespace.
                may("", "serviceaccounts", "", namespace, account)?;
                if groups.is_empty() {
                    other.groups.extend(service_account_groups(namespace));
                }
            }
            None => may("", "users", "", "", name)?,
        }
        for group in groups {
            may("", "groups", "", "", group)?;
            other.groups.push(group.to_owned());
        }
        for (key, value) in extras {
            may("authentication.k8s.io", "userextras", &key, "", value)?;
            other.extra.entry(key).or_default().push(value.to_owned());
        }
        if !uid.is_empty() {
            may("authentication.k8s.io", "uids", "", "", uid)?;
        }
        let known = if name == ANONYMOUS {
            UNAUTHENTICATED
        } else {
            AUTHENTICATED
        };
        if !other.is_in(known) && !other.is_in(UNAUTHENTICATED) {
            other.groups.push(known.to_owned());
        }
        Ok(Arc::new(other))
    }
}

fn extra<'a>(name: &HeaderName, value: &'a HeaderValue) -> Option<(String, &'a str)> {
    Some((
        percent_decode(name.as_str().strip_prefix(EXTRA_PREFIX)?),
        value.to_str().ok()?,
    ))
}
