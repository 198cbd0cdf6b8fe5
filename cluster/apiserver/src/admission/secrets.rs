//! The references of pods to Secrets, as far as the ServiceAccount plugin limits them.
//!
//! A ServiceAccount with the annotation [`ENFORCE`] lets its pods use only the Secrets that it lists. A mirror
//! pod uses none. Upstream: `limitSecretReferences` in `plugin/pkg/admission/serviceaccount`.

use serde_json::Value;

/// The annotation of a ServiceAccount that limits its pods to its own Secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The lists of containers that can refer to Secrets, each with the words about one of its containers.
const CONTAINERS: [(&str, &str); 2] = [
    ("initContainers", "init container"),
    ("containers", "container"),
];
/// The list of debugging containers, likewise.
const EPHEMERAL: (&str, &str) = ("ephemeralContainers", "ephemeral container");

/// The first reference of a pod to a Secret that its ServiceAccount does not list, in the words of a
/// refusal. `None` if the account allows all, or enforces nothing.
pub(super) fn unlisted(account: &Value, spec: &Value) -> Option<String> {
    if !is_enforced(account) {
        return None;
    }
    let allowed = names(&account["secrets"]);
    let owner = name(account);
    let volumes = items(&spec["volumes"]).filter_map(|volume| {
        let secret = volume["secret"].as_object()?;
        secret
            .get("secretName")
            .and_then(Value::as_str)
            .or(Some(""))
    });
    let volume = volumes.into_iter().find(|name| !allowed.contains(name));
    if let Some(secret) = volume {
        return Some(format!(
            "volume with secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret"
        ));
    }
    let mut lists = CONTAINERS.iter();
    let of_container = lists.find_map(|list| unlisted_in(list, spec, &allowed, owner));
    of_container.or_else(|| {
        let pulling = names(&account["imagePullSecrets"]);
        let mut references = names(&spec["imagePullSecrets"]).into_iter().enumerate();
        let (index, secret) = references.find(|(_, name)| !pulling.contains(name))?;
        Some(format!(
            "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {owner} does not reference that imagePullSecret"
        ))
    })
}

/// The same for the ephemeral containers alone.
pub(super) fn unlisted_by_ephemeral(account: &Value, spec: &Value) -> Option<String> {
    if !is_enforced(account) {
        return None;
    }
    let allowed = names(&account["secrets"]);
    unlisted_in(&EPHEMERAL, spec, &allowed, name(account))
}

/// Whether a pod refers to any Secret.
pub(super) fn uses_any(spec: &Value) -> bool {
    let lists = CONTAINERS.iter().chain([&EPHEMERAL]);
    let in_containers = lists
        .flat_map(|(list, _)| items(&spec[*list]))
        .any(|container| references(container).next().is_some());
    let sources =
        items(&spec["volumes"]).flat_map(|volume| volume.as_object().into_iter().flatten());
    let is_secret = |(kind, source): (&String, &Value)| {
        let is_named = |field: &str| !source[field].is_null();
        let mut parts = items(&source["sources"]);
        kind == "secret"
            || is_named("secretRef")
            || is_named("nodePublishSecretRef")
            || (kind == "azureFile" && is_named("secretName"))
            || (kind == "projected" && parts.any(|part| !part["secret"].is_null()))
    };
    let mut sources = sources.into_iter();
    in_containers || items(&spec["imagePullSecrets"]).next().is_some() || sources.any(is_secret)
}

fn is_enforced(account: &Value) -> bool {
    // The values of Go's `strconv.ParseBool` for true.
    matches!(
        account["metadata"]["annotations"][ENFORCE].as_str(),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True")
    )
}

fn name(account: &Value) -> &str {
    account["metadata"]["name"].as_str().unwrap_or_default()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn names(references: &Value) -> Vec<&str> {
    let names = items(references).map(|one| one["name"].as_str().unwrap_or_default());
    names.collect()
}

/// The Secrets that the environment of a container names, each with the words about the place.
fn references(container: &Value) -> impl Iterator<Item = (String, &str)> {
    fn secret(reference: &Value) -> Option<&str> {
        let fields = reference.as_object()?;
        Some(
            fields
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        )
    }
    let variables = items(&container["env"]).filter_map(|variable| {
        let secret = secret(&variable["valueFrom"]["secretKeyRef"])?;
        let name = variable["name"].as_str().unwrap_or_default();
        Some((format!("envVar {name}"), secret))
    });
    let sources = items(&container["envFrom"]);
    let sources = sources.filter_map(|source| secret(&source["secretRef"]));
    variables.chain(sources.map(|secret| ("envFrom".to_owned(), secret)))
}

fn unlisted_in(
    (list, word): &(&str, &str),
    spec: &Value,
    allowed: &[&str],
    owner: &str,
) -> Option<String> {
    items(&spec[*list]).find_map(|container| {
        let (place, secret) = references(container).find(|(_, name)| !allowed.contains(name))?;
        let name = container["name"].as_str().unwrap_or_default();
        Some(format!(
            "{word} {name} with {place} referencing secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str, fields: &Value) -> Value {
        let mut object = fields.clone();
        object["name"] = name.into();
        object
    }

    #[test]
    fn an_account_that_enforces_its_secrets_lets_pods_use_no_others() {
        let account = |value: &str| {
            json!({
                "metadata": {"name": "a", "annotations": {ENFORCE: value}},
                "secrets": [{"name": "own"}], "imagePullSecrets": [{"name": "pull"}],
            })
        };
        let env = |name: &str| json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
        let from = |name: &str| json!([{"secretRef": {"name": name}}]);
        let container = |list: &str, fields: Value| json!({list: [named("c", &fields)]});
        let volume =
            |name: &str| json!({"volumes": [{"name": "v", "secret": {"secretName": name}}]});
        let pull = |name: &str| json!({"imagePullSecrets": [{"name": "pull"}, {"name": name}]});
        // (spec, begin of the refusal)
        let cases = [
            (volume("own"), ""),
            (volume("x"), "volume with secret.secretName=\"x\""),
            (
                container(
                    "containers",
                    json!({"env": env("own"), "envFrom": from("own")}),
                ),
                "",
            ),
            (
                container("containers", json!({"env": env("x")})),
                "container c with envVar E referencing secret.secretName=\"x\"",
            ),
            (
                container("initContainers", json!({"envFrom": from("x")})),
                "init container c with envFrom referencing secret.secretName=\"x\"",
            ),
            // The endpoint of ephemeral containers checks these.
            (
                container("ephemeralContainers", json!({"env": env("x")})),
                "",
            ),
            (pull("pull"), ""),
            (pull("own"), "imagePullSecrets[1].name=\"own\""),
        ];
        for (spec, expected) in cases {
            let found = unlisted(&account("true"), &spec).unwrap_or_default();
            let (begin, end) = found
                .split_once(" is not allowed because ")
                .unwrap_or_default();
            assert_eq!(begin, expected, "{spec}");
            assert!(
                begin.is_empty() || end.starts_with("service account a does not reference that "),
                "{end}"
            );
            for value in ["false", "yes", ""] {
                assert_eq!(unlisted(&account(value), &spec), None, "{value}");
            }
        }
        let spec = container("ephemeralContainers", json!({"envFrom": from("x")}));
        let found = unlisted_by_ephemeral(&account("1"), &spec).unwrap();
        assert!(
            found.starts_with("ephemeral container c with envFrom"),
            "{found}"
        );
    }

    #[test]
    fn every_reference_to_a_secret_counts_for_mirror_pods() {
        let volume = |source: Value| json!({"volumes": [named("v", &source)]});
        let cases = [
            (volume(json!({"emptyDir": {}})), false),
            (volume(json!({"secret": {"secretName": "s"}})), true),
            (
                volume(json!({"projected": {"sources": [{"configMap": {"name": "m"}}]}})),
                false,
            ),
            (
                volume(json!({"projected": {"sources": [{"secret": {"name": "s"}}]}})),
                true,
            ),
            (
                volume(json!({"azureFile": {"secretName": "s", "shareName": "n"}})),
                true,
            ),
            (volume(json!({"rbd": {"secretRef": {"name": "s"}}})), true),
            (
                volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}})),
                true,
            ),
            (json!({"imagePullSecrets": [{"name": "s"}]}), true),
            (
                json!({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]}),
                false,
            ),
            (
                json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}),
                true,
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(uses_any(&spec), expected, "{spec}");
        }
    }
}
