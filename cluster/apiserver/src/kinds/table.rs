//! The rows of built-in resources. Verbs and names equal the discovery of 1.36, or of the first release that serves
//! the resource. Older releases lack some of the rows.

use std::borrow::Cow;

use steersman_releases::Release;

use super::field_selectors::{EVENT_FIELDS, POD_FIELDS, field};
use super::{DeleteAnswer, Generation, Resource, SelectableField, Storage, Subresource, convert};

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const NO_COLLECTION: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];
const CREATE: &[&str] = &["create"];
const READ: &[&str] = &["get", "list"];
const READ_WRITE: &[&str] = &["get", "patch", "update"];

const fn sub(
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        kind,
        group_version: None,
        verbs,
    }
}

const SCALE: Subresource = Subresource {
    name: "scale",
    kind: "Scale",
    group_version: Some(("autoscaling", "v1")),
    verbs: READ_WRITE,
};

macro_rules! status_of {
    ($kind:literal) => {
        const { &[sub("status", $kind, READ_WRITE)] }
    };
    ($kind:literal, scale) => {
        const { &[SCALE, sub("status", $kind, READ_WRITE)] }
    };
}

const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const POD_PARTS: &[Subresource] = &[
    sub("attach", "PodAttachOptions", CONNECT),
    sub("binding", "Binding", CREATE),
    sub("ephemeralcontainers", "Pod", READ_WRITE),
    Subresource {
        name: "eviction",
        kind: "Eviction",
        group_version: Some(("policy", "v1")),
        verbs: CREATE,
    },
    sub("exec", "PodExecOptions", CONNECT),
    sub("log", "Pod", &["get"]),
    sub("portforward", "PodPortForwardOptions", CONNECT),
    sub("proxy", "PodProxyOptions", PROXY),
    sub("resize", "Pod", READ_WRITE),
    sub("status", "Pod", READ_WRITE),
];

const ACCOUNT_PARTS: &[Subresource] = &[Subresource {
    name: "token",
    kind: "TokenRequest",
    group_version: Some(("authentication.k8s.io", "v1")),
    verbs: CREATE,
}];

const NODE_PARTS: &[Subresource] = &[
    sub("proxy", "NodeProxyOptions", PROXY),
    sub("status", "Node", READ_WRITE),
];

const SERVICE_PARTS: &[Subresource] = &[
    sub("proxy", "ServiceProxyOptions", PROXY),
    sub("status", "Service", READ_WRITE),
];

const REQUEST_PARTS: &[Subresource] = &[
    sub("approval", "CertificateSigningRequest", READ_WRITE),
    sub("status", "CertificateSigningRequest", READ_WRITE),
];

const NAMESPACE_PARTS: &[Subresource] = &[
    sub("finalize", "Namespace", &["update"]),
    sub("status", "Namespace", READ_WRITE),
];

/// A row with the usual columns: all verbs, no subresources or generation, and a `Status` as answer
/// of deletion.
fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Resource {
    Resource {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: ALL,
        subresources: &[],
        generation: Generation::Unmanaged,
        fields: Cow::Borrowed(&[]),
        own_field_labels: false,
        delete_answer: DeleteAnswer::Status,
        create_on_update: false,
        unconditional_update: true,
        orphans_by_default: false,
        garbage_collected: true,
        storage: Storage::Own,
        custom: None,
        release: Release::DEFAULT,
    }
}

impl Resource {
    fn short(mut self, names: &[&'static str]) -> Self {
        self.short_names = names.iter().copied().map(Cow::from).collect();
        self
    }

    fn in_all(mut self) -> Self {
        self.categories = vec!["all".into()];
        self
    }

    fn in_category(mut self, category: &'static str) -> Self {
        self.categories = vec![category.into()];
        self
    }

    fn parts(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    fn generation(mut self, rule: Generation) -> Self {
        self.generation = rule;
        self
    }

    fn fields(mut self, fields: &'static [SelectableField]) -> Self {
        self.fields = Cow::Borrowed(fields);
        self.own_field_labels = true;
        self
    }

    /// `DELETE` answers with the object instead of a `Status`.
    fn answers_object(mut self) -> Self {
        self.delete_answer = DeleteAnswer::Object;
        self
    }

    fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    /// Updates must carry a resourceVersion.
    fn needs_version(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    fn orphans_by_default(mut self) -> Self {
        self.orphans_by_default = true;
        self
    }

    /// Deletion adds no finalizers of the garbage collector.
    fn not_collected(mut self) -> Self {
        self.garbage_collected = false;
        self
    }
}

/// Groups in the order of upstream's discovery. Clients resolve an ambiguous kind name to the first
/// group.
const GROUPS: [&str; 22] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

/// The built-in resources that `release` serves, with groups in the order of discovery.
pub(crate) fn rows(release: Release) -> Vec<Resource> {
    let mut rows = core();
    rows.extend(workloads());
    rows.extend(policies());
    rows.extend(storage_admission_and_others());
    rows.extend(devices_and_fairness());
    rows.retain(|row| release.serves(&row.group, &row.plural));
    for row in &mut rows {
        row.release = release;
        if row.is("HorizontalPodAutoscaler") && release.enables("HPAGeneration") {
            row.generation = Generation::Spec;
        }
    }
    rows.sort_by_key(|row| GROUPS.iter().position(|group| *group == row.group));
    rows
}

/// The rows of the metrics APIs, which a cluster has through the aggregation layer. Custom and
/// external metrics have paths of their own; their rows make the groups known.
pub(crate) fn metrics() -> [Resource; 4] {
    let read = |group, version, kind, plural, namespaced, verbs| Resource {
        verbs,
        ..row(group, version, kind, plural, namespaced)
    };
    let metrics = "metrics.k8s.io";
    let custom = "custom.metrics.k8s.io";
    let external = "external.metrics.k8s.io";
    [
        read(metrics, "v1beta1", "NodeMetrics", "nodes", false, READ),
        read(metrics, "v1beta1", "PodMetrics", "pods", true, READ),
        read(
            custom,
            "v1beta2",
            "MetricValueList",
            "metrics",
            true,
            &["get"],
        ),
        read(
            external,
            "v1beta1",
            "ExternalMetricValueList",
            "externalmetrics",
            true,
            &["get"],
        ),
    ]
}

fn core() -> Vec<Resource> {
    use Generation::{Content, Spec};
    let core = |kind, plural| row("", "v1", kind, plural, true);
    let cluster = |kind, plural| row("", "v1", kind, plural, false);
    let mut namespaces = cluster("Namespace", "namespaces");
    namespaces.verbs = NO_COLLECTION;
    let mut bindings = core("Binding", "bindings");
    bindings.verbs = CREATE;
    vec![
        bindings,
        Resource {
            verbs: READ,
            ..cluster("ComponentStatus", "componentstatuses")
        }
        .short(&["cs"]),
        core("ConfigMap", "configmaps").short(&["cm"]),
        Resource {
            singular: "endpoints".into(),
            ..core("Endpoints", "endpoints")
        }
        .short(&["ep"])
        .create_on_update(),
        core("Event", "events")
            .short(&["ev"])
            .fields(EVENT_FIELDS)
            .create_on_update()
            .not_collected(),
        core("LimitRange", "limitranges")
            .short(&["limits"])
            .create_on_update(),
        namespaces
            .short(&["ns"])
            .parts(NAMESPACE_PARTS)
            .fields(const { &[field("status.phase", "/status/phase", "")] })
            .answers_object(),
        cluster("Node", "nodes")
            .short(&["no"])
            .parts(NODE_PARTS)
            .fields(const { &[field("spec.unschedulable", "/spec/unschedulable", "false")] }),
        core("PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"])
            .parts(status_of!("PersistentVolumeClaim"))
            .answers_object(),
        cluster("PersistentVolume", "persistentvolumes")
            .short(&["pv"])
            .parts(status_of!("PersistentVolume"))
            .answers_object(),
        core("Pod", "pods")
            .short(&["po"])
            .in_all()
            .parts(POD_PARTS)
            .generation(Spec)
            .fields(POD_FIELDS)
            .answers_object(),
        core("PodTemplate", "podtemplates")
            .generation(Content)
            .answers_object(),
        core("ReplicationController", "replicationcontrollers")
            .short(&["rc"])
            .in_all()
            .parts(status_of!("ReplicationController", scale))
            .generation(Spec)
            .fields(const { &[field("status.replicas", "/status/replicas", "0")] })
            .orphans_by_default(),
        core("ResourceQuota", "resourcequotas")
            .short(&["quota"])
            .parts(status_of!("ResourceQuota"))
            .answers_object(),
        core("Secret", "secrets").fields(const { &[field("type", "/type", "")] }),
        core("ServiceAccount", "serviceaccounts")
            .short(&["sa"])
            .parts(ACCOUNT_PARTS)
            .answers_object(),
        core("Service", "services")
            .short(&["svc"])
            .in_all()
            .parts(SERVICE_PARTS)
            .fields(
                const {
                    &[
                        field("spec.clusterIP", "/spec/clusterIP", ""),
                        field("spec.type", "/spec/type", ""),
                    ]
                },
            )
            .answers_object()
            .create_on_update(),
    ]
}

fn workloads() -> Vec<Resource> {
    use Generation::{Spec, SpecAndAnnotations};
    let apps = |kind, plural| row("apps", "v1", kind, plural, true);
    let batch = |kind, plural| {
        row("batch", "v1", kind, plural, true)
            .in_all()
            .generation(Spec)
    };
    let mut event_view = row("events.k8s.io", "v1", "Event", "events", true)
        .short(&["ev"])
        .fields(EVENT_FIELDS);
    event_view.storage = Storage::Converted(&convert::EVENTS);
    vec![
        apps("ControllerRevision", "controllerrevisions"),
        apps("DaemonSet", "daemonsets")
            .short(&["ds"])
            .in_all()
            .parts(status_of!("DaemonSet"))
            .generation(Spec),
        apps("Deployment", "deployments")
            .short(&["deploy"])
            .in_all()
            .parts(status_of!("Deployment", scale))
            .generation(SpecAndAnnotations),
        apps("ReplicaSet", "replicasets")
            .short(&["rs"])
            .in_all()
            .parts(status_of!("ReplicaSet", scale))
            .generation(Spec),
        apps("StatefulSet", "statefulsets")
            .short(&["sts"])
            .in_all()
            .parts(status_of!("StatefulSet", scale))
            .generation(Spec),
        event_view.create_on_update().not_collected(),
        batch("CronJob", "cronjobs")
            .short(&["cj"])
            .parts(status_of!("CronJob")),
        batch("Job", "jobs")
            .parts(status_of!("Job"))
            .fields(const { &[field("status.successful", "/status/succeeded", "0")] })
            .orphans_by_default(),
    ]
}

fn policies() -> Vec<Resource> {
    use Generation::Spec;
    let rbac = |kind, plural, namespaced| {
        row("rbac.authorization.k8s.io", "v1", kind, plural, namespaced).create_on_update()
    };
    let review = |group, kind, plural, namespaced| Resource {
        verbs: CREATE,
        ..row(group, "v1", kind, plural, namespaced)
    };
    let autoscaler = |version| {
        row(
            "autoscaling",
            version,
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            true,
        )
        .short(&["hpa"])
        .in_all()
        .parts(status_of!("HorizontalPodAutoscaler"))
    };
    vec![
        review(
            "authentication.k8s.io",
            "SelfSubjectReview",
            "selfsubjectreviews",
            false,
        ),
        review(
            "authentication.k8s.io",
            "TokenReview",
            "tokenreviews",
            false,
        ),
        review(
            "authorization.k8s.io",
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
            true,
        ),
        review(
            "authorization.k8s.io",
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            false,
        ),
        review(
            "authorization.k8s.io",
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            false,
        ),
        review(
            "authorization.k8s.io",
            "SubjectAccessReview",
            "subjectaccessreviews",
            false,
        ),
        autoscaler("v2"),
        Resource {
            storage: Storage::Converted(&convert::AUTOSCALERS),
            ..autoscaler("v1")
        },
        row(
            "certificates.k8s.io",
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            false,
        )
        .short(&["csr"])
        .parts(REQUEST_PARTS)
        .fields(const { &[field("spec.signerName", "/spec/signerName", "")] }),
        row("networking.k8s.io", "v1", "IPAddress", "ipaddresses", false).short(&["ip"]),
        row(
            "networking.k8s.io",
            "v1",
            "ServiceCIDR",
            "servicecidrs",
            false,
        )
        .parts(status_of!("ServiceCIDR")),
        row(
            "networking.k8s.io",
            "v1",
            "IngressClass",
            "ingressclasses",
            false,
        )
        .generation(Spec),
        row("networking.k8s.io", "v1", "Ingress", "ingresses", true)
            .short(&["ing"])
            .parts(status_of!("Ingress"))
            .generation(Spec),
        row(
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
            true,
        )
        .short(&["netpol"])
        .generation(Spec),
        row(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            true,
        )
        .short(&["pdb"])
        .parts(status_of!("PodDisruptionBudget"))
        .generation(Spec)
        .needs_version(),
        rbac("ClusterRoleBinding", "clusterrolebindings", false),
        rbac("ClusterRole", "clusterroles", false),
        rbac("RoleBinding", "rolebindings", true),
        rbac("Role", "roles", true),
    ]
}

fn storage_admission_and_others() -> Vec<Resource> {
    use Generation::{Content, One, Spec, SpecFromNone};
    let storage = |kind, plural| row("storage.k8s.io", "v1", kind, plural, false).answers_object();
    let admission = |kind, plural| {
        row("admissionregistration.k8s.io", "v1", kind, plural, false)
            .in_category("api-extensions")
            .needs_version()
    };
    vec![
        storage("CSIDriver", "csidrivers").generation(SpecFromNone),
        storage("CSINode", "csinodes").needs_version(),
        row(
            "storage.k8s.io",
            "v1",
            "CSIStorageCapacity",
            "csistoragecapacities",
            true,
        )
        .needs_version(),
        storage("StorageClass", "storageclasses").short(&["sc"]),
        storage("VolumeAttributesClass", "volumeattributesclasses").short(&["vac"]),
        storage("VolumeAttachment", "volumeattachments")
            .parts(status_of!("VolumeAttachment"))
            .needs_version(),
        admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies").generation(Spec),
        admission(
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
        )
        .generation(Spec),
        admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            .parts(status_of!("ValidatingAdmissionPolicy"))
            .generation(Spec),
        admission(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        )
        .generation(Spec),
        admission(
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
        )
        .generation(Content),
        admission(
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        )
        .generation(Content),
        row(
            "apiregistration.k8s.io",
            "v1",
            "APIService",
            "apiservices",
            false,
        )
        .in_category("api-extensions")
        .parts(status_of!("APIService")),
        row(
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
            false,
        )
        .short(&["pc"])
        .generation(One),
        row("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false)
            .create_on_update()
            .needs_version(),
        row("coordination.k8s.io", "v1", "Lease", "leases", true)
            .create_on_update()
            .needs_version(),
        row(
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
            true,
        )
        .generation(Content),
        row(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        )
        .short(&["crd", "crds"])
        .in_category("api-extensions")
        .parts(status_of!("CustomResourceDefinition"))
        .generation(Spec)
        .needs_version(),
    ]
}

fn devices_and_fairness() -> Vec<Resource> {
    use Generation::Spec;
    let device = |kind, plural, namespaced| {
        row("resource.k8s.io", "v1", kind, plural, namespaced).answers_object()
    };
    let fairness = |kind, plural| {
        row("flowcontrol.apiserver.k8s.io", "v1", kind, plural, false).generation(Spec)
    };
    vec![
        device("DeviceClass", "deviceclasses", false).generation(Spec),
        device("ResourceClaim", "resourceclaims", true).parts(status_of!("ResourceClaim")),
        device("ResourceClaimTemplate", "resourceclaimtemplates", true),
        device("ResourceSlice", "resourceslices", false)
            .generation(Spec)
            .fields(
                const {
                    &[
                        field("spec.nodeName", "/spec/nodeName", ""),
                        field("spec.driver", "/spec/driver", ""),
                    ]
                },
            ),
        fairness("FlowSchema", "flowschemas").parts(status_of!("FlowSchema")),
        fairness("PriorityLevelConfiguration", "prioritylevelconfigurations")
            .parts(status_of!("PriorityLevelConfiguration")),
        row(
            "storagemigration.k8s.io",
            "v1",
            "StorageVersionMigration",
            "storageversionmigrations",
            false,
        )
        .parts(status_of!("StorageVersionMigration"))
        .needs_version(),
    ]
}
