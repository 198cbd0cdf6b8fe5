//! `Warning` headers: each text once, and no more of them than clients and proxies take.

use http::HeaderValue;

use crate::kinds::Resource;

/// Characters of all texts; beyond it each is cut.
const MOST_IN_ALL: usize = 4 << 10;
/// Characters that are left of a text that is cut.
const MOST_OF_ONE: usize = 256;

/// What every answer about a built-in kind that is to go warns of.
pub(super) fn deprecation(resource: &Resource) -> Option<&'static str> {
    match &*resource.kind {
        _ if resource.custom.is_some() => None,
        "ComponentStatus" => Some("v1 ComponentStatus is deprecated in v1.19+"),
        "Endpoints" => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// The headers for what there is to warn of, in upstream's form and with its limits. Texts with
/// control characters are left out.
pub(super) fn headers(mut warnings: Vec<String>) -> Vec<HeaderValue> {
    let mut seen = std::collections::HashSet::new();
    warnings.retain(|warning| !warning.is_empty() && seen.insert(warning.clone()));
    let length = |warning: &String| warning.chars().count();
    if warnings.iter().map(length).sum::<usize>() > MOST_IN_ALL {
        let mut written = 0;
        warnings = warnings
            .into_iter()
            .map(|warning| warning.chars().take(MOST_OF_ONE).collect())
            .take_while(|warning| {
                let fits = written < MOST_IN_ALL;
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
    fn texts_are_quoted_and_told_once() {
        assert_eq!(
            texts(&["a \"b\" \\", "x\u{7}", "ü", "a \"b\" \\", ""]),
            [r#"299 - "a \"b\" \\""#, "299 - \"ü\""]
        );
    }

    #[test]
    fn beyond_a_limit_all_are_cut_and_the_rest_is_left_out() {
        let long: Vec<String> = (0..100)
            .map(|i| format!("{i:03}{}", "x".repeat(1_000)))
            .collect();
        let told = headers(long.clone());
        assert_eq!(told.len(), MOST_IN_ALL / MOST_OF_ONE);
        assert!(
            told.iter()
                .all(|header| header.len() == MOST_OF_ONE + "299 - \"\"".len())
        );
        assert_eq!(
            headers(long[..4].to_vec())[3].len(),
            1_003 + "299 - \"\"".len()
        );
    }
}
