//! Time zones by name.
//!
//! The zone database of the system comes first, so that an operator can update it. Images without
//! one use the copy in the binary, as upstream's do. Names are case-sensitive.
//!
//! Upstream: `time.LoadLocation` of Go, with the embedded `time/tzdata`.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// A name is not that of a time zone. The texts are Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// Both databases lack the name.
    #[error("unknown time zone {0}")]
    Unknown(String),
    /// The name would be a path to a file outside the database.
    #[error("time: invalid location name")]
    Path,
}

/// The time zone `name`. The empty name means UTC, and `Local` the zone of the process.
pub fn load(name: &str) -> Result<TimeZone, ZoneError> {
    match name {
        "" | "UTC" => return Ok(TimeZone::UTC),
        "Local" => return Ok(TimeZone::system()),
        _ => {}
    }
    if name.split(['/', '\\']).any(|part| part == "..") || name.starts_with(['/', '\\']) {
        return Err(ZoneError::Path);
    }
    // The databases ignore the case of a name, and the zone has the name in its right case.
    let find = |zones: &TimeZoneDatabase| {
        let zone = zones.get(name).ok()?;
        (zone.iana_name() == Some(name)).then_some(zone)
    };
    find(jiff::tz::db())
        .or_else(|| find(&TimeZoneDatabase::bundled()))
        .ok_or_else(|| ZoneError::Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_time_zones_are_those_of_go() {
        // (name, error)
        let cases = [
            ("", None),
            ("UTC", None),
            ("Local", None),
            ("Europe/Berlin", None),
            ("Etc/GMT+5", None),
            ("US/Pacific", None),
            ("europe/berlin", Some("unknown time zone europe/berlin")),
            ("utc", Some("unknown time zone utc")),
            ("Mars/Phobos", Some("unknown time zone Mars/Phobos")),
            ("../etc/passwd", Some("time: invalid location name")),
            ("/etc/localtime", Some("time: invalid location name")),
        ];
        for (name, error) in cases {
            let found = load(name).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), error, "{name}");
        }
    }

    #[test]
    fn the_binary_has_its_own_time_zones() {
        let zones = TimeZoneDatabase::bundled();
        assert!(zones.available().count() > 400);
        assert!(zones.get("America/Argentina/Buenos_Aires").is_ok());
    }
}
