//! Sources of volumes that pods and PersistentVolumes share.
//!
//! Upstream: the functions `validate*VolumeSource`.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::mounts::{local_not_reserved, no_backsteps};
use super::{Errors, Path, formats, is_true, list, number, text};

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";

/// The rule of one source.
pub(in super::super) enum Rule {
    /// These texts are given.
    Required(&'static [&'static str]),
    Check(fn(&Path<'_>, &Value, &mut Errors)),
}

/// One source in a list of alternatives.
pub(in super::super) struct Source {
    /// The field in the API.
    pub(in super::super) name: &'static str,
    /// The field in errors about the source.
    path: &'static str,
    /// The field in the error about a second source.
    second: &'static str,
    rule: Rule,
}

impl Source {
    pub(in super::super) const fn new(name: &'static str, rule: Rule) -> Self {
        Self::spelled(name, name, name, rule)
    }

    /// A source that upstream's errors call by other names.
    pub(in super::super) const fn spelled(
        name: &'static str,
        path: &'static str,
        second: &'static str,
        rule: Rule,
    ) -> Self {
        Self {
            name,
            path,
            second,
            rule,
        }
    }

    pub(in super::super) const fn required(
        name: &'static str,
        fields: &'static [&'static str],
    ) -> Self {
        Self::new(name, Rule::Required(fields))
    }

    pub(in super::super) const fn check(
        name: &'static str,
        check: fn(&Path<'_>, &Value, &mut Errors),
    ) -> Self {
        Self::new(name, Rule::Check(check))
    }

    /// Checks this source of `volume`. `is_second` tells that the volume has another source.
    pub(in super::super) fn apply(
        &self,
        path: &Path<'_>,
        source: &Value,
        is_second: bool,
        errors: &mut Errors,
    ) {
        if is_second {
            let path = path.child(self.second);
            return errors.forbidden(path, "may not specify more than 1 volume type");
        }
        let path = path.child(self.path);
        match &self.rule {
            Rule::Required(fields) => required(&path, source, fields, errors),
            Rule::Check(check) => check(&path, source, errors),
        }
    }
}

/// Requires texts.
pub(in super::super) fn required(
    path: &Path<'_>,
    source: &Value,
    fields: &[&str],
    errors: &mut Errors,
) {
    for field in fields {
        if text(source, field).is_empty() {
            errors.required(path.child(field), "");
        }
    }
}

/// Requires fields of a given secret reference.
pub(in super::super) fn secret_ref(
    path: &Path<'_>,
    source: &Value,
    fields: &[&str],
    errors: &mut Errors,
) {
    let reference = &source["secretRef"];
    if !reference.is_null() {
        required(&path.child("secretRef"), reference, fields, errors);
    }
}

pub(in super::super) fn host_path(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    let target = text(source, "path");
    if target.is_empty() {
        return errors.required(path.child("path"), "");
    }
    no_backsteps(&path.child("path"), target, errors);
    if let Some(kind) = source["type"].as_str() {
        errors.one_of(path.child("type"), kind, &HOST_PATH_TYPES);
    }
}

/// A disk with an optional partition.
fn disk(path: &Path<'_>, source: &Value, field: &str, errors: &mut Errors) {
    required(path, source, &[field], errors);
    let partition = number(source, "partition");
    if !(0..=255).contains(&partition) {
        errors.invalid(
            path.child("partition"),
            partition,
            "must be between 1 and 255, inclusive",
        );
    }
}

pub(in super::super) fn gce_disk(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    disk(path, source, "pdName", errors);
}

pub(in super::super) fn aws_disk(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    disk(path, source, "volumeID", errors);
}

pub(in super::super) fn nfs(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["server", "path"], errors);
    let target = text(source, "path");
    if !target.starts_with('/') {
        errors.invalid(path.child("path"), target, "must be an absolute path");
    }
}

/// Whether an iSCSI name has a known form. Other prefixes are the concern of the caller.
fn is_iscsi_name(name: &str) -> bool {
    static FORMS: LazyLock<[(&str, Regex); 3]> = LazyLock::new(|| {
        let form = |form| Regex::new(form).expect("the form is valid");
        [
            (
                "iqn",
                form(r"iqn\.\d{4}-\d{2}\.([[:alnum:].-]+)(:[^,;*&$|\s]+)$"),
            ),
            ("eui", form(r"^eui.[[:alnum:]]{16}$")),
            ("naa", form(r"^naa.[[:alnum:]]{32}$")),
        ]
    });
    FORMS
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .is_none_or(|(_, form)| form.is_match(name))
}

/// Checks a source of type iSCSI. `volume` is the name of a PersistentVolume with this source.
pub(in super::super) fn iscsi(
    path: &Path<'_>,
    source: &Value,
    volume: Option<&str>,
    errors: &mut Errors,
) {
    // The two functions of upstream differ in this text.
    let unknown = if volume.is_some() {
        "must be valid format"
    } else {
        "must be valid format starting with iqn, eui, or naa"
    };
    let name = |field: &str, name: &str, errors: &mut Errors| {
        if !["iqn", "eui", "naa"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            errors.invalid(path.child(field), name, unknown);
        } else if !is_iscsi_name(name) {
            errors.invalid(path.child(field), name, "must be valid format");
        }
    };
    let initiator = source["initiatorName"].as_str();
    let portal = text(source, "targetPortal");
    required(path, source, &["targetPortal"], errors);
    if let Some(volume) = volume
        && initiator.is_some()
        && is_long_portal(volume, portal)
    {
        errors.invalid(path.child("targetportal"), portal, LONG_PORTAL);
    }
    match text(source, "iqn") {
        "" => errors.required(path.child("iqn"), ""),
        iqn => name("iqn", iqn, errors),
    }
    let lun = number(source, "lun");
    if !(0..=255).contains(&lun) {
        errors.invalid(
            path.child("lun"),
            lun,
            "must be between 0 and 255, inclusive",
        );
    }
    let authenticates = is_true(source, "chapAuthDiscovery") || is_true(source, "chapAuthSession");
    if authenticates && source["secretRef"].is_null() {
        errors.required(path.child("secretRef"), "");
    }
    if volume.is_some() {
        secret_ref(path, source, &["name"], errors);
    }
    if let Some(initiator) = initiator {
        name("initiatorname", initiator, errors);
    }
}

pub(super) const LONG_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// Whether the name that the node gives to the session is too long.
pub(super) fn is_long_portal(volume: &str, portal: &str) -> bool {
    volume.len() + 1 + portal.len() > 64
}

pub(in super::super) fn flocker(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    let name = text(source, "datasetName");
    let uuid = text(source, "datasetUUID");
    if name.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(
            path,
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        );
    }
    if name.contains('/') {
        errors.invalid(path.child("datasetName"), name, "must not contain '/'");
    }
}

pub(in super::super) fn rbd(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    monitors(path, source, errors);
    required(path, source, &["image"], errors);
}

/// The hosts that a Ceph client asks first.
pub(in super::super) fn monitors(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    if list(source, "monitors").is_empty() {
        errors.required(path.child("monitors"), "");
    }
}

/// Whether a text has the form `host:port`, with an IPv6 host in brackets.
fn is_host_port(text: &str) -> bool {
    let Some((host, _)) = text.rsplit_once(':') else {
        return false;
    };
    let bare = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']'),
        None => (!host.contains(':')).then_some(host),
    };
    bare.is_some_and(|host| !host.contains(['[', ']']))
}

pub(in super::super) fn quobyte(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    let registry = text(source, "registry");
    if registry.is_empty() {
        errors.required(path.child("registry"), REGISTRY);
    } else if text(source, "tenant").len() >= 65 {
        errors.required(
            path.child("tenant"),
            "must be a UUID and may not exceed a length of 64 characters",
        );
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.invalid(path.child("registry"), registry, REGISTRY);
        }
    }
    required(path, source, &["volume"], errors);
}

pub(in super::super) fn fibre_channel(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    let targets = list(source, "targetWWNs");
    let ids = list(source, "wwids");
    if targets.is_empty() && ids.is_empty() {
        errors.required(
            path.child("targetWWNs"),
            "must specify either targetWWNs or wwids, but not both",
        );
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        errors.invalid(
            path.child("targetWWNs"),
            targets.to_vec(),
            "targetWWNs and wwids can not be specified simultaneously",
        );
    }
    match source["lun"].as_i64() {
        None => errors.required(
            path.child("lun"),
            "lun is required if targetWWNs is specified",
        ),
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.invalid(
                path.child("lun"),
                lun,
                "must be between 0 and 255, inclusive",
            );
        }
        Some(_) => {}
    }
}

pub(in super::super) fn flex(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["driver"], errors);
    let options = path.child("options");
    for key in source["options"]
        .as_object()
        .into_iter()
        .flat_map(|options| options.keys())
    {
        let domain = key
            .split_once('/')
            .map_or(key.as_str(), |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid(
                options.key(key),
                key.as_str(),
                "kubernetes.io and k8s.io namespaces are reserved",
            );
        }
    }
}

pub(in super::super) fn azure_disk(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    required(path, source, &["diskName", "diskURI"], errors);
    if let Some(mode) = source["cachingMode"].as_str() {
        errors.one_of(
            path.child("cachingMode"),
            mode,
            &["None", "ReadOnly", "ReadWrite"],
        );
    }
    let uri = text(source, "diskURI");
    if let Some(kind) = source["kind"].as_str() {
        errors.one_of(
            path.child("kind"),
            kind,
            &["Dedicated", "Managed", "Shared"],
        );
        let (start, example) = if kind == "Managed" {
            ("/subscriptions/", MANAGED)
        } else {
            ("https://", BLOB)
        };
        if !uri.starts_with(start) {
            errors.not_supported(path.child("diskURI"), uri, &[example]);
        }
    }
}

/// The name of a volume and its namespace at StorageOS.
pub(in super::super) fn storage_os(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    match text(source, "volumeName") {
        "" => errors.required(path.child("volumeName"), ""),
        name => errors.complaints(path.child("volumeName"), name, formats::label(name)),
    }
    let namespace = text(source, "volumeNamespace");
    if !namespace.is_empty() {
        let path = path.child("volumeNamespace");
        errors.complaints(path, namespace, formats::label(namespace));
    }
}

/// The name of a CSI driver. Upstream: `ValidateCSIDriverName`.
pub(in super::super) fn csi_driver(path: &Path<'_>, driver: &str, errors: &mut Errors) {
    if driver.is_empty() {
        return errors.required(path, "");
    }
    if driver.len() > 63 {
        errors.too_long(path, 63);
    }
    errors.complaints(path, driver, formats::subdomain(&driver.to_lowercase()));
}

/// Checks permissions of files.
pub(super) fn mode(path: &Path<'_>, mode: &Value, errors: &mut Errors) {
    if let Some(mode) = mode.as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(
            path,
            mode,
            "must be a number between 0 and 0777 (octal), both inclusive",
        );
    }
}

/// Checks the file that a key becomes.
pub(super) fn key_to_path(path: &Path<'_>, item: &Value, errors: &mut Errors) {
    required(path, item, &["key", "path"], errors);
    local_not_reserved(&path.child("path"), text(item, "path"), errors);
    mode(&path.child("mode"), &item["mode"], errors);
}
