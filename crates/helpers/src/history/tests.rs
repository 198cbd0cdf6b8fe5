//! Data, hashes and names of revisions: values computed with upstream's packages of 1.36.2, and the
//! cases of upstream's tests. The requests of [`History`] are tested with the controllers.

use serde::Deserialize;
use serde_json::json;

use steersman_objects::{DecodeError, Document, StatefulSet};
use steersman_values::resource::ResourceType;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    cases: Vec<Case>,
    statefulset_collision: Value,
    statefulset_semantic_comparison: Semantic,
    daemonset_collision: Value,
    name_truncation: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    id: String,
    controller: String,
    status_collision_count: Option<i32>,
    object: Value,
    controller_revision: Value,
    pod_label_controller_revision_hash: String,
}

#[derive(Deserialize)]
struct Semantic {
    cases: Vec<Comparison>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    id: String,
    latest_data: String,
    bytes_equal: bool,
    treated_as_equal: bool,
}

fn recorded() -> Recorded {
    serde_json::from_str(include_str!("testdata/controller-revisions.json")).unwrap()
}

/// The owner of revisions with the style of DaemonSets.
struct DaemonSet;

static DAEMON_SETS: ResourceType = ResourceType {
    group: std::borrow::Cow::Borrowed("apps"),
    version: std::borrow::Cow::Borrowed("v1"),
    kind: std::borrow::Cow::Borrowed("DaemonSet"),
    plural: std::borrow::Cow::Borrowed("daemonsets"),
    namespaced: true,
};

impl Object for DaemonSet {
    const RESOURCE: &'static ResourceType = &DAEMON_SETS;
    fn decode(_: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self)
    }
    fn meta(&self) -> &Meta {
        unreachable!("the tests use the metadata of the decoded StatefulSet")
    }
}

/// An owner, and the parts of it that a proposal reads.
struct Owner {
    style: Style,
    meta: Meta,
    document: Document,
    template: Value,
    collision_count: Option<i32>,
}

impl Owner {
    /// Both kinds have these parts in the same places.
    fn of(case: &Case) -> Self {
        let set = StatefulSet::decode(case.object.to_string().as_bytes()).unwrap();
        Self {
            style: match &*case.controller {
                "statefulset" => Style::StatefulSet,
                _ => Style::DaemonSet,
            },
            template: set.template(),
            meta: set.meta,
            document: set.document,
            collision_count: case.status_collision_count,
        }
    }

    fn named(id: &str) -> Self {
        Self::of(recorded().cases.iter().find(|case| case.id == id).unwrap())
    }

    fn proposal(&self, revision: i64) -> Proposal<'_> {
        let Self {
            style,
            meta,
            document,
            template,
            collision_count,
        } = self;
        match style {
            Style::StatefulSet => Proposal::new::<StatefulSet>(
                *style,
                meta,
                document,
                template,
                *collision_count,
                revision,
            ),
            Style::DaemonSet => Proposal::new::<DaemonSet>(
                *style,
                meta,
                document,
                template,
                *collision_count,
                revision,
            ),
        }
    }
}

fn stored(name: &str, revision: i64, data: &str) -> Arc<ControllerRevision> {
    let metadata =
        json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"});
    let json = format!(r#"{{"metadata":{metadata},"revision":{revision},"data":{data}}}"#);
    Arc::new(ControllerRevision::decode(json.as_bytes()).unwrap())
}

#[test]
fn every_recorded_revision_is_reproduced() {
    for case in recorded().cases {
        let id = &case.id;
        let owner = Owner::of(&case);
        let expected = &case.controller_revision;
        let proposal = owner.proposal(expected["revision"].as_i64().unwrap());
        assert_eq!(proposal.data(), expected["data"], "{id}");
        assert_eq!(proposal.data().len(), expected["dataLength"], "{id}");
        assert_eq!(proposal.hash(), expected["hash"], "{id}");
        let name = proposal.name(owner.collision_count);
        assert_eq!(name, expected["name"], "{id}");
        let body: Value = serde_json::from_str(proposal.body(&name).get()).unwrap();
        let mut metadata = json!({
            "name": expected["name"], "labels": expected["labels"],
            "ownerReferences": expected["ownerReferences"],
        });
        if expected["annotations"] != json!({}) {
            metadata["annotations"] = expected["annotations"].clone();
        }
        if expected["namespaceInBody"] == true {
            metadata["namespace"] = json!(*owner.meta.namespace);
        }
        let data: Value = serde_json::from_str(proposal.data()).unwrap();
        let expected = json!({
            "kind": "ControllerRevision", "apiVersion": "apps/v1", "metadata": metadata,
            "data": data, "revision": expected["revision"],
        });
        assert_eq!(body, expected, "{id}");
        let on_pods = match owner.style {
            Style::StatefulSet => name.clone(),
            Style::DaemonSet => proposal.hash(),
        };
        assert_eq!(on_pods, case.pod_label_controller_revision_hash, "{id}");
        assert!(proposal.equals(&stored(&name, 1, proposal.data())), "{id}");
    }
}

#[test]
fn a_collision_changes_the_name_and_keeps_the_label() {
    let Recorded {
        statefulset_collision: set,
        daemonset_collision: daemon,
        ..
    } = recorded();
    let owner = Owner::named("sts-minimal");
    let proposal = owner.proposal(1);
    assert_eq!(proposal.name(Some(0)), set["existingName"]);
    let created = proposal.name(Some(1));
    assert_eq!(created, set["createdName"]);
    let body: Value = serde_json::from_str(proposal.body(&created).get()).unwrap();
    let label = &body["metadata"]["labels"][Style::StatefulSet.hash_label()];
    assert_eq!(label, &set["createdHashLabel"]);

    let mut owner = Owner::named("ds-minimal");
    assert_eq!(owner.proposal(1).name(None), daemon["existingName"]);
    owner.collision_count = Some(1);
    assert_eq!(owner.proposal(1).name(Some(1)), daemon["secondSyncName"]);
    assert_eq!(owner.proposal(1).hash(), daemon["secondSyncHashLabel"]);
}

#[test]
fn names_of_stateful_sets_are_cut() {
    let expected = &recorded().name_truncation;
    let length = usize::try_from(expected["prefixLength"].as_u64().unwrap()).unwrap();
    let mut owner = Owner::named("sts-minimal");
    owner.meta.name = "w".repeat(length).into();
    let name = owner.proposal(1).name(None);
    assert_eq!(name.len(), expected["statefulsetNameLength"]);
    owner.style = Style::DaemonSet;
    assert!(owner.proposal(1).name(None).starts_with(&*owner.meta.name));
}

#[test]
fn revisions_of_other_versions_are_compared_by_their_meaning() {
    let owner = Owner::named("sts-minimal");
    let proposal = owner.proposal(2);
    for case in recorded().statefulset_semantic_comparison.cases {
        let latest = stored("web-1", 1, &case.latest_data);
        assert_eq!(proposal.equals(&latest), case.bytes_equal, "{}", case.id);
        assert_eq!(
            proposal.restores(&latest),
            case.treated_as_equal,
            "{}",
            case.id
        );
    }
    // (why, data)
    let cases = [
        ("no data", "null"),
        ("no template", r#"{"spec":{}}"#),
        ("a template of another type", r#"{"spec":{"template":"x"}}"#),
    ];
    for (why, data) in cases {
        assert!(!proposal.restores(&stored("web-1", 1, data)), "{why}");
    }
}

#[test]
fn every_recorded_template_restores_itself() {
    for case in recorded().cases {
        let owner = Owner::of(&case);
        let proposal = owner.proposal(1);
        let own = stored("own", 1, proposal.data());
        assert!(proposal.restores(&own), "{}", case.id);
    }
}

/// Upstream: `TestFindEqualRevisions`.
#[test]
fn find_equal_revisions() {
    let owner = Owner::named("sts-minimal");
    let mut other = Owner::named("sts-minimal");
    other.template["metadata"]["labels"] = json!({"goo": "car"});
    let ours = owner.proposal(1);
    let theirs = other.proposal(1);
    let equal = |stored: &[Arc<ControllerRevision>]| -> Vec<String> {
        let found = stored.iter().filter(|revision| ours.equals(revision));
        found
            .map(|revision| revision.meta.name.to_string())
            .collect()
    };
    let revision = |name: &str, of: &Proposal<'_>| stored(name, 1, of.data());
    // (name, stored, equal)
    let cases: [(&str, Vec<_>, &[&str]); 3] = [
        (
            "finds equivalent",
            vec![
                revision("a", &ours),
                revision("b", &theirs),
                revision("c", &ours),
            ],
            &["a", "c"],
        ),
        ("finds nothing when empty", vec![], &[]),
        (
            "finds nothing with no matches",
            vec![revision("b", &theirs)],
            &[],
        ),
    ];
    for (name, stored, expected) in cases {
        assert_eq!(equal(&stored), expected, "{name}");
    }
}

/// Upstream: `TestSortControllerRevisions`. Each revision is its name, number and creation time.
#[test]
fn sort_controller_revisions() {
    let first = "2026-01-01T00:00:00Z";
    let second = "2026-01-01T00:00:01Z";
    // (name, revisions, sorted)
    let cases: [(&str, &[(&str, i64, &str)], &[&str]); 5] = [
        (
            "out of order",
            &[("rev2", 2, first), ("rev1", 1, first), ("rev3", 3, first)],
            &["rev1", "rev2", "rev3"],
        ),
        (
            "sorted",
            &[("rev1", 1, first), ("rev2", 2, first), ("rev3", 3, first)],
            &["rev1", "rev2", "rev3"],
        ),
        (
            "reversed",
            &[("rev3", 3, first), ("rev2", 2, first), ("rev1", 1, first)],
            &["rev1", "rev2", "rev3"],
        ),
        (
            "with ties",
            &[
                ("rev3", 3, first),
                ("rev3b", 3, second),
                ("rev3a", 3, second),
                ("rev2", 2, first),
                ("rev1", 1, first),
            ],
            &["rev1", "rev2", "rev3", "rev3a", "rev3b"],
        ),
        ("empty", &[], &[]),
    ];
    for (name, revisions, expected) in cases {
        let revision = |(name, revision, created): &(&str, i64, &str)| {
            let metadata = json!({"name": name, "creationTimestamp": created});
            let json = json!({"metadata": metadata, "revision": revision});
            Arc::new(ControllerRevision::decode(json.to_string().as_bytes()).unwrap())
        };
        let mut found: Vec<_> = revisions.iter().map(revision).collect();
        sort(&mut found);
        let names: Vec<&str> = found.iter().map(|revision| &*revision.meta.name).collect();
        assert_eq!(names, expected, "{name}");
        let next = revisions.iter().map(|(_, n, _)| n + 1).max().unwrap_or(1);
        assert_eq!(next_number(&found), next, "{name}");
    }
}

#[test]
fn a_renumbered_revision_keeps_its_data_byte_for_byte() {
    let revision = stored("a", 1, r#"{"b":"\u003c","a":[1,2.50]}"#);
    let body = with_member::<ControllerRevision>(&revision.document, "revision", &json!(5));
    assert!(body.get().contains(r#""data":{"b":"\u003c","a":[1,2.50]}"#));
    let again = ControllerRevision::decode(body.get().as_bytes()).unwrap();
    assert_eq!((again.revision, again.data()), (5, revision.data()));
    let body: Value = serde_json::from_str(body.get()).unwrap();
    let kind = &body["kind"];
    let api_version = &body["apiVersion"];
    assert_eq!(
        (kind, api_version),
        (&json!("ControllerRevision"), &json!("apps/v1"))
    );
}
