//! Replays recordings of a real API server, and compares the answers.
//!
//! The recordings are not part of this repository. `STEERSMAN_SHARED` names the folder that
//! contains `reference/data`; without it, the test looks beside the working copies.
//! `replay-known.txt` lists the steps with a known difference and its reason. The test fails for an
//! unlisted difference, and for a listed step without one.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::rest::Body;
use steersman_values::clock::Clock;
use tower::Service;

use crate::support::recorded::{differ, known, masked};

/// Tokens of the users in the recordings.
const TOKENS: [(&str, &str); 3] = [
    ("token_admin", "t-admin"),
    ("token_viewer", "t-viewer"),
    ("token_bad", "t-bad"),
];

#[tokio::test(start_paused = true)]
async fn answers_equal_those_of_a_real_server() {
    let Some(folder) = folder() else {
        println!("skipped: no recordings found");
        return;
    };
    let known = known(include_str!("replay-known.txt"));
    let mut problems = String::new();
    let mut found = BTreeSet::new();
    let mut steps = 0;
    let mut differing = 0;
    let only = std::env::var("STEERSMAN_SCENARIO").ok();
    for path in scenarios(&folder) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let scenario: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let differences = replay(&scenario).await;
        let total = scenario["steps"].as_array().unwrap().len();
        println!("{name}: {} of {total} steps differ", differences.len());
        steps += total;
        differing += differences.len();
        for (step, difference) in differences {
            let id = format!("{name}/{step}");
            if !known.contains_key(&id) {
                writeln!(problems, "--- {id} differs\n{difference}").unwrap();
            }
            found.insert(id);
        }
        let stale = known
            .keys()
            .filter(|id| id.starts_with(&format!("{name}/")) && !found.contains(*id));
        for id in stale {
            writeln!(
                problems,
                "--- {id} is listed as known to differ, but is equal"
            )
            .unwrap();
        }
    }
    println!("{differing} of {steps} steps differ");
    assert!(problems.is_empty(), "\n{problems}");
}

fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("STEERSMAN_SHARED").map(PathBuf::from);
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = ["../../../shared", "../../../../shared"].map(|path| crate_folder.join(path));
    let shared = named.into_iter().chain(beside);
    shared
        .map(|path| path.join("reference/data/api-recordings"))
        .find(|path| path.is_dir())
}

fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    paths
}

/// An open watch: its status and its stream of frames.
struct Watch {
    status: u16,
    body: Body,
}

/// Steps that differ, each with its differences.
async fn replay(scenario: &Value) -> Vec<(String, String)> {
    let cluster = DevCluster::with_managed_fields(Clock::runtime(
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(),
    ));
    cluster.add_token("t-admin", User::admin().with_uid("1"));
    cluster.add_token("t-viewer", User::new("viewer", [""; 0]).with_uid("3"));
    let mut variables: HashMap<String, String> = TOKENS
        .map(|(name, token)| (name.to_owned(), token.to_owned()))
        .into();
    let mut versions: HashMap<String, u64> = HashMap::new();
    let mut watches: HashMap<String, Watch> = HashMap::new();
    let mut differences = Vec::new();
    for step in scenario["steps"].as_array().unwrap() {
        let id = step["id"].as_str().unwrap().to_owned();
        let difference = match step["action"].as_str() {
            Some("watchOpen") => {
                let response = send(&cluster, &step["request"], &variables).await;
                let status = response.status().as_u16();
                let watch = Watch {
                    status,
                    body: response.into_body(),
                };
                watches.insert(step["watch"].as_str().unwrap().to_owned(), watch);
                None
            }
            Some("watchClose") => {
                let watch = watches.remove(step["watch"].as_str().unwrap()).unwrap();
                close(watch, &step["response"]).await
            }
            Some(_) => {
                tokio::time::sleep(Duration::from_millis(
                    step["milliseconds"].as_u64().unwrap_or(100),
                ))
                .await;
                None
            }
            None => {
                let response = send(&cluster, &step["request"], &variables).await;
                let (found, body) = received(response).await;
                for (variable, path) in step["capture"].as_object().into_iter().flatten() {
                    if let Some(value) = at(&body, path.as_str().unwrap()) {
                        let text = value
                            .as_str()
                            .map_or_else(|| value.to_string(), str::to_owned);
                        variables.insert(variable.clone(), text);
                    }
                }
                let related = relate(&mut versions, &body);
                compare(step, found, &body, related)
            }
        };
        differences.extend(difference.map(|difference| (id, difference)));
    }
    differences
}

async fn send(
    cluster: &DevCluster,
    request: &Value,
    variables: &HashMap<String, String>,
) -> Response<Body> {
    let fill = |text: &str| {
        variables
            .iter()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${{{name}}}"), value)
            })
    };
    let body = match (request.get("body"), request.get("bodyText")) {
        (Some(body), _) => fill(&body.to_string()),
        (None, Some(text)) => fill(text.as_str().unwrap()),
        (None, None) => String::new(),
    };
    let mut built = Request::builder()
        .method(request["method"].as_str().unwrap())
        .uri(fill(request["path"].as_str().unwrap()))
        .header("user-agent", "rec/1.0")
        .header(
            "accept",
            request["accept"].as_str().unwrap_or("application/json"),
        );
    if let Some(kind) = request["contentType"].as_str() {
        built = built.header("content-type", kind);
    }
    let user = request["as"].as_str().unwrap_or("admin");
    if user != "anonymous" {
        built = built.header("authorization", format!("Bearer t-{user}"));
    }
    let request = built
        .body(http_body_util::Full::new(Bytes::from(body)))
        .unwrap();
    let user = if user == "anonymous" {
        User::anonymous()
    } else {
        User::admin()
    };
    cluster.service_as(user).call(request).await.unwrap()
}

/// Status and headers in the form of the recordings, and the body.
async fn received(response: Response<Body>) -> (Value, Value) {
    let mut headers = Map::new();
    for name in ["Content-Type", "Retry-After"] {
        if let Some(value) = response.headers().get(name) {
            headers.insert(name.to_owned(), json!(value.to_str().unwrap()));
        }
    }
    let warnings: Vec<&str> = response
        .headers()
        .get_all("Warning")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    if !warnings.is_empty() {
        headers.insert("Warning".to_owned(), json!(warnings));
    }
    let found = json!({"status": response.status().as_u16(), "headers": headers});
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    if bytes.is_empty() {
        return (found, Value::Null);
    }
    let text = || json!(String::from_utf8_lossy(&bytes));
    (
        found,
        serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
    )
}

/// Reads the frames of a watch until the stream ends, or until no frame arrives for a while.
async fn close(mut watch: Watch, expected: &Value) -> Option<String> {
    let mut text = Vec::new();
    let wanted = expected["frames"].as_array().map_or(usize::MAX, Vec::len);
    let by_server = expected["closedBy"] == "server";
    let mut frames: Vec<Value> = Vec::new();
    let mut ended = false;
    loop {
        let patience = Duration::from_secs(if by_server || wanted == usize::MAX {
            30
        } else {
            1
        });
        match tokio::time::timeout(patience, watch.body.frame()).await {
            Ok(Some(frame)) => text.extend_from_slice(&frame.unwrap().into_data().unwrap()),
            Ok(None) => ended = true,
            Err(_) => break,
        }
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            frames.push(serde_json::from_slice(&line).unwrap());
        }
        if ended {
            break;
        }
    }
    if let Some(body) = expected.get("body") {
        let found = serde_json::from_slice(&text).unwrap_or(Value::Null);
        let found = json!({"status": watch.status, "body": masked(&found)});
        let expected = json!({"status": expected["status"], "body": masked(body)});
        return differ(&expected, &found);
    }
    let end_mark = |frame: &Value| {
        frame
            .pointer("/object/metadata/annotations/k8s.io~1initial-events-end")
            .is_some()
    };
    frames.retain(|frame| {
        frame["type"] != "BOOKMARK" || end_mark(frame) || frame["object"]["kind"] == "Table"
    });
    let found = json!({"status": watch.status, "closedBy": if ended { "server" } else { "client" }, "frames": masked(&json!(frames))});
    let expected = json!({"status": expected["status"], "closedBy": expected["closedBy"], "frames": masked(&expected["frames"])});
    differ(&expected, &found)
}

/// The relation of the object's version in `body` to the previous version of the object.
fn relate(versions: &mut HashMap<String, u64>, body: &Value) -> Option<&'static str> {
    if body["kind"] == "Scale" {
        // A view of another object, which has no version in the recordings.
        return None;
    }
    let uid = body["metadata"]["uid"].as_str()?;
    let version: u64 = body["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
    Some(match versions.insert(uid.to_owned(), version) {
        None => "first",
        Some(last) if last == version => "same",
        Some(last) if last < version => "higher",
        Some(_) => "lower",
    })
}

fn compare(step: &Value, found: Value, body: &Value, related: Option<&str>) -> Option<String> {
    let response = &step["response"];
    let mut body = masked(body);
    let recorded = response
        .get("body")
        .or_else(|| response.get("bodyText"))
        .cloned()
        .unwrap_or(Value::Null);
    let mut recorded = masked(&recorded);
    if let Some(token) = recorded.pointer_mut("/spec/token") {
        for (name, text) in TOKENS {
            if *token == json!(format!("${{{name}}}")) {
                *token = json!(text);
            }
        }
    }
    if let Some(groups) = step["bodyFilter"]["groups"].as_array() {
        filter_groups(&mut body, groups);
        filter_groups(&mut recorded, groups);
    }
    if let Some(prefix) = step["request"]["body"]["metadata"]["generateName"].as_str() {
        body = mask_generated(&body, &prefix[..prefix.len().min(58)]);
    }
    let path = step["request"]["path"].as_str().unwrap_or_default();
    if path == "/version" || path.contains("verbose") {
        // These answers describe one build, so only their keys are compared.
        body = keys_of(&body);
        recorded = keys_of(&recorded);
    }
    let quotes_the_implementation = |value: &Value| {
        let message = value["message"].as_str().unwrap_or_default();
        [
            "strconv.",
            "Go struct",
            "json: ",
            "scheme",
            "invalid character",
            "json parse error",
            "yaml:",
            "StorageError",
        ]
        .iter()
        .any(|mark| message.contains(mark))
    };
    if quotes_the_implementation(&recorded) && recorded["reason"] == body["reason"] {
        body["message"] = recorded["message"].clone();
        if let Some(details) = recorded.get("details") {
            body["details"] = details.clone();
        }
    }
    let found = json!({"status": found["status"], "headers": found["headers"], "rv": related, "body": body});
    let headers = response.get("headers").cloned().unwrap_or(json!({}));
    let rv = if response["rv"].is_null() {
        found["rv"].clone()
    } else {
        response["rv"].clone()
    };
    let expected =
        json!({"status": response["status"], "headers": headers, "rv": rv, "body": recorded});
    differ(&expected, &found)
}

/// Replaces `<prefix>abcde` with `<prefix><suffix>`, anywhere in a text.
fn mask_generated(value: &Value, prefix: &str) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), mask_generated(value, prefix)))
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| mask_generated(item, prefix))
            .collect(),
        Value::String(text) => {
            let mut masked = text.clone();
            let is_suffix = |text: &str| {
                text.len() == 5
                    && text
                        .bytes()
                        .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
            };
            for (start, _) in text.match_indices(prefix) {
                let suffix = start + prefix.len();
                if text.get(suffix..suffix + 5).is_some_and(is_suffix) {
                    masked = masked.replace(&text[start..suffix + 5], &format!("{prefix}<suffix>"));
                }
            }
            Value::from(masked)
        }
        other => other.clone(),
    }
}

fn filter_groups(body: &mut Value, groups: &[Value]) {
    for list in ["items", "groups"] {
        if let Some(items) = body.get_mut(list).and_then(Value::as_array_mut) {
            let name = |item: &Value| {
                if item["name"].is_null() {
                    item["metadata"]["name"].clone()
                } else {
                    item["name"].clone()
                }
            };
            items.retain(|item| groups.contains(&name(item)));
            // The order of groups differs between servers.
            items.sort_by_key(|item| name(item).to_string());
        }
    }
}

fn keys_of(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .keys()
            .map(|key| (key.clone(), Value::Null))
            .collect(),
        _ => json!("text"),
    }
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(value, |value, key| match key.parse::<usize>() {
            Ok(index) => value.get(index),
            Err(_) => value.get(key),
        })
}
