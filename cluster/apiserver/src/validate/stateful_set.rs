//! StatefulSets.
//!
//! Upstream is `pkg/apis/apps/validation`.

use serde_json::{Value, json};

use super::errors::{Errors, at, list, text};
use super::workload::{at_most_all, int_or_percent, long_running, magnitude};
use super::{claim, formats, pod, selector};
use crate::apimachinery::path::Path;
use crate::schema::internal;

const POLICIES: [&str; 2] = ["Retain", "Delete"];

/// Checks a StatefulSet. An update passes the old one, and the check skips immutable parts.
pub(super) fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    management(text(object, "spec.podManagementPolicy"), errors);
    strategy(at(object, "spec.updateStrategy"), errors);
    let retention = at(object, "spec.persistentVolumeClaimRetentionPolicy");
    if !retention.is_null() {
        for field in ["whenDeleted", "whenScaled"] {
            errors.one_of(
                format!("spec.persistentVolumeClaimRetentionPolicy.{field}"),
                text(retention, field),
                &POLICIES,
            );
        }
    }
    if old.is_none() {
        let templates = list(object, "spec.volumeClaimTemplates").iter().enumerate();
        for (index, template) in templates {
            let field = format!("spec.volumeClaimTemplates[{index}].spec");
            claim::spec(&field, at(template, "spec"), errors);
        }
    }
    for field in ["replicas", "minReadySeconds", "ordinals.start"] {
        errors.non_negative(object, &format!("spec.{field}"));
    }
    let service = text(object, "spec.serviceName");
    if old.is_none() && !service.is_empty() {
        errors.complaints("spec.serviceName", service, formats::label(service));
    }
    selector_and_template(object, old, errors);
    long_running(object, "StatefulSet", errors);
}

/// Warnings about claim templates, about a limit that keeps all revisions, and about the template if
/// it is new.
pub(super) fn warnings(object: &Value, with_template: bool) -> Vec<String> {
    const TEMPLATE: &str = "spec.template";
    const ALL: &str = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    let mut warnings = Vec::new();
    if with_template {
        warnings = pod::warnings::of_template(TEMPLATE, at(object, TEMPLATE));
    }
    let path = Path::new("spec.volumeClaimTemplates");
    for (index, template) in list(object, "spec.volumeClaimTemplates").iter().enumerate() {
        warnings.extend(claim::warnings(&path.index(index), &template["spec"]));
    }
    let limit = at(object, "spec.revisionHistoryLimit").as_i64();
    if limit.is_some_and(|limit| limit < 0) {
        warnings.push(ALL.to_owned());
    }
    warnings
}

fn management(policy: &str, errors: &mut Errors) {
    const FIELD: &str = "spec.podManagementPolicy";
    match policy {
        "" => errors.required(FIELD, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(FIELD, other, "must be 'OrderedReady' or 'Parallel'"),
    }
}

fn strategy(strategy: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.updateStrategy";
    let rolling = at(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "" => errors.required(FIELD, ""),
        "OnDelete" if rolling.is_null() => {}
        "OnDelete" => errors.invalid(
            format!("{FIELD}.rollingUpdate"),
            internal::form("apps.RollingUpdateStatefulSetStrategy", rolling),
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "RollingUpdate" => rolling_update(rolling, errors),
        _ => errors.invalid(
            FIELD,
            internal::form("apps.StatefulSetUpdateStrategy", strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
}

fn rolling_update(rolling: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.updateStrategy.rollingUpdate";
    if let Some(partition) = at(rolling, "partition").as_i64().filter(|p| *p < 0) {
        errors.invalid(
            format!("{FIELD}.partition"),
            partition,
            "must be greater than or equal to 0",
        );
    }
    let unavailable = at(rolling, "maxUnavailable");
    if !unavailable.is_null() {
        let field = format!("{FIELD}.maxUnavailable");
        int_or_percent(&field, unavailable, errors);
        if magnitude(unavailable) == 0 {
            errors.invalid(&field, unavailable.clone(), "cannot be 0");
        }
        at_most_all(&field, unavailable, errors);
    }
}

fn selector_and_template(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    const SELECTOR: &str = "spec.selector";
    let wanted = at(object, SELECTOR);
    let mut is_valid = true;
    if wanted.is_null() {
        errors.required(SELECTOR, "");
    } else {
        is_valid = selector::check(SELECTOR, wanted, errors);
        if selector::is_empty(wanted) {
            errors.invalid(
                SELECTOR,
                selector::shown(wanted),
                "empty selector is invalid for statefulset",
            );
        }
    }
    if !is_valid {
        errors.invalid(SELECTOR, wanted.clone(), "");
        return;
    }
    let given = at(object, "spec.template");
    let labels = at(given, "metadata.labels");
    let selects = wanted.is_null() || !selector::is_empty(wanted);
    if selects && !selector::matches(wanted, labels) {
        errors.invalid(
            "spec.template.metadata.labels",
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
    // A template that was invalid already must not block other updates.
    let was_invalid = old.is_some_and(|old| {
        let mut errors = Errors::default();
        check(old, None, &mut errors);
        errors.len() > 0
    });
    if was_invalid {
        pod::template_metadata("spec.template", given, errors);
    } else {
        let template = with_claims(object);
        pod::template("spec.template", &template, errors);
        pod::template_metadata("spec.template", given, errors);
    }
}

/// The template as pods will have it: the volumes of the claim templates are there, and host name
/// and subdomain are set by the controller.
fn with_claims(object: &Value) -> Value {
    let mut template = at(object, "spec.template").clone();
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    spec.remove("hostname");
    spec.remove("subdomain");
    let claims = list(object, "spec.volumeClaimTemplates");
    // Claim templates of one name give one volume.
    let mut names: Vec<&str> = Vec::new();
    for name in claims.iter().map(|claim| text(claim, "metadata.name")) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return template;
    }
    let own = spec.get("volumes").and_then(Value::as_array).cloned();
    let kept = own.unwrap_or_default().into_iter();
    let volumes = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .chain(kept.filter(|volume| !names.contains(&text(volume, "name"))));
    spec.insert("volumes".to_owned(), volumes.collect());
    template
}

/// Checks an update. All fields of the spec outside the list are immutable.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    check(new, Some(old), errors);
    let frozen = |object: &Value| {
        let fields = at(object, "spec").as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .filter(|(name, _)| !MUTABLE.contains(&name.as_str()))
            .collect::<serde_json::Map<_, _>>()
    };
    if frozen(new) != frozen(old) {
        errors.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}
