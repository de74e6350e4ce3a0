//! The stages of a rollout as a picture, and the same as a list for whoever does not see it.

use maud::{Markup, html};

use super::layout::state;
use crate::dashboard::detail::StageLine;

/// How many stages stand in a row.
const ROW: usize = 6;

/// The most stages that are drawn; a longer rollout is a list alone.
const MOST: usize = 40;

const WIDTH: usize = 150;
const HEIGHT: usize = 48;
const GAP: usize = 26;

/// The stages in order.
pub(super) fn stages(stages: &[StageLine]) -> Markup {
    let drawn: Vec<&StageLine> = stages.iter().filter(|stage| stage.state != "skipped").collect();
    html! {
        @if !drawn.is_empty() && drawn.len() <= MOST { (picture(&drawn)) }
        ol {
            @for stage in stages {
                li {
                    (state(&stage.state)) " " (stage.name)
                    @if stage.is_next { " " strong { "next" } }
                }
            }
        }
    }
}

fn picture(stages: &[&StageLine]) -> Markup {
    let columns = stages.len().min(ROW);
    let rows = stages.len().div_ceil(ROW);
    let width = columns * (WIDTH + GAP);
    let height = rows * (HEIGHT + GAP);
    html! {
        svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) }
            role="img" aria-label="The stages in order; the list below has the same" {
            @for (index, stage) in stages.iter().enumerate() {
                @let (x, y) = ((index % ROW) * (WIDTH + GAP), (index / ROW) * (HEIGHT + GAP));
                g class={ (stage.state) @if stage.is_next { " next" } } {
                    title { (stage.name) ": " (stage.state) }
                    rect x=(x + 2) y=(y + 2) width=(WIDTH - 4) height=(HEIGHT - 4) rx="6" {}
                    text x=(x + 10) y=(y + 20) { (cut(&stage.name)) }
                    text class="soft" x=(x + 10) y=(y + 37) { (stage.state) }
                }
                @if index + 1 < stages.len() && (index + 1) % ROW != 0 {
                    @let middle = y + HEIGHT / 2;
                    line x1=(x + WIDTH) y1=(middle) x2=(x + WIDTH + GAP) y2=(middle) {}
                }
            }
        }
    }
}

/// What fits a box.
fn cut(name: &str) -> String {
    const FITS: usize = 18;
    if name.chars().count() <= FITS { name.to_owned() } else { name.chars().take(FITS - 1).chain(['…']).collect() }
}
