//! Sources of the seven in-tree plugins that CSI drivers replace.
//!
//! Upstream: `k8s.io/csi-translation-lib/plugins`, one file per plugin.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::text;

/// A source in terms of its CSI driver.
pub(super) struct InTree {
    pub(super) driver: &'static str,
    pub(super) handle: String,
    pub(super) fs_type: String,
    pub(super) read_only: bool,
    pub(super) attributes: BTreeMap<&'static str, String>,
    /// Reference to the Secret for staging.
    pub(super) secret: Option<Value>,
    /// Access mode of a pod's own volume.
    pub(super) access_mode: &'static str,
}

/// The object that has a source.
pub(super) enum Owner<'a> {
    /// A PersistentVolume.
    PersistentVolume {
        name: &'a str,
        /// Value of the label of its zones; empty without one.
        zones: &'a str,
        /// Namespace of its claim; empty without one.
        claim_namespace: &'a str,
        /// Resource group in Azure; empty for the default.
        resource_group: &'a str,
    },
    /// A volume of a pod.
    Pod {
        /// Namespace of the pod.
        namespace: &'a str,
        /// Name of the volume within the pod.
        name: &'a str,
    },
}

impl Owner<'_> {
    fn is_pod(&self) -> bool {
        matches!(self, Self::Pod { .. })
    }
}

/// The parsers of the migrated sources, by field.
type Parse = fn(&Value, &Owner<'_>) -> Result<InTree, String>;
const SOURCES: [(&str, Parse); 7] = [
    ("awsElasticBlockStore", aws),
    ("azureDisk", azure_disk),
    ("azureFile", azure_file),
    ("cinder", cinder),
    ("gcePersistentDisk", gce),
    ("portworxVolume", portworx),
    ("vsphereVolume", vsphere),
];

/// Whether a CSI driver replaces the plugin of this source.
pub(super) fn is_migrated(kind: &str) -> bool {
    SOURCES.iter().any(|(name, _)| *name == kind)
}

/// The source `kind` of `owner` in terms of CSI. The error is upstream's message.
pub(super) fn parse(kind: &str, source: &Value, owner: &Owner<'_>) -> Result<InTree, String> {
    let known = SOURCES.iter().find(|(name, _)| *name == kind);
    let (_, parse) = known.ok_or_else(|| format!("{kind} has no CSI driver"))?;
    parse(source, owner)
}

/// The parts that most sources share.
fn source(driver: &'static str, handle: &str, source: &Value) -> InTree {
    InTree {
        driver,
        handle: handle.to_owned(),
        fs_type: text(source, "fsType").to_owned(),
        read_only: source["readOnly"] == true,
        attributes: BTreeMap::new(),
        secret: None,
        access_mode: "ReadWriteOnce",
    }
}

fn partition(source: &Value) -> i64 {
    source["partition"].as_i64().unwrap_or_default()
}

fn aws(volume: &Value, _: &Owner<'_>) -> Result<InTree, String> {
    let handle = ebs_volume(text(volume, "volumeID"))?;
    let partition = partition(volume).to_string();
    Ok(InTree {
        attributes: BTreeMap::from([("partition", partition)]),
        ..source("ebs.csi.aws.com", handle, volume)
    })
}

/// The volume of an identifier such as `aws://us-east-1a/vol-1`, or of a bare `vol-1`. Upstream:
/// `KubernetesVolumeIDToEBSVolumeID`.
fn ebs_volume(id: &str) -> Result<&str, String> {
    let Some(rest) = id.strip_prefix("aws://") else {
        return Ok(id);
    };
    let volume = rest.split_once('/').map_or("", |(_zone, path)| path);
    let volume = volume.trim_matches('/');
    if volume.starts_with("vol-") && !volume.contains('/') {
        Ok(volume)
    } else {
        let why = format!("Invalid format for AWS volume ({id})");
        Err(format!(
            "failed to translate Kubernetes ID to EBS Volume ID {why}"
        ))
    }
}

fn azure_disk(volume: &Value, owner: &Owner<'_>) -> Result<InTree, String> {
    const MANAGED: &str = "Managed";
    let kind = text(volume, "kind");
    if volume["kind"].is_string() && !kind.eq_ignore_ascii_case(MANAGED) {
        return Err(format!("kind({kind}) is not supported in csi migration"));
    }
    let mut attributes = BTreeMap::from([("kind", MANAGED.to_owned())]);
    if let Some(caching) = volume["cachingMode"].as_str()
        && !(caching.is_empty() && owner.is_pod())
    {
        attributes.insert("cachingmode", caching.to_owned());
    }
    if let Some(fs_type) = volume["fsType"].as_str() {
        attributes.insert("fstype", fs_type.to_owned());
    }
    Ok(InTree {
        attributes,
        ..source("disk.csi.azure.com", text(volume, "diskURI"), volume)
    })
}

fn azure_file(volume: &Value, owner: &Owner<'_>) -> Result<InTree, String> {
    let secret = text(volume, "secretName");
    let share = text(volume, "shareName");
    let (group, name, namespace) = match *owner {
        Owner::PersistentVolume {
            name,
            claim_namespace,
            resource_group,
            ..
        } => {
            let namespace = volume["secretNamespace"]
                .as_str()
                .unwrap_or(claim_namespace);
            (resource_group, name, namespace)
        }
        Owner::Pod { namespace, name } => ("", name, namespace),
    };
    if namespace.is_empty() {
        let why = "could not find a secret namespace in PersistentVolumeSource or ClaimRef";
        return Err(why.to_owned());
    }
    let account = storage_account(secret);
    let handle = format!("{group}#{account}#{share}#{name}#{namespace}");
    Ok(InTree {
        // The in-tree source has no type of file system.
        fs_type: String::new(),
        attributes: BTreeMap::from([("sharename", share.to_owned())]),
        secret: Some(json!({"name": secret, "namespace": namespace})),
        access_mode: "ReadWriteMany",
        ..source("file.csi.azure.com", &handle, volume)
    })
}

/// The account in the name of a Secret `azure-storage-account-<account>-secret`; other names are
/// accounts themselves.
fn storage_account(secret: &str) -> &str {
    let inner = secret.split_once("azure-storage-account-");
    let account = inner.and_then(|(_, rest)| rest.rsplit_once("-secret"));
    match account {
        Some((account, _)) if !account.is_empty() => account,
        _ => secret,
    }
}

fn cinder(volume: &Value, _: &Owner<'_>) -> Result<InTree, String> {
    let handle = text(volume, "volumeID");
    Ok(source("cinder.csi.openstack.org", handle, volume))
}

fn gce(volume: &Value, owner: &Owner<'_>) -> Result<InTree, String> {
    const UNSPECIFIED: &str = "UNSPECIFIED";
    let disk = text(volume, "pdName");
    let zones: Vec<&str> = match owner {
        Owner::PersistentVolume { zones, .. } => zones.split("__").collect(),
        Owner::Pod { .. } => Vec::new(),
    };
    let place = match &zones[..] {
        [] | [""] => format!("zones/{UNSPECIFIED}"),
        [zone] => format!("zones/{zone}"),
        zones => format!("regions/{}", region(zones)?),
    };
    let partition = match partition(volume) {
        0 => String::new(),
        number => number.to_string(),
    };
    let handle = format!("projects/{UNSPECIFIED}/{place}/disks/{disk}");
    let common = source("pd.csi.storage.gke.io", &handle, volume);
    Ok(InTree {
        attributes: BTreeMap::from([("partition", partition)]),
        access_mode: shared_if(common.read_only),
        ..common
    })
}

/// The region of zones such as `us-central1-a`. Upstream: `gceGetRegionFromZones`.
fn region(zones: &[&str]) -> Result<String, String> {
    let mut regions = Vec::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts[..] else {
            return Err(format!(
                "failed to get region from zones: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            ));
        };
        regions.push(format!("{locale}-{region}"));
    }
    regions.dedup();
    match &mut regions[..] {
        [region] => Ok(std::mem::take(region)),
        _ => Err(format!(
            "failed to get region from zones: multiple or no regions gotten from zones, got: {}",
            regions.join(", ")
        )),
    }
}

fn portworx(volume: &Value, _: &Owner<'_>) -> Result<InTree, String> {
    let common = source("pxd.portworx.com", text(volume, "volumeID"), volume);
    Ok(InTree {
        access_mode: shared_if(common.read_only),
        read_only: false,
        ..common
    })
}

/// The access mode of a pod's own volume: several nodes may read one that is read-only.
fn shared_if(read_only: bool) -> &'static str {
    if read_only {
        "ReadOnlyMany"
    } else {
        "ReadWriteOnce"
    }
}

fn vsphere(volume: &Value, _: &Owner<'_>) -> Result<InTree, String> {
    let common = source("csi.vsphere.vmware.com", text(volume, "volumePath"), volume);
    let policy = text(volume, "storagePolicyName");
    let attributes = (!policy.is_empty()).then(|| ("storagepolicyname", policy.to_owned()));
    Ok(InTree {
        attributes: attributes.into_iter().collect(),
        ..common
    })
}
