//! Where in a story something goes wrong.

use std::fmt;
use std::str::FromStr;

use steersman_devcluster::faults::Matcher;

/// The so-manyth write, request or event, of all or of some. Counted from 1.
///
/// `7` is the seventh of all; it becomes another one as soon as the controllers do something more
/// or less before. What is to stay the same is said by what it is: `update/replicasets#2`,
/// `update/deployments/status#1`, `patch/pods@one#1`, and, of events, which are those of a resource
/// anyway, `@one#4`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    nth: usize,
    of: Option<Of>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Of {
    /// With its resource and, where it has one, subresource.
    verb: Option<(String, String, String)>,
    name: Option<String>,
}

impl Point {
    /// What it is among what `matcher` matches.
    pub(crate) fn among(&self, mut matcher: Matcher) -> Matcher {
        if let Some(of) = &self.of {
            if let Some((verb, resource, subresource)) = of.verb.clone() {
                (matcher.verb, matcher.resource, matcher.subresource) =
                    (Some(verb), Some(resource), Some(subresource));
            }
            matcher.name = of.name.clone();
        }
        matcher.nth(self.nth)
    }
}

impl Point {
    /// The so-manyth request with this verb for objects of a resource.
    pub(crate) fn of(verb: &str, resource: &str, nth: usize) -> Self {
        let verb = Some((verb.to_owned(), resource.to_owned(), String::new()));
        Self {
            nth,
            of: Some(Of { verb, name: None }),
        }
    }

    /// Whether it is one of those for this resource alone.
    pub(crate) fn is_of(&self, resource: &str) -> bool {
        let verb = self.of.as_ref().and_then(|of| of.verb.as_ref());
        verb.is_some_and(|(_, of, _)| of == resource)
    }
}

impl From<usize> for Point {
    /// The so-manyth of all.
    fn from(nth: usize) -> Self {
        Self { nth, of: None }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(of) = &self.of {
            if let Some((verb, resource, subresource)) = &of.verb {
                write!(f, "{verb}/{resource}")?;
                if !subresource.is_empty() {
                    write!(f, "/{subresource}")?;
                }
            }
            if let Some(name) = &of.name {
                write!(f, "@{name}")?;
            }
            f.write_str("#")?;
        }
        write!(f, "{}", self.nth)
    }
}

/// It is no point.
#[derive(Debug)]
pub struct NoPoint;

impl FromStr for Point {
    type Err = NoPoint;

    fn from_str(text: &str) -> Result<Self, NoPoint> {
        let Some((what, nth)) = text.rsplit_once('#') else {
            return Ok(Self::from(positive(text)?));
        };
        let (verb, name) = what
            .split_once('@')
            .map_or((what, None), |(verb, name)| (verb, Some(name.to_owned())));
        let verb = match verb.split('/').collect::<Vec<_>>()[..] {
            [""] if name.is_some() => None,
            ["", ..] => return Err(NoPoint),
            [verb, resource] => Some((verb.to_owned(), resource.to_owned(), String::new())),
            [verb, resource, subresource] => {
                Some((verb.to_owned(), resource.to_owned(), subresource.to_owned()))
            }
            _ => return Err(NoPoint),
        };
        Ok(Self {
            nth: positive(nth)?,
            of: Some(Of { verb, name }),
        })
    }
}

fn positive(text: &str) -> Result<usize, NoPoint> {
    text.parse().ok().filter(|nth| *nth > 0).ok_or(NoPoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_as_they_are_written() {
        for text in [
            "7",
            "update/replicasets#2",
            "update/deployments/status#1",
            "patch/pods@one#1",
            "@one#4",
        ] {
            let point: Point = text.parse().unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(point.to_string(), text);
        }
        for wrong in [
            "",
            "0",
            "x",
            "#1",
            "update#1",
            "/pods#1",
            "a/b/c/d#1",
            "update/pods#0",
            "update/pods#",
            "update/pods",
        ] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_point_of_some_matches_those_alone() {
        let matcher = "update/deployments/status@web#3"
            .parse::<Point>()
            .unwrap()
            .among(Matcher::writes());
        assert_eq!(
            (matcher.verb.as_deref(), matcher.resource.as_deref()),
            (Some("update"), Some("deployments"))
        );
        assert_eq!(
            (matcher.subresource.as_deref(), matcher.name.as_deref()),
            (Some("status"), Some("web"))
        );
        assert_eq!((matcher.skip, matcher.writes_only), (2, true));
        assert_eq!(Point::from(5).among(Matcher::writes()).verb, None);
    }
}
