//! Conversion of custom resources between the versions of their kind.
//!
//! Versions that differ only in their schemas need pruning and defaults. Otherwise a webhook
//! converts, which the `server` calls.
//!
//! Upstream: `pkg/apiserver/conversion` of apiextensions-apiserver.

use std::sync::Arc;

use serde_json::Value;

use crate::Server;
use crate::apimachinery::errors::text;
use crate::calls::{Call, CallError};
use crate::custom::{Converter, Custom};
use crate::kinds::{Resource, Storage};
use crate::status::Status;

/// Time-out of a conversion in seconds, as upstream's.
const TIMEOUT: u64 = 30;

impl Resource {
    /// The webhook that converts between the versions of this resource.
    pub(crate) fn converter(&self) -> Option<&Converter> {
        self.custom.as_ref()?.converter.as_ref()
    }

    /// An object of any version of a custom kind in this version. Objects of built-in kinds stay
    /// in the kept version.
    pub(crate) async fn in_version(&self, object: Value, server: &Server) -> Result<Value, Status> {
        if self.custom.is_none() {
            return Ok(object);
        }
        let mut converted = self.all_in_version(vec![object], server).await?;
        Ok(converted.pop().unwrap_or_default())
    }

    /// The same for several objects, with one call.
    pub(crate) async fn all_in_version(
        &self,
        mut objects: Vec<Value>,
        server: &Server,
    ) -> Result<Vec<Value>, Status> {
        if self.custom.is_none() {
            return Ok(objects);
        }
        let own = self.api_version();
        let versions = objects.iter().map(|object| object["apiVersion"] == *own);
        let versions: Vec<bool> = versions.collect();
        if let Some(converter) = self.converter() {
            convert(converter, &mut objects, &own, server).await?;
        }
        let read = |(object, is_own)| {
            if is_own {
                object
            } else {
                self.read_other(object)
            }
        };
        Ok(objects.into_iter().zip(versions).map(read).collect())
    }

    /// An object of this version in the stored version; `None` if that is the same one.
    pub(crate) async fn to_stored(
        &self,
        object: &Value,
        server: &Server,
    ) -> Result<Option<Value>, Status> {
        let (Storage::OtherVersion, Some(custom)) = (self.storage, self.custom.as_ref()) else {
            return Ok(None);
        };
        let storage: &Arc<Custom> = custom.storage.as_ref().unwrap_or(custom);
        let version = format!("{}/{}", self.group, storage.version);
        let mut objects = [object.clone()];
        if let Some(converter) = &custom.converter {
            convert(converter, &mut objects, &version, server).await?;
        }
        let [mut object] = objects;
        object["apiVersion"] = Value::from(version);
        storage.prune(&mut object);
        storage.complete(&mut object);
        Ok(Some(object))
    }
}

/// Converts the objects that have another version.
async fn convert(
    converter: &Converter,
    objects: &mut [Value],
    api_version: &str,
    server: &Server,
) -> Result<(), Status> {
    let is_other = |object: &&mut Value| object["apiVersion"] != *api_version;
    let mut others: Vec<&mut Value> = objects.iter_mut().filter(is_other).collect();
    let Some(first) = others.first() else {
        return Ok(());
    };
    let subject = format!(
        "conversion webhook for {}, Kind={}",
        text(first, "apiVersion"),
        text(first, "kind")
    );
    let failed = |why: String| Status::unclassified(format!("{subject}{why}"));
    let originals: Vec<&Value> = others.iter().map(|object| &**object).collect();
    let review = converter.review(&originals, api_version);
    let review = review.map_err(Status::unclassified)?;
    let call = Call {
        client: converter.client.clone(),
        seconds: TIMEOUT,
        review,
    };
    let answer = server.call(call).await;
    let body = answer.body.map_err(|why| match why {
        CallError::Call(why) => failed(format!(" failed: {why}")),
        CallError::Client(why) => Status::unclassified(why),
    })?;
    let converted = converter.converted(&originals, api_version, &answer.uid, &body);
    let converted = converted.map_err(failed)?;
    for (object, converted) in others.iter_mut().zip(converted) {
        **object = converted;
    }
    Ok(())
}
