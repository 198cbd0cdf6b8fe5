//! Stored objects in the version of a request, for reads and answers. A webhook may have to convert
//! them.
//!
//! Upstream: `pkg/apiserver/customresource_handler.go` of apiextensions-apiserver.

use std::sync::Arc;

use serde_json::Value;

use super::Server;
use crate::kinds::Resource;
use crate::status::Status;
use crate::store::{Event, Object};

impl Server {
    /// A stored object in the version of `resource`, if a webhook converts it. Other objects need
    /// no conversion before they are shown.
    pub(super) async fn in_version(
        &self,
        resource: &Resource,
        object: Arc<Object>,
    ) -> Result<Arc<Object>, Status> {
        let converted = self.all_in_version(resource, vec![object.clone()]).await?;
        Ok(converted.into_iter().next().unwrap_or(object))
    }

    /// The same for several objects, with one call.
    pub(super) async fn all_in_version(
        &self,
        resource: &Resource,
        objects: Vec<Arc<Object>>,
    ) -> Result<Vec<Arc<Object>>, Status> {
        if resource.converter().is_none() {
            return Ok(objects);
        }
        let stored: Vec<Value> = objects.iter().map(|object| object.to_value()).collect();
        // In a box of its own, because an open watch keeps the room for its largest step.
        let converted = Box::pin(resource.all_in_version(stored, self)).await?;
        let pairs = objects.iter().zip(converted);
        let converted =
            pairs.map(|(old, value)| Arc::new(Object::unstored(resource, &old.key, &value)));
        Ok(converted.collect())
    }

    /// The same for both states of each event.
    pub(super) async fn events_in_version(
        &self,
        resource: &Resource,
        events: Vec<Arc<Event>>,
    ) -> Result<Vec<Arc<Event>>, Status> {
        if resource.converter().is_none() {
            return Ok(events);
        }
        let states = |event: &Arc<Event>| [event.old.clone(), Some(event.object().clone())];
        let stored = events.iter().flat_map(states).flatten().collect();
        let mut converted = self.all_in_version(resource, stored).await?.into_iter();
        let event = |event: &Arc<Event>| {
            let old = event.old.as_ref().and_then(|_| converted.next());
            let new = converted.next()?;
            Some(Arc::new(event.with_states(old, new)))
        };
        Ok(events.iter().filter_map(event).collect())
    }
}
