//! Fuzz targets for all code that reads foreign bytes. Such code must not panic, run long, or take
//! much memory.
//!
//! bytes -> parts between zero bytes -> the code under test -> assertions on its result
//!
//! Each function is a target of `scripts/fuzz.sh`. `seeds/` has examples, and the inputs that once
//! broke a target; every `cargo test` runs them.

pub mod requests;

use bytes::Bytes;
use serde_json::{Value, json};
use steersman::{command_line, fuzzing as fuzzing_of_manager};
use steersman_apiserver::registry::Registry;
use steersman_apiserver::selectors::{LabelSelector, Selection};
use steersman_apiserver::{go_format, patch, validate};
use steersman_controllers::{cronjob, deployment};
use steersman_devcluster::Release;
use steersman_objects::template::{self, PodTemplate};
use steersman_objects::{
    BootstrapToken, CertificateSigningRequest, ClusterInfo, ClusterRole, ClusterTrustBundle,
    CronJob, Deployment, Job, Namespace, Node, Object, ObjectMetadata, Pod, PodCertificateRequest,
    ReplicaSet, ReplicationController, RootCaConfigMap, ServiceAccount, TokenSecret,
};
use steersman_options::duration::GoDuration;
use steersman_pki::keys::PrivateKey;
use steersman_pki::x509::{self, Certificate, CertificateRequest};
use steersman_values::gotime;
use steersman_values::labels::{Labels, Selector, WireSelector};

/// A fuzz target: takes any bytes, and panics when an assertion fails.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("wire", wire),
    ("patches", patches),
    ("selectors", selectors),
    ("values", values),
    ("flags", flags),
    ("template", template),
    ("certificates", certificates),
    ("chains", chains),
    ("signing_requests", signing_requests),
    ("requests", requests::requests),
];

fn parts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == 0)
}

fn texts(data: &[u8]) -> impl Iterator<Item = &str> {
    parts(data).filter_map(|part| std::str::from_utf8(part).ok())
}

fn documents(data: &[u8]) -> impl Iterator<Item = Value> {
    parts(data).filter_map(|part| serde_json::from_slice(part).ok())
}

/// Input of informers: watch events, lists, objects and discovery. Also the code that cuts a stream
/// into lines.
pub fn wire(data: &[u8]) {
    fn read<T: Object>(data: &[u8]) {
        steersman_runtime::fuzzing::watch_event::<T>(data);
        steersman_runtime::fuzzing::list::<T>(data);
        if let Ok(object) = T::decode(data) {
            let _ = (object.key().to_string(), object.heap_size());
        }
    }
    for read in [
        read::<BootstrapToken>,
        read::<CertificateSigningRequest>,
        read::<ClusterInfo>,
        read::<ClusterRole>,
        read::<ClusterTrustBundle>,
        read::<CronJob>,
        read::<Deployment>,
        read::<Job>,
        read::<PodCertificateRequest>,
        read::<Namespace>,
        read::<Node>,
        read::<ObjectMetadata>,
        read::<Pod>,
        read::<ReplicaSet>,
        read::<ReplicationController>,
        read::<RootCaConfigMap>,
        read::<ServiceAccount>,
        read::<TokenSecret>,
    ] {
        read(data);
    }
    steersman_client::fuzzing::discovery(data);

    // The lines are independent of the chunks in which the stream arrives.
    let whole = steersman_client::fuzzing::lines([Bytes::copy_from_slice(data)]);
    let middle = data
        .first()
        .map_or(0, |byte| usize::from(*byte) % (data.len() + 1));
    let (head, tail) = data.split_at(middle);
    assert_eq!(
        steersman_client::fuzzing::lines([head, tail].map(Bytes::copy_from_slice)),
        whole
    );
    assert_eq!(
        steersman_client::fuzzing::lines(data.iter().map(|byte| Bytes::copy_from_slice(&[*byte]))),
        whole
    );
}

/// The patch engines. The first part is an object, the second a patch.
pub fn patches(data: &[u8]) {
    let mut documents = documents(data);
    let Some(object) = documents.next() else {
        return;
    };
    let Some(change) = documents.next() else {
        return;
    };
    if patch::check_object(&change).is_ok() {
        let mut once = object.clone();
        patch::merge(&mut once, &change);
        let mut twice = once.clone();
        patch::merge(&mut twice, &change);
        assert_eq!(once, twice, "a merge patch is idempotent");
        for kind in ["Pod", "Deployment", "Service", "ConfigMap"] {
            let _ = patch::strategic(kind, &mut object.clone(), &change);
        }
    }
    let _ = patch::json(&mut object.clone(), &change);
    let _ = go_format::printed(&change);
}

/// Label and field selectors of requests, and label selectors in objects.
pub fn selectors(data: &[u8]) {
    let mut texts = texts(data);
    let labels = texts.next().unwrap_or_default();
    let fields = texts.next().unwrap_or_default();
    if let Ok(selector) = LabelSelector::parse(labels) {
        assert!(
            !selector.is_everything() || selector.matches(|_| None),
            "the selector of everything matches objects without labels"
        );
        let _ = selector.matches(|_| Some("web"));
    }
    let pods = Registry::built_in()
        .find("", "v1", "pods")
        .expect("pods are served");
    let _ = Selection::parse(&pods.resource, labels, fields);

    if let Ok(wire) = serde_json::from_str::<WireSelector>(labels)
        && let Ok(selector) = Selector::parse(Some(&wire))
    {
        let none = Labels::new([]);
        assert!(!selector.is_everything() || selector.matches(&none));
        assert!(!selector.is_nothing() || !selector.matches(&none));
    }
}

/// Values in text form: durations, quantities, numbers or percentages.
pub fn values(data: &[u8]) {
    for text in texts(data).take(4) {
        if let Some(time) = gotime::parse_rfc3339(text) {
            let printed = time.to_string();
            let is_year_of_go = !printed.starts_with('-');
            assert!(
                !is_year_of_go || gotime::parse_rfc3339(&printed) == Some(time),
                "{text:?}"
            );
        }
        if let Ok(duration) = text.parse::<GoDuration>() {
            assert_eq!(duration.to_string().parse(), Ok(duration), "{text:?}");
        }
        // The search for the most recent run ends only because each run is later than the one before.
        const NOW: i64 = 1_700_000_000;
        if let Some(run) = cronjob::first_run(text, NOW) {
            assert!(run > NOW, "{text:?}");
        }

        let resources = json!({"limits": {"cpu": text}, "requests": {"memory": text}});
        template_of(&json!({"spec": {"containers": [{"name": "main", "resources": resources}]}}));

        let limit: Value = serde_json::from_str(text)
            .ok()
            .filter(Value::is_number)
            .unwrap_or_else(|| Value::from(text));
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 7, "strategy": {"rollingUpdate": {"maxSurge": limit, "maxUnavailable": limit}}},
        });
        let _ = validate::create(Release::DEFAULT, "Deployment", &web);
        if let Ok(web) = Deployment::decode(web.to_string().as_bytes()) {
            let _ = deployment::limits_of(&web);
        }
    }
}

/// The command line, one argument per part.
pub fn flags(data: &[u8]) {
    let arguments = texts(data).take(32).map(str::to_owned);
    if let Err(error) = command_line::parse(arguments, |warning| assert!(!warning.is_empty())) {
        assert!(!error.to_string().is_empty());
    }
}

/// Pod templates: their hash in names of ReplicaSets, and the comparison of templates.
pub fn template(data: &[u8]) {
    documents(data)
        .take(2)
        .for_each(|template| template_of(&template));
}

fn template_of(value: &Value) {
    assert_eq!(template::hash(value, None), template::hash(value, None));
    let _ = template::hash(value, Some(1));
    assert!(PodTemplate::new(value).equal_ignoring_hash(&PodTemplate::new(value)));
}

/// Certificates of clients, before their signature is checked.
pub fn certificates(data: &[u8]) {
    if let Ok(Certificate {
        not_before,
        not_after,
        ..
    }) = Certificate::read(data)
    {
        // The years 0 to 9999, the range of X.509 times.
        let years = -62_167_219_200..=253_402_300_799;
        assert!(years.contains(&not_before) && years.contains(&not_after));
    }
}

/// Certificate chains of clients, each certificate after its length in two bytes. The last one stands
/// for the authority too, so that the search for a path reaches signatures.
pub fn chains(data: &[u8]) {
    const NOW: i64 = 1_790_000_000;
    let mut rest = data;
    let mut chain = Vec::new();
    while let Some(([high, low], tail)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (certificate, tail) = tail.split_at(length);
        chain.push(certificate.to_vec());
        rest = tail;
    }
    let authority = chain.last().cloned().unwrap_or_default();
    let pem = pem::encode(&pem::Pem::new("CERTIFICATE", authority));
    if let Ok(Some(_)) = fuzzing_of_manager::client_chain(&chain, pem.as_bytes(), NOW) {
        let bytes: usize = chain.iter().map(Vec::len).sum();
        assert!(chain.len() <= 10 && bytes <= 16 * 1024);
    }
}

/// Requests for certificates and their signatures, as DER and as PEM. Also files that should hold
/// private keys.
pub fn signing_requests(data: &[u8]) {
    let requests = [
        CertificateRequest::from_der(data),
        CertificateRequest::from_pem(data),
    ];
    for request in requests.into_iter().flatten() {
        let _ = (request.subject.common_name(), request.check_signature());
    }
    let _ = PrivateKey::from_pem(data);
    // Both files of an authority; a text may hold its certificate and its key.
    if let Ok((certificate, key)) = x509::key_pair(data, data) {
        assert_eq!(certificate.public_key, key.public_key());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    #[test]
    fn every_target_accepts_its_seeds_whole_and_cut_short() -> std::io::Result<()> {
        for (name, target) in TARGETS {
            let seeds = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("seeds")
                .join(name);
            let mut read = 0;
            for seed in fs::read_dir(seeds)? {
                let data = fs::read(seed?.path())?;
                target(&data);
                // Prefixes, as after a broken connection.
                (0..data.len().min(200)).for_each(|end| target(&data[..end]));
                read += 1;
            }
            assert!(read > 0, "no seed for {name}");
        }
        Ok(())
    }
}
