//! Options of requests in the query string.

use crate::fielderror::{FieldError, Problem};
use crate::status::{Qualified, Status};

/// The decoded pairs of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`.
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(
            pairs
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The first value of `key`; empty if missing.
    pub(super) fn text(&self, key: &str) -> &str {
        self.find(key).unwrap_or_default()
    }

    /// All values of `key`.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    fn find(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean. Any value except `false` and `0` is true, as in upstream's query conversion.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.find(key)
            .map(|value| !matches!(value, "false" | "False" | "FALSE" | "0"))
    }

    /// The value that the field selector requires of a field. Authorization uses it.
    pub(super) fn selected(&self, field: &str) -> Option<&str> {
        let terms = self.text("fieldSelector").split(',');
        let mut values = terms.filter_map(|term| term.strip_prefix(field)?.strip_prefix('='));
        values.next().map(|value| value.trim_start_matches('='))
    }

    /// An integer, or 400.
    pub(super) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.find(key) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!(
                    "strconv.ParseInt: parsing \"{text}\": invalid syntax"
                ))
            }),
        }
    }

    /// Whether the request is a dry run. 422 for values other than `All`; `options` is the kind
    /// that the error names.
    pub(super) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        let values: Vec<&str> = self
            .0
            .iter()
            .filter(|(key, _)| key == "dryRun")
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
            .collect();
        if values.iter().all(|value| *value == "All") {
            return Ok(!values.is_empty());
        }
        let values = serde_json::Value::from(values);
        let problem = Problem::NotSupported(values, vec!["All".to_owned()]);
        Err(invalid_options(
            options,
            &[FieldError {
                field: "dryRun".to_owned(),
                problem,
            }],
        ))
    }
}

/// 422 about the options of a request.
pub(super) fn invalid_options(kind: &str, errors: &[FieldError]) -> Status {
    Status::invalid(
        Qualified {
            group: "meta.k8s.io",
            name: kind,
        },
        "",
        errors,
    )
}

/// Options of lists and watches (`ListOptions`).
#[derive(Debug, Clone, Default)]
pub(super) struct ListOptions {
    pub(super) label_selector: String,
    pub(super) field_selector: String,
    /// 0 means no limit.
    pub(super) limit: usize,
    pub(super) continue_token: String,
    pub(super) resource_version: String,
    pub(super) version_match: String,
    pub(super) send_initial_events: Option<bool>,
    pub(super) bookmarks: bool,
    pub(super) timeout_seconds: Option<u64>,
}

impl ListOptions {
    /// Reads and validates the options of a list or a watch.
    pub(super) fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let options = Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            limit: query
                .number("limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: query.text("resourceVersionMatch").to_owned(),
            send_initial_events: query.flag("sendInitialEvents"),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            timeout_seconds: query
                .number("timeoutSeconds")?
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|s| *s > 0),
        };
        let errors = if watch {
            options.watch_errors()
        } else {
            options.list_errors()
        };
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(invalid_options("ListOptions", &errors))
        }
    }

    /// Errors of `resourceVersionMatch` and `sendInitialEvents` for lists.
    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.version_match.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(of_match(forbidden(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                )));
            }
            if !self.continue_token.is_empty() {
                errors.push(of_match(forbidden(
                    "resourceVersionMatch is forbidden when continue is provided",
                )));
            }
            if !matches!(self.version_match.as_str(), "Exact" | "NotOlderThan") {
                errors.push(of_match(self.unknown_match(&["Exact", "NotOlderThan", ""])));
            }
            if self.version_match == "Exact" && self.resource_version == "0" {
                errors.push(of_match(forbidden(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                )));
            }
        }
        if self.send_initial_events.is_some() {
            let problem = forbidden("sendInitialEvents is forbidden for list");
            errors.push(FieldError {
                field: "sendInitialEvents".to_owned(),
                problem,
            });
        }
        errors
    }

    /// The same for watches, which have other rules for both options.
    fn watch_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && self.version_match != "NotOlderThan" {
            errors.push(of_match(forbidden(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )));
        }
        if !self.version_match.is_empty() {
            if self.send_initial_events.is_none() {
                errors.push(of_match(forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                )));
            }
            if self.version_match != "NotOlderThan" {
                errors.push(of_match(self.unknown_match(&["NotOlderThan"])));
            }
        }
        if !self.continue_token.is_empty() {
            errors.push(of_match(forbidden(
                "resourceVersionMatch is forbidden when continue is provided",
            )));
        }
        errors
    }

    fn unknown_match(&self, known: &[&str]) -> Problem {
        Problem::NotSupported(
            self.version_match.as_str().into(),
            known.iter().map(|&name| name.to_owned()).collect(),
        )
    }
}

fn of_match(problem: Problem) -> FieldError {
    FieldError {
        field: "resourceVersionMatch".to_owned(),
        problem,
    }
}

fn forbidden(why: &str) -> Problem {
    Problem::Forbidden(why.to_owned())
}

/// The number of a `resourceVersion`; `None` if empty.
pub(super) fn parse_revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = |_| {
        format!(
            "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        )
    };
    text.parse().map(Some).map_err(invalid)
}
