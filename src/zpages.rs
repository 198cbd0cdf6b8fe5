//! `/flagz` and `/statusz`: flags and state of this process, as text for people, or as versioned
//! objects for programs.
//!
//! Upstream: `k8s.io/component-base/zpages`.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use rand::seq::IndexedRandom;
use serde_json::{Map, Value, json};
use steersman_values::clock::Clock;

use crate::access::{NOSNIFF, not_acceptable, text};
use crate::command_line::Options;
use crate::config::{Features, Release};
use crate::version;

/// Separators between names and values in the texts. Upstream chooses one at random, so that
/// programs do not depend on the format.
const SEPARATORS: [&str; 4] = [":", ": ", "=", " "];
const REMARK: &str = "Warning: this page is for people who debug; its form may change at any time, so no program should read it.";
/// The text of upstream's 406 response.
const AVAILABLE: &str =
    "only the following media types are accepted: application/json, application/yaml, text/plain";

/// The paths in `/statusz`, without those that a feature gate disables.
const PATHS: [&str; 8] = [
    "/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version",
];

/// Both pages of one process. Cloning is cheap.
#[derive(Clone)]
pub struct Zpages {
    inner: Arc<Inner>,
}

/// The data of both pages.
struct Inner {
    /// The flags of the release with their values, sorted by name.
    flags: Vec<(&'static str, String)>,
    /// The text of `/flagz`. As upstream, it is rendered once, with one separator.
    flagz: String,
    started: Timestamp,
    clock: Clock,
    /// The emulated release.
    emulated: Release,
    /// Pages that a feature gate disables.
    off: Vec<Page>,
}

/// One of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// `/flagz`.
    Flagz,
    /// `/statusz`.
    Statusz,
}

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// An object of this API version, as JSON or as YAML.
    Object {
        json: bool,
        version: &'static str,
    },
}

impl Page {
    const ALL: [Self; 2] = [Self::Flagz, Self::Statusz];

    fn gate(self) -> &'static str {
        match self {
            Self::Flagz => "ComponentFlagz",
            Self::Statusz => "ComponentStatusz",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Flagz => "/flagz",
            Self::Statusz => "/statusz",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Flagz => "Flagz",
            Self::Statusz => "Statusz",
        }
    }
}

impl Zpages {
    /// The pages of a process that starts now, with these flags and features.
    pub fn new(options: &Options, features: &Features, clock: Clock) -> Self {
        let emulated = features.releases.emulated;
        // A flag that the release lacks is shown once it is set: it has its effect all the same.
        let is_shown = |name: &str| emulated.has_flag(name) || options.is_given(name);
        let flags: Vec<_> = options.iter().filter(|(name, _)| is_shown(name)).collect();
        let separator = separator();
        let mut flagz = head("flagz");
        for (name, value) in &flags {
            flagz.push_str(&format!("{name}{separator}{value}\n"));
        }
        let off = Page::ALL
            .into_iter()
            .filter(|page| !features.is_on(page.gate()))
            .collect();
        Self {
            inner: Arc::new(Inner {
                flags,
                flagz,
                started: clock.now(),
                clock,
                emulated,
                off,
            }),
        }
    }

    /// Whether the feature gate of `page` is on.
    pub(crate) fn has(&self, page: Page) -> bool {
        !self.inner.off.contains(&page)
    }

    /// The response to a request for `page`.
    pub(crate) fn answer(&self, page: Page, request: &Parts) -> Response {
        let Some(form) = form(page, &request.headers) else {
            return not_acceptable(request, AVAILABLE);
        };
        let Form::Object { json, version } = form else {
            return text(
                StatusCode::OK,
                match page {
                    Page::Flagz => self.inner.flagz.clone(),
                    Page::Statusz => self.inner.statusz(),
                },
            );
        };
        let object = self.inner.object(page, version);
        let (media, body) = if json {
            ("json", format!("{object:#}"))
        } else {
            ("yaml", yaml(&object))
        };
        let kind = format!(
            "application/{media};g=config.k8s.io;v={version};as={}",
            page.kind()
        );
        let mut response = ([(header::CONTENT_TYPE, kind.as_str()), NOSNIFF], body).into_response();
        if version == "v1alpha1" {
            let warning = format!(
                "299 - \"config.k8s.io/v1alpha1 {} is deprecated; use config.k8s.io/v1beta1\"",
                page.kind()
            );
            let warning = HeaderValue::try_from(warning).expect("it is plain text");
            response
                .headers_mut()
                .insert(HeaderName::from_static("warning"), warning);
        }
        response
    }
}

impl Inner {
    fn uptime(&self) -> u64 {
        u64::try_from(self.clock.now().as_second() - self.started.as_second()).unwrap_or_default()
    }

    fn paths(&self) -> Vec<&'static str> {
        PATHS
            .into_iter()
            .filter(|path| !self.off.iter().any(|page| page.path() == *path))
            .collect()
    }

    /// The text of `/statusz`.
    fn statusz(&self) -> String {
        let up = self.uptime();
        let separator = separator();
        let up = format!(
            "{} hr {:02} min {:02} sec",
            up / 3600,
            up / 60 % 60,
            up % 60
        );
        let lines = [
            (
                "Started",
                self.started
                    .strftime("%a %b %e %H:%M:%S UTC %Y")
                    .to_string(),
            ),
            ("Up", up),
            ("Go version", String::new()),
            ("Binary version", version::RELEASE.to_owned()),
            ("Emulation version", self.emulated.to_string()),
            ("Paths", self.paths().join(" ")),
        ];
        let mut page = head("statusz") + "\n";
        for (name, value) in lines {
            page.push_str(&format!("{name}{separator} {value}\n"));
        }
        page + "\n"
    }

    /// The object behind a page, with upstream's field order.
    fn object(&self, page: Page, version: &str) -> Value {
        let mut object = Map::new();
        object.insert("kind".to_owned(), page.kind().into());
        object.insert(
            "apiVersion".to_owned(),
            format!("config.k8s.io/{version}").into(),
        );
        object.insert("metadata".to_owned(), json!({"name": version::COMPONENT}));
        match page {
            Page::Flagz => {
                let flags = self
                    .flags
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
                    .collect();
                object.insert("flags".to_owned(), Value::Object(flags));
            }
            Page::Statusz => {
                object.insert(
                    "startTime".to_owned(),
                    self.started
                        .strftime("%Y-%m-%dT%H:%M:%SZ")
                        .to_string()
                        .into(),
                );
                object.insert("uptimeSeconds".to_owned(), self.uptime().into());
                object.insert("goVersion".to_owned(), "".into());
                object.insert("binaryVersion".to_owned(), version::RELEASE.into());
                object.insert(
                    "emulationVersion".to_owned(),
                    self.emulated.to_string().into(),
                );
                object.insert("paths".to_owned(), self.paths().into_iter().collect());
            }
        }
        Value::Object(object)
    }
}

fn head(page: &str) -> String {
    format!("\n{} {page}\n{REMARK}\n", version::COMPONENT)
}

fn separator() -> &'static str {
    SEPARATORS.choose(&mut rand::rng()).copied().unwrap_or(":")
}

/// The first supported format in `Accept`; `None` if there is none.
fn form(page: Page, headers: &HeaderMap) -> Option<Form> {
    let lists: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .into_iter()
        .filter_map(|list| list.to_str().ok())
        .collect();
    let mut ranges = lists
        .iter()
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|range| !range.is_empty())
        .peekable();
    if ranges.peek().is_none() {
        return Some(Form::Text);
    }
    ranges.find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name| {
            parameters
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let json = match media {
            "*/*" | "text/plain" => return Some(Form::Text),
            "application/json" => true,
            "application/yaml" => false,
            _ => return None,
        };
        let version = ["v1beta1", "v1alpha1"]
            .into_iter()
            .find(|version| parameter("v") == Some(*version))?;
        let is_it = parameter("g") == Some("config.k8s.io") && parameter("as") == Some(page.kind());
        is_it.then_some(Form::Object { json, version })
    })
}

/// Writes an object as YAML with sorted keys. Scalars are written as JSON, which is valid YAML.
fn yaml(object: &Value) -> String {
    let mut out = String::new();
    write_yaml(object, "", &mut out);
    out
}

fn write_yaml(value: &Value, indent: &str, out: &mut String) {
    let Value::Object(object) = value else { return };
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in entries {
        match value {
            Value::Object(_) => {
                out.push_str(&format!("{indent}{name}:\n"));
                write_yaml(value, &format!("{indent}  "), out);
            }
            Value::Array(items) => {
                out.push_str(&format!("{indent}{name}:\n"));
                items
                    .iter()
                    .for_each(|item| out.push_str(&format!("{indent}- {item}\n")));
            }
            scalar => out.push_str(&format!("{indent}{name}: {scalar}\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn pages() -> Zpages {
        pages_with(&[])
    }

    fn pages_with(flags: &[(&str, &str)]) -> Zpages {
        let mut options = Options::default();
        for (flag, value) in [("leader-elect-lease-duration", "90s")].iter().chain(flags) {
            options.set(flag, value).unwrap();
        }
        Zpages::new(
            &options,
            &Features::new(&options, Release::DEFAULT).unwrap(),
            Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()),
        )
    }

    /// Requests `page`; returns status, content type, warning and body.
    async fn ask(
        pages: &Zpages,
        page: Page,
        accept: &str,
    ) -> (u16, String, Option<HeaderValue>, String) {
        let request = http::Request::builder()
            .uri("/z")
            .header("user-agent", "curl");
        let request = if accept.is_empty() {
            request
        } else {
            request.header("accept", accept)
        };
        let response = pages.answer(page, &request.body(()).unwrap().into_parts().0);
        let (head, body) = response.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let kind = head.headers[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .to_owned();
        (
            head.status.as_u16(),
            kind,
            head.headers.get("warning").cloned(),
            body,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_supported_media_type_is_used() {
        let plain = "text/plain; charset=utf-8";
        let none = "application/json";
        let json = "application/json;g=config.k8s.io;v=v1beta1;as=Flagz";
        let yaml = "application/yaml;g=config.k8s.io;v=v1alpha1;as=Flagz";
        // (Accept, status, content type, whether a deprecation warning is sent)
        let cases = [
            ("", 200, plain, false),
            ("*/*", 200, plain, false),
            ("text/plain", 200, plain, false),
            ("text/html, */*;q=0.1", 200, plain, false),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
                200,
                json,
                false,
            ),
            (
                "text/html,application/json; as=Flagz; v=v1beta1; g=config.k8s.io, text/plain",
                200,
                json,
                false,
            ),
            (
                "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz",
                200,
                yaml,
                true,
            ),
            ("application/json", 406, none, false),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
                406,
                none,
                false,
            ),
            (
                "application/json;v=v1;g=config.k8s.io;as=Flagz",
                406,
                none,
                false,
            ),
            (
                "application/json;v=v1beta1;g=apps;as=Flagz",
                406,
                none,
                false,
            ),
            ("text/html", 406, none, false),
        ];
        let pages = pages();
        for (accept, status, kind, warned) in cases {
            let answer = ask(&pages, Page::Flagz, accept).await;
            assert_eq!(
                (answer.0, answer.1.as_str(), answer.2.is_some()),
                (status, kind, warned),
                "{accept:?}"
            );
            if status == 406 {
                assert!(
                    answer.3.contains(AVAILABLE)
                        && answer.3.contains("\"reason\": \"NotAcceptable\""),
                    "{}",
                    answer.3
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn flagz_lists_every_flag_once_in_order() {
        let pages = pages();
        let (_, _, _, body) = ask(&pages, Page::Flagz, "").await;
        assert_eq!(
            body,
            ask(&pages, Page::Flagz, "").await.3,
            "the text is rendered once"
        );
        let lines: Vec<&str> = body.lines().collect();
        assert_eq!(lines[..3], ["", "kube-controller-manager flagz", REMARK]);
        let of_release = |(name, _): &(&str, String)| Release::DEFAULT.has_flag(name);
        let flags = Options::default();
        assert_eq!(lines.len() - 3, flags.iter().filter(of_release).count());
        let names: Vec<_> = lines[3..]
            .iter()
            .map(|line| line.split([':', '=', ' ']).next().unwrap())
            .collect();
        assert!(names.is_sorted(), "{body}");
        let wanted =
            SEPARATORS.map(|separator| format!("leader-elect-lease-duration{separator}1m30s"));
        assert!(
            lines
                .iter()
                .any(|line| wanted.iter().any(|wanted| wanted == line)),
            "{body}"
        );

        let (_, _, _, body) = ask(
            &pages,
            Page::Flagz,
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        )
        .await;
        let object: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(object["kind"], "Flagz");
        assert_eq!(object["apiVersion"], "config.k8s.io/v1beta1");
        assert_eq!(object["metadata"]["name"], "kube-controller-manager");
        assert_eq!(object["flags"]["controllers"], "[*]");
        assert_eq!(object["flags"]["kubeconfig"], "");
    }

    #[tokio::test(start_paused = true)]
    async fn statusz_shows_start_uptime_versions_and_paths() {
        let pages = pages();
        tokio::time::advance(std::time::Duration::from_secs(3600 * 25 + 61)).await;
        let (_, _, _, body) = ask(&pages, Page::Statusz, "").await;
        let separator = SEPARATORS
            .iter()
            .find(|s| body.contains(&format!("\nUp{s} 25 hr")))
            .unwrap_or_else(|| panic!("{body}"));
        let expected = [
            "",
            "kube-controller-manager statusz",
            REMARK,
            "",
            &format!("Started{separator} Thu Jan  1 00:00:00 UTC 2026"),
            &format!("Up{separator} 25 hr 01 min 01 sec"),
            &format!("Go version{separator} "),
            &format!("Binary version{separator} {}", version::RELEASE),
            &format!("Emulation version{separator} 1.36"),
            &format!(
                "Paths{separator} /configz /flagz /healthz /livez /metrics /readyz /statusz /version"
            ),
            "",
        ];
        assert_eq!(body.lines().collect::<Vec<_>>(), expected);

        let (_, _, _, body) = ask(
            &pages,
            Page::Statusz,
            "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz",
        )
        .await;
        let expected = format!(
            "apiVersion: \"config.k8s.io/v1beta1\"\nbinaryVersion: \"{}\"\nemulationVersion: \"1.36\"\n\
                        goVersion: \"\"\nkind: \"Statusz\"\nmetadata:\n  name: \"kube-controller-manager\"\npaths:\n- \"/configz\"\n",
            version::RELEASE
        );
        assert!(body.starts_with(&expected), "{body}");
        assert!(
            body.ends_with("startTime: \"2026-01-01T00:00:00Z\"\nuptimeSeconds: 90061\n"),
            "{body}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pages_follow_their_gates_and_the_emulated_release() {
        let both = pages_with(&[
            ("emulated-version", "1.35"),
            ("feature-gates", "ComponentFlagz=true,ComponentStatusz=true"),
        ]);
        assert!(both.has(Page::Flagz) && both.has(Page::Statusz));
        let pages = pages_with(&[
            ("emulated-version", "1.35"),
            ("feature-gates", "ComponentStatusz=true"),
        ]);
        assert!(!pages.has(Page::Flagz) && pages.has(Page::Statusz));
        let (_, _, _, body) = ask(&pages, Page::Statusz, "").await;
        assert!(
            body.contains(" 1.35\n") && body.contains("/configz /healthz /livez"),
            "{body}"
        );
    }
}
