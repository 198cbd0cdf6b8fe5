//! Classes that a refused object names and that do not exist. The existing ones show a name that is nearly right.

use serde_json::Value;
use steersman_values::resource::{JOBS, ResourceType};
use steersman_why::{Code, Doc, Explanation, World, existing};

/// The start of the names of classes that come with every cluster.
const BUILT_IN: &str = "system-";

/// Names the existing classes beside the missing ones in `answer`, which is about an object of type `of`.
pub(super) fn name_existing(world: &World, of: &ResourceType, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        if reason.code != Code::ReferenceMissing {
            continue;
        }
        let field = |name: &str| reason.fields.get(name).and_then(Value::as_str);
        let Some((kind, name)) = field("kind").zip(field("name")) else {
            continue;
        };
        let (group, field) = match kind {
            "PriorityClass" => ("scheduling.k8s.io", "priorityClassName"),
            _ => ("node.k8s.io", "runtimeClassName"),
        };
        // The template of a Job never changes.
        if of == &JOBS {
            reason.who = format!(
                "creator of {kind} {name}, or owner of the Job (a new Job with another {field}: a template cannot change)"
            );
        }
        if let Some(known) = others(world, group, kind) {
            reason.message = format!("{}; {known}", reason.message);
        }
    }
}

/// `there are batch, production`: the classes that users made.
fn others(world: &World, group: &str, kind: &str) -> Option<String> {
    let of = world.resource(group, kind).found()?;
    let all = world.list(&of, "")?.iter().map(Doc::name);
    Some(existing(all.filter(|name| !name.starts_with(BUILT_IN))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use steersman_values::resource::REPLICA_SETS;
    use steersman_why::{Loaded, Need, Subject, refusal};

    #[test]
    fn existing_classes_are_told_beside_the_missing_one() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(jiff::Timestamp::UNIX_EPOCH, None, none);
        let of = ResourceType {
            group: "scheduling.k8s.io".into(),
            kind: "PriorityClass".into(),
            plural: "priorityclasses".into(),
            namespaced: false,
            ..JOBS.clone()
        };
        let typed = Need::Type {
            group: "scheduling.k8s.io".to_owned(),
            name: "PriorityClass".to_owned(),
        };
        world.load(typed, Loaded::Type(Some(of.clone())));
        let all = Need::List {
            of,
            namespace: String::new(),
            fields: String::new(),
        };
        let names = ["nightly", "system-node-critical"];
        let classes = names.map(|name| Doc::new(json!({"metadata": {"name": name}})));
        world.load(all, Loaded::Objects(classes.to_vec()));
        let told = |of: &ResourceType| {
            let mut answer = Explanation::new(Subject::new(of, "shop", "a"), "");
            let message = "pods \"a\" is forbidden: no PriorityClass with name night was found";
            answer.add(refusal(message, "shop", ""));
            name_existing(&world, of, &mut answer);
            answer.reasons.remove(0)
        };
        let reason = told(&REPLICA_SETS);
        assert!(
            reason
                .message
                .ends_with("night was found; there is nightly")
        );
        assert!(
            reason
                .who
                .ends_with("or owner of the pod template (priorityClassName)")
        );
        assert!(
            told(&JOBS)
                .who
                .contains("a new Job with another priorityClassName")
        );
    }
}
