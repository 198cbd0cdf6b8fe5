//! Versions: the Kubernetes release that Steersman equals, and the version of Steersman itself.

/// The upstream component that Steersman replaces; user agents, messages and file names use it.
pub const COMPONENT: &str = "kube-controller-manager";

/// The Kubernetes release that Steersman equals in behaviour.
pub const GIT_VERSION: &str = steersman_client::COMPATIBLE_VERSION;

/// As [`GIT_VERSION`], without the leading `v`.
pub(crate) const BINARY: &str = "1.36.2";

/// Version of Steersman itself.
pub const STEERSMAN: &str = env!("CARGO_PKG_VERSION");

pub use steersman_client::platform;

/// The value in place of upstream's git commit.
pub(crate) fn commit() -> String {
    format!("steersman-{STEERSMAN}")
}

/// The output of `--version=raw`: upstream's structure, with Steersman's version as the commit.
pub(crate) fn raw() -> String {
    format!(
        "version.Info{{Major:\"1\", Minor:\"36\", EmulationMajor:\"1\", EmulationMinor:\"36\", MinCompatibilityMajor:\"1\", \
         MinCompatibilityMinor:\"35\", GitVersion:{GIT_VERSION:?}, GitCommit:{:?}, GitTreeState:\"\", \
         BuildDate:\"\", GoVersion:\"\", Compiler:\"rustc\", Platform:{:?}}}",
        commit(),
        platform()
    )
}

/// The body of `/version`, in the form of the API server. The arguments are major and minor of the
/// emulated release and of the oldest compatible one.
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
