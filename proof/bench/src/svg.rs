//! Elements of an SVG. Writing to a string always succeeds, so these functions drop the result.

use std::fmt::Write;

pub(crate) fn text(svg: &mut String, x: f64, y: f64, content: &str) {
    let content = escape(content);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{content}</text>");
}

pub(crate) fn marker(svg: &mut String, x: f64, y: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
    );
}

pub(crate) fn line(svg: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str, width: f64) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
    );
}

pub(crate) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
