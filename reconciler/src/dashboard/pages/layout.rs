//! What all pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::dashboard::serve::{LIVE_SCRIPT, STYLE_SHEET};
use crate::dashboard::snapshot::{ReadBy, Snapshot};

/// The pages of the fleet, by path and name.
const PAGES: [(&str, &str); 6] = [
    ("/", "Fleet"),
    ("/approvals", "Approvals"),
    ("/history", "History"),
    ("/windows", "Windows"),
    ("/problems", "Problems"),
    ("/about", "About"),
];

/// The pages of a cluster, by what follows its own address.
const CLUSTER_PAGES: [(&str, &str); 7] = [
    ("", "Why"),
    ("/rollout", "Rollout"),
    ("/plan", "Plan"),
    ("/rehearsal", "Rehearsal"),
    ("/diff", "Diff"),
    ("/history", "History"),
    ("/actions", "Actions"),
];

/// A page of a snapshot, which follows what happens. `path` is the page of the fleet that it belongs to.
pub(super) fn page(snapshot: &Snapshot, path: &str, title: &str, content: &Markup) -> Markup {
    page_that(true, snapshot, path, title, content)
}

/// A page that stays as it is: what somebody is about to say of it must not change under their hand.
pub(super) fn still(snapshot: &Snapshot, path: &str, title: &str, content: &Markup) -> Markup {
    page_that(false, snapshot, path, title, content)
}

fn page_that(is_live: bool, snapshot: &Snapshot, path: &str, title: &str, content: &Markup) -> Markup {
    let body = html! {
        header {
            strong { "Stepgate" }
            nav aria-label="Pages" {
                ul {
                    @for (address, name) in PAGES {
                        li { a href=(address) aria-current=[(address == path).then_some("page")] { (name) } }
                    }
                }
            }
            @if is_live { span id="live" role="status" { "not live" } }
        }
        main id="main" tabindex="-1" {
            h1 { (title) }
            @if !snapshot.errors.is_empty() {
                div class="notice" role="alert" {
                    strong { "Nothing goes on before this is repaired:" }
                    ul { @for error in &snapshot.errors { li { (error) } } }
                }
            }
            (content)
            p class="soft" {
                "Read " (time(&snapshot.read_at)) " " (read_by(snapshot.read_by)) ": "
                (snapshot.source_branch) " at " code { (short(&snapshot.source)) } ", "
                (snapshot.deploy_branch) " "
                @match &snapshot.deploy {
                    Some(commit) => { "at " code { (short(commit)) } "." }
                    None => "does not exist yet.",
                }
            }
        }
    };
    document(title, is_live, &body)
}

fn read_by(read_by: ReadBy) -> Markup {
    match read_by {
        ReadBy::Controller => html! { "by the controller" },
        ReadBy::Follower => html! { "by a follower, from git alone" },
        ReadBy::Web => html! { "by " code { "stepgate web" } },
    }
}

pub(super) fn document(title: &str, is_live: bool, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Stepgate" }
                link rel="stylesheet" href=(STYLE_SHEET.path);
                @if is_live {
                    noscript { meta http-equiv="refresh" content="30"; }
                    script src=(LIVE_SCRIPT.path) defer {}
                }
            }
            body {
                a class="skip" href="#main" { "Skip to content" }
                (body)
            }
        }
    }
}

/// A page that says what is not there.
pub(in crate::dashboard) fn missing(told: &str) -> Markup {
    let body = html! { main id="main" { h1 { "Not here" } p { (told) } p { a href="/" { "To the fleet" } } } };
    document("Not here", false, &body)
}

/// The page that asks for a token; it says what was wrong with the last one, and where tokens come from.
pub(in crate::dashboard) fn login(wrong: Option<&str>, asked: Option<&str>) -> Markup {
    let body = html! {
        main id="main" {
            h1 { "Log in" }
            @if let Some(wrong) = wrong { p class="notice" role="alert" { (wrong) } }
            @match asked {
                None => p { "Nobody is asked who they are here." a href="/" { "To the fleet" } },
                Some(asked) => {
                    form method="post" action="/login" {
                        label { "Token" input type="password" name="token" required autocomplete="current-password"; }
                        button { "Log in" }
                    }
                    p class="soft" { (asked) " Sessions need HTTPS, or localhost." }
                }
            }
        }
    };
    document("Log in", false, &body)
}

/// The page from which people go to their issuer.
pub(in crate::dashboard) fn login_elsewhere(wrong: Option<&str>) -> Markup {
    let body = html! {
        main id="main" {
            h1 { "Log in" }
            @if let Some(wrong) = wrong { p class="notice" role="alert" { (wrong) } }
            p { a href="/login/start" { "Log in with your organisation" } }
            p class="soft" { "Sessions need HTTPS, or localhost." }
        }
    };
    document("Log in", false, &body)
}

/// The page on which people come back.
pub(in crate::dashboard) fn logged_in() -> Markup {
    let body = html! {
        main id="main" { h1 { "Logged in" } p { a href="/" { "To the fleet" } } }
    };
    document("Logged in", false, &body)
}

/// A state as a sign and a word.
pub(super) fn state(word: &str) -> Markup {
    let sign = match word {
        "done" | "passed" | "committed" => "✓",
        "running" | "under way" => "▶",
        "waiting" | "pending" | "ahead" | "soaking" | "waits for approval" => "◷",
        "held" | "stopped" | "paused" => "■",
        "blocked" | "done with exceptions" => "▲",
        "failed" => "✕",
        _ => "·",
    };
    let class = word.replace(' ', "-");
    html! { span class={ "state " (class) } { span aria-hidden="true" { (sign) } " " (word) } }
}

/// A time that the script tells by how far away it is.
pub(super) fn time(time: &str) -> Markup {
    html! { time datetime=(time) title=(time) { (time) } }
}

/// A text in which what stands between backticks is a command, and each time is one.
pub(super) fn told(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (with_times(part)) }
        }
    }
}

fn with_times(text: &str) -> Markup {
    let words = text.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';', ':', '.', ')']).trim_start_matches('(');
        if bare.contains('T') && bare.parse::<jiff::Timestamp>().is_ok() {
            let (before, after) = word.split_once(bare).unwrap_or(("", ""));
            html! { (before) (time(bare)) (after) }
        } else {
            html! { (word) }
        }
    });
    let mut text = String::new();
    for (index, word) in words.enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(&word.into_string());
    }
    PreEscaped(text)
}

/// The first digits of a commit.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// The pages of one cluster.
pub(super) fn cluster_pages(cluster: &str, here: &str) -> Markup {
    let base = format!("/clusters/{cluster}");
    html! {
        nav aria-label="Pages of the cluster" {
            ul {
                @for (path, name) in CLUSTER_PAGES {
                    li { a href={ (base) (path) } aria-current=[(path == here).then_some("page")] { (name) } }
                }
            }
        }
    }
}

/// Lines, one below the other; nothing where there are none.
pub(super) fn lines(title: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h2 { (title) }
            ul { @for line in lines { li { (told(line)) } } }
        }
    }
}
