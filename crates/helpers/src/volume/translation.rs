//! The translation of in-tree sources to CSI. All seven migrated plugins are translated always.
//!
//! Upstream: `k8s.io/csi-translation-lib`, as `pkg/volume/csimigration` calls it. The volume of a
//! PersistentVolume is known to its driver by the handle alone, so topology and parameters of
//! PersistentVolumes are not translated.

use serde_json::{Map, Value, json};

use steersman_objects::PersistentVolume;
use steersman_values::intern::Sym;

use super::in_tree::{self, InTree, Owner};
use super::{CsiVolume, without_empty};

/// A source that cannot be translated.
#[derive(Debug, thiserror::Error)]
pub enum TranslationError {
    /// The source of a pod's volume is no JSON.
    #[error("decode the source of the volume: {0}")]
    Source(#[source] serde_json::Error),
    /// The driver cannot serve the source.
    #[error("failed to translate in-tree pv to CSI: {0}")]
    Unsupported(String),
}

/// A source in terms of CSI.
#[derive(Debug)]
pub(super) struct Translated {
    /// Name of the translation of a pod's volume.
    pub(super) name: String,
    /// Driver and handle.
    pub(super) volume: CsiVolume,
    /// Access modes that replace those of the source. Volumes of pods have none of their own.
    pub(super) access_modes: Option<Vec<Sym>>,
    /// The spec of the PersistentVolume that a pod's volume is translated to.
    pub(super) spec: Value,
}

/// The translation of a PersistentVolume with this `spec`. `None` if its source is not migrated.
pub(super) fn of_persistent_volume(
    volume: &PersistentVolume,
    spec: &Map<String, Value>,
) -> Result<Option<Translated>, TranslationError> {
    let Some((kind, source)) = spec.iter().find(|(kind, _)| in_tree::is_migrated(kind)) else {
        return Ok(None);
    };
    let annotations = volume.document.annotations();
    let claim = volume.spec.claim_ref.as_ref();
    let labels = &volume.meta.labels;
    let zone = |label: &str| labels.get(label).filter(|zone| !zone.is_empty());
    let owner = Owner::PersistentVolume {
        name: &volume.meta.name,
        zones: zone("failure-domain.beta.kubernetes.io/zone")
            .or_else(|| zone("topology.kubernetes.io/zone"))
            .map_or("", Sym::as_str),
        claim_namespace: claim.map_or("", |claim| claim.namespace.as_str()),
        resource_group: annotations
            .get("kubernetes.io/azure-file-resource-group")
            .map_or("", String::as_str),
    };
    let in_tree = in_tree::parse(kind, source, &owner).map_err(TranslationError::Unsupported)?;
    let mut translated = translated(&volume.meta.name, in_tree);
    // In-tree disks of Google are never shared for writing, even if their access modes say so.
    translated.access_modes = (kind == "gcePersistentDisk" && !volume.spec.access_modes.is_empty())
        .then(|| vec![Sym::new(narrowed(&volume.spec.access_modes))]);
    Ok(Some(translated))
}

/// The access mode of a disk of Google for these in-tree modes. Upstream:
/// `backwardCompatibleAccessModes`.
fn narrowed(modes: &[Sym]) -> &'static str {
    let has = |wanted: &str| modes.iter().any(|mode| *mode == *wanted);
    if has("ReadOnlyMany") && !has("ReadWriteOnce") && !has("ReadWriteMany") {
        "ReadOnlyMany"
    } else {
        "ReadWriteOnce"
    }
}

/// The translation of the volume `name` of a pod in `namespace`. `None` if its source is not
/// migrated.
pub(super) fn of_inline(
    namespace: &str,
    name: &str,
    kind: &str,
    source: &Value,
) -> Result<Option<Translated>, TranslationError> {
    if !in_tree::is_migrated(kind) {
        return Ok(None);
    }
    let owner = Owner::Pod { namespace, name };
    let in_tree = in_tree::parse(kind, source, &owner).map_err(TranslationError::Unsupported)?;
    let translated_name = match kind {
        // The handle of these identifies the volume in all of the cloud.
        "azureDisk" | "azureFile" => in_tree.handle.clone(),
        "gcePersistentDisk" => format!("{}-{}", in_tree.driver, super::text(source, "pdName")),
        _ => format!("{}-{}", in_tree.driver, in_tree.handle),
    };
    Ok(Some(translated(&translated_name, in_tree)))
}

fn translated(name: &str, in_tree: InTree) -> Translated {
    let InTree {
        driver,
        handle,
        fs_type,
        read_only,
        attributes,
        secret,
        access_mode,
    } = in_tree;
    let mut csi = without_empty([
        ("fsType", json!(fs_type)),
        ("nodeStageSecretRef", json!(secret)),
        ("readOnly", json!(read_only)),
        ("volumeAttributes", json!(attributes)),
    ]);
    csi.insert("driver".to_owned(), json!(driver));
    csi.insert("volumeHandle".to_owned(), json!(handle));
    // No API server adds the default of a PersistentVolume to a part of a VolumeAttachment.
    let spec = json!({"accessModes": [access_mode], "csi": csi, "volumeMode": "Filesystem"});
    Translated {
        name: name.to_owned(),
        volume: CsiVolume {
            driver: Sym::new(driver),
            handle: handle.into(),
        },
        access_modes: Some(vec![Sym::new(access_mode)]),
        spec,
    }
}
