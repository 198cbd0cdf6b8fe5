//! Scenes of upstream's integration tests in which a client expects a step of a controller at one
//! of its next requests, or counts on many steps within a minute.
//!
//! The manager is the program, and its pods are on no node: the scene writes their statuses. With
//! `KUBEBUILDER_ASSETS`, the API server is a real one; `SCENES_MANAGER` names another manager.
//!
//! Upstream: `test/integration/{deployment,replicaset,job}`.

mod deployment;
mod job;
mod replica_set;
mod stage;
