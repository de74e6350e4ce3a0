//! What can be done to a cluster, as forms; and what came of one.

use maud::{Markup, html};

use super::layout::{cluster_pages, document, short, still, told};
use crate::dashboard::serve::{OfferReport, OffersReport};
use crate::dashboard::snapshot::Snapshot;
use crate::reconcile::actions::{ActionError, Done, Offer, Offered, Verb};

/// What each verb would do now, with the form that says it, for those who may.
pub(in crate::dashboard) fn actions(snapshot: &Snapshot, report: &OffersReport, mark: Option<&str>) -> Markup {
    let name = &report.cluster;
    let content = html! {
        (cluster_pages(name, "/actions"))
        @match &report.person {
            Some(person) => p class="soft" { "You act as " (person) "." },
            None => p class="notice" {
                "Nobody acts here: this dashboard only reads, or does not know who you are. The commands do the same."
            },
        }
        @for offer in &report.offers {
            section aria-labelledby={ "verb-" (offer.verb.word()) } {
                h2 id={ "verb-" (offer.verb.word()) } { (title(offer.verb)) }
                (one(snapshot, name, offer, mark))
            }
        }
    };
    still(snapshot, "/", &format!("{name}: actions"), &content)
}

fn one(snapshot: &Snapshot, cluster: &str, report: &OfferReport, mark: Option<&str>) -> Markup {
    let verb = report.verb;
    html! {
        @match &report.offered {
            Offered::OnForge => (on_forge(snapshot, cluster)),
            Offered::Impossible { why, help } => {
                p { "Not now: " (told(why)) }
                @if let Some(help) = help { p class="soft" { (told(help)) } }
            }
            Offered::Possible(offer) => {
                ul { @for line in &offer.told { li { (told(line)) } } }
                @if report.allowed {
                    (form(cluster, verb, offer, mark))
                } @else {
                    p class="soft" { "On the command line: " code { (command(verb, cluster, offer.ends)) } }
                }
            }
        }
    }
}

fn form(cluster: &str, verb: Verb, offer: &Offer, mark: Option<&str>) -> Markup {
    html! {
        form method="post" action={ "/clusters/" (cluster) "/actions/" (verb.word()) } {
            input type="hidden" name="plan" value=(offer.plan);
            @if let Some(mark) = mark { input type="hidden" name="mark" value=(mark); }
            @if offer.ends { input type="hidden" name="ends" value="true"; }
            @match verb {
                Verb::Reject | Verb::Hold => {
                    label { "Why" input id={ "why-" (verb.word()) } name="reason" required maxlength="1000"; }
                }
                Verb::Rollback if !offer.ends => {
                    label { "Why" input id="why-rollback" name="reason" maxlength="1000"; }
                }
                Verb::Approve | Verb::Resume | Verb::Retry | Verb::Rollback => {}
            }
            @if verb == Verb::Hold {
                label { "How long" input id="lasts" name="lasts" value="1h" size="6" required; }
            }
            button id={ "do-" (verb.word()) } { (button(verb, offer.ends)) }
            @if !matches!(verb, Verb::Hold | Verb::Resume) {
                p class="soft" { "Plan " code { (short(&offer.plan)) } }
            }
        }
    }
}

/// Where a forge asks people, they answer there.
fn on_forge(snapshot: &Snapshot, cluster: &str) -> Markup {
    let forge = snapshot.fleet.reading.fleet.policy.forge.as_ref().map(|forge| forge.url.as_str());
    let reasons = snapshot.row(cluster).map(|row| row.status.reasons.as_slice()).unwrap_or_default();
    let links = reasons.iter().flat_map(|reason| reason.split([' ', ',', ';', '`', '(', ')']));
    let links = links.filter(|word| forge.is_some_and(|forge| is_below(word, forge)));
    let mut links: Vec<&str> = links.collect();
    links.dedup();
    html! {
        p {
            "People answer on the forge"
            @if links.is_empty() { "." } @else {
                ": "
                @for link in links { a href=(link) rel="noreferrer" { (link) } " " }
            }
        }
    }
}

/// Whether an address is one of the forge's own pages: it alone is linked to.
fn is_below(address: &str, forge: &str) -> bool {
    let rest = address.strip_prefix(forge.trim_end_matches('/'));
    (forge.starts_with("https://") || forge.starts_with("http://")) && rest.is_some_and(|rest| rest.starts_with('/'))
}

/// What came of a form.
pub(in crate::dashboard) fn acted(cluster: &str, verb: Verb, outcome: &Result<Done, ActionError>) -> Markup {
    let title = match outcome {
        Ok(_) => format!("{cluster}: done"),
        Err(_) => format!("{cluster}: not done"),
    };
    let body = html! {
        main id="main" tabindex="-1" {
            h1 { (title) }
            @match outcome {
                Ok(done) => {
                    p role="status" { (verb.word()) ":" }
                    ul { @for line in &done.told { li { (told(line)) } } }
                    @if let Some(commit) = &done.commit { p class="soft" { "Commit " code { (short(commit.as_str())) } } }
                }
                Err(error) => {
                    p class="notice" role="alert" { (told(&error.to_string())) }
                    @if let Some(hint) = error.hint() { p { (told(&hint)) } }
                }
            }
            p {
                a href={ "/clusters/" (cluster) } { "To cluster " (cluster) } " · "
                a href={ "/clusters/" (cluster) "/actions" } { "Its actions" }
            }
        }
    };
    document(&title, false, &body)
}

const fn title(verb: Verb) -> &'static str {
    match verb {
        Verb::Approve => "Approve",
        Verb::Reject => "Reject",
        Verb::Hold => "Hold",
        Verb::Resume => "Resume",
        Verb::Retry => "Retry",
        Verb::Rollback => "Roll back",
    }
}

const fn button(verb: Verb, ends: bool) -> &'static str {
    match (verb, ends) {
        (Verb::Rollback, true) => "Let the source branch count again",
        _ => title(verb),
    }
}

/// The command that does the same.
fn command(verb: Verb, cluster: &str, ends: bool) -> String {
    match verb {
        Verb::Reject | Verb::Hold => format!("stepgate {} {cluster} --reason TEXT --yes", verb.word()),
        Verb::Rollback if ends => format!("stepgate rollback {cluster} --end --yes"),
        Verb::Approve | Verb::Resume | Verb::Retry | Verb::Rollback => {
            format!("stepgate {} {cluster} --yes", verb.word())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_forge_are_linked_to() {
        for (address, expected) in [
            ("https://git.example.com/platform/fleet/pulls/7", true),
            ("https://git.example.com.attacker.example/x", false),
            ("https://attacker.example/https://git.example.com/", false),
            ("javascript:alert(1)", false),
        ] {
            assert_eq!(is_below(address, "https://git.example.com"), expected, "{address}");
            assert!(!is_below(address, "javascript:"), "{address}");
        }
    }
}
