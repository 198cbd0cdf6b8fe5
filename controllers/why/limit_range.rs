//! LimitRanges that refuse an object, and limits that they add to containers. A refusal names neither the LimitRange nor
//! the missing limit of the template.

use serde_json::Value;
use steersman_values::quantity::Quantity;
use steersman_why::{Bound, Code, Explanation, World, default_of};

/// Names the LimitRange that refuses an object in `answer`, or whose default is the limit in a refusal.
pub(super) fn name_defaults(world: &World, namespace: &str, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        if reason.code == Code::LimitRangeViolated
            && let Some((name, field)) = violated(world, namespace, &reason.message)
        {
            reason.message = format!("{}; LimitRange {namespace}/{name}", reason.message);
            reason.who =
                format!("owner of LimitRange {namespace}/{name} ({field}), or of the template");
        }
        if reason.code != Code::ObjectInvalid {
            continue;
        }
        let Some((resource, limit)) = exceeded(&reason.message) else {
            continue;
        };
        let resource = resource.to_owned();
        let limit = limit.to_owned();
        let Some(name) = with_default(world, namespace, &resource, &limit) else {
            continue;
        };
        reason.message = format!(
            "{}; the default of LimitRange {namespace}/{name} is this limit, if the template sets none",
            reason.message
        );
        reason.who = format!(
            "owner of the template (limits.{resource}), or of LimitRange {namespace}/{name} (default)"
        );
    }
}

/// The LimitRange with the bound of `maximum storage usage per PersistentVolumeClaim is 50Gi`, and its field. Upstream: the
/// admission plugin `limitranger`.
fn violated(world: &World, namespace: &str, message: &str) -> Option<(String, &'static str)> {
    let bounds = [("maximum ", "max"), ("minimum ", "min")];
    let (field, rest) = bounds.into_iter().find_map(|(word, field)| {
        let (_, rest) = message.split_once(word)?;
        Some((field, rest))
    })?;
    let (resource, rest) = rest.split_once(" usage per ")?;
    let (kind, rest) = rest.split_once(" is ")?;
    let bound = Quantity::parse(rest.split([',', ' ']).next()?.trim_end_matches(['.', ']']))?;
    let is_it = |one: &Value| {
        let found = one[field][resource].as_str().and_then(Quantity::parse);
        one["type"] == kind && found.is_some_and(|found| found == bound)
    };
    let of = world.resource("", "limitranges").found()?;
    let mut all = world.list(&of, namespace)?.iter();
    let found = all.find(|doc| doc.items("/spec/limits").iter().any(is_it))?;
    Some((found.name().to_owned(), field))
}

/// Resource and limit in `must be less than or equal to memory limit of 256Mi`.
fn exceeded(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once("must be less than or equal to ")?;
    let (resource, rest) = rest.split_once(" limit of ")?;
    let end = rest.find([' ', ',', ']', ';']).unwrap_or(rest.len());
    Some((resource, &rest[..end]))
}

fn with_default(world: &World, namespace: &str, resource: &str, limit: &str) -> Option<String> {
    let limit = Quantity::parse(limit)?;
    default_of(world, namespace, Bound::Limit, (resource, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_and_limit_are_read_from_the_refusal() {
        let text = "Pod \"a\" is invalid: spec.containers[0].resources.requests: Invalid value: \"512Mi\": must be less \
                    than or equal to memory limit of 256Mi";
        assert_eq!(exceeded(text), Some(("memory", "256Mi")));
        let two = text.replace("256Mi", "256Mi, spec.x: Required value");
        assert_eq!(exceeded(&two), Some(("memory", "256Mi")));
        assert_eq!(
            exceeded("Pod \"a\" is invalid: spec.x: Required value"),
            None
        );
    }
}
