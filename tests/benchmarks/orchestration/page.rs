//! The page of what was measured, and its picture.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tests::servers::Programs;

use super::{Measured, Side, middle};
use crate::report::machine_told;

/// What is between these lines of the page is written anew.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

const PAGE: &str = "benchmarks.md";
const PICTURE: &str = "pictures/orchestration.svg";

/// Width and height of the picture, and the space around what is drawn.
const SIZE: (f64, f64) = (720.0, 360.0);
const MARGIN: f64 = 56.0;

/// A colour for each side, which people tell apart who see few.
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// Writes both into the folder of the documentation.
pub fn write(folder: &Path, measured: &[Measured], programs: &Programs) -> anyhow::Result<()> {
    let page = folder.join(PAGE);
    let text = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no place for what was measured")?;
    let (_, after) = rest.split_once(END).context("the place for what was measured has no end")?;
    std::fs::write(&page, format!("{before}{BEGIN}{}{END}{after}", told(measured, programs)))?;
    std::fs::write(folder.join(PICTURE), picture(measured)).context(PICTURE)
}

fn told(measured: &[Measured], programs: &Programs) -> String {
    let versions: Vec<String> = super::needed().into_iter().filter_map(|name| version(programs, name)).collect();
    let mut text = format!("![Seconds by the size of the fleet]({PICTURE})\n\n");
    text.push_str(&format!("Machine: {}. Servers: {}.\n\n", machine_told(), versions.join(", ")));
    text.push_str(
        "| clusters | side | all machines run it | it says that it is done | rounds |\n|--:|---|--:|--:|--:|\n",
    );
    for own in measured {
        let (machines, done) = (middle(own, |round| round.0), middle(own, |round| round.1));
        // A text takes whatever is written.
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} s | {:.1} s | {} |",
            own.clusters,
            own.side.title(),
            machines.as_secs_f64(),
            done.as_secs_f64(),
            own.rounds.len()
        );
    }
    text
}

/// The program's name with its version: it is a link to the file of that version.
fn version(programs: &Programs, name: &str) -> Option<String> {
    let file = std::fs::canonicalize(programs.path(name)).ok()?;
    Some(file.file_name()?.to_str()?.to_owned())
}

/// Times over sizes: a line for what each side says, a dashed one for its machines.
fn picture(measured: &[Measured]) -> String {
    let (width, height) = SIZE;
    let largest = measured.iter().map(|own| own.clusters).max().unwrap_or(1).max(2);
    let times = |own: &Measured| [middle(own, |round| round.0), middle(own, |round| round.1)];
    let longest = measured.iter().flat_map(times).max().unwrap_or_default().as_secs_f64().max(1.0);
    let count = |clusters: usize| f64::from(u32::try_from(clusters).unwrap_or(u32::MAX));
    // Sizes are ten times apart: their logarithms are even.
    let across = |clusters: usize| MARGIN + count(clusters).ln() / count(largest).ln() * (width - 2.0 * MARGIN);
    let up = |time: Duration| height - MARGIN - time.as_secs_f64() / longest * (height - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Seconds from the push of a version until every cluster is done, by the size of the fleet</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let (left, right, bottom) = (MARGIN, width - MARGIN, height - MARGIN);
    for part in 0..=4_u32 {
        let seconds = longest * f64::from(part) / 4.0;
        let y = up(Duration::from_secs_f64(seconds));
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{seconds:.0} s</text>",
            left - 6.0,
            y + 4.0
        );
    }
    let mut sizes: Vec<usize> = measured.iter().map(|own| own.clusters).collect();
    sizes.dedup();
    for clusters in sizes {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{clusters}</text>",
            across(clusters),
            bottom + 18.0
        );
    }
    let _ = writeln!(svg, "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">clusters</text>", bottom + 36.0);
    for (place, (side, colour)) in Side::ALL.into_iter().zip(COLOURS).enumerate() {
        let own = || measured.iter().filter(|own| own.side == side);
        for (which, dashes) in [(0_usize, " stroke-dasharray=\"4 4\""), (1, "")] {
            let time = |own: &Measured| times(own).get(which).copied().unwrap_or_default();
            let points: Vec<String> =
                own().map(|own| format!("{:.1},{:.1}", across(own.clusters), up(time(own)))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
                points.join(" ")
            );
            for point in points {
                let (x, y) = point.split_once(',').unwrap_or_default();
                let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
        let y = MARGIN / 2.0 + 16.0 * f64::from(u32::try_from(place).unwrap_or_default());
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>", left + 8.0, side.title());
    }
    let _ = writeln!(
        svg,
        "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">line: it says that it is done; dashed: all machines run it</text>",
        MARGIN / 2.0
    );
    svg.push_str("</svg>\n");
    svg
}
