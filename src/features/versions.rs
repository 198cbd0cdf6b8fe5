//! The release of Kubernetes to emulate: `--emulated-version` and `--min-compatibility-version`.
//!
//! Upstream: `k8s.io/component-base/compatibility` and `featuregate`.

use std::collections::BTreeMap;

use steersman_releases::Release;

use super::FeatureError;

/// The only component of this binary, and the default when a flag names none.
pub(super) const COMPONENT: &str = "kube";

/// The emulated release, and the oldest release it must be compatible with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Releases {
    pub(crate) emulated: Release,
    pub(crate) oldest_compatible: Release,
}

impl Releases {
    /// Parses both flags. Without the first one, `followed` is the release. A syntax error is
    /// returned alone, range errors together.
    pub(super) fn new(
        emulated: &[String],
        oldest_compatible: &[String],
        followed: Release,
    ) -> Result<Self, Vec<FeatureError>> {
        let emulated = one(emulated)
            .map_err(|error| vec![error])?
            .unwrap_or(followed);
        let oldest_compatible = one(oldest_compatible).map_err(|error| vec![error])?;
        let oldest_compatible =
            oldest_compatible.unwrap_or_else(|| emulated.previous().max(Release::OLDEST));
        let mut errors = Vec::new();
        if !(Release::OLDEST..=Release::NEWEST).contains(&emulated) {
            errors.push(FeatureError::Emulated(
                emulated,
                Release::OLDEST,
                Release::NEWEST,
            ));
        }
        if !(Release::OLDEST..=emulated).contains(&oldest_compatible) {
            errors.push(FeatureError::Compatible(
                oldest_compatible,
                Release::OLDEST,
                emulated,
            ));
        }
        if errors.is_empty() {
            Ok(Self {
                emulated,
                oldest_compatible,
            })
        } else {
            Err(errors)
        }
    }
}

/// The release of our component in a list of `[component=]major.minor`.
fn one(list: &[String]) -> Result<Option<Release>, FeatureError> {
    let mut found = BTreeMap::new();
    for item in list {
        let (component, text) = match item.split_once('=') {
            Some((component, text)) => (component.trim(), text.trim()),
            None => (COMPONENT, item.as_str()),
        };
        let release = parse(component, text)?;
        if let Some(other) = found.insert(component, release) {
            let component = component.to_owned();
            return Err(FeatureError::DuplicateVersion {
                component,
                first: other,
                second: release,
            });
        }
    }
    if let Some(unknown) = found.keys().find(|component| **component != COMPONENT) {
        return Err(FeatureError::Component((*unknown).to_owned()));
    }
    Ok(found.remove(COMPONENT))
}

/// Parses a version by upstream's rules: numbers separated by dots; other characters after them are
/// ignored.
fn parse(component: &str, text: &str) -> Result<Release, FeatureError> {
    let trimmed = text.trim_start();
    let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let numbers: Vec<&str> = trimmed[..end]
        .split('.')
        .take_while(|part| !part.is_empty())
        .collect();
    let number = |part: &str| {
        part.parse::<u64>()
            .map_err(|_| FeatureError::Version(format!("illegal version string {text:?}")))
    };
    match numbers[..] {
        [] => Err(FeatureError::Version(format!(
            "could not parse {text:?} as version"
        ))),
        [_] => Err(FeatureError::Version(format!(
            "illegal version string {text:?}"
        ))),
        [major, ..] if major.len() > 1 && major.starts_with('0') => Err(FeatureError::Version(
            format!("illegal zero-prefixed version component {major:?} in {text:?}"),
        )),
        [_, _, patch, ..] if number(patch)? != 0 => Err(FeatureError::Patch {
            component: component.to_owned(),
            version: numbers.join("."),
        }),
        [major, minor, ..] => Ok(Release::new(number(major)?, number(minor)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',')
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn versions_are_parsed_and_checked_as_upstream() {
        // (emulated version, minimum compatibility version, both releases or the error)
        let cases = [
            ("", "", "1.36 1.35"),
            ("1.35", "", "1.35 1.34"),
            ("1.37", "", "1.37 1.36"),
            ("kube=v1.33", "", "1.33 1.33"),
            ("1.35.0", "kube=1.33", "1.35 1.33"),
            ("", "1.36", "1.36 1.36"),
            (
                "1.32",
                "",
                "[emulation version 1.32 is not between [1.33, 1.37.0], minCompatibilityVersion version 1.33 is not between [1.33, 1.32]]",
            ),
            (
                "1.38",
                "1.34",
                "emulation version 1.38 is not between [1.33, 1.37.0]",
            ),
            (
                "1.35",
                "1.36",
                "minCompatibilityVersion version 1.36 is not between [1.33, 1.35]",
            ),
            (
                "",
                "1.32",
                "minCompatibilityVersion version 1.32 is not between [1.33, 1.36]",
            ),
            ("1.35.2", "", "patch version not allowed, got: kube=1.35.2"),
            (
                "1.35,kube=1.34",
                "",
                "duplicate version flag, kube=1.35 and kube=1.34",
            ),
            ("wardle=1.2", "", "component not registered: wardle"),
            ("new", "", "could not parse \"new\" as version"),
            ("1", "", "illegal version string \"1\""),
            (
                "01.35",
                "",
                "illegal zero-prefixed version component \"01\" in \"01.35\"",
            ),
        ];
        for (emulated, oldest, expected) in cases {
            let found = match Releases::new(&list(emulated), &list(oldest), Release::DEFAULT) {
                Ok(releases) => format!("{} {}", releases.emulated, releases.oldest_compatible),
                Err(errors) if errors.len() == 1 => errors[0].to_string(),
                Err(errors) => format!(
                    "[{}]",
                    errors
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            };
            assert_eq!(
                found, expected,
                "--emulated-version={emulated} --min-compatibility-version={oldest}"
            );
        }
    }
}
