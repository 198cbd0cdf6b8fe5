//! The RoleBindings behind a right that the program of a container lacks. The API server tells the account and the right,
//! and no binding.

use serde_json::Value;
use steersman_why::{Code, Doc, Explanation, World, refusal};

const GROUP: &str = "rbac.authorization.k8s.io";
/// Bindings in one sentence.
const SHOWN: usize = 3;

/// The account and the namespace of a refused request.
#[derive(Debug, PartialEq, Eq)]
struct Refused<'m> {
    namespace: &'m str,
    account: &'m str,
    /// The namespace of the request.
    within: &'m str,
}

/// Names the bindings of the account in the reasons of `answer` in which a program lacks a right.
pub(super) fn name_bindings(world: &World, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        let is_program = matches!(reason.code, Code::ContainerCrash | Code::PodFailed);
        let Some(refused) = lacking(&reason.message).filter(|_| is_program) else {
            continue;
        };
        let named = refusal(&reason.message, refused.within, "");
        if named.code != Code::Forbidden {
            continue;
        }
        reason.who = named.who;
        if let Some((text, owner)) = bindings(world, &refused) {
            reason.message = format!("{}; {text}", reason.message);
            reason.who = format!("{owner}{}", reason.who);
        }
    }
}

/// The account in `User "system:serviceaccount:shop:robot" cannot get resource "deployments" in API group "apps" in the
/// namespace "shop"`.
fn lacking(message: &str) -> Option<Refused<'_>> {
    let (_, rest) = message.split_once(" is forbidden: User \"system:serviceaccount:")?;
    let (user, rest) = rest.split_once('"')?;
    let (namespace, account) = user.split_once(':')?;
    let (_, rest) = rest.split_once(" in the namespace \"")?;
    let within = rest.split('"').next()?;
    Some(Refused {
        namespace,
        account,
        within,
    })
}

/// The RoleBindings of the account, or one that means an account of the same name elsewhere, with its owner.
fn bindings(world: &World, refused: &Refused<'_>) -> Option<(String, String)> {
    let Refused {
        namespace,
        account,
        within,
    } = refused;
    let of = world.resource(GROUP, "RoleBinding").found()?;
    let all = world.list(&of, within)?;
    let subjects = |doc: &'_ Doc| {
        let subjects = doc.items("/subjects").iter();
        let named =
            subjects.filter(|one| one["kind"] == "ServiceAccount" && one["name"] == **account);
        let named = named.map(|one| one["namespace"].as_str().unwrap_or_default().to_owned());
        named.collect::<Vec<_>>()
    };
    let binds = |doc: &&Doc| subjects(doc).iter().any(|own| own == namespace);
    let own: Vec<String> = all
        .iter()
        .filter(binds)
        .take(SHOWN)
        .map(|doc| format!("{} ({})", doc.name(), role(doc)))
        .collect();
    if !own.is_empty() {
        let text = format!(
            "RoleBindings of the account in {within}: {}",
            own.join(", ")
        );
        return Some((text, String::new()));
    }
    // Each namespace has an account `default`, so a binding of another one says nothing about this one.
    let mut others = all.iter().filter(|_| *account != "default");
    let elsewhere = others.find_map(|doc| {
        let other = subjects(doc).into_iter().next()?;
        Some((doc, other))
    });
    let Some((doc, other)) = elsewhere else {
        let text = format!("no RoleBinding in {within} names ServiceAccount {namespace}/{account}");
        return Some((text, String::new()));
    };
    let name = doc.name();
    let text = format!(
        "RoleBinding {within}/{name} ({}) names ServiceAccount {other}/{account}, and the account is {namespace}/{account}",
        role(doc)
    );
    let owner = format!("owner of RoleBinding {within}/{name} (namespace of its subject), or ");
    Some((text, owner))
}

/// `Role robot`.
fn role(doc: &Doc) -> String {
    let text = |field: &str| doc.at(&format!("/roleRef/{field}")).and_then(Value::as_str);
    format!(
        "{} {}",
        text("kind").unwrap_or_default(),
        text("name").unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_refused_request_is_read_from_its_text() {
        let message = "container main ended with exit code 1 (Error): Error from server (Forbidden): deployments.apps \"web\" is \
                       forbidden: User \"system:serviceaccount:shop:robot\" cannot get resource \"deployments\" in API group \
                       \"apps\" in the namespace \"bank\"";
        let expected = Refused {
            namespace: "shop",
            account: "robot",
            within: "bank",
        };
        assert_eq!(lacking(message), Some(expected));
        assert_eq!(lacking(&message.replace("serviceaccount:", "")), None);
        assert_eq!(lacking(&message.replace(" in the namespace", "")), None);
    }
}
