//! The form of an answer that a client accepts.
//!
//! Upstream is `apiserver/pkg/endpoints/handlers/negotiation`.

use std::sync::Arc;

use crate::route::Target;
use crate::status::Status;
use crate::store::Object;

/// The view of objects in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The objects themselves.
    Full,
    /// `PartialObjectMetadata`, or the list of them.
    Metadata,
    /// `Table`.
    Table,
    /// Discovery of all groups at once.
    Discovery,
}

/// The views that a resource or document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Views {
    /// All views of objects.
    All,
    /// All except `Table`: upstream prints no reviews and hardly a subresource.
    WithoutTable,
    /// A document that is no object.
    Document,
}

impl Views {
    /// The views of the objects at `target`. Upstream prints the objects of most resources, their
    /// statuses and scales.
    pub(super) fn of(target: &Target) -> Self {
        let resource = target.resource();
        let is_printed = match target.subresource {
            None => resource.verbs != ["create"],
            Some(part) => match part.name {
                "scale" => true,
                "status" => !resource.is("CustomResourceDefinition") && !resource.is("APIService"),
                _ => false,
            },
        };
        if is_printed {
            Self::All
        } else {
            Self::WithoutTable
        }
    }

    fn contain(self, view: View) -> bool {
        match view {
            View::Full | View::Discovery => true,
            View::Metadata => self != Self::Document,
            View::Table => self == Self::All,
        }
    }
}

/// View and serialization of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// The view of objects.
    pub(super) view: View,
    /// YAML in place of JSON; lists and watches ignore it.
    pub(super) yaml: bool,
    /// Whether objects come without `metadata.managedFields`. Upstream: the parameter `drop` of 1.38,
    /// with the gate `ManagedFieldsOptOut`.
    pub(super) drops_managed_fields: bool,
}

/// Media types that upstream serves, for the text of errors. This server writes JSON and YAML only.
const AVAILABLE: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

impl Form {
    const JSON: Self = Self {
        view: View::Full,
        yaml: false,
        drops_managed_fields: false,
    };

    /// The object with or without its managed fields, as the client asked.
    pub(super) fn trimmed(self, object: &Arc<Object>) -> Arc<Object> {
        if self.drops_managed_fields {
            Arc::new(object.without_managed_fields())
        } else {
            Arc::clone(object)
        }
    }

    /// The best form that `accept` allows for objects. Clients that prefer protobuf get the JSON
    /// that they list after it.
    pub(super) fn negotiate(accept: &str, views: Views) -> Result<Self, Status> {
        // Upstream's router (go-restful) matches exact types and `*/*` only, before the handler
        // runs.
        let is_routed = |range: &str| {
            let kind = range.split(';').next().unwrap_or_default().trim();
            kind == "*/*" || AVAILABLE[..3].contains(&kind)
        };
        if !accept.trim().is_empty() && !accept.split(',').any(is_routed) {
            return Err(Status::not_acceptable(AVAILABLE));
        }
        Self::negotiate_unversioned(accept, views)
    }

    /// The same for the lists of groups and versions, which upstream serves without that router
    /// check.
    pub(super) fn negotiate_unversioned(accept: &str, views: Views) -> Result<Self, Status> {
        if accept.trim().is_empty() {
            return Ok(Self::JSON);
        }
        let mut ranges: Vec<(f32, &str)> = accept
            .split(',')
            .map(|range| (quality(range), range.trim()))
            .collect();
        // The sort is stable, so the client's order decides among equal qualities.
        ranges.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranges
            .iter()
            .find_map(|(_, range)| Self::of(range).filter(|form| views.contain(form.view)))
            .ok_or_else(|| {
                let is_served =
                    |range: &str| AVAILABLE[..2].iter().any(|kind| range.starts_with(kind));
                if ranges.iter().any(|(_, range)| is_served(range)) {
                    // The media type is known, but not the requested view.
                    let list = AVAILABLE[..3].join(", ");
                    return Status::new(
                        406,
                        "NotAcceptable",
                        format!("only the following media types are accepted: {list}"),
                    );
                }
                Status::not_acceptable(AVAILABLE)
            })
    }

    /// The form of one media range; `None` if the server cannot produce it.
    fn of(range: &str) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let yaml = match parts.next()? {
            "application/json" | "application/*" | "*/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let mut kind = "";
        let mut group = "";
        let mut version = "";
        let mut dropped = "";
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => kind = value,
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                Some(("drop", value)) => dropped = value,
                _ => {}
            }
        }
        let view = match (kind, group, version) {
            ("", ..) => View::Full,
            (
                "PartialObjectMetadata" | "PartialObjectMetadataList",
                "meta.k8s.io",
                "v1" | "v1beta1",
            ) => View::Metadata,
            ("Table", "meta.k8s.io", "v1" | "v1beta1") => View::Table,
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => View::Discovery,
            _ => return None,
        };
        Some(Self {
            view,
            yaml,
            // Other fields are ignored, as upstream.
            drops_managed_fields: dropped
                .split('+')
                .any(|field| field == "metadata.managedFields"),
        })
    }
}

fn quality(range: &str) -> f32 {
    range
        .split(';')
        .find_map(|part| part.trim().strip_prefix("q=")?.parse().ok())
        .unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_form_is_chosen() {
        let cases = [
            ("", Some(View::Full)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(View::Full),
            ),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Some(View::Table),
            ),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
                Some(View::Full),
            ),
            (
                "application/json;q=0.1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Some(View::Metadata),
            ),
            ("text/csv", None),
            ("text/html, */*;q=0.1", Some(View::Full)),
            ("text/html, application/*", None),
            ("application/*, application/json;q=0.1", Some(View::Full)),
        ];
        for (accept, expected) in cases {
            assert_eq!(
                Form::negotiate(accept, Views::All)
                    .ok()
                    .map(|form| form.view),
                expected,
                "{accept}"
            );
        }
        assert_eq!(
            Form::negotiate("text/csv", Views::All).unwrap_err().code,
            406
        );
        assert!(Form::negotiate_unversioned("application/*", Views::All).is_ok());
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let refused = Form::negotiate(table, Views::WithoutTable).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (
                406,
                "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            )
        );
        let either = format!("{table},application/json");
        let form = Form::negotiate(&either, Views::WithoutTable).unwrap();
        assert_eq!(form.view, View::Full);
    }

    #[test]
    fn managed_fields_are_one_of_the_dropped_fields() {
        let cases = [
            ("application/json", false),
            ("application/json;drop=metadata.managedFields", true),
            ("*/*; drop=metadata.managedFields", true),
            (
                "application/json;drop=metadata.labels+metadata.managedFields",
                true,
            ),
            ("application/json;drop=metadata.labels", false),
            ("application/json;drop=", false),
            (
                "application/json,application/json;drop=metadata.managedFields",
                false,
            ),
        ];
        for (accept, expected) in cases {
            let form = Form::negotiate(accept, Views::All).unwrap();
            assert_eq!(form.drops_managed_fields, expected, "{accept}");
        }
    }
}
