//! Readers of what people and forges write into pull requests.

use fuzz::fuzz;

use crate::comments::command;
use crate::metadata::PullRequestMetadata;
use crate::text::sections::Sections;

fn is_harmless(word: &str) -> bool {
    word.len() < 100 && word.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
}

#[test]
fn fuzzed_comments_give_one_command_or_none() {
    let seeds = [
        "Thanks!\n/stepgate approve prod control-plane\n",
        "```\n/stepgate approve\n```\n/stepgate hold prod because of it\n",
        "> /stepgate reject prod\n\n/stepgate retry\tprod",
    ];
    fuzz("comment", seeds.map(|seed| seed.as_bytes().to_vec()), |input| {
        let body = String::from_utf8_lossy(input);
        match command::read(&body) {
            // They are repeated in answers, between backticks.
            Some(Ok((_, words))) if !words.iter().all(|word| is_harmless(word)) => Err(format!("{words:?}")),
            Some(Err(word)) if !is_harmless(&word) => Err(word),
            // What nobody has asked for is not carried out.
            Some(_) if !body.contains("/stepgate") => Err("a command without its prefix".to_owned()),
            _ => Ok(()),
        }
    });
}

#[test]
fn fuzzed_pull_requests_are_read_the_same_twice() {
    let seed = "## What cannot be undone\n- CRD goes\nRollout aaaaaaaaaaaa.\n<!-- stepgate: place=after:3 heads=1:0123 -->\n\
                ## Risks\n- one\n  two\n| a | b |\n";
    fuzz("pull-request", [seed.as_bytes().to_vec()], |input| {
        let text = String::from_utf8_lossy(input);
        let (one, two) = (PullRequestMetadata::read(&text), PullRequestMetadata::read(&text));
        let _ = Sections::read(&text);
        if one == two { Ok(()) } else { Err("two metadata of one text".to_owned()) }
    });
}
