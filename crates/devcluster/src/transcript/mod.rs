//! What clients asked of the server, as text to be reviewed and compared: each request with its
//! body, and the answer's status.
//!
//! requests with contents -> (names: what differs from run to run) -> (render: bodies, and what a
//! PUT changes) -> text
//!
//! Two runs that ask the same give the same text. Generated parts of names become `xxxxx`, UIDs
//! `<uid of KIND NAME>`, versions `<version>`, and times seconds since the beginning, such as
//! `<+12s>`. Requests for pods that follow each other directly are sorted by pod, since no order of
//! pods is promised anywhere; Events come last in their step, since they go their own way; and
//! equal requests become one with their number.

mod names;
mod render;

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;

use crate::requests::RequestRecord;
use names::Names;
use render::{differences, pretty};

/// Spaces before every line of a body.
const INDENT: usize = 4;

/// Where a request belongs among its neighbours.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    AsSent,
    /// Among requests for other pods, by the path of its own.
    OfPod(String),
    Event,
}

impl Order {
    fn is_of_a_pod(&self) -> bool {
        matches!(self, Self::OfPod(_))
    }
}

/// A growing transcript.
#[derive(Debug)]
pub struct Transcript {
    names: Names,
    text: String,
}

impl Transcript {
    /// A transcript whose times count from `begin`.
    pub fn new(title: &str, begin: Timestamp) -> Self {
        Self {
            names: Names::new(begin),
            text: format!("# {title}\n"),
        }
    }

    /// Adds a step: a heading, and those of `requests` that `of` picks. All of them tell names, so
    /// the step should have all that there were.
    pub fn step(
        &mut self,
        heading: &str,
        requests: &[RequestRecord],
        of: impl Fn(&RequestRecord) -> bool,
    ) {
        for content in requests
            .iter()
            .filter_map(|request| request.content.as_deref())
        {
            self.names.learn(content);
        }
        let _ = write!(self.text, "\n== {heading}\n");
        let mut told: Vec<(Order, String)> = requests
            .iter()
            .filter(|r| of(r))
            .map(|r| (self.order(r), self.tell(r)))
            .collect();
        told.sort_by_key(|(order, _)| *order == Order::Event);
        for run in told.chunk_by_mut(|(a, _), (b, _)| a.is_of_a_pod() && b.is_of_a_pod()) {
            run.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        for equal in told.chunk_by(|a, b| a == b) {
            let times = if equal.len() > 1 {
                format!("{}x ", equal.len())
            } else {
                String::new()
            };
            let _ = write!(self.text, "\n{times}{}", equal[0].1);
        }
    }

    /// Adds lines of the teller's own.
    pub fn remark(&mut self, heading: &str, lines: impl IntoIterator<Item = String>) {
        let _ = write!(self.text, "\n== {heading}\n\n");
        for line in lines {
            let _ = writeln!(self.text, "{}", self.names.plain(&line));
        }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn order(&self, request: &RequestRecord) -> Order {
        match request.resource.split('/').next() {
            Some("pods") => {
                Order::OfPod(self.names.plain(request.path.trim_end_matches("/status")))
            }
            Some("events") => Order::Event,
            _ => Order::AsSent,
        }
    }

    /// One request, as lines that end in a line break.
    fn tell(&self, request: &RequestRecord) -> String {
        let method = match &*request.verb {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        let client = request.user_agent.rsplit('/').next().unwrap_or_default();
        let path = self.names.plain(&request.path);
        let mut told = format!("{client}: {method} {path} {}", request.status);
        let Some(content) = request.content.as_deref() else {
            return told + "\n";
        };
        if !content.content_type.is_empty() {
            told += &format!(" ({})", content.content_type);
        }
        told.push('\n');
        if content.body.is_empty() {
            return told;
        }
        let Ok(body) = serde_json::from_slice::<Value>(&content.body) else {
            return told
                + &format!(
                    "{:INDENT$}{} bytes that are not JSON\n",
                    "",
                    content.body.len()
                );
        };
        match &content.before {
            Some(before) if method == "PUT" => told += &self.tell_put(before, &body),
            _ => told += &pretty(&self.names.in_value(&body), INDENT),
        }
        told
    }

    /// A PUT is told by what it changes.
    fn tell_put(&self, before: &Value, body: &Value) -> String {
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let seen = if version(before) == version(body) {
            ""
        } else {
            ", seen at another version"
        };
        let is_managed = |object: &Value| object["metadata"].get("managedFields").is_some();
        let managed = if is_managed(before) && !is_managed(body) {
            " without managedFields"
        } else {
            ""
        };
        let mut told = format!("{:INDENT$}the object as it is{managed}{seen}, but\n", "");
        let shown = |object: &Value| {
            let mut object = self.names.in_value(object);
            object["metadata"]["resourceVersion"].take();
            if let Some(metadata) = object["metadata"]
                .as_object_mut()
                .filter(|_| !managed.is_empty())
            {
                metadata.remove("managedFields");
            }
            object
        };
        let lines = differences(&shown(before), &shown(body));
        if lines.is_empty() {
            let _ = writeln!(told, "{:INDENT$}nothing", "");
        }
        for line in lines {
            told += &line.show(INDENT);
        }
        told
    }
}

#[cfg(test)]
mod tests;
