//! The controllers of Steersman, one folder each, and the table that names them all.

// Tables of cases are arrays of tuples.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

pub mod attachdetach;
pub mod bootstrapsigner;
pub mod certificates;
pub mod clusterroleaggregation;
pub mod clustertrustbundlepublisher;
pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod devicetainteviction;
pub mod disruption;
pub mod endpoint;
pub mod endpointslice;
pub mod endpointslicemirroring;
pub mod ephemeralvolume;
pub mod expand;
pub mod garbagecollector;
pub mod job;
pub mod legacytokencleaner;
pub mod namespace;
pub mod nodeipam;
pub mod nodelifecycle;
pub mod persistentvolume;
pub mod podautoscaler;
pub mod podgc;
pub mod protection;
mod publisher_metrics;
pub mod replicaset;
pub mod replicationcontroller;
pub mod resourceclaim;
pub mod resourcepoolstatusrequest;
pub mod resourcequota;
pub mod rootcacertpublisher;
pub mod selinuxwarning;
pub mod serviceaccount;
pub mod serviceaccounttoken;
pub mod servicecidrs;
pub mod statefulset;
mod storage_metrics;
pub mod storageversiongc;
pub mod storageversionmigrator;
pub mod tainteviction;
#[cfg(test)]
mod testing;
pub mod tokencleaner;
pub mod ttl;
pub mod ttlafterfinished;
pub mod validatingadmissionpolicystatus;
pub mod why;

use steersman_runtime::controller::Descriptor;

/// Every controller, in alphabetical order of their names. Help, `--controllers`, health checks and the table
/// of docs/reference.md come from this.
pub const ALL: &[Descriptor] = &[
    bootstrapsigner::DESCRIPTOR,
    certificates::approving::DESCRIPTOR,
    certificates::cleaning::requests::DESCRIPTOR,
    certificates::signing::DESCRIPTOR,
    clusterroleaggregation::DESCRIPTOR,
    clustertrustbundlepublisher::DESCRIPTOR,
    cronjob::DESCRIPTOR,
    daemonset::DESCRIPTOR,
    deployment::DESCRIPTOR,
    devicetainteviction::DESCRIPTOR,
    disruption::DESCRIPTOR,
    endpoint::DESCRIPTOR,
    endpointslice::DESCRIPTOR,
    endpointslicemirroring::DESCRIPTOR,
    ephemeralvolume::DESCRIPTOR,
    garbagecollector::DESCRIPTOR,
    podautoscaler::DESCRIPTOR,
    job::DESCRIPTOR,
    legacytokencleaner::DESCRIPTOR,
    namespace::DESCRIPTOR,
    nodeipam::DESCRIPTOR,
    nodelifecycle::DESCRIPTOR,
    attachdetach::DESCRIPTOR,
    persistentvolume::DESCRIPTOR,
    expand::DESCRIPTOR,
    protection::volumes::DESCRIPTOR,
    protection::claims::DESCRIPTOR,
    podgc::DESCRIPTOR,
    certificates::cleaning::pods::DESCRIPTOR,
    protection::pod_groups::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    replicationcontroller::DESCRIPTOR,
    resourceclaim::DESCRIPTOR,
    resourcepoolstatusrequest::DESCRIPTOR,
    resourcequota::DESCRIPTOR,
    rootcacertpublisher::DESCRIPTOR,
    selinuxwarning::DESCRIPTOR,
    servicecidrs::DESCRIPTOR,
    serviceaccount::DESCRIPTOR,
    serviceaccounttoken::DESCRIPTOR,
    statefulset::DESCRIPTOR,
    storageversionmigrator::DESCRIPTOR,
    storageversiongc::DESCRIPTOR,
    tainteviction::DESCRIPTOR,
    tokencleaner::DESCRIPTOR,
    ttlafterfinished::DESCRIPTOR,
    ttl::DESCRIPTOR,
    validatingadmissionpolicystatus::DESCRIPTOR,
    protection::classes::DESCRIPTOR,
];
