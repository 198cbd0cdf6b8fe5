//! Compares the answers of both servers to the documents of published projects.
//!
//! definitions in a dry run -> stored, and settled -> other documents in dry runs -> replacements by
//! other texts of the same definition -> deletion
//!
//! No object but definitions, namespaces and their accounts is stored, so that the order of the
//! documents has no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::answer::{Answer, differences, drop_openshift_source, mask_generated, masked, send};
use crate::documents::{self, Document};
use crate::kinds::{Kinds, segment};
use crate::play::Servers;
use crate::tally::{self, Tally};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MANAGER: &str = "fieldManager=differential";
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// Further attempts at a refusal with another text: upstream orders some errors at random.
const ATTEMPTS: usize = 12;
/// The longest time in which the controllers of definitions settle.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
/// A definition that does not change for this time has settled.
const CALM: Duration = Duration::from_secs(1);
/// Characters of one line of a difference.
const WIDTH: usize = 300;
/// Lines of one difference.
const LINES: usize = 6;

/// Compares the documents below each folder, and prints the differences and a table.
pub(crate) async fn compare(
    servers: &Servers,
    folders: &[impl AsRef<Path>],
    jobs: usize,
) -> Result<()> {
    let kinds = Kinds::of_server(&servers.real).await?;
    let mut rows = Vec::new();
    for folder in folders {
        let folder = folder.as_ref();
        let name = folder.file_name().unwrap_or(folder.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let documents = documents::read(folder)?;
        let mut project = Project {
            servers,
            name: &name,
            jobs,
            kinds: kinds.clone(),
            tally: Tally::default(),
        };
        project
            .compare(documents)
            .await
            .with_context(|| name.clone())?;
        let tally = project.tally;
        eprintln!("{name}: {tally:?}");
        rows.push((name, tally));
    }
    println!("{}", tally::table(&rows));
    Ok(())
}

/// The comparison of the documents of one project.
struct Project<'a> {
    servers: &'a Servers,
    name: &'a str,
    jobs: usize,
    kinds: Kinds,
    tally: Tally,
}

/// One request, to either server.
#[derive(Debug, Clone)]
struct Request {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: String,
}

/// The texts that both servers accept, by the name of the definition.
type Texts = BTreeMap<String, Vec<Document>>;

/// The definitions of a server, by name.
type Definitions = BTreeMap<String, Value>;

/// The differences of definitions, by name.
type Found = BTreeMap<String, Vec<String>>;

impl Project<'_> {
    async fn compare(&mut self, documents: Vec<Document>) -> Result<()> {
        let (definitions, manifests): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(is_definition);
        let texts = self.try_definitions(definitions).await?;
        self.store(&texts).await?;
        self.compare_manifests(manifests).await?;
        self.replace(&texts).await?;
        self.delete(texts.keys()).await
    }

    /// Posts all definitions in dry runs.
    async fn try_definitions(&mut self, definitions: Vec<Document>) -> Result<Texts> {
        let mut texts = Texts::new();
        for document in definitions {
            let request = Request {
                method: "POST",
                path: format!("{DEFINITIONS}?dryRun=All&{MANAGER}"),
                content_type: YAML,
                body: document.text.clone(),
            };
            let (real, embedded) = ask(self.servers, [&request, &request], None).await?;
            self.tally.definitions += 1;
            if real.code < 300 {
                self.tally.accepted += 1;
            }
            let found = real.differences(&embedded);
            if !found.is_empty() {
                self.tally.answered_otherwise += 1;
                self.report(&document, "definition", &found);
            }
            if real.code < 300 && embedded.code < 300 {
                let name = document.name().to_owned();
                texts.entry(name).or_default().push(document);
            }
        }
        Ok(texts)
    }

    /// Stores the first text of each definition, and compares the stored objects of both servers.
    async fn store(&mut self, texts: &Texts) -> Result<()> {
        let mut answers = BTreeMap::new();
        for (name, texts) in texts {
            let request = Request {
                method: "POST",
                path: format!("{DEFINITIONS}?{MANAGER}"),
                content_type: YAML,
                body: texts[0].text.clone(),
            };
            let (real, embedded) = ask(self.servers, [&request, &request], None).await?;
            answers.insert(name.as_str(), real.differences(&embedded));
        }
        let (real, found) = self.settle(&names(texts)).await?;
        for (name, text) in texts {
            self.tally.stored += 1;
            let mut lines = answers.remove(name.as_str()).unwrap_or_default();
            lines.extend(found.get(name).cloned().unwrap_or_default());
            if !lines.is_empty() {
                self.tally.stored_otherwise += 1;
                self.report(&text[0], "stored definition", &lines);
            }
        }
        for definition in real
            .values()
            .filter(|definition| is_established(definition))
        {
            for path in self.kinds.define(definition) {
                wait_until_served(self.servers, &path).await?;
            }
        }
        Ok(())
    }

    /// Replaces each definition by its other texts, one after the other.
    async fn replace(&mut self, texts: &Texts) -> Result<()> {
        let rounds = texts.values().map(Vec::len).max().unwrap_or_default();
        for round in 1..rounds {
            let of_round: Texts = texts
                .iter()
                .filter_map(|(name, texts)| Some((name.clone(), vec![texts.get(round)?.clone()])))
                .filter(|(_, texts)| texts[0].is_whole())
                .collect();
            let real = definitions(&self.servers.real).await?;
            let embedded = definitions(&self.servers.embedded).await?;
            let mut answers = BTreeMap::new();
            for (name, document) in &of_round {
                let request = |stored: &Definitions| {
                    let version = stored.get(name)?.pointer("/metadata/resourceVersion");
                    let mut object = document[0].object.clone();
                    object["metadata"]["resourceVersion"] = version?.clone();
                    Some(Request {
                        method: "PUT",
                        path: format!("{DEFINITIONS}/{}?{MANAGER}", segment(name)),
                        content_type: JSON,
                        body: object.to_string(),
                    })
                };
                let [Some(real), Some(embedded)] = [request(&real), request(&embedded)] else {
                    bail!("{name} is not stored");
                };
                let (real, embedded) = ask(self.servers, [&real, &embedded], None).await?;
                answers.insert(name.as_str(), real.differences(&embedded));
            }
            let (_, mut found) = self.settle(&names(&of_round)).await?;
            for (name, document) in &of_round {
                self.tally.replacements += 1;
                let mut lines = answers.remove(name.as_str()).unwrap_or_default();
                lines.extend(found.remove(name).unwrap_or_default());
                if !lines.is_empty() {
                    self.tally.replaced_otherwise += 1;
                    self.report(&document[0], "replacement", &lines);
                }
            }
        }
        Ok(())
    }

    /// Waits until the controllers of definitions have nothing to do. Returns the definitions of the
    /// real server, and the differences by name.
    async fn settle(&self, names: &BTreeSet<&str>) -> Result<(Definitions, Found)> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        let mut before = Definitions::new();
        loop {
            let real = definitions(&self.servers.real).await?;
            let embedded = definitions(&self.servers.embedded).await?;
            let found = differences_by_name(names, &real, &embedded);
            let is_settled =
                real == before && names.iter().all(|name| has_conditions(real.get(*name)));
            if (is_settled && found.is_empty()) || Instant::now() > deadline {
                return Ok((real, found));
            }
            before = real;
            sleep(CALM).await;
        }
    }

    async fn compare_manifests(&mut self, manifests: Vec<Document>) -> Result<()> {
        let (namespaces, others): (Vec<_>, Vec<_>) = manifests
            .into_iter()
            .partition(|document| document.kind() == "Namespace");
        let needed: BTreeSet<String> = others
            .iter()
            .map(|document| document.namespace().to_owned())
            .collect();
        self.compare_all(namespaces).await?;
        for namespace in needed {
            for client in [&self.servers.real, &self.servers.embedded] {
                make_namespace(client, &namespace).await?;
            }
        }
        self.compare_all(others).await
    }

    async fn compare_all(&mut self, manifests: Vec<Document>) -> Result<()> {
        let servers = self.servers;
        let kinds = &self.kinds;
        let compared = futures::stream::iter(manifests)
            .map(|document| async move {
                let found = match kinds.collection(&document) {
                    Some(path) => Some(compare_manifest(servers, &document, &path).await?),
                    None => None,
                };
                anyhow::Ok((document, found))
            })
            .buffered(self.jobs);
        let compared: Vec<_> = compared.try_collect().await?;
        for (document, found) in compared {
            let Some(found) = found else {
                self.tally.of_no_kind += 1;
                continue;
            };
            self.tally.manifests += 1;
            if found.is_accepted {
                self.tally.manifests_accepted += 1;
            }
            if found.differences.is_empty() {
                self.tally.manifests_equal += 1;
            } else {
                self.report(&document, "manifest", &found.differences);
            }
        }
        Ok(())
    }

    /// Deletes the definitions, and waits until they are gone.
    async fn delete(&self, names: impl Iterator<Item = &String> + Clone) -> Result<()> {
        for client in [&self.servers.real, &self.servers.embedded] {
            for name in names.clone() {
                let path = format!("{DEFINITIONS}/{}", segment(name));
                send(client, "DELETE", &path, JSON, String::new()).await?;
            }
            let deadline = Instant::now() + 10 * SETTLED_WITHIN;
            loop {
                let left = definitions(client).await?;
                if names.clone().all(|name| !left.contains_key(name)) {
                    break;
                }
                if Instant::now() > deadline {
                    bail!("definitions are not deleted");
                }
                sleep(CALM).await;
            }
        }
        Ok(())
    }

    /// Prints one difference shortly.
    fn report(&self, document: &Document, of: &str, lines: &[String]) {
        let Document { place, .. } = document;
        let project = &self.name;
        println!(
            "--- {project} {place} {of}: {} {}",
            document.kind(),
            document.name()
        );
        for line in lines.iter().take(LINES) {
            println!("  {}", shortened(line));
        }
        if lines.len() > LINES {
            println!("  and {} more", lines.len() - LINES);
        }
    }
}

/// The answers to one manifest.
struct Compared {
    /// The real server accepts the POST.
    is_accepted: bool,
    differences: Vec<String>,
}

/// Posts the document, and applies it if it has a name, both in dry runs.
async fn compare_manifest(
    servers: &Servers,
    document: &Document,
    collection: &str,
) -> Result<Compared> {
    let post = Request {
        method: "POST",
        path: format!("{collection}?dryRun=All&{MANAGER}"),
        content_type: YAML,
        body: document.text.clone(),
    };
    let (real, embedded) = ask(servers, [&post, &post], document.generated_from()).await?;
    let mut found = real.differences(&embedded);
    if !document.name().is_empty() {
        let name = segment(document.name());
        let apply = Request {
            method: "PATCH",
            path: format!("{collection}/{name}?dryRun=All&force=true&{MANAGER}"),
            content_type: APPLY,
            body: document.text.clone(),
        };
        let (real, embedded) = ask(servers, [&apply, &apply], None).await?;
        let lines = real.differences(&embedded).into_iter();
        found.extend(lines.map(|line| format!("apply: {line}")));
    }
    Ok(Compared {
        is_accepted: real.code < 300,
        differences: found,
    })
}

/// The masked answers of the real and of the embedded server.
async fn ask(
    servers: &Servers,
    [to_real, to_embedded]: [&Request; 2],
    generated_from: Option<&str>,
) -> Result<(Answer, Answer)> {
    let send = |client, request| one_answer(client, request, generated_from);
    let mut real = send(&servers.real, to_real).await?;
    let embedded = send(&servers.embedded, to_embedded).await?;
    for _ in 0..ATTEMPTS {
        if real == embedded || real.code != embedded.code || real.code < 300 {
            break;
        }
        real = send(&servers.real, to_real).await?;
    }
    Ok((real, embedded))
}

async fn one_answer(
    client: &kube::Client,
    request: &Request,
    generated_from: Option<&str>,
) -> Result<Answer> {
    let Request {
        method,
        path,
        content_type,
        body,
    } = request;
    let mut answer = send(client, method, path, content_type, body.clone()).await?;
    mask_generated(&mut answer.body, generated_from);
    drop_openshift_source(&mut answer.body);
    Ok(answer.masked())
}

fn is_definition(document: &Document) -> bool {
    document.kind() == "CustomResourceDefinition"
        && document.api_version() == "apiextensions.k8s.io/v1"
        && !document.name().is_empty()
}

fn names(texts: &Texts) -> BTreeSet<&str> {
    texts.keys().map(String::as_str).collect()
}

/// All definitions of a server, by name.
async fn definitions(client: &kube::Client) -> Result<Definitions> {
    let answer = send(client, "GET", DEFINITIONS, JSON, String::new()).await?;
    let Value::Object(mut list) = answer.body else {
        bail!("GET {DEFINITIONS} answers {}", answer.code);
    };
    let items = match list.remove("items") {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let named = |mut item: Value| {
        // Items of lists have no kind, by which times are masked.
        item["kind"] = json!("CustomResourceDefinition");
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        (name.to_owned(), item)
    };
    Ok(items.into_iter().map(named).collect())
}

/// The differences of these definitions.
fn differences_by_name(
    names: &BTreeSet<&str>,
    real: &Definitions,
    embedded: &Definitions,
) -> Found {
    let definition =
        |of: &Definitions, name: &str| of.get(name).cloned().map(masked).unwrap_or_default();
    names
        .iter()
        .map(|name| {
            let found = differences(&definition(real, name), &definition(embedded, name));
            ((*name).to_owned(), found)
        })
        .filter(|(_, found)| !found.is_empty())
        .collect()
}

fn condition<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == name)
}

/// Whether the controllers of definitions have seen this one.
fn has_conditions(definition: Option<&Value>) -> bool {
    let has = |name| {
        definition
            .and_then(|definition| condition(definition, name))
            .is_some()
    };
    has("NamesAccepted") && has("Established")
}

fn is_established(definition: &Value) -> bool {
    condition(definition, "Established").is_some_and(|condition| condition["status"] == "True")
}

async fn wait_until_served(servers: &Servers, path: &str) -> Result<()> {
    let path = format!("{path}?limit=1");
    for client in [&servers.real, &servers.embedded] {
        let deadline = Instant::now() + SETTLED_WITHIN;
        while send(client, "GET", &path, JSON, String::new()).await?.code != 200 {
            if Instant::now() > deadline {
                bail!("{path} is not served");
            }
            sleep(CALM / 10).await;
        }
    }
    Ok(())
}

/// Creates a namespace with the account that pods need. A name that no namespace can have stays
/// without one.
async fn make_namespace(client: &kube::Client, name: &str) -> Result<()> {
    let namespaces = "/api/v1/namespaces".to_owned();
    let accounts = format!("{namespaces}/{}/serviceaccounts", segment(name));
    for (path, name) in [(namespaces, name), (accounts, "default")] {
        let object = json!({"metadata": {"name": name}});
        let path = format!("{path}?{MANAGER}");
        send(client, "POST", &path, JSON, object.to_string()).await?;
    }
    Ok(())
}

/// The beginning of a line.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(conditions: &[(&str, &str)]) -> Value {
        let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status});
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        json!({"metadata": {"uid": conditions.len()}, "status": {"conditions": conditions}})
    }

    #[test]
    fn a_definition_settles_once_its_names_are_decided() {
        let accepted = definition(&[("NamesAccepted", "True"), ("Established", "True")]);
        let refused = definition(&[("NamesAccepted", "False"), ("Established", "False")]);
        let begun = definition(&[("NamesAccepted", "True")]);
        for (definition, has, established) in [
            (Some(&accepted), true, true),
            (Some(&refused), true, false),
            (Some(&begun), false, false),
            (None, false, false),
        ] {
            assert_eq!(has_conditions(definition), has, "{definition:?}");
            let is_established = definition.is_some_and(is_established);
            assert_eq!(is_established, established, "{definition:?}");
        }
    }

    #[test]
    fn only_named_definitions_are_compared() {
        let of = |accepted: &str, other: &str| {
            let definition = |status| definition(&[("NamesAccepted", status)]);
            Definitions::from([
                ("a".to_owned(), definition(accepted)),
                ("b".to_owned(), definition(other)),
            ])
        };
        let names = BTreeSet::from(["a"]);
        let found = |embedded| differences_by_name(&names, &of("True", "True"), &embedded);
        assert!(found(of("True", "False")).is_empty());
        assert_eq!(
            found(of("False", "True"))["a"],
            [".status.conditions[0].status: real \"True\", embedded \"False\""]
        );
        assert_eq!(found(Definitions::new()).len(), 1);
    }

    #[test]
    fn long_lines_are_cut_between_letters() {
        assert_eq!(shortened("short"), "short");
        let cut = shortened(&"é".repeat(WIDTH + 1));
        assert_eq!(cut, format!("{}...", "é".repeat(WIDTH)));
    }
}
