//! The behaviours that differ between releases without a feature gate: a row for each question of [`Release`].

use super::release::Release;

/// A behaviour of upstream's manager that some known releases lack.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// The method of [`Release`] that code asks.
    pub question: &'static str,
    /// The behaviour, in words for users.
    pub text: &'static str,
    /// The pull request of upstream, or its file.
    pub change: &'static str,
    answer: fn(Release) -> bool,
}

impl Behaviour {
    /// Whether `release` has the behaviour.
    pub fn is_of(&self, release: Release) -> bool {
        (self.answer)(release)
    }
}

/// One row for each question, so that its name in the table is that of the method.
macro_rules! behaviours {
    ($($question:ident: $text:literal, $change:literal;)*) => {
        &[$(Behaviour {
            question: stringify!($question),
            text: $text,
            change: $change,
            answer: Release::$question,
        },)*]
    };
}

/// All questions about behaviour, by the part that asks them.
pub const BEHAVIOURS: &[Behaviour] = behaviours! {
    has_dependencies_of_gates: "a feature gate is refused while a gate that it depends on is off", "#133697";
    runs_token_controller_always: "`serviceaccount-token-controller` runs whatever `--controllers` says", "#132703";
    cleans_approved_requests_without_certificate: "CertificateSigningRequests that were approved and got no certificate are deleted after a day", "#133116";
    reports_memory_with_binary_suffixes: "autoscalers report the use of memory as `10Mi`, not as `10485760`", "#132351";
    requires_containers_of_metrics: "an autoscaler by the metric of a container fails if a pod lacks the container; before, such a pod requests nothing", "#133415";
    guards_targets_at_zero: "a target with size zero stays there, unless its autoscaler has the condition `ScaledToZero`; before, `minReplicas: 0` is enough", "#135118";
    syncs_new_autoscalers_at_once: "a new autoscaler is synced at once, rather than after 15 seconds", "#138294";
    names_two_ambiguous_autoscalers: "the error `AmbiguousSelector` names two autoscalers, rather than all", "#139142";
    wraps_errors_of_autoscalers: "the error about the metric of an object names the object first; an unknown type of metric counts with `error=\"spec\"`", "#139029";
    always_compares_revisions_by_meaning: "revisions of StatefulSets have another form, so Steersman compares their meaning; later with the gate `StatefulSetSemanticRevisionComparison`", "#135017";
    capitalizes_events_of_stateful_sets: "Events of StatefulSets about pods and claims begin with a capital: `Create Pod`", "`stateful_pod_control.go`";
    awaits_available_pods_of_stateful_sets: "updates and scale-downs of StatefulSets wait for `minReadySeconds`; before, parallel sets update the next pod once the last one is ready", "#130909";
    completes_updates_by_users: "`status.currentRevision` of a StatefulSet with `OnDelete` follows when all pods are new", "#136833";
    keeps_conditions_of_stateful_sets: "conditions that other clients write to a StatefulSet stay", "#137187";
    refuses_recreation_of_stateful_sets: "StatefulSets with the strategy `Recreate` are left alone while its gate is off; before, they roll", "#137187";
    replaces_unavailable_pods_of_parallel_sets: "a parallel StatefulSet with `maxUnavailable` replaces unavailable old pods beyond this limit", "#137666";
    gives_each_job_a_workload: "with the gate `WorkloadWithJob`, each Job of its own gets a Workload; before, only Indexed Jobs whose pods all run at once", "#140188";
    orders_ports_by_md5: "ports of Endpoints and EndpointSlices are in the order of their MD5; later of FNV-1a", "#133511";
    generated_claims_block_deletion: "the owner reference of a ResourceClaim from a template has `blockOwnerDeletion`", "#134956";
    applies_device_taint_rules_to_slices: "DeviceTaintRules taint the devices of slices, by class and expression too; later those of claims, by names alone, and have a condition", "#135068";
    counts_created_claims_by_owner: "the metric of created ResourceClaims has the labels `owner_api_group` and `owner_api_kind`", "#140422";
    notes_use_of_bound_claims_only: "claims have the condition `Unused` once they are bound; before, from their creation", "#140833";
    counts_devices_of_pools_once: "a ResourcePoolStatusRequest counts each allocated device once, and tainted ones as unavailable; before, each result of an allocation", "#140170";
    checks_storage_migrations: "the [storage version migrator](#api-versions) checks resource and verbs, skips newer objects, retries, and tells the cause of a failure", "#133612, #134231";
    admits_storage_migrations: "migrations of one resource run one after the other, and CustomResourceDefinitions show them", "#135297";
    migrates_storage_by_merge_patches: "storage is migrated by merge patches, not by server-side apply", "#138874";
    declares_params_without_schema: "expressions of a ValidatingAdmissionPolicy may use `params` of a kind without a schema; before, its status has a warning", "`typechecking.go`";
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_question_about_behaviour_has_a_row() {
        let (code, _) = include_str!("release.rs")
            .split_once("#[cfg(test)]")
            .unwrap();
        let functions = code.split("pub fn ").skip(1);
        let answers = functions.filter_map(|rest| rest.split_once("(self) -> bool"));
        let names = answers.map(|(name, _)| name);
        let questions: BTreeSet<&str> = names.filter(|name| !name.contains('(')).collect();
        let rows: BTreeSet<&str> = BEHAVIOURS.iter().map(|row| row.question).collect();
        assert_eq!(rows, questions);
        assert_eq!(rows.len(), BEHAVIOURS.len());
    }

    #[test]
    fn each_behaviour_changes_once() {
        for row in BEHAVIOURS {
            let answers: Vec<bool> = Release::known().map(|release| row.is_of(release)).collect();
            let changes = answers.windows(2).filter(|pair| pair[0] != pair[1]);
            assert_eq!(changes.count(), 1, "{}", row.question);
        }
    }
}
