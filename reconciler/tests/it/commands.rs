//! Every command that the program advises: it exists, and takes what is given to it.
//!
//! All texts of the program are read off its sources. A command stands in backticks, or is a text by itself. `stepgate` commands are parsed by the
//! program's own command line; those of other programs are compared with what these programs document.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use stepgate::cli::Cli;

/// A verb of another program, how many words have to follow it, and the flags that it knows.
type Verb = (&'static str, usize, &'static [&'static str]);

/// As `kubectl VERB --help` of Kubernetes 1.34 has it.
const KUBECTL: &[Verb] = &[
    ("get", 0, &["-n", "-A", "-l", "-o", "--field-selector", "--show-managed-fields", "--raw"]),
    ("describe", 2, &["-n", "-l", "-A"]),
    ("logs", 1, &["-n", "--tail"]),
    ("patch", 2, &["-n", "--type", "-p", "--subresource"]),
    ("edit", 2, &["-n", "--subresource"]),
    ("annotate", 3, &["-n"]),
    ("delete", 2, &["-n"]),
    ("rollout resume", 2, &["-n"]),
    ("apply", 0, &["--server-side", "-f"]),
];

/// As `flux VERB --help` of Flux 2.7 has it.
const FLUX: &[Verb] = &[
    ("get kustomization", 0, &["-n", "-A"]),
    ("get kustomizations", 0, &["-n", "-A"]),
    ("get helmrelease", 0, &["-n", "-A"]),
    ("get source git", 0, &["-n", "-A"]),
    ("get sources git", 0, &["-n", "-A"]),
    ("resume kustomization", 1, &["-n"]),
    ("resume helmrelease", 1, &["-n"]),
    ("resume source git", 1, &["-n"]),
    ("reconcile source git", 1, &["-n"]),
    ("reconcile source oci", 1, &["-n"]),
    // Git or OCI.
    ("get source x", 0, &["-n", "-A"]),
    ("resume source x", 1, &["-n"]),
    ("reconcile source x", 1, &["-n"]),
    ("reconcile kustomization", 1, &["-n", "--with-source"]),
];

/// As `git VERB -h` has it.
const GIT: &[Verb] = &[
    ("revert", 0, &["-m"]),
    ("show", 1, &[]),
    ("merge", 0, &["--no-ff"]),
    ("push", 0, &["--force-with-lease"]),
    ("fetch", 0, &["--unshallow", "--all"]),
    ("fsck", 0, &["--full"]),
    ("config", 2, &["--global", "--add"]),
    ("help", 1, &[]),
    ("status", 0, &[]),
    ("add", 1, &["-A"]),
    ("commit", 0, &["-m"]),
    ("branch", 0, &["-f"]),
    ("update-ref", 2, &[]),
    ("ls-remote", 0, &[]),
    ("log", 0, &[]),
    ("check-ref-format", 0, &["--branch"]),
    ("clone", 1, &["--bare"]),
    ("switch", 1, &[]),
    ("checkout", 1, &["--"]),
    ("mv", 0, &[]),
];

/// What reads like a command and tells what is done, or where a rule is from.
const NO_ADVICE: &[&str] = &["git ls-remote of", "clusterctl upgrade apply", "git fetch of", "git push of"];

/// A text of the program: the words of `format!` that stand for something are `x`.
struct Text {
    file: PathBuf,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The sources of what is shipped.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = ["reconciler", "overlays", "bundles"].map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let is_of_tests = ["tests", "target", "fuzz", "benches", "simulator", "interleavings"]
                .contains(&name.as_str())
                || ["tests.rs", "_tests.rs", "laboratory.rs", "testing.rs", "specimen.rs", "properties.rs"]
                    .iter()
                    .any(|end| name.ends_with(end));
            match (entry.file_type().unwrap().is_dir(), is_of_tests) {
                (_, true) => {}
                (true, false) => folders.push(path),
                (false, false) if name.ends_with(".rs") => found.push(path),
                (false, false) => {}
            }
        }
    }
    found.sort();
    found
}

/// The texts in these tokens, without documentation and tests.
fn texts(tokens: TokenStream, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                let inner = tokens.next_if(|next| matches!(next, TokenTree::Punct(sign) if sign.as_char() == '!'));
                let Some(TokenTree::Group(attribute)) = tokens.next_if(|next| matches!(next, TokenTree::Group(_)))
                else {
                    continue;
                };
                let said = attribute.stream().to_string().replace(' ', "");
                if said.starts_with("cfg(test)") && inner.is_none() {
                    let is_end = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(sign) => sign.as_char() == ';',
                        _ => false,
                    };
                    let _ = tokens.find(is_end);
                } else if !said.starts_with("doc=") {
                    texts(attribute.stream(), found);
                }
            }
            TokenTree::Group(group) => texts(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    found.push(filled(&text.value()));
                }
            }
            _ => {}
        }
    }
}

/// A format with something in the place of its arguments.
fn filled(format: &str) -> String {
    let (mut text, mut depth) = (String::new(), 0);
    let mut signs = format.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '{' if depth == 0 && signs.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if depth == 0 && signs.next_if_eq(&'}').is_some() => text.push('}'),
            '{' => {
                depth += 1;
                text.push('x');
            }
            '}' => {
                depth -= 1;
                // Right before a word it is something that may be left out, with a blank of its own.
                if depth == 0 && text.ends_with(" x") && signs.peek().is_some_and(char::is_ascii_lowercase) {
                    text.pop();
                }
            }
            _ if depth > 0 => {}
            other => text.push(other),
        }
    }
    text
}

fn programs() -> [&'static str; 4] {
    ["stepgate", "kubectl", "flux", "git"]
}

/// What stands in backticks, and the text without it.
fn spans(text: &str) -> (Vec<&str>, String) {
    let mut parts = text.split('`');
    let mut rest = parts.next().unwrap_or_default().to_owned();
    let mut spans = Vec::new();
    while let (Some(span), Some(after)) = (parts.next(), parts.next()) {
        spans.push(span);
        let _ = write!(rest, "\u{0}{after}");
    }
    (spans, rest)
}

/// The words of a command line, as a shell splits them.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for sign in command.chars() {
        match (sign, quote) {
            ('\'' | '"', None) => quote = Some(sign),
            (sign, Some(open)) if sign == open => quote = None,
            (' ' | '\n', None) => words.push(String::new()),
            _ => words.last_mut().unwrap().push(sign),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What is wrong with a command that is advised; `is_whole` where it is all of the text.
fn objection(command: &str, is_whole: bool) -> Option<String> {
    let words = words(command);
    let (program, arguments) = words.split_first()?;
    match program.as_str() {
        "stepgate" => {
            // Where a document says COMMIT, people write one.
            let filled = words.iter().map(|word| word.replace("COMMIT", &"a".repeat(40)));
            let error = Cli::command().try_get_matches_from(filled).err()?;
            let names_a_verb = !is_whole && arguments.len() <= 2 && !arguments.iter().any(|word| word.starts_with('-'));
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
                ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    if names_a_verb =>
                {
                    None
                }
                _ => Some(error.to_string()),
            }
        }
        "kubectl" => other(KUBECTL, arguments, is_whole),
        "flux" => other(FLUX, arguments, is_whole),
        "git" => other(GIT, arguments, is_whole),
        _ => None,
    }
}

fn other(verbs: &[Verb], arguments: &[String], is_whole: bool) -> Option<String> {
    let line = arguments.join(" ");
    let known = verbs.iter().find(|(verb, ..)| line == *verb || line.starts_with(&format!("{verb} ")));
    let Some((verb, least, flags)) = known else { return Some(format!("no such verb: {line}")) };
    let rest = arguments.get(verb.split(' ').count()..).unwrap_or_default();
    let unknown = rest.iter().filter(|word| word.starts_with('-') && word.len() > 1);
    if let Some(flag) = unknown.map(|word| word.split('=').next().unwrap()).find(|flag| !flags.contains(flag)) {
        return Some(format!("{verb} has no flag {flag}"));
    }
    let takes_value =
        ["-n", "-l", "-o", "-p", "-f", "-m", "--type", "--subresource", "--field-selector", "--raw", "--tail"];
    let mut names = 0;
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        if takes_value.contains(&word.as_str()) {
            if rest.next().is_none() {
                return Some(format!("{word} has no value"));
            }
        } else if !word.starts_with('-') {
            names += 1;
        }
    }
    let is_mention = !is_whole && arguments.len() == verb.split(' ').count();
    (names < *least && !is_mention).then(|| format!("{verb} takes {least} names, and has {names}"))
}

/// Whether a text begins with a command, or has one in it.
fn is_command(text: &str) -> bool {
    let mut words = text.split([' ', '\n']);
    let (Some(program), Some(verb)) = (words.next(), words.next()) else { return false };
    let verb = verb.trim_end_matches([',', ':', ';', '.', ')']);
    let known = |verbs: &[Verb]| verbs.iter().any(|(known, ..)| known.split(' ').next() == Some(verb));
    match program {
        "stepgate" => Cli::command().get_subcommands().any(|known| known.get_name() == verb),
        "kubectl" => known(KUBECTL),
        "flux" => known(FLUX),
        "git" => known(GIT),
        _ => false,
    }
}

/// What is wrong with the commands of one text, and how many it has.
fn check(text: &str) -> (usize, Vec<String>) {
    let (spans, rest) = spans(text);
    let (mut count, mut objections) = (0, Vec::new());
    for span in spans {
        let is_ours = programs().iter().any(|program| span.starts_with(&format!("{program} ")));
        if is_ours && !NO_ADVICE.iter().any(|known| span.starts_with(known)) {
            count += 1;
            objections.extend(objection(span, span.len() + 2 == text.len()).map(|why| format!("`{span}`: {why}")));
        }
    }
    let begins = |program: &str| rest.match_indices(program).map(|(at, _)| at).collect::<Vec<_>>();
    for at in programs().iter().flat_map(|program| begins(program)) {
        let (before, after) = rest.split_at(at);
        let is_word = before.trim().is_empty()
            || before.chars().next_back().is_none_or(|sign| sign == ' ' || sign == '(' || sign == '\n');
        if !is_word || !is_command(after) || NO_ADVICE.iter().any(|known| after.starts_with(known)) {
            continue;
        }
        count += 1;
        // By itself it is a command from its first word to its last.
        let whole =
            if before.trim().is_empty() { objection(after, true) } else { Some("put it in backticks".to_owned()) };
        objections.extend(whole.map(|why| format!("{after}: {why}")));
    }
    (count, objections)
}

#[test]
fn every_command_that_is_advised_exists_and_takes_what_it_is_given() {
    let mut all = Vec::new();
    for file in sources() {
        let source = std::fs::read_to_string(&file).unwrap();
        let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut found = Vec::new();
        texts(tokens, &mut found);
        all.extend(found.into_iter().map(|text| Text { file: file.clone(), text }));
    }
    let (mut count, mut wrong) = (0, String::new());
    for Text { file, text } in &all {
        let (found, objections) = check(text);
        count += found;
        for objection in objections {
            let _ = writeln!(wrong, "{}: {objection}\n", file.strip_prefix(root()).unwrap().display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 60, "the texts were read: {count} commands of {} texts", all.len());
}

#[test]
fn the_commands_of_the_readme_exist_and_take_what_they_are_given() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (mut count, mut wrong, mut is_shell) = (0, String::new(), false);
    for line in readme.lines() {
        match line.strip_prefix("```") {
            Some(language) => is_shell = language == "sh",
            None if is_shell => {
                let command =
                    line.split(" #").next().unwrap_or_default().split(" | ").next().unwrap_or_default().trim();
                if command.starts_with("stepgate ") {
                    count += 1;
                    let _ = objection(command, true).map(|why| writeln!(wrong, "{command}: {why}"));
                }
            }
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 8, "{count} commands");
}

#[test]
fn what_no_program_knows_is_objected_to() {
    for (text, expected) in [
        ("flux reconcile source git -n flux-system --all", "no flag --all"),
        ("flux reconcile source git -n flux-system", "takes 1 names"),
        ("flux resume sources git a -n b", "no such verb"),
        ("run stepgate bundle fetch", "put it in backticks"),
        ("`stepgate resume`", "required arguments"),
        ("`stepgate resume x --now`", "unexpected argument"),
        ("`stepgate roll back`", "unrecognized subcommand"),
        ("see `kubectl explain`", "no such verb"),
        ("kubectl describe node", "takes 2 names"),
    ] {
        let (_, objections) = check(text);
        assert!(objections.iter().any(|objection| objection.contains(expected)), "{text}: {objections:?}");
    }
    for text in [
        "`stepgate resume` ends it",
        "stepgate does not force",
        "kubectl patch x x -n x --type merge -p '{\"spec\":{\"paused\":false}}'",
        "`flux reconcile source git flux-system -n flux-system`",
    ] {
        assert_eq!(check(text).1, [""; 0], "{text}");
    }
}
