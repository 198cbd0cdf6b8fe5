//! Typical documents of the kinds that clusters have many of, as API servers write them.
//!
//! Compression refers to equal parts of the typical document, so a document takes a third of the
//! memory that it would take alone. Names, numbers and times in the texts mean nothing.

/// The file, and the pod template of all workloads.
macro_rules! with_template {
    ($file:literal) => {
        concat!(
            include_str!("typical/pod-template.json"),
            include_str!($file)
        )
    };
}

/// The kinds of views, and their typical documents. Documents hold the position of their kind here.
/// The first entry is for all other kinds.
const TEXTS: [(&str, &str); 17] = [
    ("", ""),
    (
        "ControllerRevision",
        include_str!("typical/controller-revision.json"),
    ),
    ("CronJob", with_template!("typical/cron-job.json")),
    ("DaemonSet", with_template!("typical/daemon-set.json")),
    ("Deployment", with_template!("typical/deployment.json")),
    ("EndpointSlice", include_str!("typical/endpoint-slice.json")),
    ("Endpoints", include_str!("typical/endpoints.json")),
    (
        "HorizontalPodAutoscaler",
        include_str!("typical/horizontal-pod-autoscaler.json"),
    ),
    ("Job", with_template!("typical/job.json")),
    (
        "PersistentVolume",
        include_str!("typical/persistent-volume.json"),
    ),
    (
        "PersistentVolumeClaim",
        include_str!("typical/persistent-volume-claim.json"),
    ),
    (
        "PodDisruptionBudget",
        include_str!("typical/pod-disruption-budget.json"),
    ),
    ("ReplicaSet", with_template!("typical/replica-set.json")),
    (
        "ReplicationController",
        with_template!("typical/replica-set.json"),
    ),
    ("ResourceQuota", include_str!("typical/resource-quota.json")),
    (
        "RootCaConfigMap",
        include_str!("typical/root-ca-config-map.json"),
    ),
    ("StatefulSet", with_template!("typical/stateful-set.json")),
];

/// The position of `kind` in [`TEXTS`].
pub(super) fn position(kind: &str) -> u8 {
    let found = TEXTS.iter().position(|(typical, _)| *typical == kind);
    found.and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}

/// The typical document of the kind with this position.
pub(super) fn text(position: u8) -> &'static [u8] {
    TEXTS[usize::from(position)].1.as_bytes()
}
