//! The object with the data for a claim. Its driver tells only that a request failed.

use steersman_why::{Code, Doc, Known, Reason, World};

use super::NAME;

/// The reason if the source of `doc`, a claim that is not bound, does not exist.
pub(super) fn missing(world: &World, doc: &Doc) -> Option<Reason> {
    let (field, source) = ["dataSourceRef", "dataSource"]
        .into_iter()
        .find_map(|field| {
            let source = doc.at(&format!("/spec/{field}"))?;
            source.is_object().then_some((field, source))
        })?;
    let text = |name: &str| source[name].as_str().unwrap_or_default();
    let kind = text("kind");
    let name = text("name");
    let namespace = match text("namespace") {
        "" => doc.namespace(),
        namespace => namespace,
    };
    let of = world.resource(text("apiGroup"), kind).found()?;
    if !matches!(world.get(&of, namespace, name), Known::Absent) {
        return None;
    }
    let others = world.named(&of, name).unwrap_or_default();
    let elsewhere = match others.first().map(|other| other.namespace()) {
        Some(other) if namespace == doc.namespace() => format!(
            "; one of this name is in namespace {other}, and spec.{field} without a namespace means that of the claim"
        ),
        _ => String::new(),
    };
    let message =
        format!("spec.{field} names {kind} {namespace}/{name}, which does not exist{elsewhere}");
    let who = format!("owner of the claim (spec.{field}), or creator of {kind} {namespace}/{name}");
    let reason = Reason::new(Code::SourceMissing, NAME, message).who(who);
    Some(reason.since(doc.time("/metadata/creationTimestamp")))
}
