//! exec, attach, port-forward and proxy: the subresources that upstream forwards to kubelets and pods.
//!
//! Simulated nodes run no processes. Annotations of a pod give its containers answers
//! ([`containers`](crate::containers)); other pods answer that they are simulated.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::logs::container;
use super::streams::{self, Command, Forward, Work};
use super::{Answer, Call, Content, Server};
use crate::containers::{Container, Page, Program};
use crate::route::Target;
use crate::status::Status;

impl Server {
    /// Begins a session with a container: exec, attach or port-forward.
    pub(super) fn connect(&self, part: &str, call: &Call<'_>) -> Result<Answer, Status> {
        let pod = self.existing(call.target)?.to_value();
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            let name = &call.target.name;
            let why = format!("pod {name} does not have a host assigned");
            return Err(Status::bad_request(why));
        }
        if !Container::has_answers(&pod) {
            let why = format!("node {node:?} is simulated and runs no processes");
            return Err(Status::internal(why));
        }
        let Some(offer) = call.upgrade else {
            return Err(Status::bad_request("Upgrade request required"));
        };
        let (protocols, work) = if part == "portforward" {
            (streams::FORWARD, Work::Forward(forward(call, &pod)?))
        } else {
            let command = self.command(part, call, &pod)?;
            (streams::COMMAND, Work::Command(command))
        };
        let (session, headers) = offer.accept(protocols, work)?;
        Ok(Answer {
            code: 101,
            content: Content::Session(Box::new(session), headers),
            warnings: Vec::new(),
        })
    }

    fn command(&self, part: &str, call: &Call<'_>, pod: &Value) -> Result<Command, Status> {
        let name = container(pod, call.query.text("container"))?;
        if !is_running(pod, name) {
            let why = format!("unable to upgrade connection: container not found ({name:?})");
            return Err(Status::internal(why));
        }
        let container = Container::new(pod, name);
        let command: Vec<&str> = call.query.all("command").collect();
        let program = if part == "attach" {
            Program::Print {
                stdout: container.logs().unwrap_or_default().to_owned().into(),
                stderr: Bytes::new(),
                code: 0,
            }
        } else if command.is_empty() {
            return Err(Status::bad_request(
                "you must specify at least 1 command for the container",
            ));
        } else {
            container.program(&command, &self.disks)
        };
        let names = ["stdin", "stdout", "stderr"];
        let asked = (0..).zip(names).filter(|(_, name)| {
            // A terminal has one output.
            let is_merged = *name == "stderr" && call.query.flag("tty") == Some(true);
            call.query.flag(name) == Some(true) && !is_merged
        });
        Ok(Command {
            program,
            channels: asked.map(|(channel, _)| channel).collect(),
            disks: Arc::clone(&self.disks),
            disk: container.disk(),
        })
    }

    /// Proxies to nodes, pods and Services, which upstream forwards to their processes.
    pub(super) fn proxy(&self, call: &Call<'_>) -> Result<Answer, Status> {
        // `name`, `name:port` or `scheme:name:port`.
        let (name, port) = match call.target.name.split(':').collect::<Vec<_>>()[..] {
            [_, name, port] | [name, port] => (name, port),
            [name] => (name, ""),
            _ => (call.target.name.as_str(), ""),
        };
        let target = Target {
            name: name.to_owned(),
            ..call.target.clone()
        };
        let resource = target.resource();
        let Some(object) = target.entry.store.get(&target.key()) else {
            return Err(Status::not_found(resource.named(), &target.name));
        };
        let object = object.to_value();
        let (_, path) = call.path.split_once("/proxy").unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        let backend = if resource.is("Service") {
            self.backend(&target.namespace, &object, port)
        } else {
            let port = port.parse().ok().or_else(|| first_port(&object));
            resource
                .is("Pod")
                .then(|| (object.clone(), port.unwrap_or(80)))
        };
        if let Some((pod, port)) = backend.filter(|(pod, _)| Container::has_answers(pod)) {
            let pages = pages(&pod)?;
            let missing = || {
                Status::new(
                    404,
                    "NotFound",
                    "the server could not find the requested resource",
                )
            };
            let page = Page::find(&pages, port, path).ok_or_else(missing)?;
            return Ok(Answer {
                code: page.status,
                content: Content::Page(page.clone()),
                warnings: Vec::new(),
            });
        }
        let kind = &resource.singular;
        Err(Status::new(
            503,
            "ServiceUnavailable",
            format!("error trying to reach {kind} {name:?}: what it runs is simulated"),
        ))
    }

    /// A ready pod of a Service that has answers, and its port for that of the Service.
    fn backend(&self, namespace: &str, service: &Value, port: &str) -> Option<(Value, u16)> {
        let mut ports = service["spec"]["ports"].as_array()?.iter();
        let asked = ports.find(|one| {
            let has_number = port.parse::<u64>().is_ok_and(|asked| one["port"] == asked);
            port.is_empty() || one["name"] == port || has_number
        })?;
        let selector = service["spec"]["selector"].as_object()?;
        let selects = |pod: &Value| {
            let labels = &pod["metadata"]["labels"];
            selector.iter().all(|(key, value)| labels[key] == *value)
        };
        let pods = self.objects_in("pods", namespace);
        let mut pods = pods.iter().map(|pod| pod.to_value());
        let pod = pods.find(|pod| selects(pod) && is_ready(pod) && Container::has_answers(pod))?;
        let port = match &asked["targetPort"] {
            Value::String(name) => port_called(&pod, name)?,
            number => number
                .as_u64()
                .and_then(|number| u16::try_from(number).ok())?,
        };
        Some((pod, port))
    }
}

fn forward(call: &Call<'_>, pod: &Value) -> Result<Forward, Status> {
    let ports = call.query.all("ports").flat_map(|list| list.split(','));
    Ok(Forward {
        ports: ports.filter_map(|port| port.trim().parse().ok()).collect(),
        pages: pages(pod)?.into(),
        pod: pod["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    })
}

/// The pages of all containers of a pod, which share its ports.
fn pages(pod: &Value) -> Result<Vec<Page>, Status> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut all = Vec::new();
    for container in containers {
        let name = container["name"].as_str().unwrap_or_default();
        let pages = Container::new(pod, name).pages();
        all.extend(pages.map_err(Status::internal)?);
    }
    Ok(all)
}

fn is_running(pod: &Value, container: &str) -> bool {
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let statuses = lists.iter().flat_map(|list| pod["status"][list].as_array());
    let mut statuses = statuses.flatten();
    statuses.any(|status| status["name"] == container && !status["state"]["running"].is_null())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The ports of all containers of a pod.
fn ports(pod: &Value) -> impl Iterator<Item = &Value> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.flat_map(|container| container["ports"].as_array().into_iter().flatten())
}

fn number(port: &Value) -> Option<u16> {
    let number = port["containerPort"].as_u64()?;
    u16::try_from(number).ok()
}

fn first_port(pod: &Value) -> Option<u16> {
    ports(pod).find_map(number)
}

fn port_called(pod: &Value, name: &str) -> Option<u16> {
    ports(pod)
        .find(|port| port["name"] == name)
        .and_then(number)
}
