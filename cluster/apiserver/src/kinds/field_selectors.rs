//! The fields that field selectors of pods and Events may name.

use std::borrow::Cow;

use super::SelectableField;

/// A field with its pointer, and its value if it is absent.
pub(super) const fn field(
    label: &'static str,
    pointer: &'static str,
    absent: &'static str,
) -> SelectableField {
    SelectableField {
        label: Cow::Borrowed(label),
        pointer: Cow::Borrowed(pointer),
        fallback: "",
        group: None,
        absent,
    }
}

pub(super) const POD_FIELDS: &[SelectableField] = &[
    field("spec.nodeName", "/spec/nodeName", ""),
    field("spec.restartPolicy", "/spec/restartPolicy", ""),
    field("spec.schedulerName", "/spec/schedulerName", ""),
    field("spec.serviceAccountName", "/spec/serviceAccountName", ""),
    field("spec.hostNetwork", "/spec/hostNetwork", "false"),
    field("status.phase", "/status/phase", ""),
    field("status.podIP", "/status/podIP", ""),
    // Upstream accepts this field and never gives it a value.
    field("status.podIPs", "/status/podIPs/-", ""),
    field("status.nominatedNodeName", "/status/nominatedNodeName", ""),
];

/// A field that only one of the two groups of Events has.
const fn event_field(
    group: &'static str,
    label: &'static str,
    pointer: &'static str,
    fallback: &'static str,
) -> SelectableField {
    SelectableField {
        label: Cow::Borrowed(label),
        pointer: Cow::Borrowed(pointer),
        fallback,
        group: Some(group),
        absent: "",
    }
}

/// Both groups have one stored form, so they share the list.
///
/// Upstream: `pkg/apis/core/v1/conversion.go`, `pkg/apis/events/v1/conversion.go`, and `ToSelectableFields` in
/// `pkg/registry/core/event`.
pub(super) const EVENT_FIELDS: &[SelectableField] = &[
    event_field("", "involvedObject.kind", "/involvedObject/kind", ""),
    event_field(
        "",
        "involvedObject.namespace",
        "/involvedObject/namespace",
        "",
    ),
    event_field("", "involvedObject.name", "/involvedObject/name", ""),
    event_field("", "involvedObject.uid", "/involvedObject/uid", ""),
    event_field(
        "",
        "involvedObject.apiVersion",
        "/involvedObject/apiVersion",
        "",
    ),
    event_field(
        "",
        "involvedObject.resourceVersion",
        "/involvedObject/resourceVersion",
        "",
    ),
    event_field(
        "",
        "involvedObject.fieldPath",
        "/involvedObject/fieldPath",
        "",
    ),
    event_field(
        "events.k8s.io",
        "regarding.kind",
        "/involvedObject/kind",
        "",
    ),
    event_field(
        "events.k8s.io",
        "regarding.namespace",
        "/involvedObject/namespace",
        "",
    ),
    event_field(
        "events.k8s.io",
        "regarding.name",
        "/involvedObject/name",
        "",
    ),
    event_field("events.k8s.io", "regarding.uid", "/involvedObject/uid", ""),
    event_field(
        "events.k8s.io",
        "regarding.apiVersion",
        "/involvedObject/apiVersion",
        "",
    ),
    event_field(
        "events.k8s.io",
        "regarding.resourceVersion",
        "/involvedObject/resourceVersion",
        "",
    ),
    event_field(
        "events.k8s.io",
        "regarding.fieldPath",
        "/involvedObject/fieldPath",
        "",
    ),
    field("reason", "/reason", ""),
    field("type", "/type", ""),
    event_field("", "reportingComponent", "/reportingComponent", ""),
    event_field(
        "events.k8s.io",
        "reportingController",
        "/reportingComponent",
        "",
    ),
    event_field("", "source", "/source/component", "/reportingComponent"),
];
