//! The Helm chart: its generated parts are current, and the real Helm renders and installs it.
//!
//! `scripts/chart.sh` runs these tests with `UPDATE_CHART=1`, which writes the generated parts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use steersman::registry::ControllerRegistry;
use steersman_releases::{Gate, Release};
use steersman_runtime::rbac::Rule;

use crate::support::{output, python, skip};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Asserts that the file has the content `wanted`. If `UPDATE_CHART` is set, writes it instead.
fn keep_current(name: &str, wanted: &str) {
    if std::env::var_os("UPDATE_CHART").is_some() {
        std::fs::write(path(name), wanted).unwrap();
        return;
    }
    let found = read(name);
    for (at, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(
            found,
            wanted,
            "line {} of {name} is outdated, run scripts/chart.sh",
            at + 1
        );
    }
    assert!(found == wanted, "{name} is outdated, run scripts/chart.sh");
}

/// The feature gate without which a controller is not built, as `select` asks for it. `gates` are
/// those that users can set; the other ones are locked. Of several gates the last one counts.
fn gate_of(controller: &str, gates: &BTreeMap<String, (String, bool)>) -> Option<String> {
    let asked = RefCell::new(None);
    let is_on = |gate: &str| {
        if gates.contains_key(gate) {
            asked.replace(Some(gate.to_owned()));
        }
        true
    };
    ControllerRegistry::builtin()
        .select(&[controller.to_owned()], is_on)
        .expect("the name is from the registry");
    asked.into_inner()
}

/// Stage and default of each feature gate in the help of the program.
fn gates() -> BTreeMap<String, (String, bool)> {
    let help = String::from_utf8(output(&["--help"]).stdout).unwrap();
    let gate = |line: &str| {
        let (name, rest) = line
            .trim()
            .strip_prefix("kube:")?
            .split_once("=true|false (")?;
        let (stage, default) = rest.strip_suffix(')')?.split_once(" - default=")?;
        Some((name.to_owned(), (stage.to_owned(), default == "true")))
    };
    help.lines().filter_map(gate).collect()
}

/// The text of `files/controllers.yaml`. Its values are JSON, which is a subset of YAML.
fn controllers() -> String {
    let gates = gates();
    let gate_json = |name: &str| {
        // A gate of a later release is off until the manager follows that release.
        let (stage, default) = gates.get(name).cloned().unwrap_or_else(|| {
            let later = Gate::find(name).and_then(|gate| gate.at(Release::NEWEST));
            let stage = later.expect("a known gate").stage.name();
            (stage.to_owned(), false)
        });
        json!({"default": default, "name": name, "stage": stage})
    };
    let mut text = "# The controllers and their RBAC rules, for the templates. scripts/chart.sh generates this file.\n".to_owned();
    let list = |text: &mut String, key: &str, rules: &[Rule]| {
        writeln!(
            text,
            "  {key}:{}",
            if rules.is_empty() { " []" } else { "" }
        )
        .unwrap();
        for rule in rules {
            let mut line = serde_json::to_string(rule).unwrap();
            if let Some(namespace) = rule.namespace {
                line = line.replacen('{', &format!(r#"{{"namespace":"{namespace}","#), 1);
            }
            if let Some(gate) = rule.gate {
                let gate = gate_json(gate.name);
                line = line.replacen('{', &format!(r#"{{"gate":{gate},"#), 1);
            }
            writeln!(text, "    - {line}").unwrap();
        }
    };
    for controller in steersman_controllers::ALL {
        writeln!(text, "- name: {}", controller.name).unwrap();
        writeln!(text, "  aliases: {}", json!(controller.aliases)).unwrap();
        writeln!(
            text,
            "  enabledByDefault: {}",
            controller.enabled_by_default
        )
        .unwrap();
        if let Some(name) = gate_of(controller.name, &gates) {
            writeln!(text, "  gate: {}", gate_json(&name)).unwrap();
        }
        writeln!(text, "  identity: {}", controller.identity).unwrap();
        list(&mut text, "rules", &controller.all_rules());
        list(&mut text, "managerRules", &controller.rules_of_manager());
    }
    text
}

#[test]
fn the_chart_has_current_controllers_and_their_rules() {
    keep_current("charts/steersman/files/controllers.yaml", &controllers());
    let mut upstream =
        "# Names of the controllers of clouds, which --controllers accepts too. scripts/chart.sh generates this file.\n"
            .to_owned();
    for name in ControllerRegistry::builtin().names_of_clouds() {
        writeln!(upstream, "- {name}").unwrap();
    }
    keep_current("charts/steersman/files/upstream.yaml", &upstream);
}

/// A value of the chart: its full key, the text of its default, and the comment above it.
struct ChartValue {
    key: String,
    default: String,
    meaning: String,
}

/// Parses the values of the chart with their comments.
fn values(yaml: &str) -> Vec<ChartValue> {
    let mut values: Vec<ChartValue> = Vec::new();
    let mut group = String::new();
    let mut meaning = Vec::new();
    for line in yaml.lines() {
        if let Some(text) = line.trim_start().strip_prefix('#') {
            meaning.push(text.trim());
        } else if line.is_empty() {
            meaning.clear();
        } else if line.trim_start().starts_with("- ") {
            let last = values.last_mut().unwrap();
            last.default = format!("[{}]", line.trim_start().trim_start_matches("- "));
        } else {
            let (key, default) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("not a value: {line}"));
            let is_nested = key.starts_with(' ');
            let key = key.trim();
            let default = default.trim();
            if !is_nested && default.is_empty() {
                group = key.to_owned();
            }
            let key = if is_nested {
                format!("{group}.{key}")
            } else {
                key.to_owned()
            };
            values.push(ChartValue {
                key,
                default: default.to_owned(),
                meaning: std::mem::take(&mut meaning).join(" "),
            });
        }
    }
    // A key that only groups other keys needs no row.
    let is_group = |key: &str| {
        yaml.contains(&format!("\n{key}:\n  ")) && !yaml.contains(&format!("\n{key}:\n  - "))
    };
    values.retain(|value| !is_group(&value.key));
    values
}

/// The README of the chart with a current table of values.
fn readme() -> String {
    let readme = read("charts/steersman/README.md");
    let begin = "<!-- values: made by scripts/chart.sh -->\n";
    let end = "<!-- end -->";
    let (before, rest) = readme.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    for ChartValue {
        key,
        default,
        meaning,
    } in values(&read("charts/steersman/values.yaml"))
    {
        assert!(!meaning.is_empty(), "{key} has no comment above it");
        writeln!(table, "| `{key}` | `{default}` | {meaning} |").unwrap();
    }
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_readme_of_the_chart_lists_all_values() {
    keep_current("charts/steersman/README.md", &readme());
}

/// Collects the full keys of a schema or of values.
fn keys(
    value: &Value,
    of: impl Fn(&Value) -> Option<Value> + Copy,
    within: &str,
    all: &mut Vec<String>,
) {
    for (key, inner) in value.as_object().unwrap() {
        let key = format!("{within}{key}");
        match of(inner) {
            Some(inner) => keys(&inner, of, &format!("{key}."), all),
            None => all.push(key),
        }
    }
}

#[test]
fn values_and_schema_have_the_same_keys() {
    let schema: Value = serde_json::from_str(&read("charts/steersman/values.schema.json")).unwrap();
    let mut known = Vec::new();
    keys(
        &schema["properties"],
        |inner| inner.get("properties").cloned(),
        "",
        &mut known,
    );
    known.sort();
    let mut listed: Vec<String> = values(&read("charts/steersman/values.yaml"))
        .into_iter()
        .map(|value| value.key)
        .collect();
    // Helm defines `global` itself. `resources.claims` has no default in values.yaml.
    listed.extend(["global", "resources.claims"].map(str::to_owned));
    listed.sort();
    assert_eq!(known, listed);
}

#[test]
fn chart_image_and_program_have_the_same_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("charts/steersman/Chart.yaml");
    for line in [
        format!("\nversion: {version}\n"),
        format!("\nappVersion: {version}\n"),
    ] {
        assert!(chart.contains(&line), "{line:?} is not in:\n{chart}");
    }
    for (name, part) in [
        ("Dockerfile", format!("\nARG VERSION=\"{version}\"\n")),
        ("Dockerfile", format!("/steersman:{version},")),
        ("README.md", format!("/steersman:{version} .\n")),
        ("docs/replace.md", format!("/steersman:{version}|")),
        (
            "docs/kubeadm/steersman.yaml",
            format!("/steersman:{version}\n"),
        ),
        (
            "docs/kubeadm/kube-controller-manager.yaml",
            format!("/steersman:{version}\n"),
        ),
    ] {
        assert!(read(name).contains(&part), "{part:?} is not in {name}");
    }
}

/// Runs a class of a file in tests/chart.
fn helm(file: &str, class: &str) {
    let Some(python) = python("helm_python") else {
        return;
    };
    let mut command = Command::new(python);
    command
        .arg(path("tests/chart").join(file))
        .args(["-v", class])
        .env("STEERSMAN", env!("CARGO_BIN_EXE_steersman"));
    // Each wait in these files has a limit, and a file with real programs has many.
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}

#[test]
fn helm_renders_the_chart() {
    helm("renderings.py", "Renderings");
}

#[test]
fn helm_installs_upgrades_rolls_back_and_removes_the_chart() {
    helm("releases.py", "Releases");
}

#[test]
fn manager_works_with_the_arguments_of_the_chart() {
    helm("releases.py", "Managers");
}

/// `KUBEBUILDER_ASSETS` is a folder with etcd, kube-apiserver and kube-controller-manager.
#[test]
fn managers_of_the_chart_work_beside_kube_controller_manager_and_in_its_place() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager"];
    let folder = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let has_all = |folder: &PathBuf| {
        programs
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    if !folder.as_ref().is_some_and(has_all) {
        skip(
            "KUBEBUILDER_ASSETS is no folder with etcd, kube-apiserver and kube-controller-manager",
        );
        return;
    }
    helm("real.py", "RealServer");
}
