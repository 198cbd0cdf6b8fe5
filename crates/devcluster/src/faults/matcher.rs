//! Which requests and watch events a rule is about.

use std::fmt;

use crate::rest::{Target, Verb};

/// Which requests a rule is about; `None` matches all. Of a watch, its events: resource, namespace
/// and name are those of the object.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// Verb, such as `create`.
    pub verb: Option<String>,
    /// Plural resource, such as `pods`; empty for discovery.
    pub resource: Option<String>,
    /// Subresource, such as `status`; `Some("")` matches only requests for the object itself.
    pub subresource: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name in the path.
    pub name: Option<String>,
    /// A part of the `User-Agent`.
    pub client: Option<String>,
    /// Nothing but creations, updates, patches and deletions.
    pub writes_only: bool,
    /// Plural resources that never match.
    pub except: Vec<String>,
    /// How many matches pass before the first that counts.
    pub skip: usize,
}

impl Matcher {
    /// Requests with this verb on this resource itself, not on its subresources.
    pub fn new(verb: &str, resource: &str) -> Self {
        let subresource = Some(String::new());
        Self {
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            ..Self::default()
        }
    }

    /// Requests with this verb on every resource, subresources included.
    pub fn verb(verb: &str) -> Self {
        Self {
            verb: Some(verb.to_owned()),
            ..Self::default()
        }
    }

    /// Requests for discovery documents: `/api`, `/apis` and what is below them that names no
    /// objects. In rules and logs they are a `get` of no resource, with the path as the name.
    pub fn discovery() -> Self {
        Self::new("get", "")
    }

    /// Every request that changes something.
    pub fn writes() -> Self {
        Self {
            writes_only: true,
            ..Self::default()
        }
    }

    /// The same, on one subresource.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// The same, in one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The same, on one object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The same, of clients whose `User-Agent` contains `client`.
    pub fn client(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// The same, but for this plural resource.
    pub fn except(mut self, resource: &str) -> Self {
        self.except.push(resource.to_owned());
        self
    }

    /// The same, from the `n`th match on, counted from 1 and from when the rule is made.
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

/// What matchers look at.
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
