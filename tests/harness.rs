//! What the black-box tests share: a cluster to talk to, kubectl to talk with, and waiting with a limit.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long any one thing may take before a test gives up on it.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The binary under test.
pub(crate) const STEERSMAN: &str = env!("CARGO_BIN_EXE_steersman");

/// A child process that does not outlive its owner.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster for one test: the embedded one, or the one the environment names.
pub(crate) struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    home: tempfile::TempDir,
    _processes: Vec<Process>,
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
        let (kubeconfig, processes) = match std::env::var_os("KUBECONFIG") {
            Some(path) => (PathBuf::from(path), Vec::new()),
            None => dev_cluster(home.path()),
        };
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!("story-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let cluster = Self { kubectl, kubeconfig, namespace, home, _processes: processes };
        cluster
            .run("create namespace")
            .arg_file("apply -f", &format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n", cluster.namespace));
        Some(cluster)
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

    /// Applies `manifest`.
    pub(crate) fn apply(&self, manifest: &str) {
        self.run("apply").arg_file("apply -f", manifest);
    }

    /// `get <what> -o jsonpath=<path>`.
    pub(crate) fn get(&self, what: &str, path: &str) -> String {
        self.kubectl(&format!("get {what} -o jsonpath={path}"))
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
        if std::env::var_os("KUBECONFIG").is_some() {
            self.try_kubectl(&format!("delete namespace {} --wait=false", self.namespace));
        }
    }
}

/// `steersman dev`, with its kubeconfig.
fn dev_cluster(home: &Path) -> (PathBuf, Vec<Process>) {
    let kubeconfig = home.join("kubeconfig");
    let log = std::fs::File::create(home.join("steersman.log")).expect("create log");
    let child = Command::new(STEERSMAN)
        .args(["dev", "--latency", "100ms", "--write-kubeconfig"])
        .arg(&kubeconfig)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("duplicate log"))
        .stderr(log)
        .spawn()
        .expect("start steersman dev");
    let mut process = Process(child);
    let started = Instant::now();
    // The file is put in place whole, once the server answers.
    while !kubeconfig.exists() {
        let ended = process.0.try_wait().expect("look after steersman dev");
        let log = || std::fs::read_to_string(home.join("steersman.log")).unwrap_or_default();
        assert!(ended.is_none(), "steersman dev ended: {ended:?}\n{}", log());
        assert!(started.elapsed() < LIMIT, "steersman dev is not ready\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    (kubeconfig, vec![process])
}
