//! Defaults that depend on other fields, by type.
//!
//! Upstream: the `SetDefaults_*` functions in `pkg/apis`.

use serde_json::{Map, Value, json};
use steersman_objects::template::defaults::{self as template, Rule, is_unset};

type Fields = Map<String, Value>;

/// Seconds that a Service sends a client to the same pod, by default: three hours.
const AFFINITY_SECONDS: u32 = 10_800;

/// The rule of the type `type_name`, if it has one.
pub(super) fn of(type_name: &str) -> Option<Rule> {
    Some(match type_name {
        "apiextensions.CustomResourceDefinitionSpec" => definition_names,
        "apps.StatefulSetSpec" => claim_templates,
        "apps.StatefulSetUpdateStrategy" => rolling_update,
        "autoscaling.HorizontalPodAutoscalerBehavior" => scaling_rules,
        "apps.DaemonSet" => template_generation,
        "batch.Job" => job,
        "core.ImageVolumeSource" => image_policy,
        "core.LimitRangeItem" => container_limits,
        "core.Namespace" => namespace_label,
        "core.NodeSpec" => pod_ranges,
        "core.NodeStatus" => allocatable,
        "core.PersistentVolume" => volume_spec,
        "core.Pod" => pod,
        "core.PodSpec" => grace_period,
        "core.PodStatus" => pod_ips,
        "core.ReplicationController" => controller,
        "core.Secret" => fold_string_data,
        "core.Service" => ingress_mode,
        "core.ServicePort" => target_port,
        "core.ServiceSpec" => service_traffic,
        "flowcontrol.FlowSchemaSpec" => flow_precedence,
        "flowcontrol.QueuingConfiguration" => queues,
        "networking.NetworkPolicySpec" => policy_types,
        _ => return None,
    })
}

fn job(fields: &mut Fields) {
    labels_from_template(fields);
    job_spec(fields);
}

fn controller(fields: &mut Fields) {
    labels_from_template(fields);
    controller_selector(fields);
}

fn flow_precedence(fields: &mut Fields) {
    not_zero(fields, &[("matchingPrecedence", 1000)]);
}

fn queues(fields: &mut Fields) {
    let defaults = [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)];
    not_zero(fields, &defaults);
}

/// Claim templates are whole claims, with kind, version and phase. The internal type has no kind and
/// version, so those of a request do not matter.
fn claim_templates(fields: &mut Fields) {
    let templates = fields
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten() {
        let Some(template) = template.as_object_mut() else {
            continue;
        };
        template.insert("kind".to_owned(), json!("PersistentVolumeClaim"));
        template.insert("apiVersion".to_owned(), json!("v1"));
        set_if_unset(template, "status", json!({}));
        if let Some(status) = template.get_mut("status").and_then(Value::as_object_mut) {
            set_if_unset(status, "phase", json!("Pending"));
        }
    }
}

/// The spec of a volume has defaults in a PersistentVolume, and none in a VolumeAttachment. Upstream:
/// `SetDefaults_PersistentVolume`.
fn volume_spec(volume: &mut Fields) {
    if let Some(spec) = volume.get_mut("spec").and_then(Value::as_object_mut) {
        set_if_unset(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
        set_if_absent(spec, "volumeMode", json!("Filesystem"));
    }
}

/// The annotation is a field of older versions, where it is never absent.
fn template_generation(daemon_set: &mut Fields) {
    let Some(metadata) = daemon_set
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    set_if_unset(metadata, "annotations", json!({}));
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        set_if_unset(annotations, super::TEMPLATE_GENERATION, json!("0"));
    }
}

/// A StatefulSet without a strategy gets one with a partition. A type alone gets nothing.
fn rolling_update(fields: &mut Fields) {
    if is_unset(fields, "type") {
        fields.insert("type".to_owned(), json!("RollingUpdate"));
        set_if_unset(fields, "rollingUpdate", json!({}));
    }
}

/// The singular and list kind of a definition follow from its kind. The port of the Service that
/// converts objects is 443.
fn definition_names(fields: &mut Fields) {
    set_if_unset(fields, "conversion", json!({"strategy": "None"}));
    let conversion = fields.get_mut("conversion");
    let service = conversion.and_then(|found| found.pointer_mut("/webhook/clientConfig/service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        set_if_absent(service, "port", json!(443));
    }
    let Some(names) = fields.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !kind.is_empty() {
        set_if_unset(names, "singular", json!(kind.to_lowercase()));
        set_if_unset(names, "listKind", json!(format!("{kind}List")));
    }
}

fn set_if_unset(fields: &mut Fields, name: &str, value: Value) {
    if is_unset(fields, name) {
        fields.insert(name.to_owned(), value);
    }
}

/// The same for pointers in Go, whose empty text differs from an absent one.
fn set_if_absent(fields: &mut Fields, name: &str, value: Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value);
    }
}

/// Whether a list or map is absent, or has no entries.
fn is_empty(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_none_or(|value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        other => other.is_null(),
    })
}

/// Sets numbers that are zero or absent.
fn not_zero(fields: &mut Fields, defaults: &[(&str, i64)]) {
    for (name, value) in defaults {
        if fields
            .get(*name)
            .is_none_or(|now| now.is_null() || now == 0)
        {
            fields.insert((*name).to_owned(), json!(value));
        }
    }
}

fn has_entries(value: Option<&Value>) -> bool {
    value
        .and_then(Value::as_object)
        .is_some_and(|entries| !entries.is_empty())
}

/// Defaults of pods that do not apply to pod templates.
fn pod(fields: &mut Fields) {
    let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    set_if_unset(spec, "enableServiceLinks", json!(true));
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers"] {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            requests_from_limits(container);
            if on_host {
                host_ports(container);
            }
        }
    }
}

/// A missing request of a pod's container defaults to its limit.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if let Some(requests) = resources
        .entry("requests")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        for (resource, limit) in limits {
            requests.entry(resource).or_insert(limit);
        }
    }
}

/// Ports of host network pods default to the same port of the host.
fn host_ports(container: &mut Value) {
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut()
            && let Some(number) = port.get("containerPort").cloned()
        {
            port.entry("hostPort").or_insert(number);
        }
    }
}

/// Fields that became lists keep their first element in the old field.
fn list_of_one(fields: &mut Fields, one: &str, list: &str, element: impl Fn(Value) -> Value) {
    if let Some(value) = fields.get(one).cloned()
        && is_empty(fields, list)
    {
        fields.insert(list.to_owned(), json!([element(value)]));
    }
}

/// The old field for the range of pod addresses decides, if the list has another first range.
/// Upstream: `pkg/apis/core/v1/conversion.go`, Convert_v1_NodeSpec_To_core_NodeSpec.
fn pod_ranges(fields: &mut Fields) {
    let Some(first) = fields.get("podCIDR").filter(|range| *range != "").cloned() else {
        return;
    };
    let ranges = fields.get("podCIDRs").and_then(|ranges| ranges.get(0));
    if ranges != Some(&first) {
        fields.insert("podCIDRs".to_owned(), json!([first]));
    }
}

/// Addresses default in both directions.
fn pod_ips(fields: &mut Fields) {
    list_of_one(fields, "podIP", "podIPs", |ip| json!({"ip": ip}));
    if let Some(first) = fields
        .get("podIPs")
        .and_then(|ips| ips.get(0)?.get("ip"))
        .cloned()
    {
        set_if_unset(fields, "podIP", first);
    }
}

fn allocatable(fields: &mut Fields) {
    if let Some(capacity) = fields.get("capacity").cloned() {
        set_if_unset(fields, "allocatable", capacity);
    }
}

/// Behavior of one direction causes defaults for both.
fn scaling_rules(fields: &mut Fields) {
    let policy = |kind: &str, value: u8| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = json!({
        "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [policy("Pods", 4), policy("Percent", 100)],
    });
    // The default stabilization window for scaling down is a flag of the controller.
    let down = json!({"selectPolicy": "Max", "policies": [policy("Percent", 100)]});
    for (name, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        set_if_unset(fields, name, json!({}));
        if let Some(rules) = fields.get_mut(name).and_then(Value::as_object_mut)
            && let Value::Object(defaults) = defaults
        {
            defaults
                .into_iter()
                .for_each(|(field, value)| set_if_absent(rules, &field, value));
        }
    }
}

fn template_labels(fields: &Fields) -> Option<Value> {
    let labels = fields
        .get("spec")?
        .get("template")?
        .get("metadata")?
        .get("labels")?;
    has_entries(Some(labels)).then(|| labels.clone())
}

fn labels_from_template(fields: &mut Fields) {
    if let Some(labels) = template_labels(fields)
        && let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut)
        && !has_entries(metadata.get("labels"))
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn controller_selector(fields: &mut Fields) {
    if let Some(labels) = template_labels(fields)
        && let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut)
        && !has_entries(spec.get("selector"))
    {
        spec.insert("selector".to_owned(), labels);
    }
}

/// The spec of a Job. The templates of CronJobs stay as they are, because their Jobs get these
/// defaults. `completions` defaults to 1 only together with `parallelism`.
fn job_spec(job: &mut Fields) {
    let Some(fields) = job.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    set_if_absent(fields, "completionMode", json!("NonIndexed"));
    set_if_unset(fields, "suspend", json!(false));
    set_if_unset(fields, "manualSelector", json!(false));
    if is_unset(fields, "parallelism") {
        set_if_unset(fields, "completions", json!(1));
        fields.insert("parallelism".to_owned(), json!(1));
        // An explicit parallelism without completions is a work queue, so completions stay unset.
    }
    let limit = if is_unset(fields, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    set_if_unset(fields, "backoffLimit", json!(limit));
    let replacement = if is_unset(fields, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_if_absent(fields, "podReplacementPolicy", json!(replacement));
}

/// Default limits of containers follow from the maximum, default requests from the default limits
/// and the minimum. Upstream: SetDefaults_LimitRangeItem.
fn container_limits(fields: &mut Fields) {
    if fields.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (target, source) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        let Some(Value::Object(amounts)) = fields.get(source).cloned() else {
            continue;
        };
        let target = fields.entry(target).or_insert_with(|| json!({}));
        for (resource, amount) in amounts {
            if let Some(target) = target.as_object_mut() {
                target.entry(resource).or_insert(amount);
            }
        }
    }
}

fn namespace_label(fields: &mut Fields) {
    const NAME_LABEL: &str = "kubernetes.io/metadata.name";
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(name) = metadata.get("name").cloned()
        && let Some(labels) = metadata
            .entry("labels")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        labels.insert(NAME_LABEL.to_owned(), name);
    }
}

/// `stringData` is write-only. The server merges it into `data`.
fn fold_string_data(fields: &mut Fields) {
    use base64::Engine as _;

    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    if let Some(data) = fields
        .entry("data")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        for (key, text) in texts {
            let encoded =
                base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or(""));
            data.insert(key, Value::String(encoded));
        }
    }
}

/// The image of a volume is pulled as that of a container.
fn image_policy(fields: &mut Fields) {
    let mut container = Fields::new();
    if let Some(image) = fields.get("reference").cloned() {
        container.insert("image".to_owned(), image);
    }
    template::fill("core.Container", &mut container);
    if let Some(policy) = container.remove("imagePullPolicy") {
        set_if_unset(fields, "pullPolicy", policy);
    }
}

/// A negative period becomes the shortest one.
fn grace_period(fields: &mut Fields) {
    if let Some(period) = fields.get_mut("terminationGracePeriodSeconds")
        && period.as_i64().is_some_and(|seconds| seconds < 0)
    {
        *period = json!(1);
    }
}

/// Traffic to external IPs has a policy, and session affinity has a timeout. Without session
/// affinity, its configuration is dropped.
fn service_traffic(fields: &mut Fields) {
    let is_none = |fields: &Fields, name: &str, value: &str| {
        is_unset(fields, name) || fields.get(name).and_then(Value::as_str) == Some(value)
    };
    if is_none(fields, "sessionAffinity", "None") {
        fields.remove("sessionAffinityConfig");
    } else if fields.get("sessionAffinity").and_then(Value::as_str) == Some("ClientIP") {
        let timeout = fields
            .get("sessionAffinityConfig")
            .map_or(&Value::Null, |config| &config["clientIP"]["timeoutSeconds"]);
        if timeout.is_null() {
            let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
            fields.insert("sessionAffinityConfig".to_owned(), config);
        }
    }
    let has_external_ips = fields
        .get("externalIPs")
        .and_then(Value::as_array)
        .is_some_and(|ips| !ips.is_empty());
    if has_external_ips && is_none(fields, "type", "ClusterIP") {
        set_if_unset(fields, "externalTrafficPolicy", json!("Cluster"));
    }
}

/// Addresses of a load balancer are its own by default, and not those of a proxy.
fn ingress_mode(service: &mut Fields) {
    let kind = service.get("spec").and_then(|spec| spec.get("type"));
    if kind.and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let points = service.get_mut("status").and_then(|status| {
        status
            .get_mut("loadBalancer")?
            .get_mut("ingress")?
            .as_array_mut()
    });
    for point in points
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        if !is_unset(point, "ip") {
            set_if_unset(point, "ipMode", json!("VIP"));
        }
    }
}

/// The target port defaults to the port.
fn target_port(fields: &mut Fields) {
    let unset = is_unset(fields, "targetPort") || fields.get("targetPort") == Some(&json!(0));
    if unset && let Some(port) = fields.get("port").cloned() {
        fields.insert("targetPort".to_owned(), port);
    }
}

fn policy_types(fields: &mut Fields) {
    if !is_empty(fields, "policyTypes") {
        return;
    }
    let types = if is_empty(fields, "egress") {
        json!(["Ingress"])
    } else {
        json!(["Ingress", "Egress"])
    };
    fields.insert("policyTypes".to_owned(), types);
}
