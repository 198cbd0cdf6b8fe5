//! `Warning` headers: without duplicates, and within upstream's limits of size.
//!
//! Upstream is `apiserver/pkg/endpoints/filters/warning.go`.

use http::HeaderValue;

use crate::kinds::Resource;

/// Most characters of all warnings together. Beyond it, every warning is cut.
const MAX_TOTAL: usize = 4 << 10;
/// Characters of a cut warning.
const MAX_CUT: usize = 256;

/// The warning about a deprecated built-in kind.
fn deprecation(resource: &Resource) -> Option<&'static str> {
    match &*resource.kind {
        _ if resource.custom.is_some() => None,
        "ComponentStatus" => Some("v1 ComponentStatus is deprecated in v1.19+"),
        "Endpoints" => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// The warnings about a deprecated kind or version.
pub(super) fn deprecations(resource: &Resource) -> Vec<String> {
    let custom = resource.custom.as_ref();
    let custom = custom.and_then(|custom| custom.deprecation());
    let warnings = custom.into_iter().chain(deprecation(resource));
    warnings.map(str::to_owned).collect()
}

/// The headers of these warnings. Texts with control characters are dropped.
pub(super) fn headers(mut warnings: Vec<String>) -> Vec<HeaderValue> {
    let mut seen = std::collections::HashSet::new();
    warnings.retain(|warning| !warning.is_empty() && seen.insert(warning.clone()));
    let length = |warning: &String| warning.chars().count();
    if warnings.iter().map(length).sum::<usize>() > MAX_TOTAL {
        let mut written = 0;
        warnings = warnings
            .into_iter()
            .map(|warning| warning.chars().take(MAX_CUT).collect())
            .take_while(|warning| {
                let fits = written < MAX_TOTAL;
                written += length(warning);
                fits
            })
            .collect();
    }
    warnings
        .iter()
        .filter(|warning| !warning.contains(char::is_control))
        .filter_map(|warning| header(warning))
        .collect()
}

fn header(warning: &str) -> Option<HeaderValue> {
    let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::try_from(format!("299 - \"{quoted}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(warnings: &[&str]) -> Vec<String> {
        let headers = headers(warnings.iter().map(|text| (*text).to_owned()).collect());
        headers
            .iter()
            .map(|header| String::from_utf8(header.as_bytes().to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn warnings_are_quoted_without_duplicates() {
        assert_eq!(
            texts(&["a \"b\" \\", "x\u{7}", "ü", "a \"b\" \\", ""]),
            [r#"299 - "a \"b\" \\""#, "299 - \"ü\""]
        );
    }

    #[test]
    fn warnings_beyond_the_limit_are_cut_or_dropped() {
        let long: Vec<String> = (0..100)
            .map(|i| format!("{i:03}{}", "x".repeat(1_000)))
            .collect();
        let cut = headers(long.clone());
        assert_eq!(cut.len(), MAX_TOTAL / MAX_CUT);
        assert!(
            cut.iter()
                .all(|header| header.len() == MAX_CUT + "299 - \"\"".len())
        );
        assert_eq!(
            headers(long[..4].to_vec())[3].len(),
            1_003 + "299 - \"\"".len()
        );
    }
}
