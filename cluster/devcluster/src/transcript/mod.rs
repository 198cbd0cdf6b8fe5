//! A transcript: the request log as text, to review and to compare. It has each request with its
//! body, and the status of the answer.
//!
//! requests with contents -> (names: values that differ between runs) -> (render: bodies, and
//! changes of a PUT) -> text
//!
//! Two runs with the same requests give the same text. Generated parts of names become `xxxxx`,
//! UIDs `<uid of KIND NAME>`, versions `<version>`, and times seconds since the start, such as
//! `<+12s>`. Consecutive requests for pods are sorted by pod, because controllers promise no order
//! of pods. Events come last in their step, because they are sent in the background. Equal requests
//! become one with their number.

mod names;
mod render;

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apiserver::requests::RequestRecord;

use names::Names;
use render::{differences, pretty};

/// Spaces before every line of a body.
const INDENT: usize = 4;

/// The position of a request in its step.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    AsSent,
    /// Sorted among consecutive requests for pods, by path.
    OfPod(String),
    Event,
}

impl Order {
    fn is_of_a_pod(&self) -> bool {
        matches!(self, Self::OfPod(_))
    }
}

/// A transcript under construction.
#[derive(Debug)]
pub struct Transcript {
    names: Names,
    text: String,
}

impl Transcript {
    /// A transcript with times relative to `begin`.
    pub fn new(title: &str, begin: Timestamp) -> Self {
        Self {
            names: Names::new(begin),
            text: format!("# {title}\n"),
        }
    }

    /// Adds a step: a heading, and the requests that `of` selects. Pass all requests of the step,
    /// because the answers of all of them teach names and UIDs.
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
        let mut entries: Vec<(Order, String)> = requests
            .iter()
            .filter(|r| of(r))
            .map(|r| (self.order(r), self.request_text(r)))
            .collect();
        entries.sort_by_key(|(order, _)| *order == Order::Event);
        for run in entries.chunk_by_mut(|(a, _), (b, _)| a.is_of_a_pod() && b.is_of_a_pod()) {
            run.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        for equal in entries.chunk_by(|a, b| a == b) {
            let times = if equal.len() > 1 {
                format!("{}x ", equal.len())
            } else {
                String::new()
            };
            let _ = write!(self.text, "\n{times}{}", equal[0].1);
        }
    }

    /// Adds lines of the caller.
    pub fn remark(&mut self, heading: &str, lines: impl IntoIterator<Item = String>) {
        let _ = write!(self.text, "\n== {heading}\n\n");
        for line in lines {
            let _ = writeln!(self.text, "{}", self.names.with_stand_ins(&line));
        }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn order(&self, request: &RequestRecord) -> Order {
        match request.resource.split('/').next() {
            Some("pods") => Order::OfPod(
                self.names
                    .with_stand_ins(request.path.trim_end_matches("/status")),
            ),
            Some("events") => Order::Event,
            _ => Order::AsSent,
        }
    }

    /// One request as lines, each with a line break at its end.
    fn request_text(&self, request: &RequestRecord) -> String {
        let method = match &*request.verb {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        let client = request.user_agent.rsplit('/').next().unwrap_or_default();
        let path = self.names.with_stand_ins(&request.path);
        let mut text = format!("{client}: {method} {path} {}", request.status);
        let Some(content) = request.content.as_deref() else {
            return text + "\n";
        };
        if !content.content_type.is_empty() {
            text += &format!(" ({})", content.content_type);
        }
        text.push('\n');
        if content.body.is_empty() {
            return text;
        }
        let Ok(body) = serde_json::from_slice::<Value>(&content.body) else {
            return text
                + &format!(
                    "{:INDENT$}{} bytes that are not JSON\n",
                    "",
                    content.body.len()
                );
        };
        match &content.before {
            Some(before) if method == "PUT" => text += &self.put_text(before, &body),
            _ => text += &pretty(&self.names.in_value(&body), INDENT),
        }
        text
    }

    /// A PUT as its changes to the stored object.
    fn put_text(&self, before: &Value, body: &Value) -> String {
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
        let mut text = format!("{:INDENT$}the object as it is{managed}{seen}, but\n", "");
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
            let _ = writeln!(text, "{:INDENT$}nothing", "");
        }
        for line in lines {
            text += &line.show(INDENT);
        }
        text
    }
}

#[cfg(test)]
mod tests;
