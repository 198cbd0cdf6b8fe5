//! Matchers: select the requests or watch events that a rule applies to.

use std::fmt;

use crate::route::{Target, Verb};

/// Selects requests by their attributes; `None` matches all. For rules of watch events, resource,
/// namespace and name are those of the object.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// Verb, such as `create`.
    pub verb: Option<String>,
    /// Plural resource, such as `pods`; empty for discovery.
    pub resource: Option<String>,
    /// Subresource, such as `status`; `Some("")` matches only requests for the main endpoint.
    pub subresource: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name in the path.
    pub name: Option<String>,
    /// Text that the `User-Agent` contains.
    pub client: Option<String>,
    /// Whether only creations, updates, patches and deletions match.
    pub writes_only: bool,
    /// Plural resources that never match.
    pub except: Vec<String>,
    /// Number of matches to skip before the rule applies.
    pub skip: usize,
}

impl Matcher {
    /// Requests with this verb on the main endpoint of this resource.
    pub fn new(verb: &str, resource: &str) -> Self {
        let subresource = Some(String::new());
        Self {
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            ..Self::default()
        }
    }

    /// Requests with this verb on all resources and subresources.
    pub fn verb(verb: &str) -> Self {
        Self {
            verb: Some(verb.to_owned()),
            ..Self::default()
        }
    }

    /// Requests for discovery documents: `/api`, `/apis` and the paths below them that name no
    /// objects, and the OpenAPI documents in version 3. Rules and logs show them as `get` without a resource, with the path as name.
    pub fn discovery() -> Self {
        Self::new("get", "")
    }

    /// Every request that writes.
    pub fn writes() -> Self {
        Self {
            writes_only: true,
            ..Self::default()
        }
    }

    /// Limits the matcher to one subresource.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Limits the matcher to one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Limits the matcher to one object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Limits the matcher to clients with `client` in their `User-Agent`.
    pub fn client(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// Excludes this plural resource.
    pub fn except(mut self, resource: &str) -> Self {
        self.except.push(resource.to_owned());
        self
    }

    /// Starts at the `n`th match, counted from 1 since the rule was added.
    pub fn nth(mut self, n: usize) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    pub(super) fn matches(&self, seen: &Seen<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        is(&self.verb, seen.verb.as_str())
            && is(&self.resource, seen.resource)
            && is(&self.subresource, seen.subresource)
            && is(&self.namespace, seen.namespace)
            && is(&self.name, seen.name)
            && self
                .client
                .as_deref()
                .is_none_or(|client| seen.client.contains(client))
            && !(self.writes_only && matches!(seen.verb, Verb::Get | Verb::List | Verb::Watch))
            && !self.except.iter().any(|resource| resource == seen.resource)
    }
}

/// The attributes that matchers compare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) client: &'a str,
}

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb.as_str())?;
        let parts = [
            (" ", self.resource),
            ("/", self.subresource),
            (" ", self.name),
        ];
        parts
            .iter()
            .filter(|(_, part)| !part.is_empty())
            .try_for_each(|(before, part)| write!(f, "{before}{part}"))
    }
}

impl<'a> Seen<'a> {
    pub(crate) fn request(verb: Verb, target: &'a Target, client: &'a str) -> Self {
        Self {
            verb,
            resource: &target.resource().plural,
            subresource: target.subresource.map_or("", |part| part.name),
            namespace: &target.namespace,
            name: &target.name,
            client,
        }
    }

    /// A request for a discovery document.
    pub(crate) fn discovery(path: &'a str, client: &'a str) -> Self {
        Self {
            verb: Verb::Get,
            resource: "",
            subresource: "",
            namespace: "",
            name: path,
            client,
        }
    }
}
