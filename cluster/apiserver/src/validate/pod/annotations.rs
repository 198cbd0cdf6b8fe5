//! Annotations of pods that have a meaning: mirror pods, deletion cost, seccomp and AppArmor.
//!
//! Upstream: `ValidatePodSpecificAnnotations`.

use serde_json::Value;

use super::mounts::local_descending;
use super::{Errors, Path, each_container, text};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The annotation of a pod that mirrors one of a node's files; null for other pods.
pub(super) fn mirror(annotations: &Value) -> &Value {
    &annotations[MIRROR]
}

fn entries(annotations: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = annotations.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Whether an annotation sets the seccomp or AppArmor profile of a container. Fields replace these
/// annotations.
pub(super) fn has_profiles(annotations: &Value) -> bool {
    entries(annotations)
        .any(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER) || key.starts_with(APP_ARMOR))
}

/// Checks the annotations at `path` of a pod or template with `spec`.
pub(super) fn check(path: &Path<'_>, annotations: &Value, spec: &Value, errors: &mut Errors) {
    if annotations
        .as_object()
        .is_none_or(|entries| entries.is_empty())
    {
        return;
    }
    if let Some(value) = mirror(annotations).as_str()
        && text(spec, "nodeName").is_empty()
    {
        errors.invalid(
            path.key(MIRROR),
            value,
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    if let Some(cost) = annotations[DELETION_COST].as_str()
        && !is_deletion_cost(cost)
    {
        errors.invalid(path.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    if let Some(profile) = annotations[SECCOMP_OF_POD].as_str() {
        seccomp(&path.child(SECCOMP_OF_POD), profile, errors);
    }
    for (key, value) in entries(annotations) {
        if key.starts_with(SECCOMP_OF_CONTAINER) {
            seccomp(&path.child(key), value, errors);
        }
    }
    for (key, profile) in entries(annotations) {
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(&path.key(key), container, profile, spec, errors);
        }
    }
}

fn is_deletion_cost(text: &str) -> bool {
    let starts_well =
        text == "0" || text.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    starts_well && text.parse::<i32>().is_ok()
}

fn seccomp(path: &Path<'_>, profile: &str, errors: &mut Errors) {
    match profile.strip_prefix("localhost/") {
        Some(file) => local_descending(path, file, errors),
        None if ["runtime/default", "docker/default", "unconfined"].contains(&profile) => {}
        None => errors.invalid(path, profile, "must be a valid seccomp profile"),
    }
}

fn app_armor(path: &Path<'_>, name: &str, profile: &str, spec: &Value, errors: &mut Errors) {
    let mut exists = false;
    each_container(path, spec, |_, container| {
        exists |= text(container, "name") == name
    });
    if !exists {
        errors.invalid(path, name, "container not found");
    }
    let is_known = ["", "runtime/default", "unconfined"].contains(&profile)
        || profile.starts_with("localhost/");
    if !is_known {
        let detail = format!("invalid AppArmor profile name: {profile:?}");
        errors.invalid(path, profile, detail);
    }
}

/// Old annotations and new fields about one thing must agree.
/// Upstream: `validateSeccompAnnotationsAndFields` and
/// `validateAppArmorAnnotationsAndFieldsMatchOnCreate`.
pub(super) fn agreement(path: &Path<'_>, spec: &Value, annotations: &Value, errors: &mut Errors) {
    if annotations
        .as_object()
        .is_none_or(|entries| entries.is_empty())
    {
        return;
    }
    let of_pod = &spec["securityContext"];
    if let Some(annotation) = annotations[SECCOMP_OF_POD].as_str() {
        let path = path.child("securityContext.seccompProfile");
        agree(
            &path,
            "seccomp",
            &of_pod["seccompProfile"],
            annotation,
            errors,
        );
    }
    if !has_profiles(annotations) {
        return;
    }
    each_container(path, spec, |path, container| {
        let key = format!("{SECCOMP_OF_CONTAINER}{}", text(container, "name"));
        if let Some(annotation) = annotations[key].as_str() {
            let path = path.child("securityContext.seccompProfile");
            let profile = &container["securityContext"]["seccompProfile"];
            agree(&path, "seccomp", profile, annotation, errors);
        }
    });
    if spec["os"]["name"] == "windows" {
        return;
    }
    each_container(path, spec, |path, container| {
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        if let Some(annotation) = annotations[key].as_str() {
            let path = path.child("securityContext.appArmorProfile");
            let own = &container["securityContext"]["appArmorProfile"];
            let profile = if own.is_null() {
                &of_pod["appArmorProfile"]
            } else {
                own
            };
            agree(&path, "apparmor", profile, annotation, errors);
        }
    });
}

fn agree(path: &Path<'_>, what: &str, profile: &Value, annotation: &str, errors: &mut Errors) {
    let matches = match text(profile, "type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(file) if profile["localhostProfile"] != file => {
                let detail = format!("{what} profile in annotation and field must match");
                return errors.forbidden(path.child("localhostProfile"), detail);
            }
            file => file.is_some(),
        },
        _ => true,
    };
    if !matches {
        let detail = format!("{what} type in annotation and field must match");
        errors.forbidden(path.child("type"), detail);
    }
}

/// Checks that an update keeps the annotations that the node has used already.
/// Upstream: `ValidatePodSpecificAnnotationUpdates`.
pub(super) fn update(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    for (key, value) in entries(old).filter(|(key, _)| is_fixed(key)) {
        if new[key] != value {
            let what = if key == MIRROR {
                "mirror pod annotation"
            } else {
                "AppArmor annotations"
            };
            errors.forbidden(path.key(key), format!("may not remove or update {what}"));
        }
    }
    for (key, _) in entries(new).filter(|(key, _)| is_fixed(key)) {
        if old[key].is_null() {
            let what = if key == MIRROR {
                "mirror pod annotation"
            } else {
                "AppArmor annotations"
            };
            errors.forbidden(path.key(key), format!("may not add {what}"));
        }
    }
}

fn is_fixed(key: &str) -> bool {
    key == MIRROR || key.starts_with(APP_ARMOR)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_of_containers_agree_with_their_fields() {
        const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/c";
        const ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/c";
        let spec = json!({"containers": [{"name": "c", "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            "appArmorProfile": {"type": "Localhost", "localhostProfile": "a"},
        }}]});
        // (annotation, its value, field of the error)
        let cases = [
            ("other", "unconfined", None),
            (SECCOMP, "docker/default", None),
            (SECCOMP, "unconfined", Some("seccompProfile.type")),
            (ARMOR, "localhost/a", None),
            (
                ARMOR,
                "localhost/b",
                Some("appArmorProfile.localhostProfile"),
            ),
        ];
        for (annotation, value, field) in cases {
            let mut errors = Errors::default();
            let annotations = json!({ annotation: value });
            agreement(&Path::new("spec"), &spec, &annotations, &mut errors);
            let found = errors.into_list();
            let found: Vec<&str> = found.iter().map(|error| &*error.field).collect();
            let expected = field.map(|field| format!("spec.containers[0].securityContext.{field}"));
            assert_eq!(found, expected.as_slice(), "{annotation}={value}");
        }
    }
}
