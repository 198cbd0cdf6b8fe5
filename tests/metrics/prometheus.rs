//! Runs the programs `prometheus` and `promtool`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::busy::{Busy, TOKEN};
use crate::support::{Program, free_port};

const QUERIES: &str = include_str!("queries.txt");
const CLUSTER: &str = "test";

/// The program of this name. CI must have it; elsewhere the test is skipped without it.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "no {name} in $PATH, and CI is to have one"
        );
        eprintln!("skipped: no {name} in $PATH; Debian's package `prometheus` has it");
    }
    found
}

/// The complaints of `promtool check metrics` about a page, one per line.
pub(super) fn lint(promtool: &Path, page: &str) -> Vec<String> {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(page.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let complaints: Vec<String> = String::from_utf8(said)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    // promtool exits with 3 for lint findings, which are the complaints to return.
    let expected = if complaints.is_empty() { 0 } else { 3 };
    assert_eq!(output.status.code(), Some(expected), "{complaints:#?}");
    complaints
}

/// The expected answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Data,
    Nothing,
    Anything,
}

/// A query of a dashboard or an alert.
#[derive(Debug)]
pub(super) struct Query {
    title: &'static str,
    text: String,
    wanted: Wanted,
}

impl Query {
    /// A query whose answer has a number (`true`), or no series (`false`).
    pub(super) fn of(text: &str, has_data: bool) -> Self {
        Self {
            title: "a query of the test",
            text: text.to_owned(),
            wanted: if has_data {
                Wanted::Data
            } else {
                Wanted::Nothing
            },
        }
    }
}

/// All queries in queries.txt.
pub(super) fn queries() -> impl Iterator<Item = Query> {
    QUERIES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut cells = line.splitn(3, '|').map(str::trim);
            let wanted = match cells.next() {
                Some("panel") => Wanted::Data,
                Some("quiet") => Wanted::Nothing,
                Some("alert") => Wanted::Anything,
                other => panic!("{other:?} in {line}"),
            };
            let title = cells.next().unwrap();
            let query = cells.next().unwrap();
            let text = query
                .replace("$cluster", CLUSTER)
                .replace("$instance", ".+")
                .replace("$__rate_interval", "30s");
            Query {
                title,
                text,
                wanted,
            }
        })
}

/// A Prometheus server that scrapes one manager every half second.
pub(super) struct Server {
    address: SocketAddr,
    program: Program,
}

impl Server {
    /// Starts the server with additional arguments.
    pub(super) fn start(program: &Path, busy: &Busy, arguments: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let job = |name: &str, path: &str| {
            format!(
                "- job_name: {name}\n  scheme: https\n  metrics_path: {path}\n  tls_config: {{insecure_skip_verify: true}}\n  \
                 authorization: {{credentials: {TOKEN}}}\n  static_configs:\n  - targets: [\"{}\"]\n    \
                 labels: {{cluster: {CLUSTER}, job: kube-controller-manager}}\n",
                busy.secured.address
            )
        };
        let config = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\nscrape_configs:\n{}{}",
            job("metrics", "/metrics"),
            job("slis", "/metrics/slis")
        );
        let file = busy.secured.home.path().join("prometheus.yaml");
        std::fs::write(&file, config).unwrap();
        let mut program = Program::spawn(
            Command::new(program)
                .arg(format!("--config.file={}", file.display()))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    busy.secured
                        .home
                        .path()
                        .join(address.port().to_string())
                        .display()
                ))
                .arg(format!("--web.listen-address={address}"))
                .args(arguments),
        );
        program.wait_until("ready", || {
            get(address, "/-/ready").is_some_and(|(head, _)| head.contains(" 200 "))
        });
        Self { address, program }
    }

    /// Whether the current answer to `query` is the expected one. Panics if the query is invalid.
    pub(super) fn answers(&mut self, query: &Query) -> bool {
        self.program.assert_running();
        let encoded: String = form_urlencoded::byte_serialize(query.text.as_bytes()).collect();
        let (head, body) = get(self.address, &format!("/api/v1/query?query={encoded}")).unwrap();
        let answer: Value = serde_json::from_str(&body)
            .unwrap_or_else(|_| panic!("{}: {head}\n{body}", query.title));
        assert_eq!(answer["status"], "success", "{}: {answer}", query.title);
        let series = answer["data"]["result"].as_array().unwrap();
        let is_number = |series: &&Value| {
            series["value"][1]
                .as_str()
                .is_some_and(|value| value != "NaN")
        };
        match query.wanted {
            Wanted::Data => series.iter().any(|series| is_number(&series)),
            Wanted::Nothing => series.is_empty(),
            Wanted::Anything => true,
        }
    }
}

fn get(address: SocketAddr, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}
