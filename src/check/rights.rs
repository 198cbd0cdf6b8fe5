//! The rights of the manager's identity, and of the ServiceAccounts of its controllers.
//!
//! rules of enabled controllers -> [`Request`]s -> reviews at the API server -> findings
//!
//! A review has one verb on one resource. Rules of several controllers overlap, so equal requests are
//! asked once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use steersman_runtime::controller::{Descriptor, MANAGERS_IDENTITIES};
use steersman_runtime::rbac::Rule;

use super::finding::Finding;
use crate::config::Config;
use crate::service_accounts::NAMESPACE;

const CHECK: &str = "rights";
/// Resources that are listed one by one for each identity. With more, only the first are named.
const MOST: usize = 8;

/// One request that the API server has to allow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    /// The ServiceAccount in `kube-system`; `None` for the manager's own identity.
    account: Option<&'static str>,
    group: String,
    /// `pods`, `pods/status`.
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    verb: String,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The API server would allow it.
    Allowed,
    /// It would not.
    Denied,
    /// The review itself failed.
    Unknown(String),
}

/// The requests that a manager with this configuration makes, with the parts that need them.
pub(super) type Needed = BTreeMap<Request, BTreeSet<&'static str>>;

/// The requests that a manager with `config` makes.
pub(super) fn needed(config: &Config) -> Needed {
    let mut needed = Needed::new();
    let has_accounts = config.service_account_credentials;
    let selection = &config.controllers;
    let features = config.features.for_controllers();
    let is_needed = |rule: &Rule| rule.is_needed(&features);
    for descriptor in selection.tokens.iter().chain(&selection.enabled) {
        if has_accounts {
            let mut rules = descriptor.rules_of_manager();
            rules.retain(is_needed);
            add(&mut needed, None, descriptor.name, &rules);
        }
        let account = account_of(descriptor).filter(|_| has_accounts);
        // The manager's identity fills the caches.
        let is_own =
            |rule: &Rule| account.is_none() || rule.of_informers().is_none_or(|of| of != *rule);
        let mut rules = descriptor.all_rules();
        rules.retain(|rule| is_needed(rule) && is_own(rule));
        add(&mut needed, account, descriptor.name, &rules);
    }
    if has_accounts {
        let rules = [
            Rule::new(&[""], &["serviceaccounts"], &["get", "create"]).within(Some(NAMESPACE)),
            Rule::new(&[""], &["serviceaccounts/token"], &["create"]).within(Some(NAMESPACE)),
        ];
        add(
            &mut needed,
            None,
            "--use-service-account-credentials",
            &rules,
        );
    }
    if let Some(election) = &config.election {
        let mut lease = |verb: &str, is_named: bool| {
            let request = Request {
                account: None,
                group: "coordination.k8s.io".to_owned(),
                resource: "leases".to_owned(),
                namespace: Some(election.namespace.clone()),
                name: is_named.then(|| election.name.clone()),
                verb: verb.to_owned(),
            };
            needed.entry(request).or_default().insert("leader election");
        };
        lease("create", false);
        lease("get", true);
        lease("update", true);
        if election.coordinated {
            let verbs = &["create", "get", "update", "watch"];
            let rule = Rule::new(&["coordination.k8s.io"], &["leasecandidates"], verbs);
            let rules = [rule.within(Some(NAMESPACE))];
            add(&mut needed, None, "leader election", &rules);
        }
    }
    needed
}

fn account_of(descriptor: &Descriptor) -> Option<&'static str> {
    Some(descriptor.identity).filter(|identity| !MANAGERS_IDENTITIES.contains(identity))
}

fn add(needed: &mut Needed, account: Option<&'static str>, part: &'static str, rules: &[Rule]) {
    for rule in rules {
        let names: Vec<Option<&str>> = match rule.names {
            [] => vec![None],
            names => names.iter().copied().map(Some).collect(),
        };
        for group in rule.groups {
            for resource in rule.resources {
                for (name, verb) in names
                    .iter()
                    .flat_map(|name| rule.verbs.iter().map(move |verb| (*name, *verb)))
                {
                    let request = Request {
                        account,
                        group: (*group).to_owned(),
                        resource: (*resource).to_owned(),
                        namespace: rule.namespace.map(str::to_owned),
                        name: name.map(str::to_owned),
                        verb: verb.to_owned(),
                    };
                    needed.entry(request).or_default().insert(part);
                }
            }
        }
    }
}

impl Request {
    /// Whether the review names another user than the sender.
    pub(super) fn is_about_account(&self) -> bool {
        self.account.is_some()
    }

    /// The body of the review.
    pub(super) fn review(&self) -> Value {
        let (resource, subresource) = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        let mut spec = json!({"resourceAttributes": {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace.as_deref().unwrap_or(""),
            "name": self.name.as_deref().unwrap_or(""),
        }});
        let kind = match self.account {
            None => "SelfSubjectAccessReview",
            Some(account) => {
                spec["user"] = json!(format!("system:serviceaccount:{NAMESPACE}:{account}"));
                spec["groups"] = json!([
                    "system:serviceaccounts",
                    format!("system:serviceaccounts:{NAMESPACE}"),
                    "system:authenticated",
                ]);
                "SubjectAccessReview"
            }
        };
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
    }

    /// Resource, with its group, namespace and name.
    fn object(&self) -> String {
        let group = match self.group.as_str() {
            "" => String::new(),
            group => format!(".{group}"),
        };
        let (resource, part) = match self.resource.split_once('/') {
            Some((resource, part)) => (resource, format!("/{part}")),
            None => (&*self.resource, String::new()),
        };
        let name = self.name.as_ref().map(|name| format!(" {name}"));
        let namespace = self.namespace.as_ref().map(|name| format!(" in {name}"));
        format!(
            "{resource}{group}{part}{}{}",
            name.unwrap_or_default(),
            namespace.unwrap_or_default()
        )
    }
}

/// The findings about the answers to `needed`.
pub(super) fn check(needed: &Needed, answers: &BTreeMap<Request, Answer>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unknown = Vec::new();
    let accounts: BTreeSet<Option<&str>> = needed.keys().map(|request| request.account).collect();
    for account in accounts {
        let requests = || {
            needed
                .iter()
                .filter(|(request, _)| request.account == account)
        };
        let failed = requests().find_map(|(request, _)| match answers.get(request) {
            Some(Answer::Unknown(error)) => Some(error.as_str()),
            _ => None,
        });
        unknown.extend(failed.map(|error| (account, error)));
        let mut denied: BTreeMap<String, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for (request, parts) in requests() {
            if answers.get(request) == Some(&Answer::Denied) {
                let (verbs, needs) = denied.entry(request.object()).or_default();
                verbs.insert(&request.verb);
                needs.extend(parts);
            }
        }
        findings.extend(refused(account, &denied, requests().count()));
    }
    findings.extend(unchecked(&unknown));
    if findings.is_empty() {
        findings.push(Finding::ok(
            CHECK,
            format!("all {} kinds of requests are allowed", needed.len()),
        ));
    }
    findings
}

/// At most two findings: about the manager's identity, and about all ServiceAccounts together.
fn unchecked(unknown: &[(Option<&str>, &str)]) -> Vec<Finding> {
    let (own, accounts): (Vec<_>, Vec<_>) =
        unknown.iter().partition(|(account, _)| account.is_none());
    let finding = |whose: String, right: &str, error: &str| {
        Finding::warning(
            CHECK,
            format!("rights of {whose} are not checked: {error}"),
            format!("run the check with a kubeconfig that may create {right}.authorization.k8s.io"),
        )
    };
    let own = own.first().map(|(_, error)| {
        let whose = "the manager's identity".to_owned();
        finding(whose, "selfsubjectaccessreviews", error)
    });
    let accounts = accounts.first().map(|(_, error)| {
        let whose = format!("{} ServiceAccounts in {NAMESPACE}", accounts.len());
        finding(whose, "subjectaccessreviews", error)
    });
    own.into_iter().chain(accounts).collect()
}

/// The findings about the denied requests of one identity, by object: verbs, and the parts that need them.
fn refused(
    account: Option<&str>,
    denied: &BTreeMap<String, (BTreeSet<&str>, BTreeSet<&str>)>,
    all: usize,
) -> Vec<Finding> {
    let (whose, advice) = match account {
        None => (
            "the manager's identity".to_owned(),
            "use the kubeconfig of system:kube-controller-manager with --use-service-account-credentials, or bind the role of the chart".to_owned(),
        ),
        Some(account) => (
            format!("ServiceAccount {NAMESPACE}/{account}"),
            format!("restore the ClusterRole system:controller:{account} and its binding, or bind the role of the chart"),
        ),
    };
    let list = |texts: &BTreeSet<&str>| texts.iter().copied().collect::<Vec<_>>().join(", ");
    if denied.len() > MOST {
        let first: Vec<&str> = denied.keys().take(MOST).map(String::as_str).collect();
        let count: usize = denied.values().map(|(verbs, _)| verbs.len()).sum();
        let message = format!(
            "{whose} may not make {count} of {all} kinds of requests, such as those about {}",
            first.join(", ")
        );
        return vec![Finding::failure(CHECK, message, advice)];
    }
    let denied = denied.iter().map(|(object, (verbs, parts))| {
        let message = format!(
            "{whose} may not {} {object}; needed by {}",
            list(verbs),
            list(parts)
        );
        Finding::failure(CHECK, message, advice.clone())
    });
    denied.collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level::{Failure, Ok, Warning};
    use super::super::finding::tests::words;
    use super::*;
    use crate::command_line::Options;
    use crate::registry::ControllerRegistry;

    fn config(controllers: &str, with_accounts: bool) -> Config {
        let mut options = Options::default();
        options.set("controllers", controllers).unwrap();
        let accounts = with_accounts.to_string();
        options
            .set("use-service-account-credentials", &accounts)
            .unwrap();
        Config::new(options, &ControllerRegistry::builtin()).unwrap()
    }

    /// Answers of an API server that denies the requests for which `is_denied` holds.
    fn answers(needed: &Needed, is_denied: impl Fn(&Request) -> bool) -> BTreeMap<Request, Answer> {
        let answer = |request: &Request| {
            if is_denied(request) {
                Answer::Denied
            } else {
                Answer::Allowed
            }
        };
        needed
            .keys()
            .map(|request| (request.clone(), answer(request)))
            .collect()
    }

    #[test]
    fn accounts_write_and_the_manager_reads() {
        let needed = needed(&config("replicaset", true));
        let allowed = |account: Option<&str>, verb: &str, resource: &str| {
            needed
                .keys()
                .any(|r| r.account == account && r.verb == verb && r.resource == resource)
        };
        let account = Some("replicaset-controller");
        assert!(allowed(None, "watch", "replicasets") && !allowed(account, "watch", "replicasets"));
        assert!(allowed(account, "create", "pods") && !allowed(None, "create", "pods"));
        assert!(allowed(None, "create", "serviceaccounts/token"));
        assert!(allowed(None, "update", "leases"));
    }

    #[test]
    fn without_accounts_the_manager_needs_all_rights() {
        let needed = needed(&config("replicaset", false));
        assert!(needed.keys().all(|request| request.account.is_none()));
        assert!(
            needed
                .keys()
                .any(|r| r.verb == "create" && r.resource == "pods")
        );
        assert!(!needed.keys().any(|r| r.resource == "serviceaccounts/token"));
    }

    #[test]
    fn denied_requests_are_failures_with_their_controllers() {
        let needed = needed(&config("replicaset", true));
        let all = check(&needed, &answers(&needed, |_| false));
        assert_eq!(words(&all)[0].0, Ok);

        let found = check(
            &needed,
            &answers(&needed, |r| r.resource == "pods" && r.verb == "delete"),
        );
        let expected = "ServiceAccount kube-system/replicaset-controller may not delete pods; needed by replicaset-controller";
        assert_eq!(words(&found), [(Failure, expected)]);
    }

    #[test]
    fn an_identity_without_rights_is_one_finding() {
        let needed = needed(&config("*", false));
        let found = check(&needed, &answers(&needed, |_| true));
        let [(Failure, message)] = words(&found)[..] else {
            panic!("{found:?}");
        };
        assert!(
            message.contains(&format!("{0} of {0} kinds", needed.len())),
            "{message}"
        );
    }

    #[test]
    fn a_refused_review_is_a_warning() {
        let needed = needed(&config("replicaset", true));
        let mut answers = answers(&needed, |_| false);
        for (request, answer) in &mut answers {
            if request.account.is_some() {
                *answer = Answer::Unknown("forbidden".to_owned());
            }
        }
        let found = check(&needed, &answers);
        let expected = "rights of 1 ServiceAccounts in kube-system are not checked: forbidden";
        assert_eq!(words(&found), [(Warning, expected)]);
    }

    #[test]
    fn a_review_names_user_resource_and_subresource() {
        let request = Request {
            account: Some("job-controller"),
            group: "batch".to_owned(),
            resource: "jobs/status".to_owned(),
            namespace: None,
            name: None,
            verb: "update".to_owned(),
        };
        let review = request.review();
        assert_eq!(review["kind"], "SubjectAccessReview");
        assert_eq!(
            review["spec"]["user"],
            "system:serviceaccount:kube-system:job-controller"
        );
        let attributes = &review["spec"]["resourceAttributes"];
        assert_eq!(
            (&attributes["resource"], &attributes["subresource"]),
            (&json!("jobs"), &json!("status"))
        );
    }
}
