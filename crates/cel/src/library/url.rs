//! URLs.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/urls.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::args::text;
use crate::fail::Fail;
use crate::objects::url::Url;
use crate::row::Row;
use crate::value::{Key, Val};

pub(super) const ROWS: &[Row] = &[
    ("url(string) URL", |args| {
        let text = text(args, 0)?;
        Url::parse(text)
            .map(|url| Val::Url(Arc::new(url)))
            .map_err(|why| {
                let why =
                    format!("URL parse error during conversion from string: parse {text:?}: {why}");
                Fail::new(why)
            })
    }),
    ("isURL(string) bool", |args| {
        Ok(Val::Bool(Url::parse(text(args, 0)?).is_ok()))
    }),
    (".getScheme(URL) string", |args| {
        part(args, |url| url.scheme.clone())
    }),
    (".getHost(URL) string", |args| {
        part(args, |url| url.host.clone())
    }),
    (".getHostname(URL) string", |args| {
        part(args, |url| url.split_host().0.to_owned())
    }),
    (".getPort(URL) string", |args| {
        part(args, |url| url.split_host().1.to_owned())
    }),
    (".getEscapedPath(URL) string", |args| {
        part(args, |url| url.path.clone())
    }),
    (
        ".getQuery(URL) map(string, list(string))",
        |args| match &args[0] {
            Val::Url(url) => Ok(query(url)),
            _ => Err(Fail::no_overload()),
        },
    ),
];

fn part(args: &[Val], part: fn(&Url) -> String) -> Result<Val, Fail> {
    match &args[0] {
        Val::Url(url) => Ok(Val::text(&part(url))),
        _ => Err(Fail::no_overload()),
    }
}

fn query(url: &Url) -> Val {
    let mut found: BTreeMap<Key, Vec<Val>> = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(url.query.as_bytes()) {
        found
            .entry(Key::text(&name))
            .or_default()
            .push(Val::text(&value));
    }
    let lists = found
        .into_iter()
        .map(|(name, values)| (name, Val::list(values)));
    Val::Map(Arc::new(lists.collect()))
}
