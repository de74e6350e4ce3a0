//! Every command that the program advises: it exists, and takes what is given to it.
//!
//! All texts of the program are read off its sources. A command stands in backticks, or is a text by itself. `stepgate` commands are parsed by the
//! program's own command line; those of other programs are compared with the help of these: git's
//! own, and what is recorded of kubectl and flux. Where these two are built, the record is compared
//! with them, and each command is run as far as asking a server that is not there.

mod help;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use stepgate::cli::Cli;

use self::help::{Manual, Verb};

/// What is known of the programs whose commands are advised.
static MANUALS: LazyLock<[Manual; 3]> = LazyLock::new(|| ["kubectl", "flux", "git"].map(Manual::of));

fn manual(program: &str) -> Option<&'static Manual> {
    MANUALS.iter().find(|manual| manual.program == program)
}

/// How many names advice about one object has. Help does not tell: a kind alone stands for all
/// objects of it.
const NAMES: &[(&str, &str, usize)] = &[
    ("kubectl", "describe", 2),
    ("kubectl", "patch", 2),
    ("kubectl", "edit", 2),
    ("kubectl", "delete", 2),
    ("kubectl", "rollout resume", 2),
    ("kubectl", "annotate", 3),
    ("kubectl", "logs", 1),
    ("flux", "resume", 1),
    ("flux", "reconcile", 1),
];

/// What reads like a command and tells what is done, or where a rule is from.
const NO_ADVICE: &[&str] =
    &["git ls-remote of", "clusterctl upgrade apply", "git fetch of", "git push of", "git update-server-info"];

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
        other => manual(other).and_then(|manual| self::other(manual, arguments, is_whole)),
    }
}

fn other(manual: &Manual, arguments: &[String], is_whole: bool) -> Option<String> {
    // Git in another folder.
    if let ("git", [flag, _, rest @ ..]) = (manual.program, arguments)
        && flag == "-C"
    {
        return other(manual, rest, is_whole);
    }
    // Git or OCI.
    let sources = arguments.iter().position(|word| word == "source").filter(|_| manual.program == "flux");
    if let Some(kind) = sources.map(|at| at + 1).filter(|at| arguments.get(*at).is_some_and(|word| word == "x")) {
        return ["git", "oci"].iter().find_map(|name| {
            let mut named = arguments.to_vec();
            named[kind] = (*name).to_owned();
            other(manual, &named, is_whole)
        });
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((count, verb)) = manual.verb(&words) else { return Some(format!("no such verb: {}", words.join(" "))) };
    let (name, rest) = (words[..count].join(" "), &words[count..]);
    let is_flag = |word: &&&str| word.starts_with('-') && !["-", "--"].contains(*word);
    let flags: Vec<&str> = rest.iter().filter(is_flag).map(|word| word.split('=').next().unwrap()).collect();
    if let Some(flag) = flags.iter().find(|flag| !verb.takes(manual.program, flag)) {
        return Some(format!("{name} has no flag {flag}"));
    }
    let mut names = 0;
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        if verb.flags.get(*word) == Some(&true) {
            if rest.next().is_none() {
                return Some(format!("{word} has no value"));
            }
        } else if !word.starts_with('-') {
            names += 1;
        }
    }
    let of_use = NAMES.iter().find(|(program, known, _)| *program == manual.program && name.starts_with(known));
    let least = verb.least(manual.program, &flags).max(of_use.map_or(0, |(_, _, least)| *least));
    let is_mention = !is_whole && words.len() == count;
    (names < least && !is_mention).then(|| format!("{name} takes {least} names, and has {names}"))
}

/// Whether a text begins with a command, or has one in it.
fn is_command(text: &str) -> bool {
    let mut words = text.split([' ', '\n']);
    let (Some(program), Some(verb)) = (words.next(), words.next()) else { return false };
    let verb = verb.trim_end_matches([',', ':', ';', '.', ')']);
    match program {
        "stepgate" => Cli::command().get_subcommands().any(|known| known.get_name() == verb),
        other => manual(other).is_some_and(|manual| manual.begins(verb)),
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

/// All texts of the program.
fn all_texts() -> Vec<Text> {
    let mut all = Vec::new();
    for file in sources() {
        let source = std::fs::read_to_string(&file).unwrap();
        let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut found = Vec::new();
        texts(tokens, &mut found);
        all.extend(found.into_iter().map(|text| Text { file: file.clone(), text }));
    }
    all
}

#[test]
fn every_command_that_is_advised_exists_and_takes_what_it_is_given() {
    let all = all_texts();
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
        ("see `kubectl explode`", "no such verb"),
        ("see `git undo`", "no such verb"),
        ("git push --with-lease", "no flag --with-lease"),
        ("git revert", "takes 1 names"),
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

/// The arguments of every command of a program that is advised; a source of Flux as git and as OCI.
fn advised(program: &str) -> Vec<Vec<String>> {
    let begins = format!("{program} ");
    let mut found = Vec::new();
    for Text { text, .. } in all_texts() {
        let (spans, rest) = spans(&text);
        let whole = Some(rest.trim()).filter(|rest| !rest.contains('\u{0}'));
        for command in spans.into_iter().chain(whole).filter(|command| command.starts_with(&begins)) {
            for kind in ["git", "oci"] {
                let mut arguments = words(command).split_off(1);
                if let Some(at) = arguments.iter().position(|word| word == "source").map(|at| at + 1)
                    && program == "flux"
                    && arguments.get(at).is_some_and(|word| word == "x")
                {
                    kind.clone_into(&mut arguments[at]);
                }
                // Whatever is filled in here is a number.
                for argument in arguments.iter_mut().filter(|argument| *argument == "--replicas=x") {
                    "--replicas=3".clone_into(argument);
                }
                if !found.contains(&arguments) {
                    found.push(arguments);
                }
            }
        }
    }
    found
}

/// `tests/run` builds kubectl; Flux's command line takes minutes, and is built on demand.
fn skip_program(program: &str) {
    if program == "flux" {
        skip::on_demand("on demand: tests/servers/build target/servers flux");
    } else {
        skip::missing(format!("{program} is not built (tests/servers/build target/servers kubernetes)"));
    }
}

#[test]
fn the_recorded_help_is_what_the_programs_say() {
    for program in ["kubectl", "flux"] {
        let Some(path) = help::built(program) else {
            skip_program(program);
            continue;
        };
        let mut verbs: BTreeMap<String, Verb> = BTreeMap::new();
        for arguments in advised(program) {
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            verbs.extend(help::asked(program, &path, &words));
        }
        if std::env::var_os("STEPGATE_RECORD").is_some() {
            let text = serde_json::to_string_pretty(&verbs).unwrap();
            std::fs::write(Manual::file(program), text + "\n").unwrap();
            continue;
        }
        assert_eq!(&verbs, Manual::of(program).recorded(), "record it anew with STEPGATE_RECORD=1");
    }
}

#[test]
fn kubectl_and_flux_accept_what_is_advised() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let nobody = "{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], \
         users: [{name: a, user: {token: x}}], contexts: [{name: a, context: {cluster: a, user: a}}]}";
    std::fs::write(&kubeconfig, nobody).unwrap();
    // A file that a command may name.
    std::fs::write(folder.path().join("x"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}").unwrap();
    for program in ["kubectl", "flux"] {
        let Some(path) = help::built(program) else {
            skip_program(program);
            continue;
        };
        for arguments in advised(program) {
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let is_mention =
                manual(program).and_then(|it| it.verb(&words)).is_none_or(|(count, _)| count == words.len());
            if is_mention {
                continue;
            }
            let mut command = Command::new(&path);
            command.args(&arguments).current_dir(&folder).env("KUBECONFIG", &kubeconfig).env("HOME", folder.path());
            let output = command.output().unwrap();
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            // Whoever has nothing to object to asks the server.
            let has_asked = said.contains("connection refused") || said.contains("127.0.0.1:1 was refused");
            assert!(has_asked, "{program} {}: {said}", arguments.join(" "));
        }
    }
}
