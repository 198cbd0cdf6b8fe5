//! Which Kubernetes this is equal to, and which Steersman it is.

/// The component we stand in for; its name is in user agents, texts and files.
pub const COMPONENT: &str = "kube-controller-manager";

/// The Kubernetes release whose behaviour this is.
pub const GIT_VERSION: &str = steersman_runtime::client::COMPATIBLE_VERSION;

/// The same without its letter.
pub(crate) const BINARY: &str = "1.36.2";

/// Version of Steersman itself.
pub const STEERSMAN: &str = env!("CARGO_PKG_VERSION");

pub use steersman_runtime::client::platform;

/// What stands where upstream has the commit it was built from.
pub(crate) fn commit() -> String {
    format!("steersman-{STEERSMAN}")
}

/// What `--version=raw` prints: upstream's record, with our own version where it has a commit.
pub(crate) fn raw() -> String {
    format!(
        "version.Info{{Major:\"1\", Minor:\"36\", EmulationMajor:\"1\", EmulationMinor:\"36\", MinCompatibilityMajor:\"1\", \
         MinCompatibilityMinor:\"35\", GitVersion:{GIT_VERSION:?}, GitCommit:{:?}, GitTreeState:\"\", \
         BuildDate:\"\", GoVersion:\"\", Compiler:\"rustc\", Platform:{:?}}}",
        commit(),
        platform()
    )
}

/// What `/version` serves, in the form of an API server's. The releases are those emulated and the
/// oldest compatible: major, minor.
pub(crate) fn document(emulated: (String, String), compatible: (String, String)) -> String {
    let version = serde_json::json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": emulated.0,
        "emulationMinor": emulated.1,
        "minCompatibilityMajor": compatible.0,
        "minCompatibilityMinor": compatible.1,
        "gitVersion": GIT_VERSION,
        "gitCommit": commit(),
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    });
    format!("{version:#}")
}
