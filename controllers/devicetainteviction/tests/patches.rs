//! DeviceTaintRules of 1.33 and 1.34: the devices that they select, and stories of whole rules.
//!
//! Upstream: `TestListPatchedResourceSlices` of `resourceslice/tracker`.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_objects::{DeviceClass, DeviceTaintRule, Object, PublishedSlice};
use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;

use super::super::patches::{Changes, Patches};
use super::{CLAIM, DESCRIPTOR, DRIVER, Evictions, KEY, NODE, POD, VALUE, begin, claim, pod};
use crate::testing::world::World;

const MODEL: &str = "device.attributes['some-driver'].model == 'a'";
const MEMORY: &str = "device.capacity['some-driver'].memory.compareTo(quantity('4Gi')) >= 0";

/// A rule of 1.34 with the taint of the other tests.
fn rule(selector: Value) -> Value {
    let taint = json!({"key": KEY, "value": VALUE, "effect": "NoExecute", "timeAdded": begin().to_string()});
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule",
        "metadata": {"name": "evict", "uid": "of-rule", "generation": 1},
        "spec": {"deviceSelector": selector, "taint": taint},
    })
}

fn selectors(expressions: &[&str]) -> Value {
    let selector = |expression: &&str| json!({"cel": {"expression": expression}});
    expressions.iter().map(selector).collect()
}

/// A slice with two shared devices: `instance` of model `a` with 2Gi, and `other` of model `b` with 4Gi.
fn slice() -> Value {
    let device = |name: &str, model: &str, memory: &str| {
        json!({
            "name": name, "attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}},
            "allowMultipleAllocations": true,
        })
    };
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": "slice", "uid": "of-slice"},
        "spec": {
            "driver": DRIVER, "nodeName": NODE,
            "devices": [device("instance", "a", "2Gi"), device("other", "b", "4Gi")],
            "pool": {"name": NODE, "generation": 0, "resourceSliceCount": 1},
        },
    })
}

fn class(expressions: &[&str]) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "fast", "uid": "of-class"},
        "spec": {"selectors": selectors(expressions)},
    })
}

fn decode<T: Object>(object: &Value) -> Arc<T> {
    Arc::new(T::decode(object.to_string().as_bytes()).unwrap())
}

/// The names of the tainted devices after a change of one slice.
fn tainted(changes: &Changes) -> Vec<String> {
    let [(_, Some(slice))] = &changes.slices[..] else {
        panic!("{changes:?}");
    };
    let tainted = slice.spec.devices.tainted.iter();
    tainted.map(|device| device.name.to_string()).collect()
}

#[test]
fn rules_select_devices_by_name_class_and_expression() {
    let all = ["instance", "other"];
    let none: [&str; 0] = [];
    // (selector of the rule, expressions of the class, tainted devices, number of failures)
    let cases: Vec<(Value, &[&str], &[&str], usize)> = vec![
        (json!(null), &[], &all, 0),
        (json!({}), &[], &all, 0),
        (json!({"driver": DRIVER}), &[], &all, 0),
        (json!({"driver": "another"}), &[], &none, 0),
        (json!({"pool": NODE, "device": "other"}), &[], &["other"], 0),
        (json!({"pool": "another"}), &[], &none, 0),
        (
            json!({"selectors": selectors(&[MODEL])}),
            &[],
            &["instance"],
            0,
        ),
        (
            json!({"selectors": selectors(&[MEMORY])}),
            &[],
            &["other"],
            0,
        ),
        (
            json!({"selectors": selectors(&[MODEL, MEMORY])}),
            &[],
            &none,
            0,
        ),
        (
            json!({"device": "other", "selectors": selectors(&[MODEL])}),
            &[],
            &none,
            0,
        ),
        (
            json!({"deviceClassName": "fast"}),
            &[MODEL],
            &["instance"],
            0,
        ),
        (json!({"deviceClassName": "fast"}), &[], &all, 0),
        (json!({"deviceClassName": "missing"}), &[], &none, 0),
        (
            json!({"deviceClassName": "fast", "selectors": selectors(&[MEMORY])}),
            &[MODEL],
            &none,
            0,
        ),
        // Expressions of the tracker do not see that devices are shared.
        (
            json!({"selectors": selectors(&["device.allowMultipleAllocations"])}),
            &[],
            &none,
            0,
        ),
        // A failing expression of a rule is told for each device, and one of a class is not.
        (
            json!({"selectors": selectors(&["true", "device.attributes['some-driver'].none"])}),
            &[],
            &none,
            2,
        ),
        (
            json!({"deviceClassName": "fast"}),
            &["device.attributes['some-driver'].none"],
            &none,
            0,
        ),
        // Selectors that cannot be evaluated select nothing.
        (
            json!({"selectors": selectors(&["device.later"])}),
            &[],
            &none,
            0,
        ),
        (json!({"selectors": [{"later": {}}]}), &[], &none, 0),
        (
            json!({"deviceClassName": "fast"}),
            &["device.later"],
            &none,
            0,
        ),
    ];
    for (selector, expressions, expected, failures) in cases {
        let mut patches = Patches::default();
        patches.class_changed(None, Some(&decode::<DeviceClass>(&class(expressions))));
        let rule = decode::<DeviceTaintRule>(&rule(selector.clone()));
        patches.rule_changed(None, Some(&rule));
        let changes = patches.slice_changed(None, Some(&decode::<PublishedSlice>(&slice())));
        assert_eq!(tainted(&changes), expected, "{selector} {expressions:?}");
        assert_eq!(changes.failures.len(), failures, "{selector}");
        for failure in changes.failures {
            let told = (failure.selector, &*failure.error);
            assert_eq!(told, (1, "no such key: none"));
        }
    }
}

#[test]
fn expressions_that_do_not_compile_are_told_once() {
    const LATER: &str = "device.later";
    let mut patches = Patches::default();
    patches.slice_changed(None, Some(&decode::<PublishedSlice>(&slice())));
    let class = decode::<DeviceClass>(&class(&[MODEL, LATER]));
    let rule = decode::<DeviceTaintRule>(&rule(
        json!({"deviceClassName": "fast", "selectors": selectors(&[LATER])}),
    ));
    let of_class = patches.class_changed(None, Some(&class));
    let of_rule = patches.rule_changed(None, Some(&rule));
    for (changes, kind, name) in [
        (of_class, "DeviceClass", "fast"),
        (of_rule, "DeviceTaintRule", "evict"),
    ] {
        let [broken] = &changes.broken[..] else {
            panic!("{changes:?}");
        };
        let told = (broken.kind, &*broken.name, &*broken.expression);
        assert_eq!(told, (kind, name, LATER));
        assert!(!broken.error.is_empty());
    }
    let gone = patches.class_changed(Some(&class), None);
    assert!(gone.broken.is_empty(), "{gone:?}");
}

#[test]
fn a_class_concerns_the_slices_with_a_rule_of_it() {
    let slice = decode::<PublishedSlice>(&slice());
    let class = decode::<DeviceClass>(&class(&[MODEL]));
    // (selector of the rule, number of concerned slices)
    let cases = [
        (json!({"deviceClassName": "fast"}), 1),
        (json!({"deviceClassName": "another"}), 0),
        (json!({"deviceClassName": "fast", "driver": "another"}), 0),
        (json!({"driver": DRIVER}), 0),
    ];
    for (selector, expected) in cases {
        let mut patches = Patches::default();
        patches.slice_changed(None, Some(&slice));
        let rule = decode::<DeviceTaintRule>(&rule(selector.clone()));
        patches.rule_changed(None, Some(&rule));
        let changes = patches.class_changed(None, Some(&class));
        assert_eq!(changes.slices.len(), expected, "{selector}");
        let changes = patches.class_changed(Some(&class), None);
        assert_eq!(changes.slices.len(), expected, "{selector}");
    }
}

#[test]
fn slices_follow_their_rules_and_classes() {
    let by_class = decode::<DeviceTaintRule>(&rule(json!({"deviceClassName": "fast"})));
    let by_model = decode::<DeviceTaintRule>(&rule(json!({"selectors": selectors(&[MODEL])})));
    let elsewhere = decode::<DeviceTaintRule>(&rule(json!({"driver": "another"})));
    let of_model = decode::<DeviceClass>(&class(&[MODEL]));
    let of_memory = decode::<DeviceClass>(&class(&[MEMORY]));
    let slice = decode::<PublishedSlice>(&slice());
    let none: [&str; 0] = [];
    let mut patches = Patches::default();
    let first = patches.slice_changed(None, Some(&slice));
    assert!(first.slices[0].0.is_none() && tainted(&first) == none);
    assert_eq!(tainted(&patches.rule_changed(None, Some(&by_class))), none);
    let added = patches.class_changed(None, Some(&of_model));
    assert_eq!(tainted(&added), ["instance"]);
    let changed = patches.class_changed(Some(&of_model), Some(&of_memory));
    assert_eq!(tainted(&changed), ["other"]);
    assert!(changed.slices[0].0.is_some(), "the slice was known");
    let gone = patches.class_changed(Some(&of_memory), None);
    assert_eq!(tainted(&gone), none);
    let changed = patches.rule_changed(Some(&by_class), Some(&by_model));
    assert_eq!(tainted(&changed), ["instance"]);
    let moved = patches.rule_changed(Some(&by_model), Some(&elsewhere));
    assert_eq!(tainted(&moved), none, "the rule as it was counts, too");
    let far = patches.rule_changed(Some(&elsewhere), None);
    assert!(far.slices.is_empty(), "no slice is of this driver");
    let gone = patches.slice_changed(Some(&slice), None);
    assert!(matches!(&gone.slices[..], [(Some(_), None)]));
}

/// A world of 1.34 with rules in their version, whose controller has the gate.
async fn world(objects: &[Value]) -> Evictions {
    let mut evictions = Evictions(World::recorded_of(Release::of_minor(34)).await);
    let rules = definition(
        "resource.k8s.io",
        "DeviceTaintRule",
        &["v1alpha3"],
        "Cluster",
    );
    evictions.0.create(rules).await;
    objects
        .iter()
        .for_each(|object| evictions.load(object.clone()));
    lead(&mut evictions, 0).await;
    evictions
}

#[tokio::test(start_paused = true)]
async fn slices_are_watched_once_where_rules_taint_them() {
    let evictions = world(&[]).await;
    let requests = evictions.0.cluster.requests();
    let watches = requests
        .iter()
        .filter(|r| r.verb == "watch" && r.resource == "resourceslices" && r.status == 200);
    assert_eq!(watches.count(), 1);
}

/// Starts the controller in a term that begins at `revision`.
async fn lead(evictions: &mut Evictions, revision: u64) {
    let world = &mut evictions.0;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            let gate = features::DRA_DEVICE_TAINT_RULES.name;
            context.features = FeatureGates::new(|name| name == gate);
            context.term_start_rv = revision;
            context
        })
        .await;
    evictions.pass(30_000).await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_the_devices_that_a_rule_selects_by_expression() {
    let objects = [
        slice(),
        class(&[MODEL]),
        claim(CLAIM, POD, "1234", json!([])),
        pod(POD, "1234", CLAIM),
    ];
    let evictions = world(&objects).await;
    let failing = "device.attributes['some-driver'].none";
    evictions.load(rule(json!({"selectors": selectors(&[failing])})));
    evictions.pass(5_000).await;
    assert!(evictions.terminating().is_empty());
    let text = "evict selector #0: runtime error: no such key: none x2";
    assert_eq!(evictions.events(), [text]);
    let event = &evictions.0.cluster.objects("events")[0];
    assert_eq!(event["reason"], "CELRuntimeError");
    assert_eq!(event["source"]["component"], "resource_slice_tracker");
    let about = &event["involvedObject"];
    assert_eq!(about["apiVersion"], "resource.k8s.io/v1alpha3");

    evictions.load(rule(
        json!({"deviceClassName": "fast", "selectors": selectors(&[MEMORY])}),
    ));
    evictions.pass(5_000).await;
    assert!(evictions.terminating().is_empty());
    evictions.load(rule(json!({"deviceClassName": "fast"})));
    evictions.pass(5_000).await;
    assert_eq!(evictions.terminating(), [POD]);
    let rule = evictions.0.find("devicetaintrules", "evict").unwrap();
    assert_eq!(rule["status"], Value::Null, "rules have no condition");
    let text = format!("{POD} Marking for deletion x1");
    assert_eq!(evictions.events()[1..], [text]);
}

/// A new leader whose caches are older than its term reads rules, classes and slices first.
#[tokio::test(start_paused = true)]
async fn a_new_leader_confirms_that_a_rule_selects_the_device() {
    for changed in ["", "rule", "class"] {
        let mut evictions = world(&[]).await;
        let objects = [
            slice(),
            class(&[MODEL]),
            rule(json!({"deviceClassName": "fast"})),
            claim(CLAIM, POD, "1234", json!([])),
        ];
        evictions.0.restart(&[]).await;
        objects
            .iter()
            .for_each(|object| evictions.load(object.clone()));
        evictions.load(pod(POD, "1234", CLAIM));
        let before = evictions.0.cluster.revision();
        match changed {
            "rule" => evictions.load(rule(json!({"selectors": selectors(&[MEMORY])}))),
            "class" => evictions.load(class(&[MEMORY])),
            _ => {}
        }
        evictions.load(pod("other", "5678", "none"));
        let term = evictions.0.cluster.revision();
        let held =
            ["devicetaintrules", "deviceclasses"].map(|plural| evictions.0.hold(plural, before));
        lead(&mut evictions, term).await;
        assert_eq!(
            evictions.terminating().is_empty(),
            !changed.is_empty(),
            "{changed}"
        );
        for view in held {
            evictions.0.cluster.faults().remove(view);
        }
        evictions.pass(60_000).await;
        assert_eq!(
            evictions.terminating().is_empty(),
            !changed.is_empty(),
            "{changed}"
        );
    }
}
