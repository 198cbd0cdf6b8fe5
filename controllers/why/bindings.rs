//! The RoleBindings behind a right that the program of a container lacks. The API server tells the account and the right,
//! and no binding.

use serde_json::Value;
use steersman_why::{Code, Doc, Explanation, World, refusal};

use super::account::DEFAULT;
use super::identity;

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

/// Names the bindings of the account in the reasons of `answer`, which is about `doc`, in which a program lacks a right.
pub(super) fn name_bindings(world: &World, doc: &Doc, answer: &mut Explanation) {
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
        if let Some((text, owner)) = bindings(world, doc, &refused) {
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
fn bindings(world: &World, doc: &Doc, refused: &Refused<'_>) -> Option<(String, String)> {
    let Refused {
        namespace,
        account,
        within,
    } = refused;
    let of = world.resource(GROUP, "RoleBinding").found()?;
    let all = world.list(&of, within)?;
    let namespaces = |doc: &'_ Doc| {
        let named = accounts(doc).filter(|(_, name)| name == account);
        named
            .map(|(namespace, _)| namespace.to_owned())
            .collect::<Vec<_>>()
    };
    let binds = |doc: &&Doc| namespaces(doc).iter().any(|own| own == namespace);
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
    let mut others = all.iter().filter(|_| *account != DEFAULT);
    let elsewhere = others.find_map(|doc| {
        let other = namespaces(doc).into_iter().next()?;
        Some((doc, other))
    });
    let Some((binding, other)) = elsewhere else {
        let text = format!("no RoleBinding in {within} names ServiceAccount {namespace}/{account}");
        let is_pod = *account == DEFAULT && identity::runs_as_default(doc);
        let named = other_account(all, doc).filter(|_| is_pod && *namespace == doc.namespace());
        return Some(match named {
            Some((other, binding)) => (
                format!(
                    "{text}; {}, and RoleBinding {within}/{} ({}) names {namespace}/{other}",
                    identity::runs_as(doc),
                    binding.name(),
                    role(binding)
                ),
                format!("{}, or ", identity::who(&other)),
            ),
            None => (text, String::new()),
        });
    };
    let name = binding.name();
    let text = format!(
        "RoleBinding {within}/{name} ({}) names ServiceAccount {other}/{account}, and the account is {namespace}/{account}",
        role(binding)
    );
    let owner = format!("owner of RoleBinding {within}/{name} (namespace of its subject), or ");
    Some((text, owner))
}

/// The namespaces and names of the ServiceAccounts of a binding.
fn accounts(binding: &Doc) -> impl Iterator<Item = (&str, &str)> {
    let subjects = binding.items("/subjects").iter();
    let accounts = subjects.filter(|one| one["kind"] == "ServiceAccount");
    accounts.filter_map(|one| Some((one["namespace"].as_str()?, one["name"].as_str()?)))
}

/// The account with the name of the workload of the pod `doc`, in its namespace, with its first binding of `all`. The only
/// account with a binding may be one for quite other work.
fn other_account<'d>(all: &'d [Doc], doc: &Doc) -> Option<(String, &'d Doc)> {
    let here = all.iter().flat_map(|binding| {
        let own = accounts(binding).filter(|(namespace, _)| *namespace == doc.namespace());
        own.map(move |(_, name)| (name, binding))
    });
    let here: Vec<(&str, &Doc)> = here.collect();
    let names: Vec<&str> = here.iter().map(|(name, _)| *name).collect();
    let name = identity::named(doc, &names)?;
    let (_, binding) = here.into_iter().find(|(other, _)| *other == name)?;
    Some((name.to_owned(), binding))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_account_with_the_name_of_the_workload_is_proposed() {
        let binding = |account: &str| {
            let subject = json!({"kind": "ServiceAccount", "namespace": "shop", "name": account});
            Doc::new(json!({"metadata": {"name": account}, "subjects": [subject]}))
        };
        let pod = Doc::new(json!({"metadata": {"namespace": "shop", "name": "web"}}));
        let told = |all: &[Doc]| other_account(all, &pod).map(|(name, _)| name);
        assert_eq!(told(&[binding("ci-admin")]), None);
        let both = [binding("ci-admin"), binding("web")];
        assert_eq!(told(&both).as_deref(), Some("web"));
    }

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
