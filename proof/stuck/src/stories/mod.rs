//! All stories, by question.

/// The definition of a custom resource: group, kind, plural, scope.
macro_rules! crd {
    ($group:literal, $kind:literal, $plural:literal, $scope:literal) => {
        concat!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ", $plural, ".", $group,
            ", annotations: {api-approved.kubernetes.io: unapproved}}\nspec:\n  group: ", $group, "\n  scope: ", $scope, "\n  names: {plural: ", $plural, ", singular: ", $plural,
            ", kind: ", $kind, ", listKind: ", $kind, "List}\n  versions:\n  - {name: v1, served: true, storage: true, ",
            "subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, ",
            "x-kubernetes-preserve-unknown-fields: true}}}\n---\n"
        )
    };
}

mod batch;
mod blind;
mod blind_eighth;
mod blind_eleventh;
mod blind_fifteenth;
mod blind_fifth;
mod blind_fourteenth;
mod blind_ninth;
mod blind_seventh;
mod blind_sixth;
mod blind_tenth;
mod blind_thirteenth;
mod blind_twelfth;
mod deletion;
mod manager;
mod network;
mod storage;
mod workloads;

use crate::Story;

/// All stories, sorted by their question.
pub fn all() -> Vec<&'static Story> {
    let groups: [&[Story]; 18] = [
        workloads::STORIES,
        deletion::STORIES,
        batch::STORIES,
        storage::STORIES,
        network::STORIES,
        manager::STORIES,
        blind::STORIES,
        blind_fifth::STORIES,
        blind_sixth::STORIES,
        blind_seventh::STORIES,
        blind_eighth::STORIES,
        blind_ninth::STORIES,
        blind_tenth::STORIES,
        blind_eleventh::STORIES,
        blind_twelfth::STORIES,
        blind_thirteenth::STORIES,
        blind_fourteenth::STORIES,
        blind_fifteenth::STORIES,
    ];
    let mut all: Vec<&Story> = groups.into_iter().flatten().collect();
    all.sort_by_key(|story| story.question);
    all
}
