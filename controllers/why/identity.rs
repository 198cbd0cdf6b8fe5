//! A pod that runs as the ServiceAccount `default`, while another account has the role
//! in the cloud or the right that its program lacks.

use steersman_values::resource::SERVICE_ACCOUNTS;
use steersman_why::{Doc, Explanation, World, maker};

use super::account::DEFAULT;

/// Annotations of ServiceAccounts with a role in a cloud: EKS, GKE and AKS.
const ROLES: [&str; 3] = [
    "eks.amazonaws.com/role-arn",
    "iam.gke.io/gcp-service-account",
    "azure.workload.identity/client-id",
];

/// Words of clouds about roles of ServiceAccounts.
const OF_CLOUDS: [&str; 3] = ["iam role", "workload identity", "federated"];

/// Names the account with a role in the cloud in the reasons of `answer`, which is about the pod `doc`, that tell of the
/// account `default`.
pub(super) fn name_account(world: &World, doc: &Doc, answer: &mut Explanation) {
    let mut texts = answer.reasons.iter().map(|one| &one.message);
    if !runs_as_default(doc) || !texts.any(|text| is_about_default(text)) {
        return;
    }
    let Some(accounts) = world.list(&SERVICE_ACCOUNTS, doc.namespace()) else {
        return;
    };
    let with_role: Vec<(&str, &str)> = accounts
        .iter()
        .filter_map(|account| Some((account.name(), role(account)?)))
        .collect();
    // Its role is another matter.
    if with_role.iter().any(|(name, _)| *name == DEFAULT) {
        return;
    }
    let names: Vec<&str> = with_role.iter().map(|(name, _)| *name).collect();
    let Some(name) = named(doc, &names) else {
        return;
    };
    let annotation = with_role.iter().find(|(other, _)| *other == name);
    let annotation = annotation.map_or("", |(_, annotation)| annotation);
    for reason in &mut answer.reasons {
        if is_about_default(&reason.message) {
            reason.message = format!(
                "{}; {}, and ServiceAccount {name} has the annotation {annotation}",
                reason.message.trim(),
                runs_as(doc)
            );
            reason.who = format!(
                "{}, or of ServiceAccount {}/{DEFAULT} (the annotation {annotation})",
                who(name),
                doc.namespace()
            );
        }
    }
}

/// `the pod runs as ServiceAccount shop/default`. Admission writes this name into each pod, so its template is unknown.
pub(super) fn runs_as(doc: &Doc) -> String {
    format!(
        "the pod runs as ServiceAccount {}/{DEFAULT}",
        doc.namespace()
    )
}

/// The person that can give the pod the account `name`.
pub(super) fn who(name: &str) -> String {
    format!("owner of the pod template (serviceAccountName: {name})")
}

/// Whether `doc` is a pod that runs as the account `default`.
pub(super) fn runs_as_default(doc: &Doc) -> bool {
    let is_pod = doc.at("/spec/containers").is_some();
    is_pod && matches!(doc.text("/spec/serviceAccountName"), "" | DEFAULT)
}

/// The one of `accounts` with the name of the workload of the pod `doc`.
pub(super) fn named<'a>(doc: &Doc, accounts: &[&'a str]) -> Option<&'a str> {
    let maker = maker(doc);
    let workload = maker.rsplit('/').next().unwrap_or_default();
    accounts.iter().find(|name| **name == workload).copied()
}

/// The annotation of `account` with a role in a cloud.
fn role(account: &Doc) -> Option<&'static str> {
    let annotations = account.at("/metadata/annotations")?;
    let has = |key: &&&str| {
        annotations[**key]
            .as_str()
            .is_some_and(|role| !role.is_empty())
    };
    ROLES.iter().find(has).copied()
}

/// Whether a program of a cloud tells in `text` that the account `default` has no role, as the provider of AWS for the
/// Secrets Store does: `An IAM role must be associated with service account default (namespace: shop)`.
///
/// Texts of the API server about RBAC name accounts, too, and no cloud.
fn is_about_default(text: &str) -> bool {
    let text = text.to_lowercase();
    if !OF_CLOUDS.iter().any(|words| text.contains(words)) {
        return false;
    }
    let starts = [
        "service account ",
        "serviceaccount ",
        "service account: ",
        "serviceaccount: ",
    ];
    let mut rests = starts.iter().flat_map(|start| text.split(start).skip(1));
    rests.any(|rest| {
        let rest = rest.trim_start_matches(['"', '\'']);
        let after = rest
            .strip_prefix(DEFAULT)
            .and_then(|rest| rest.chars().next());
        let ends = |c: char| !c.is_ascii_alphanumeric() && !"-./".contains(c);
        rest == DEFAULT || after.is_some_and(ends)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_account_without_a_role_is_read_from_the_words_of_a_program() {
        let cases = [
            (
                "eu-west-1: An IAM role must be associated with service account default (namespace: checkout)",
                true,
            ),
            ("no IAM role for ServiceAccount \"default\"", true),
            (
                "no federated identity credential for serviceaccount: default",
                true,
            ),
            (
                "workload identity is not set up for service account default",
                true,
            ),
            ("no role for ServiceAccount \"default\"", false),
            ("serviceaccount: default", false),
            (
                "An IAM role must be associated with service account default-reader (namespace: checkout)",
                false,
            ),
            (
                "An IAM role must be associated with service account checkout-api (namespace: default)",
                false,
            ),
            (
                "no RoleBinding in default names ServiceAccount default/web",
                false,
            ),
            ("the default service account", false),
        ];
        for (text, expected) in cases {
            assert_eq!(is_about_default(text), expected, "{text}");
        }
    }

    #[test]
    fn the_account_of_a_pod_has_the_name_of_its_workload() {
        let pod = Doc::new(
            json!({"metadata": {"namespace": "shop", "name": "web-1-x", "labels": {"pod-template-hash": "1"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": true}]}, "spec": {"containers": []}}),
        );
        assert!(runs_as_default(&pod));
        assert_eq!(named(&pod, &["cache", "web"]), Some("web"));
        assert_eq!(named(&pod, &["cache"]), None);
        assert_eq!(named(&pod, &[]), None);
        let other = json!({"spec": {"containers": [], "serviceAccountName": "web"}});
        assert!(!runs_as_default(&Doc::new(other)));
        assert!(!runs_as_default(&Doc::new(json!({"spec": {}}))));
    }
}
