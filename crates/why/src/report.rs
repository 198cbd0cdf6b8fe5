//! A question and its answer, as the debug page and the command exchange them.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Explanation, age};

/// Short names of kinds, as kubectl knows them.
const SHORT: [(&str, &str); 24] = [
    ("cj", "cronjobs"),
    ("cm", "configmaps"),
    ("crd", "customresourcedefinitions"),
    ("csr", "certificatesigningrequests"),
    ("deploy", "deployments"),
    ("ds", "daemonsets"),
    ("ep", "endpoints"),
    ("hpa", "horizontalpodautoscalers"),
    ("ing", "ingresses"),
    ("limits", "limitranges"),
    ("no", "nodes"),
    ("ns", "namespaces"),
    ("pc", "priorityclasses"),
    ("pdb", "poddisruptionbudgets"),
    ("po", "pods"),
    ("pv", "persistentvolumes"),
    ("pvc", "persistentvolumeclaims"),
    ("quota", "resourcequotas"),
    ("rc", "replicationcontrollers"),
    ("rs", "replicasets"),
    ("sa", "serviceaccounts"),
    ("sc", "storageclasses"),
    ("sts", "statefulsets"),
    ("svc", "services"),
];

/// Types or objects in the text that an answer has not seen.
const UNSEEN: usize = 10;

/// The object or the namespace that somebody asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// One object.
    Object {
        /// API group; `*` for any.
        group: String,
        /// Kind, plural or short name.
        kind: String,
        /// Namespace; without effect for cluster-scoped types.
        namespace: String,
        /// Name.
        name: String,
    },
    /// All objects of a namespace that stand still; an empty namespace means the cluster.
    All {
        /// The namespace.
        namespace: String,
    },
}

impl Question {
    /// The question about the object `name` of `kind`, which may have its group: `deployments.apps`.
    pub fn object(kind: &str, namespace: &str, name: &str) -> Self {
        let (kind, group) = kind.split_once('.').unwrap_or((kind, "*"));
        let kind = kind.to_lowercase();
        let long = SHORT.iter().find(|(short, _)| *short == kind);
        Self::Object {
            group: group.to_owned(),
            kind: long.map_or(kind.clone(), |(_, long)| (*long).to_owned()),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The path of the debug page.
    pub fn path(&self) -> String {
        match self {
            Self::Object {
                group,
                kind,
                namespace,
                name,
            } => {
                let kind = match &**group {
                    "*" => kind.clone(),
                    group => format!("{kind}.{group}"),
                };
                // An empty namespace is none: the page of a cluster-scoped object.
                match &**namespace {
                    "" => format!("/debug/why/{kind}/{name}"),
                    namespace => format!("/debug/why/{kind}/{namespace}/{name}"),
                }
            }
            Self::All { namespace } if namespace.is_empty() => "/debug/why".to_owned(),
            Self::All { namespace } => format!("/debug/why?namespace={namespace}"),
        }
    }

    /// The question of the debug page with the path `rest` below `/debug/why` and this query.
    pub fn of_page(rest: &str, query: &str) -> Option<Self> {
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            [] => {
                let namespace = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("namespace="));
                Some(Self::All {
                    namespace: namespace.unwrap_or_default().to_owned(),
                })
            }
            [kind, name] => Some(Self::object(kind, "", name)),
            [kind, namespace, name] => Some(Self::object(kind, namespace, name)),
            _ => None,
        }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The time of the answer.
    pub time: Timestamp,
    /// Whether an object stands still.
    pub stuck: bool,
    /// Whether the API server has no such object.
    pub absent: bool,
    /// The identity of the leader that answered; empty for an answer from API objects alone.
    pub leader: String,
    /// The answers. A question about one object has one.
    pub answers: Vec<Explanation>,
    /// Whether this is the list of all that stands still.
    pub is_list: bool,
    /// Reads that the caller may not do, or that failed. The cause may be in these objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// SHA-256 of the leader's serving certificate, if nothing verifies it. The command that asks sets
    /// it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unverified: String,
}

impl Report {
    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.is_list {
            self.list(&mut text);
        } else {
            for answer in &self.answers {
                text.push_str(&answer.text(self.time));
            }
        }
        for withheld in self.withheld.iter().take(UNSEEN) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "not seen: {withheld}");
        }
        if let more @ 1.. = self.withheld.len().saturating_sub(UNSEEN) {
            let _ = writeln!(text, "not seen: {more} more (-o json names them)");
        }
        let _ = match &*self.leader {
            "" => writeln!(
                text,
                "(from API objects alone, without the controller manager's own state)"
            ),
            leader if self.unverified.is_empty() => writeln!(text, "(from {leader})"),
            leader => writeln!(
                text,
                "(from {leader}, by its own words: nothing verifies its serving certificate. \
                 --manager-fingerprint={} confirms it)",
                self.unverified
            ),
        };
        text
    }

    /// One line for each object that stands still, with its first cause.
    fn list(&self, text: &mut String) {
        if self.answers.is_empty() {
            let seen = if self.withheld.is_empty() {
                ""
            } else {
                " among the objects that were seen"
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "nothing is stuck{seen}");
        }
        for answer in &self.answers {
            let since = answer
                .oldest()
                .map(|since| age(self.time.as_second() - since.as_second()));
            let since = since.unwrap_or_else(|| "?".to_owned());
            let _ = match answer.root_cause() {
                Some((object, cause)) if *object != answer.object => writeln!(
                    text,
                    "{since:>8}  {}: {}: {}",
                    answer.object.long(),
                    object.short(),
                    cause.line()
                ),
                Some((_, cause)) => writeln!(
                    text,
                    "{since:>8}  {}: {}",
                    answer.object.long(),
                    cause.line()
                ),
                None => Ok(()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_questions_agree() {
        // (typed kind, namespace, name, path of the page)
        let cases = [
            (
                "deploy",
                "default",
                "web",
                "/debug/why/deployments/default/web",
            ),
            (
                "Widgets.example.com",
                "a",
                "b",
                "/debug/why/widgets.example.com/a/b",
            ),
            ("ns", "", "team", "/debug/why/namespaces/team"),
        ];
        for (kind, namespace, name, path) in cases {
            let question = Question::object(kind, namespace, name);
            assert_eq!(question.path(), path);
            let rest = path.strip_prefix("/debug/why").unwrap();
            assert_eq!(Question::of_page(rest, ""), Some(question));
        }
        let all = Question::All {
            namespace: "team".to_owned(),
        };
        assert_eq!(Question::of_page("", "namespace=team"), Some(all));
        assert_eq!(Question::of_page("/a/b/c/d", ""), None);
    }
}
