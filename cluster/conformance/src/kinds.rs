//! Kinds with their own rules: Services, HorizontalPodAutoscalers, CertificateSigningRequests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::promises;
use super::world::{Outcome, World, at, equal, holds, text};

promises! { "kinds":
    every_service_gets_its_own_address,
    addresses_and_ports_come_from_their_ranges,
    node_ports_follow_the_service_type,
    external_name_services_have_no_address,
    autoscalers_are_served_in_two_versions,
    autoscalers_keep_fields_that_v1_lacks,
    certificate_requests_are_validated_and_name_the_requester,
    certificate_requests_are_approved_through_a_subresource,
}

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}

async fn every_service_gets_its_own_address(world: &World) -> Outcome {
    let services = world.core("services");
    let first = world.post(&services, &service("a", json!({}))).await?;
    let address = text(first.created()?, "/spec/clusterIP").to_owned();
    at(&first.body, "/spec/clusterIPs/0", json!(address))?;
    let second = world.post(&services, &service("b", json!({}))).await?;
    holds(
        "addresses differ",
        text(second.created()?, "/spec/clusterIP") != address && !address.is_empty(),
    )?;
    let taken = world
        .post(&services, &service("c", json!({"clusterIP": address})))
        .await?;
    taken.invalid("provided IP is already allocated")?;
    // An update keeps an omitted address.
    world
        .put(&format!("{services}/a"), &service("a", json!({})))
        .await?
        .has("/spec/clusterIP", json!(address))?;
    world
        .merge(
            &format!("{services}/a"),
            &json!({"spec": {"clusterIP": "None"}}),
        )
        .await?
        .invalid("may not change once set")?;
    world.delete(&format!("{services}/a")).await?.ok()?;
    let again = world
        .until(201, async || {
            world
                .post(&services, &service("c", json!({"clusterIP": address})))
                .await
        })
        .await?;
    at(again.created()?, "/spec/clusterIP", json!(address))
}

async fn addresses_and_ports_come_from_their_ranges(world: &World) -> Outcome {
    let services = world.core("services");
    let outside = world
        .post(&services, &service("a", json!({"clusterIP": "192.0.2.1"})))
        .await?;
    outside.invalid(
        "failed to allocate IP 192.0.2.1: the provided network does not match the current range",
    )?;
    let outside = world
        .post(
            &services,
            &service(
                "a",
                json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            ),
        )
        .await?;
    outside.invalid("provided port is not in the valid range. The range of valid ports is")?;
    let headless = world
        .post(&services, &service("a", json!({"clusterIP": "None"})))
        .await?;
    at(headless.created()?, "/spec/clusterIPs", json!(["None"]))
}

async fn node_ports_follow_the_service_type(world: &World) -> Outcome {
    let services = world.core("services");
    let made = world.post(&services, &service("a", json!({}))).await?;
    let address = made.created()?["spec"]["clusterIP"].clone();
    let open = world
        .merge(
            &format!("{services}/a"),
            &json!({"spec": {"type": "NodePort"}}),
        )
        .await?;
    let port = open.ok()?["spec"]["ports"][0]["nodePort"].clone();
    holds(
        "a node port is allocated",
        port.as_u64().is_some_and(|port| port > 0),
    )?;
    at(&open.body, "/spec/clusterIP", address.clone())?;
    let wanted = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    world
        .post(&services, &service("b", wanted.clone()))
        .await?
        .invalid("provided port is already allocated")?;
    let closed = world
        .merge(
            &format!("{services}/a"),
            &json!({"spec": {"type": "ClusterIP"}}),
        )
        .await?;
    at(closed.ok()?, "/spec/ports/0/nodePort", Value::Null)?;
    at(&closed.body, "/spec/clusterIP", address)?;
    let free = world
        .until(201, async || {
            world.post(&services, &service("b", wanted.clone())).await
        })
        .await?;
    at(free.created()?, "/spec/ports/0/nodePort", port)
}

async fn external_name_services_have_no_address(world: &World) -> Outcome {
    let services = world.core("services");
    world
        .post(&services, &service("a", json!({})))
        .await?
        .created()?;
    let away = json!({"spec": {"type": "ExternalName", "externalName": "x.test"}});
    let away = world.merge(&format!("{services}/a"), &away).await?;
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        at(away.ok()?, &format!("/spec/{field}"), Value::Null)?;
    }
    let back = world
        .merge(
            &format!("{services}/a"),
            &json!({"spec": {"type": "ClusterIP", "externalName": null}}),
        )
        .await?;
    holds(
        "an address is allocated again",
        !text(back.ok()?, "/spec/clusterIP").is_empty(),
    )
}

/// An autoscaler of a missing target, so that its controller never scales.
fn autoscaler(spec: Value) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "there-is-none"});
    let mut object =
        json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

async fn autoscalers_are_served_in_two_versions(world: &World) -> Outcome {
    let [old, new] = ["autoscaling/v1", "autoscaling/v2"]
        .map(|version| world.group(version, "horizontalpodautoscalers"));
    let made = world
        .post(
            &old,
            &autoscaler(json!({"targetCPUUtilizationPercentage": 60})),
        )
        .await?;
    at(made.created()?, "/spec/minReplicas", json!(1))?;
    let cpu = |percent: u8| json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}]);
    let shown = world.get(&format!("{new}/a")).await?;
    shown.has("/apiVersion", json!("autoscaling/v2"))?;
    shown.has("/metadata/uid", made.body["metadata"]["uid"].clone())?;
    shown.has("/spec/metrics", cpu(60))?;
    world
        .merge(&format!("{new}/a"), &json!({"spec": {"metrics": cpu(70)}}))
        .await?
        .ok()?;
    world
        .get(&format!("{old}/a"))
        .await?
        .has("/spec/targetCPUUtilizationPercentage", json!(70))?;
    world.delete(&format!("{old}/a")).await?.ok()?;
    world.get(&format!("{new}/a")).await?.is(404, "NotFound")?;
    world
        .post(&new, &autoscaler(json!({})))
        .await?
        .has("/spec/metrics", cpu(80))?;
    let none = world
        .post(&new, &autoscaler(json!({"maxReplicas": 0})))
        .await?;
    let why = if world.minor().await? >= 36 {
        "spec.maxReplicas: Required value: must be set and greater than 0"
    } else {
        "spec.maxReplicas: Invalid value: 0: must be greater than 0"
    };
    none.invalid(why)
}

async fn autoscalers_keep_fields_that_v1_lacks(world: &World) -> Outcome {
    let [old, new] = ["autoscaling/v1", "autoscaling/v2"]
        .map(|version| world.group(version, "horizontalpodautoscalers/a"));
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let spec =
        json!({"metrics": [memory], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}});
    world
        .post(new.trim_end_matches("/a"), &autoscaler(spec))
        .await?
        .created()?;
    let shown = world.get(&old).await?;
    at(
        shown.ok()?,
        "/spec/targetCPUUtilizationPercentage",
        Value::Null,
    )?;
    let annotation = |name: &str| {
        let text = shown.body["metadata"]["annotations"]
            [format!("autoscaling.alpha.kubernetes.io/{name}")]
        .as_str();
        text.and_then(|text| serde_json::from_str::<Value>(text).ok())
            .unwrap_or_default()
    };
    let older =
        json!([{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}}]);
    equal("metrics annotation", &annotation("metrics"), &older)?;
    at(
        &annotation("behavior"),
        "/ScaleDown/StabilizationWindowSeconds",
        json!(5),
    )?;
    world
        .merge(&old, &json!({"spec": {"maxReplicas": 5}}))
        .await?
        .ok()?;
    let kept = world.get(&new).await?;
    kept.has("/spec/metrics/0", memory)?;
    kept.has("/spec/maxReplicas", json!(5))?;
    kept.has(
        "/spec/behavior/scaleDown/stabilizationWindowSeconds",
        json!(5),
    )?;
    kept.has("/spec/behavior/scaleUp/selectPolicy", json!("Max"))
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request to a signer that does not exist.
fn request(spec: Value) -> Value {
    let mut params = rcgen::CertificateParams::default();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "somebody");
    let signed = rcgen::KeyPair::generate()
        .and_then(|key| params.serialize_request(&key))
        .and_then(|request| request.pem());
    let pem = signed.expect("a request of a fixed form can be signed");
    let mut object = json!({
        "metadata": {"generateName": "conformance-"},
        "spec": {"request": STANDARD.encode(pem), "signerName": "example.com/nobody", "usages": ["client auth"]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

/// Posts a valid request. Returns its path and the stored object.
async fn ask(world: &World) -> Result<(String, Value), super::Broken> {
    let made = world
        .post(REQUESTS, &request(json!({"username": "somebody-else"})))
        .await?;
    let path = format!("{REQUESTS}/{}", text(made.created()?, "/metadata/name"));
    world.delete_at_end(path.clone());
    Ok((path, made.body))
}

async fn certificate_requests_are_validated_and_name_the_requester(world: &World) -> Outcome {
    let (path, made) = ask(world).await?;
    holds(
        "the server sets the username",
        !matches!(text(&made, "/spec/username"), "" | "somebody-else"),
    )?;
    at(&made, "/status", json!({}))?;
    let same = world
        .merge(&path, &json!({"spec": {"usages": ["any"]}}))
        .await?;
    at(same.ok()?, "/spec/usages", json!(["client auth"]))?;
    let cases = [
        (
            json!({"request": STANDARD.encode("none")}),
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            json!({"signerName": "nobody"}),
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        (json!({"usages": []}), "spec.usages: Required value"),
        (
            json!({"usages": ["flying"]}),
            "spec.usages[0]: Unsupported value: \"flying\"",
        ),
        (
            json!({"expirationSeconds": 1}),
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ];
    for (spec, why) in cases {
        world.post(REQUESTS, &request(spec)).await?.invalid(why)?;
    }
    Ok(())
}

async fn certificate_requests_are_approved_through_a_subresource(world: &World) -> Outcome {
    let (path, made) = ask(world).await?;
    let conditions = |kinds: &[&str]| {
        let condition = |kind: &&str| json!({"type": kind, "status": "True", "reason": "Tried"});
        json!({"status": {"conditions": kinds.iter().map(condition).collect::<Vec<_>>()}})
    };
    let status = format!("{path}/status");
    let wrong = world.merge(&status, &conditions(&["Approved"])).await?;
    wrong.invalid("updates may not add a condition of type \"Approved\"")?;
    let approval = format!("{path}/approval");
    let both = world
        .merge(&approval, &conditions(&["Approved", "Denied"]))
        .await?;
    both.invalid("Approved and Denied conditions are mutually exclusive")?;
    let approved = world.merge(&approval, &conditions(&["Approved"])).await?;
    at(approved.ok()?, "/spec", made["spec"].clone())?;
    for time in ["lastUpdateTime", "lastTransitionTime"] {
        holds(
            "the condition has its times",
            !text(&approved.body, &format!("/status/conditions/0/{time}")).is_empty(),
        )?;
    }
    let withdrawn = world.merge(&approval, &conditions(&[])).await?;
    withdrawn.invalid("updates may not remove a condition of type \"Approved\"")?;
    let none = json!({"status": {"certificate": STANDARD.encode("none")}});
    world
        .merge(&status, &none)
        .await?
        .invalid("must contain at least one CERTIFICATE PEM block")?;
    let certificate = rcgen::generate_simple_self_signed(["x.test".to_owned()])
        .expect("a certificate of a fixed form can be made");
    let certificate = json!({"status": {"certificate": STANDARD.encode(certificate.cert.pem())}});
    world.merge(&approval, &certificate).await?.ok()?;
    world
        .get(&path)
        .await?
        .has("/status/certificate", Value::Null)?;
    world.merge(&status, &certificate).await?.has(
        "/status/certificate",
        certificate["status"]["certificate"].clone(),
    )
}
