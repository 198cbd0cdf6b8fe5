//! The row of one rollout on a terminal: name, bar, time, text.
//!
//! All functions are pure: they depend on the progress and the width only. `display.rs` does the
//! output.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use console::{measure_text_width, truncate_str};

use super::progress::{Progress, State};

/// Width reserved for the text before the name column may exceed [`NAME_AT_LEAST`].
const TEXT: usize = 58;
/// Minimum width of the name column.
const NAME_AT_LEAST: usize = 20;
/// Width of the elapsed time: `59m59s`.
const ELAPSED: usize = 6;

/// The column widths, which all rows share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    width: usize,
    pub(super) name: usize,
    /// 0 if there is no room for a bar.
    bar: usize,
}

impl Columns {
    /// The column widths for a terminal of `width` columns, if the longest name has `longest`
    /// columns.
    pub(super) fn of(width: usize, longest: usize) -> Self {
        let bar = match width {
            0..60 => 0,
            60..140 => 10,
            140.. => 20,
        };
        let brackets = if bar == 0 { 0 } else { 3 };
        let rest = width.saturating_sub(bar + brackets + ELAPSED + 3);
        Self {
            width,
            name: longest.min(rest.saturating_sub(TEXT).max(NAME_AT_LEAST)),
            bar,
        }
    }
}

/// A colour of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

/// `text` in `colour`; unchanged if `colours` is false.
pub(super) fn painted(text: &str, colour: Colour, colours: bool) -> Cow<'_, str> {
    if colours {
        format!("\x1b[{}m{text}\x1b[0m", colour as u8).into()
    } else {
        text.into()
    }
}

/// Formats one row, at most as wide as the terminal. `name` fits its column; `images` describes
/// changed images, or is empty.
pub(super) fn row(
    name: &str,
    progress: &Progress,
    images: &str,
    columns: Columns,
    colours: bool,
    elapsed: Duration,
) -> String {
    let (text, colour) = match &progress.state {
        State::Rolling(text) => (text.clone(), Colour::Cyan),
        State::Paused(text) => (format!("paused, {text}"), Colour::Yellow),
        State::Scheduled(text) => (text.clone(), Colour::Green),
        State::Complete => ("complete".to_owned(), Colour::Green),
        State::Stuck(text) => (format!("stuck: {text}"), Colour::Red),
    };
    let text = [text, facts(progress, images)]
        .iter()
        .filter(|part| !part.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let mut row = format!("{name:<0$} ", columns.name);
    if columns.bar > 0 {
        let _ = write!(
            row,
            "[{}] ",
            painted(&bar(progress, columns.bar), colour, colours)
        );
    }
    let _ = write!(row, "{:>ELAPSED$}  ", short(elapsed));
    let left = columns.width.saturating_sub(measure_text_width(&row));
    if left == 0 {
        // So narrow a terminal has no bar. The cut therefore breaks no colour code.
        return truncate_str(&row, columns.width, "").into_owned();
    }
    let text = printable(&text);
    row.push_str(&painted(
        &truncate_str(&text, left, "…"),
        colour,
        colours && colour != Colour::Cyan,
    ));
    row
}

/// The revision and the changed images.
pub(super) fn facts(progress: &Progress, images: &str) -> String {
    let revision = progress
        .revision
        .iter()
        .map(|revision| format!("revision {revision}"));
    revision
        .chain(Some(images.to_owned()).filter(|images| !images.is_empty()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `text` without control characters. Parts of it come from objects, and could contain escape codes
/// for the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The progress bar: available pods of the current template, or completions, relative to the
/// desired number.
fn bar(progress: &Progress, width: usize) -> String {
    let part = |number: i32| usize::try_from(number).unwrap_or(0);
    let done = part(progress.done);
    let wanted = part(progress.wanted);
    let filled = (done * width)
        .checked_div(wanted)
        .unwrap_or(width)
        .min(width);
    let head = if filled < width { ">" } else { "" };
    format!("{:<width$}", format!("{}{head}", "=".repeat(filled)))
}

/// A duration in at most six columns.
fn short(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// The images that differ between two states of a template, such as `web:1 → web:2`. Both arguments
/// are pairs of container name and image.
pub(super) fn image_changes(before: &[(String, String)], after: &[(String, String)]) -> String {
    let change = |(container, new): &(String, String)| {
        let (_, old) = before
            .iter()
            .find(|(name, old)| name == container && old != new)?;
        let short_old = last_part(old);
        let short_new = last_part(new);
        // If only the registry differs, show the full image names.
        let (old, new) = if short_old == short_new {
            (old.as_str(), new.as_str())
        } else {
            (short_old, short_new)
        };
        Some(format!("{old} → {new}"))
    };
    after
        .iter()
        .filter_map(change)
        .collect::<Vec<_>>()
        .join(", ")
}

fn last_part(image: &str) -> &str {
    image.rsplit_once('/').map_or(image, |(_, name)| name)
}

/// Shortens `name` to `width` columns by removing a part from the middle. If the result could stand
/// for another name in `all`, the removed part moves away from the middle.
pub(super) fn cut(name: &str, width: usize, all: &[&str]) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= width || width < 3 {
        return name.chars().take(width).collect();
    }
    let kept = width - 1;
    let parts = |head: usize| -> (String, String) {
        (
            letters[..head].iter().collect(),
            letters[letters.len() - (kept - head)..].iter().collect(),
        )
    };
    let is_clear = |(head, tail): &(String, String)| {
        let alike = |other: &&&str| {
            **other != name && other.starts_with(head.as_str()) && other.ends_with(tail.as_str())
        };
        all.iter().filter(alike).count() == 0
    };
    let middle = kept / 2;
    let nearest_first = (0..=middle).flat_map(|step| [middle - step, (middle + step).min(kept)]);
    let (head, tail) = nearest_first
        .map(parts)
        .find(is_clear)
        .unwrap_or_else(|| parts(middle));
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: i32, state: State, revision: &str) -> Progress {
        let revision = Some(revision.to_owned()).filter(|revision| !revision.is_empty());
        Progress {
            wanted: 10,
            done,
            unit: "pod",
            state,
            paused: false,
            revision,
            images: Vec::new(),
        }
    }

    #[test]
    fn a_row_never_exceeds_the_width() {
        let rolling = || State::Rolling("5 of 10 new pods available".to_owned());
        let paused = State::Paused("0 of 10 new pods created".to_owned());
        let escape = State::Rolling("quota \u{1b}[2J\nexceeded".to_owned());
        let name = "shop/web";
        let images = "web:1 → web:2";
        // (why, progress, images, width, seconds, row)
        let cases = [
            (
                "wide",
                progress(5, rolling(), "2"),
                images,
                140,
                12,
                "shop/web [==========>         ]    12s  5 of 10 new pods available, revision 2, web:1 → web:2",
            ),
            (
                "images cut",
                progress(5, rolling(), "2"),
                images,
                70,
                75,
                "shop/web [=====>    ]  1m15s  5 of 10 new pods available, revision 2,…",
            ),
            (
                "no room for a bar",
                progress(5, rolling(), "2"),
                images,
                40,
                4000,
                "shop/web  1h06m  5 of 10 new pods avail…",
            ),
            (
                "paused",
                progress(0, paused, ""),
                "",
                80,
                0,
                "shop/web [>         ]     0s  paused, 0 of 10 new pods created",
            ),
            (
                "all pods available",
                progress(10, rolling(), "1"),
                "",
                80,
                1,
                "shop/web [==========]     1s  5 of 10 new pods available, revision 1",
            ),
            (
                "control characters in a message",
                progress(0, escape, ""),
                "",
                80,
                1,
                "shop/web [>         ]     1s  quota  [2J exceeded",
            ),
        ];
        for (why, progress, images, width, seconds, expected) in cases {
            let columns = Columns::of(width, name.len());
            let row = row(
                name,
                &progress,
                images,
                columns,
                false,
                Duration::from_secs(seconds),
            );
            assert_eq!(row, expected, "{why}");
            assert!(measure_text_width(&row) <= width, "{why}");
        }
    }

    #[test]
    fn colours_do_not_change_the_width() {
        let stuck = progress(3, State::Stuck("too slow".to_owned()), "7");
        for width in [20, 40, 70, 130] {
            let draw = |colours| {
                row(
                    "shop/web",
                    &stuck,
                    "a:1 → a:2",
                    Columns::of(width, 8),
                    colours,
                    Duration::ZERO,
                )
            };
            let plain = draw(false);
            let coloured = draw(true);
            assert!(
                !plain.contains('\x1b') && coloured.contains("\x1b[31m"),
                "{coloured:?}"
            );
            assert_eq!(console::strip_ansi_codes(&coloured), plain);
        }
    }

    #[test]
    fn names_take_the_width_that_the_text_leaves() {
        // (width, longest name, column of names)
        for (width, longest, name) in [
            (200, 70, 70),
            (130, 70, 50),
            (130, 12, 12),
            (80, 70, 20),
            (40, 70, 20),
        ] {
            assert_eq!(Columns::of(width, longest).name, name, "{width} {longest}");
        }
    }

    #[test]
    fn shortened_names_stay_distinct() {
        let alike: Vec<String> = (0..45)
            .map(|n| format!("default/checkout-production-{n:02}-service-frontend"))
            .collect();
        let alike: Vec<&str> = alike.iter().map(String::as_str).collect();
        for width in [20, 24, 30, 40] {
            let cut: std::collections::BTreeSet<String> =
                alike.iter().map(|name| cut(name, width, &alike)).collect();
            assert_eq!(cut.len(), alike.len(), "{width}: {cut:?}");
            assert!(
                cut.iter().all(|name| name.chars().count() == width),
                "{cut:?}"
            );
        }
        // (name, width, cut)
        let cases = [
            ("very-long-name-of-a-frontend", 20, "very-long…a-frontend"),
            ("short", 20, "short"),
            ("exactly-twenty-chars", 20, "exactly-twenty-chars"),
        ];
        for (name, width, expected) in cases {
            assert_eq!(cut(name, width, &[name]), expected);
        }
    }

    #[test]
    fn changed_images_are_shown_in_their_shortest_distinct_form() {
        let images = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter()
                .map(|&(name, image)| (name.to_owned(), image.to_owned()))
                .collect()
        };
        let before = images(&[("main", "registry.io/shop/web:1"), ("side", "proxy:1")]);
        // (after, text)
        let cases = [
            (
                images(&[("main", "registry.io/shop/web:2"), ("side", "proxy:1")]),
                "web:1 → web:2",
            ),
            (
                images(&[("main", "registry.io/shop/web:2"), ("side", "proxy:2")]),
                "web:1 → web:2, proxy:1 → proxy:2",
            ),
            (
                images(&[("main", "mirror.io/shop/web:1")]),
                "registry.io/shop/web:1 → mirror.io/shop/web:1",
            ),
            (images(&[("other", "web:2")]), ""),
        ];
        for (after, expected) in cases {
            assert_eq!(image_changes(&before, &after), expected);
        }
    }
}
