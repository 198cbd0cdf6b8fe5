//! Releases that users name: `1.34`, `v1.34` or `1.34.8`.

use std::fmt;
use std::str::FromStr;

use super::release::Release;

/// A text that names no known release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRelease(String);

impl fmt::Display for UnknownRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<String> = Release::known().rev().map(|one| one.to_string()).collect();
        let known = known.join(", ");
        write!(
            f,
            "{:?} is no release of Kubernetes that Steersman knows: {known}",
            self.0
        )
    }
}

impl std::error::Error for UnknownRelease {}

impl FromStr for Release {
    type Err = UnknownRelease;

    /// A known release. The patch number is optional and has no effect: Steersman knows one state of
    /// each minor release.
    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let unknown = || UnknownRelease(text.to_owned());
        let numbers = text.strip_prefix('v').unwrap_or(text).split('.');
        let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        let release = match numbers.map_err(|_| unknown())?[..] {
            [major, minor] | [major, minor, _] => Self::new(major, minor),
            _ => return Err(unknown()),
        };
        Self::known()
            .find(|known| *known == release)
            .ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_name_releases_with_or_without_patch_number() {
        let cases = [
            ("1.34", Some("1.34")),
            ("v1.34", Some("1.34")),
            ("1.34.8", Some("1.34")),
            ("v1.36.99", Some("1.36")),
            ("1.37", Some("1.37")),
            ("1.32", None),
            ("1.38", None),
            ("2.34", None),
            ("1", None),
            ("1.34.8.1", None),
            ("1.34-alpha", None),
            ("1.34+", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = text.parse::<Release>().map(|release| release.to_string());
            assert_eq!(found.ok().as_deref(), expected, "{text}");
        }
        assert_eq!(
            "1.32".parse::<Release>().unwrap_err().to_string(),
            r#""1.32" is no release of Kubernetes that Steersman knows: 1.33, 1.34, 1.35, 1.36, 1.37"#
        );
    }
}
