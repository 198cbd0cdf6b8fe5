//! The writes of one sync of slices: POST, PUT, DELETE, in this order.
//!
//! Each answer is recorded twice: [`WrittenSlices`] tells the watch event of the write from a
//! foreign one, and [`TrackedCache`] holds the next sync back until the cache shows the write.
//!
//! Upstream: `finalize` of `k8s.io/endpointslice` and of `pkg/controller/endpointslicemirroring`.

use std::fmt;
use std::sync::Arc;

use prometheus::IntCounterVec;

use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, EndpointSlice, Identity, Meta, ObjectKey};
use steersman_runtime::consistency::TrackedCache;

use super::{SliceBody, WrittenSlices};

/// Sends the writes of slices for one kind of owner.
pub struct SliceWriter {
    /// Kind of the owners, for the texts of failures.
    pub owner_kind: &'static str,
    /// The client of the controller.
    pub client: ApiClient,
    /// The cache of slices, which has to show the writes.
    pub cache: TrackedCache,
    /// The last own write of each slice.
    pub written: Arc<WrittenSlices>,
    /// Counts the writes by the label `operation`.
    pub changes: IntCounterVec,
}

/// The writes for one owner. The bodies are made one at a time.
pub struct SliceWrites<C, U, D> {
    /// The bodies of new slices.
    pub create: C,
    /// Slices, and the bodies that replace them.
    pub update: U,
    /// Slices that are deleted.
    pub delete: D,
}

/// The owner of a slice, as failures name it.
#[derive(Debug, Clone)]
pub struct Owner {
    kind: &'static str,
    key: ObjectKey,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

/// The write that failed. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum SliceWriteError {
    /// A POST failed.
    #[error("failed to create EndpointSlice for {owner}: {source}")]
    Create {
        /// The owner of the slice.
        owner: Owner,
        /// The failed request.
        #[source]
        source: ApiError,
    },
    /// A PUT failed.
    #[error("failed to update {slice} EndpointSlice for {owner}: {source}")]
    Update {
        /// The owner of the slice.
        owner: Owner,
        /// Name of the slice.
        slice: String,
        /// The failed request.
        #[source]
        source: ApiError,
    },
    /// A DELETE failed.
    #[error("failed to delete {slice} EndpointSlice for {owner}: {source}")]
    Delete {
        /// The owner of the slice.
        owner: Owner,
        /// Name of the slice.
        slice: String,
        /// The failed request.
        #[source]
        source: ApiError,
    },
    /// The slice is written, but the answer has no metadata.
    #[error("failed to read the written EndpointSlice of {owner}: {source}")]
    Answer {
        /// The owner of the slice.
        owner: Owner,
        /// The defect of the answer.
        #[source]
        source: DecodeError,
    },
}

impl SliceWriter {
    /// Sends `writes` for `owner`, up to the first failure. Returns false if the namespace is
    /// terminating, which also ends the writes.
    ///
    /// A terminating owner gets no new slices: the garbage collector deletes its slices, and would
    /// miss a new one.
    pub async fn write<'a>(
        &self,
        owner: &Meta,
        writes: SliceWrites<
            impl Iterator<Item = SliceBody<'a>>,
            impl Iterator<Item = (&'a EndpointSlice, SliceBody<'a>)>,
            impl Iterator<Item = &'a Arc<EndpointSlice>>,
        >,
    ) -> Result<bool, SliceWriteError> {
        let key = ObjectKey {
            namespace: owner.namespace.clone(),
            name: Arc::clone(&owner.name),
        };
        if !owner.is_terminating() {
            for body in writes.create {
                let target = Target::collection::<EndpointSlice>(&key.namespace);
                match self.client.create(target, &body).await {
                    Ok(answer) => self.record(&key, &answer, "create")?,
                    Err(error) if error.has_cause("NamespaceTerminating") => return Ok(false),
                    Err(source) => {
                        let owner = self.owner(&key);
                        return Err(SliceWriteError::Create { owner, source });
                    }
                }
            }
        }
        for (slice, body) in writes.update {
            let target = Target::of::<EndpointSlice>(&slice.meta);
            let answer = self.client.replace(target, &body).await;
            let answer = answer.map_err(|source| SliceWriteError::Update {
                owner: self.owner(&key),
                slice: slice.meta.name.to_string(),
                source,
            })?;
            self.record(&key, &answer, "update")?;
        }
        for slice in writes.delete {
            let deleted = self.delete(&key, slice).await;
            deleted.map_err(|source| SliceWriteError::Delete {
                owner: self.owner(&key),
                slice: slice.meta.name.to_string(),
                source,
            })?;
            self.count("delete");
        }
        Ok(true)
    }

    /// Deletes `slice` without counting it: upstream does not count every deletion.
    pub async fn delete(&self, owner: &ObjectKey, slice: &EndpointSlice) -> Result<(), ApiError> {
        let target = Target::of::<EndpointSlice>(&slice.meta);
        self.client
            .delete(target, &Delete::exactly(&slice.meta))
            .await?;
        self.written.deleted(owner, slice);
        Ok(())
    }

    /// Counts a write: `create`, `update` or `delete`.
    pub fn count(&self, operation: &str) {
        self.changes.with_label_values(&[operation]).inc();
    }

    /// Records the slice in `answer`, which `operation` wrote.
    fn record(
        &self,
        key: &ObjectKey,
        answer: &[u8],
        operation: &str,
    ) -> Result<(), SliceWriteError> {
        self.count(operation);
        let written = Identity::decode(answer).map_err(|source| SliceWriteError::Answer {
            owner: self.owner(key),
            source,
        })?;
        self.written
            .wrote(key, written.uid, written.resource_version);
        self.cache.wrote_at(key, written.resource_version);
        Ok(())
    }

    fn owner(&self, key: &ObjectKey) -> Owner {
        Owner {
            kind: self.owner_kind,
            key: key.clone(),
        }
    }
}
