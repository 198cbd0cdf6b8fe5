//! The RBAC rules of the descriptors: neither too few nor too many.
//!
//! - A story with a refused request fails: [`World`] gives each identity exactly its rules, and
//!   panics at its end.
//! - A rule that upstream's role of the identity lacks fails. With
//!   `--use-service-account-credentials` the API server would refuse its requests.
//! - A rule that no request of any story needs fails. `scripts/test.sh` sets `STEERSMAN_RIGHTS` to a
//!   folder, where each story records the rights of its requests. Then it runs the check.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use steersman_devcluster::DevCluster;
use steersman_devcluster::requests::RequestRecord;
use steersman_runtime::controller::{Descriptor, INFORMERS, MANAGERS_IDENTITIES};
use steersman_values::clock::Clock;

use super::world::begin;

/// A verb on a resource of a group.
type Right = (String, String, String);

/// Rights that are needed without a request of a story: identity or `*`, verb, resource, and the
/// reason.
const WITHOUT_REQUEST: &[(&str, &str, &str, &str)] = &[
    (
        "certificate-controller",
        "approve",
        "signers",
        "the admission plugin CertificateApproval asks for it at each approval",
    ),
    (
        "certificate-controller",
        "sign",
        "signers",
        "the admission plugin CertificateSigning asks for it at each certificate",
    ),
    (
        "clusterrole-aggregation-controller",
        "escalate",
        "clusterroles",
        "the API server asks for it when the controller writes rules that it lacks itself",
    ),
    (
        "endpoint-controller",
        "create",
        "endpoints/restricted",
        "OpenShift asks for it when addresses are in the ranges of pods and Services",
    ),
    (
        "horizontal-pod-autoscaler",
        "get",
        "*",
        "tests of custom metrics have a server of their own",
    ),
    (
        "horizontal-pod-autoscaler",
        "list",
        "*",
        "tests of external metrics have a server of their own",
    ),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher",
        "create",
        "clustertrustbundles",
        "the embedded API server has the type by a definition, and such objects have no colons in names",
    ),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher",
        "attest",
        "signers",
        "the API server asks for it when the controller writes a bundle of this signer",
    ),
    (
        "resource-claim-controller",
        "update",
        "resourceclaims/binding",
        "the API server asks for it when the controller changes reservations and allocations",
    ),
    (
        "storage-version-migrator-controller",
        "create",
        "*",
        "the API server asks for it when an object is deleted before its apply",
    ),
    (
        "*",
        "patch",
        "events",
        "the recorder patches an Event that repeats, whatever the controller",
    ),
    (
        "*",
        "update",
        "*/finalizers",
        "the admission plugin OwnerReferencesPermissionEnforcement asks for it at blocking references",
    ),
];

/// Rights that upstream's role lacks: identity, verb, resource, and the reason.
const BEYOND_UPSTREAM: &[(&str, &str, &str, &str)] = &[
    (
        "kube-apiserver-serving-clustertrustbundle-publisher",
        "*",
        "*",
        "API servers have the role with the feature gate ClusterTrustBundle, which is off by default",
    ),
    (
        "device-taint-eviction-controller",
        "get",
        "devicetaintrules",
        "API servers have the right with the feature gate DRADeviceTaintRules, which is off by default",
    ),
    (
        "device-taint-eviction-controller",
        "patch",
        "devicetaintrules/status",
        "API servers have the right with the feature gate DRADeviceTaintRules, which is off by default",
    ),
    (
        "job-controller",
        "*",
        "workloads",
        "API servers have the right with the feature gate WorkloadWithJob, which is off by default",
    ),
    (
        "job-controller",
        "create",
        "podgroups",
        "API servers have the right with the feature gate WorkloadWithJob, which is off by default",
    ),
    (
        "node-controller",
        "get",
        "leases",
        "API servers have the right since 1.37, with the feature gate NodeControllerLeaseCircuitBreaker",
    ),
    (
        "podcertificaterequestcleaner",
        "*",
        "podcertificaterequests",
        "API servers have the role with the feature gate PodCertificateRequest, which is off by default",
    ),
    (
        "podgroup-protection-controller",
        "*",
        "*",
        "API servers have the role with the feature gate GenericWorkload, which is off by default",
    ),
    (
        "resource-claim-controller",
        "get",
        "podgroups",
        "API servers have the right with the feature gate DRAWorkloadResourceClaims, which is off by default",
    ),
    (
        "resource-claim-controller",
        "patch",
        "podgroups/status",
        "API servers have the right with the feature gate DRAWorkloadResourceClaims, which is off by default",
    ),
    (
        "storage-version-garbage-collector",
        "*",
        "*",
        "API servers have the role with the feature gate StorageVersionAPI, which is off by default",
    ),
    (
        "storage-version-migrator-controller",
        "*",
        "*",
        "API servers have the role with the feature gate StorageVersionMigrator, which is off by default",
    ),
    (
        "resourcepoolstatusrequest-controller",
        "*",
        "resourcepoolstatusrequests",
        "API servers have the role with the feature gate DRAResourcePoolStatus, which is off by default",
    ),
    (
        "resourcepoolstatusrequest-controller",
        "*",
        "resourcepoolstatusrequests/status",
        "API servers have the role with the feature gate DRAResourcePoolStatus, which is off by default",
    ),
];

/// Whether `pattern` stands for `text`: `*` for every text, and `*/x` for the subresource `x` of
/// every resource.
fn is(text: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => text.ends_with(suffix),
        None => text == pattern,
    }
}

/// Whether `table` lists the right of `identity`.
fn is_listed(
    table: &[(&str, &str, &str, &str)],
    identity: &str,
    (verb, _, resource): &Right,
) -> bool {
    table.iter().any(|(of, listed, pattern, _)| {
        is(identity, of) && is(verb, listed) && is(resource, pattern)
    })
}

/// The rights of the rules of `descriptor`, without those of its caches.
fn rights(descriptor: &Descriptor) -> BTreeSet<Right> {
    let rights = descriptor.rules.iter().flat_map(|rule| {
        rule.verbs.iter().flat_map(move |verb| {
            rule.groups.iter().flat_map(move |group| {
                let right = move |resource: &&str| {
                    (
                        (*verb).to_owned(),
                        (*group).to_owned(),
                        (*resource).to_owned(),
                    )
                };
                rule.resources.iter().map(right)
            })
        })
    });
    rights.collect()
}

/// The folder of the records.
fn folder() -> Option<PathBuf> {
    std::env::var_os("STEERSMAN_RIGHTS").map(PathBuf::from)
}

/// Records the rights that the requests of `identity` needed, if a folder for them is set.
pub(super) fn record<'a>(requests: impl Iterator<Item = (&'a str, &'a RequestRecord)>) {
    let Some(folder) = folder() else { return };
    let used = requests.filter(|(_, request)| !request.resource.is_empty());
    let lines: BTreeSet<String> = used
        .map(|(identity, request)| {
            let group = request
                .path
                .strip_prefix("/apis/")
                .and_then(|path| path.split('/').next());
            let RequestRecord { verb, resource, .. } = request;
            format!("{identity} {verb} {} {resource}\n", group.unwrap_or("core"))
        })
        .collect();
    let path = folder.join(std::process::id().to_string());
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    // One write, so that stories in other threads do not mix with it.
    let text: String = lines.into_iter().collect();
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .unwrap();
}

/// The recorded rights of one identity.
fn recorded(text: &str, identity: &str) -> BTreeSet<Right> {
    let right = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next()? == identity).then_some(())?;
        let verb = words.next()?;
        let group = words.next()?;
        let resource = words.next()?;
        Some((
            verb,
            if group == "core" {
                String::new()
            } else {
                group
            },
            resource,
        ))
    };
    text.lines().filter_map(right).collect()
}

/// Whether a request with the right `used` needs the rule with `granted`.
fn needs(used: &Right, granted: &Right) -> bool {
    is(&used.0, &granted.0) && is(&used.1, &granted.1) && is(&used.2, &granted.2)
}

#[test]
#[ignore = "needs the records of all stories; scripts/test.sh runs it after them"]
fn every_rule_is_needed_by_a_story() {
    let folder = folder().expect("STEERSMAN_RIGHTS names the folder of the records");
    let files = std::fs::read_dir(&folder).unwrap();
    let text: String = files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let watched = recorded(&text, INFORMERS);
    let mut unused = Vec::new();
    for descriptor in crate::ALL {
        let used = recorded(&text, descriptor.identity);
        let is_used = |right: &Right| {
            // Informers of metadata belong to no controller in particular.
            let is_informer = matches!(&*right.0, "list" | "watch");
            let informed = watched.iter().filter(|_| is_informer);
            // An informer with a watch lists when the server cannot stream the first list.
            let watch = ("watch".to_owned(), right.1.clone(), right.2.clone());
            used.iter()
                .chain(informed)
                .any(|used| needs(used, right) || is_informer && needs(used, &watch))
        };
        let idle = rights(descriptor).into_iter().filter(|right| {
            !is_used(right) && !is_listed(WITHOUT_REQUEST, descriptor.identity, right)
        });
        unused.extend(idle.map(|right| (descriptor.name, right)));
    }
    assert!(unused.is_empty(), "rights without a request: {unused:#?}");
}

/// The roles are those of upstream's bootstrap policy, which the embedded server creates.
#[tokio::test(start_paused = true)]
async fn every_rule_is_within_upstreams_role() {
    let cluster = DevCluster::new(Clock::runtime(begin()));
    let mut refused = Vec::new();
    for descriptor in crate::ALL {
        let user = if MANAGERS_IDENTITIES.contains(&descriptor.identity) {
            "system:kube-controller-manager".to_owned()
        } else {
            format!("system:serviceaccount:kube-system:{}", descriptor.identity)
        };
        for right in rights(descriptor) {
            let (verb, group, resource) = &right;
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let rule = descriptor
                .rules
                .iter()
                .find(|rule| rule.resources.contains(&&*right.2));
            let rule = rule.expect("the right is from a rule");
            let attributes = json!({
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "namespace": rule.namespace, "name": rule.names.first(),
            });
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": user, "resourceAttributes": attributes},
            });
            let review = cluster.create(review).await.unwrap();
            let is_allowed = review["status"]["allowed"] == true;
            if !is_allowed && !is_listed(BEYOND_UPSTREAM, descriptor.identity, &right) {
                refused.push((descriptor.name, right));
            }
        }
    }
    assert!(refused.is_empty(), "upstream's roles lack {refused:#?}");
}

#[test]
fn a_right_is_recorded_and_compared() {
    let right = |verb: &str, group: &str, resource: &str| {
        (verb.to_owned(), group.to_owned(), resource.to_owned())
    };
    let text = "a patch core pods/status\na get apps deployments\nb get core nodes\n";
    let used = recorded(text, "a");
    assert_eq!(used.len(), 2);
    // (granted, needed)
    let cases = [
        (right("patch", "", "pods/status"), true),
        (right("*", "*", "*"), true),
        (right("patch", "", "pods"), false),
        (right("get", "", "deployments"), false),
        (right("get", "", "nodes"), false),
    ];
    for (granted, needed) in cases {
        assert_eq!(
            used.iter().any(|used| needs(used, &granted)),
            needed,
            "{granted:?}"
        );
    }
    assert!(is_listed(
        WITHOUT_REQUEST,
        "x",
        &right("update", "apps", "deployments/finalizers")
    ));
    assert!(!is_listed(
        WITHOUT_REQUEST,
        "x",
        &right("escalate", "rbac", "clusterroles")
    ));
}
