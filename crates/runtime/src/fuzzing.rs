//! Entry points for the fuzz targets in `proof/fuzz`: private parsers of bytes from the API server.
//!
//! The parsers themselves stay private; this module is the only public way to them.

use steersman_objects::Object;

/// Parses one line of a watch. True if the line is a valid watch event.
pub fn watch_event<T: Object>(line: &[u8]) -> bool {
    crate::informer::wire::frame::<T>(line).is_ok()
}

/// Parses a list. Returns the number of objects that were decoded.
pub fn list<T: Object>(body: &[u8]) -> usize {
    let page = crate::informer::wire::Page::parse(body);
    page.map_or(0, |page| page.objects::<T>().filter(Result::is_ok).count())
}
