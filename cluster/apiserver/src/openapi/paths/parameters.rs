//! The parameters of operations.

use serde_json::{Value, json};
use steersman_releases::Release;

use crate::schema::descriptions;

pub(in crate::openapi) const TABLE: &str = include_str!("parameters.txt");

/// Parameters of collections that their deletion lacks.
const OF_WATCHES: [&str; 2] = ["allowWatchBookmarks", "watch"];

/// The query parameters of a set in the table, as `release` has them.
pub(super) fn of(set: &str, release: Release) -> Vec<Value> {
    let lines = TABLE
        .lines()
        .skip_while(|line| line.strip_prefix('=') != Some(set));
    let rows = lines.skip(1).take_while(|line| !line.starts_with('='));
    rows.filter_map(|row| parameter(row, release)).collect()
}

/// A row of the table; `None` if `release` lacks the parameter.
fn parameter(row: &str, release: Release) -> Option<Value> {
    let mut words = row.splitn(3, ' ');
    let name = words.next()?;
    let kind = words.next()?;
    let text = words.next()?;
    let (name, since) = name.split_once('+').unwrap_or((name, "0"));
    if since
        .parse()
        .is_ok_and(|since: u64| release.minor() < since)
    {
        return None;
    }
    let description = if text == "=" {
        descriptions::of_field("meta.DeleteOptions", name).unwrap_or_default()
    } else {
        text.to_owned()
    };
    let schema = json!({"type": kind, "uniqueItems": true});
    Some(json!({"name": name, "in": "query", "description": description, "schema": schema}))
}

/// The parameters of the deletion of a collection: those of deletions and those of lists.
pub(super) fn of_collection_deletions(release: Release) -> Vec<Value> {
    let mut all = of("delete", release);
    let lists = of("list", release).into_iter();
    all.extend(lists.filter(|parameter| !OF_WATCHES.iter().any(|name| parameter["name"] == *name)));
    all
}

/// A variable of a path.
pub(super) fn variable(name: &str, kind: &str) -> Value {
    let description = match name {
        "name" => format!("name of the {kind}"),
        "namespace" => "the namespace of the object".to_owned(),
        _ => "the path at the program".to_owned(),
    };
    let schema = json!({"type": "string", "uniqueItems": true});
    json!({"name": name, "in": "path", "description": description, "required": true, "schema": schema})
}

/// Moves the parameters that all operations share to the path, as `findCommonParameters` of
/// kube-openapi (`pkg/builder3`). `variables` are those of the path.
pub(super) fn shared(operations: &mut [(&str, Value)], variables: Vec<Value>) -> Vec<Value> {
    let key = |parameter: &Value| (parameter["name"].clone(), parameter["in"].clone());
    let lists: Vec<Vec<Value>> = operations
        .iter()
        .map(|(_, operation)| {
            operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        })
        .collect();
    let is_shared = |parameter: &Value| {
        let mut lists = lists.iter();
        lists.all(|list| list.iter().any(|other| key(other) == key(parameter)))
    };
    let mut all = variables;
    all.extend(
        lists
            .iter()
            .flatten()
            .take(lists[0].len())
            .filter(|one| is_shared(one))
            .cloned(),
    );
    sort(&mut all);
    for ((_, operation), mut own) in operations.iter_mut().zip(lists.clone()) {
        own.retain(|parameter| !is_shared(parameter));
        sort(&mut own);
        if let Some(fields) = operation.as_object_mut() {
            if own.is_empty() {
                fields.shift_remove("parameters");
            } else {
                fields.insert("parameters".to_owned(), Value::from(own));
            }
        }
    }
    all
}

fn sort(parameters: &mut [Value]) {
    let text =
        |parameter: &Value, field: &str| parameter[field].as_str().unwrap_or_default().to_owned();
    parameters.sort_by_key(|parameter| (text(parameter, "name"), text(parameter, "in")));
}
