//! The flags of the controller.
//!
//! Upstream: `options` of its package, and `ProbeProvisionableRecyclableVolumePlugins` in
//! `cmd/kube-controller-manager/app/plugins.go`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steersman_client::files::{self, ReadError};
use steersman_objects::PersistentVolume;
use steersman_options::Options;
use steersman_options::features::{FeatureGates, VOLUME_ATTRIBUTES_CLASS};

use super::matching::AttributesClasses;

/// The program of recycler pods: it empties the volume.
///
/// It fails if anything is left, so a volume with foreign data never becomes available.
const SCRUB: &str =
    "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";

/// Bytes of a GiB.
///
/// Time limits grow by whole GiB.
const GIB: i128 = 1 << 30;

/// Settings of the controller.
#[derive(Debug, Clone)]
pub(super) struct Config {
    /// The period in which all claims and volumes are synced.
    ///
    /// 15 s by default. Without an event, it is the only retry of a pending claim, and of a failed
    /// operation.
    pub(super) sync_period: Duration,
    /// Whether claims without a matching volume get a new one.
    pub(super) provisions: bool,
    /// Whether this manager makes folders for classes of `kubernetes.io/host-path`.
    ///
    /// The flag `--enable-hostpath-provisioner`, for tests on one machine.
    pub(super) provisions_host_paths: bool,
    /// The gate `VolumeAttributesClass`.
    pub(super) attributes: AttributesClasses,
    host_path: Recycler,
    nfs: Recycler,
}

/// The recycler pods of one plugin.
#[derive(Debug, Clone)]
struct Recycler {
    template: Map<String, Value>,
    /// The least time limit, and the addition per GiB, in seconds.
    ///
    /// A volume without a size has the least one.
    minimum: i64,
    per_gib: i64,
}

/// The template of recycler pods cannot be used. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    /// The file could not be read.
    #[error("failed to read file path {path}: {source}")]
    File {
        path: String,
        #[source]
        source: ReadError,
    },
    /// The file is no pod.
    #[error("failed decoding file: {0}")]
    Content(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The pod has no volume that the recycled one can replace.
    #[error("pod specification ({0}): does not contain any volume(s)")]
    NoVolume(String),
}

impl Config {
    /// The settings of `options` and `features`. Reads the files of templates.
    pub(super) fn of(options: &Options, features: &FeatureGates) -> Result<Self, TemplateError> {
        let recycler = |file: &str, minimum: &str, per_gib: &str| {
            Ok(Recycler {
                template: template(&options.text(file))?,
                minimum: options.int(minimum),
                per_gib: options.int(per_gib),
            })
        };
        Ok(Self {
            sync_period: options.time("pvclaimbinder-sync-period"),
            provisions: options.bool("enable-dynamic-provisioning"),
            provisions_host_paths: options.bool("enable-hostpath-provisioner"),
            attributes: AttributesClasses::with_gate(features.is_on(VOLUME_ATTRIBUTES_CLASS)),
            host_path: recycler(
                "pv-recycler-pod-template-filepath-hostpath",
                "pv-recycler-minimum-timeout-hostpath",
                "pv-recycler-timeout-increment-hostpath",
            )?,
            nfs: recycler(
                "pv-recycler-pod-template-filepath-nfs",
                "pv-recycler-minimum-timeout-nfs",
                "pv-recycler-increment-timeout-nfs",
            )?,
        })
    }

    /// The pod called `name` that empties `volume`. `None` for sources without a recycler.
    ///
    /// Upstream: `Recycle` of the plugins. `hostPath` decides before NFS, although a volume has only
    /// one source.
    pub(super) fn recycler_pod(&self, volume: &PersistentVolume, name: &str) -> Option<Value> {
        let spec = &volume.spec;
        let (recycler, source) = match (&spec.host_path, &spec.nfs) {
            (Some(source), _) => (&self.host_path, json!({"hostPath": {"path": source.path}})),
            (None, Some(source)) => {
                let nfs = json!({"server": source.server, "path": source.path});
                (&self.nfs, json!({ "nfs": nfs }))
            }
            (None, None) => return None,
        };
        let mut pod = Value::Object(recycler.template.clone());
        if let Value::Object(metadata) = &mut pod["metadata"] {
            // The name has to be the same for each try; see `pod_name`.
            metadata.remove("generateName");
        }
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["activeDeadlineSeconds"] = json!(recycler.time_limit(volume));
        // The first volume of the template is the one to empty; its name connects it to the containers.
        let replaced = pod["spec"]["volumes"][0]["name"].clone();
        pod["spec"]["volumes"][0] = source;
        pod["spec"]["volumes"][0]["name"] = replaced;
        Some(pod)
    }
}

impl Recycler {
    /// The time limit of a pod in seconds. Upstream: `CalculateTimeoutForVolume`.
    fn time_limit(&self, volume: &PersistentVolume) -> i64 {
        let capacity = volume.spec.capacity.storage.0;
        let gib = capacity.map_or(0, |capacity| capacity.units() / GIB);
        let gib = i64::try_from(gib).unwrap_or(i64::MAX);
        gib.saturating_mul(self.per_gib).max(self.minimum)
    }
}

/// The pod in the file at `path`; the default one without a path.
///
/// Upstream: `AttemptToLoadRecycler`, `LoadPodFromFile` and `ValidateRecyclerPodTemplate`. A template
/// without a namespace gets the default one, since the API server refuses such a pod.
fn template(path: &str) -> Result<Map<String, Value>, TemplateError> {
    if path.is_empty() {
        return Ok(default_template());
    }
    let content = files::read(Path::new(path)).map_err(|source| TemplateError::File {
        path: path.to_owned(),
        source,
    })?;
    let content = String::from_utf8(content).map_err(|e| TemplateError::Content(e.into()))?;
    let mut pod: Map<String, Value> =
        serde_saphyr::from_str(&content).map_err(|e| TemplateError::Content(e.into()))?;
    let volumes = pod.get("spec").and_then(|spec| spec["volumes"].as_array());
    if volumes.is_none_or(Vec::is_empty) {
        return Err(TemplateError::NoVolume(path.to_owned()));
    }
    let metadata = pod.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    if metadata["namespace"].is_null() {
        metadata["namespace"] = json!("default");
    }
    Ok(pod)
}

/// Upstream: `NewPersistentVolumeRecyclerPodTemplate`.
///
/// The image is upstream's.
fn default_template() -> Map<String, Value> {
    let container = json!({
        "name": "pv-recycler",
        "image": "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
        "command": ["/bin/sh"],
        "args": ["-c", SCRUB],
        "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
    });
    let spec = json!({
        "restartPolicy": "Never", "volumes": [{"name": "vol"}], "containers": [container],
    });
    let metadata = json!({"namespace": "default"});
    [
        ("apiVersion", json!("v1")),
        ("kind", json!("Pod")),
        ("metadata", metadata),
        ("spec", spec),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}
