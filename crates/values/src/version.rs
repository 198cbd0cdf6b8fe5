//! The Kubernetes release that Steersman equals. docs/next-release.md tells how it moves on.

/// The release, as kube-controller-manager's `gitVersion` shows it.
pub const GIT_VERSION: &str = "v1.36.2";

/// As [`GIT_VERSION`], without the leading `v`.
pub const RELEASE: &str = GIT_VERSION.split_at(1).1;

/// The minor version.
pub const MINOR: u32 = minor(GIT_VERSION.as_bytes());

/// The number between the two dots of a version.
const fn minor(version: &[u8]) -> u32 {
    let mut number = 0;
    let mut dots = 0;
    let mut at = 0;
    while at < version.len() {
        match version[at] {
            b'.' => dots += 1,
            digit if dots == 1 => number = number * 10 + (digit - b'0') as u32,
            _ => {}
        }
        at += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_version_agree() {
        assert_eq!(GIT_VERSION, format!("v{RELEASE}"));
        assert!(RELEASE.starts_with(&format!("1.{MINOR}.")), "{RELEASE}");
    }
}
