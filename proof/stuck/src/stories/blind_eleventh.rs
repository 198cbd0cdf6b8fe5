//! The states of the eleventh blind test in which the first answer of `why` named no cause, and states near them.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 11,
        title: "an Ingress sends to a port that the Service lacks",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001191", "creationTimestamp": "2026-11-28T10:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001101", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.11", "selector": {"app": "shop"}, "ports": [{"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}]}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "shop-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001102", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/service-name": "shop"}}, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "namespace": "default", "name": "shop-1", "uid": "6d1f4c5e-0000-4000-8000-000000001103"}}]}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001103", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "shop"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "ports": [{"containerPort": 8080}]}], "nodeName": "node-1"}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001104", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"ingressClassName": "nginx", "rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/0", "pathType": "Prefix", "backend": {"service": {"name": "shop", "port": {"number": 80}}}}]}}]}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
"#,
        )],
        about: ("ingress", "shop"),
        truth: Truth::Cause(
            Code::BackendPort,
            "Service default/shop has no port 80; it has 8080 (http)",
            "owner of the Ingress (port of the backend), or owner of Service default/shop",
        ),
    },
    Story {
        question: 11,
        title: "an Ingress names ports of its Service by name and by number",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001192", "creationTimestamp": "2026-11-28T10:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001111", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.21", "selector": {"app": "blog"}, "ports": [{"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}]}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "blog-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001112", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/service-name": "blog"}}, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "namespace": "default", "name": "blog-1", "uid": "6d1f4c5e-0000-4000-8000-000000001113"}}]}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "blog-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001113", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "blog"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "ports": [{"containerPort": 8080}]}], "nodeName": "node-1"}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001114", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"ingressClassName": "nginx", "rules": [{"host": "blog.example.com", "http": {"paths": [{"path": "/0", "pathType": "Prefix", "backend": {"service": {"name": "blog", "port": {"name": "http"}}}}, {"path": "/1", "pathType": "Prefix", "backend": {"service": {"name": "blog", "port": {"number": 8080}}}}]}}]}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
"#,
        )],
        about: ("ingress", "blog"),
        truth: Truth::Fine,
    },
    Story {
        question: 11,
        title: "an init container waits for a host that is no Service",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001193", "creationTimestamp": "2026-11-28T10:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "migrate-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001121", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "migrate"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "ports": [{"containerPort": 8080}]}], "nodeName": "node-1", "initContainers": [{"name": "wait-for-db", "image": "postgres:17", "command": ["sh", "-c", "until pg_isready -h shop-db-rw -p 5432; do sleep 2; done"]}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "PodInitializing"}}}], "initContainerStatuses": [{"name": "wait-for-db", "ready": false, "restartCount": 0, "image": "postgres:17", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:58:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop-db", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001122", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.32", "selector": {"app": "shop-db"}, "ports": [{"port": 5432, "targetPort": 5432, "protocol": "TCP"}]}}
"#,
        )],
        about: ("pod", "migrate-1"),
        truth: Truth::Cause(
            Code::InitContainer,
            "Service default/shop-db-rw does not exist (there is shop-db)",
            "owner of the pod template (host shop-db-rw), or creator of Service default/shop-db-rw",
        ),
    },
];
