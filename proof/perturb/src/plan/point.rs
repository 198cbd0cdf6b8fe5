//! The point of a run at which a fault happens.

use std::fmt;
use std::str::FromStr;

use steersman_devcluster::faults::Matcher;

/// The nth write, request or event, counted from 1 among all of them or among some.
///
/// `7` is the seventh of all. It means another request as soon as a controller sends one request
/// more or fewer before it. A point with verb, resource and name keeps its meaning:
/// `update/replicasets#2`, `update/deployments/status#1`, `patch/pods@one#1`. Events belong to one
/// resource already, so their points have only a name: `@one#4`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    nth: usize,
    of: Option<Of>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Of {
    /// Verb, resource and subresource, which may be empty.
    verb: Option<(String, String, String)>,
    name: Option<String>,
}

impl Point {
    /// Narrows `matcher` to this point.
    pub(crate) fn among(&self, mut matcher: Matcher) -> Matcher {
        if let Some(of) = &self.of {
            if let Some((verb, resource, subresource)) = of.verb.clone() {
                matcher.verb = Some(verb);
                matcher.resource = Some(resource);
                matcher.subresource = Some(subresource);
            }
            matcher.name = of.name.clone();
        }
        matcher.nth(self.nth)
    }
}

impl Point {
    /// The nth request with this verb for objects of this resource.
    pub(crate) fn of(verb: &str, resource: &str, nth: usize) -> Self {
        let verb = Some((verb.to_owned(), resource.to_owned(), String::new()));
        Self {
            nth,
            of: Some(Of { verb, name: None }),
        }
    }

    /// Whether the point counts only requests for this resource.
    pub(crate) fn is_of(&self, resource: &str) -> bool {
        let verb = self.of.as_ref().and_then(|of| of.verb.as_ref());
        verb.is_some_and(|(_, of, _)| of == resource)
    }
}

impl From<usize> for Point {
    /// The nth of all.
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

/// The text is not a point.
#[derive(Debug)]
pub struct NoPoint;

impl FromStr for Point {
    type Err = NoPoint;

    fn from_str(text: &str) -> Result<Self, NoPoint> {
        let Some((of, nth)) = text.rsplit_once('#') else {
            return Ok(Self::from(positive(text)?));
        };
        let (verb, name) = of
            .split_once('@')
            .map_or((of, None), |(verb, name)| (verb, Some(name.to_owned())));
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
    fn a_point_survives_formatting_and_parsing() {
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
        for invalid in [
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
            assert!(invalid.parse::<Point>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_point_with_verb_and_name_matches_only_such_requests() {
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
