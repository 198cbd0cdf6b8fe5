//! Programs of other projects, by the domains of their API groups, finalizers and taints. Such a program often does
//! not run, and then no condition and no Event tells it.

use steersman_values::resource::{DAEMON_SETS, DEPLOYMENTS, ResourceType, STATEFUL_SETS};

use crate::{Doc, Explanation, Known, World, workload};

/// A program that works on objects of its own kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The end of the domains that it uses.
    domain: &'static str,
    /// The name for people.
    pub name: &'static str,
    /// A part of the name or image of its workload; empty if several programs share the domain.
    workload: &'static str,
}

const fn program(domain: &'static str, name: &'static str, workload: &'static str) -> Program {
    Program {
        domain,
        name,
        workload,
    }
}

/// The program that initializes the nodes of a cloud.
const CLOUD: Program = program(
    "cloudprovider.kubernetes.io",
    "the cloud controller manager",
    "cloud-controller-manager",
);

/// The programs. One with a longer domain stands before one with its end.
const PROGRAMS: [Program; 53] = [
    CLOUD,
    program("trust.cert-manager.io", "trust-manager", "trust-manager"),
    program("cert-manager.io", "cert-manager", "cert-manager"),
    program(
        "source.toolkit.fluxcd.io",
        "source-controller of Flux",
        "source-controller",
    ),
    program(
        "kustomize.toolkit.fluxcd.io",
        "kustomize-controller of Flux",
        "kustomize-controller",
    ),
    program(
        "helm.toolkit.fluxcd.io",
        "helm-controller of Flux",
        "helm-controller",
    ),
    program(
        "notification.toolkit.fluxcd.io",
        "notification-controller of Flux",
        "notification-controller",
    ),
    program(
        "image.toolkit.fluxcd.io",
        "the image controllers of Flux",
        "",
    ),
    program("fluxcd.io", "Flux", ""),
    program(
        "argocd.argoproj.io",
        "Argo CD application controller",
        "argocd-application-controller",
    ),
    program("argoproj.io", "Argo CD", ""),
    program(
        "external-secrets.io",
        "External Secrets Operator",
        "external-secrets",
    ),
    program("bitnami.com", "Sealed Secrets", "sealed-secrets"),
    program("karpenter.sh", "Karpenter", "karpenter"),
    program("karpenter.k8s.aws", "Karpenter", "karpenter"),
    program("keda.sh", "KEDA", "keda-operator"),
    program("crossplane.io", "Crossplane", "crossplane"),
    program("upbound.io", "the provider of Crossplane", ""),
    program("cluster.x-k8s.io", "Cluster API", "capi-controller-manager"),
    program("cattle.io", "Rancher", "rancher"),
    program("longhorn.io", "Longhorn", "longhorn-manager"),
    program("ceph.rook.io", "Rook", "rook-ceph-operator"),
    program("kueue.x-k8s.io", "Kueue", "kueue-controller-manager"),
    program(
        "snapshot.storage.kubernetes.io",
        "snapshot-controller",
        "snapshot-controller",
    ),
    program(
        "snapshot.storage.k8s.io",
        "snapshot-controller",
        "snapshot-controller",
    ),
    program(
        "ingress.k8s.aws",
        "AWS Load Balancer Controller",
        "aws-load-balancer-controller",
    ),
    program(
        "service.k8s.aws",
        "AWS Load Balancer Controller",
        "aws-load-balancer-controller",
    ),
    program(
        "elbv2.k8s.aws",
        "AWS Load Balancer Controller",
        "aws-load-balancer-controller",
    ),
    program(
        "external-provisioner.volume.kubernetes.io",
        "CSI external-provisioner",
        "",
    ),
    program("external-attacher", "CSI external-attacher", ""),
    program(
        "monitoring.coreos.com",
        "Prometheus Operator",
        "prometheus-operator",
    ),
    program("postgresql.cnpg.io", "CloudNativePG", "cloudnative-pg"),
    program("acid.zalan.do", "Postgres Operator", "postgres-operator"),
    program("strimzi.io", "Strimzi", "strimzi-cluster-operator"),
    program(
        "serving.knative.dev",
        "Knative Serving",
        "knative.dev/serving",
    ),
    program("velero.io", "Velero", "velero"),
    program("kyverno.io", "Kyverno", "kyverno"),
    program("istio.io", "Istio", "istiod"),
    program("cilium.io", "Cilium", "cilium"),
    program("metallb.io", "MetalLB", "metallb"),
    program(
        "k8s.elastic.co",
        "Elastic Cloud on Kubernetes",
        "elastic-operator",
    ),
    program(
        "rabbitmq.com",
        "RabbitMQ Cluster Operator",
        "rabbitmq-cluster-operator",
    ),
    program("tekton.dev", "Tekton", "tekton-pipelines-controller"),
    program(
        "opentelemetry.io",
        "OpenTelemetry Operator",
        "opentelemetry-operator",
    ),
    program("traefik.io", "Traefik", "traefik"),
    program("projectcontour.io", "Contour", "contour"),
    program("minio.min.io", "MinIO Operator", "minio-operator"),
    program("gateway.envoyproxy.io", "Envoy Gateway", "envoy-gateway"),
    program("ray.io", "KubeRay", "kuberay-operator"),
    program("kubevirt.io", "KubeVirt", "virt-controller"),
    program("sparkoperator.k8s.io", "Spark Operator", "spark-operator"),
    program("ebs.csi.aws.com", "the EBS CSI driver", "ebs-csi-node"),
    program("efs.csi.aws.com", "the EFS CSI driver", "efs-csi-node"),
];

/// Programs of one API group, by the kinds of their objects.
const OF_KINDS: [(&str, &[&str], Program); 3] = [
    (
        "argoproj.io",
        &["Application", "ApplicationSet", "AppProject"],
        program(
            "argoproj.io",
            "Argo CD application controller",
            "argocd-application-controller",
        ),
    ),
    (
        "argoproj.io",
        &["Rollout", "AnalysisRun", "Experiment"],
        program("argoproj.io", "Argo Rollouts", "argo-rollouts"),
    ),
    (
        "argoproj.io",
        &["Workflow", "CronWorkflow", "WorkflowTemplate"],
        program("argoproj.io", "Argo Workflows", "workflow-controller"),
    ),
];

/// Words in the names of many programs.
const GENERAL: [&str; 7] = [
    "controller",
    "finalizer",
    "gateway",
    "ingress",
    "manager",
    "operator",
    "resource",
];

/// Field managers that are tools of people, by their start.
const TOOLS: [&str; 7] = [
    "kubectl",
    "before-first-apply",
    "curl",
    "k9s",
    "node-fetch",
    "python",
    "unknown",
];

/// Whether the field manager `name` is a tool of a person, and so tells of no program.
pub fn is_tool(name: &str) -> bool {
    TOOLS.iter().any(|tool| name.starts_with(tool))
}

impl Program {
    /// The program that uses `domain`, such as an API group or the start of a finalizer.
    pub fn of_domain(domain: &str) -> Option<Self> {
        let uses = |one: &&Self| {
            let rest = domain.strip_suffix(one.domain);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        PROGRAMS.iter().find(uses).copied()
    }

    /// The program that works on objects of type `of`.
    pub fn of_type(of: &ResourceType) -> Option<Self> {
        let kinds = OF_KINDS
            .iter()
            .find(|(group, kinds, _)| of.group == *group && kinds.contains(&&*of.kind));
        match kinds {
            Some((_, _, program)) => Some(*program),
            None => Self::of_domain(&of.group),
        }
    }

    /// Whether the workload of the program is known, so that [`Self::trouble`] finds it.
    pub fn has_workload(&self) -> bool {
        !self.workload.is_empty()
    }

    /// The reason why the program does not work, in words, and the answer about its workload. `None` if it runs, or if
    /// nothing is known.
    pub fn trouble(&self, world: &World) -> Option<(String, Option<Explanation>)> {
        if !self.has_workload() {
            return None;
        }
        let found = named(world, self.workload)?;
        if found.is_empty() {
            // Managed clusters run it outside of the cluster, and others as a static pod.
            if *self == CLOUD {
                return None;
            }
            let message = format!(
                "no Deployment, StatefulSet or DaemonSet in the cluster has {} in its name or image",
                self.workload
            );
            return Some((message, None));
        }
        trouble(world, &found)
    }
}

/// The reason why an unknown program that uses `domain` does not work, as [`Program::trouble`]. Its name is taken from
/// the first part of the domain, so its absence proves nothing.
pub fn trouble_of_domain(world: &World, domain: &str) -> Option<(String, Option<Explanation>)> {
    const LONG: usize = 4;
    const TITLES: [&str; 3] = ["controller", "manager", "operator"];
    let label = domain
        .split('.')
        .next()
        .filter(|label| label.len() >= LONG)?;
    let stem = label.strip_suffix('s').unwrap_or(label);
    if GENERAL.contains(&stem) {
        return None;
    }
    let mut found = workloads(world)?;
    found.retain(|(_, doc)| {
        let name = doc.name();
        name.contains(stem) && TITLES.iter().any(|title| name.contains(title))
    });
    let (message, about) = trouble(world, &found)?;
    Some((
        format!("{message}, and by its name it may be that program"),
        about,
    ))
}

/// The reason why the controller of a class does not work, such as `k8s.io/ingress-nginx`, as [`Program::trouble`]. Its
/// workload is sought by the end of the name, so its absence proves nothing.
pub fn named_trouble(world: &World, controller: &str) -> Option<(String, Option<Explanation>)> {
    const LONG: usize = 4;
    let name = controller.rsplit('/').next();
    let name = name.map(|name| name.strip_suffix("-controller").unwrap_or(name));
    let name = name.filter(|name| name.len() >= LONG && !GENERAL.contains(name))?;
    trouble(world, &named(world, name)?)
}

type Workload<'w> = (&'static ResourceType, &'w Doc);

/// The reason why none of `found` works. `None` if one does.
fn trouble(world: &World, found: &[Workload<'_>]) -> Option<(String, Option<Explanation>)> {
    let (of, first) = found.first()?;
    let first = first.subject(of).long();
    let is_off = |(_, doc): &Workload<'_>| {
        doc.at("/spec/replicas")
            .is_some_and(|replicas| *replicas == 0)
    };
    if found.iter().all(is_off) {
        return Some((format!("{first} has 0 replicas"), None));
    }
    let answers = found.iter().map(|(of, doc)| world.explain(of, doc));
    let answers: Vec<Explanation> = answers.collect();
    if !answers.iter().all(Explanation::is_stuck) {
        return None;
    }
    let about = answers.into_iter().next()?;
    Some((format!("{first} does not work"), Some(about)))
}

/// The workloads of the cluster without those that another object controls. `None` if the types are unread or may not
/// be read.
fn workloads(world: &World) -> Option<Vec<Workload<'_>>> {
    let kinds: [&'static ResourceType; 3] = [&DEPLOYMENTS, &STATEFUL_SETS, &DAEMON_SETS];
    // All lists are asked for at once.
    let lists = kinds.map(|of| Some((of, world.list(of, "")?)));
    let mut found = Vec::new();
    for list in lists {
        let (of, docs) = list?;
        let free = docs
            .iter()
            .filter(|doc| workload::controller(doc).is_none());
        found.extend(free.map(|doc| (of, doc)));
    }
    Some(found)
}

/// The workloads with `part` in their name, else those with it in an image.
fn named<'w>(world: &'w World, part: &str) -> Option<Vec<Workload<'w>>> {
    let all = workloads(world)?;
    let by_name = all.iter().filter(|(_, doc)| doc.name().contains(part));
    // A shorter name is that of the main program: the others have parts of it, such as a webhook.
    let shortest = by_name.clone().map(|(_, doc)| doc.name().len()).min();
    let Some(shortest) = shortest else {
        let by_image = all.iter().filter(|(_, doc)| has_image(doc, part));
        return Some(by_image.copied().collect());
    };
    let main = by_name.filter(|(_, doc)| doc.name().len() == shortest);
    Some(main.copied().collect())
}

fn has_image(doc: &Doc, part: &str) -> bool {
    let mut containers = doc.items("/spec/template/spec/containers").iter();
    containers.any(|container| {
        let image = container["image"].as_str().unwrap_or_default();
        image.contains(part)
    })
}

/// The object that a person edits to change `doc`: the first one above it that no other object controls. An owner that
/// may not be read ends the way.
pub fn origin(world: &World, of: &ResourceType, doc: &Doc) -> String {
    /// Owners above one object.
    const STEPS: usize = 5;
    let mut subject = doc.subject(of);
    let mut current = doc.clone();
    for _ in 0..STEPS {
        let Some(owner) = workload::controller(&current) else {
            break;
        };
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let group = text("apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        let Known::Yes(above) = world.resource(group, text("kind")) else {
            break;
        };
        let namespace = if above.namespaced {
            doc.namespace()
        } else {
            ""
        };
        let Known::Yes(next) = world.get(&above, namespace, text("name")) else {
            break;
        };
        subject = next.subject(&above);
        current = next;
    }
    subject.long()
}

/// Whether `value` is the text of a namespace or name.
pub fn is_name(value: &str) -> bool {
    let is_part =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    value.bytes().all(is_part) && is_end(value.bytes().next()) && is_end(value.bytes().last())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Code, Loaded, Need, Reason};

    #[test]
    fn programs_are_found_by_the_end_of_a_domain() {
        let cases = [
            ("acme.cert-manager.io", Some("cert-manager")),
            ("cert-manager.io", Some("cert-manager")),
            ("trust.cert-manager.io", Some("trust-manager")),
            ("finalizers.fluxcd.io", Some("Flux")),
            ("helm.toolkit.fluxcd.io", Some("helm-controller of Flux")),
            (
                "resources-finalizer.argocd.argoproj.io",
                Some("Argo CD application controller"),
            ),
            ("example.com", None),
            ("notkarpenter.sh", None),
        ];
        for (domain, name) in cases {
            let found = Program::of_domain(domain);
            assert_eq!(found.map(|program| program.name), name, "{domain}");
        }
        let of = ResourceType {
            group: "argoproj.io".into(),
            kind: "Rollout".into(),
            ..DEPLOYMENTS.clone()
        };
        assert_eq!(Program::of_type(&of).unwrap().name, "Argo Rollouts");
    }

    #[test]
    fn tools_of_people_are_no_programs() {
        assert!(is_tool("kubectl-patch") && is_tool("kubectl-client-side-apply"));
        assert!(!is_tool("cert-manager-orders") && !is_tool("kube-controller-manager"));
    }

    /// A stuck answer about workloads with the label `stuck`.
    fn any(_: &World, of: &ResourceType, doc: &Doc) -> Explanation {
        let mut answer = Explanation::new(doc.subject(of), "");
        if doc.label("stuck").is_some() {
            answer.add(Reason::new(Code::PodFailed, "", "it fails"));
        }
        answer
    }

    fn world(deployments: Option<Vec<Value>>) -> World {
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, any);
        for of in [&DEPLOYMENTS, &STATEFUL_SETS, &DAEMON_SETS] {
            let all = Need::List {
                of: of.clone(),
                namespace: String::new(),
                fields: String::new(),
            };
            let docs = if of == &DEPLOYMENTS {
                deployments.clone()
            } else {
                Some(Vec::new())
            };
            let outcome = docs.map(|docs| docs.into_iter().map(Doc::new).collect());
            world.load(all, outcome.map_or(Loaded::Denied, Loaded::Objects));
        }
        world
    }

    #[test]
    fn a_program_works_if_one_of_its_workloads_does() {
        let deployment = |name: &str, image: &str, label: &str, replicas: i32| {
            json!({
                "metadata": {"namespace": "ops", "name": name, "labels": {label: ""}},
                "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}},
            })
        };
        let told = |deployments: Option<Vec<Value>>| {
            let program = Program::of_domain("cert-manager.io").unwrap();
            program
                .trouble(&world(deployments))
                .map(|(message, _)| message)
        };
        let webhook = deployment(
            "cert-manager-webhook",
            "x/cert-manager-webhook:1",
            "fine",
            1,
        );
        let stuck = deployment("cert-manager", "x/controller:1", "stuck", 1);
        assert!(told(Some(Vec::new())).unwrap().starts_with("no Deployment"));
        assert_eq!(
            told(Some(vec![webhook.clone(), stuck])).unwrap(),
            "deployment ops/cert-manager does not work"
        );
        let off = deployment("cert-manager", "x/controller:1", "fine", 0);
        assert_eq!(
            told(Some(vec![webhook.clone(), off])).unwrap(),
            "deployment ops/cert-manager has 0 replicas"
        );
        let by_image = deployment("controller", "x/cert-manager-controller:1", "fine", 1);
        assert_eq!(told(Some(vec![by_image])), None);
        // Workloads that the caller may not read prove nothing.
        assert_eq!(told(None), None);
    }

    #[test]
    fn an_unknown_program_is_found_by_the_start_of_its_domain() {
        let deployment = |name: &str, replicas: i32| json!({"metadata": {"namespace": "ops", "name": name}, "spec": {"replicas": replicas}});
        let told = |name: &str, replicas: i32| {
            let world = world(Some(vec![deployment(name, replicas)]));
            trouble_of_domain(&world, "databases.acme.io").map(|(message, _)| message)
        };
        assert!(
            told("database-operator", 0)
                .unwrap()
                .contains("ops/database-operator has 0 replicas")
        );
        assert_eq!(told("database-operator", 1), None);
        assert_eq!(told("database", 0), None);
        assert_eq!(told("acme-operator", 0), None);
        // The words are in the names of many programs.
        let world = world(Some(vec![deployment("other-operator", 0)]));
        assert_eq!(trouble_of_domain(&world, "operator.acme.io"), None);
        assert_eq!(named_trouble(&world, "acme.io/operator-controller"), None);
    }

    #[test]
    fn the_absence_of_a_cloud_controller_manager_is_no_trouble() {
        let world = world(Some(Vec::new()));
        assert_eq!(CLOUD.trouble(&world), None);
        assert!(
            Program::of_domain("cert-manager.io")
                .unwrap()
                .trouble(&world)
                .is_some()
        );
    }

    #[test]
    fn names_are_told_from_other_words() {
        for name in ["web", "web-1", "charts.acme.io", "0"] {
            assert!(is_name(name), "{name}");
        }
        for word in ["", "-web", "Web", "401/2", "a_b", "end."] {
            assert!(!is_name(word), "{word}");
        }
    }
}
