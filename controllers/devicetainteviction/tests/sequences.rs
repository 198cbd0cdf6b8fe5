//! Upstream's sequences of events, and the state after them.
//!
//! Upstream: `TestController` in `device_taint_eviction_test.go`. The sequences about DeviceTaintRules
//! are beside their conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_objects::{DeviceTaintRule, Object, ObjectKey, Pod, ResourceClaim, ResourceSlice};
use steersman_runtime::informer::Store;

use super::super::evictions::{Due, Effect, PodRef};
use super::super::rules::Effects;
use super::super::tracker::{Pods, Tracker};
use super::{CLAIM, DRIVER, KEY, NODE, POD, VALUE, claim, pod, slice, tolerates};

/// Start of the bubble in which upstream's tests run, and time of all taints.
const START: &str = "2000-01-01T00:00:00Z";

/// The objects of a change: old and new.
pub(super) type Pair = (Option<Value>, Option<Value>);

/// Changes that stay in their order.
pub(super) type Step = Vec<Pair>;

pub(super) fn add(object: Value) -> Step {
    vec![(None, Some(object))]
}

pub(super) fn remove(object: Value) -> Step {
    vec![(Some(object), None)]
}

fn update(old: Value, new: Value) -> Step {
    vec![(Some(old), Some(new))]
}

/// The tracker with the pods that it reads.
pub(super) struct Bubble {
    tracker: Tracker,
    pods: BTreeMap<ObjectKey, Arc<Pod>>,
    pod_groups: bool,
    pub(super) cancelled: Vec<PodRef>,
    evicting: Vec<PodRef>,
}

fn decode<T: Object>(object: &Option<Value>) -> Option<Arc<T>> {
    let text = object.as_ref()?.to_string();
    Some(Arc::new(T::decode(text.as_bytes()).unwrap()))
}

pub(super) fn start() -> Timestamp {
    START.parse().unwrap()
}

impl Bubble {
    pub(super) fn new(pod_groups: bool) -> Self {
        Self {
            tracker: Tracker::new(pod_groups),
            pods: BTreeMap::new(),
            pod_groups,
            cancelled: Vec::new(),
            evicting: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, step: &Step) {
        for (old, new) in step {
            let effects = self.change(old, new);
            for effect in effects {
                match effect {
                    Effect::Cancelled(pod) => self.cancelled.push(pod),
                    Effect::Evict(pod, _) => self.evicting.push(pod),
                }
            }
        }
    }

    fn change(&mut self, old: &Option<Value>, new: &Option<Value>) -> Vec<Effect> {
        let now = start();
        let kind = old.as_ref().or(new.as_ref()).unwrap()["kind"].clone();
        match kind.as_str().unwrap() {
            "Pod" => {
                let old = decode::<Pod>(old);
                let new = decode::<Pod>(new);
                if let Some(old) = &old {
                    self.pods.remove(&old.key());
                }
                if let Some(new) = &new {
                    self.pods.insert(new.key(), Arc::clone(new));
                }
                self.tracker
                    .pod_changed(old.as_deref(), new.as_deref())
                    .into_iter()
                    .collect()
            }
            "ResourceClaim" => {
                let old = decode::<ResourceClaim>(old);
                let new = decode::<ResourceClaim>(new);
                let claims = self
                    .tracker
                    .devices
                    .claim_changed(old.as_ref(), new.as_ref(), now);
                self.check(&claims)
            }
            "DeviceTaintRule" => {
                let old = decode::<DeviceTaintRule>(old);
                let new = decode::<DeviceTaintRule>(new);
                let claims = self.tracker.rule_changed(old.as_ref(), new.as_ref(), now);
                self.check(&claims)
            }
            _ => {
                let old = decode::<ResourceSlice>(old);
                let new = decode::<ResourceSlice>(new);
                let claims = self
                    .tracker
                    .devices
                    .slice_changed(old.as_ref(), new.as_ref(), now);
                self.check(&claims)
            }
        }
    }

    fn check(&mut self, claims: &[Arc<ResourceClaim>]) -> Vec<Effect> {
        let pods = self.pods();
        self.tracker.check_pods_of(claims, &pods)
    }

    fn pods(&self) -> Pods {
        let store: Store<Pod> = self.pods.values().cloned().collect();
        Pods::new(store, self.pod_groups)
    }

    pub(super) fn effects_of(&self, rule: &DeviceTaintRule) -> Effects {
        self.tracker.effects_of(rule, &self.pods(), start())
    }

    /// All waiting evictions take place.
    pub(super) fn evict_all(&mut self) {
        for (pod, eviction) in self.tracker.evictions.pending() {
            self.tracker.evictions.ended(&pod, false);
            self.pods.remove(&pod.key);
            eviction
                .rules()
                .for_each(|rule| self.tracker.count_evicted(rule));
        }
    }

    fn seconds(at: Timestamp) -> i64 {
        (at.duration_since(start())).as_secs()
    }

    /// Allocated claims, with the seconds until the eviction and the number of its reasons.
    pub(super) fn claims(&self) -> BTreeMap<String, Option<(i64, usize)>> {
        let claims = self.tracker.devices.evictions().into_iter();
        let eviction = |eviction: super::super::claims::Eviction| {
            (Self::seconds(eviction.at), eviction.reasons.len())
        };
        claims
            .map(|(name, found)| (name, found.map(eviction)))
            .collect()
    }

    /// UIDs of pods that wait, with the seconds until their eviction.
    pub(super) fn pending(&self) -> BTreeMap<String, i64> {
        let pending = self.tracker.evictions.pending().into_iter();
        pending
            .map(|(pod, eviction)| (pod.uid.to_string(), Self::seconds(eviction.at)))
            .collect()
    }
}

/// All orders of `0..count`.
pub(super) fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1).into_iter();
    let with_last = |order: Vec<usize>| {
        (0..count).map(move |place| {
            let mut order = order.clone();
            order.insert(place, count - 1);
            order
        })
    };
    shorter.flat_map(with_last).collect()
}

pub(super) fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

pub(super) fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect, "timeAdded": START})
}

/// Upstream's `slice`, with these taints of the device `instance`.
pub(super) fn slice_with(taints: Value) -> Value {
    let none_and_no_execute = json!([taint(KEY, "", "None"), taint(KEY, "", "NoExecute")]);
    let no_schedule = json!([{"key": KEY, "effect": "NoSchedule"}]);
    let devices = [
        ("instance", taints),
        ("instance-no-schedule", no_schedule),
        ("instance-no-execute", none_and_no_execute),
    ];
    slice(NODE, &devices)
}

/// The same slice with other effects of all taints.
fn with_effect(slice: Value, effect: &str) -> Value {
    let text = slice.to_string();
    let effects = ["None", "NoSchedule", "NoExecute"];
    let replace = |text: String, known: &&str| {
        text.replace(
            &format!("\"effect\":\"{known}\""),
            &format!("\"effect\":\"{effect}\""),
        )
    };
    serde_json::from_str(&effects.iter().fold(text, replace)).unwrap()
}

/// A sequence.
struct Case {
    name: &'static str,
    pod_groups: bool,
    initial: Vec<Step>,
    events: Vec<Step>,
    /// The slices afterwards.
    slices: Vec<&'static str>,
    /// The allocated claims: seconds until the eviction, number of reasons.
    claims: Vec<(&'static str, Option<(i64, usize)>)>,
    /// The waiting pods by UID: seconds until the eviction.
    pending: Vec<(&'static str, i64)>,
    /// Whether the Event `Cancelling deletion` is emitted.
    cancels: bool,
}

const SLICE: &str = "worker-some-driver";
const SLICE_2: &str = "worker-some-driver-2";
const BOTH: &[&str] = &[SLICE, SLICE_2];
const NOW: (i64, usize) = (0, 1);
const HOUR: i64 = 3600;

fn cases() -> Vec<Case> {
    let plain = || slice_with(json!([]));
    let simple = || slice(NODE, &[("instance", json!([]))]);
    let tainted = || slice_with(json!([taint(KEY, VALUE, "NoExecute")]));
    let other = || slice_with(json!([taint(KEY, "something-other", "NoExecute")]));
    let second = || {
        let renamed = with(plain(), "/metadata/name", json!(SLICE_2));
        let moved = with(renamed, "/spec/nodeName", json!("worker-2"));
        let pool = json!({"name": "worker-2", "generation": 1, "resourceSliceCount": 1});
        with(moved, "/spec/pool", pool)
    };
    let replaced = || {
        let renamed = with(
            plain(),
            "/metadata/name",
            json!("worker-some-driver-updated"),
        );
        with(renamed, "/spec/pool/generation", json!(1))
    };
    let extended = || {
        let mut slice = tainted();
        let devices = slice["spec"]["devices"].as_array_mut().unwrap();
        devices.push(with(devices[0].clone(), "/name", json!("instance-other")));
        slice
    };
    let in_use = || claim(CLAIM, POD, "1234", json!([]));
    let tolerating = |tolerations| claim(CLAIM, POD, "1234", tolerations);
    let hour = || {
        tolerating(
            json!([{"key": KEY, "operator": "Equal", "value": VALUE, "effect": "NoExecute", "tolerationSeconds": HOUR}]),
        )
    };
    let unallocated = || with(in_use(), "/status", json!({}));
    let of_group = || {
        let owner = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "my-podgroup", "uid": "5678", "controller": true});
        let consumer = json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "my-podgroup", "uid": "5678"});
        let owned = with(in_use(), "/metadata/ownerReferences", json!([owner]));
        with(owned, "/status/reservedFor", json!([consumer]))
    };
    let foreign = || {
        let owned = with(
            in_use(),
            "/metadata/ownerReferences/0/uid",
            json!("1234-other"),
        );
        with(owned, "/metadata/uid", json!("other"))
    };
    let named = || pod(POD, "1234", CLAIM);
    let unscheduled = || with(named(), "/spec/nodeName", json!(""));
    let template = || {
        with(
            named(),
            "/spec/resourceClaims",
            json!([{"name": "my-resource", "resourceClaimTemplateName": CLAIM}]),
        )
    };
    let in_status = || {
        with(
            template(),
            "/status/resourceClaimStatuses",
            json!([{"name": "my-resource", "resourceClaimName": CLAIM}]),
        )
    };
    let no_claim = || {
        with(
            template(),
            "/status/resourceClaimStatuses",
            json!([{"name": "my-resource"}]),
        )
    };
    let grouped = |pod| {
        with(
            pod,
            "/spec/schedulingGroup",
            json!({"podGroupName": "my-podgroup"}),
        )
    };
    let namesake = || pod(POD, "1234-other", CLAIM);

    let waiting = || {
        vec![
            add(in_status()),
            add(tainted()),
            add(second()),
            add(in_use()),
        ]
    };
    let base = |name, events| Case {
        name,
        pod_groups: false,
        initial: vec![],
        events,
        slices: BOTH.to_vec(),
        claims: vec![("default/my-pod-my-resource", None)],
        pending: vec![],
        cancels: false,
    };
    let at = |eviction| vec![("default/my-pod-my-resource", eviction)];
    let evicted = |name, events| Case {
        claims: at(Some(NOW)),
        pending: vec![("1234", 0)],
        ..base(name, events)
    };
    let kept = |name, events| Case {
        claims: at(Some(NOW)),
        ..base(name, events)
    };
    let cancelled = |name, events| Case {
        initial: waiting(),
        cancels: true,
        ..base(name, events)
    };
    vec![
        Case {
            slices: vec![],
            claims: vec![],
            ..base("empty", vec![])
        },
        Case {
            claims: vec![],
            ..base("populate-pools", vec![add(plain()), add(second())])
        },
        Case {
            initial: vec![add(plain()), add(second())],
            slices: vec![SLICE],
            claims: vec![],
            ..base(
                "update-pools",
                vec![update(plain(), simple()), remove(second())],
            )
        },
        base(
            "untainted-claim",
            vec![add(plain()), add(second()), add(in_use())],
        ),
        kept(
            "tainted-claim-through-resourceslice",
            vec![add(tainted()), add(second()), add(in_use())],
        ),
        evicted(
            "evict-pod-resourceclaim",
            vec![add(tainted()), add(second()), add(in_use()), add(named())],
        ),
        Case {
            pod_groups: true,
            ..evicted(
                "evict-pod-resourceclaim-podgroup",
                vec![
                    add(tainted()),
                    add(second()),
                    add(of_group()),
                    add(grouped(named())),
                ],
            )
        },
        Case {
            pod_groups: true,
            ..kept(
                "no-evict-pod-in-podgroup-without-claim",
                vec![
                    add(tainted()),
                    add(second()),
                    add(of_group()),
                    add(with(grouped(named()), "/spec/resourceClaims", json!([]))),
                ],
            )
        },
        Case {
            initial: vec![add(named()), add(tainted()), add(second()), add(in_use())],
            cancels: true,
            ..evicted(
                "evict-pod-resourceclaim-again",
                vec![[remove(tainted()), add(tainted())].concat()],
            )
        },
        Case {
            initial: vec![
                add(unscheduled()),
                add(tainted()),
                add(second()),
                add(in_use()),
            ],
            ..evicted(
                "evict-pod-after-scheduling",
                vec![update(unscheduled(), named())],
            )
        },
        Case {
            initial: vec![add(named()), add(tainted()), add(second()), add(in_use())],
            ..evicted(
                "evict-pod-resourceclaim-unrelated-changes",
                vec![
                    update(tainted(), extended()),
                    update(in_use(), in_use()),
                    update(named(), named()),
                ],
            )
        },
        evicted(
            "evict-pod-resourceclaimtemplate",
            vec![
                add(tainted()),
                add(second()),
                add(in_use()),
                add(in_status()),
            ],
        ),
        Case {
            claims: at(Some((HOUR, 1))),
            pending: vec![("1234", HOUR)],
            ..base(
                "evict-pod-later",
                vec![add(tainted()), add(second()), add(hour()), add(named())],
            )
        },
        Case {
            claims: at(Some((30, 1))),
            pending: vec![("1234", 30)],
            ..base(
                "evict-pod-later-many",
                vec![
                    add(tainted()),
                    add(second()),
                    add(tolerating(json!([
                        {"key": "example.com/taint-other", "operator": "Equal", "value": VALUE, "effect": "NoExecute", "tolerationSeconds": 20},
                        tolerates(Some(60)),
                        tolerates(Some(30)),
                    ]))),
                    add(named()),
                ],
            )
        },
        evicted(
            "evict-pod-toleration-mismatch",
            vec![
                add(tainted()),
                add(second()),
                add(tolerating(
                    json!([{"key": "example.com/taint-other", "operator": "Equal", "value": VALUE, "effect": "NoExecute", "tolerationSeconds": 60}]),
                )),
                add(named()),
            ],
        ),
        base(
            "no-evict-pod-toleration-forever",
            vec![
                add(tainted()),
                add(second()),
                add(tolerating(json!([tolerates(None)]))),
                add(named()),
            ],
        ),
        base(
            "no-evict-pod-toleration-forever-many",
            vec![
                add(tainted()),
                add(second()),
                add(tolerating(json!([tolerates(Some(60)), tolerates(None)]))),
                add(named()),
            ],
        ),
        evicted(
            "evict-pod-partial-toleration",
            vec![
                add(slice_with(json!([
                    taint(KEY, "", "NoExecute"),
                    taint("example.com/taint-other", "", "NoExecute"),
                ]))),
                add(second()),
                add(tolerating(
                    json!([{"key": KEY, "operator": "Exists", "effect": "NoExecute"}]),
                )),
                add(named()),
            ],
        ),
        kept(
            "no-evict-pod-not-scheduled",
            vec![
                add(tainted()),
                add(second()),
                add(in_use()),
                add(unscheduled()),
            ],
        ),
        Case {
            slices: vec![SLICE],
            ..base(
                "no-evict-no-taint",
                vec![add(simple()), add(in_use()), add(named())],
            )
        },
        Case {
            initial: vec![add(named()), add(simple()), add(in_use())],
            slices: vec![SLICE],
            ..base("no-evict-no-taint-update", vec![update(simple(), simple())])
        },
        kept(
            "no-evict-pod-resourceclaimtemplate-no-status",
            vec![
                add(tainted()),
                add(second()),
                add(in_use()),
                add(template()),
            ],
        ),
        kept(
            "no-evict-pod-resourceclaimtemplate-no-claim",
            vec![
                add(tainted()),
                add(second()),
                add(in_use()),
                add(no_claim()),
            ],
        ),
        base(
            "no-evict-other-device",
            vec![
                add(slice(
                    NODE,
                    &[("instance-other", json!([taint(KEY, VALUE, "NoExecute")]))],
                )),
                add(second()),
                add(in_use()),
                add(in_status()),
            ],
        ),
        kept(
            "no-evict-wrong-pod",
            vec![
                add(tainted()),
                add(second()),
                add(in_use()),
                add(namesake()),
            ],
        ),
        Case {
            initial: vec![
                add(namesake()),
                add(tainted()),
                add(second()),
                add(in_use()),
            ],
            ..evicted(
                "evict-wrong-pod-replaced",
                vec![[remove(namesake()), add(named())].concat()],
            )
        },
        cancelled(
            "cancel-eviction-remove-taint",
            vec![update(tainted(), plain())],
        ),
        cancelled(
            "cancel-eviction-reduce-taint",
            vec![update(tainted(), with_effect(tainted(), "NoSchedule"))],
        ),
        Case {
            initial: vec![
                add(in_status()),
                add(with_effect(tainted(), "None")),
                add(second()),
                add(in_use()),
            ],
            ..base("ignore-none-effect", vec![])
        },
        Case {
            initial: vec![
                add(in_status()),
                add(with_effect(tainted(), "unknown-effect")),
                add(second()),
                add(in_use()),
            ],
            ..base("ignore-unknown-effect", vec![])
        },
        Case {
            initial: vec![add(in_status()), add(tainted()), add(second()), add(hour())],
            ..evicted("eviction-change-taint", vec![update(tainted(), other())])
        },
        Case {
            slices: vec![SLICE_2, "worker-some-driver-updated"],
            ..cancelled(
                "cancel-eviction-remove-taint-in-new-slice",
                vec![remove(tainted()), add(replaced())],
            )
        },
        Case {
            slices: vec![SLICE_2],
            ..cancelled("cancel-eviction-remove-slice", vec![remove(tainted())])
        },
        Case {
            initial: vec![
                add(named()),
                add(tainted()),
                add(second()),
                add(tolerating(json!([tolerates(Some(60))]))),
            ],
            claims: at(Some((60, 1))),
            ..base("cancel-eviction-pod-deletion", vec![remove(named())])
        },
        kept(
            "no-evict-wrong-resourceclaim",
            vec![
                add(tainted()),
                add(second()),
                add(foreign()),
                add(in_status()),
            ],
        ),
        Case {
            initial: vec![
                add(in_status()),
                add(tainted()),
                add(second()),
                add(foreign()),
            ],
            ..evicted(
                "evict-wrong-resourceclaim-replaced",
                vec![[remove(foreign()), add(in_use())].concat()],
            )
        },
        Case {
            claims: vec![],
            ..cancelled(
                "no-evict-resourceclaim-deallocated",
                vec![update(in_use(), unallocated())],
            )
        },
        Case {
            claims: vec![],
            ..cancelled("no-evict-resourceclaim-deleted", vec![remove(in_use())])
        },
    ]
}

/// Upstream: `TestController`. The order of events has no influence on the state after them.
#[test]
fn controller() {
    let cases = cases();
    assert_eq!(cases.len(), 38);
    for case in cases {
        for order in permutations(case.events.len()) {
            let what = format!("{} {order:?}", case.name);
            let mut bubble = Bubble::new(case.pod_groups);
            case.initial.iter().for_each(|step| bubble.apply(step));
            bubble.cancelled.clear();
            order
                .iter()
                .for_each(|event| bubble.apply(&case.events[*event]));

            let slices = bubble.tracker.devices.pools().slices();
            assert_eq!(
                slices,
                case.slices.iter().copied().collect::<BTreeSet<_>>(),
                "{what}"
            );
            let claims = case
                .claims
                .iter()
                .map(|(name, found)| ((*name).to_owned(), *found));
            assert_eq!(bubble.claims(), claims.collect(), "{what}");
            let pending = case
                .pending
                .iter()
                .map(|(uid, seconds)| ((*uid).to_owned(), *seconds));
            assert_eq!(bubble.pending(), pending.collect(), "{what}");
            assert_eq!(bubble.cancelled.len(), usize::from(case.cancels), "{what}");

            // Each waiting pod was queued, and its eviction is due at its time and no second earlier.
            for (pod, eviction) in bubble.tracker.evictions.pending() {
                assert!(bubble.evicting.contains(&pod), "{what}");
                let second = SignedDuration::from_secs(1);
                let early = bubble.tracker.evictions.due(&pod, eviction.at - second);
                assert!(matches!(early, Due::After(_)), "{what}");
                let due = bubble.tracker.evictions.due(&pod, eviction.at);
                assert_eq!(due, Due::Now(Arc::new(eviction)), "{what}");
            }
        }
    }
}

/// Two claims with different times: the earlier one counts, for the reasons of both.
#[test]
fn the_earlier_of_two_claims_counts() {
    let mut bubble = Bubble::new(false);
    let other = claim("other", POD, "1234", json!([tolerates(Some(20))]));
    let device = "/status/allocation/devices/results/0/device";
    let claims = json!([
        {"name": "a", "resourceClaimName": CLAIM}, {"name": "b", "resourceClaimName": "other"},
    ]);
    let devices = [
        ("instance", json!([taint(KEY, VALUE, "NoExecute")])),
        ("instance-2", json!([taint("second", "", "NoExecute")])),
    ];
    for object in [
        slice(NODE, &devices),
        claim(CLAIM, POD, "1234", json!([tolerates(Some(10))])),
        with(other, device, json!("instance-2")),
        with(pod(POD, "1234", CLAIM), "/spec/resourceClaims", claims),
    ] {
        bubble.apply(&add(object));
    }
    let (_, eviction) = bubble.tracker.evictions.pending().pop().unwrap();
    assert_eq!(Bubble::seconds(eviction.at), 10);
    let reasons: Vec<String> = eviction.reasons.iter().map(ToString::to_string).collect();
    let pool = format!("{DRIVER}/{NODE}");
    let expected = [
        format!("{pool}/instance has {KEY}={VALUE}"),
        format!("{pool}/instance-2 has second="),
    ];
    assert_eq!(reasons, expected);
}
