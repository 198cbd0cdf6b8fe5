//! Replaces values that differ between runs with stand-ins.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apiserver::requests::Content;

/// Number of hexadecimal digits at the end of an Event's name. They are the time in nanoseconds.
const EVENT_SUFFIX: usize = 16;

/// The known values and their stand-ins.
#[derive(Debug)]
pub(super) struct Names {
    begin: Timestamp,
    stand_ins: BTreeMap<String, String>,
}

impl Names {
    pub(super) fn new(begin: Timestamp) -> Self {
        Self {
            begin,
            stand_ins: BTreeMap::new(),
        }
    }

    /// Learns the generated name and the UID of an object from an answer.
    pub(super) fn learn(&mut self, content: &Content) {
        let Ok(object) = serde_json::from_slice::<Value>(&content.answer) else {
            return;
        };
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let name = text("name");
        let prefix = text("generateName");
        if !prefix.is_empty() && name.starts_with(prefix) {
            self.stand_ins
                .insert(name.to_owned(), format!("{prefix}xxxxx"));
        }
        let uid = text("uid");
        if !uid.is_empty()
            && let Some(kind) = object["kind"].as_str()
        {
            let of = format!("<uid of {kind} {}>", self.with_stand_ins(name));
            self.stand_ins.insert(uid.to_owned(), of);
        }
    }

    /// `text` with stand-ins.
    pub(super) fn with_stand_ins(&self, text: &str) -> String {
        let mut replaced = text.to_owned();
        for (known, stand_in) in &self.stand_ins {
            if replaced.contains(known) {
                replaced = replaced.replace(known, stand_in);
            }
        }
        let is_digit = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
        match replaced.rsplit_once('.') {
            Some((name, digits))
                if digits.len() == EVENT_SUFFIX && digits.chars().all(is_digit) =>
            {
                format!("{name}.<time>")
            }
            _ => replaced,
        }
    }

    /// `value` with stand-ins in all its texts.
    pub(super) fn in_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                Value::String(self.time(text).unwrap_or_else(|| self.with_stand_ins(text)))
            }
            Value::Array(items) => items.iter().map(|item| self.in_value(item)).collect(),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| match &**key {
                    "resourceVersion" => (key.clone(), Value::from("<version>")),
                    _ => (key.clone(), self.in_value(value)),
                };
                fields.iter().map(field).collect()
            }
            other => other.clone(),
        }
    }

    fn time(&self, text: &str) -> Option<String> {
        let time: Timestamp = text.parse().ok()?;
        let since = time.duration_since(self.begin);
        let fraction = if since.subsec_nanos() == 0 {
            ""
        } else {
            " and a fraction"
        };
        Some(format!("<{:+}s{fraction}>", since.as_secs()))
    }
}
