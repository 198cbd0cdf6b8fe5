//! The external resizer: it grants larger requests of bound claims.
//!
//! Upstream: `kubernetes-csi/external-resizer`.

use serde_json::json;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::events::EventType;
use steersman_values::quantity::Quantity;

use super::{Answer, Driver};
use crate::claims::{CLAIMS, SimClaim, SimClass, VOLUMES, target};

/// Whether a bound claim asks for more than it has.
pub(crate) fn is_larger(claim: &SimClaim) -> bool {
    let request = Quantity::parse(&claim.spec.resources.requests.storage);
    request > Quantity::parse(&claim.status.capacity.storage)
}

/// Grants the request of `claim`, when the driver has enlarged the volume: first on the volume, then
/// on the claim.
pub(crate) async fn expand(
    driver: &Driver,
    client: &ApiClient,
    claim: &SimClaim,
    class: Option<&SimClass>,
) -> Result<Answer, ApiError> {
    let request = &claim.spec.resources.requests.storage;
    let id = format!("expand {} to {request}", claim.meta.uid);
    let of_class = class.map(|class| &class.annotations);
    let annotations: Vec<_> = [&claim.annotations].into_iter().chain(of_class).collect();
    let answer = driver.call(&id, annotations);
    let volume = &claim.spec.volume_name;
    match &answer {
        Answer::Done => {
            let capacity = json!({ "capacity": { "storage": request } });
            let at = target(&VOLUMES, None, Some(volume));
            let body = json!({ "spec": capacity });
            client.patch(at, PatchKind::Merge, &body).await?;
            let namespace = Some(claim.meta.namespace.as_str());
            let at = Target {
                subresource: Some("status"),
                ..target(&CLAIMS, namespace, Some(&claim.meta.name))
            };
            let body = json!({ "status": capacity });
            client.patch(at, PatchKind::Merge, &body).await?;
            let message = "Resize volume succeeded".to_owned();
            driver.event(claim, EventType::Normal, "VolumeResizeSuccessful", message);
        }
        Answer::Failed(error) => {
            let message = format!("resize volume {volume:?} failed: {error}");
            driver.event(claim, EventType::Warning, "VolumeResizeFailed", message);
        }
        Answer::Later(_) | Answer::Never => {
            let message = format!("External resizer is resizing volume {volume}");
            driver.event(claim, EventType::Normal, "Resizing", message);
        }
    }
    Ok(answer)
}
