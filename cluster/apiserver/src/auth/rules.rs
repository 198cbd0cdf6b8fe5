//! RBAC rules: whether a rule allows a request, and whether some rules cover others.
//!
//! Upstream: `pkg/apis/rbac/v1/evaluation_helpers.go` and
//! `k8s.io/component-helpers/auth/rbac/validation`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::attributes::{Attributes, ResourceRequest, Wanted};

/// One rule of a Role or ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) urls: Vec<String>,
}

impl Rule {
    /// Reads an element of a role's `rules`.
    pub(crate) fn parse(rule: &Value) -> Self {
        let texts = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    /// All rules of a role.
    pub(crate) fn all_of(role: &Value) -> Vec<Self> {
        role["rules"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Self::parse)
            .collect()
    }

    /// The JSON form in roles and reviews.
    pub(crate) fn to_value(&self) -> Value {
        let fields = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let given = fields.into_iter().filter(|(_, texts)| !texts.is_empty());
        given
            .map(|(name, texts)| (name.to_owned(), Value::from(texts.as_slice())))
            .collect::<Map<_, _>>()
            .into()
    }

    /// Whether the rule allows a request.
    pub(crate) fn allows(&self, wanted: &Attributes) -> bool {
        any(&self.verbs, &wanted.verb)
            && match &wanted.object {
                Wanted::Path(path) => self.urls.iter().any(|url| url_covers(url, path)),
                Wanted::Resource(object) => self.allows_resource(object),
            }
    }

    fn allows_resource(&self, object: &ResourceRequest) -> bool {
        any(&self.groups, &object.group)
            && covers_resource(&self.resources, &object.full_name())
            && (self.names.is_empty() || self.names.contains(&object.name))
    }

    /// The same permissions as rules with one verb and one resource, name or path each.
    fn broken_down(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let one = |text: &String| vec![text.clone()];
        for (group, resource) in self
            .groups
            .iter()
            .flat_map(|group| self.resources.iter().map(move |resource| (group, resource)))
        {
            for verb in &self.verbs {
                let part = Self {
                    verbs: one(verb),
                    groups: one(group),
                    resources: one(resource),
                    ..Self::default()
                };
                match self.names.as_slice() {
                    [] => parts.push(part),
                    names => parts.extend(names.iter().map(|name| Self {
                        names: one(name),
                        ..part.clone()
                    })),
                }
            }
        }
        for url in &self.urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                verbs: one(verb),
                urls: one(url),
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether the rule allows everything that `part` allows. `part` must be broken down.
    fn covers(&self, part: &Self) -> bool {
        part.verbs.iter().all(|verb| any(&self.verbs, verb))
            && part.groups.iter().all(|group| any(&self.groups, group))
            && part
                .resources
                .iter()
                .all(|resource| covers_resource(&self.resources, resource))
            && part
                .urls
                .iter()
                .all(|url| self.urls.iter().any(|own| url_covers(own, url)))
            && (self.names.is_empty()
                || (!part.names.is_empty()
                    && part.names.iter().all(|name| self.names.contains(name))))
    }

    /// The form in messages about missing permissions.
    fn compact(&self) -> String {
        let fields = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown = fields
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
            .map(|(name, texts)| format!("{name}:{}", quoted(texts)));
        format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
    }
}

/// The permissions in `wanted` that `held` does not cover, one line per resource in upstream's
/// form.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let parts = wanted.iter().flat_map(Rule::broken_down);
    let missing = parts.filter(|part| !held.iter().any(|rule| rule.covers(part)));
    let mut of_urls = Vec::new();
    // Verbs of one resource share a line.
    let mut of_resources: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for part in missing {
        if part.urls.is_empty() {
            of_resources
                .entry([part.groups, part.resources, part.names])
                .or_default()
                .extend(part.verbs)
        } else {
            of_urls.push(part.compact())
        }
    }
    let of_resources = of_resources
        .into_iter()
        .map(|([groups, resources, names], verbs)| {
            Rule {
                verbs,
                groups,
                resources,
                names,
                urls: Vec::new(),
            }
            .compact()
        });
    let mut lines: Vec<String> = of_urls.into_iter().chain(of_resources).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// `["a" "b"]`, as Go prints a list of strings.
pub(crate) fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn any(known: &[String], wanted: &str) -> bool {
    known.iter().any(|known| known == "*" || known == wanted)
}

/// Matches `*`, the resource itself, or `*/status` for `pods/status`.
fn covers_resource(known: &[String], wanted: &str) -> bool {
    let part = wanted.split_once('/').map(|(_, part)| part);
    known.iter().any(|known| {
        known == "*" || known == wanted || (part.is_some() && known.strip_prefix("*/") == part)
    })
}

/// Whether a non-resource URL of a rule matches a path. A trailing `*` matches any suffix.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `verbs groups resources [names]`, or `verbs url paths`.
    fn rule(text: &str) -> Rule {
        crate::auth::bootstrap::rule(text)
    }

    fn wanted(text: &str) -> Attributes {
        let words: Vec<&str> = text.split(' ').collect();
        if let [verb, path] = words[..] {
            return Attributes {
                verb: verb.to_owned(),
                object: Wanted::Path(path.to_owned()),
            };
        }
        let (resource, subresource) = words[2].split_once('/').unwrap_or((words[2], ""));
        Attributes::resource(
            words[0],
            ResourceRequest {
                group: words[1].replace("core", ""),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                name: words.get(3).copied().unwrap_or_default().to_owned(),
                ..ResourceRequest::default()
            },
        )
    }

    #[test]
    fn a_rule_allows_requests_that_match_all_of_its_fields() {
        // (rule, request, allowed)
        let cases = [
            ("get core pods", "get core pods", true),
            ("get core pods", "get core pods p", true),
            ("get core pods", "list core pods", false),
            ("get core pods", "get apps pods", false),
            ("get core pods", "get core pods/status", false),
            ("get core pods/status", "get core pods", false),
            ("get core */scale", "get core foos/scale", true),
            ("get core */scale", "get core foos", false),
            ("get core *", "get core pods/status", true),
            ("* * *", "anything any.group foos/bar", true),
            ("* * *", "get /metrics", false),
            ("get core pods p", "get core pods p", true),
            ("get core pods p", "get core pods q", false),
            ("list core pods p", "list core pods", false),
            ("get url /api,/healthz/*", "get /api", true),
            ("get url /api,/healthz/*", "get /api/v1", false),
            ("get url /api,/healthz/*", "get /healthz/ping", true),
            ("get url *", "get /metrics", true),
            ("get url /api", "post /api", false),
        ];
        for (text, request, allowed) in cases {
            assert_eq!(
                rule(text).allows(&wanted(request)),
                allowed,
                "{text}: {request}"
            );
        }
    }

    #[test]
    fn missing_permissions_are_grouped_by_resource() {
        // (held, wanted, missing)
        let cases: [(&[&str], &[&str], &[&str]); 7] = [
            (
                &["get,list core pods"],
                &["get core pods", "list core pods p"],
                &[],
            ),
            (
                &["* * *"],
                &["get core pods", "get apps deployments/scale"],
                &[],
            ),
            (&["get core */scale"], &["get core foos/scale"], &[]),
            (
                &["get core pods"],
                &["get,list,watch core pods,secrets"],
                &[
                    r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                    r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
                ],
            ),
            (
                &["get core pods p"],
                &["get core pods", "get core pods q"],
                &[
                    r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["q"], Verbs:["get"]}"#,
                    r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#,
                ],
            ),
            (
                &["get url /api/*"],
                &["get url /api/v1,/metrics"],
                &[r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#],
            ),
            (
                &["* * *"],
                &["* url *"],
                &[r#"{NonResourceURLs:["*"], Verbs:["*"]}"#],
            ),
        ];
        for (held, wanted, expected) in cases {
            let rules = |texts: &[&str]| texts.iter().map(|text| rule(text)).collect::<Vec<_>>();
            assert_eq!(
                missing(&rules(held), &rules(wanted)),
                expected,
                "{held:?} {wanted:?}"
            );
        }
    }
}
