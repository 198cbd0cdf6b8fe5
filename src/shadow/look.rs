//! Look-ups of live objects. All are reads.

use serde::Deserialize;
use serde_json::Value;
use steersman_client::{ApiClient, ApiError, ApiPath};

use super::compare::Live;

/// The items of a list; another object has none.
#[derive(Deserialize)]
struct List {
    items: Option<Vec<Value>>,
}

/// The outcome of a look-up.
pub(super) enum Look {
    /// The live state.
    Seen(Live),
    /// The user lacks the right to read it.
    Forbidden,
    /// It cannot be read now.
    Unread,
}

impl Look {
    /// The live state, if it was read.
    pub(super) fn seen(self) -> Option<Live> {
        match self {
            Self::Seen(live) => Some(live),
            Self::Forbidden | Self::Unread => None,
        }
    }
}

/// The live state at `path`.
pub(super) async fn look(client: &ApiClient, path: &str) -> Look {
    let answer = match ApiPath::served(path) {
        Ok(path) => client.get_path(path).await,
        Err(error) => Err(ApiError::from(error)),
    };
    match answer {
        Ok(body) => parse(&body).map_or(Look::Unread, Look::Seen),
        Err(error) if error.is_not_found() => Look::Seen(Live::Absent),
        Err(error) => {
            tracing::warn!(path, %error, "object not compared, because it cannot be read");
            if error.is_forbidden() {
                Look::Forbidden
            } else {
                Look::Unread
            }
        }
    }
}

fn parse(body: &[u8]) -> Option<Live> {
    let object: Value = serde_json::from_slice(body).ok()?;
    let kind = object["kind"].as_str().unwrap_or_default();
    if !kind.ends_with("List") || object.get("items").is_none() {
        return Some(Live::Object(object));
    }
    let list: List = serde_json::from_value(object).ok()?;
    Some(Live::List(list.items.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_objects_are_told_apart() {
        let live = |value: Value| parse(value.to_string().as_bytes());
        let pod = json!({"kind": "Pod"});
        assert_eq!(live(pod.clone()), Some(Live::Object(pod.clone())));
        let list = json!({"kind": "PodList", "items": [pod]});
        assert_eq!(live(list), Some(Live::List(vec![pod])));
        let empty = json!({"kind": "PodList", "items": null});
        assert_eq!(live(empty), Some(Live::List(vec![])));
    }
}
