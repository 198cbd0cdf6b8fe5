//! The graph of the garbage collector around one object, or all that is on its way out.

use std::collections::HashMap;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_runtime::controller::DebugPages;
use steersman_values::resource::ResourceType;
use steersman_why::{ClientReader, Loaded, Need, Question, Reader, Relative};

use super::asked::{Asked, Refusal};
use crate::access::Caller;

/// Objects in one answer.
const LIMIT: usize = 200;

/// The objects around `of`. Without `of`: those that are being deleted or that no cache shows.
pub(super) async fn view(
    reader: &ClientReader,
    caller: &Caller,
    debug: &DebugPages,
    of: Option<&Asked>,
) -> Result<Value, Refusal> {
    let uid = match of {
        Some(asked) => uid_of(reader, asked).await?,
        None => String::new(),
    };
    let Some(family) = debug.family(&uid, LIMIT) else {
        let reason = "the garbage collector does not run in this manager";
        return Err((StatusCode::SERVICE_UNAVAILABLE, reason.to_owned()));
    };
    let is_cut = family.len() == LIMIT;
    let mut kinds: HashMap<(String, String), Option<ResourceType>> = HashMap::new();
    let mut nodes = Vec::new();
    let mut withheld = 0;
    for relative in family {
        let group = group_of(&relative.api_version).to_owned();
        let key = (group, relative.kind.clone());
        if !kinds.contains_key(&key) {
            let resolved = resolve(reader, &key.0, &key.1).await;
            kinds.insert(key.clone(), resolved);
        }
        let may = match kinds.get(&key).and_then(Option::as_ref) {
            Some(of) => may_get(caller, of, &relative).await,
            // Without its type, nothing is known about rights to the object.
            None => false,
        };
        if may {
            nodes.push(relative);
        } else {
            withheld += 1;
        }
    }
    Ok(json!({ "root": uid, "nodes": nodes, "withheld": withheld, "isCut": is_cut }))
}

async fn may_get(caller: &Caller, of: &ResourceType, relative: &Relative) -> bool {
    caller.may_get(of, "", "").await
        || of.namespaced
            && !relative.namespace.is_empty()
            && caller.may_get(of, &relative.namespace, "").await
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

async fn resolve(reader: &ClientReader, group: &str, kind: &str) -> Option<ResourceType> {
    let need = Need::Type {
        group: group.to_owned(),
        name: kind.to_lowercase(),
    };
    match reader.read(&need).await {
        Loaded::Type(found) => found,
        _ => None,
    }
}

/// The UID of an object that the caller may get.
async fn uid_of(reader: &ClientReader, asked: &Asked) -> Result<String, Refusal> {
    let question = Question::object(&asked.kind, &asked.namespace, &asked.name);
    let Question::Object { group, kind, .. } = question else {
        return Err((StatusCode::NOT_FOUND, "no object".to_owned()));
    };
    let Some(of) = resolve(reader, &group, &kind).await else {
        let reason = format!("the API server has no resource type {kind:?}");
        return Err((StatusCode::NOT_FOUND, reason));
    };
    let namespace = if of.namespaced { &*asked.namespace } else { "" };
    let need = Need::Object {
        of,
        namespace: namespace.to_owned(),
        name: asked.name.clone(),
    };
    let name = &asked.name;
    match reader.read(&need).await {
        Loaded::Objects(found) if !found.is_empty() => Ok(found[0].uid().to_owned()),
        Loaded::Denied => Err((
            StatusCode::FORBIDDEN,
            format!("you may not get {kind} {name}"),
        )),
        Loaded::Failed(error) => Err((StatusCode::BAD_GATEWAY, error)),
        _ => Err((
            StatusCode::NOT_FOUND,
            format!("{kind} {name} does not exist"),
        )),
    }
}
