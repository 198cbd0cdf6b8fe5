//! Users with the RBAC rules of controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apiserver::store::Object;
use steersman_runtime::rbac::Rule;

use super::DevCluster;

const GROUP: &str = "rbac.authorization.k8s.io";

impl DevCluster {
    /// Gives the user `user` exactly these rules: a ClusterRole, Roles in the namespaces of rules,
    /// and their bindings, all with the user's name. Objects that have these rules already are not
    /// written, so they get no new revision.
    ///
    /// # Panics
    /// If the server refuses a role, or if a namespace of a rule is missing.
    pub fn allow(&self, user: &str, rules: &[Rule]) {
        let mut roles: BTreeMap<String, Vec<&Rule>> = BTreeMap::from([(String::new(), Vec::new())]);
        let earlier = self.named("roles", user);
        roles.extend(
            earlier
                .iter()
                .map(|role| (role.namespace().to_owned(), Vec::new())),
        );
        for rule in rules {
            let namespace = rule.namespace.unwrap_or_default();
            roles.entry(namespace.to_owned()).or_default().push(rule);
        }
        for (namespace, rules) in roles {
            for object in role_and_binding(user, &namespace, &rules) {
                let plural = object["kind"].as_str().unwrap_or_default().to_lowercase() + "s";
                let is_there = |known: &Arc<Object>| {
                    known.namespace() == namespace && known.to_value()["rules"] == object["rules"]
                };
                if !self.named(&plural, user).iter().any(is_there) {
                    self.load(object)
                        .expect("roles and bindings of this form are valid");
                }
            }
        }
    }

    /// All objects of a plural resource with this name, from every namespace. The others stay
    /// unparsed: a test world allows some fifty users, and each has roles.
    fn named(&self, plural: &str, name: &str) -> Vec<Arc<Object>> {
        let entry = self.server.registry.find_plural(plural);
        let listed = entry.map(|entry| entry.store.list(&self.server.revisions, "").objects);
        let mut found = listed.unwrap_or_default();
        found.retain(|object| object.name() == name);
        found
    }
}

/// A role with these rules and its binding to `user`, for the whole cluster if `namespace` is empty.
fn role_and_binding(user: &str, namespace: &str, rules: &[&Rule]) -> [Value; 2] {
    let mut metadata = json!({ "name": user });
    let scope = if namespace.is_empty() {
        "Cluster"
    } else {
        metadata["namespace"] = json!(namespace);
        ""
    };
    let kind = format!("{scope}Role");
    let api_version = format!("{GROUP}/v1");
    [
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": user},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use steersman_apiserver::auth::User;
    use steersman_values::clock::Clock;

    use super::*;

    #[tokio::test]
    async fn a_user_has_exactly_the_allowed_rules() {
        let cluster = DevCluster::new(Clock::system());
        let pods = Rule::new(&[""], &["pods"], &["list"]);
        let info = Rule::new(&[""], &["configmaps"], &["get"])
            .named(&["cluster-info"])
            .within(Some("kube-public"));
        let client = cluster.client_as(User::new("someone", [""; 0]));
        let status = async |path: &str| {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            match client.request::<Value>(request).await {
                Ok(_) => 200,
                Err(kube::Error::Api(status)) => status.code,
                Err(error) => panic!("{error}"),
            }
        };
        let in_public = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
        cluster.allow("someone", &[pods, info]);
        assert_eq!(status("/api/v1/pods").await, 200);
        assert_eq!(status(in_public).await, 404);
        assert_eq!(
            status("/api/v1/namespaces/kube-public/configmaps/other").await,
            403
        );
        assert_eq!(
            status("/api/v1/namespaces/default/configmaps/cluster-info").await,
            403
        );
        let revision = cluster.revision();
        cluster.allow("someone", &[pods, info]);
        assert_eq!(cluster.revision(), revision, "nothing has changed");
        cluster.allow("someone", &[]);
        assert_eq!(status("/api/v1/pods").await, 403);
        assert_eq!(status(in_public).await, 403);
    }
}
