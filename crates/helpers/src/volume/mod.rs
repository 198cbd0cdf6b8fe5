//! Volumes of pods as volume plugins see them: the driver, the unique name, and the nodes at a time.
//!
//! volume of a pod -> claim -> PersistentVolume ([`VolumeResolver`]), or the volume itself
//! -> [`translation`] of in-tree sources to CSI -> [`Volume`]
//!
//! Only plugins whose volumes can be attached are known: CSI, Fibre Channel and iSCSI. Upstream:
//! `pkg/volume` (`Spec`, the plugins `csi`, `fc`, `iscsi`), and `util` of the attach-detach
//! controller.

mod in_tree;
mod resolve;
mod translation;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use steersman_objects::PersistentVolume;
use steersman_values::intern::Sym;

pub use self::resolve::{ResolveError, VolumeResolver};
use self::translation::Translated;
pub use self::translation::TranslationError;

/// Prefix of the unique names of CSI volumes.
const CSI: &str = "kubernetes.io/csi";

/// A volume that plugins can attach.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    /// Name of the PersistentVolume, or of the volume of a pod. A volume that was translated to CSI
    /// has the name of its translation.
    pub name: Box<str>,
    /// Unique name, such as `kubernetes.io/csi/<driver>^<handle>`. The status of nodes has it.
    pub unique_name: Sym,
    /// The plugin, with the fields that it needs.
    pub plugin: Plugin,
    /// Whether several nodes may have the volume at a time. Upstream: `IsMultiAttachAllowed`.
    pub is_multi_attach: bool,
    /// The spec of the translation of a pod's own volume. Volumes of PersistentVolumes have none.
    pub inline_spec: Option<Arc<Value>>,
    /// Whether the source was translated to CSI.
    pub is_migrated: bool,
}

/// The plugin of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plugin {
    /// A CSI driver attaches the volume.
    Csi(CsiVolume),
    /// Fibre Channel: every node reaches the volume.
    FibreChannel,
    /// iSCSI: every node reaches the volume.
    Iscsi,
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiVolume {
    /// Name of the driver.
    pub driver: Sym,
    /// Name of the volume, as the driver knows it.
    pub handle: Box<str>,
}

impl CsiVolume {
    /// The volume with this unique name. `None` for volumes of other plugins.
    ///
    /// A handle may contain the separator, and the name of a driver cannot. Upstream's detacher
    /// refuses such handles.
    pub fn of_unique_name(name: &str) -> Option<Self> {
        let volume = name.strip_prefix(CSI)?.strip_prefix('/')?;
        let (driver, handle) = volume.split_once('^')?;
        Some(Self {
            driver: Sym::new(driver),
            handle: handle.into(),
        })
    }

    fn unique_name(&self) -> Sym {
        Sym::new(&format!("{CSI}/{}^{}", self.driver, self.handle))
    }
}

/// The name of the CSI plugin with this driver, as metrics show it.
pub fn qualified_csi_name(driver: &str) -> String {
    format!("{CSI}:{driver}")
}

impl Plugin {
    /// Name of the plugin, as metrics show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Csi(_) => CSI,
            Self::FibreChannel => "kubernetes.io/fc",
            Self::Iscsi => "kubernetes.io/iscsi",
        }
    }

    /// The name with the CSI driver: `kubernetes.io/csi:<driver>`. Upstream:
    /// `GetFullQualifiedPluginNameForVolume`.
    pub fn qualified_name(&self) -> String {
        match self {
            Self::Csi(volume) => qualified_csi_name(&volume.driver),
            Self::FibreChannel | Self::Iscsi => self.name().to_owned(),
        }
    }
}

impl Volume {
    /// The volume of a PersistentVolume. `None` for sources that no node attaches.
    pub fn of_persistent_volume(
        volume: &PersistentVolume,
    ) -> Result<Option<Self>, TranslationError> {
        let name = &*volume.meta.name;
        let modes = &volume.spec.access_modes;
        if let Some(csi) = &volume.spec.csi {
            let csi = CsiVolume {
                driver: csi.driver.clone(),
                handle: csi.volume_handle.clone(),
            };
            return Ok(Some(Self::of_csi(name, csi, allows_many(modes))));
        }
        let spec = &volume.spec;
        if volume.migrated_plugin().is_none() && spec.fc.is_none() && spec.iscsi.is_none() {
            return Ok(None);
        }
        let document = volume.document.to_object();
        let Some(Value::Object(sources)) = document.get("spec") else {
            return Ok(None);
        };
        if let Some(translated) = translation::of_persistent_volume(volume, sources)? {
            let modes = translated.access_modes.as_deref().unwrap_or(modes);
            let many = allows_many(modes);
            return Ok(Some(Self {
                is_migrated: true,
                ..Self::of_csi(name, translated.volume, many)
            }));
        }
        let found = sources
            .iter()
            .find_map(|(kind, source)| local(kind, source));
        Ok(found.map(|(plugin, unique_name)| Self {
            name: name.into(),
            unique_name,
            plugin,
            is_multi_attach: allows_many(modes),
            inline_spec: None,
            is_migrated: false,
        }))
    }

    /// The volume of a pod in `namespace`, whose source `kind` has the JSON `source`. `None` for
    /// sources without a plugin, such as `flexVolume`.
    pub fn of_inline(
        namespace: &str,
        name: &str,
        kind: &str,
        source: &str,
    ) -> Result<Option<Self>, TranslationError> {
        let source: Value = serde_json::from_str(source).map_err(TranslationError::Source)?;
        if let Some(translated) = translation::of_inline(namespace, name, kind, &source)? {
            let Translated {
                name,
                volume,
                access_modes,
                spec,
            } = translated;
            let many = allows_many(access_modes.as_deref().unwrap_or_default());
            return Ok(Some(Self {
                is_migrated: true,
                inline_spec: Some(Arc::new(spec)),
                ..Self::of_csi(&name, volume, many)
            }));
        }
        Ok(local(kind, &source).map(|(plugin, unique_name)| Self {
            name: name.into(),
            unique_name,
            plugin,
            is_multi_attach: true,
            inline_spec: None,
            is_migrated: false,
        }))
    }

    fn of_csi(name: &str, volume: CsiVolume, is_multi_attach: bool) -> Self {
        Self {
            name: name.into(),
            unique_name: volume.unique_name(),
            plugin: Plugin::Csi(volume),
            is_multi_attach,
            inline_spec: None,
            is_migrated: false,
        }
    }
}

/// Whether access modes allow several nodes. A volume without access modes has no limit.
fn allows_many(modes: &[Sym]) -> bool {
    let is_shared = |mode: &Sym| *mode == *"ReadWriteMany" || *mode == *"ReadOnlyMany";
    modes.is_empty() || modes.iter().any(is_shared)
}

/// The plugin and unique name of a source that every node reaches by itself. `None` for other kinds,
/// and for a source without the fields of its name.
fn local(kind: &str, source: &Value) -> Option<(Plugin, Sym)> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Wire {
        target_portal: String,
        iqn: String,
        lun: Option<i64>,
        #[serde(rename = "targetWWNs")]
        target_wwns: Option<Vec<String>>,
        wwids: Option<Vec<String>>,
    }
    let plugin = match kind {
        "fc" => Plugin::FibreChannel,
        "iscsi" => Plugin::Iscsi,
        _ => return None,
    };
    let wire = Wire::deserialize(source).ok()?;
    let list = |names: Option<Vec<String>>| names.filter(|names| !names.is_empty());
    let volume = match (&plugin, list(wire.target_wwns), list(wire.wwids), wire.lun) {
        (Plugin::Iscsi, _, _, lun) => {
            let lun = lun.unwrap_or_default();
            format!("{}:{}:{lun}", wire.target_portal, wire.iqn)
        }
        // Upstream prints the lists as Go does.
        (_, Some(wwns), _, Some(lun)) => format!("[{}]:{lun}", wwns.join(" ")),
        (_, _, Some(wwids), _) => format!("[{}]", wwids.join(" ")),
        _ => return None,
    };
    let unique_name = Sym::new(&format!("{}/{volume}", plugin.name()));
    Some((plugin, unique_name))
}

/// A member of a JSON object as text; empty when unset.
fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A JSON object without the members that Go omits: empty texts, `false` and empty objects.
fn without_empty(members: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(is_true) => *is_true,
        Value::String(text) => !text.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(_) | Value::Array(_) => true,
    };
    members
        .into_iter()
        .filter(|(_, value)| is_set(value))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests;
