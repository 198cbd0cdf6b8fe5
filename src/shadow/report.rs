//! Differences as text or JSON. Each is one record, printed when it is found.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use steersman_options::duration::GoDuration;

use super::compare::Fields;
use super::ledger::Difference;

/// Characters of a value that a line of text shows. JSON has the whole value.
const LONGEST: usize = 160;
/// Lines about fields of one difference in text.
const MOST_FIELDS: usize = 20;

/// The numbers at the end of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    /// How long controllers have run.
    pub(super) seconds: u64,
    /// Writes that were held back.
    pub(super) held: u64,
    /// Those that the present manager made, or that became needless.
    pub(super) settled: u64,
    /// Those whose grace time was not over at the end.
    pub(super) pending: usize,
    /// Those that were not compared because too many were pending.
    pub(super) dropped: u64,
    /// Ends of grace times at which the present manager could not make a creation.
    pub(super) postponed: u64,
    /// Look-ups that the API server refused for want of a right.
    pub(super) forbidden: u64,
    /// Those that were reported.
    pub(super) differences: u64,
}

/// A difference in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    verb: &'static str,
    resource: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generate_name: Option<&'a str>,
    controller: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    age_seconds: u64,
    sends: u32,
    fields: &'a Fields,
    log: &'a [String],
}

/// The record of `difference` as one line of JSON.
pub(super) fn json(difference: &Difference) -> String {
    let write = &difference.write;
    let record = Record {
        verb: write.verb.as_str(),
        resource: &write.resource,
        subresource: write.subresource.as_deref(),
        namespace: write.namespace.as_deref(),
        name: write.name.as_deref(),
        generate_name: write.prefix().filter(|_| write.name.is_none()),
        controller: &write.context.controller,
        key: &write.context.key,
        age_seconds: difference.age.as_secs(),
        sends: difference.sends,
        fields: &difference.fields,
        log: &write.context.messages,
    };
    serde_json::json!({ "difference": record }).to_string()
}

/// The record of `difference` as lines of text.
pub(super) fn text(difference: &Difference) -> String {
    let write = &difference.write;
    let age = GoDuration::from(Duration::from_secs(difference.age.as_secs()));
    let mut text = format!(
        "{} {}: the present manager has not made this write for {age}\n",
        write.verb.as_str(),
        write.object(),
    );
    for (path, field) in difference.fields.iter().take(MOST_FIELDS) {
        let live = short(&field.live);
        let wanted = short(&field.wanted);
        let _ = match path.as_str() {
            "" => writeln!(text, "  is {live}, Steersman would make it {wanted}"),
            path => writeln!(text, "  {path}: is {live}, Steersman would set {wanted}"),
        };
    }
    if let Some(more) = difference.fields.len().checked_sub(MOST_FIELDS + 1) {
        let _ = writeln!(text, "  and {} more fields", more + 1);
    }
    let key = match write.context.key.as_str() {
        "" => String::new(),
        key => format!(", sync of {key}"),
    };
    let _ = writeln!(text, "  controller: {}{key}", write.context.controller);
    for message in &write.context.messages {
        let _ = writeln!(text, "  log: {message}");
    }
    text
}

fn short(value: &Value) -> String {
    if value.is_null() {
        return "absent".to_owned();
    }
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Summary {
    pub(super) fn json(&self) -> String {
        serde_json::json!({ "summary": self }).to_string()
    }

    pub(super) fn text(&self) -> String {
        let Self {
            seconds,
            held,
            settled,
            pending,
            dropped,
            postponed,
            forbidden,
            differences,
        } = self;
        let time = GoDuration::from(Duration::from_secs(*seconds));
        let mut text = format!(
            "{differences} differences in {time}; {held} writes were held back, {settled} of the compared ones were made or became needless, {pending} are pending"
        );
        if *postponed > 0 {
            let _ = write!(
                text,
                "; {postponed} times the present manager could not make a creation"
            );
        }
        if *forbidden > 0 {
            let _ = write!(
                text,
                "; {forbidden} look-ups were forbidden, so their writes are not compared: the user needs get, list and watch"
            );
        }
        if *dropped > 0 {
            let _ = write!(
                text,
                "; {dropped} were not compared, because too many were pending"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {

    use http::Method;
    use serde_json::json;

    use super::super::compare::Field;
    use super::super::write::tests::write;
    use super::*;

    fn difference() -> Difference {
        let path = "/apis/apps/v1/namespaces/shop/deployments/web/status";
        let mut write = write(Method::PUT, path, "application/json", json!({}));
        write.context.key = "shop/web".to_owned();
        write.context.messages = vec!["Updating status".to_owned()];
        let field = Field {
            live: json!(2),
            wanted: Value::Null,
        };
        Difference {
            write,
            fields: [("status.replicas".to_owned(), field)].into(),
            age: Duration::from_secs(75),
            sends: 9,
        }
    }

    #[test]
    fn text_names_object_field_and_reason() {
        let expected = "update deployments.apps shop/web/status: the present manager has not made this write for 1m15s\n  \
                        status.replicas: is 2, Steersman would set absent\n  \
                        controller: c, sync of shop/web\n  \
                        log: Updating status\n";
        assert_eq!(text(&difference()), expected);
    }

    #[test]
    fn json_is_one_line_with_the_same_facts() {
        let found: Value = serde_json::from_str(&json(&difference())).unwrap();
        let expected = json!({"difference": {
            "verb": "update", "resource": "deployments.apps", "subresource": "status",
            "namespace": "shop", "name": "web", "controller": "c", "key": "shop/web",
            "ageSeconds": 75, "sends": 9,
            "fields": {"status.replicas": {"live": 2, "wanted": null}},
            "log": ["Updating status"],
        }});
        assert_eq!(found, expected);
    }
}
