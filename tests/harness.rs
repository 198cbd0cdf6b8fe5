//! The harness of the black-box tests: a cluster, kubectl, and waiting with a time limit.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::support::control_plane::ControlPlane;
use crate::support::script::{self, Ends, Step};
use crate::support::{LIMIT, Program, output_of, skip};

/// A cluster for one test. `KUBEBUILDER_ASSETS` (a folder of programs) or `KUBECONFIG` select it;
/// otherwise it is the embedded cluster.
pub(crate) struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    home: tempfile::TempDir,
    made: Made,
}

/// The processes of the cluster. Concurrent tests share a real control plane.
enum Made {
    Dev { _program: Program },
    Real { _control_plane: Arc<ControlPlane> },
    Nothing,
}

/// The folder with the programs of a real control plane, if `KUBEBUILDER_ASSETS` names one.
pub(crate) fn assets() -> Option<PathBuf> {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS")?;
    (!folder.is_empty()).then(|| folder.into())
}

/// The path of kubectl; `None`, with a message, if it is missing.
pub(crate) fn kubectl() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECTL").map(PathBuf::from);
    let local = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/kubectl");
    let found = named.or_else(|| local.exists().then_some(local));
    if found.is_none() {
        skip("no kubectl; scripts/test.sh brings one, KUBECTL names one");
    }
    found
}

impl Cluster {
    /// A running cluster with an empty namespace; `None` without kubectl.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(true, ControlPlane::shared)
    }

    /// As [`Cluster::start`], with a control plane that no other test uses. For tests that would
    /// delay the controllers for other tests.
    pub(crate) fn start_apart() -> Option<Self> {
        Self::start_with(true, |assets| {
            Arc::new(ControlPlane::start(assets, true, &[]))
        })
    }

    /// As [`Cluster::start`], without a controller manager. A cluster that `KUBECONFIG` selects
    /// must not run one.
    pub(crate) fn start_without_manager() -> Option<Self> {
        Self::start_without_manager_with(&[])
    }

    /// As [`Cluster::start_without_manager`]; a real API server has these further flags.
    pub(crate) fn start_without_manager_with(flags: &[String]) -> Option<Self> {
        Self::start_with(false, |assets| {
            Arc::new(ControlPlane::start(assets, false, flags))
        })
    }

    /// An embedded cluster whose manager has these further flags; `None` without kubectl.
    pub(crate) fn embedded_with(flags: &[&str]) -> Option<Self> {
        let kubectl = kubectl()?;
        let home = tempfile::tempdir().expect("temporary directory");
        let (kubeconfig, made) = embedded_cluster(home.path(), true, flags);
        Some(Self::with_namespace(kubectl, home, kubeconfig, made))
    }

    fn start_with(
        manager: bool,
        control_plane: impl FnOnce(&Path) -> Arc<ControlPlane>,
    ) -> Option<Self> {
        let kubectl = kubectl()?;
        let home = tempfile::tempdir().expect("temporary directory");
        let (kubeconfig, made) = match (assets(), std::env::var_os("KUBECONFIG")) {
            (Some(folder), _) => {
                let control_plane = control_plane(&folder);
                (
                    control_plane.kubeconfig().to_owned(),
                    Made::Real {
                        _control_plane: control_plane,
                    },
                )
            }
            (None, Some(path)) => (
                std::path::absolute(path).expect("KUBECONFIG is a path"),
                Made::Nothing,
            ),
            (None, None) => embedded_cluster(home.path(), manager, &[]),
        };
        Some(Self::with_namespace(kubectl, home, kubeconfig, made))
    }

    /// The cluster with a new namespace for a test.
    fn with_namespace(
        kubectl: PathBuf,
        home: tempfile::TempDir,
        kubeconfig: PathBuf,
        made: Made,
    ) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!(
            "story-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let cluster = Self {
            kubectl,
            kubeconfig,
            namespace,
            home,
            made,
        };
        cluster.create_namespace();
        cluster
    }

    /// Creates the namespace of this test. API servers of OpenShift mount a ConfigMap of OpenShift's
    /// own manager into every pod, and simulated nodes wait for it.
    fn create_namespace(&self) {
        let name = &self.namespace;
        let mut manifest = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        if matches!(self.made, Made::Real { .. }) {
            manifest += &format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: openshift-service-ca.crt, namespace: {name}}}\n\
                 data: {{service-ca.crt: ''}}\n"
            );
        }
        self.apply(&manifest);
    }

    /// Whether this is the embedded cluster.
    fn is_embedded(&self) -> bool {
        matches!(self.made, Made::Dev { .. })
    }

    /// The cluster, if its nodes are simulated, so that annotations decide the behaviour of pods.
    pub(crate) fn with_simulated_nodes(self) -> Option<Self> {
        let is_so = !matches!(self.made, Made::Nothing);
        self.only_if(is_so, "the nodes of this cluster are not simulated")
    }

    /// The cluster, if it is embedded; otherwise the test is skipped for this reason.
    pub(crate) fn embedded(self, reason: &str) -> Option<Self> {
        let is_so = self.is_embedded();
        self.only_if(is_so, reason)
    }

    fn only_if(self, is_so: bool, reason: &str) -> Option<Self> {
        if !is_so {
            skip(reason);
        }
        is_so.then_some(self)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs kubectl with these words. Returns its standard output, or panics with all output if it
    /// fails.
    pub(crate) fn kubectl(&self, words: &str) -> String {
        self.kubectl_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// As [`Cluster::kubectl`], for arguments with spaces.
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

    /// Runs kubectl with these words; it may fail.
    pub(crate) fn try_kubectl(&self, words: &str) -> Output {
        self.try_kubectl_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    fn try_kubectl_words(&self, words: &[&str]) -> Output {
        output_of(&mut self.command(words))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(["--namespace", &self.namespace])
            .args(words)
            .current_dir(self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl with the path of a file with `manifest` as its last argument.
    pub(crate) fn kubectl_file(&self, words: &str, manifest: &str) -> Output {
        self.file("manifest.yaml", manifest);
        self.try_kubectl(&format!("{words} manifest.yaml"))
    }

    /// Writes a file to the working directory of kubectl.
    pub(crate) fn file(&self, name: &str, content: &str) {
        std::fs::write(self.home.path().join(name), content).expect("write a file");
    }

    /// Runs the commands of a script, see [`script`]. `NAMESPACE` stands for the namespace of this
    /// test.
    pub(crate) fn script(&self, script: &str) {
        let script = script.replace("NAMESPACE", &self.namespace);
        script::parse(&script)
            .iter()
            .for_each(|step| self.step(step));
    }

    /// Runs one command; repeats it until the time limit if the script says so.
    fn step(&self, step: &Step<'_>) {
        let (variables, words) = step.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let started = Instant::now();
        loop {
            let output = output_of(self.command(&words).envs(variables.clone()));
            let printed = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            let wrong = if output.status.success() == (step.ends == Ends::Badly) {
                Some(format!("ends with {}", output.status))
            } else {
                step.misses(&printed)
            };
            let Some(wrong) = wrong else { return };
            assert!(
                step.ends == Ends::WellAtLast && started.elapsed() < LIMIT,
                "kubectl {}: {wrong}\n{printed}\n{}",
                step.line,
                self.kubectl("get deployments,replicasets,pods,events -o wide")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts kubectl with these words in the background.
    pub(crate) fn watch(&self, words: &str) -> Watch {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut child = self
            .command(&words)
            .stdout(Stdio::piped())
            .spawn()
            .expect("run kubectl");
        let lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Watch {
            child,
            lines: receiver,
        }
    }

    /// The namespace of this test.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Applies `manifest`.
    pub(crate) fn apply(&self, manifest: &str) {
        let output = self.kubectl_file("apply -f", manifest);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl apply: {error}");
    }

    /// Runs `get <what> -o jsonpath=<path>`.
    pub(crate) fn get(&self, what: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let words: Vec<&str> = ["get"]
            .into_iter()
            .chain(what.split_whitespace())
            .chain(["-o", &path])
            .collect();
        self.kubectl_words(&words)
    }

    /// Waits until `kubectl <words>` fails with an error that `is_right` accepts. A real API server
    /// caches permissions for some seconds.
    pub(crate) fn eventually_refused(&self, words: &str, is_right: impl Fn(&str) -> bool) {
        let started = Instant::now();
        loop {
            let output = self.try_kubectl(words);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() && is_right(&error) {
                return;
            }
            assert!(
                started.elapsed() < LIMIT,
                "kubectl {words}: still {}\n{error}",
                output.status
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until `kubectl <words>` prints a text that `is_right` accepts. Prints the objects if
    /// the time limit passes.
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

/// A running kubectl with its output. Dropping it ends kubectl.
pub(crate) struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    /// Reads up to the next line that contains these words in sequence.
    pub(crate) fn until(&self, words: &str) {
        let wanted: Vec<&str> = words.split_whitespace().collect();
        let started = Instant::now();
        let mut seen = Vec::new();
        loop {
            match self
                .lines
                .recv_timeout(LIMIT.saturating_sub(started.elapsed()))
            {
                Ok(line) => {
                    let is_it = line
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .windows(wanted.len())
                        .any(|part| part == wanted);
                    if is_it {
                        return;
                    }
                    seen.push(line);
                }
                Err(_) => panic!("the watch never printed {words:?}, but {seen:#?}"),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.is_embedded() {
            self.try_kubectl(&format!("delete namespace {} --wait=false", self.namespace));
        }
    }
}

/// Starts `steersman dev` with these flags of the manager, or an API server without controllers.
/// Returns its kubeconfig.
fn embedded_cluster(home: &Path, manager: bool, flags: &[&str]) -> (PathBuf, Made) {
    let kubeconfig = home.join("kubeconfig");
    let path = kubeconfig
        .to_str()
        .expect("temporary directories have plain names");
    let command: &[&str] = if manager {
        &["dev", "--zones=3"]
    } else {
        &["apiserver", "--controllers="]
    };
    let place = ["--latency", "100ms", "--write-kubeconfig", path, "--"];
    let mut program = Program::start(&[command, &place, flags].concat());
    // The file appears atomically, once the server answers.
    program.wait_until("ready", || kubeconfig.exists());
    (kubeconfig, Made::Dev { _program: program })
}
