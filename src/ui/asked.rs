//! The question of a request, and lists of objects for its answer.

use http::StatusCode;
use steersman_values::resource::ResourceType;
use steersman_why::{ClientReader, Doc, Loaded, Need, Reader};

/// The reason why there is no data.
pub(super) type Refusal = (StatusCode, String);

/// An object in the path of a view: plural name, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// `RESOURCE/NAMESPACE/NAME` or `RESOURCE/NAME`.
pub(super) fn asked(rest: &str) -> Option<Asked> {
    let parts: Vec<&str> = rest.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [kind, name] => (kind, "", name),
        [kind, namespace, name] => (kind, namespace, name),
        _ => return None,
    };
    (!kind.is_empty() && !name.is_empty()).then(|| Asked {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The objects of a type. The error is the reason why they are missing.
pub(super) async fn list(
    reader: &ClientReader,
    of: &ResourceType,
    namespace: &str,
    fields: &str,
) -> Result<Vec<Doc>, String> {
    let need = Need::List {
        of: of.clone(),
        namespace: namespace.to_owned(),
        fields: fields.to_owned(),
    };
    match reader.read(&need).await {
        Loaded::Objects(found) => Ok(found),
        Loaded::Absent | Loaded::Type(_) => Ok(Vec::new()),
        Loaded::Denied => Err("you may not get them".to_owned()),
        Loaded::Failed(error) => Err(error),
    }
}
