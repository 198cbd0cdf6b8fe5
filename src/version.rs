//! Versions: the Kubernetes release that Steersman equals, and the version of Steersman itself.

/// The upstream component that Steersman replaces; user agents, messages and file names use it.
pub const COMPONENT: &str = "kube-controller-manager";

/// Version of Steersman itself.
pub const STEERSMAN: &str = env!("CARGO_PKG_VERSION");

pub use steersman_client::platform;
pub use steersman_values::version::GIT_VERSION;
pub(crate) use steersman_values::version::RELEASE;

use steersman_values::version::MINOR;

/// The minor version of [`GIT_VERSION`].
pub(crate) fn minor() -> String {
    MINOR.to_string()
}

/// The value in place of upstream's git commit.
pub(crate) fn commit() -> String {
    format!("steersman-{STEERSMAN}")
}

/// The output of `--version=raw`: upstream's structure, with Steersman's version as the commit.
pub(crate) fn raw() -> String {
    format!(
        "version.Info{{Major:\"1\", Minor:\"{MINOR}\", EmulationMajor:\"1\", EmulationMinor:\"{MINOR}\", MinCompatibilityMajor:\"1\", \
         MinCompatibilityMinor:\"{}\", GitVersion:{GIT_VERSION:?}, GitCommit:{:?}, GitTreeState:\"\", \
         BuildDate:\"\", GoVersion:\"\", Compiler:\"rustc\", Platform:{:?}}}",
        MINOR - 1,
        commit(),
        platform()
    )
}

/// The body of `/version`, in the form of the API server. The arguments are major and minor of the
/// emulated release and of the oldest compatible one.
pub(crate) fn document(emulated: (String, String), compatible: (String, String)) -> String {
    let version = serde_json::json!({
        "major": "1",
        "minor": minor(),
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
