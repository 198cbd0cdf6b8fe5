//! The files of the page, which are part of the program.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderName};

use crate::access::{NOSNIFF, text};

/// Nothing from other hosts, nothing inline, no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file: path below `/ui/`, content type, content.
type File = (&'static str, &'static str, &'static [u8]);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All files.
const FILES: [File; 9] = [
    (
        "",
        "text/html; charset=utf-8",
        include_bytes!("page/index.html"),
    ),
    (
        "style.css",
        "text/css; charset=utf-8",
        include_bytes!("page/style.css"),
    ),
    ("icon.svg", "image/svg+xml", include_bytes!("page/icon.svg")),
    ("main.js", SCRIPT, include_bytes!("page/main.js")),
    ("dom.js", SCRIPT, include_bytes!("page/dom.js")),
    ("parts.js", SCRIPT, include_bytes!("page/parts.js")),
    ("objects.js", SCRIPT, include_bytes!("page/objects.js")),
    ("machine.js", SCRIPT, include_bytes!("page/machine.js")),
    ("cluster.js", SCRIPT, include_bytes!("page/cluster.js")),
];

/// The answer for `path`, the part after `/ui`.
pub(super) fn answer(path: &str) -> Response {
    let Some(name) = path.strip_prefix('/') else {
        return (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "/ui/")]).into_response();
    };
    let Some((_, content_type, content)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let headers = [
        (header::CONTENT_TYPE, *content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        NOSNIFF,
    ];
    (headers, *content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_together_have_less_than_60_kilobytes() {
        let bytes: usize = FILES.iter().map(|(_, _, content)| content.len()).sum();
        assert!(bytes < 60_000, "{bytes}");
    }

    #[test]
    fn the_page_needs_no_other_host_and_nothing_inline() {
        for (name, _, content) in FILES {
            let content = std::str::from_utf8(content).unwrap();
            let foreign = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!foreign.contains("://"), "{name}");
            for inline in [" style=\"", "<style", " onclick=", "javascript:", "eval("] {
                assert!(!content.contains(inline), "{name}: {inline}");
            }
        }
    }

    #[test]
    fn every_imported_module_is_served() {
        let names = FILES.map(|(name, ..)| name);
        for (name, _, content) in FILES {
            let content = std::str::from_utf8(content).unwrap();
            let imports = content.lines().filter_map(|line| {
                let (_, path) = line.strip_prefix("import ")?.rsplit_once(" from \"./")?;
                path.strip_suffix("\";")
            });
            for import in imports {
                assert!(names.contains(&import), "{name} imports {import}");
            }
        }
    }

    #[test]
    fn the_path_without_a_slash_leads_to_the_page() {
        let response = answer("");
        assert_eq!(response.status(), 308);
        assert_eq!(response.headers()["location"], "/ui/");
        assert_eq!(answer("/").status(), 200);
        assert_eq!(answer("/secret").status(), 404);
    }
}
