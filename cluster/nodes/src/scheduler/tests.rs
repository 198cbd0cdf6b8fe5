//! Placements of pods on small clusters.

use steersman_objects::Node;

use super::*;

impl Scheduler {
    /// Picks a node for a pod without ResourceClaims.
    fn pick_any(&self, pod: &SimPod) -> Result<Arc<str>, String> {
        self.try_pick(pod).map_err(|unfit| unfit.message)
    }

    fn try_pick(&self, pod: &SimPod) -> Result<Arc<str>, Unfit> {
        self.pick(pod, &VolumeDemand::default(), None)
    }
}

/// A ready node with these labels and these allocatable resources.
fn node(name: &str, labels: Value, allocatable: Value) -> Option<NodeFacts> {
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let json =
        json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}});
    Some(NodeFacts {
        node: Node::decode(json.to_string().as_bytes()).unwrap(),
        unschedulable: false,
        allocatable: Amounts::of(&serde_json::from_value(allocatable).unwrap()),
    })
}

fn ready(name: &str) -> Option<NodeFacts> {
    node(name, json!({}), json!({}))
}

/// A pod with the label `app` and this spec.
fn pod(name: &str, app: &str, spec: Value) -> SimPod {
    let json = json!({
        "metadata": {"name": name, "namespace": "d", "uid": name, "labels": {"app": app}},
        "spec": spec
    });
    SimPod::decode(json.to_string().as_bytes()).unwrap()
}

fn plain() -> SimPod {
    pod("p", "a", json!({}))
}

fn pinned(node: &str) -> SimPod {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    pod("p", "a", json!({ "affinity": affinity }))
}

fn requesting(resource: &str, amount: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {resource: amount}}}]})
}

/// Required affinity or anti-affinity to pods with this label `app`.
fn towards(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// Nodes `a` and `b` in zone 1, and `c` in zone 2.
fn zones() -> Scheduler {
    let scheduler = Scheduler::default();
    for (name, zone) in [("a", "1"), ("b", "1"), ("c", "2")] {
        let labels = json!({"zone": zone, "host": name});
        scheduler.note(name, node(name, labels, json!({})));
    }
    scheduler
}

/// The reasons in the message of a pod that fits nowhere.
fn reasons(scheduler: &Scheduler, pod: &SimPod) -> String {
    let message = scheduler.pick_any(pod).unwrap_err();
    let (_, reasons) = message.split_once("available: ").unwrap();
    reasons.split_once(". no new").unwrap().0.to_owned()
}

#[test]
fn usable_nodes_take_turns() {
    let scheduler = Scheduler::default();
    assert!(scheduler.pick_any(&plain()).is_err());
    for node in ["b", "a", "c"] {
        scheduler.note(node, ready(node));
    }
    let picks = |count: usize| {
        (0..count)
            .filter_map(|_| scheduler.pick_any(&plain()).ok())
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(picks(4), "abca");
    scheduler.note("b", None);
    assert_eq!(picks(3), "cac");
}

#[test]
fn a_pod_that_names_its_node_gets_that_node_only() {
    let scheduler = Scheduler::default();
    for node in ["a", "b", "c"] {
        scheduler.note(node, ready(node));
    }
    assert_eq!(scheduler.pick_any(&pinned("b")).as_deref(), Ok("b"));
    let cordoned = ready("b").map(|facts| NodeFacts {
        unschedulable: true,
        ..facts
    });
    scheduler.note("b", cordoned);
    // (node, reasons)
    let cases = [
        (
            "b",
            "1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]",
        ),
        ("z", "3 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    ];
    for (node, expected) in cases {
        assert_eq!(reasons(&scheduler, &pinned(node)), expected);
    }
}

#[test]
fn a_node_takes_pods_up_to_its_allocatable_resources() {
    let scheduler = Scheduler::default();
    let room = json!({"cpu": "2", "memory": "1Gi", "pods": "3", "example.com/gpu": "1"});
    scheduler.note("a", node("a", json!({}), room));
    let picks = |name: &str, resource: &str, amount: &str| {
        scheduler.pick_any(&pod(name, "x", requesting(resource, amount)))
    };
    assert!(picks("one", "cpu", "1500m").is_ok());
    // (resource, amount, reasons, whether other pods are the cause)
    let cases = [
        ("cpu", "600m", "1 Insufficient cpu", true),
        ("cpu", "3", "1 Insufficient cpu", false),
        ("memory", "2Gi", "1 Insufficient memory", false),
        (
            "example.com/gpu",
            "2",
            "1 Insufficient example.com/gpu",
            false,
        ),
        (
            "example.com/fpga",
            "1",
            "1 Insufficient example.com/fpga",
            false,
        ),
    ];
    for (resource, amount, expected, is_due_to_pods) in cases {
        let message = picks("two", resource, amount).unwrap_err();
        assert!(
            message.contains(&format!("available: {expected}. ")),
            "{message}"
        );
        let tail = if is_due_to_pods {
            "1 No preemption victims found for incoming pod."
        } else {
            "1 Preemption is not helpful for scheduling."
        };
        assert!(message.ends_with(tail), "{message}");
    }
    assert!(picks("two", "example.com/gpu", "1").is_ok());
    assert!(
        picks("three", "cpu", "500m").is_ok(),
        "it uses all of the rest"
    );
    let full = pod("four", "x", requesting("cpu", "1m"));
    assert_eq!(
        reasons(&scheduler, &full),
        "1 Insufficient cpu, 1 Too many pods"
    );
    let one = pod("one", "x", requesting("cpu", "1500m"));
    assert_eq!(scheduler.forget(&one), Some(Change::Room));
    assert!(scheduler.pick_any(&full).is_ok());
}

#[test]
fn a_host_port_is_used_once_per_node() {
    let scheduler = Scheduler::default();
    scheduler.note("a", ready("a"));
    let with = |name: &str, port: Value| {
        pod(
            name,
            "x",
            json!({"containers": [{"name": "c", "ports": [port]}]}),
        )
    };
    assert!(
        scheduler
            .pick_any(&with("one", json!({"hostPort": 80})))
            .is_ok()
    );
    let taken = "1 node(s) didn't have free ports for the requested pod ports";
    // (port, fits)
    let cases = [
        (json!({"hostPort": 80}), false),
        (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), false),
        (json!({"hostPort": 80, "protocol": "UDP"}), true),
        (json!({"hostPort": 81}), true),
        (json!({"containerPort": 80}), true),
    ];
    for (port, fits) in cases {
        let pod = with("two", port);
        if fits {
            assert!(scheduler.pick_any(&pod).is_ok(), "{pod:?}");
            scheduler.forget(&pod);
        } else {
            assert_eq!(reasons(&scheduler, &pod), taken);
        }
    }
}

#[test]
fn affinity_brings_pods_together_and_anti_affinity_keeps_them_apart() {
    let scheduler = zones();
    let near = |name: &str, app: &str| pod(name, "web", towards("podAffinity", app, "zone"));
    let apart =
        |name: &str, app: &str, key: &str| pod(name, app, towards("podAntiAffinity", "db", key));
    let unmet = "3 node(s) didn't match pod affinity rules";
    assert_eq!(reasons(&scheduler, &near("lonely", "db")), unmet);
    // The first of its kind may go anywhere; the others follow it.
    assert_eq!(scheduler.pick_any(&near("w1", "web")).as_deref(), Ok("a"));
    assert_eq!(scheduler.pick_any(&near("w2", "web")).as_deref(), Ok("b"));
    assert_eq!(scheduler.pick_any(&near("w3", "web")).as_deref(), Ok("a"));

    assert_eq!(
        scheduler.pick_any(&apart("d1", "db", "host")).as_deref(),
        Ok("b")
    );
    assert_eq!(
        scheduler.pick_any(&apart("d2", "db", "zone")).as_deref(),
        Ok("c")
    );
    let third = pod("d3", "db", json!({}));
    assert_eq!(
        scheduler.pick_any(&third).as_deref(),
        Ok("a"),
        "only b and zone 2 are closed"
    );
    scheduler.forget(&third);
    assert_eq!(
        reasons(&scheduler, &apart("d4", "db", "zone")),
        "3 node(s) didn't match pod anti-affinity rules"
    );
    scheduler.note("a", None);
    assert_eq!(
        reasons(&scheduler, &third),
        "2 node(s) didn't satisfy existing pods anti-affinity rules"
    );
}

#[test]
fn namespace_selectors_choose_the_pods_of_an_affinity() {
    let scheduler = zones();
    let mut spec = towards("podAntiAffinity", "db", "zone");
    let terms = "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
    spec.pointer_mut(terms).unwrap()["namespaceSelector"] = json!({"matchLabels": {"team": "x"}});
    assert!(scheduler.pick_any(&pod("d", "db", json!({}))).is_ok());
    let picky = pod("p", "web", spec);
    assert_eq!(
        scheduler.pick_any(&picky).as_deref(),
        Ok("b"),
        "no namespace matches"
    );
    let labels = Labels::new([("team", "x")]);
    scheduler.note_namespace("d", Some(&labels));
    assert_eq!(scheduler.pick_any(&picky).as_deref(), Ok("c"));
}

#[test]
fn spread_keeps_the_difference_of_domains_small() {
    let scheduler = zones();
    let spread = |name: &str, key: &str, min: Option<u32>| {
        let constraint = json!({
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "minDomains": min,
            "labelSelector": {"matchLabels": {"app": "web"}}
        });
        pod(
            name,
            "web",
            json!({"topologySpreadConstraints": [constraint]}),
        )
    };
    let picks: Vec<_> = ["1", "2", "3", "4"]
        .iter()
        .map(|name| scheduler.pick_any(&spread(name, "zone", None)).unwrap())
        .collect();
    let zone = |node: &Arc<str>| if **node == *"c" { 2 } else { 1 };
    assert_eq!(picks.iter().map(zone).collect::<Vec<_>>(), [1, 2, 1, 2]);
    assert_eq!(
        reasons(&scheduler, &spread("5", "rack", None)),
        "3 node(s) didn't match pod topology spread constraints (missing required label)"
    );
    assert_eq!(
        reasons(&scheduler, &spread("5", "zone", Some(3))),
        "3 node(s) didn't match pod topology spread constraints"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_pods_return_by_priority_after_their_back_off() {
    let scheduler = Scheduler::default();
    let waits = |name: &str, spec: Value| {
        let pod = pod(name, "a", spec);
        scheduler.pick_any(&pod).unwrap_err();
    };
    waits("low", json!({"priority": 1}));
    waits("high", json!({"priority": 9}));
    waits("near", towards("podAffinity", "db", "zone"));
    let released = |change| -> Vec<(String, u64)> {
        let released = scheduler.release_waiting(change).into_iter();
        released
            .map(|(key, wait)| (key.name.to_string(), wait.as_secs()))
            .collect()
    };
    let pair = |name: &str, seconds| (name.to_owned(), seconds);
    assert_eq!(released(Change::Pod), [pair("near", 1)]);
    let both = [pair("high", 1), pair("low", 1)];
    assert_eq!(released(Change::Room), both);
    assert_eq!(released(Change::Room), [], "they are on their way");
    for expected in [2, 4, 8, 10, 10] {
        waits("low", json!({"priority": 1}));
        assert_eq!(released(Change::Room), [pair("low", expected)]);
    }
    waits("low", json!({"priority": 1}));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(released(Change::Room), [pair("low", 0)]);
}

#[test]
fn pods_count_on_the_node_that_the_informer_shows() {
    let scheduler = Scheduler::default();
    scheduler.note("a", node("a", json!({}), json!({"pods": "1"})));
    let on = |phase: &str| {
        let json = json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "p"},
            "spec": {"nodeName": "a"}, "status": {"phase": phase}
        });
        SimPod::decode(json.to_string().as_bytes()).unwrap()
    };
    assert_eq!(scheduler.observe(&on("Running")), Some(Change::Pod));
    assert_eq!(scheduler.observe(&on("Running")), None, "nothing changed");
    let other = pod("q", "a", json!({}));
    assert_eq!(reasons(&scheduler, &other), "1 Too many pods");
    assert_eq!(scheduler.observe(&on("Succeeded")), Some(Change::Room));
    assert!(scheduler.pick_any(&other).is_ok());
}

/// A pod of this priority that requests this much cpu.
fn ranked(name: &str, priority: i32, cpu: &str) -> SimPod {
    let mut spec = requesting("cpu", cpu);
    spec["priority"] = json!(priority);
    pod(name, "x", spec)
}

/// The pod on a node, with these further fields.
fn bound(name: &str, node: &str, priority: i32, cpu: &str, extra: Value) -> SimPod {
    let mut json = json!({
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": requesting("cpu", cpu)
    });
    json["spec"]["nodeName"] = json!(node);
    json["spec"]["priority"] = json!(priority);
    json_patch::merge(&mut json, &extra);
    SimPod::decode(json.to_string().as_bytes()).unwrap()
}

/// The nominated node of a pod that fits nowhere, and the names of its victims.
fn preempts(scheduler: &Scheduler, pod: &SimPod) -> (Option<Arc<str>>, Vec<String>) {
    let unfit = scheduler.try_pick(pod).unwrap_err();
    let names = unfit.preemption.victims.iter();
    let names = names.map(|(key, _)| key.name.to_string());
    (unfit.nominated, names.collect())
}

fn started(second: u8) -> Value {
    json!({"status": {"startTime": format!("2026-01-01T00:00:{second:02}Z")}})
}

#[test]
fn a_pod_preempts_the_least_important_pods_that_free_its_room() {
    let none = || json!({});
    // (why, pods as name, node, priority, cpu and more, cpu of the pod, node, victims)
    let cases = [
        (
            "the lowest priority",
            vec![("u", "a", 2, "2", none()), ("v", "b", 1, "2", none())],
            "1",
            "b",
            vec!["v"],
        ),
        (
            "pods are given back, from the most important one",
            vec![
                ("u", "a", 3, "1", none()),
                ("v", "a", 1, "500m", none()),
                ("w", "a", 2, "500m", none()),
                ("x", "b", 9, "2", none()),
            ],
            "700m",
            "a",
            vec!["w", "v"],
        ),
        (
            "an older pod is more important",
            vec![
                ("u", "a", 1, "1", started(7)),
                ("v", "a", 1, "1", started(5)),
                ("x", "b", 9, "2", none()),
            ],
            "1",
            "a",
            vec!["u"],
        ),
        (
            "a smaller sum of priorities",
            vec![
                ("u", "a", 2, "1", none()),
                ("v", "a", 2, "1", none()),
                ("w", "b", 2, "1", none()),
                ("x", "b", 1, "1", none()),
            ],
            "2",
            "b",
            vec!["w", "x"],
        ),
        (
            "fewer victims, though of negative priorities",
            vec![
                ("u", "a", -2, "1", none()),
                ("v", "a", -2, "1", none()),
                ("w", "b", -2, "2", none()),
            ],
            "2",
            "b",
            vec!["w"],
        ),
        (
            "a later start",
            vec![
                ("u", "a", 1, "2", started(5)),
                ("v", "b", 1, "2", started(7)),
            ],
            "1",
            "b",
            vec!["v"],
        ),
        (
            "the first name of equals",
            vec![("u", "b", 1, "2", none()), ("v", "a", 1, "2", none())],
            "1",
            "a",
            vec!["v"],
        ),
    ];
    for (why, pods, cpu, node_name, victims) in cases {
        let scheduler = Scheduler::default();
        for name in ["a", "b"] {
            let room = json!({"cpu": "2", "pods": "9"});
            scheduler.note(name, node(name, json!({}), room));
        }
        for (name, on, priority, cpu, extra) in pods {
            scheduler.observe(&bound(name, on, priority, cpu, extra));
        }
        let loads = |scheduler: &Scheduler| {
            let state = scheduler.state();
            format!("{:?}", state.places)
        };
        let before = loads(&scheduler);
        let high = ranked("high", 9, cpu);
        let (nominated, found) = preempts(&scheduler, &high);
        assert_eq!(nominated.as_deref(), Some(node_name), "{why}");
        assert_eq!(found, victims, "{why}");
        assert_eq!(loads(&scheduler), before, "{why}");
    }
}

/// A PodDisruptionBudget for the pods with this label `app`.
fn budget(app: &str, allowed: i32) -> Arc<PodDisruptionBudget> {
    let json = json!({
        "metadata": {"name": app, "namespace": "d", "uid": app},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed}
    });
    Arc::new(PodDisruptionBudget::decode(json.to_string().as_bytes()).unwrap())
}

#[test]
fn preemption_spares_disruption_budgets_if_it_can() {
    let of = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    // (why, pods as name, node, priority, cpu and more, allowed disruptions of `web`, cpu of the pod, node,
    // victims)
    let cases = [
        (
            "a node with fewer broken budgets, though of a higher priority",
            vec![("u", "a", 1, "2", of("web")), ("v", "b", 5, "2", of("db"))],
            0,
            "1",
            "b",
            vec!["v"],
        ),
        (
            "a budget with room is no obstacle",
            vec![("u", "a", 1, "2", of("web")), ("v", "b", 5, "2", of("db"))],
            1,
            "1",
            "a",
            vec!["u"],
        ),
        (
            "pods of a budget are given back first",
            vec![
                ("u", "a", 5, "1", of("db")),
                ("v", "a", 1, "1", of("web")),
                ("x", "b", 9, "2", of("db")),
            ],
            0,
            "1",
            "a",
            vec!["u"],
        ),
        (
            "budgets break if nothing else helps, victims by importance",
            vec![
                ("u", "a", 1, "1", of("web")),
                ("v", "a", 5, "1", of("db")),
                ("x", "b", 9, "2", of("db")),
            ],
            0,
            "2",
            "a",
            vec!["v", "u"],
        ),
        (
            "one broken budget rather than two",
            vec![
                ("u", "a", 1, "1", of("web")),
                ("v", "a", 1, "1", of("web")),
                ("w", "b", 2, "1", of("web")),
                ("x", "b", 3, "1", of("db")),
            ],
            0,
            "2",
            "b",
            vec!["x", "w"],
        ),
    ];
    for (why, pods, allowed, cpu, node_name, victims) in cases {
        let scheduler = Scheduler::default();
        for name in ["a", "b"] {
            let room = json!({"cpu": "2", "pods": "9"});
            scheduler.note(name, node(name, json!({}), room));
        }
        for (name, on, priority, cpu, extra) in pods {
            scheduler.observe(&bound(name, on, priority, cpu, extra));
        }
        scheduler.note_budget(&budget("web", allowed));
        let (nominated, found) = preempts(&scheduler, &ranked("high", 9, cpu));
        assert_eq!(nominated.as_deref(), Some(node_name), "{why}");
        assert_eq!(found, victims, "{why}");
    }
}

#[test]
fn pods_without_a_use_for_preemption_preempt_nothing() {
    let scheduler = Scheduler::default();
    let room = json!({"cpu": "2", "pods": "9"});
    scheduler.note("a", node("a", json!({}), room));
    scheduler.observe(&bound("low", "a", 1, "500m", json!({})));
    scheduler.observe(&bound("high", "a", 9, "1", json!({})));
    let mut never = requesting("cpu", "1");
    never["priority"] = json!(5);
    never["preemptionPolicy"] = json!("Never");
    // (pod, end of the message)
    let cases = [
        (
            pod("p", "x", never),
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            ranked("p", 1, "1"),
            "1 No preemption victims found for incoming pod.",
        ),
        (
            ranked("p", 5, "1500m"),
            "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            ranked("p", 5, "3"),
            "1 Preemption is not helpful for scheduling.",
        ),
    ];
    for (pod, end) in cases {
        let unfit = scheduler.try_pick(&pod).unwrap_err();
        assert!(unfit.message.ends_with(end), "{}", unfit.message);
        assert!(unfit.nominated.is_none() && unfit.preemption.victims.is_empty());
    }
}

#[test]
fn rules_about_other_pods_count_without_the_victims() {
    let scheduler = Scheduler::default();
    scheduler.note("a", node("a", json!({"host": "a"}), json!({})));
    scheduler.observe(&bound(
        "db",
        "a",
        0,
        "1",
        json!({"metadata": {"labels": {"app": "db"}}}),
    ));
    scheduler.observe(&bound("other", "a", 0, "1", json!({})));
    let mut spec = towards("podAntiAffinity", "db", "host");
    spec["priority"] = json!(1);
    let (nominated, victims) = preempts(&scheduler, &pod("p", "x", spec));
    assert_eq!(nominated.as_deref(), Some("a"));
    assert_eq!(victims, ["db"], "the other pod is given back");
}

#[test]
fn the_room_of_a_nominated_pod_is_kept_against_lower_priorities() {
    let scheduler = Scheduler::default();
    let room = json!({"cpu": "2", "pods": "9"});
    scheduler.note("a", node("a", json!({}), room));
    let low = |extra: Value| bound("low", "a", 1, "2", extra);
    scheduler.observe(&low(json!({})));
    let high = ranked("high", 5, "2");
    assert_eq!(preempts(&scheduler, &high).1, ["low"]);

    let condition =
        json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
    let ending = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": [condition]}
    });
    scheduler.observe(&low(ending.clone()));
    let unfit = scheduler.try_pick(&high).unwrap_err();
    let waits = "not eligible due to a terminating pod on the nominated node.";
    assert!(unfit.message.ends_with(waits), "{}", unfit.message);
    assert_eq!(unfit.nominated.as_deref(), Some("a"));

    assert_eq!(scheduler.forget(&low(ending)), Some(Change::Room));
    let released = scheduler.release_waiting(Change::Room);
    assert_eq!(
        released,
        [(high.key(), Duration::ZERO)],
        "its room is free now"
    );
    let middle = ranked("middle", 4, "1");
    assert_eq!(reasons(&scheduler, &middle), "1 Insufficient cpu");
    let top = ranked("top", 6, "1");
    assert_eq!(
        scheduler.pick_any(&top).as_deref(),
        Ok("a"),
        "only lower priorities leave the room"
    );
    scheduler.forget(&top);
    assert_eq!(scheduler.pick_any(&high).as_deref(), Ok("a"));
    scheduler.forget(&high);
    assert_eq!(
        scheduler.pick_any(&middle).as_deref(),
        Ok("a"),
        "the nomination has ended"
    );
}

#[test]
fn a_higher_pod_takes_over_the_nomination_of_a_node() {
    let scheduler = Scheduler::default();
    let room = json!({"cpu": "2", "pods": "9"});
    scheduler.note("a", node("a", json!({}), room));
    scheduler.observe(&bound("low", "a", 1, "2", json!({})));
    assert_eq!(preempts(&scheduler, &ranked("middle", 5, "2")).1, ["low"]);
    let unfit = scheduler.try_pick(&ranked("high", 9, "2")).unwrap_err();
    let outranked: Vec<&str> = unfit
        .preemption
        .outranked
        .iter()
        .map(|key| &*key.name)
        .collect();
    assert_eq!(outranked, ["middle"]);
    let middle = scheduler.try_pick(&ranked("middle", 5, "2")).unwrap_err();
    assert_eq!(middle.nominated, None, "the room is no longer its own");
}
