//! The keys of ConfigMaps and Secrets that containers ask for and that are missing. The kubelet and the runtime name
//! neither the object of a volume nor its keys.
//!
//! Upstream: `makeMounts` of the kubelet makes a directory for a `subPath` that the volume does not have. The runtime
//! refuses to mount it on a file of the image; without such a file, the program finds a directory.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_values::resource::{CONFIG_MAPS, ResourceType, SECRETS};

use super::name;
use crate::{Code, Doc, Explanation, World, existing};

/// The message and the actors of a reason that comes from a missing key.
struct Named {
    message: String,
    who: String,
}

/// Names the missing keys in the reasons of `answer` that come from them.
pub(super) fn name_missing(world: &World, doc: &Doc, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        let named = match reason.code {
            Code::ContainerConfig => variable(world, doc, &reason.message),
            Code::VolumeMount => item(world, doc, &reason.message),
            Code::ContainerCrash => crash(world, doc, &reason.message, &reason.who),
            _ => None,
        };
        if let Some(named) = named {
            reason.message = named.message;
            reason.who = named.who;
        }
    }
}

/// A ConfigMap or Secret of a pod, and its keys.
struct Source {
    /// `ConfigMap shop/web`.
    text: String,
    keys: BTreeSet<String>,
}

impl Source {
    /// `None` if the object does not exist, or may not be read.
    fn read(world: &World, doc: &Doc, kind: &str, name: &str) -> Option<Self> {
        let of: &ResourceType = match kind {
            "ConfigMap" => &CONFIG_MAPS,
            "Secret" => &SECRETS,
            _ => return None,
        };
        let found = world.get(of, doc.namespace(), name).found()?;
        let parts = ["/data", "/binaryData"].into_iter();
        let parts = parts.filter_map(|part| found.at(part)?.as_object());
        Some(Self {
            text: format!("{kind} {}/{name}", doc.namespace()),
            keys: parts.flat_map(|part| part.keys().cloned()).collect(),
        })
    }

    /// `ConfigMap shop/web has no key a.conf (there is b.conf)`. `None` if it has the key.
    fn lacks(&self, key: &str) -> Option<String> {
        let known = existing(self.keys.iter().map(String::as_str));
        let is_missing = !self.keys.contains(key);
        is_missing.then(|| format!("{} has no key {key} ({known})", self.text))
    }
}

/// The spec of the container that `message` is about.
fn container<'d>(doc: &'d Doc, message: &str) -> Option<&'d Value> {
    let rest = message.trim_start_matches("init ");
    let wanted = rest.strip_prefix("container ")?.split(' ').next()?;
    containers(doc).find(|container| name(container) == wanted)
}

fn containers(doc: &Doc) -> impl Iterator<Item = &Value> {
    let main = doc.items("/spec/containers").iter();
    main.chain(doc.items("/spec/initContainers"))
}

fn list<'d>(value: &'d Value, field: &str) -> impl Iterator<Item = &'d Value> {
    value[field].as_array().into_iter().flatten()
}

/// The variable of a container whose key is missing: `couldn't find key url in ConfigMap shop/db`.
fn variable(world: &World, doc: &Doc, message: &str) -> Option<Named> {
    let (_, said) = message.split_once("couldn't find key ")?;
    let mut words = said.split_whitespace();
    let key = words.next()?;
    let kind = words.nth(1)?;
    let object = words.next()?.rsplit('/').next()?;
    let source = Source::read(world, doc, kind, object)?;
    let lacks = source.lacks(key)?;
    let is_asked = |one: &&Value| {
        let fields = ["configMapKeyRef", "secretKeyRef"].into_iter();
        let mut asked = fields.map(|field| &one["valueFrom"][field]);
        asked.any(|asked| asked["name"] == object && asked["key"] == key)
    };
    let variable = list(container(doc, message)?, "env").find(is_asked)?;
    let variable = name(variable);
    Some(Named {
        message: format!("{message}; {lacks}, which the variable {variable} asks for"),
        who: format!(
            "owner of {} (key {key}), or owner of the pod template (env {variable})",
            source.text
        ),
    })
}

/// The ConfigMaps and Secrets of `volume`, as the fields of its spec, with their kinds. A projected volume has several.
fn sources(volume: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    let parts = std::iter::once(volume).chain(list(&volume["projected"], "sources"));
    parts.flat_map(|part| {
        let kinds = [("ConfigMap", "configMap"), ("Secret", "secret")].into_iter();
        kinds.filter_map(|(kind, field)| Some((kind, part.get(field)?)))
    })
}

fn read(world: &World, doc: &Doc, (kind, of): (&str, &Value)) -> Option<Source> {
    let object = of["name"].as_str().or(of["secretName"].as_str())?;
    Source::read(world, doc, kind, object)
}

/// The item of a volume whose key is missing: `MountVolume.SetUp failed for volume "web" : references non-existent config
/// key: a.conf`.
fn item(world: &World, doc: &Doc, message: &str) -> Option<Named> {
    let (_, rest) = message.split_once("for volume \"")?;
    let volume = rest.split('"').next()?;
    let (_, said) = message.split_once("references non-existent ")?;
    let (_, key) = said.split_once(" key: ")?;
    let key = key.split([' ', ',', ']']).next()?;
    let mut volumes = doc.items("/spec/volumes").iter();
    let spec = volumes.find(|spec| name(spec) == volume)?;
    let asks = |of: &Value| list(of, "items").any(|item| item["key"] == key);
    let mut asked = sources(spec).filter(|(_, of)| asks(of));
    let (source, lacks) = asked.find_map(|of| {
        let source = read(world, doc, of)?;
        let lacks = source.lacks(key)?;
        Some((source, lacks))
    })?;
    let mounts =
        |container: &&Value| list(container, "volumeMounts").any(|mount| name(mount) == volume);
    let users: Vec<&str> = containers(doc).filter(mounts).map(name).collect();
    Some(Named {
        message: format!(
            "{message}; {lacks}, which an item of the volume asks for; its containers: {}",
            users.join(", ")
        ),
        who: format!(
            "owner of {} (key {key}), or owner of the pod template (items of volume {volume})",
            source.text
        ),
    })
}

/// The mount of a container that ends, if the mount is a directory in place of a file.
fn crash(world: &World, doc: &Doc, message: &str, who: &str) -> Option<Named> {
    if message.contains("(OOMKilled)") {
        return None;
    }
    let container = container(doc, message)?;
    let mut mounts = list(container, "volumeMounts");
    let found = mounts.find_map(|mount| directory(world, doc, mount, message))?;
    let start = format!("container {}", name(container));
    let (begin, end) = message.split_once(&*start)?;
    // The runtime refuses the mount itself. A program may end for another reason.
    let who = if is_refused(message) {
        found.who
    } else {
        format!("{}; or {who}", found.who)
    };
    Some(Named {
        message: format!("{begin}{start}: {}; it{end}", found.message),
        who,
    })
}

/// Whether the runtime refuses to mount a directory on a file, or the reverse.
fn is_refused(message: &str) -> bool {
    message.contains("(StartError)") && message.contains("not a directory")
}

/// The clause about `mount` if it is a directory, and the container expects a file.
fn directory(world: &World, doc: &Doc, mount: &Value, message: &str) -> Option<Named> {
    let text = |field: &str| mount[field].as_str().unwrap_or_default();
    let path = text("mountPath");
    let volume = text("name");
    let file = text("subPath");
    let is_told = is_refused(message) && message.contains(&format!("\"{path}\""));
    if file.is_empty() && !is_told {
        return None;
    }
    let mut volumes = doc.items("/spec/volumes").iter();
    let spec = volumes.find(|spec| name(spec) == volume)?;
    let of = sources(spec)
        .next()
        .filter(|_| spec["projected"].is_null())?;
    if file.is_empty() {
        return Some(Named {
            message: format!(
                "its mount {path} is the directory of volume {volume}, and the image has a file there"
            ),
            who: format!("owner of the pod template (subPath of the mount {path} for one file)"),
        });
    }
    let source = read(world, doc, of)?;
    let lacks = match list(of.1, "items").next() {
        None => source.lacks(file.split('/').next()?)?,
        Some(_) => no_item(&source, of.1, file)?,
    };
    Some(Named {
        message: format!(
            "its mount {path} (subPath {file} of volume {volume}) is an empty directory, because {lacks}"
        ),
        who: format!(
            "owner of the pod template (subPath of volume {volume}), or owner of {} (its keys)",
            source.text
        ),
    })
}

/// The clause if no item of a volume gives `file`. An optional item may name a key that is missing.
fn no_item(source: &Source, of: &Value, file: &str) -> Option<String> {
    let given = list(of, "items").filter(|item| {
        let key = item["key"].as_str();
        key.is_some_and(|key| source.keys.contains(key))
    });
    let paths: Vec<&str> = given.filter_map(|item| item["path"].as_str()).collect();
    let is_in = |path: &&str| {
        let rest = path.strip_prefix(file);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_missing = !paths.iter().any(is_in);
    is_missing.then(|| {
        format!(
            "the items of {} give no file {file} ({})",
            source.text,
            existing(paths.iter().copied())
        )
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{Loaded, Need, Reason};

    fn world() -> World {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let objects = [
            (
                &CONFIG_MAPS,
                "web",
                json!({"data": {"web.conf": ""}, "binaryData": {"logo": ""}}),
            ),
            (&SECRETS, "db", json!({"data": {"password": "eA=="}})),
        ];
        for (of, name, value) in objects {
            let need = Need::Object {
                of: of.clone(),
                namespace: "shop".to_owned(),
                name: name.to_owned(),
            };
            world.load(need, Loaded::Objects(vec![Doc::new(value)]));
        }
        world
    }

    /// The last reason of a pod with these mounts and this volume, told as `message`.
    fn told(mounts: Value, volume: Value, code: Code, message: &str) -> Reason {
        let variable = |kind: &str, object: &str, key: &str| json!({"name": key.to_uppercase(), "valueFrom": {kind: {"name": object, "key": key}}});
        let doc = Doc::new(json!({
            "metadata": {"namespace": "shop", "name": "web-1"},
            "spec": {
                "containers": [{
                    "name": "web", "volumeMounts": mounts,
                    "env": [variable("secretKeyRef", "db", "user"), variable("configMapKeyRef", "web", "host")],
                }],
                "volumes": [volume],
            },
        }));
        let mut answer = Explanation::new(doc.subject(&steersman_values::resource::PODS), "");
        answer.add(Reason::new(code, "", message).who("before"));
        name_missing(&world(), &doc, &mut answer);
        answer.reasons.remove(0)
    }

    const REFUSED: &str = "container web ended with exit code 128 (StartError): error mounting \"/x/0\" to rootfs at \"/etc/web.conf\": not a directory: unknown";

    #[test]
    fn a_missing_key_of_a_sub_path_is_told_with_the_keys_of_the_object() {
        let whole = json!({"name": "files", "configMap": {"name": "web"}});
        let mount =
            |file: &str| json!([{"name": "files", "mountPath": "/etc/web.conf", "subPath": file}]);
        let told_of = |file: &str, volume: &Value, message: &str| {
            told(mount(file), volume.clone(), Code::ContainerCrash, message)
        };
        let reason = told_of("nginx.conf", &whole, REFUSED);
        assert!(
            reason.message.starts_with(
                "container web: its mount /etc/web.conf (subPath nginx.conf of volume files) is an empty directory, because \
                 ConfigMap shop/web has no key nginx.conf (there are logo, web.conf); it ended with exit code 128"
            ),
            "{}",
            reason.message
        );
        assert_eq!(
            reason.who,
            "owner of the pod template (subPath of volume files), or owner of ConfigMap shop/web (its keys)"
        );
        // A program that ends for itself keeps its owner.
        let ended = "container web ended with exit code 1 (Error)";
        assert!(
            told_of("nginx.conf", &whole, ended)
                .who
                .ends_with("(its keys); or before")
        );
        for file in ["web.conf", "logo"] {
            assert_eq!(told_of(file, &whole, REFUSED).message, REFUSED, "{file}");
        }
        // (path of the item, is missing)
        let cases = [
            ("a/nginx.conf", true),
            ("nginx.conf", false),
            ("nginx.conf/b", false),
        ];
        for (path, is_missing) in cases {
            let items =
                json!([{"key": "web.conf", "path": path}, {"key": "gone", "path": "nginx.conf/x"}]);
            let items = if is_missing { items } else { json!([items[0]]) };
            let volume = json!({"name": "files", "configMap": {"name": "web", "items": items}});
            let message = told_of("nginx.conf", &volume, REFUSED).message;
            let expected =
                "the items of ConfigMap shop/web give no file nginx.conf (there is a/nginx.conf)";
            assert_eq!(message.contains(expected), is_missing, "{path}: {message}");
        }
    }

    #[test]
    fn a_whole_volume_on_a_file_of_the_image_is_told() {
        let mounts = json!([{"name": "files", "mountPath": "/etc/web.conf"}]);
        let volume = json!({"name": "files", "secret": {"secretName": "db"}});
        let told_as = |message: &str| {
            told(
                mounts.clone(),
                volume.clone(),
                Code::ContainerCrash,
                message,
            )
        };
        assert!(
            told_as(REFUSED)
                .message
                .contains("is the directory of volume files, and the image has a file there")
        );
        let elsewhere = REFUSED.replace("web.conf", "other");
        assert_eq!(told_as(&elsewhere).message, elsewhere);
        let ended = "container web ended with exit code 1 (Error)";
        assert_eq!(told_as(ended).message, ended);
    }

    #[test]
    fn missing_keys_of_variables_and_items_are_told() {
        let mounts = json!([{"name": "files", "mountPath": "/etc/web"}]);
        let items = json!([{"key": "tls.key", "path": "k"}]);
        let parts = json!([{"configMap": {"name": "web", "items": []}}, {"secret": {"name": "db", "items": items}}]);
        let volume = json!({"name": "files", "projected": {"sources": parts}});
        // (code, words of the kubelet, clause, actor)
        let cases = [
            (
                Code::ContainerConfig,
                "container web cannot be started (CreateContainerConfigError): couldn't find key user in Secret shop/db",
                "; Secret shop/db has no key user (there is password), which the variable USER asks for",
                "owner of Secret shop/db (key user), or owner of the pod template (env USER)",
            ),
            (
                Code::VolumeMount,
                "MountVolume.SetUp failed for volume \"files\" : references non-existent secret key: tls.key",
                "; Secret shop/db has no key tls.key (there is password), which an item of the volume asks for; its \
                 containers: web",
                "owner of Secret shop/db (key tls.key), or owner of the pod template (items of volume files)",
            ),
            (
                Code::VolumeMount,
                "MountVolume.SetUp failed for volume \"files\" : configmap \"gone\" not found",
                "",
                "before",
            ),
        ];
        for (code, message, clause, who) in cases {
            let reason = told(mounts.clone(), volume.clone(), code, message);
            assert_eq!(reason.message, format!("{message}{clause}"));
            assert_eq!(reason.who, who, "{message}");
        }
    }
}
