//! What Flux leaves out of a source: its defaults, `.sourceignore` files and `spec.ignore`, in the manner of gitignore.

use crate::{EntryKind, FileEntry, Files};
use domain::RepoPath;

/// The patterns that Flux begins with.
const DEFAULTS: &str = ".git/\n.gitignore\n.gitmodules\n.gitattributes\n*.jpg\n*.jpeg\n*.gif\n*.png\n*.wmv\n*.flv\n*.tar.gz\n*.zip\n\
                        .github/\n.circleci/\n.travis.yml\n.gitlab-ci.yml\nappveyor.yml\n.drone.yml\ncloudbuild.yaml\n\
                        codeship-services.yml\ncodeship-steps.yml\n**/.goreleaser.yml\n**/.sops.yaml\n**/.flux.yaml\n";

/// The name of a file of patterns.
const FILE: &str = ".sourceignore";

/// Patterns, weak to strong.
#[derive(Default)]
pub(super) struct Ignore {
    patterns: Vec<Pattern>,
}

struct Pattern {
    /// The folder that it is relative to.
    folder: Vec<String>,
    segments: Vec<Segment>,
    /// It may match below any folder.
    floats: bool,
    only_folders: bool,
    takes_back: bool,
}

impl Ignore {
    /// The patterns of the files among `entries`, then those of `given`, as Flux orders them.
    pub fn read(files: &dyn Files, entries: &[FileEntry], given: &[String]) -> Self {
        let mut ignore = Self::default();
        ignore.add("", DEFAULTS);
        let is_file = |entry: &&FileEntry| entry.kind == EntryKind::File && entry.path.file_name() == FILE;
        for entry in entries.iter().filter(is_file).filter(|entry| entry.size < 1 << 20) {
            let bytes = files.read(&entry.path).unwrap_or_default();
            let folder = entry.path.parent().map(|parent| parent.to_string()).unwrap_or_default();
            ignore.add(&folder, &String::from_utf8_lossy(&bytes));
        }
        given.iter().for_each(|text| ignore.add("", text));
        ignore
    }

    fn add(&mut self, folder: &str, text: &str) {
        let folder: Vec<String> = folder.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let (takes_back, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
            let (only_folders, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
            let segments: Vec<Segment> = line.trim_start_matches('/').split('/').map(Segment::new).collect();
            let floats = segments.len() == 1 && !line.starts_with('/');
            self.patterns.push(Pattern { folder: folder.clone(), segments, floats, only_folders, takes_back });
        }
    }

    /// Whether a file is no part of the source.
    pub fn leaves_out(&self, path: &RepoPath) -> bool {
        let segments: Vec<&str> = path.segments().collect();
        let last = self.patterns.iter().rev().find(|pattern| pattern.matches(&segments));
        last.is_some_and(|pattern| !pattern.takes_back)
    }
}

impl Pattern {
    /// Whether it matches the file or a folder that holds it.
    fn matches(&self, path: &[&str]) -> bool {
        let inside = path.len() > self.folder.len() && path.iter().zip(&self.folder).all(|(left, right)| left == right);
        let Some(rest) = path.get(self.folder.len()..).filter(|_| inside) else { return false };
        let ends = 1..=if self.only_folders { rest.len() - 1 } else { rest.len() };
        ends.into_iter().any(|end| {
            let head = rest.get(..end).unwrap_or_default();
            if self.floats {
                let name = self.segments.first();
                return head.last().zip(name).is_some_and(|(segment, name)| name.fits(segment));
            }
            fits_path(&self.segments, head)
        })
    }
}

fn fits_path(pattern: &[Segment], path: &[&str]) -> bool {
    let is_any = |segment: &Segment| matches!(segment, Segment::Any);
    // What `folder/**` means is in the folder, and not the folder.
    let named = pattern.iter().filter(|segment| !is_any(segment)).count();
    let least = named + usize::from(pattern.last().is_some_and(is_any));
    path.len() >= least && run(pattern, path, is_any, |segment, name| segment.fits(name))
}

/// One name of a pattern.
enum Segment {
    /// `**`: any number of folders.
    Any,
    /// This very name.
    Name(String),
    /// A name with `*`, `?` or `[…]`.
    Glob(Vec<Token>),
}

impl Segment {
    fn new(text: &str) -> Self {
        match text {
            "**" => Self::Any,
            text if text.contains(['*', '?', '[', '\\']) => Self::Glob(tokens(text)),
            text => Self::Name(text.to_owned()),
        }
    }

    fn fits(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(text) => text == name,
            Self::Glob(tokens) => fits(tokens, name),
        }
    }
}

/// One place of a name: any text, any character, one of several, or this one.
enum Token {
    Any,
    One,
    Class(Vec<char>, bool),
    This(char),
}

/// `*`, `?` and `[…]` within one segment.
fn fits(tokens: &[Token], name: &str) -> bool {
    let characters: Vec<char> = name.chars().collect();
    run(
        tokens,
        &characters,
        |token| matches!(token, Token::Any),
        |token, character| match token {
            Token::Any | Token::One => true,
            Token::This(this) => this == character,
            Token::Class(class, negated) => {
                let mut ranges = class.windows(3);
                let in_range =
                    ranges.any(|window| matches!(window, [low, '-', high] if (*low..=*high).contains(character)));
                (in_range || class.contains(character)) != *negated
            }
        },
    )
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::This(characters.next().unwrap_or('\\')),
            '[' => match characters.as_str().split_once(']') {
                Some((class, rest)) => {
                    let (negated, class) = class.strip_prefix(['!', '^']).map_or((false, class), |class| (true, class));
                    let token = Token::Class(class.chars().collect(), negated);
                    characters = rest.chars();
                    token
                }
                None => Token::This('['),
            },
            other => Token::This(other),
        });
    }
    tokens
}

/// Whether tokens take all items, where some tokens take any number of them. Its work is the product of both lengths.
fn run<T, I>(tokens: &[T], items: &[I], takes_any: impl Fn(&T) -> bool, fits: impl Fn(&T, &I) -> bool) -> bool {
    let mut reached: Vec<bool> = std::iter::once(true).chain(items.iter().map(|_| false)).collect();
    for token in tokens {
        let mut next = Vec::with_capacity(reached.len());
        let mut before = false;
        for (at, is_reached) in reached.iter().enumerate() {
            let here = if takes_any(token) {
                *is_reached || next.last().copied().unwrap_or(false)
            } else {
                before && at.checked_sub(1).and_then(|at| items.get(at)).is_some_and(|item| fits(token, item))
            };
            next.push(here);
            before = *is_reached;
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::memory;

    #[test]
    fn files_are_left_out_as_flux_leaves_them_out() {
        let files = memory(&[
            (".sourceignore", "/docs\n!docs/kept.yaml\n*.bak.yaml\n# note\napps/**/draft/\n"),
            ("clusters/.sourceignore", "old/\n/top.yaml\n"),
        ]);
        let ignore = Ignore::read(&files, &files.paths(), &["legacy/".to_owned()]);
        for (path, expected) in [
            ("clusters/a.yaml", false),
            (".github/workflows/ci.yaml", true),
            ("team/.sops.yaml", true),
            ("docs/a.yaml", true),
            ("docs/kept.yaml", false),
            ("team/docs/a.yaml", false),
            ("x.bak.yaml", true),
            ("a/b/x.bak.yaml", true),
            ("apps/a/b/draft/x.yaml", true),
            ("apps/draft", false),
            ("clusters/a/old/x.yaml", true),
            ("old/x.yaml", false),
            ("clusters/top.yaml", true),
            ("clusters/a/top.yaml", false),
            ("legacy/x.yaml", true),
        ] {
            assert_eq!(ignore.leaves_out(&RepoPath::new(path).unwrap()), expected, "{path}");
        }
    }
}
