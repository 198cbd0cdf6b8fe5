//! Semantic versions.
//!
//! Upstream: `github.com/blang/semver`.

use std::cmp::Ordering;

/// A version. Build metadata has no effect on order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    pub(crate) numbers: [u64; 3],
    pre_release: Vec<Part>,
}

/// A part of a pre-release: numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

/// Without a leading `v`, without leading zeros, with three numbers.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            let trimmed = part.trim_start_matches('0');
            match part.len() > 1 {
                true if !trimmed.starts_with(|letter: char| letter.is_ascii_digit()) => {
                    format!("0{trimmed}")
                }
                true => trimmed.to_owned(),
                false => part.to_owned(),
            }
        })
        .collect();
    let is_short = parts.len() < 3;
    if is_short && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

impl Semver {
    /// The version in a text that may deviate in common ways.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Self, String> {
        normalized(text).and_then(|text| Self::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, patch] = *parts else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (patch, build) = match patch.split_once('+') {
            Some((patch, build)) => (patch, Some(build)),
            None => (patch, None),
        };
        let (patch, pre_release) = match patch.split_once('-') {
            Some((patch, pre_release)) => (patch, Some(pre_release)),
            None => (patch, None),
        };
        for part in build.iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(part) {
                return Err(format!(
                    "Invalid character(s) found in build meta data {part:?}"
                ));
            }
        }
        let pre_release = pre_release.iter().flat_map(|text| text.split('.'));
        Ok(Self {
            numbers: [
                component(major, "major")?,
                component(minor, "minor")?,
                component(patch, "patch")?,
            ],
            pre_release: pre_release.map(Part::parse).collect::<Result<_, _>>()?,
        })
    }
}

fn is_word(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

fn component(text: &str, name: &str) -> Result<u64, String> {
    let mut name_upper = name.to_owned();
    name_upper[..1].make_ascii_uppercase();
    if text.is_empty() || !text.chars().all(|digit| digit.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {name} number {text:?}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "{name_upper} number must not contain leading zeroes {text:?}"
        ));
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if text.chars().all(|digit| digit.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                let why =
                    format!("Numeric PreRelease version must not contain leading zeroes {text:?}");
                return Err(why);
            }
            return text
                .parse()
                .map(Part::Number)
                .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
        }
        if is_word(text) {
            Ok(Part::Word(text.to_owned()))
        } else {
            Err(format!("Invalid character(s) found in prerelease {text:?}"))
        }
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release comes after its pre-releases.
        let is_release = |version: &Self| version.pre_release.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| is_release(self).cmp(&is_release(other)))
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
