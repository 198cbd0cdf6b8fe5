//! Volumes of a pod that upstream's controllers attach, protect or create claims for.
//!
//! Each pod has its own list, because the claims of a StatefulSet differ from pod to pod. The
//! decoder skips volumes that controllers ignore: the token volume that every pod has, and sources
//! such as `configMap` and `emptyDir`. The list of most pods is then empty. Equal lists share one
//! allocation.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use steersman_values::intern::{Interner, SharedSlice, Sym};

use crate::wire::Text;

static VOLUMES: Interner<SharedSlice<PodVolume>> = Interner::new();

/// Sources that the attach-detach controller attaches without a claim. `fc`, `flexVolume` and
/// `iscsi` have plugins in Kubernetes; `k8s.io/csi-translation-lib` translates the others to CSI.
const INLINE_SOURCES: [&str; 10] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "fc",
    "flexVolume",
    "gcePersistentDisk",
    "iscsi",
    "portworxVolume",
    "vsphereVolume",
];

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodVolume {
    /// Name within the pod.
    pub name: Sym,
    /// Source of its data.
    pub source: VolumeSource,
}

/// Source of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// `persistentVolumeClaim`: the name of the PersistentVolumeClaim.
    Claim(Sym),
    /// `ephemeral`: the JSON of the source as served, with the claim template. The claim has the
    /// name `<pod>-<volume>`.
    Ephemeral(Sym),
    /// `csi`: the name of the driver. No node attaches such a volume, but metrics count it.
    InlineCsi(Sym),
    /// A source that the attach-detach controller attaches without a claim.
    Inline {
        /// Name of the source, such as `iscsi`.
        kind: Sym,
        /// The JSON of the source, as served.
        source: Sym,
    },
}

/// The shared list of the volumes that the decoder kept.
pub(super) fn shared(volumes: Vec<VolumeWire>) -> SharedSlice<PodVolume> {
    let kept: Vec<PodVolume> = volumes.into_iter().filter_map(|volume| volume.0).collect();
    VOLUMES.intern(&kept[..])
}

/// Decodes the list of volumes of a view that is no [`Pod`](super::Pod).
pub(crate) fn shared_volumes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SharedSlice<PodVolume>, D::Error> {
    Vec::<VolumeWire>::deserialize(deserializer).map(shared)
}

/// A decoded volume; `None` for volumes that controllers ignore, and for claims without a name.
#[derive(Debug)]
pub(super) struct VolumeWire(Option<PodVolume>);

impl<'de> Deserialize<'de> for VolumeWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ClaimWire<'a> {
            #[serde(borrow)]
            claim_name: Option<Text<'a>>,
        }

        #[derive(Deserialize)]
        struct CsiWire<'a> {
            #[serde(borrow)]
            driver: Option<Text<'a>>,
        }

        struct VolumeVisitor;
        impl<'de> Visitor<'de> for VolumeVisitor {
            type Value = VolumeWire;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a volume")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VolumeWire, A::Error> {
                let mut name = None::<Text<'de>>;
                let mut source = None;
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match &*key {
                        "name" => name = map.next_value()?,
                        "persistentVolumeClaim" => {
                            let claim: Option<ClaimWire<'de>> = map.next_value()?;
                            let name = claim.and_then(|claim| claim.claim_name);
                            let claim = name.map(|name| VolumeSource::Claim(Sym::new(&name)));
                            source = claim.or(source);
                        }
                        "ephemeral" => {
                            let json: Option<&'de RawValue> = map.next_value()?;
                            let json = json.map(|json| Sym::new(json.get()));
                            source = json.map(VolumeSource::Ephemeral).or(source);
                        }
                        "csi" => {
                            let csi: Option<CsiWire<'de>> = map.next_value()?;
                            let driver = csi.and_then(|csi| csi.driver);
                            let csi = driver.map(|name| VolumeSource::InlineCsi(Sym::new(&name)));
                            source = csi.or(source);
                        }
                        kind if INLINE_SOURCES.contains(&kind) => {
                            let json: Option<&'de RawValue> = map.next_value()?;
                            let inline = json.map(|json| VolumeSource::Inline {
                                kind: Sym::new(kind),
                                source: Sym::new(json.get()),
                            });
                            source = inline.or(source);
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                let name = name.as_deref().unwrap_or_default();
                Ok(VolumeWire(source.map(|source| PodVolume {
                    name: Sym::new(name),
                    source,
                })))
            }
        }
        deserializer.deserialize_map(VolumeVisitor)
    }
}
