//! What other programs say of their own verbs: git is asked on every machine, of kubectl and flux
//! it is recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use regex::Regex;
use serde::{Deserialize, Serialize};

/// How many words a verb has, at most.
const LONGEST: usize = 3;

/// A verb, by the help of its program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verb {
    /// The lines that say how it is used.
    pub usage: Vec<String>,
    /// Its flags, and whether each takes a value.
    pub flags: BTreeMap<String, bool>,
}

impl Verb {
    /// Whether it is a name of verbs, and none itself.
    fn is_group(&self) -> bool {
        self.usage.iter().any(|line| {
            line.ends_with("[command]") || line.ends_with("SUBCOMMAND [options]") || line.ends_with("SUBCOMMAND")
        })
    }

    /// Whether it knows a flag. Git lets each be negated.
    pub fn takes(&self, program: &str, flag: &str) -> bool {
        let negated = flag.strip_prefix("--no-").filter(|_| program == "git").map(|name| format!("--{name}"));
        self.flags.contains_key(flag) || negated.is_some_and(|flag| self.flags.contains_key(&flag))
    }

    /// How many names it needs with these flags, by those of its usages that have no other flag.
    pub fn least(&self, program: &str, flags: &[&str]) -> usize {
        // What stands in brackets may be left out, and of what stands in parentheses one is taken.
        static ONE: LazyLock<Regex> = LazyLock::new(|| expression(r"\(([^()]*)\)"));
        let chosen = |found: &regex::Captures<'_>| {
            let of = found.get(1).map_or("", |group| group.as_str()).split('|').map(str::trim);
            of.clone().find(|one| flags.contains(one)).or_else(|| of.clone().next()).unwrap_or_default().to_owned()
        };
        let required = self.usage.iter().map(|line| ONE.replace_all(&without_brackets(line), chosen).into_owned());
        let fits = |line: &String| {
            line.split_whitespace().filter(|word| word.starts_with('-')).all(|word| flags.contains(&word))
        };
        let names = |line: String| line.split_whitespace().filter(|word| word.starts_with('<')).count();
        if program == "git" { required.filter(fits).map(names).min().unwrap_or_default() } else { 0 }
    }
}

fn without_brackets(line: &str) -> String {
    let (mut text, mut depth) = (String::new(), 0_usize);
    for sign in line.chars() {
        match sign {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            other if depth == 0 => text.push(other),
            _ => {}
        }
    }
    text
}

fn expression(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// Usage and flags, as git, cobra (flux) and kubectl print them.
fn read(program: &str, help: &str) -> Verb {
    // kubectl: `-n, --namespace='':`.
    static KUBECTL: LazyLock<Regex> = LazyLock::new(|| expression(r"(?m)^\s+(?:(-\w), )?(--[\w-]+)=(.*):$"));
    // flux: `-n, --namespace string   if present, …`.
    static COBRA: LazyLock<Regex> =
        LazyLock::new(|| expression(r"(?m)^\s+(?:(-\w), )?(--[\w-]+)(?: (\S+))?(?:\s{2,}.*)?$"));
    // git: `-m, --[no-]mainline <parent>`, and the usage: `--branch <name>`.
    static GIT: LazyLock<Regex> = LazyLock::new(|| {
        expression(r"(?m)(?:^\s+|[\[\s|])(?:(-[A-Za-z])(?:, |\b))?(--(?:\[no-\])?[a-z][a-z-]*)?( ?=?<)?")
    });
    let mut verb = Verb::default();
    let mut lines = help.lines().skip_while(|line| !line.to_lowercase().starts_with("usage:"));
    let first = lines.next().unwrap_or_default().split_once(':').map_or("", |(_, rest)| rest.trim());
    let rest = lines.map(str::trim).map_while(|line| {
        let line = line.strip_prefix("or: ").unwrap_or(line);
        line.starts_with(program).then_some(line)
    });
    verb.usage = std::iter::once(first).filter(|line| !line.is_empty()).chain(rest).map(str::to_owned).collect();
    let pattern = match program {
        "kubectl" => &*KUBECTL,
        "git" => &*GIT,
        _ => &*COBRA,
    };
    for found in pattern.captures_iter(help) {
        let value = found.get(3).map(|value| value.as_str());
        let takes_value = match program {
            "kubectl" => value.is_some_and(|value| !["true", "false"].contains(&value)),
            _ => value.is_some(),
        };
        for name in [found.get(1), found.get(2)].into_iter().flatten() {
            let name = name.as_str().replace("[no-]", "");
            let known = verb.flags.entry(name).or_default();
            *known = *known || takes_value;
        }
    }
    verb
}

/// Where programs are found that tests have built.
pub fn built(program: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("STEPGATE_SERVERS").map_or_else(|| super::root().join("target/servers"), PathBuf::from);
    Some(folder.join(program)).filter(|path| path.is_file())
}

/// What a program prints; nothing is reached by it.
pub fn printed(program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", "/nonexistent/kubeconfig").env("HOME", "/nonexistent").env("LC_ALL", "C");
    let output = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The verb that these words begin with, by the program itself: its words, and its help.
pub fn asked(program: &str, path: &Path, words: &[&str]) -> Option<(String, Verb)> {
    if program == "git" {
        let first = words.first()?;
        let help = printed(path, &[first, "-h"]);
        let mut verb = read(program, &help);
        // `git show -h` is that of `git log`.
        verb.usage.retain(|line| line.starts_with(&format!("git {first}")));
        return (!help.contains("is not a git command")).then(|| ((*first).to_owned(), verb));
    }
    let names: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).take(LONGEST).collect();
    for count in 1..=names.len() {
        let verb = read(program, &printed(path, &[names.get(..count)?, &["--help"]].concat()));
        let said = verb.usage.first()?;
        let is_literal =
            |word: &&str| word.chars().all(|sign| sign.is_ascii_lowercase() || sign == '-') && !word.starts_with('-');
        let depth = said.split_whitespace().skip(1).take_while(is_literal).count();
        if depth < count {
            return None;
        }
        if !verb.is_group() {
            let global =
                if program == "kubectl" { read(program, &printed(path, &["options"])) } else { Verb::default() };
            let flags = global.flags.into_iter().chain(verb.flags).collect();
            return Some((names.get(..count)?.join(" "), Verb { flags, ..verb }));
        }
    }
    None
}

/// What is known of the verbs of one program.
pub struct Manual {
    pub program: &'static str,
    /// Of those that are advised, as it was recorded.
    recorded: BTreeMap<String, Verb>,
    /// Of git, as it was asked.
    asked: Mutex<BTreeMap<String, Option<(String, Verb)>>>,
}

impl Manual {
    pub fn of(program: &'static str) -> Self {
        let text =
            if program == "git" { "{}".to_owned() } else { std::fs::read_to_string(Self::file(program)).unwrap() };
        let recorded = serde_json::from_str(&text).unwrap();
        Self { program, recorded, asked: Mutex::default() }
    }

    /// The record of a program's help.
    pub fn file(program: &str) -> PathBuf {
        super::root().join("fixtures/advice").join(format!("{program}.json"))
    }

    pub fn recorded(&self) -> &BTreeMap<String, Verb> {
        &self.recorded
    }

    /// The verb that these words begin with, and how many of them it has.
    pub fn verb(&self, words: &[&str]) -> Option<(usize, Verb)> {
        if self.program == "git" {
            let first = (*words.first()?).to_owned();
            let mut asked = self.asked.lock().unwrap();
            let known = asked.entry(first).or_insert_with(|| asked_of_git(words));
            return known.clone().map(|(_, verb)| (1, verb));
        }
        (1..=LONGEST.min(words.len()))
            .find_map(|count| Some((count, self.recorded.get(&words.get(..count)?.join(" "))?.clone())))
    }

    /// Whether some verb begins with this word.
    pub fn begins(&self, word: &str) -> bool {
        match self.program {
            "git" => !word.starts_with('-') && self.verb(&[word]).is_some(),
            _ => self.recorded.keys().any(|known| known.split(' ').next() == Some(word)),
        }
    }
}

fn asked_of_git(words: &[&str]) -> Option<(String, Verb)> {
    asked("git", Path::new("git"), words)
}
