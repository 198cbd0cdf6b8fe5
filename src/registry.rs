//! The table of controllers, and the selection by `--controllers`.
//!
//! The names of the controllers of clouds are accepted too, as upstream. Upstream: `NewControllerDescriptors` in
//! `cmd/kube-controller-manager/app`, and `IsControllerEnabled` in `k8s.io/controller-manager/app`.

use steersman_releases::{Release, gates_of};
use steersman_runtime::controller::Descriptor;

/// An item of `--controllers` that names no known controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not in the list of known controllers")]
pub struct UnknownController(pub String);

/// The table of controllers: those of Steersman, and those that a user of the library adds.
#[derive(Debug, Clone)]
pub struct ControllerRegistry {
    descriptors: Vec<Descriptor>,
    /// Whether `--controllers` decides about the token controller, too.
    is_token_controller_optional: bool,
}

/// The result of evaluating `--controllers`.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The token controller, if the table has it. It runs if there is a private key, and is built before all others.
    /// `--controllers` decides about it up to 1.34 only.
    pub tokens: Option<Descriptor>,
    /// Other controllers to run, in the order of the table.
    pub enabled: Vec<Descriptor>,
    /// Controllers of the table, and of clouds, that are not selected.
    pub disabled: Vec<&'static str>,
    /// Selected controllers of the table whose feature gate is off.
    pub gated: Vec<&'static str>,
    /// Selected controllers of clouds that the table lacks. This manager has them only by name, as
    /// upstream's.
    pub of_clouds: Vec<&'static str>,
    /// The items with aliases replaced by canonical names.
    pub canonical: Vec<String>,
}

impl Selection {
    /// The reason if no controller is left to run. The token controller runs if the list names it;
    /// whether it has a private key shows only after the connection.
    pub fn nothing_to_run(&self) -> Option<String> {
        if !self.enabled.is_empty() || self.canonical.iter().any(|item| item == TOKENS) {
            return None;
        }
        if !self.of_clouds.is_empty() {
            return Some(format!(
                "managers of clouds run {}",
                self.of_clouds.join(", ")
            ));
        }
        if let Some(name) = self.gated.first() {
            let gates = gates_of(name).iter().map(|gate| format!("{gate}=true"));
            let gates: Vec<_> = gates.collect();
            return Some(format!("{name} needs --feature-gates={}", gates.join(",")));
        }
        Some("the list names only controllers that are not to run; begin it with *".to_owned())
    }

    /// The log lines about controllers that do not run, in upstream's words.
    pub fn notices(&self) -> Vec<Notice> {
        let line = |controller: &'static str, message: &'static str| Notice {
            controller,
            message,
            gates: &[],
        };
        let skipped = |name| line(name, "Warning: skipping controller");
        let mut lines = Vec::new();
        for name in &self.disabled {
            lines.push(line(name, "Warning: controller is disabled"));
        }
        for name in &self.gated {
            if *name != ASKS_ITSELF {
                lines.push(Notice {
                    gates: gates_of(name),
                    ..line(name, "Controller is disabled by a feature gate")
                });
            }
            lines.push(skipped(name));
        }
        for name in &self.of_clouds {
            lines.push(line(name, "Skipping a cloud provider controller"));
            lines.push(skipped(name));
        }
        lines
    }
}

/// A log line about a controller that does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The controller.
    pub controller: &'static str,
    /// The message.
    pub message: &'static str,
    /// The feature gates that the controller needs, if one of them is off.
    pub gates: &'static [&'static str],
}

impl ControllerRegistry {
    /// The controllers that Steersman ships with.
    pub fn builtin() -> Self {
        Self {
            descriptors: steersman_controllers::ALL.to_vec(),
            ..Self::empty()
        }
    }

    /// A registry without controllers.
    pub fn empty() -> Self {
        Self {
            descriptors: Vec::new(),
            is_token_controller_optional: false,
        }
    }

    /// Adds a controller. `--controllers`, help and health checks then include it.
    ///
    /// # Panics
    /// Panics if another controller has its name or one of its aliases.
    #[must_use]
    pub fn with(mut self, descriptor: Descriptor) -> Self {
        for name in std::iter::once(&descriptor.name).chain(descriptor.aliases) {
            assert!(
                self.find(name).is_none(),
                "two controllers are called {name}"
            );
        }
        self.descriptors.push(descriptor);
        self
    }

    /// The controllers of the table that `release` has.
    pub(crate) fn at(&self, release: Release) -> Self {
        let mut at_release = self.clone();
        at_release
            .descriptors
            .retain(|descriptor| release.has_controller(descriptor.name));
        at_release.is_token_controller_optional = !release.runs_token_controller_always();
        at_release
    }

    fn find(&self, name: &str) -> Option<&Descriptor> {
        self.descriptors
            .iter()
            .find(|d| d.name == name || d.aliases.contains(&name))
    }

    /// Whether the table has a controller of this canonical name.
    pub fn has(&self, name: &str) -> bool {
        self.descriptors.iter().any(|d| d.name == name)
    }

    /// Canonical names, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        sorted(self.descriptors.iter())
    }

    /// Canonical names of the controllers that `*` does not select, sorted.
    pub fn names_off_by_default(&self) -> Vec<&'static str> {
        sorted(self.descriptors.iter().filter(|d| !d.enabled_by_default))
    }

    /// Names and aliases of the controllers of clouds that the table lacks, sorted. `--controllers`
    /// accepts them too.
    pub fn names_of_clouds(&self) -> Vec<&'static str> {
        let all = OF_CLOUDS.iter().flat_map(|(name, alias)| [*name, *alias]);
        let mut names: Vec<_> = all.filter(|name| self.find(name).is_none()).collect();
        names.sort_unstable();
        names
    }

    /// The canonical name of a controller, by name or alias, of the table or of clouds.
    fn canonical(&self, name: &str) -> Option<&'static str> {
        let mut of_clouds = OF_CLOUDS.iter();
        self.find(name).map(|d| d.name).or_else(|| {
            let found = of_clouds.find(|(canonical, alias)| [*canonical, *alias].contains(&name));
            found.map(|(canonical, _)| *canonical)
        })
    }

    /// Evaluates the items of `--controllers`. The first item that names a controller decides for
    /// it, and `*` decides for the others. `is_on` tells whether a feature gate is on: upstream
    /// builds some controllers only with their gate.
    pub fn select(
        &self,
        items: &[String],
        is_on: impl Fn(&str) -> bool,
    ) -> Result<Selection, Vec<UnknownController>> {
        let mut selection = Selection::default();
        let mut unknown = Vec::new();
        let mut named: Vec<(&'static str, bool)> = Vec::new();
        let mut star = false;
        for item in items {
            if item == "*" {
                star = true;
                selection.canonical.push(item.clone());
                continue;
            }
            let (name, on) = item
                .strip_prefix('-')
                .map_or((item.as_str(), true), |name| (name, false));
            match self.canonical(name) {
                Some(canonical) => {
                    named.push((canonical, on));
                    selection
                        .canonical
                        .push(format!("{}{canonical}", if on { "" } else { "-" }));
                }
                None => unknown.push(UnknownController(name.to_owned())),
            }
        }
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let decided = |name: &str| {
            named
                .iter()
                .find(|(named, _)| *named == name)
                .map(|(_, on)| *on)
        };
        let has_gate = |name: &str| gates_of(name).iter().all(|gate| is_on(gate));
        for descriptor in &self.descriptors {
            let is_selected =
                decided(descriptor.name).unwrap_or(star && descriptor.enabled_by_default);
            let is_tokens = descriptor.name == TOKENS;
            if is_tokens && (is_selected || !self.is_token_controller_optional) {
                selection.tokens = Some(*descriptor);
            } else if !is_selected {
                selection.disabled.push(descriptor.name);
            } else if has_gate(descriptor.name) {
                selection.enabled.push(*descriptor);
            } else {
                selection.gated.push(descriptor.name);
            }
            if descriptor.name == TAINT_EVICTION && !has_gate(TAINT_EVICTION) {
                // Upstream: "Running TaintEvictionController as part of NodeLifecycleController".
                let is_part = decided(NODE_LIFECYCLE).unwrap_or(star) && self.has(NODE_LIFECYCLE);
                selection.enabled.extend(is_part.then_some(*descriptor));
            }
        }
        let of_clouds = OF_CLOUDS.iter().map(|(name, _)| *name);
        for name in of_clouds.filter(|name| !self.has(name)) {
            let list = if decided(name).unwrap_or(star) {
                &mut selection.of_clouds
            } else {
                &mut selection.disabled
            };
            list.push(name);
        }
        Ok(selection)
    }
}

impl Default for ControllerRegistry {
    fn default() -> Self {
        Self::builtin()
    }
}

fn sorted<'a>(descriptors: impl Iterator<Item = &'a Descriptor>) -> Vec<&'static str> {
    let mut names: Vec<_> = descriptors.map(|d| d.name).collect();
    names.sort_unstable();
    names
}

/// Without the gate `SeparateTaintEvictionController`, the first one is a part of the second one.
const TAINT_EVICTION: &str = "taint-eviction-controller";
const NODE_LIFECYCLE: &str = "node-lifecycle-controller";

/// The controller that upstream marks with `requiresSpecialHandling`.
const TOKENS: &str = "serviceaccount-token-controller";

/// Controllers that upstream's manager only has by name, with their aliases; cloud providers' managers
/// run them.
const OF_CLOUDS: &[(&str, &str)] = &[
    ("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    ("node-route-controller", "route"),
    ("service-lb-controller", "service"),
];

/// Upstream's constructor of this controller asks for the gate, not its descriptor. So there is no
/// log line about the gate.
const ASKS_ITSELF: &str = "storage-version-migrator-controller";

#[cfg(test)]
mod tests {
    use super::*;

    /// All controllers of Kubernetes 1.36 with their alias, or `""`.
    const UPSTREAM: &[(&str, &str)] = &[
        ("bootstrap-signer-controller", "bootstrapsigner"),
        (
            "certificatesigningrequest-approving-controller",
            "csrapproving",
        ),
        ("certificatesigningrequest-cleaner-controller", "csrcleaner"),
        ("certificatesigningrequest-signing-controller", "csrsigning"),
        ("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
        (
            "clusterrole-aggregation-controller",
            "clusterrole-aggregation",
        ),
        ("cronjob-controller", "cronjob"),
        ("daemonset-controller", "daemonset"),
        ("deployment-controller", "deployment"),
        ("device-taint-eviction-controller", ""),
        ("disruption-controller", "disruption"),
        ("endpoints-controller", "endpoint"),
        ("endpointslice-controller", "endpointslice"),
        (
            "endpointslice-mirroring-controller",
            "endpointslicemirroring",
        ),
        ("ephemeral-volume-controller", "ephemeral-volume"),
        ("garbage-collector-controller", "garbagecollector"),
        (
            "horizontal-pod-autoscaler-controller",
            "horizontalpodautoscaling",
        ),
        ("job-controller", "job"),
        (
            "kube-apiserver-serving-clustertrustbundle-publisher-controller",
            "",
        ),
        (
            "legacy-serviceaccount-token-cleaner-controller",
            "legacy-service-account-token-cleaner",
        ),
        ("namespace-controller", "namespace"),
        ("node-ipam-controller", "nodeipam"),
        ("node-lifecycle-controller", "nodelifecycle"),
        ("node-route-controller", "route"),
        ("persistentvolume-attach-detach-controller", "attachdetach"),
        (
            "persistentvolume-binder-controller",
            "persistentvolume-binder",
        ),
        (
            "persistentvolume-expander-controller",
            "persistentvolume-expander",
        ),
        ("persistentvolume-protection-controller", "pv-protection"),
        (
            "persistentvolumeclaim-protection-controller",
            "pvc-protection",
        ),
        ("pod-garbage-collector-controller", "podgc"),
        ("podcertificaterequest-cleaner-controller", ""),
        ("podgroup-protection-controller", ""),
        ("replicaset-controller", "replicaset"),
        ("replicationcontroller-controller", "replicationcontroller"),
        ("resourceclaim-controller", "resource-claim-controller"),
        ("resourcepoolstatusrequest-controller", ""),
        ("resourcequota-controller", "resourcequota"),
        (
            "root-ca-certificate-publisher-controller",
            "root-ca-cert-publisher",
        ),
        ("selinux-warning-controller", ""),
        ("service-cidr-controller", ""),
        ("service-lb-controller", "service"),
        ("serviceaccount-controller", "serviceaccount"),
        ("serviceaccount-token-controller", "serviceaccount-token"),
        ("statefulset-controller", "statefulset"),
        ("storage-version-migrator-controller", "svm"),
        (
            "storageversion-garbage-collector-controller",
            "storage-version-gc",
        ),
        ("taint-eviction-controller", ""),
        ("token-cleaner-controller", "tokencleaner"),
        ("ttl-after-finished-controller", "ttl-after-finished"),
        ("ttl-controller", "ttl"),
        ("validatingadmissionpolicy-status-controller", ""),
        ("volumeattributesclass-protection-controller", ""),
    ];

    /// Upstream: `ControllersDisabledByDefault`.
    const OFF_BY_DEFAULT: [&str; 3] = [
        "bootstrap-signer-controller",
        "selinux-warning-controller",
        "token-cleaner-controller",
    ];

    const fn controller(
        name: &'static str,
        aliases: &'static [&'static str],
        enabled_by_default: bool,
    ) -> Descriptor {
        Descriptor {
            name,
            aliases,
            enabled_by_default,
            summary: "",
            identity: name,
            rules: &[],
            reads: &[],
            init: |_| unreachable!("only names matter here"),
        }
    }

    fn registry() -> ControllerRegistry {
        ControllerRegistry::empty()
            .with(controller("deployment-controller", &["deployment"], true))
            .with(controller("replicaset-controller", &["replicaset"], true))
            .with(controller(
                "token-cleaner-controller",
                &["tokencleaner"],
                false,
            ))
    }

    fn items(list: &str) -> Vec<String> {
        list.split_terminator(',').map(str::to_owned).collect()
    }

    #[test]
    fn the_first_item_that_names_a_controller_decides_for_it() {
        let d = "deployment-controller";
        let r = "replicaset-controller";
        let t = "token-cleaner-controller";
        // (why, list, enabled)
        let cases: [(&str, &str, &[&str]); 11] = [
            ("the default", "*", &[d, r]),
            ("nothing", "", &[]),
            ("one, by name", "deployment-controller", &[d]),
            ("one, by alias", "deployment", &[d]),
            ("all but one", "*,-deployment", &[r]),
            (
                "all but one, in any order",
                "-deployment-controller,*",
                &[r],
            ),
            ("one that is off by default", "*,tokencleaner", &[d, r, t]),
            ("off, then on", "-deployment,deployment", &[]),
            ("on, then off", "deployment,-deployment-controller", &[d]),
            ("only off", "-deployment", &[]),
            ("names of clouds", "*,route,-service", &[d, r]),
        ];
        for (why, list, enabled) in cases {
            let selection = registry().select(&items(list), |_| false).unwrap();
            assert_eq!(
                selection.enabled.iter().map(|d| d.name).collect::<Vec<_>>(),
                enabled,
                "{why}: {list}"
            );
            let all =
                selection.enabled.len() + selection.disabled.len() + selection.of_clouds.len();
            assert_eq!(all, 3 + OF_CLOUDS.len(), "{why}");
        }
    }

    #[test]
    fn no_item_of_the_list_turns_the_token_controller_off() {
        let registry = registry().with(controller(TOKENS, &["serviceaccount-token"], true));
        for list in ["*", "", "deployment", "-serviceaccount-token", TOKENS] {
            let selection = registry.select(&items(list), |_| true).unwrap();
            assert!(selection.tokens.is_some(), "{list}");
            let lists = [selection.disabled, selection.gated];
            let enabled = selection.enabled.iter().map(|descriptor| descriptor.name);
            assert!(
                !lists
                    .concat()
                    .into_iter()
                    .chain(enabled)
                    .any(|name| name == TOKENS)
            );
        }
    }

    #[test]
    fn the_list_turns_the_token_controller_off_up_to_1_34() {
        let registry = registry().with(controller(TOKENS, &["serviceaccount-token"], true));
        // (list, runs up to 1.34)
        let cases = [
            ("*", true),
            ("*,-serviceaccount-token", false),
            ("deployment", false),
            ("serviceaccount-token", true),
        ];
        for (list, runs) in cases {
            for release in Release::known() {
                let selection = registry.at(release).select(&items(list), |_| true).unwrap();
                let expected = runs || release.minor() >= 35;
                assert_eq!(selection.tokens.is_some(), expected, "{list} in {release}");
                let is_told = selection
                    .notices()
                    .iter()
                    .any(|line| line.controller == TOKENS);
                assert_eq!(is_told, !expected, "{list} in {release}");
            }
        }
    }

    #[test]
    fn a_list_without_a_controller_to_run_has_a_true_reason() {
        let gated = "podcertificaterequest-cleaner-controller";
        let registry = registry()
            .with(controller(TOKENS, &["serviceaccount-token"], true))
            .with(controller(gated, &[], true));
        let only_off = "the list names only controllers that are not to run; begin it with *";
        // (list, reason)
        let cases = [
            ("deployment", None),
            ("serviceaccount-token", None),
            (TOKENS, None),
            ("-deployment,serviceaccount-token", None),
            ("-serviceaccount-token", Some(only_off)),
            (
                "route",
                Some("managers of clouds run node-route-controller"),
            ),
            (
                gated,
                Some(
                    "podcertificaterequest-cleaner-controller needs \
                     --feature-gates=PodCertificateRequest=true",
                ),
            ),
        ];
        for (list, expected) in cases {
            let selection = registry.select(&items(list), |_| false).unwrap();
            assert_eq!(selection.nothing_to_run().as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn a_controller_needs_its_feature_gate() {
        let name = "device-taint-eviction-controller";
        let registry = registry().with(controller(name, &[], true));
        for list in ["*", name] {
            let select = |is_on: bool| registry.select(&items(list), |_| is_on).unwrap();
            let is_enabled =
                |selection: &Selection| selection.enabled.iter().any(|found| found.name == name);
            assert!(
                is_enabled(&select(true)) && select(true).gated.is_empty(),
                "{list}"
            );
            let off = select(false);
            assert!(!is_enabled(&off) && off.gated == [name], "{list}");
            let notices = off.notices();
            let of_name = notices.iter().filter(|notice| notice.controller == name);
            let lines: Vec<_> = of_name
                .map(|notice| (notice.message, notice.gates))
                .collect();
            let gates: &[&str] = &["DynamicResourceAllocation", "DRADeviceTaints"];
            let expected = [
                ("Controller is disabled by a feature gate", gates),
                ("Warning: skipping controller", &[]),
            ];
            assert_eq!(lines, expected, "{list}");
        }
    }

    #[test]
    fn without_its_gate_taint_eviction_is_a_part_of_node_lifecycle() {
        let registry = ControllerRegistry::builtin();
        // (list, gate, whether taint eviction runs)
        let cases = [
            ("*", true, true),
            ("*", false, true),
            ("*,-node-lifecycle-controller", true, true),
            ("*,-node-lifecycle-controller", false, false),
            ("*,-taint-eviction-controller", true, false),
            ("*,-taint-eviction-controller", false, true),
            ("node-lifecycle-controller", false, true),
            ("taint-eviction-controller", false, false),
        ];
        for (list, is_on, expected) in cases {
            let is_on = |gate: &str| gate != "SeparateTaintEvictionController" || is_on;
            let selection = registry.select(&items(list), is_on).unwrap();
            let runs = selection.enabled.iter();
            let runs = runs.filter(|found| found.name == TAINT_EVICTION).count();
            assert_eq!(runs, usize::from(expected), "{list}");
        }
    }

    #[test]
    fn older_releases_lack_newer_controllers() {
        let name = "podgroup-protection-controller";
        for (minor, expected) in [(35, false), (36, true)] {
            let registry = ControllerRegistry::builtin().at(Release::of_minor(minor));
            assert_eq!(registry.has(name), expected, "1.{minor}");
            let selected = registry.select(&items(name), |_| true);
            assert_eq!(selected.is_ok(), expected, "1.{minor}");
        }
    }

    #[test]
    fn the_migrator_without_its_gate_is_only_skipped() {
        let registry = registry().with(controller(ASKS_ITSELF, &[], true));
        let selection = registry.select(&items(ASKS_ITSELF), |_| false).unwrap();
        let notices = selection.notices();
        let of_name = notices
            .iter()
            .filter(|notice| notice.controller == ASKS_ITSELF);
        let lines: Vec<_> = of_name.map(|notice| notice.message).collect();
        assert_eq!(lines, ["Warning: skipping controller"]);
    }

    /// Upstream: `TestNoCloudProviderControllerStarted`.
    #[test]
    fn controllers_of_clouds_exist_only_by_name() {
        let skipping = "Skipping a cloud provider controller";
        let warning = "Warning: skipping controller";
        let disabled = "Warning: controller is disabled";
        let lifecycle = "cloud-node-lifecycle-controller";
        let route = "node-route-controller";
        let service = "service-lb-controller";
        // (list, log lines about controllers of clouds)
        let cases: [(&str, &[(&str, &str)]); 3] = [
            (
                "*",
                &[
                    (lifecycle, skipping),
                    (lifecycle, warning),
                    (route, skipping),
                    (route, warning),
                    (service, skipping),
                    (service, warning),
                ],
            ),
            (
                "*,-route,-service-lb-controller",
                &[
                    (route, disabled),
                    (service, disabled),
                    (lifecycle, skipping),
                    (lifecycle, warning),
                ],
            ),
            (
                "deployment,service",
                &[
                    (lifecycle, disabled),
                    (route, disabled),
                    (service, skipping),
                    (service, warning),
                ],
            ),
        ];
        for (list, expected) in cases {
            let selection = registry().select(&items(list), |_| false).unwrap();
            let notices = selection.notices();
            let notices = notices
                .iter()
                .map(|notice| (notice.controller, notice.message));
            let of_clouds = |name: &str| OF_CLOUDS.iter().any(|(of_cloud, _)| *of_cloud == name);
            let lines: Vec<_> = notices.filter(|(name, _)| of_clouds(name)).collect();
            assert_eq!(lines, expected, "{list}");
        }
        let with_loop = registry().with(controller(service, &["service"], true));
        let selection = with_loop.select(&items("*"), |_| false).unwrap();
        assert_eq!(selection.of_clouds, [lifecycle, route]);
        assert!(selection.enabled.iter().any(|d| d.name == service));
    }

    #[test]
    fn the_list_that_kubeadm_sets_is_evaluated() {
        let selection = ControllerRegistry::builtin()
            .select(&items("*,bootstrapsigner,tokencleaner,-ttl"), |_| false)
            .unwrap();
        let is_enabled = |name| selection.enabled.iter().any(|found| found.name == name);
        assert!(
            is_enabled("bootstrap-signer-controller") && is_enabled("token-cleaner-controller")
        );
        assert_eq!(
            selection.disabled,
            ["selinux-warning-controller", "ttl-controller"]
        );
        assert_eq!(
            selection.canonical,
            [
                "*",
                "bootstrap-signer-controller",
                "token-cleaner-controller",
                "-ttl-controller"
            ]
        );
    }

    #[test]
    fn all_unknown_names_are_reported_as_typed() {
        let errors = registry()
            .select(&items("*,-nope,deployment,-*,"), |_| false)
            .unwrap_err();
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#""nope" is not in the list of known controllers"#,
                r#""*" is not in the list of known controllers"#
            ]
        );
    }

    #[test]
    fn the_table_has_all_controllers_of_upstream() {
        assert_eq!(UPSTREAM.len(), 52);
        let registry = ControllerRegistry::builtin();
        let ours = registry.descriptors.iter().map(|descriptor| {
            let alias = descriptor.aliases.first().copied().unwrap_or_default();
            (descriptor.name, alias)
        });
        let mut all: Vec<_> = ours.chain(OF_CLOUDS.iter().copied()).collect();
        all.sort_unstable();
        assert_eq!(all, UPSTREAM);
        assert_eq!(registry.names_off_by_default(), OFF_BY_DEFAULT);
        let gated = steersman_releases::GATED.iter().map(|(name, _)| name);
        for name in gated.chain(steersman_releases::ADDED.iter().map(|(name, ..)| name)) {
            assert!(registry.has(name), "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "two controllers are called deployment")]
    fn a_name_or_alias_can_be_used_only_once() {
        let _ = registry().with(controller("other", &["deployment"], true));
    }
}
