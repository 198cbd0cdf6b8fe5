//! What the black-box tests share: a cluster to talk to, kubectl to talk with, and waiting with a limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::control_plane::ControlPlane;
use crate::support::{LIMIT, Program};

/// A cluster for one test: one made of the programs in `KUBEBUILDER_ASSETS`, else the one `KUBECONFIG` names, else the embedded one.
pub(crate) struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    home: tempfile::TempDir,
    made: Made,
}

/// What runs for this test alone, and ends with it.
enum Made {
    Dev { _program: Program },
    Real { _control_plane: Box<ControlPlane> },
    Nothing,
}

/// kubectl, or `None` with a line that says how to get it.
fn kubectl() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECTL").map(PathBuf::from);
    let local = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/kubectl");
    let found = named.or_else(|| local.exists().then_some(local));
    if found.is_none() {
        eprintln!("skipped: no kubectl; scripts/test.sh brings one, KUBECTL names one");
    }
    found
}

impl Cluster {
    /// A running cluster with an empty namespace, or `None` where there is no kubectl.
    pub(crate) fn start() -> Option<Self> {
        let kubectl = kubectl()?;
        let home = tempfile::tempdir().expect("temporary directory");
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
        let (kubeconfig, made) = match (assets, std::env::var_os("KUBECONFIG")) {
            (Some(folder), _) => {
                let control_plane = ControlPlane::start(Path::new(&folder), home.path(), &kubectl);
                (control_plane.kubeconfig().to_owned(), Made::Real { _control_plane: Box::new(control_plane) })
            }
            (None, Some(path)) => (PathBuf::from(path), Made::Nothing),
            (None, None) => dev_cluster(home.path()),
        };
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!("story-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let cluster = Self { kubectl, kubeconfig, namespace, home, made };
        cluster
            .run("create namespace")
            .arg_file("apply -f", &format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n", cluster.namespace));
        Some(cluster)
    }

    /// Whether annotations decide what becomes of pods.
    pub(crate) fn has_simulated_nodes(&self) -> bool {
        !matches!(self.made, Made::Nothing)
    }

    /// Whether somebody counts quotas and makes accounts: where only our manager runs, upstream's controllers for it are missing.
    pub(crate) fn has_accounts_and_quotas(&self) -> bool {
        !matches!(self.made, Made::Real { .. })
    }

    fn run(&self, why: &'static str) -> Run<'_> {
        Run { cluster: self, why }
    }

    /// Runs kubectl with these words and returns its standard output; panics with everything it printed when it fails.
    pub(crate) fn kubectl(&self, words: &str) -> String {
        self.kubectl_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// The same for words that contain blanks.
    pub(crate) fn kubectl_words(&self, words: &[&str]) -> String {
        let output = self.try_kubectl_words(words);
        assert!(
            output.status.success(),
            "kubectl {words:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("kubectl prints UTF-8")
    }

    /// Runs kubectl with these words, however it ends.
    pub(crate) fn try_kubectl(&self, words: &str) -> Output {
        self.try_kubectl_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    fn try_kubectl_words(&self, words: &[&str]) -> Output {
        Command::new(&self.kubectl)
            .args(["--namespace", &self.namespace])
            .args(words)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .stdin(Stdio::null())
            .output()
            .expect("run kubectl")
    }

    /// Runs kubectl with `manifest` in a file as last argument.
    pub(crate) fn kubectl_file(&self, words: &str, manifest: &str) -> Output {
        let file = self.home.path().join("manifest.yaml");
        std::fs::write(&file, manifest).expect("write manifest");
        self.try_kubectl(&format!("{words} {}", file.display()))
    }

    /// The namespace of this test.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Applies `manifest`.
    pub(crate) fn apply(&self, manifest: &str) {
        self.run("apply").arg_file("apply -f", manifest);
    }

    /// `get <what> -o jsonpath=<path>`.
    pub(crate) fn get(&self, what: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let words: Vec<&str> = ["get"].into_iter().chain(what.split_whitespace()).chain(["-o", &path]).collect();
        self.kubectl_words(&words)
    }

    /// Waits until `kubectl <words>` prints what `is_right` accepts; prints the objects when it does not within the limit.
    pub(crate) fn eventually(&self, words: &str, is_right: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let output = self.try_kubectl(words);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && is_right(&text) {
                return text;
            }
            assert!(
                started.elapsed() < LIMIT,
                "kubectl {words}: still {text:?}{}\n{}",
                String::from_utf8_lossy(&output.stderr),
                self.kubectl("get deployments,replicasets,pods,events -o wide")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

struct Run<'a> {
    cluster: &'a Cluster,
    why: &'static str,
}

impl Run<'_> {
    fn arg_file(&self, words: &str, manifest: &str) {
        let output = self.cluster.kubectl_file(words, manifest);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: kubectl {words}: {error}", self.why);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if matches!(self.made, Made::Nothing) {
            self.try_kubectl(&format!("delete namespace {} --wait=false", self.namespace));
        }
    }
}

/// `steersman dev`, with its kubeconfig.
fn dev_cluster(home: &Path) -> (PathBuf, Made) {
    let kubeconfig = home.join("kubeconfig");
    let path = kubeconfig.to_str().expect("temporary directories have plain names");
    let mut program = Program::start(&["dev", "--latency", "100ms", "--write-kubeconfig", path]);
    // The file is put in place whole, once the server answers.
    program.wait_until("ready", || kubeconfig.exists());
    (kubeconfig, Made::Dev { _program: program })
}
