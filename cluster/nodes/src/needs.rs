//! The ConfigMaps, Secrets and ServiceAccounts that a pod needs, and the words of a kubelet for those
//! that are missing.
//!
//! pod -> [`Need`] (decoded once); configuration (informers) -> [`Configuration::missing`] -> a
//! volume that cannot be mounted, or a container that cannot be created
//!
//! The caches hold the names of keys only, so no value of a Secret is kept. A kubelet requests the
//! token of a pod from the API server, which refuses it only for a missing ServiceAccount. Upstream:
//! `pkg/kubelet/kubelet_pods.go` (`makeEnvironmentVariables`) and `pkg/volume/{configmap,secret,
//! projected}`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::IgnoredAny;
use steersman_objects::{DecodeError, Meta, Object, ObjectKey, ObjectMetadata};
use steersman_runtime::informer::Store;
use steersman_values::resource::ResourceType;

/// An object that a pod needs, and the part of the pod that needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Need {
    user: User,
    kind: Kind,
    name: Box<str>,
    /// The keys that the object must have.
    keys: Box<[Box<str>]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum User {
    /// A volume, by its name.
    Volume(Box<str>),
    /// The environment of a container, by its name.
    Container(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    ConfigMap,
    Secret,
    /// The ServiceAccount of the pod, for a token.
    Account,
}

impl Kind {
    /// The words of a kubelet about a missing object.
    fn not_found(self, name: &str) -> String {
        match self {
            Self::ConfigMap => format!("configmap {name:?} not found"),
            Self::Secret => format!("secret {name:?} not found"),
            Self::Account => {
                format!("failed to fetch token: serviceaccounts {name:?} not found")
            }
        }
    }
}

/// A volume, as served.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeWire {
    name: Box<str>,
    config_map: Option<SourceWire>,
    secret: Option<SourceWire>,
    projected: Option<ProjectedWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SourceWire {
    name: Box<str>,
    /// The name in a volume of type `secret`.
    secret_name: Box<str>,
    items: Vec<KeyWire>,
    key: Box<str>,
    optional: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyWire {
    key: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectedWire {
    sources: Vec<ProjectionWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProjectionWire {
    config_map: Option<SourceWire>,
    secret: Option<SourceWire>,
    service_account_token: Option<IgnoredAny>,
}

/// A variable of a container, as served.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EnvWire {
    value_from: Option<ValueFromWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueFromWire {
    config_map_key_ref: Option<SourceWire>,
    secret_key_ref: Option<SourceWire>,
}

/// An object whose keys are variables of a container, as served.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EnvFromWire {
    config_map_ref: Option<SourceWire>,
    secret_ref: Option<SourceWire>,
}

impl Need {
    /// The needs of a volume of a pod with this ServiceAccount. A pod without one has no token.
    pub(super) fn of_volume(volume: &VolumeWire, account: &str) -> Vec<Self> {
        let user = User::Volume(volume.name.clone());
        let token = || Self {
            user: user.clone(),
            kind: Kind::Account,
            name: account.into(),
            keys: Box::default(),
        };
        let sources = [[&volume.config_map, &volume.secret]];
        let mut needs = Self::of_sources(&user, sources.into_iter());
        for one in volume.projected.iter().flat_map(|all| &all.sources) {
            let sources = [[&one.config_map, &one.secret]];
            needs.extend(Self::of_sources(&user, sources.into_iter()));
            if one.service_account_token.is_some() && !account.is_empty() {
                needs.push(token());
            }
        }
        needs
    }

    /// The needs of the environment of a container, in the order in which a kubelet reads them.
    pub(super) fn of_container(name: &str, from: &[EnvFromWire], env: &[EnvWire]) -> Vec<Self> {
        let from = from
            .iter()
            .map(|from| [&from.config_map_ref, &from.secret_ref]);
        let values = env.iter().filter_map(|env| env.value_from.as_ref());
        let values = values.map(|value| [&value.config_map_key_ref, &value.secret_key_ref]);
        Self::of_sources(&User::Container(name.into()), from.chain(values))
    }

    /// The needs for pairs of ConfigMap and Secret. Optional sources need nothing.
    fn of_sources<'a>(
        user: &User,
        sources: impl Iterator<Item = [&'a Option<SourceWire>; 2]>,
    ) -> Vec<Self> {
        let kinds = |pair: [&'a Option<SourceWire>; 2]| {
            let [map, secret] = pair;
            let kinds = [(Kind::ConfigMap, map), (Kind::Secret, secret)];
            kinds
                .into_iter()
                .filter_map(|(kind, source)| Some((kind, source.as_ref()?)))
        };
        sources
            .flat_map(kinds)
            .filter(|(_, source)| source.optional != Some(true))
            .map(|(kind, source)| Self {
                user: user.clone(),
                kind,
                name: if source.name.is_empty() {
                    source.secret_name.clone()
                } else {
                    source.name.clone()
                },
                keys: source
                    .items
                    .iter()
                    .map(|item| &item.key)
                    .chain(Some(&source.key).filter(|key| !key.is_empty()))
                    .cloned()
                    .collect(),
            })
            .collect()
    }
}

/// The parts of a pod that cannot start, with the words of a kubelet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Messages of Events about volumes. No container starts before all volumes are mounted.
    pub(super) mounts: Vec<String>,
    /// Messages by the name of the container.
    pub(super) containers: BTreeMap<Box<str>, String>,
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.mounts.is_empty() && self.containers.is_empty()
    }
}

/// The names and keys of ConfigMaps and Secrets, and the names of ServiceAccounts.
#[derive(Clone)]
pub(super) struct Configuration {
    pub(super) config_maps: Store<Keyed<ConfigMaps>>,
    pub(super) secrets: Store<Keyed<Secrets>>,
    pub(super) accounts: Store<Keyed<Accounts>>,
}

impl Configuration {
    /// The needs of a pod in this namespace that are not met.
    pub(super) fn missing(&self, namespace: &str, needs: &[Need]) -> Missing {
        missing(namespace, needs, |kind, name| {
            let key = ObjectKey::new(namespace, name);
            match kind {
                Kind::ConfigMap => self.config_maps.get(&key).map(|map| map.keys.clone()),
                Kind::Secret => self.secrets.get(&key).map(|secret| secret.keys.clone()),
                Kind::Account => self.accounts.get(&key).map(|_| Box::default()),
            }
        })
    }
}

/// The decision behind [`Configuration::missing`]. `keys_of` returns the keys of an object that
/// exists.
fn missing(
    namespace: &str,
    needs: &[Need],
    keys_of: impl Fn(Kind, &str) -> Option<Box<[Box<str>]>>,
) -> Missing {
    let mut volumes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut found = Missing::default();
    for need in needs {
        let keys = keys_of(need.kind, &need.name);
        let absent = keys.as_ref().map(|keys| {
            let mut wanted = need.keys.iter();
            wanted.find(|key| !keys.contains(key))
        });
        let kind = need.kind;
        let name = &need.name;
        match (&need.user, absent) {
            (_, Some(None)) => {}
            (User::Volume(volume), absent) => {
                let why = match (absent.flatten(), kind) {
                    (None, _) => kind.not_found(name),
                    (Some(key), Kind::ConfigMap) => {
                        format!("configmap references non-existent config key: {key}")
                    }
                    (Some(key), _) => {
                        format!("references non-existent secret key: {key}")
                    }
                };
                volumes.entry(volume).or_default().push(why);
            }
            (User::Container(container), absent) => {
                let why = match (absent.flatten(), kind) {
                    (None, _) => kind.not_found(name),
                    (Some(key), Kind::ConfigMap) => {
                        format!("couldn't find key {key} in ConfigMap {namespace}/{name}")
                    }
                    (Some(key), _) => {
                        format!("couldn't find key {key} in Secret {namespace}/{name}")
                    }
                };
                // A kubelet reports the first one.
                found.containers.entry(container.clone()).or_insert(why);
            }
        }
    }
    let mounts = volumes.into_iter().map(|(volume, whys)| {
        let why: Cow<'_, str> = match &whys[..] {
            [why] => Cow::Borrowed(why),
            _ => Cow::Owned(format!("[{}]", whys.join(", "))),
        };
        format!("MountVolume.SetUp failed for volume {volume:?} : {why}")
    });
    found.mounts = mounts.collect();
    found
}

/// A kind of objects with keys.
pub(super) trait KeyedKind: Send + Sync + 'static {
    const RESOURCE: &'static ResourceType;
}

/// An object of the kind `K`: its metadata, and the names of its keys.
#[derive(Debug)]
pub(super) struct Keyed<K> {
    meta: Meta,
    keys: Box<[Box<str>]>,
    kind: PhantomData<fn() -> K>,
}

/// v1 configmaps.
#[derive(Debug)]
pub(super) struct ConfigMaps;

/// v1 secrets.
#[derive(Debug)]
pub(super) struct Secrets;

/// v1 serviceaccounts, which have no keys.
#[derive(Debug)]
pub(super) struct Accounts;

const fn keyed_type(kind: &'static str, plural: &'static str) -> ResourceType {
    ResourceType {
        group: Cow::Borrowed(""),
        version: Cow::Borrowed("v1"),
        kind: Cow::Borrowed(kind),
        plural: Cow::Borrowed(plural),
        namespaced: true,
    }
}

impl KeyedKind for ConfigMaps {
    const RESOURCE: &'static ResourceType = &keyed_type("ConfigMap", "configmaps");
}

impl KeyedKind for Secrets {
    const RESOURCE: &'static ResourceType = &keyed_type("Secret", "secrets");
}

impl KeyedKind for Accounts {
    const RESOURCE: &'static ResourceType = &keyed_type("ServiceAccount", "serviceaccounts");
}

impl<K: KeyedKind> Object for Keyed<K> {
    const RESOURCE: &'static ResourceType = K::RESOURCE;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            #[serde(default)]
            data: Option<BTreeMap<Box<str>, IgnoredAny>>,
            #[serde(default)]
            binary_data: Option<BTreeMap<Box<str>, IgnoredAny>>,
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "ConfigMap, Secret or ServiceAccount",
            source,
        })?;
        let maps = [wire.data, wire.binary_data];
        let keys = maps.into_iter().flatten().flat_map(BTreeMap::into_keys);
        Ok(Self {
            meta: ObjectMetadata::decode(json)?.meta,
            keys: keys.collect(),
            kind: PhantomData,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The unmet needs of a pod with these volumes and this environment of its container, beside a
    /// ConfigMap `map` and a Secret `safe` with the key `k`, and a ServiceAccount `bot`.
    fn unmet(account: &str, volumes: Value, container: Value) -> Missing {
        let volumes: Vec<VolumeWire> = serde_json::from_value(volumes).unwrap();
        let from: Vec<EnvFromWire> =
            serde_json::from_value(container.get("envFrom").cloned().unwrap_or(json!([]))).unwrap();
        let env: Vec<EnvWire> =
            serde_json::from_value(container.get("env").cloned().unwrap_or(json!([]))).unwrap();
        let mut needs: Vec<Need> = volumes
            .iter()
            .flat_map(|volume| Need::of_volume(volume, account))
            .collect();
        needs.extend(Need::of_container("main", &from, &env));
        missing("shop", &needs, |kind, name| {
            let exists = matches!(
                (kind, name),
                (Kind::ConfigMap, "map") | (Kind::Secret, "safe") | (Kind::Account, "bot")
            );
            exists.then(|| [Box::from("k")].into())
        })
    }

    #[test]
    fn volumes_need_their_objects_and_keys() {
        let failed = |why: &str| format!("MountVolume.SetUp failed for volume \"v\" : {why}");
        let item = |key: &str| json!([{"key": key, "path": "p"}]);
        // (volume, message)
        let cases = [
            (json!({"configMap": {"name": "map"}}), None),
            (
                json!({"secret": {"secretName": "safe", "items": item("k")}}),
                None,
            ),
            (json!({"emptyDir": {}}), None),
            (
                json!({"configMap": {"name": "nope"}}),
                Some("configmap \"nope\" not found"),
            ),
            (
                json!({"configMap": {"name": "nope", "optional": true}}),
                None,
            ),
            (
                json!({"secret": {"secretName": "nope"}}),
                Some("secret \"nope\" not found"),
            ),
            (
                json!({"configMap": {"name": "map", "items": item("z")}}),
                Some("configmap references non-existent config key: z"),
            ),
            (
                json!({"secret": {"secretName": "safe", "items": item("z")}}),
                Some("references non-existent secret key: z"),
            ),
            (
                json!({"projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "b"}},
                    {"serviceAccountToken": {"path": "t"}}]}}),
                Some("[configmap \"a\" not found, secret \"b\" not found]"),
            ),
        ];
        for (mut volume, expected) in cases {
            volume["name"] = json!("v");
            let found = unmet("bot", json!([volume]), json!({}));
            let expected: Vec<String> = expected.map(failed).into_iter().collect();
            assert_eq!(found.mounts, expected, "{volume}");
            assert_eq!(found.is_empty(), expected.is_empty());
        }
    }

    /// The sources are those of the volume that the ServiceAccount admission plugin adds.
    #[test]
    fn token_volumes_need_the_account_and_the_root_certificate() {
        let volume = |map: &str| {
            json!([{"name": "v", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": map, "items": [{"key": "k", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace"}]}},
            ]}}])
        };
        let token = "failed to fetch token: serviceaccounts \"ghost\" not found";
        let map = "configmap \"nope\" not found";
        // (account, ConfigMap, message)
        let cases = [
            ("bot", "map", None),
            ("", "map", None),
            ("ghost", "map", Some(token.to_owned())),
            ("bot", "nope", Some(map.to_owned())),
            ("ghost", "nope", Some(format!("[{token}, {map}]"))),
        ];
        for (account, map, expected) in cases {
            let found = unmet(account, volume(map), json!({})).mounts;
            let expected =
                expected.map(|why| format!("MountVolume.SetUp failed for volume \"v\" : {why}"));
            assert_eq!(found, Vec::from_iter(expected), "{account} {map}");
        }
    }

    #[test]
    fn environments_need_their_objects_and_keys() {
        let value = |kind: &str, name: &str, key: &str| json!({"env": [{"name": "E", "valueFrom": {kind: {"name": name, "key": key}}}]});
        // (container, message)
        let cases = [
            (value("configMapKeyRef", "map", "k"), None),
            (
                value("secretKeyRef", "nope", "k"),
                Some("secret \"nope\" not found"),
            ),
            (
                value("secretKeyRef", "safe", "z"),
                Some("couldn't find key z in Secret shop/safe"),
            ),
            (
                value("configMapKeyRef", "map", "z"),
                Some("couldn't find key z in ConfigMap shop/map"),
            ),
            (
                json!({"envFrom": [{"configMapRef": {"name": "nope"}}, {"secretRef": {"name": "late"}}]}),
                Some("configmap \"nope\" not found"),
            ),
            (
                json!({"envFrom": [{"secretRef": {"name": "nope", "optional": true}}]}),
                None,
            ),
            (json!({"env": [{"name": "E", "value": "v"}]}), None),
        ];
        for (container, expected) in cases {
            let found = unmet("bot", json!([]), container.clone());
            let found = found.containers.get("main").map(String::as_str);
            assert_eq!(found, expected, "{container}");
        }
    }
}
